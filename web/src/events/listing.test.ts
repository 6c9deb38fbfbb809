import { describe, expect, it } from "vitest";
import type { EventView } from "../api/types";
import { listing, priceRange, shares } from "./listing";

const event = (id: string, state: EventView["state"] = "on_sale") => ({ id, state }) as EventView;

describe("listing", () => {
  const all = [event("old", "closed"), event("lab-1"), event("wait", "paused"), event("a")];

  it("shows what is on sale first, and hides the lab's and the closed ones", () => {
    const { shown, hidden } = listing(all, false);
    expect(shown.map(({ id }) => id)).toEqual(["a", "wait"]);
    expect(hidden).toBe(2);
  });

  it("shows all of them when asked, those last", () => {
    expect(listing(all, true).shown.map(({ id }) => id)).toEqual(["a", "wait", "lab-1", "old"]);
  });
});

describe("words about an event", () => {
  it("have a range of prices", () => {
    expect(priceRange({ gold: 9000, floor: 4500 })).toEqual([4500, 9000]);
    expect(priceRange({})).toBeNull();
  });

  it("have a bar in which even one seat is seen", () => {
    const view = { capacity: 60_000, sold: 1, held: 30_000, available: 29_999 } as EventView;
    expect(shares(view).sold).toBe(1);
    expect(shares(view).held).toBe(50);
    expect(shares({ ...view, capacity: 0 }).sold).toBe(0);
  });
});
