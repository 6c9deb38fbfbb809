import { describe, expect, it } from "vitest";
import { Camera } from "./camera";

const HOUSE = { left: 0, top: -10, right: 400, bottom: 290 };

function camera(): Camera {
  const made = new Camera(HOUSE);
  made.resize(1200, 800);
  made.fit();
  return made;
}

describe("Camera", () => {
  it("shows all of the house at first", () => {
    const seen = camera();
    const [left, top] = seen.toView(HOUSE.left, HOUSE.top);
    const [right, bottom] = seen.toView(HOUSE.right, HOUSE.bottom);
    expect(Math.min(left, top)).toBeGreaterThanOrEqual(0);
    expect(right).toBeLessThanOrEqual(1200);
    expect(bottom).toBeLessThanOrEqual(800);
    expect(seen.atFit).toBe(true);
  });

  it("finds a point of the house again", () => {
    const seen = camera();
    seen.zoomAt(300, 200, 4);
    const [x, y] = seen.toHouse(123, 456);
    const [px, py] = seen.toView(x, y);
    expect(px).toBeCloseTo(123);
    expect(py).toBeCloseTo(456);
  });

  it("keeps what is under the pointer there while it zooms", () => {
    const seen = camera();
    const before = seen.toHouse(500, 300);
    seen.zoomAt(500, 300, 3);
    const after = seen.toHouse(500, 300);
    expect(after[0]).toBeCloseTo(before[0]);
    expect(after[1]).toBeCloseTo(before[1]);
  });

  it("zooms no further out than the house, and no closer than a seat", () => {
    const seen = camera();
    const fit = seen.scale;
    seen.zoomAt(0, 0, 0.01);
    expect(seen.scale).toBe(fit);
    seen.zoomAt(600, 400, 1e6);
    expect(seen.atClosest).toBe(true);
    expect(seen.scale).toBeLessThan(100);
  });

  it("never loses the house, however far it is dragged", () => {
    const seen = camera();
    seen.zoomAt(600, 400, 5);
    seen.pan(1e6, -1e6);
    const [left, bottom] = seen.toView(HOUSE.left, HOUSE.bottom);
    expect(left).toBeLessThan(1200);
    expect(bottom).toBeGreaterThan(0);
  });

  it("keeps its place when the view becomes smaller, and still shows all if it did", () => {
    const seen = camera();
    seen.resize(390, 500);
    expect(seen.atFit).toBe(true);
    seen.zoomAt(100, 100, 6);
    const { x, y, scale } = seen;
    seen.resize(420, 480);
    expect([seen.x, seen.y, seen.scale]).toEqual([x, y, scale]);
  });

  it("stays where it is in a house that has grown", () => {
    const seen = camera();
    seen.zoomAt(600, 400, 5);
    const { x, y, scale } = seen;
    seen.enter({ ...HOUSE, bottom: 400 });
    expect([seen.x, seen.y, seen.scale]).toEqual([x, y, scale]);
  });
});
