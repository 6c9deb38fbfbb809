/** Where the names of sections stand: beside their seats, on nobody's. */

import type { Plan, Section } from "./layout";
import type { Box } from "./places";

/** How far a seat is drawn from its middle, nearly. */
const SEAT_REACH = 0.34;

export interface NamedPlace {
  name: string;
  x: number;
  y: number;
}

/** In the units of the plan, as the height of the letters and the widths of the names are. One that
 * finds no room is left out: seats say their section when they are pointed at. */
export function placesOfNames(
  plan: Plan,
  high: number,
  widthOf: (name: string) => number,
): NamedPlace[] {
  const found: NamedPlace[] = [];
  const taken: Box[] = [];
  for (const section of plan.sections) {
    const half = widthOf(section.id) / 2;
    for (const [x, y] of candidates(plan, section, half)) {
      const box = { left: x - half, right: x + half, top: y - high / 2, bottom: y + high / 2 };
      if (taken.some((other) => overlap(other, box)) || coversSeats(plan, box)) continue;
      taken.push(box);
      found.push({ name: section.id, x, y });
      break;
    }
  }
  return found;
}

/** Before the middle of the first row, as the rows go, for they may be bent or turned; above all of
 * it; behind the last row. */
function candidates(plan: Plan, section: Section, half: number): [number, number][] {
  const { left, right, top } = section.box;
  const rows = section.rows.map((row) => plan.rows[row]!.seats);
  const beyond = (row: Uint32Array, other: Uint32Array | undefined): [number, number] => {
    const at = middleOf(plan, row);
    const from = other ? middleOf(plan, other) : { x: at.x, y: at.y + 1 };
    const far = Math.hypot(at.x - from.x, at.y - from.y) || 1;
    const [dx, dy] = [(at.x - from.x) / far, (at.y - from.y) / far];
    // Words are wide: what is beside a row begins, or ends, one step from it.
    const aside = Math.abs(dx) > Math.abs(dy) ? Math.sign(dx) * half : 0;
    return [at.x + dx + aside, at.y + dy];
  };
  return [
    beyond(rows[0]!, rows[1]),
    [(left + right) / 2, top - 1],
    beyond(rows.at(-1)!, rows.at(-2)),
  ];
}

function middleOf(plan: Plan, seats: Uint32Array): { x: number; y: number } {
  const [a, b] = [seats[(seats.length - 1) >> 1]!, seats[seats.length >> 1]!];
  return { x: (plan.x[a]! + plan.x[b]!) / 2, y: (plan.y[a]! + plan.y[b]!) / 2 };
}

const overlap = (one: Box, other: Box): boolean =>
  one.left < other.right &&
  other.left < one.right &&
  one.top < other.bottom &&
  other.top < one.bottom;

function coversSeats({ grid }: Plan, box: Box): boolean {
  const y = (box.top + box.bottom) / 2;
  const reach = SEAT_REACH + (box.bottom - box.top) / 2;
  for (let x = box.left; ; x = Math.min(x + reach, box.right)) {
    if (grid.nearest(x, y, reach) >= 0) return true;
    if (x >= box.right) return false;
  }
}
