import { describe, expect, it } from "vitest";
import type { MapSeat } from "../api/types";
import { block, demo } from "./houses_for_tests";
import { AVAILABLE, HELD, makePlan, type Plan, SOLD } from "./layout";

const POOL = { id: "floor", capacity: 500, available: 482, tier: "floor" };
const PRICES = { gold: 9000, silver: 6000, floor: 4500 };

const overlapping = (plan: Plan): number => {
  let found = 0;
  for (let i = 0; i < plan.count; i++) {
    if (plan.grid.nearest(plan.x[i]!, plan.y[i]!, 0.9, i) >= 0) found += 1;
  }
  return found;
};

describe("makePlan", () => {
  it("finds every seat by its id", () => {
    const plan = makePlan(demo(), [POOL], PRICES);
    expect(plan.count).toBe(500);
    for (const id of ["A-1-1", "B-10-30"]) expect(plan.ids[plan.indexOf(id)]).toBe(id);
    expect(plan.indexOf("C-1-1")).toBe(-1);
    expect(plan.priceOf(plan.indexOf("B-1-1"))).toBe(6000);
  });

  it("orders tiers by price, the dearest first, and counts them", () => {
    const plan = makePlan(demo(), [POOL], PRICES);
    expect(plan.tiers.map(({ id, seats }) => [id, seats])).toEqual([
      ["gold", 200],
      ["silver", 300],
      ["floor", 0],
    ]);
  });

  it("keeps sections and rows in order, with room between the sections", () => {
    const plan = makePlan(demo(), [], PRICES);
    expect(plan.sections.map(({ id }) => id)).toEqual(["A", "B"]);
    expect(plan.sections[0]!.rows.map((row) => plan.rows[row]!.name)).toEqual([
      "1",
      "2",
      "3",
      "4",
      "5",
      "6",
      "7",
      "8",
      "9",
      "10",
    ]);
    expect(plan.sections[1]!.box.top - plan.sections[0]!.box.bottom).toBeCloseTo(2);
  });

  it("puts the stage in front, and pools between it and the seats", () => {
    const plan = makePlan(demo(), [POOL], PRICES);
    const pool = plan.pools[0]!.box;
    expect(plan.stage!.bottom).toBeLessThan(pool.top);
    expect(pool.bottom).toBeLessThan(plan.sections[0]!.box.top);
    for (const box of [plan.stage!, pool]) {
      expect(plan.box.left).toBeLessThanOrEqual(box.left);
      expect(plan.box.top).toBeLessThanOrEqual(box.top);
      expect(plan.box.right).toBeGreaterThanOrEqual(box.right);
    }
  });

  it("puts pools into the empty middle of a house that surrounds one", () => {
    const seats = [
      ...block({ section: "N", rows: 6, width: 40 }),
      ...block({ section: "S", rows: 6, width: 40, y: 26 }),
      ...block({ section: "W", rows: 18, width: 6, y: 7 }),
      ...block({ section: "E", rows: 18, width: 6, x: 34, y: 7 }),
    ];
    const plan = makePlan(seats, [POOL], PRICES);
    const { left, right, top, bottom } = plan.pools[0]!.box;
    let inside = 0;
    for (let i = 0; i < plan.count; i++) {
      const [x, y] = [plan.x[i]!, plan.y[i]!];
      if (x > left && x < right && y > top && y < bottom) inside += 1;
    }
    expect(inside).toBe(0);
    expect(top).toBeGreaterThan(5);
    expect(plan.stage).toBeNull();
  });

  it("gives pools alone a place each", () => {
    const pools = ["a", "b", "c"].map((id) => ({ id, capacity: 5, available: 5 }));
    const boxes = makePlan([], pools, {}).pools.map(({ box }) => box);
    expect(boxes[0]!.right).toBeLessThan(boxes[1]!.left);
    expect(boxes[2]!.top).toBeGreaterThan(boxes[0]!.bottom);
  });

  it("puts neighbours 1 apart, whatever they were measured in", () => {
    const inches = block({ section: "A", rows: 4, width: 9 }).map((seat) => ({
      ...seat,
      x: seat.x * 22,
      y: seat.y * 36,
    }));
    const plan = makePlan(inches, [], {});
    const step = plan.x[plan.indexOf("A-1-2")]! - plan.x[plan.indexOf("A-1-1")]!;
    expect(step).toBeCloseTo(1, 4);
  });

  it("moves apart sections that were given the same place", () => {
    const seats = ["A", "B", "C"].flatMap((section) => block({ section, rows: 3, width: 5 }));
    expect(overlapping(makePlan(seats, [], {}))).toBe(0);
  });

  it("moves apart rows that were named by letters and have no place", () => {
    const seats: MapSeat[] = ["A", "B", "C"].flatMap((row) =>
      block({ section: "BOX", rows: 1, width: 6 }).map((seat) => ({
        ...seat,
        id: `${row}${seat.number}`,
        row,
        y: 0,
      })),
    );
    const plan = makePlan(seats, [], {});
    expect(overlapping(plan)).toBe(0);
    expect(plan.y[plan.indexOf("B1")]! - plan.y[plan.indexOf("A1")]!).toBeCloseTo(1);
  });

  it("is made of nothing without a fault", () => {
    expect(makePlan([], [], {}).count).toBe(0);
  });
});

describe("apply", () => {
  it("changes states, counts what is free, and tells which seats it touched", () => {
    const plan = makePlan(demo(), [POOL], PRICES);
    const told: number[][] = [];
    plan.watch(({ seats }) => told.push([...seats]));
    plan.apply([
      ["A-1-1", "held"],
      ["A-1-2", "sold"],
      ["A-1-3", "available"],
      ["nobody-knows", "held"],
    ]);
    const [first, second] = [plan.indexOf("A-1-1"), plan.indexOf("A-1-2")];
    expect([plan.state[first], plan.state[second]]).toEqual([HELD, SOLD]);
    expect(plan.sections[0]!.free).toBe(198);
    expect(plan.tiers[0]!.free).toBe(198);
    expect(told).toEqual([[first, second]]);
    plan.apply([["A-1-1", "available"]], { floor: 0 });
    expect(plan.state[first]).toBe(AVAILABLE);
    expect(plan.sections[0]!.free).toBe(199);
    expect(plan.pool("floor")!.available).toBe(0);
  });
});

describe("refresh", () => {
  it("takes the states of a snapshot of the same house", () => {
    const plan = makePlan(demo(), [POOL], PRICES);
    const later = demo();
    later[7]!.state = "sold";
    expect(plan.refresh(later, [{ ...POOL, available: 1 }])).toBe(true);
    expect(plan.stateOf(7)).toBe("sold");
    expect(plan.pool("floor")!.available).toBe(1);
  });

  it("takes nothing from a snapshot of another one", () => {
    const plan = makePlan(demo(), [POOL], PRICES);
    const moved = demo().map((seat) => ({ ...seat, state: "sold" as const }));
    moved[499]!.x += 1;
    expect(plan.refresh(moved, [POOL])).toBe(false);
    expect(plan.refresh(demo().slice(1), [POOL])).toBe(false);
    expect(plan.refresh(demo(), [])).toBe(false);
    expect(plan.isFree(0)).toBe(true);
  });
});
