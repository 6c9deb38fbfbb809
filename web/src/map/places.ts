/** Where things are: seats that were given the same place are moved apart, all are put one seat's
 * width from each other, and what has no place of its own (stage, pools) gets one. */

import { Grid } from "./grid";
import type { Row, Section } from "./layout";

export interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

/** What a section's ground reaches beyond the middles of its outer seats. */
export const MARGIN = 0.62;

export function boxOf(x: Float32Array, y: Float32Array, rows: Iterable<Uint32Array>): Box {
  const box = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
  for (const seats of rows) {
    for (let nth = 0; nth < seats.length; nth++) {
      const [px, py] = [x[seats[nth]!]!, y[seats[nth]!]!];
      if (px < box.left) box.left = px;
      if (px > box.right) box.right = px;
      if (py < box.top) box.top = py;
      if (py > box.bottom) box.bottom = py;
    }
  }
  return box.left > box.right ? { left: 0, top: 0, right: 0, bottom: 0 } : box;
}

/** Along the first row, down the ends of the others, back along the last: round rows stay round. */
export function outlineOf(
  x: Float32Array,
  y: Float32Array,
  rows: readonly Uint32Array[],
): Float32Array {
  const around: number[] = [];
  const [first, last] = [rows[0], rows.at(-1)];
  if (!first || !last) return new Float32Array();
  around.push(...first);
  for (const row of rows.slice(1, -1)) around.push(row.at(-1)!);
  if (rows.length > 1) around.push(...Array.from(last).reverse());
  for (const row of rows.slice(1, -1).reverse()) around.push(row[0]!);
  const points: number[] = [];
  for (const at of around) {
    const [px, py] = [x[at]!, y[at]!];
    const n = points.length;
    if (n >= 4) {
      // A straight line needs its ends only.
      const [ax, ay, bx, by] = [points[n - 4]!, points[n - 3]!, points[n - 2]!, points[n - 1]!];
      const turn = (bx - ax) * (py - by) - (by - ay) * (px - bx);
      const onward = (bx - ax) * (px - bx) + (by - ay) * (py - by);
      if (Math.abs(turn) < 1e-4 && onward >= 0) points.length = n - 2;
    }
    points.push(px, py);
  }
  return Float32Array.from(points);
}

const SAME = 8;
const place = (x: number, y: number) => Math.round(x * SAME) * 0x4000000 + Math.round(y * SAME);

/** Moves apart what stands in the same place, and scales the house so that neighbours are 1 apart.
 * Seats that are named without places have only their numbers, and rows with letters none at all. */
export function untangle(
  x: Float32Array,
  y: Float32Array,
  rows: readonly Row[],
  sections: readonly Section[],
): void {
  if (!x.length) return;
  const taken = new Set<number>();
  for (let i = 0; i < x.length; i++) taken.add(place(x[i]!, y[i]!));
  if (taken.size < x.length) spread(x, y, rows, sections);
  const step = distanceBetween(x, y);
  let [left, top] = [Infinity, Infinity];
  for (let i = 0; i < x.length; i++) {
    left = Math.min(left, x[i]!);
    top = Math.min(top, y[i]!);
  }
  for (let i = 0; i < x.length; i++) {
    x[i] = (x[i]! - left) / step;
    y[i] = (y[i]! - top) / step;
  }
}

function spread(
  x: Float32Array,
  y: Float32Array,
  rows: readonly Row[],
  sections: readonly Section[],
): void {
  const taken = new Set<number>();
  let depth = -Infinity;
  for (const section of sections) {
    const members = section.rows.map((at) => rows[at]!.seats);
    const own = new Set<number>();
    let seats = 0;
    for (const row of members) {
      for (const at of row) own.add(place(x[at]!, y[at]!));
      seats += row.length;
    }
    if (own.size < seats) {
      const box = boxOf(x, y, members);
      members.forEach((row, back) => {
        row.forEach((at, nth) => {
          x[at] = box.left + nth;
          y[at] = box.top + back;
        });
      });
    }
    const places = () => members.flatMap((row) => Array.from(row, (at) => place(x[at]!, y[at]!)));
    if (places().some((each) => taken.has(each))) {
      const down = depth + 2 - boxOf(x, y, members).top;
      for (const row of members) for (const at of row) y[at]! += down;
    }
    for (const each of places()) taken.add(each);
    depth = Math.max(depth, boxOf(x, y, members).bottom);
  }
}

const SAMPLES = 600;

/** How far a seat is from its neighbour, of nearly all seats at least. */
function distanceBetween(x: Float32Array, y: Float32Array): number {
  const grid = new Grid(x, y);
  const every = Math.max(1, Math.floor(x.length / SAMPLES));
  const found: number[] = [];
  for (let i = 0; i < x.length; i += every) {
    let reach = grid.step;
    let near = -1;
    for (let tries = 0; near < 0 && tries < 6; tries++, reach *= 3) {
      near = grid.nearest(x[i]!, y[i]!, reach, i);
    }
    if (near >= 0) found.push(Math.hypot(x[near]! - x[i]!, y[near]! - y[i]!));
  }
  found.sort((a, b) => a - b);
  return found[Math.floor(found.length * 0.1)] || 1;
}

/** Where stage and pools go. A house that surrounds an empty middle has them there; any other has
 * them in front. */
export function furnish(
  x: Float32Array,
  y: Float32Array,
  sections: readonly Section[],
  rows: number,
  pools: number,
): { box: Box; stage: Box | null; pools: Box[] } {
  if (!x.length) {
    const columns = Math.ceil(Math.sqrt(pools));
    const all = { left: 0, top: 0, right: columns * 18, bottom: Math.ceil(pools / columns) * 10 };
    return { box: around(all, 1), stage: null, pools: tiled(all, pools) };
  }
  const house = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
  for (const { box } of sections) {
    house.left = Math.min(house.left, box.left);
    house.top = Math.min(house.top, box.top);
    house.right = Math.max(house.right, box.right);
    house.bottom = Math.max(house.bottom, box.bottom);
  }
  const width = Math.max(house.right - house.left, 6);
  const middle = (house.left + house.right) / 2;
  const hollow = hollowOf(x, y, house);
  const areas: Box[] = [];
  let stage: Box | null = null;
  let top = house.top - MARGIN;
  if (pools && hollow) areas.push(...tiled(around(hollow.box, -0.6), pools));
  else if (pools) {
    const wide = Math.max(width + 2 * MARGIN, 10);
    const columns = Math.max(1, Math.min(pools, Math.floor(wide / 7)));
    const deep = Math.max(3.4, Math.min(wide * 0.15, 14)) * Math.ceil(pools / columns);
    const band = { left: middle - wide / 2, right: middle + wide / 2, top: 0, bottom: top - 1 };
    band.top = band.bottom - deep;
    areas.push(...tiled(band, pools, columns));
    top = band.top;
  }
  if (hollow?.closed) {
    if (!pools) stage = around(hollow.box, -1);
  } else if (rows > 1) {
    const half = Math.max(3, width * 0.3);
    const deep = Math.max(1.6, Math.min(width * 0.06, 8));
    const gap = Math.max(1, deep * 0.5);
    stage = { left: middle - half, right: middle + half, top: top - gap - deep, bottom: top - gap };
    top = stage.top;
  }
  const box = { ...around(house, MARGIN + 1), top: Math.min(top, house.top - MARGIN) - 0.4 };
  for (const area of areas) {
    box.left = Math.min(box.left, area.left - 0.4);
    box.right = Math.max(box.right, area.right + 0.4);
  }
  return { box, stage, pools: areas };
}

const around = (box: Box, by: number): Box => ({
  left: box.left - by,
  top: box.top - by,
  right: box.right + by,
  bottom: box.bottom + by,
});

/** Side by side in lines; those of the last line share its width. */
function tiled(box: Box, count: number, columns = Math.ceil(Math.sqrt(count))): Box[] {
  const lines = Math.ceil(count / columns);
  const gap = 0.8;
  const height = (box.bottom - box.top + gap) / lines;
  return Array.from({ length: count }, (_, at) => {
    const line = Math.floor(at / columns);
    const abreast = line === lines - 1 ? count - line * columns : columns;
    const width = (box.right - box.left + gap) / abreast;
    const left = box.left + (at % columns) * width;
    const top = box.top + line * height;
    return { left, top, right: left + width - gap, bottom: top + height - gap };
  });
}

const SQUARES = 48;
const HOLLOW_LEAST = 0.16;

/** The empty middle of a house, if it has one; closed if there are seats on all sides of it. */
function hollowOf(
  x: Float32Array,
  y: Float32Array,
  house: Box,
): { box: Box; closed: boolean } | null {
  const [wide, high] = [house.right - house.left, house.bottom - house.top];
  if (x.length < 50 || wide < 8 || high < 8) return null;
  const full = new Uint8Array(SQUARES * SQUARES);
  const square = (at: number, from: number, length: number) =>
    Math.min(SQUARES - 1, Math.floor(((at - from) / length) * SQUARES));
  for (let i = 0; i < x.length; i++) {
    full[square(y[i]!, house.top, high) * SQUARES + square(x[i]!, house.left, wide)] = 1;
  }
  const empty = (left: number, top: number, right: number, bottom: number) => {
    for (let v = top; v <= bottom; v++) {
      for (let h = left; h <= right; h++) if (full[v * SQUARES + h]) return false;
    }
    return true;
  };
  const half = SQUARES / 2;
  const at = { left: half - 1, top: half - 1, right: half, bottom: half };
  if (!empty(at.left, at.top, at.right, at.bottom)) return null;
  for (let grown = true; grown; ) {
    grown = false;
    if (at.left > 0 && empty(at.left - 1, at.top, at.left - 1, at.bottom)) {
      at.left -= 1;
      grown = true;
    }
    if (at.right < SQUARES - 1 && empty(at.right + 1, at.top, at.right + 1, at.bottom)) {
      at.right += 1;
      grown = true;
    }
    if (at.top > 0 && empty(at.left, at.top - 1, at.right, at.top - 1)) {
      at.top -= 1;
      grown = true;
    }
    if (at.bottom < SQUARES - 1 && empty(at.left, at.bottom + 1, at.right, at.bottom + 1)) {
      at.bottom += 1;
      grown = true;
    }
  }
  const box = {
    left: house.left + (at.left / SQUARES) * wide + MARGIN,
    right: house.left + ((at.right + 1) / SQUARES) * wide - MARGIN,
    top: house.top + (at.top / SQUARES) * high + MARGIN,
    bottom: house.top + ((at.bottom + 1) / SQUARES) * high - MARGIN,
  };
  const large =
    box.right - box.left >= HOLLOW_LEAST * wide && box.bottom - box.top >= HOLLOW_LEAST * high;
  const outermost = SQUARES - 1;
  // An aisle that goes through the whole house is no middle.
  const through =
    (at.left === 0 && at.right === outermost) || (at.top === 0 && at.bottom === outermost);
  if (!large || through) return null;
  const closed = at.left > 0 && at.top > 0 && at.right < outermost && at.bottom < outermost;
  return { box, closed };
}
