/** What part of a house is seen, and how large. Points of the house are in widths of a seat; points
 * of the view in CSS pixels from its upper left corner. */

import type { Box } from "./places";

/** A small house is not blown up to the whole screen. */
const FIT_MOST = 40;
const CLOSE = 56;
const PADDING_PX = 14;
/** So much of the view may be empty beyond the edge of the house. */
const BEYOND = 0.35;

export class Camera {
  /** The point of the house in the middle of the view. */
  x = 0;
  y = 0;
  /** CSS pixels a width of a seat. */
  scale = 1;
  width = 1;
  height = 1;

  constructor(private box: Box) {
    this.fit();
  }

  get fitScale(): number {
    const wide = Math.max(1, this.width - 2 * PADDING_PX) / (this.box.right - this.box.left);
    const high = Math.max(1, this.height - 2 * PADDING_PX) / (this.box.bottom - this.box.top);
    return Math.min(wide, high, FIT_MOST);
  }

  get atFit(): boolean {
    return this.scale <= this.fitScale * 1.001;
  }

  get atClosest(): boolean {
    return this.scale >= CLOSE * 0.999;
  }

  fit(): void {
    this.scale = this.fitScale;
    this.x = (this.box.left + this.box.right) / 2;
    this.y = (this.box.top + this.box.bottom) / 2;
  }

  /** A view of another size. What was in the middle stays there; all that was seen is still. */
  resize(width: number, height: number): void {
    const fitted = this.atFit;
    this.width = Math.max(1, width);
    this.height = Math.max(1, height);
    if (fitted) this.fit();
    else this.look(this.x, this.y, this.scale);
  }

  /** Another house, seen from the same place, which may have another name there. */
  enter(box: Box, dx = 0, dy = 0): void {
    const fitted = this.atFit;
    this.box = box;
    if (fitted) this.fit();
    else this.look(this.x + dx, this.y + dy, this.scale);
  }

  /** Within what is allowed. */
  look(x: number, y: number, scale: number): void {
    this.scale = Math.min(Math.max(scale, this.fitScale), Math.max(CLOSE, this.fitScale));
    this.x = held(x, this.box.left, this.box.right, this.width / this.scale);
    this.y = held(y, this.box.top, this.box.bottom, this.height / this.scale);
  }

  pan(dx: number, dy: number): void {
    this.look(this.x - dx / this.scale, this.y - dy / this.scale, this.scale);
  }

  /** The point of the house under a point of the view stays under it, as far as the edge allows. */
  zoomAt(px: number, py: number, factor: number): void {
    const [x, y] = this.toHouse(px, py);
    const scale = Math.min(
      Math.max(this.scale * factor, this.fitScale),
      Math.max(CLOSE, this.fitScale),
    );
    this.look(
      x - (px - this.width / 2) / scale,
      y - (py - this.height / 2) / scale,
      this.scale * factor,
    );
  }

  toHouse(px: number, py: number): [number, number] {
    return [
      this.x + (px - this.width / 2) / this.scale,
      this.y + (py - this.height / 2) / this.scale,
    ];
  }

  toView(x: number, y: number): [number, number] {
    return [
      (x - this.x) * this.scale + this.width / 2,
      (y - this.y) * this.scale + this.height / 2,
    ];
  }

  /** Where to look to see this part, as large as it fits; not closer than `most`. */
  framing(part: Box, most: number): { x: number; y: number; scale: number } {
    const scale = Math.min(
      this.width / (part.right - part.left + 4),
      this.height / (part.bottom - part.top + 4),
      most,
    );
    return { x: (part.left + part.right) / 2, y: (part.top + part.bottom) / 2, scale };
  }

  /** Whether a point is well inside of the view. */
  shows(x: number, y: number, inset: number): boolean {
    const [px, py] = this.toView(x, y);
    return px >= inset && py >= inset && px <= this.width - inset && py <= this.height - inset;
  }
}

function held(at: number, least: number, most: number, seen: number): number {
  if (most - least <= seen) return (least + most) / 2;
  const beyond = seen * (0.5 - BEYOND);
  return Math.min(Math.max(at, least + beyond), most - beyond);
}
