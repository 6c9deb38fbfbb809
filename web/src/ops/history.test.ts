import { describe, expect, it } from "vitest";
import {
  add,
  type History,
  latencyNow,
  namesOf,
  noHistory,
  ordersOfTheLastMinute,
} from "./history";
import { type Sample, sampleOf } from "./metrics";
import text from "./samples/metrics.txt?raw";

const start = sampleOf(text, 1000);

/** So many seconds later, with more of everything. */
function later(seconds: number, more: Partial<Sample> = {}): Sample {
  return { ...start, at: start.at + seconds, ...more };
}

const all = (...samples: Sample[]): History => samples.reduce(add, noHistory);

describe("add", () => {
  it("makes rates of counters and keeps gauges", () => {
    const refused = { ...start.refused, taken: start.refused.taken! + 10 };
    const { points } = all(
      start,
      later(2, { placed: start.placed + 5, confirmed: start.confirmed + 3, refused, waiting: 7 }),
    );
    expect(points).toHaveLength(2);
    expect(points[0]).toMatchObject({ holds: null, sales: null, refusals: null, waiting: 0 });
    expect(points[1]).toMatchObject({ holds: 2.5, sales: 1.5, refusals: { taken: 5 }, waiting: 7 });
  });

  it("takes latency and batch size from what came since, not from all", () => {
    const { bounds, counts, sum } = start.holdSeconds;
    const slow = counts.map((count, at) => (bounds[at]! >= 2.5 ? count + 100 : count));
    const { points } = all(start, later(1, { holdSeconds: { bounds, counts: slow, sum } }));
    expect(points[1]!.p50).toBeGreaterThan(1000);
    expect(points[1]!.batch).toBeNull();
  });

  it("goes on after a restart, when every counter begins anew", () => {
    const { points } = all(later(0, { placed: 900 }), later(2, { placed: 4, confirmed: 0 }));
    expect(points[1]!.holds).toBe(2);
    expect(points[1]!.sales).toBe(0);
  });

  it("leaves a gap where nobody looked for a while", () => {
    const placed = start.placed + 600;
    const { points } = all(start, later(1), later(60, { placed }), later(61, { placed }));
    expect(points.map((point) => point.holds)).toEqual([null, 0, null, null, 0]);
    expect(points.map((point) => point.waiting)).toEqual([0, 0, null, 0, 0]);
    const times = points.map((point) => point.at);
    expect(times).toEqual([...times].sort((one, other) => one - other));
  });

  it("keeps five minutes", () => {
    const { points } = all(...Array.from({ length: 400 }, (_, second) => later(second)));
    expect(points).toHaveLength(301);
    expect(points.at(-1)!.at - points[0]!.at).toBe(300);
  });

  it("begins anew when the clock was set back, and passes over a look too soon", () => {
    expect(all(start, later(1), later(-30)).points.map((point) => point.at)).toEqual([970]);
    expect(all(start, later(0.01)).points).toHaveLength(1);
  });
});

describe("of the last minute", () => {
  it("orders are counted until they are older", () => {
    const more = (seconds: number, count: number) =>
      later(seconds, { confirmed: start.confirmed + count });
    const first = all(start, more(1, 2), more(2, 5));
    expect(ordersOfTheLastMinute(first)).toBe(5);
    let history = first;
    for (let second = 3; second <= 61; second++) history = add(history, more(second, 5));
    expect(ordersOfTheLastMinute(history)).toBe(3);
  });

  it("latency is that of the last hold, if it was just now", () => {
    const { bounds, counts, sum } = start.holdSeconds;
    const holdSeconds = { bounds, counts: counts.map((count) => count + 10), sum };
    let history = all(start, later(1, { holdSeconds }), later(2, { holdSeconds }));
    expect(latencyNow(history)).toEqual({ p50: 0.5, p99: expect.closeTo(0.99) });
    for (let second = 3; second < 15; second++)
      history = add(history, later(second, { holdSeconds }));
    expect(latencyNow(history)).toBeNull();
  });
});

describe("namesOf", () => {
  const points = all(start).points.map((point) => ({
    ...point,
    refusals: { taken: 9, sold_out: 3, buyer_cap: 3, expired: 1 },
  }));

  it("has the most frequent first", () => {
    const names = ["taken", "buyer_cap", "sold_out", "expired"];
    expect(namesOf(points, (point) => point.refusals, 4)).toEqual({ names, rest: [] });
  });

  it("puts together what is too much", () => {
    expect(namesOf(points, (point) => point.refusals, 3)).toEqual({
      names: ["taken", "buyer_cap"],
      rest: ["sold_out", "expired"],
    });
  });
});
