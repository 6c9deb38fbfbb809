import { describe, expect, it } from "vitest";
import { anySeat, counted, endingOf, type Pane, READY } from "./fight";

const won: Pane = { kind: "won", hold: "h", token: "t", until: "", took_ms: 1 };
const lost: Pane = { kind: "lost", reason: "taken", detail: "", took_ms: 1 };
const asking: Pane = { kind: "asking" };
const failed: Pane = { kind: "failed", detail: "" };

describe("a fight for one seat", () => {
  it("ends when both have their answer", () => {
    expect(endingOf([READY, READY])).toBeNull();
    expect(endingOf([won, asking])).toBeNull();
    expect(endingOf([won, lost])).toEqual({ kind: "one", winner: 0 });
    expect(endingOf([lost, won])).toEqual({ kind: "one", winner: 1 });
  });

  it("says who is first while the other has not clicked", () => {
    expect(endingOf([READY, won])).toEqual({ kind: "first", winner: 1 });
    expect(endingOf([lost, READY])).toBeNull();
  });

  it("does not hide what must not be", () => {
    expect(endingOf([won, won])).toEqual({ kind: "both" });
    expect(endingOf([lost, lost])).toEqual({ kind: "neither" });
    expect(endingOf([won, failed])).toEqual({ kind: "unanswered" });
  });

  it("chooses another seat than the last where there is one", () => {
    expect(anySeat(["a", "b"], "a", 0.99)).toBe("b");
    expect(anySeat(["a"], "a", 0.5)).toBe("a");
    expect(anySeat(["a", "b", "c"], null, 1)).toBe("c");
    expect(anySeat([], null, 0.5)).toBeNull();
  });
});

describe("counted", () => {
  it("counts what was decided, also what must not be", () => {
    const none = [0, 0, 0] as const;
    expect(counted(none, { kind: "one", winner: 0 })).toEqual([1, 0, 0]);
    expect(counted(none, { kind: "one", winner: 1 })).toEqual([0, 1, 0]);
    expect(counted(none, { kind: "both" })).toEqual([0, 0, 1]);
    for (const ending of [null, { kind: "first", winner: 0 }, { kind: "neither" }] as const) {
      expect(counted(none, ending)).toEqual(none);
    }
  });
});
