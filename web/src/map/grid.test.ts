import { describe, expect, it } from "vitest";
import { Grid } from "./grid";
import { block, demo } from "./houses_for_tests";
import { makePlan } from "./layout";
import { firstSeat, nextSeat, seatOfSection } from "./walking";

describe("Grid", () => {
  it("finds the seat that a search of all of them finds", () => {
    // A cheap sequence that is the same each time.
    let seed = 7;
    const chance = () => {
      seed = (seed * 16807) % 2147483647;
      return seed / 2147483647;
    };
    const x = Float32Array.from({ length: 800 }, () => chance() * 90 - 20);
    const y = Float32Array.from({ length: 800 }, () => chance() * 40);
    const grid = new Grid(x, y);
    for (let tries = 0; tries < 400; tries++) {
      const [px, py, within] = [chance() * 120 - 40, chance() * 60 - 10, chance() * 8];
      let expected = -1;
      let least = within;
      for (let i = 0; i < x.length; i++) {
        const far = Math.hypot(x[i]! - px, y[i]! - py);
        if (far <= least) [expected, least] = [i, far];
      }
      expect(grid.nearest(px, py, within)).toBe(expected);
      const around: number[] = [];
      grid.within(px, py, within, (i) => around.push(i));
      const inside = [...x.keys()].filter(
        (i) => Math.abs(x[i]! - px) <= within && Math.abs(y[i]! - py) <= within,
      );
      expect(around.toSorted((a, b) => a - b)).toEqual(inside);
    }
  });

  it("bears an empty house, one seat, and a single row", () => {
    expect(new Grid(new Float32Array(), new Float32Array()).nearest(0, 0, 9)).toBe(-1);
    expect(new Grid(Float32Array.of(3), Float32Array.of(4)).nearest(3, 4.2, 0.5)).toBe(0);
    const row = new Grid(
      Float32Array.from({ length: 500 }, (_, at) => at),
      new Float32Array(500),
    );
    expect(row.nearest(321.3, 0.1, 0.5)).toBe(321);
  });
});

describe("keys", () => {
  const plan = makePlan(demo(), [], {});
  const at = (id: string) => plan.indexOf(id);
  const id = (index: number) => plan.ids[index];

  it("walk along a row, over an aisle, and from row to row", () => {
    expect(id(nextSeat(plan, at("A-3-4"), 1, 0))).toBe("A-3-5");
    expect(id(nextSeat(plan, at("A-3-5"), 1, 0))).toBe("A-3-6");
    expect(id(nextSeat(plan, at("A-3-6"), -1, 0))).toBe("A-3-5");
    expect(id(nextSeat(plan, at("A-3-6"), 0, 1))).toBe("A-4-6");
    expect(plan.ids[nextSeat(plan, at("A-10-10"), 0, 1)]).toMatch(/^B-1-/);
  });

  it("stop at the edge of the house", () => {
    expect(nextSeat(plan, at("B-1-1"), -1, 0)).toBe(-1);
    expect(nextSeat(plan, at("A-1-10"), 0, -1)).toBe(-1);
  });

  it("skip what is not free when told to", () => {
    const partly = makePlan(block({ section: "A", rows: 1, width: 6 }), [], {});
    partly.apply([
      ["A-1-2", "sold"],
      ["A-1-3", "held"],
    ]);
    const next = nextSeat(partly, 0, 1, 0, (index) => partly.isFree(index));
    expect(partly.ids[next]).toBe("A-1-4");
  });

  it("begin in front and in the middle", () => {
    expect(plan.ids[firstSeat(plan)]).toMatch(/^A-1-1[01]$/);
    expect(plan.ids[seatOfSection(plan, 1)]).toMatch(/^B-1-1[56]$/);
  });
});
