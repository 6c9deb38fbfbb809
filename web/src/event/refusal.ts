/** A hold that was not given: why, in one sentence, and the ways on from there. */

import type { Problem } from "../api/http";
import { t } from "../strings";
import type { Selection } from "./selection";
import { count } from "./selection";

export interface Refusal {
  /** The service's own word; `offline` and `unreachable` where it could not be asked, `overtaken`
   * where the map saw it before anything was asked. */
  reason: string;
  status: number;
  detail: string;
  seats: string[];
  pools: string[];
  available: number | null;
  cap: number | null;
  /** Seconds, if the service said when to ask again. */
  retryAfter: number | null;
}

/** What the buyer can do about it with one button. */
export type Way =
  /** Take the nearest free seats that the map offers. */
  | "instead"
  /** The same number, but not side by side. */
  | "apart"
  /** As many as there are, or as he may have. */
  | "fewer"
  /** The best seats, of any tier and section. */
  | "anywhere"
  /** The rest of the basket, without what is gone. */
  | "without"
  | "retry"
  | "events";

export interface Explanation {
  text: string;
  ways: Way[];
}

const words = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : []);
const number = (value: unknown): number | null => (typeof value === "number" ? value : null);

export function refusalOf(problem: Problem, online = true): Refusal {
  const { status, detail, body, retryAfter } = problem;
  return {
    reason: status === 0 && !online ? "offline" : problem.reason,
    status,
    detail,
    seats: words(body.seats),
    pools: words(body.pools),
    available: number(body.available),
    cap: number(body.cap),
    retryAfter,
  };
}

/** Seats went while they were being chosen. `before`: what was lost just now, and is still shown. */
export function overtaken(seats: readonly string[], before: Refusal | null): Refusal {
  const lost = before?.reason === "overtaken" || before?.reason === "taken" ? before.seats : [];
  // The service may have said so at the same moment: then that is the story.
  if (before && seats.every((seat) => lost.includes(seat))) return before;
  return {
    reason: "overtaken",
    status: 0,
    detail: "",
    seats: [...lost, ...seats.filter((seat) => !lost.includes(seat))],
    pools: [],
    available: null,
    cap: null,
    retryAfter: null,
  };
}

/** The service did not say no: nothing was heard of it. */
export const unanswered = ({ reason }: Refusal): boolean =>
  reason === "offline" || reason === "unreachable" || reason === "too_slow";

export interface Circumstances {
  selection: Selection;
  /** How many units the buyer has of this event already. */
  owned: number;
  nameOfSeat: (seat: string) => string;
  nameOfPool: (pool: string) => string;
}

export function explain(no: Refusal, { selection, owned, ...names }: Circumstances): Explanation {
  const said = t.event.refused;
  const pool = no.pools[0];
  const { best } = selection;
  const narrowed =
    best.quantity > 0 && (best.tier !== "" || best.section !== "" || best.accessible);
  switch (no.reason) {
    case "taken":
      return { text: said.taken(no.seats.map(names.nameOfSeat)), ways: ["instead"] };
    case "overtaken":
      return { text: said.while(no.seats.map(names.nameOfSeat)), ways: ["instead"] };
    case "sold_out": {
      if (pool !== undefined) {
        const rest = selection.seats.length + best.quantity + count(selection.pools);
        const more = rest > (selection.pools[pool] ?? 0);
        return { text: said.poolSoldOut(names.nameOfPool(pool)), ways: more ? ["without"] : [] };
      }
      if (narrowed) return { text: said.soldOutThere, ways: ["anywhere"] };
      return { text: said.soldOut, ways: ["events"] };
    }
    case "insufficient": {
      const left = no.available ?? 0;
      const text =
        pool === undefined ? said.insufficient(left) : said.poolShort(names.nameOfPool(pool), left);
      const ways: Way[] = left > 0 ? ["fewer"] : [];
      if (pool === undefined && narrowed) ways.push("anywhere");
      return { text, ways };
    }
    case "not_together":
      return {
        text: said.notTogether(best.quantity),
        ways: narrowed ? ["apart", "anywhere"] : ["apart"],
      };
    case "buyer_cap": {
      const cap = no.cap ?? 0;
      return { text: said.cap(cap, owned), ways: cap > owned ? ["fewer"] : [] };
    }
    case "not_on_sale":
      return { text: said.notOnSale, ways: ["retry", "events"] };
    case "queue_required":
      return { text: said.queue, ways: ["retry"] };
    case "unknown_unit":
      return { text: said.withdrawn, ways: ["without"] };
    case "unknown_event":
      return { text: said.unknownEvent, ways: ["events"] };
    case "address_units":
      return { text: said.addressUnits, ways: ["retry"] };
    case "offline":
      return { text: said.offline, ways: ["retry"] };
    case "unreachable":
    case "too_slow":
      return { text: said.unreachable, ways: ["retry"] };
  }
  if (no.status === 429) return { text: said.tooMany, ways: ["retry"] };
  if (no.status === 503) return { text: said.overloaded, ways: ["retry"] };
  if (no.status >= 500) return { text: said.failed, ways: ["retry"] };
  return { text: said.other(no.detail), ways: ["retry"] };
}

/** The selection that a way leads to; null where the way is none of the selection's. */
export function along(way: Way, no: Refusal, now: Selection, owned: number): Selection | null {
  const { best, pools } = now;
  switch (way) {
    case "apart":
      return { ...now, best: { ...best, together: false } };
    case "anywhere":
      return { ...now, best: { ...best, tier: "", section: "", accessible: false } };
    case "fewer":
      return no.reason === "buyer_cap" ? trimmed(now, (no.cap ?? 0) - owned) : short(no, now);
    case "without": {
      const gone = (name: string) => no.pools.includes(name);
      const left = Object.entries(pools).filter(([name]) => !gone(name));
      return {
        ...now,
        seats: now.seats.filter((seat) => !no.seats.includes(seat)),
        pools: Object.fromEntries(left),
      };
    }
    default:
      return null;
  }
}

/** As many as are left. */
function short(no: Refusal, now: Selection): Selection {
  const left = no.available ?? 0;
  const pool = no.pools[0];
  if (pool !== undefined) return { ...now, pools: { ...now.pools, [pool]: left } };
  return { ...now, best: { ...now.best, quantity: Math.min(now.best.quantity, left) } };
}

/** Named seats are kept first: they were chosen one by one. */
function trimmed(now: Selection, room: number): Selection {
  let left = Math.max(0, room);
  const take = (wanted: number) => {
    const taken = Math.min(wanted, left);
    left -= taken;
    return taken;
  };
  const seats = now.seats.slice(0, take(now.seats.length));
  const quantity = take(now.best.quantity);
  const pools: Record<string, number> = {};
  for (const [pool, wanted] of Object.entries(now.pools)) {
    const taken = take(wanted);
    if (taken) pools[pool] = taken;
  }
  return { seats, best: { ...now.best, quantity }, pools };
}
