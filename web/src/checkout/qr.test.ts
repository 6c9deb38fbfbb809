import { describe, expect, it } from "vitest";
import { squaresOf, ticketSquares, ticketText } from "./qr";

describe("a ticket's code", () => {
  it("says which order and which units", () => {
    expect(JSON.parse(ticketText({ id: "e.1", seats: ["A-1-1"], pools: { floor: 2 } }))).toEqual({
      order: "e.1",
      seats: ["A-1-1"],
      pools: { floor: 2 },
    });
    expect(JSON.parse(ticketText({ id: "e.1", seats: [], pools: {} }))).toEqual({ order: "e.1" });
  });

  it("is drawn as runs of squares, with a finder in three corners", () => {
    const { size, path } = squaresOf("e.1");
    expect(size).toBeGreaterThanOrEqual(21);
    expect(path.startsWith("M0 0h7v1H0z")).toBe(true);
    expect(path).toContain(`M${size - 7} 0h7v1H${size - 7}z`);
    expect(path).toContain(`M0 ${size - 1}h7v1H0z`);
  });

  it("takes other letters than Latin ones, and falls back to the order where it is too much", () => {
    expect(squaresOf("ложа").size).toBe(squaresOf("12345678").size);
    const seats = Array.from({ length: 2000 }, (_, nth) => `seat-${nth}`);
    expect(ticketSquares({ id: "e.1", seats, pools: {} })).toEqual(squaresOf('{"order":"e.1"}'));
  });
});
