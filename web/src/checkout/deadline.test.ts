import { describe, expect, it } from "vitest";
import type { Hold } from "../api/types";
import { deadlineOf, secondsLeft, warningAt } from "./deadline";

const at = "2026-11-16T12:00:00Z";
const hold = (state: Hold["state"], seconds_left: number) =>
  ({ state, seconds_left, expires_at: at }) as Hold;

describe("deadlineOf", () => {
  it("counts from what the service said, not from the wall clock", () => {
    const soft = deadlineOf(hold("held", 480), 300, 1000, 0);
    expect(soft).toEqual({ at: 481_000, hard: false });
    expect(secondsLeft(soft, 1000)).toBe(480);
    expect(secondsLeft(soft, 480_500)).toBe(1);
    expect(secondsLeft(soft, 999_999)).toBe(0);
  });

  it("is the hard one once payment has begun", () => {
    expect(deadlineOf(hold("paying", 100), 300, 0, 0)).toEqual({ at: 400_000, hard: true });
  });

  it("goes by the wall clock past the soft one, within the grace", () => {
    const wall = Date.parse(at);
    expect(deadlineOf(hold("paying", 0), 300, 0, wall + 60_000).at).toBe(240_000);
    // Whoever's clock is wrong by hours has the whole grace, or nothing, and the service decides.
    expect(deadlineOf(hold("paying", 0), 300, 0, wall - 9e6).at).toBe(300_000);
    expect(deadlineOf(hold("paying", 0), 300, 0, wall + 9e6).at).toBe(0);
  });
});

describe("warningAt", () => {
  it("is due at the thresholds and stays until the next", () => {
    expect([61, 60, 59, 21, 20, 1, 0].map(warningAt)).toEqual([null, 60, 60, 60, 20, 20, null]);
  });
});
