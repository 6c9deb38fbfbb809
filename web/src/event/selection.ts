/** What a buyer has picked and not yet asked for. Nothing here knows the server, or the clock. */

import type { Ask, BestAsk } from "../api/types";

/** Without a cap of the event's own, a buyer who comes through the pages may have so many. */
export const PUBLIC_CAP = 10;

/** The form for the best seats; quantity 0 asks for none. */
export interface BestDraft {
  quantity: number;
  tier: string;
  section: string;
  together: boolean;
  accessible: boolean;
}

export interface Selection {
  seats: readonly string[];
  best: BestDraft;
  pools: Readonly<Record<string, number>>;
}

export const NO_BEST: BestDraft = {
  quantity: 0,
  tier: "",
  section: "",
  together: true,
  accessible: false,
};

export const NOTHING: Selection = { seats: [], best: NO_BEST, pools: {} };

export function unitsOf({ seats, best, pools }: Selection): number {
  return seats.length + best.quantity + count(pools);
}

export const count = (pools: Readonly<Record<string, number>>): number =>
  Object.values(pools).reduce((sum, each) => sum + each, 0);

export type Step =
  | { type: "toggle"; seat: string; room: number }
  | { type: "pool"; pool: string; quantity: number; room: number }
  | { type: "best"; best: Partial<BestDraft>; room: number }
  | { type: "drop"; seats: readonly string[] }
  | { type: "add"; seats: readonly string[]; room: number }
  | { type: "set"; selection: Selection }
  | { type: "clear" };

/** The selection after a step; the same object where the step changes nothing. `room` is how many
 * units the buyer may have in all: what would go beyond it is not taken. */
export function select(now: Selection, step: Step): Selection {
  switch (step.type) {
    case "toggle": {
      if (now.seats.includes(step.seat)) {
        return { ...now, seats: now.seats.filter((seat) => seat !== step.seat) };
      }
      return unitsOf(now) < step.room ? { ...now, seats: [...now.seats, step.seat] } : now;
    }
    case "add": {
      const free = Math.max(0, step.room - unitsOf(now));
      const more = step.seats.filter((seat) => !now.seats.includes(seat)).slice(0, free);
      return more.length ? { ...now, seats: [...now.seats, ...more] } : now;
    }
    case "pool": {
      const { [step.pool]: before = 0, ...others } = now.pools;
      const most = step.room - (unitsOf(now) - before);
      const quantity = within(step.quantity, Math.max(before, most));
      if (quantity === before) return now;
      return { ...now, pools: quantity ? { ...others, [step.pool]: quantity } : others };
    }
    case "best": {
      const best = { ...now.best, ...step.best };
      const most = step.room - (unitsOf(now) - now.best.quantity);
      best.quantity = within(best.quantity, Math.max(now.best.quantity, most));
      return { ...now, best };
    }
    case "drop": {
      const seats = now.seats.filter((seat) => !step.seats.includes(seat));
      return seats.length === now.seats.length ? now : { ...now, seats };
    }
    case "set":
      return step.selection;
    case "clear":
      return NOTHING;
  }
}

function within(quantity: number, most: number): number {
  return Number.isFinite(quantity) ? Math.max(0, Math.min(Math.floor(quantity), most)) : 0;
}

/** The selection in the words of the API. */
export function askOf({ seats, best, pools }: Selection): Ask {
  const ask: Ask = {};
  if (seats.length) ask.seats = [...seats];
  if (best.quantity > 0) {
    const group: BestAsk = { quantity: best.quantity, together: best.together };
    if (best.tier) group.tier = best.tier;
    if (best.section) group.section = best.section;
    if (best.accessible) group.accessible = true;
    ask.best = [group];
  }
  if (count(pools)) ask.pools = { ...pools };
  return ask;
}

export interface Estimate {
  least: number;
  most: number;
}

/** What it will cost: exactly, unless the best seats may be of several tiers. */
export function estimate(
  selection: Selection,
  priceOfSeat: (seat: string) => number,
  priceOfPool: (pool: string) => number,
  pricesOfSeats: readonly number[],
): Estimate {
  let sum = 0;
  for (const seat of selection.seats) sum += priceOfSeat(seat);
  for (const [pool, quantity] of Object.entries(selection.pools)) {
    sum += quantity * priceOfPool(pool);
  }
  const { quantity } = selection.best;
  if (!quantity || !pricesOfSeats.length) return { least: sum, most: sum };
  return {
    least: sum + quantity * Math.min(...pricesOfSeats),
    most: sum + quantity * Math.max(...pricesOfSeats),
  };
}
