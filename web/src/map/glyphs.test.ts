import { describe, expect, it } from "vitest";
import { type Glyph, stamp } from "./glyphs";

const GROUND = 0xff000000;
const WHITE = 0xffffffff;

/** Two by two, all of one colour. */
const glyph = (pixel: number): Glyph => ({
  size: 2,
  phases: 1,
  pixels: new Uint32Array(4).fill(pixel),
});

function stamped(
  pixel: number,
  cx: number,
  cy: number,
  clip: [number, number, number, number] = [0, 0, 4, 4],
) {
  const to = new Uint32Array(16).fill(GROUND);
  stamp(glyph(pixel), cx, cy, to, 4, ...clip);
  return to;
}

describe("stamp", () => {
  it("puts a picture around its place", () => {
    const inked = [...stamped(WHITE, 2, 2).entries()].filter(([, pixel]) => pixel === WHITE);
    expect(inked.map(([at]) => at)).toEqual([5, 6, 9, 10]);
  });

  it("mixes what is half there with what is under it, and leaves out what is not", () => {
    const half = stamped(0x80ffffff, 2, 2)[5]!;
    for (const shift of [0, 8, 16]) {
      expect((half >>> shift) & 255).toBeGreaterThan(125);
      expect((half >>> shift) & 255).toBeLessThan(131);
    }
    expect(half >>> 24).toBe(255);
    expect(stamped(0x00ffffff, 2, 2)).toEqual(new Uint32Array(16).fill(GROUND));
  });

  it("stays inside its clip, wherever its place is", () => {
    expect(stamped(WHITE, 0, 0).filter((pixel) => pixel === WHITE)).toHaveLength(1);
    expect(stamped(WHITE, 4, 4).filter((pixel) => pixel === WHITE)).toHaveLength(1);
    expect(stamped(WHITE, 9, -9).filter((pixel) => pixel === WHITE)).toHaveLength(0);
    const clipped = stamped(WHITE, 2, 2, [2, 0, 4, 2]);
    expect([...clipped.entries()].filter(([, pixel]) => pixel === WHITE).map(([at]) => at)).toEqual(
      [6],
    );
  });
});
