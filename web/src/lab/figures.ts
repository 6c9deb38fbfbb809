/** What is computed from a run before it is shown. */

import type { Asked, Bucket, Result, Run } from "./runs";

export const BUYERS_MAX = 20_000;
export const SEATS_MAX = 1_000;
export const COMPARED_MAX = 4;
const STEP = 0.2;

/** The span of a histogram in powers of ten: its buckets are equally wide there. */
export interface Span {
  from: number;
  to: number;
}

/** One that all of these fit into, so that they can be compared; null if nobody waited. */
export function span(histograms: Bucket[][]): Span | null {
  const bounds = histograms.flat().map((bucket) => Math.log10(bucket.le_ms));
  if (!bounds.length) return null;
  return { from: Math.min(...bounds) - STEP, to: Math.max(...bounds) };
}

/** Where a time is, from 0 to 1. */
export function placeOf(ms: number, { from, to }: Span): number {
  const place = (Math.log10(Math.max(ms, 1e-6)) - from) / (to - from);
  return Math.min(Math.max(place, 0), 1);
}

export interface Bar {
  left: number;
  width: number;
  /** Of the highest bar there is. */
  height: number;
  count: number;
  le_ms: number;
}

/** The highest bar is as high as there is room. */
export function bars(histogram: Bucket[], across: Span): Bar[] {
  const most = Math.max(...histogram.map((bucket) => bucket.count), 1);
  const width = STEP / (across.to - across.from);
  return histogram.map(({ le_ms, count }) => ({
    left: (Math.log10(le_ms) - STEP - across.from) / (across.to - across.from),
    width,
    height: count / most,
    count,
    le_ms,
  }));
}

/** Times to write under the axis, `most` at most: powers of ten, and where few are in sight, more. */
export function ticks(across: Span, most = 7): number[] {
  const between = (steps: number[]): number[] => {
    const found: number[] = [];
    for (let power = Math.floor(across.from); power <= Math.ceil(across.to); power += 1) {
      for (const step of steps) {
        const at = power + Math.log10(step);
        if (at >= across.from - 1e-3 && at <= across.to + 1e-3) found.push(rounded(step, power));
      }
    }
    return found;
  };
  const tens = between([1]);
  const found = tens.length >= 3 ? tens : between([1, 3]);
  const step = Math.ceil(found.length / most);
  return found.filter((_, nth) => nth % step === 0);
}

const rounded = (step: number, power: number) => Number((step * 10 ** power).toPrecision(1));

/** What is wrong with what is typed, by field. */
export function faultsOf(asked: Asked): { buyers: boolean; seats: boolean } {
  const within = (value: number, most: number) =>
    Number.isInteger(value) && value >= 1 && value <= most;
  return { buyers: !within(asked.buyers, BUYERS_MAX), seats: !within(asked.seats, SEATS_MAX) };
}

/** Only Holdfast has policies and a service; the rest of the form does not count for the others. */
export function tidied(asked: Asked): Asked {
  if (asked.strategy === "holdfast") return asked;
  return { ...asked, policy: null, gate: null, over: "engine" };
}

export function same(one: Asked, other: Asked): boolean {
  const [left, right] = [tidied(one), tidied(other)];
  return (Object.keys(left) as (keyof Asked)[]).every((name) => left[name] === right[name]);
}

/** Whether all went as promised. What could be sold was sold, to as many as were told so. */
export type Verdict = "right" | "oversold" | "short" | "errors";

export function verdict(result: Result): Verdict {
  if (result.oversold > 0) return "oversold";
  if (result.errors > 0) return "errors";
  return result.sold < Math.min(result.seats, result.buyers) ? "short" : "right";
}

export interface Load {
  what: "buyers" | "reached" | "batches" | "redis";
  count: number;
  /** Of the longest. */
  share: number;
}

/** How much of a crowd got as far as the database. */
export function loads(result: Result): Load[] {
  const found: Omit<Load, "share">[] = [
    { what: "buyers", count: result.buyers },
    { what: "reached", count: result.reached_authority },
  ];
  if (result.batches !== null) found.push({ what: "batches", count: result.batches });
  // Where Redis alone decides, what reached it has been counted already.
  if (result.redis_calls > 0 && result.strategy !== "redis-lua") {
    found.push({ what: "redis", count: result.redis_calls });
  }
  const most = Math.max(...found.map((load) => load.count), 1);
  return found.map((load) => ({ ...load, share: load.count / most }));
}

/** In the order they were begun, the oldest first: so one reads what changed. */
export function compared(runs: Run[], chosen: ReadonlySet<string>): Run[] {
  return runs.filter((run) => chosen.has(run.id) && run.result).reverse();
}
