import { describe, expect, it } from "vitest";
import { askOf, estimate, NO_BEST, NOTHING, type Selection, select, unitsOf } from "./selection";

const with_ = (seats: string[], pools = {}, quantity = 0): Selection => ({
  seats,
  pools,
  best: { ...NO_BEST, quantity },
});

describe("select", () => {
  it("picks a seat, and puts it back", () => {
    const one = select(NOTHING, { type: "toggle", seat: "A-1-1", room: 8 });
    expect(one.seats).toEqual(["A-1-1"]);
    expect(select(one, { type: "toggle", seat: "A-1-1", room: 8 }).seats).toEqual([]);
  });

  it("takes nothing beyond the room, but always puts back", () => {
    const full = with_(["A-1-1"], { floor: 1 });
    expect(select(full, { type: "toggle", seat: "A-1-2", room: 2 })).toBe(full);
    expect(select(full, { type: "toggle", seat: "A-1-1", room: 2 }).seats).toEqual([]);
    expect(select(full, { type: "pool", pool: "floor", quantity: 5, room: 2 })).toBe(full);
    expect(select(full, { type: "best", best: { quantity: 1 }, room: 2 }).best.quantity).toBe(0);
  });

  it("takes as much of a pool as fits, and forgets a pool of which nothing is wanted", () => {
    const some = select(with_(["A-1-1"]), { type: "pool", pool: "floor", quantity: 9, room: 4 });
    expect(some.pools).toEqual({ floor: 3 });
    expect(select(some, { type: "pool", pool: "floor", quantity: 0, room: 4 }).pools).toEqual({});
  });

  it("keeps what was chosen when the room has shrunk meanwhile", () => {
    const many = with_([], { floor: 4 });
    expect(select(many, { type: "pool", pool: "floor", quantity: 3, room: 2 }).pools).toEqual({
      floor: 3,
    });
  });

  it("drops what is lost and adds what is offered", () => {
    const left = select(with_(["a", "b", "c"]), { type: "drop", seats: ["b", "x"] });
    expect(left.seats).toEqual(["a", "c"]);
    const more = select(left, { type: "add", seats: ["c", "d", "e"], room: 3 });
    expect(more.seats).toEqual(["a", "c", "d"]);
  });
});

describe("askOf", () => {
  it("asks for what was chosen and for nothing else", () => {
    expect(askOf(NOTHING)).toEqual({});
    expect(askOf(with_(["a"], { floor: 2 }, 3))).toEqual({
      seats: ["a"],
      pools: { floor: 2 },
      best: [{ quantity: 3, together: true }],
    });
    const best = { quantity: 1, tier: "gold", section: "A", together: false, accessible: true };
    expect(askOf({ ...NOTHING, best })).toEqual({ best: [best] });
  });

  it("counts every unit", () => {
    expect(unitsOf(with_(["a"], { floor: 2 }, 3))).toBe(6);
  });
});

describe("estimate", () => {
  const cost = (selection: Selection, prices: number[]) =>
    estimate(
      selection,
      () => 9000,
      () => 4500,
      prices,
    );

  it("is exact for seats and pools", () => {
    expect(cost(with_(["a", "b"], { floor: 2 }), [])).toEqual({ least: 27000, most: 27000 });
  });

  it("is a range where the best seats may be of several tiers", () => {
    expect(cost(with_(["a"], {}, 2), [6000, 9000])).toEqual({ least: 21000, most: 27000 });
  });
});
