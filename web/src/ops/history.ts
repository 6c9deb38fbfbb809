/** The last minutes of the deployment, point by point, made of samples of its metrics. Pure. */

import { between, grown, mean, quantile, type Sample } from "./metrics";

export const WINDOW_SECONDS = 300;
/** After so long nobody knows how it went meanwhile: the lines begin anew. */
const GAP_SECONDS = 10;
const LEAST_SECONDS = 0.2;

export interface Point {
  at: number;
  /** In a second. */
  holds: number | null;
  sales: number | null;
  /** In a second, by reason; those that were given. */
  refusals: Record<string, number> | null;
  p50: number | null;
  p99: number | null;
  batch: number | null;
  batchP99: number | null;
  waiting: number | null;
  longestLane: number | null;
  lags: Record<string, number> | null;
}

export interface History {
  last: Sample | null;
  points: Point[];
  /** Orders of the last minute. */
  sold: { at: number; count: number }[];
}

export const noHistory: History = { last: null, points: [], sold: [] };

export function add(history: History, sample: Sample): History {
  const { last } = history;
  const seconds = last ? sample.at - last.at : 0;
  if (last && seconds >= 0 && seconds < LEAST_SECONDS) return history;
  const kept = history.points.filter(
    (point) => point.at >= sample.at - WINDOW_SECONDS && point.at < sample.at,
  );
  if (!last || seconds < 0 || seconds > GAP_SECONDS) {
    const first = { ...unknown(sample.at), ...standing(sample) };
    const gap = kept.length && last ? [unknown(last.at + 0.5)] : [];
    return { last: sample, points: [...kept, ...gap, first], sold: [] };
  }
  const count = grown(last.confirmed, sample.confirmed);
  const sold = history.sold.filter(({ at }) => at > sample.at - 60);
  return {
    last: sample,
    points: [...kept, pointOf(last, sample, seconds)],
    sold: count > 0 ? [...sold, { at: sample.at, count }] : sold,
  };
}

const standing = (sample: Sample) => ({
  waiting: sample.waiting,
  longestLane: sample.longestLane,
  lags: sample.lags,
});

const unknown = (at: number): Point => ({
  at,
  holds: null,
  sales: null,
  refusals: null,
  p50: null,
  p99: null,
  batch: null,
  batchP99: null,
  waiting: null,
  longestLane: null,
  lags: null,
});

function pointOf(before: Sample, now: Sample, seconds: number): Point {
  const refusals: Record<string, number> = {};
  for (const [reason, count] of Object.entries(now.refused)) {
    const more = grown(before.refused[reason] ?? 0, count);
    if (more > 0) refusals[reason] = more / seconds;
  }
  const held = between(before.holdSeconds, now.holdSeconds);
  const batches = between(before.batchCommands, now.batchCommands);
  const inMs = (value: number | null) => (value === null ? null : 1000 * value);
  return {
    at: now.at,
    holds: grown(before.placed, now.placed) / seconds,
    sales: grown(before.confirmed, now.confirmed) / seconds,
    refusals,
    p50: inMs(quantile(0.5, held)),
    p99: inMs(quantile(0.99, held)),
    batch: mean(batches),
    batchP99: quantile(0.99, batches),
    ...standing(now),
  };
}

export const ordersOfTheLastMinute = (history: History): number =>
  history.sold.reduce((sum, { count }) => sum + count, 0);

const NOW_SECONDS = 10;

/** That of the last hold, if it was just now: in a slow sale not every second has one. */
export function latencyNow({ points }: History): { p50: number; p99: number } | null {
  const last = points.findLast((point) => point.p99 !== null);
  if (!last || last.at < points.at(-1)!.at - NOW_SECONDS) return null;
  return { p50: last.p50!, p99: last.p99! };
}

/** The names in use within the window, the most frequent first, at most so many; the others
 * together are `rest`, which is there only where there are others. */
export function namesOf(
  points: Point[],
  pick: (point: Point) => Record<string, number> | null,
  most: number,
): { names: string[]; rest: string[] } {
  const sums = new Map<string, number>();
  for (const point of points) {
    for (const [name, value] of Object.entries(pick(point) ?? {})) {
      sums.set(name, (sums.get(name) ?? 0) + value);
    }
  }
  const names = [...sums.keys()].sort(
    (one, other) => sums.get(other)! - sums.get(one)! || one.localeCompare(other),
  );
  if (names.length <= most) return { names, rest: [] };
  return { names: names.slice(0, most - 1), rest: names.slice(most - 1) };
}
