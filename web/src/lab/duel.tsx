/** Two tabs, one seat: both click, exactly one wins, and the page says what the other was told. */

import { milliseconds, time } from "../format";
import { eventPath } from "../router";
import { t } from "../strings";
import { Button } from "../ui/button";
import { SelectField } from "../ui/field";
import { type Ending, endingOf, type Pane } from "./fight";
import { Sign } from "./outcome";
import { type Duel as Fight, useDuel } from "./use_duel";

const words = t.lab.duel;

export function Duel() {
  const fight = useDuel();
  return (
    <section class="card duel" aria-labelledby="lab-duel">
      <h2 id="lab-duel">{words.title}</h2>
      <p class="soft lab-lead">{words.lead}</p>
      {fight.trouble && (
        <p class="notice bad" role="alert">
          {fight.trouble}
        </p>
      )}
      {!fight.events && !fight.trouble && <p class="loading">{t.common.loading}</p>}
      {fight.events && !fight.event && (
        <p>
          {words.none} <a href="/design">{words.design}</a>
        </p>
      )}
      {fight.event && <Ring fight={fight} />}
    </section>
  );
}

function Ring({ fight }: { fight: Fight }) {
  const ready = fight.seat !== null && fight.buyers.length === 2;
  const fresh = fight.panes.every((pane) => pane.kind === "ready");
  const asking = fight.panes.some((pane) => pane.kind === "asking");
  const over = fight.panes.every((pane) => pane.kind !== "ready" && pane.kind !== "asking");
  const ending = endingOf(fight.panes);
  const [one, two, both] = fight.score;
  const rounds = one + two + both;
  return (
    <>
      <div class="duel-choice">
        <SelectField
          label={words.event}
          value={fight.event ?? ""}
          choices={(fight.events ?? []).map((each) => ({ value: each.id, label: each.name }))}
          onInput={fight.choose}
        />
        <p class="duel-seat numbers" data-testid="duel-seat">
          {fight.seat && t.map.place(fight.seat.section, fight.seat.row, fight.seat.number)}
        </p>
        <Button onClick={fight.another} disabled={asking || !ready}>
          {words.other}
        </Button>
      </div>
      <div class="ring">
        <Tab nth={0} fight={fight} ready={ready} />
        <div class="ring-middle">
          {over ? (
            <Button kind="primary" onClick={fight.again}>
              {words.again}
            </Button>
          ) : (
            <Button kind="primary" onClick={fight.both} busy={asking} disabled={!ready || !fresh}>
              {words.both}
            </Button>
          )}
        </div>
        <Tab nth={1} fight={fight} ready={ready} />
      </div>
      <p
        class={`duel-verdict ${ending && ending.kind === "both" ? "bad" : ""}`}
        role="status"
        data-testid="duel-verdict"
      >
        {ending && said(ending)}
        {fight.released && ` (${words.released})`}
      </p>
      <p class="hint numbers">
        {rounds > 0 && words.score(rounds, one, two, both)}{" "}
        <a href={eventPath(fight.event!)} target="_blank" rel="noreferrer">
          {words.realTabs}
        </a>
      </p>
    </>
  );
}

function said(ending: Ending): string {
  switch (ending.kind) {
    case "one":
      return words.verdict(words.tab(ending.winner + 1), words.tab(2 - ending.winner));
    case "first":
      return words.first(words.tab(ending.winner + 1));
    case "neither":
      return words.neither;
    case "both":
      return words.both_won;
    case "unanswered":
      return words.unanswered;
  }
}

const KIND: Record<Pane["kind"], string> = {
  ready: "",
  asking: "",
  won: "good",
  lost: "bad",
  failed: "warn",
};

function Tab({ nth, fight, ready }: { nth: 0 | 1; fight: Fight; ready: boolean }) {
  const pane = fight.panes[nth];
  const buyer = fight.buyers[nth]?.buyer ?? "";
  return (
    <article
      class={`tab ${pane.kind}`}
      aria-label={words.tab(nth + 1)}
      data-testid={`tab-${nth + 1}`}
    >
      <header>
        <h3>{words.tab(nth + 1)}</h3>
        <span class="mono soft">{words.buyer(buyer.slice(-6))}</span>
      </header>
      <div class="tab-body">
        {KIND[pane.kind] ? <Sign kind={KIND[pane.kind]} size={40} /> : <FreeSeat />}
        <div>
          <p class="tab-told">{told(pane)}</p>
          {"took_ms" in pane && (
            <p class="hint numbers">
              {pane.kind === "lost" ? `409 ${pane.reason} · ` : "201 · "}
              {words.answeredIn(milliseconds(pane.took_ms))}
            </p>
          )}
        </div>
      </div>
      <Button
        onClick={() => fight.click(nth)}
        busy={pane.kind === "asking"}
        disabled={!ready || pane.kind !== "ready"}
        label={`${words.tab(nth + 1)}: ${words.click}`}
      >
        {words.click}
      </Button>
    </article>
  );
}

function told(pane: Pane): string {
  switch (pane.kind) {
    case "ready":
      return words.ready;
    case "asking":
      return words.asking;
    case "won":
      return words.won(time(pane.until));
    case "lost":
      return words.lost(pane.reason === "taken" ? words.lostTaken : pane.detail);
    case "failed":
      return words.failed(pane.detail);
  }
}

function FreeSeat() {
  return (
    <svg class="free-seat" viewBox="0 0 24 24" width="40" height="40" aria-hidden="true">
      <circle cx="12" cy="12" r="10" />
    </svg>
  );
}
