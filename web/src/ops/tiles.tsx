import type { ComponentChildren } from "preact";
import type { EventView } from "../api/types";
import { milliseconds, number, percent } from "../format";
import { t } from "../strings";
import { Bar } from "./bar";
import { type History, latencyNow, ordersOfTheLastMinute } from "./history";
import { rate, roundMoney } from "./rates";

export interface TilesProps {
  events: EventView[] | null;
  history: History;
  needing: number | null;
}

/** Of all events: what was sold, and how it goes just now. */
export function Tiles({ events, history, needing }: TilesProps) {
  const words = t.ops.tiles;
  const sum = (pick: (event: EventView) => number) =>
    (events ?? []).reduce((all, event) => all + pick(event), 0);
  const capacity = sum((event) => event.capacity);
  const sold = sum((event) => event.sold);
  const part = capacity ? (100 * sold) / capacity : 0;
  const last = history.points.at(-1);
  const latency = latencyNow(history);
  const known = events !== null;
  return (
    <section class="ops-tiles" aria-label={words.label}>
      <Tile
        label={words.sold}
        value={known ? percent(part) : null}
        more={words.soldOf(number(sold), number(capacity))}
        testid="tile-sold"
      >
        <Bar percent={part} />
      </Tile>
      <Tile
        label={words.revenue}
        value={known ? revenueOf(events) : null}
        more={words.inEvents((events ?? []).length)}
        testid="tile-revenue"
      />
      <Tile
        label={words.held}
        value={known ? number(sum((event) => event.held)) : null}
        more={words.heldOf(number(sum((event) => event.available)))}
      />
      <Tile
        label={words.orders}
        value={last ? number(ordersOfTheLastMinute(history)) : null}
        more={words.holdsNow(rate(last?.holds ?? 0))}
      />
      <Tile
        label={words.p99}
        value={last ? (latency ? milliseconds(latency.p99) : t.ops.charts.none) : null}
        more={latency ? words.p50Now(milliseconds(latency.p50)) : words.quiet}
      />
      <Tile
        label={words.needing}
        value={needing === null ? null : number(needing)}
        more={needing ? words.needingSome : words.needingNone}
        alarming={(needing ?? 0) > 0}
        testid="tile-needing"
      />
    </section>
  );
}

/** Currencies are not added to each other. */
function revenueOf(events: EventView[]): string {
  const sums = new Map<string, number>();
  for (const event of events) {
    sums.set(event.currency, (sums.get(event.currency) ?? 0) + event.revenue);
  }
  const earning = [...sums].filter(([, sum]) => sum !== 0);
  const shown = earning.length ? earning : [...sums].slice(0, 1);
  return shown.map(([currency, sum]) => roundMoney(sum, currency)).join(" + ") || number(0);
}

interface TileProps {
  label: string;
  value: string | null;
  more: string;
  alarming?: boolean;
  testid?: string;
  children?: ComponentChildren;
}

function Tile({ label, value, more, alarming = false, testid, children }: TileProps) {
  return (
    <div class={`card ops-tile${alarming ? " alarming" : ""}`} data-testid={testid}>
      <h2>{label}</h2>
      <p class="ops-big">{value ?? <span class="soft">{t.ops.charts.none}</span>}</p>
      {value !== null && children}
      <p class="soft">{value === null ? t.common.loading : more}</p>
    </div>
  );
}
