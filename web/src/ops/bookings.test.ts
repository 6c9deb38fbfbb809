import { describe, expect, it } from "vitest";
import type { EventView } from "../api/types";
import { fresh, heard, noFeed, SHOWN_MAX, toAsk, unitsOf } from "./bookings";
import type { Booking } from "./calls";

const event = (id: string, sold = 0, state = "on_sale") =>
  ({ id, sold, revenue: 100 * sold, state }) as EventView;
const booking = (second: number, more: Partial<Booking> = {}): Booking => ({
  time: new Date(1000 * second).toISOString(),
  units: 1,
  seats: ["A-1-1"],
  pools: {},
  amount: 100,
  ...more,
});
const stats = (id: string, recent: Booking[]) => ({ event: id, seq: 1, currency: "EUR", recent });

describe("the feed", () => {
  it("asks only of events that have sold since", () => {
    const events = [event("a"), event("b", 2), event("c", 1)];
    expect(toAsk(noFeed, events).map(({ id }) => id)).toEqual(["b", "c"]);
    const feed = heard(noFeed, events[1]!, stats("b", [booking(1)]));
    expect(toAsk(feed, events).map(({ id }) => id)).toEqual(["c"]);
    expect(toAsk(feed, [event("b", 3)]).map(({ id }) => id)).toEqual(["b"]);
  });

  it("asks of few at a time, of those on sale first", () => {
    const many = Array.from({ length: 20 }, (_, at) => event(`e${at}`, 1, "closed"));
    const asked = toAsk(noFeed, [...many, event("open", 1)]);
    expect(asked).toHaveLength(8);
    expect(asked[0]!.id).toBe("open");
  });

  it("has the latest of all events on top, and not too many", () => {
    let feed = heard(noFeed, event("a", 2), stats("a", [booking(9), booking(3)]));
    feed = heard(feed, event("b", 1), stats("b", [booking(5)]));
    expect(feed.booked.map((each) => each.event)).toEqual(["a", "b", "a"]);
    const many = Array.from({ length: 30 }, (_, at) => booking(100 - at));
    expect(heard(feed, event("c", 30), stats("c", many)).booked).toHaveLength(SHOWN_MAX);
  });

  it("tells bookings apart that look the same", () => {
    const two = heard(noFeed, event("a", 2), stats("a", [booking(1), booking(1)])).booked;
    expect(new Set(two.map(({ key }) => key)).size).toBe(2);
    expect(fresh(two.slice(0, 1), two)).toEqual([two[1]]);
    expect(fresh(two, two)).toEqual([]);
  });

  it("says what was booked in few words", () => {
    const seats = ["A-1-1", "A-1-2", "A-1-3", "A-1-4", "A-1-5"];
    expect(unitsOf(booking(1, { units: 5, seats }))).toEqual({ named: seats.slice(0, 4), more: 1 });
    const mixed = booking(1, { units: 3, seats: ["A-1-1"], pools: { floor: 2 } });
    expect(unitsOf(mixed)).toEqual({ named: ["A-1-1", "2 × floor"], more: 0 });
    // Of a large one the service names the first only.
    expect(unitsOf(booking(1, { units: 50, seats }))).toMatchObject({ more: 46 });
  });
});
