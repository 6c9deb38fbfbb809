import { expect, it, describe as suite } from "vitest";
import { addsUp, type Describe, linesOf } from "./describe";

const words = (text: string, price: number | null) => ({
  text,
  price,
  tier: "",
  color: null,
  notes: [],
});
const describe: Describe = { seat: (id) => words(id, 9000), pool: (id) => words(id, 4500) };

suite("lines of a basket", () => {
  const lines = linesOf({ seats: ["a", "b"], pools: { floor: 3 } }, describe);

  it("are one a seat and one a pool", () => {
    expect(
      lines.map(({ words: { text }, quantity, counted }) => [text, quantity, counted]),
    ).toEqual([
      ["a", 1, false],
      ["b", 1, false],
      ["floor", 3, true],
    ]);
  });

  it("say prices only where they make up the amount", () => {
    expect(addsUp(lines, 31500)).toBe(true);
    expect(addsUp(lines, 31499)).toBe(false);
    const unknown = { ...describe, seat: (id: string) => words(id, null) };
    expect(addsUp(linesOf({ seats: ["a"], pools: {} }, unknown), 0)).toBe(false);
  });
});
