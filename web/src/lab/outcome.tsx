/** The run that is looked at: how it goes, what came of it, or why there is nothing. */

import { milliseconds, number } from "../format";
import { t } from "../strings";
import { type Load, loads, type Verdict, verdict } from "./figures";
import { Latencies } from "./latencies";
import type { Result, Run } from "./runs";
import type { Lab } from "./use_runs";
import { crowdOf, mannerOf, nameOf, wait } from "./words";

export function Outcome({ lab }: { lab: Lab }) {
  const run = lab.shown;
  return (
    <section class="card outcome" aria-label={t.lab.stampede} data-testid="lab-outcome">
      {!lab.runs && !lab.trouble && <p class="loading">{t.common.loading}</p>}
      {lab.runs && !run && <Nothing />}
      {run && (
        <>
          <header class="outcome-head">
            <h2>{nameOf(run.strategy, lab.strategies)}</h2>
            <p class="soft numbers">{[crowdOf(run), mannerOf(run)].filter(Boolean).join(" · ")}</p>
          </header>
          {run.state === "running" && <Running run={run} />}
          {run.state === "failed" && <Failed run={run} />}
          {run.result && <Done result={run.result} />}
        </>
      )}
      <p class="visually-hidden" role="status">
        {run?.state === "done" && run.result && `${headline(run.result)}. ${words(run.result)}`}
      </p>
    </section>
  );
}

function Nothing() {
  return (
    <div class="outcome-empty">
      <svg viewBox="0 0 96 56" width="144" height="84" aria-hidden="true">
        <path d="M6 50h84" />
        <rect x="12" y="40" width="10" height="10" />
        <rect x="28" y="22" width="10" height="28" />
        <rect x="44" y="8" width="10" height="42" />
        <rect x="60" y="28" width="10" height="22" />
        <rect x="76" y="44" width="10" height="6" />
      </svg>
      <h2>{t.lab.emptyTitle}</h2>
      <p class="soft">{t.lab.empty}</p>
    </div>
  );
}

function Running({ run }: { run: Run }) {
  const { answered, sold, rejected, errors, elapsed_ms } = run.progress;
  const said = answered ? t.lab.answered(number(answered), number(run.buyers)) : t.lab.preparing;
  return (
    <div class="running">
      <p>
        <span class="badge">
          <span class="pulse" aria-hidden="true" />
          {t.lab.running}
        </span>{" "}
        <span class="numbers">{said}</span>
      </p>
      <progress
        max={run.buyers}
        {...(answered ? { value: answered } : {})}
        aria-label={t.lab.running}
      />
      <dl class="figures">
        <Figure name={t.lab.figures.sold} value={number(sold)} />
        <Figure name={t.lab.figures.rejected} value={number(rejected)} />
        {errors > 0 && <Figure name={t.lab.figures.errors} value={number(errors)} bad />}
        <Figure name={t.lab.figures.elapsed} value={milliseconds(elapsed_ms)} />
      </dl>
    </div>
  );
}

function Failed({ run }: { run: Run }) {
  return (
    <div class="notice bad" role="alert">
      <h3>{t.lab.failed}</h3>
      <p class="sentence">{run.error}</p>
      {run.progress.answered > 0 && (
        <p class="numbers">{t.lab.failedAfter(run.progress.answered, run.buyers)}</p>
      )}
    </div>
  );
}

function Done({ result }: { result: Result }) {
  return (
    <>
      <Sentence result={result} />
      <dl class="figures">
        <Figure name={t.lab.figures.sold} value={number(result.sold)} bad={result.oversold > 0} />
        <Figure name={t.lab.figures.rejected} value={number(result.rejected)} />
        {result.errors > 0 && (
          <Figure name={t.lab.figures.errors} value={number(result.errors)} bad />
        )}
        <Figure name={t.lab.figures.rate} value={number(Math.round(result.rate))} />
        <Figure name={t.lab.figures.elapsed} value={milliseconds(result.elapsed_ms)} />
        <Figure name={t.lab.figures.p50} value={wait(result.p50_ms)} />
        <Figure name={t.lab.figures.p99} value={wait(result.p99_ms)} />
      </dl>
      <Latencies result={result} />
      <Reached result={result} />
    </>
  );
}

export function headline(result: Result): string {
  const found = verdict(result);
  return found === "oversold" ? t.lab.oversold(number(result.oversold)) : t.lab.verdicts[found];
}

function words(result: Result): string {
  const found = verdict(result);
  if (found === "oversold") {
    return t.lab.oversoldWords(result.seats, result.sold, result.oversold, result.stock);
  }
  if (found === "errors") return t.lab.errorsWords(result.errors);
  if (found === "short") return t.lab.shortWords(result.sold, result.seats);
  return t.lab.rightWords(number(result.sold), result.sold, result.stock);
}

const KINDS: Record<Verdict, string> = {
  right: "good",
  oversold: "bad",
  short: "warn",
  errors: "warn",
};

/** The one thing to know, in a colour, a sign and words: none of them alone. */
function Sentence({ result }: { result: Result }) {
  const found = verdict(result);
  return (
    <div class={`verdict ${KINDS[found]}`} data-testid="lab-verdict">
      <Sign kind={KINDS[found]} />
      <div>
        <p class="verdict-number numbers">{headline(result)}</p>
        <p class="verdict-words">{words(result)}</p>
        <p class="verdict-source">{t.lab.counted}</p>
      </div>
    </div>
  );
}

export function Sign({ kind, size = 44 }: { kind: string; size?: number }) {
  return (
    <svg class="sign" viewBox="0 0 24 24" width={size} height={size} aria-hidden="true">
      <circle cx="12" cy="12" r="10" />
      {kind === "good" && <path d="m7 12.5 3.4 3.5L17 9" />}
      {kind === "bad" && <path d="m8 8 8 8m0-8-8 8" />}
      {kind === "warn" && <path d="M12 6.5v7m0 3.5v.2" />}
    </svg>
  );
}

export function Figure(props: { name: string; value: string; bad?: boolean }) {
  return (
    <div class={props.bad ? "figure bad" : "figure"}>
      <dt>{props.name}</dt>
      <dd class="numbers">{props.value}</dd>
    </div>
  );
}

function nameOfLoad(load: Load, result: Result): string {
  if (load.what !== "reached") return t.lab.loads[load.what];
  if (result.strategy === "holdfast") return t.lab.loads.commands;
  return result.strategy === "redis-lua" ? t.lab.loads.scripts : t.lab.loads.statements;
}

function Reached({ result }: { result: Result }) {
  const spared = result.buyers - result.reached_authority;
  const said: string[] = [];
  if (result.strategy === "holdfast") {
    if (spared > 0) said.push(t.lab.spared(spared));
    if (result.batches && result.reached_authority >= 2 * result.batches) {
      said.push(t.lab.perBatch(number(Math.round(result.reached_authority / result.batches))));
    }
  } else if (result.strategy !== "redis-lua") {
    const each = Math.round((10 * result.reached_authority) / result.buyers) / 10;
    said.push(t.lab.perBuyer(number(each)));
  }
  return (
    <figure class="reached">
      <figcaption>{t.lab.load}</figcaption>
      <dl>
        {loads(result).map((load) => (
          <div key={load.what}>
            <dt>{nameOfLoad(load, result)}</dt>
            <dd class="load-row">
              <span class={`load ${load.what}`} style={{ width: `${100 * load.share}%` }} />
              <span class="numbers">{number(load.count)}</span>
            </dd>
          </div>
        ))}
      </dl>
      {said.length > 0 && <p class="hint">{said.join(" ")}</p>}
    </figure>
  );
}
