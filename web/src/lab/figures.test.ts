import { describe, expect, it } from "vitest";
import {
  bars,
  compared,
  faultsOf,
  loads,
  placeOf,
  same,
  span,
  ticks,
  tidied,
  verdict,
} from "./figures";
import type { Asked, Result, Run } from "./runs";

const asked: Asked = {
  strategy: "holdfast",
  buyers: 10_000,
  seats: 1,
  stock: false,
  policy: "two-layer",
  gate: true,
  over: "http",
};

const result: Result = {
  ...{ buyers: 100, seats: 5, stock: false, sold: 5, rejected: 95, errors: 0, oversold: 0 },
  ...{ elapsed_ms: 100, rate: 1000, p50_ms: 2, p99_ms: 20 },
  histogram: [
    { le_ms: 1, count: 0 },
    { le_ms: 1.585, count: 10 },
    { le_ms: 2.512, count: 40 },
  ],
  ...{ reached_authority: 50, batches: 2, redis_calls: 0, store: "sqlite", gate: "none" },
  ...{ policy: "authority", strategy: "holdfast", over: "engine" as const },
};

describe("the histogram", () => {
  it("has no span where nobody waited", () => {
    expect(span([[], []])).toBeNull();
  });

  it("spans all that are compared, from the lower end of the first bucket", () => {
    const across = span([[{ le_ms: 10, count: 1 }], [{ le_ms: 1000, count: 1 }]])!;
    expect(across.from).toBeCloseTo(0.8);
    expect(across.to).toBeCloseTo(3);
  });

  it("puts times where their buckets are, and what is outside at the edge", () => {
    const across = { from: 0, to: 2 };
    expect(placeOf(1, across)).toBe(0);
    expect(placeOf(10, across)).toBeCloseTo(0.5);
    expect(placeOf(100, across)).toBe(1);
    expect(placeOf(0, across)).toBe(0);
    expect(placeOf(10_000, across)).toBe(1);
  });

  it("has bars side by side that fill the span, the highest as high as there is room", () => {
    const found = bars(result.histogram, span([result.histogram])!);
    expect(found.map((bar) => bar.height)).toEqual([0, 0.25, 1]);
    expect(found[0]!.left).toBeCloseTo(0);
    expect(found[1]!.left).toBeCloseTo(found[0]!.left + found[0]!.width, 3);
    expect(found[2]!.left + found[2]!.width).toBeCloseTo(1);
  });

  it("writes powers of ten under its axis, and more where few are in sight", () => {
    expect(ticks({ from: -1, to: 2 })).toEqual([0.1, 1, 10, 100]);
    expect(ticks({ from: 0.8, to: 2.1 })).toEqual([10, 30, 100]);
    expect(ticks({ from: -2, to: 3 }, 4)).toEqual([0.01, 1, 100]);
  });
});

describe("what is asked", () => {
  it("is bounded", () => {
    expect(faultsOf(asked)).toEqual({ buyers: false, seats: false });
    expect(faultsOf({ ...asked, buyers: Number.NaN, seats: 1001 })).toEqual({
      buyers: true,
      seats: true,
    });
    expect(faultsOf({ ...asked, buyers: 1.5, seats: 0 })).toEqual({ buyers: true, seats: true });
  });

  it("has no policy, gate or HTTP but for Holdfast", () => {
    expect(tidied(asked)).toBe(asked);
    const naive = tidied({ ...asked, strategy: "naive" });
    expect([naive.policy, naive.gate, naive.over]).toEqual([null, null, "engine"]);
    expect(same({ ...asked, strategy: "naive" }, naive)).toBe(true);
    expect(same(asked, { ...asked, over: "engine" })).toBe(false);
  });
});

describe("what came of it", () => {
  it("is right only when what could be sold was sold, once", () => {
    expect(verdict(result)).toBe("right");
    expect(verdict({ ...result, sold: 9, oversold: 4, errors: 1 })).toBe("oversold");
    expect(verdict({ ...result, errors: 1 })).toBe("errors");
    expect(verdict({ ...result, sold: 4 })).toBe("short");
    expect(verdict({ ...result, buyers: 3, sold: 3 })).toBe("right");
  });

  it("shows what reached the database against the crowd", () => {
    expect(loads(result)).toEqual([
      { what: "buyers", count: 100, share: 1 },
      { what: "reached", count: 50, share: 0.5 },
      { what: "batches", count: 2, share: 0.02 },
    ]);
    const sql = loads({ ...result, batches: null, reached_authority: 400, redis_calls: 200 });
    expect(sql.map((load) => [load.what, load.share])).toEqual([
      ["buyers", 0.25],
      ["reached", 1],
      ["redis", 0.5],
    ]);
    const lua = { ...result, strategy: "redis-lua", batches: null, redis_calls: 50 };
    expect(loads(lua).map((load) => load.what)).toEqual(["buyers", "reached"]);
  });

  it("compares what was chosen and is done, oldest first", () => {
    const run = (id: string, done: boolean) => ({ id, result: done ? result : null }) as Run;
    const runs = [run("c", true), run("b", false), run("a", true)];
    expect(compared(runs, new Set(["a", "b", "c"])).map((each) => each.id)).toEqual(["a", "c"]);
  });
});
