/** Which events are shown, in which order, and what is said about each. */

import type { EventState, EventView } from "../api/types";

const ORDER: Record<EventState, number> = { on_sale: 0, paused: 1, closed: 2 };

/** Events that the lab made for a run, and those that are over, are nobody's business at first. */
export const isBackstage = ({ id, state }: Pick<EventView, "id" | "state">): boolean =>
  state === "closed" || /^(stampede|lab)-/.test(id);

export interface Listing {
  shown: EventView[];
  hidden: number;
}

export function listing(events: readonly EventView[], all: boolean): Listing {
  const sorted = [...events].sort(
    (a, b) => Number(isBackstage(a)) - Number(isBackstage(b)) || ORDER[a.state] - ORDER[b.state],
  );
  const front = sorted.filter((event) => !isBackstage(event));
  return { shown: all ? sorted : front, hidden: sorted.length - front.length };
}

export interface Shares {
  sold: number;
  held: number;
  available: number;
}

/** Of a hundred, for the bar: what is there at all stays visible. */
export function shares({ capacity, sold, held, available }: EventView): Shares {
  if (!capacity) return { sold: 0, held: 0, available: 0 };
  const share = (part: number) => (part > 0 ? Math.max(1, (part / capacity) * 100) : 0);
  return { sold: share(sold), held: share(held), available: share(available) };
}

export function priceRange(prices: Readonly<Record<string, number>>): [number, number] | null {
  const all = Object.values(prices);
  return all.length ? [Math.min(...all), Math.max(...all)] : null;
}
