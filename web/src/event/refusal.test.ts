import { describe, expect, it } from "vitest";
import { Problem } from "../api/http";
import { along, explain, overtaken, type Refusal, refusalOf } from "./refusal";
import { NO_BEST, NOTHING, type Selection } from "./selection";

const no = (reason: string, more: Partial<Refusal> = {}): Refusal => ({
  reason,
  status: 409,
  detail: "",
  seats: [],
  pools: [],
  available: null,
  cap: null,
  retryAfter: null,
  ...more,
});

const say = (refusal: Refusal, selection: Selection = NOTHING, owned = 0) =>
  explain(refusal, {
    selection,
    owned,
    nameOfSeat: (seat) => `seat ${seat}`,
    nameOfPool: (pool) => `the ${pool}`,
  });

const best = (quantity: number, more = {}): Selection => ({
  ...NOTHING,
  best: { ...NO_BEST, quantity, ...more },
});

describe("refusalOf", () => {
  it("takes the service's words", () => {
    const body = { seats: ["A"], available: 2, cap: 8 };
    expect(refusalOf(new Problem(409, "taken", "gone", body, 3))).toEqual(
      no("taken", { detail: "gone", seats: ["A"], available: 2, cap: 8, retryAfter: 3 }),
    );
  });

  it("tells a browser that is offline from a service that is", () => {
    const problem = new Problem(0, "unreachable", "");
    expect(refusalOf(problem, false).reason).toBe("offline");
    expect(refusalOf(problem, true).reason).toBe("unreachable");
  });
});

describe("explain", () => {
  it("names the seats that somebody was faster with, and offers others", () => {
    const { text, ways } = say(no("taken", { seats: ["A", "B"] }));
    expect(text).toContain("seat A; seat B");
    expect(ways).toEqual(["instead"]);
  });

  it("says how many are left and offers those", () => {
    const { text, ways } = say(no("insufficient", { available: 2 }), best(4));
    expect(text).toBe("Only 2 of those are left.");
    expect(ways).toEqual(["fewer"]);
    expect(say(no("insufficient", { available: 1, pools: ["floor"] })).text).toBe(
      "Only 1 is left of the floor.",
    );
  });

  it("looks elsewhere where only a part of the house is sold out", () => {
    expect(say(no("sold_out"), best(2, { tier: "gold" })).ways).toEqual(["anywhere"]);
    expect(say(no("sold_out"), best(2)).ways).toEqual(["events"]);
    const mixed = { ...NOTHING, seats: ["A"], pools: { floor: 1 } };
    expect(say(no("sold_out", { pools: ["floor"] }), mixed).ways).toEqual(["without"]);
    expect(
      say(no("sold_out", { pools: ["floor"] }), { ...NOTHING, pools: { floor: 1 } }).ways,
    ).toEqual([]);
  });

  it("offers them apart when they are not side by side", () => {
    expect(say(no("not_together", { available: 9 }), best(3)).ways).toEqual(["apart"]);
  });

  it("counts what the buyer has towards the cap", () => {
    expect(say(no("buyer_cap", { cap: 8 }), best(9), 6).text).toContain("you have 6 already");
    expect(say(no("buyer_cap", { cap: 8 }), best(9), 6).ways).toEqual(["fewer"]);
    expect(say(no("buyer_cap", { cap: 8 }), best(1), 8).ways).toEqual([]);
  });

  it("has a sentence and a way on for every trouble", () => {
    for (const each of [
      no("not_on_sale"),
      no("queue_required"),
      no("address_units", { status: 429 }),
      no("rate", { status: 429 }),
      no("overloaded", { status: 503 }),
      no("offline", { status: 0 }),
      no("unreachable", { status: 0 }),
      no("too_slow", { status: 0 }),
      no("something_new", { detail: "it rains" }),
    ]) {
      const { text, ways } = say(each);
      expect(text).toMatch(/\.$/);
      expect(ways).toContain("retry");
    }
  });
});

describe("along", () => {
  it("takes fewer of what is short", () => {
    expect(along("fewer", no("insufficient", { available: 2 }), best(4), 0)?.best.quantity).toBe(2);
    const floor = { ...NOTHING, pools: { floor: 5, hall: 1 } };
    const short = no("insufficient", { available: 3, pools: ["floor"] });
    expect(along("fewer", short, floor, 0)?.pools).toEqual({ floor: 3, hall: 1 });
  });

  it("keeps named seats first when the cap is reached", () => {
    const many: Selection = {
      seats: ["a", "b"],
      best: { ...NO_BEST, quantity: 2 },
      pools: { f: 4 },
    };
    expect(along("fewer", no("buyer_cap", { cap: 8 }), many, 3)).toEqual({
      seats: ["a", "b"],
      best: { ...NO_BEST, quantity: 2 },
      pools: { f: 1 },
    });
    expect(along("fewer", no("buyer_cap", { cap: 1 }), many, 0)).toEqual({
      seats: ["a"],
      best: NO_BEST,
      pools: {},
    });
  });

  it("goes on apart, anywhere, and without what is gone", () => {
    expect(along("apart", no("not_together"), best(3), 0)?.best.together).toBe(false);
    const narrow = best(3, { tier: "gold", section: "A" });
    expect(along("anywhere", no("sold_out"), narrow, 0)?.best).toEqual({ ...NO_BEST, quantity: 3 });
    const mixed = { ...NOTHING, seats: ["a", "b"], pools: { floor: 1, hall: 2 } };
    const gone = no("sold_out", { pools: ["floor"], seats: ["a"] });
    expect(along("without", gone, mixed, 0)).toEqual({
      ...mixed,
      seats: ["b"],
      pools: { hall: 2 },
    });
  });
});

describe("overtaken", () => {
  it("adds to what was lost just before", () => {
    const first = overtaken(["a"], null);
    expect(overtaken(["b", "a"], first).seats).toEqual(["a", "b"]);
    const said = no("taken", { seats: ["a", "b"] });
    expect(overtaken(["a"], said)).toBe(said);
    expect(overtaken(["b"], no("sold_out", { seats: ["x"] })).seats).toEqual(["b"]);
  });
});
