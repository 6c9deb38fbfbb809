import type { ComponentChildren } from "preact";
import type { EventView } from "../api/types";
import { dateTime, milliseconds, number, time } from "../format";
import { t } from "../strings";
import { Button } from "../ui/button";
import { toast } from "../ui/toast";
import { useActing } from "./acting";
import {
  type MendedGate,
  type Reconciliation,
  reconcile,
  type SystemView,
  switchGate,
} from "./calls";
import { Switch } from "./switch";

export interface GatePanelProps {
  system: SystemView;
  events: EventView[];
  /** Something was changed: what is shown should be read anew. */
  changed: () => void;
}

export function GatePanel({ system, events, changed }: GatePanelProps) {
  const words = t.ops.gate;
  const { acting, act } = useActing();
  if (system.gate === "none") {
    return (
      <Panel id="ops-gate" title={words.title}>
        <p>{words.none}</p>
        <p class="soft">
          {words.noneHow} <code>{words.noneCommand}</code>
        </p>
      </Panel>
    );
  }
  const on = events.filter((event) => event.gate).length;
  const used = events.some((event) => (event.policy ?? system.policy) !== "authority");
  const up = system.gate_state === "up";
  const turn = (wanted: boolean) =>
    act("switch", async () => {
      await switchGate(wanted);
      toast(wanted ? words.switchedOn : words.switchedOff, "good");
      changed();
    });
  return (
    <Panel
      id="ops-gate"
      title={words.title}
      badge={
        <span class={`badge ${up ? "good" : "bad"}`} data-testid="gate-state">
          <span aria-hidden="true">{up ? "✓" : "!"}</span>
          {up ? words.up : words.down}
        </span>
      }
    >
      <p class="soft">{words.what}</p>
      {!up && (
        <p class="notice warn" role="status">
          {words.why(system.gate_state)}
        </p>
      )}
      {events.length === 0 ? (
        <p class="soft">{words.noEvents}</p>
      ) : (
        <Switch
          label={words.switch}
          on={on === events.length}
          busy={acting !== null}
          onSwitch={turn}
        />
      )}
      {on > 0 && on < events.length && <p class="ops-note">{words.some(on, events.length)}</p>}
      {events.length > 0 && !used && <p class="ops-note">{words.unused(system.policy)}</p>}
      <ReconcilePart system={system} changed={changed} />
    </Panel>
  );
}

function ReconcilePart({ system, changed }: { system: SystemView; changed: () => void }) {
  const words = t.ops.reconcile;
  const { acting, act } = useActing();
  const { reconciled, mended } = system;
  const run = () =>
    act("reconcile", async () => {
      const done = await reconcile();
      toast(words.done(foundIn(done), comparedIn(done)), done.found ? "plain" : "good");
      changed();
    });
  return (
    <div class="ops-reconcile">
      <div class="ops-head">
        <h3>{words.title}</h3>
        <Button onClick={run} busy={acting !== null}>
          {words.run}
        </Button>
      </div>
      <p class="soft">{words.what}</p>
      {reconciled ? (
        <dl class="ops-rounds">
          <Round label={words.last} round={reconciled} open />
          {mended && mended.at !== reconciled.at && (
            <Round label={words.lastMended} round={mended} open={false} />
          )}
        </dl>
      ) : (
        <p>{words.never}</p>
      )}
    </div>
  );
}

const foundIn = (round: Reconciliation): string =>
  round.found ? t.ops.reconcile.found(round.found, number(round.found)) : t.ops.reconcile.clean;

const comparedIn = ({ events, took_ms }: Reconciliation): string =>
  t.ops.reconcile.compared(events, number(events), milliseconds(took_ms));

function Round({ label, round, open }: { label: string; round: Reconciliation; open: boolean }) {
  const words = t.ops.reconcile;
  const today = new Date(round.at).toDateString() === new Date().toDateString();
  return (
    <div data-testid={open ? "reconciled" : "mended"}>
      <dt>
        {label}
        <time dateTime={round.at}>{today ? time(round.at) : dateTime(round.at)}</time>
      </dt>
      <dd>
        <b>{foundIn(round)}</b>
        <span class="soft">{comparedIn(round)}</span>
        {round.mended.length > 0 && (
          <ul class="ops-mended">
            {round.mended.map((each) => (
              <li key={each.event}>
                <Mended each={each} />
              </li>
            ))}
          </ul>
        )}
        {Object.entries(round.failed).map(([event, why]) => (
          <p key={event} class="notice bad">
            {words.failed(event, why)}
          </p>
        ))}
      </dd>
    </div>
  );
}

function Mended({ each }: { each: MendedGate }) {
  const words = t.ops.reconcile;
  const said = [
    each.missing && words.missing(number(each.missing)),
    each.orphans && words.orphans(number(each.orphans)),
    each.stock && words.stock,
    each.counters && words.counters(each.counters, number(each.counters)),
    each.broken && words.broken,
  ].filter(Boolean);
  const more = each.missing + each.orphans - each.names.length;
  const line = (
    <span>
      <span class="mono">{each.event}</span>: {said.join(", ")}
    </span>
  );
  if (!each.names.length) return line;
  return (
    <details>
      <summary>{line}</summary>
      <ul class="mono ops-names">
        {each.names.map((name) => (
          <li key={name}>{name}</li>
        ))}
        {more > 0 && <li>{words.more(number(more))}</li>}
      </ul>
    </details>
  );
}

interface PanelProps {
  id: string;
  title: string;
  badge?: ComponentChildren;
  children: ComponentChildren;
}

export function Panel({ id, title, badge, children }: PanelProps) {
  return (
    <section class="card ops-panel" aria-labelledby={id}>
      <div class="ops-head">
        <h2 id={id}>{title}</h2>
        {badge}
      </div>
      {children}
    </section>
  );
}
