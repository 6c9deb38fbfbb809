import { describe, expect, it } from "vitest";
import { t } from "./strings";

describe("words", () => {
  it("call a section one only where its name does not say what it is", () => {
    expect(["A", "12", "1204", "Box L1", "Dr Adams", "Stalls"].map(t.map.section)).toEqual([
      "Section A",
      "Section 12",
      "Section 1204",
      "Box L1",
      "Dr Adams",
      "Stalls",
    ]);
    expect(t.map.place("Box L1", "1", 2)).toBe("Box L1, row 1, seat 2");
  });

  it("say seconds as seconds, and one as one", () => {
    const said = [1, 5, 60, 90, 480].map(t.design.event.holdHint);
    expect(said).toEqual([
      "Kept for 1 second",
      "Kept for 5 seconds",
      "Kept for 1 minute",
      "Kept for 1:30 minutes",
      "Kept for 8 minutes",
    ]);
    expect(t.checkout.someFree(1, 3)).toBe("1 of 3 is still free.");
  });
});
