import { describe, expect, it } from "vitest";
import type { Hold, Order } from "../api/types";
import { endOf, type Fact, next, type Phase, START, standingOf } from "./phases";

const hold: Hold = {
  id: "e.1",
  event: "e",
  buyer: "b",
  state: "held",
  seats: ["A-1-1"],
  pools: { floor: 2 },
  amount: 18000,
  currency: "EUR",
  expires_at: "2026-11-16T12:00:00Z",
  seconds_left: 480,
  version: 1,
};

const order: Order = {
  id: "e.o",
  event: "e",
  state: "confirmed",
  hold: "e.1",
  buyer: "b",
  seats: ["A-1-1"],
  pools: {},
  amount: 18000,
  currency: "EUR",
  payment: null,
  created_at: "2026-11-16T12:00:00Z",
};

const after = (...facts: Fact[]): Phase => facts.reduce(next, START);
const held: Fact = { type: "held", hold, found: false };
const none: Fact = { type: "none" };
const sent: Fact = { type: "sent", hold };

describe("next", () => {
  it("goes the straight way from picking to the ticket", () => {
    expect(after(none)).toEqual({ name: "picking" });
    expect(after(none, held)).toMatchObject({ name: "holding", declined: null, elsewhere: false });
    expect(after(none, held, sent)).toMatchObject({ name: "paying", wait: "answer", order: null });
    expect(after(none, held, sent, { type: "bought", order })).toEqual({
      name: "bought",
      order,
      elsewhere: false,
    });
  });

  it("comes back from a decline with the hold, and says why until something else happens", () => {
    const declined: Fact = { type: "declined", hold, why: "no money" };
    expect(after(none, held, sent, declined)).toMatchObject({
      name: "holding",
      declined: "no money",
    });
    const looked: Fact = { type: "held", hold, found: true };
    expect(after(none, held, sent, declined, looked)).toMatchObject({ declined: "no money" });
    expect(after(none, held, sent, declined, sent, declined)).toMatchObject({ name: "holding" });
  });

  it("remembers the order that a payment waits for", () => {
    const pending = { ...order, state: "pending" };
    const phase = after(
      none,
      held,
      sent,
      { type: "waits", wait: "buyer", order: pending },
      { type: "waits", wait: "service", order: null },
    );
    expect(phase).toMatchObject({ name: "paying", wait: "service", order: pending });
    expect(next(phase, { type: "otherwise" })).toMatchObject({ name: "holding", declined: null });
  });

  it("finds a hold after a reload, and knows one that another tab has placed", () => {
    const found: Fact = { type: "held", hold, found: true };
    expect(after(found)).toMatchObject({ name: "holding", elsewhere: false });
    expect(after(none, found)).toMatchObject({ name: "holding", elsewhere: true });
    expect(after(none, found, found)).toMatchObject({ elsewhere: true });
  });

  it("knows what another tab has bought", () => {
    expect(after(held, { type: "bought", order })).toMatchObject({ elsewhere: true });
  });

  it("explains an end until it is read, with the units it was about", () => {
    const ended: Fact = { type: "ended", end: "expired", units: null };
    const over = after(none, held, ended);
    expect(over).toMatchObject({ name: "over", end: "expired", units: { seats: ["A-1-1"] } });
    expect(next(over, none)).toBe(over);
    expect(next(over, { type: "ended", end: "gone", units: null })).toBe(over);
    expect(next(over, { type: "dismissed" })).toEqual({ name: "picking" });
  });

  it("shows an old ticket only where nothing is under way", () => {
    expect(after(none, { type: "shown", order })).toMatchObject({ name: "bought" });
    expect(after(none, held, { type: "shown", order })).toMatchObject({ name: "holding" });
  });

  it("is not moved by what belongs to another phase", () => {
    const waits: Fact = { type: "waits", wait: "payment", order };
    expect(after(none, held, waits)).toMatchObject({ name: "holding" });
    expect(after(none, { type: "otherwise" })).toEqual({ name: "picking" });
  });
});

describe("orders that are looked at again", () => {
  it("stand as their state and settlement say", () => {
    expect(standingOf(order)).toBe("sold");
    expect(standingOf({ ...order, state: "pending" })).toBe("waits");
    expect(standingOf({ ...order, state: "declined" })).toBe("declined");
    expect(standingOf({ ...order, state: "voided" })).toBe("declined");
    expect(standingOf({ ...order, state: "voided", settlement: "voided" })).toBe("ended");
    expect(standingOf({ ...order, state: "refunded", settlement: "refunded" })).toBe("ended");
  });

  it("tell seats that were lost from a payment that was only late", () => {
    expect(endOf({ reason: "taken" })).toBe("lost");
    expect(endOf({ reason: "sold_out" })).toBe("lost");
    expect(endOf({ reason: "late" })).toBe("late");
    expect(endOf({ reason: "not_on_sale" })).toBe("late");
    expect(endOf({ reason: "released" })).toBe("released");
  });
});
