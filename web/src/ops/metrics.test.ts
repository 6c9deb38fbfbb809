import { describe, expect, it } from "vitest";
import { between, grown, mean, parse, quantile, sampleOf } from "./metrics";
import text from "./samples/metrics.txt?raw";

const histogram = (bounds: number[], counts: number[], sum = 0) => ({ bounds, counts, sum });

describe("parse", () => {
  it("reads names, labels and numbers, and passes over the rest", () => {
    const rows = parse(
      [
        "# HELP a_total What it is.",
        "a_total 3.0",
        'b{route="GET /v1/{x}",le="+Inf"} 1e3',
        'c{said="a \\"b\\" \\\\ c\\n"} -2 1700000000000',
        "not a line",
        "",
      ].join("\n"),
    );
    expect(rows).toEqual([
      { name: "a_total", labels: {}, value: 3 },
      { name: "b", labels: { route: "GET /v1/{x}", le: "+Inf" }, value: 1000 },
      { name: "c", labels: { said: 'a "b" \\ c\n' }, value: -2 },
    ]);
  });
});

describe("sampleOf", () => {
  it("finds in a real scrape what the page shows", () => {
    const sample = sampleOf(text, 1000);
    expect(sample.at).toBe(1000);
    expect(sample.placed).toBe(61);
    expect(sample.confirmed).toBe(40);
    expect(sample.refused.taken).toBe(295);
    expect(sample.refused.sold_out).toBe(0);
    expect(sample.workers).toBe(1);
    expect(sample.lags).toEqual({ live: 0, projections: 0 });
    expect(sample.holdSeconds.bounds.at(-1)).toBe(Number.POSITIVE_INFINITY);
    expect(sample.holdSeconds.bounds).toHaveLength(14);
    expect(sample.holdSeconds.counts.at(-1)).toBe(360);
    expect(sample.batchCommands.counts.at(-1)).toBe(192);
    expect(mean(sample.batchCommands)).toBeCloseTo(489 / 192);
    const p50 = quantile(0.5, sample.holdSeconds)!;
    expect(p50).toBeGreaterThan(0);
    expect(p50).toBeLessThan(quantile(0.99, sample.holdSeconds)!);
  });

  it("knows nothing where nothing is said", () => {
    const sample = sampleOf("", 0);
    expect([sample.placed, sample.refused, sample.lags]).toEqual([0, {}, {}]);
    expect(quantile(0.5, sample.holdSeconds)).toBeNull();
    expect(mean(sample.batchCommands)).toBeNull();
  });
});

describe("what was between two looks", () => {
  it("is the growth of a counter, and all of one that began anew", () => {
    expect(grown(5, 8)).toBe(3);
    expect(grown(5, 5)).toBe(0);
    expect(grown(500, 7)).toBe(7);
  });

  it("is the growth of every bucket", () => {
    const before = histogram([1, 2, Infinity], [1, 4, 5], 9);
    const now = histogram([1, 2, Infinity], [1, 6, 9], 19);
    expect(between(before, now)).toEqual(histogram([1, 2, Infinity], [0, 2, 4], 10));
  });

  it("is all of a histogram that fell, or was not there before", () => {
    const now = histogram([1, Infinity], [1, 2], 3);
    expect(between(histogram([1, Infinity], [9, 9], 9), now)).toBe(now);
    expect(between(histogram([], []), now)).toBe(now);
  });
});

describe("quantile", () => {
  it("lies within its bucket", () => {
    const found = histogram([1, 2, 4, Infinity], [0, 10, 20, 20]);
    expect(quantile(0.25, found)).toBe(1.5);
    expect(quantile(0.5, found)).toBe(2);
    expect(quantile(0.75, found)).toBe(3);
    expect(quantile(1, found)).toBe(4);
  });

  it("begins at 0, and ends with the last bound that is finite", () => {
    expect(quantile(0.5, histogram([2, Infinity], [10, 10]))).toBe(1);
    expect(quantile(0.99, histogram([2, Infinity], [1, 10]))).toBe(2);
  });

  it("is none of nothing", () => {
    expect(quantile(0.5, histogram([1, Infinity], [0, 0]))).toBeNull();
  });
});
