import { useState } from "preact/hooks";
import type { EventState, EventView } from "../api/types";
import { money, number, percent } from "../format";
import { eventPath } from "../router";
import { t } from "../strings";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { TextField } from "../ui/field";
import { toast } from "../ui/toast";
import { useActing } from "./acting";
import { Bar } from "./bar";
import { changeState, type SystemView } from "./calls";
import { Panel } from "./gate_panel";

const SHOWN = 8;
const CARDS_SHOWN = 3;
const ORDER: Record<EventState, number> = { on_sale: 0, paused: 1, closed: 2 };
const BADGES: Record<EventState, [string, string]> = {
  on_sale: ["good", "●"],
  paused: ["warn", "❙❙"],
  closed: ["", "■"],
};

export interface EventsTableProps {
  events: EventView[];
  system: SystemView | null;
  changed: () => void;
  /** Runs of the lab, and whether they are among the events. */
  trials: number;
  withTrials: boolean;
  flipTrials: () => void;
}

export function EventsTable({ events, system, changed, ...props }: EventsTableProps) {
  const words = t.ops.events;
  const { acting, act } = useActing();
  const [closing, setClosing] = useState<EventView | null>(null);
  const [asked, setAsked] = useState("");
  const [all, setAll] = useState(false);
  // On a phone each is a card, and what is below must not be miles away.
  const few = matchMedia("(max-width: 820px)").matches ? CARDS_SHOWN : SHOWN;
  const wanted = asked.trim().toLowerCase();
  const found = events
    .filter((event) => `${event.name} ${event.id}`.toLowerCase().includes(wanted))
    .sort(
      (one, other) =>
        ORDER[one.state] - ORDER[other.state] ||
        (one.name || one.id).localeCompare(other.name || other.id),
    );
  const shown = all || wanted ? found : found.slice(0, few);
  const put = (event: EventView, state: EventState) =>
    act(event.id, async () => {
      await changeState(event.id, state);
      const said = { on_sale: words.opened, paused: words.pausedNow, closed: words.closedNow };
      toast(said[state](event.name || event.id), "good");
      changed();
    });
  return (
    <Panel id="ops-events" title={words.title}>
      {events.length === 0 && (
        <p>
          {words.none} <a href="/design">{words.design}</a>
        </p>
      )}
      {events.length > SHOWN && <TextField label={words.find} value={asked} onInput={setAsked} />}
      {events.length > 0 && found.length === 0 && <p class="soft">{words.nothing}</p>}
      {found.length > 0 && (
        <div class="table as-cards">
          <table>
            <thead>
              <tr>
                <th scope="col">{words.event}</th>
                <th scope="col">{words.state}</th>
                <th scope="col">{words.sold}</th>
                <th scope="col" class="number">
                  {words.held}
                </th>
                <th scope="col" class="number">
                  {words.revenue}
                </th>
                <th scope="col">{words.policy}</th>
                <th scope="col">{words.gate}</th>
                <th scope="col">
                  <span class="visually-hidden">{words.actions}</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {shown.map((event) => (
                <Row
                  key={event.id}
                  event={event}
                  system={system}
                  busy={acting === event.id}
                  put={(state) => (state === "closed" ? setClosing(event) : put(event, state))}
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {!wanted && found.length > few && (
        <Button kind="quiet" onClick={() => setAll(!all)}>
          {all ? words.fewer : words.all(found.length)}
        </Button>
      )}
      {props.trials > 0 && (
        <Button kind="quiet" onClick={props.flipTrials}>
          {props.withTrials ? words.noTrials : words.trials(props.trials)}
        </Button>
      )}
      {closing && (
        <Dialog
          title={words.closeTitle(closing.name || closing.id)}
          onClose={() => setClosing(null)}
        >
          <p>{words.closeWhat}</p>
          <div class="row ops-choices">
            <Button onClick={() => setClosing(null)}>{words.closeNo}</Button>
            <Button
              kind="danger"
              onClick={() => {
                setClosing(null);
                put(closing, "closed");
              }}
            >
              {words.closeYes}
            </Button>
          </div>
        </Dialog>
      )}
    </Panel>
  );
}

interface RowProps {
  event: EventView;
  system: SystemView | null;
  busy: boolean;
  put: (state: EventState) => void;
}

function Row({ event, system, busy, put }: RowProps) {
  const words = t.ops.events;
  const name = event.name || event.id;
  const [kind, sign] = BADGES[event.state];
  const policy = event.policy ?? system?.policy ?? "";
  return (
    <tr data-event={event.id}>
      <th scope="row">
        <a href={eventPath(event.id)}>{name}</a>
        {name !== event.id && <span class="soft mono">{event.id}</span>}
      </th>
      <td data-label={words.state}>
        <span class={`badge ${kind}`}>
          <span aria-hidden="true">{sign}</span>
          {words.states[event.state]}
        </span>
      </td>
      <td data-label={words.sold}>
        <div class="ops-sold">
          <Bar percent={event.percent_sold} />
          <b>{percent(event.percent_sold)}</b>
          <span class="soft">{words.soldOf(number(event.sold), number(event.capacity))}</span>
        </div>
      </td>
      <td class="number" data-label={words.held}>
        {number(event.held)}
      </td>
      <td class="number" data-label={words.revenue}>
        {money(event.revenue, event.currency)}
      </td>
      <td data-label={words.policy}>
        <span>
          {policy} {event.policy && <span class="soft">({words.own})</span>}
        </span>
      </td>
      <td data-label={words.gate}>{gateOf(event, system, policy)}</td>
      <td class="ops-actions">
        {event.state === "on_sale" ? (
          <Button onClick={() => put("paused")} busy={busy} label={words.pauseLabel(name)}>
            {words.pause}
          </Button>
        ) : (
          <Button onClick={() => put("on_sale")} busy={busy} label={words.openLabel(name)}>
            {words.open}
          </Button>
        )}
        {event.state !== "closed" && (
          <Button
            kind="danger"
            onClick={() => put("closed")}
            disabled={busy}
            label={words.closeLabel(name)}
          >
            {words.close}
          </Button>
        )}
      </td>
    </tr>
  );
}

function gateOf(event: EventView, system: SystemView | null, policy: string): string {
  const words = t.ops.events;
  if (!system || system.gate === "none" || policy === "authority") return words.gateUnused;
  return event.gate ? words.gateOn : words.gateOff;
}
