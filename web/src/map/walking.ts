/** From seat to seat with the keys. */

import type { Plan } from "./layout";

/** The next seat in a direction: straight on before aside. -1 at the edge of the house. */
export function nextSeat(
  plan: Plan,
  from: number,
  dx: number,
  dy: number,
  fits: (index: number) => boolean = () => true,
): number {
  const { x, y, count } = plan;
  let best = -1;
  let least = Infinity;
  for (let i = 0; i < count; i++) {
    const [h, v] = [x[i]! - x[from]!, y[i]! - y[from]!];
    const along = h * dx + v * dy;
    if (along < 0.25) continue;
    const aside = Math.abs(h * dy) + Math.abs(v * dx);
    if (aside > along * 2.5) continue;
    const cost = along + 3 * aside;
    if (cost < least && fits(i)) {
      least = cost;
      best = i;
    }
  }
  return best;
}

/** Where to begin: in front and in the middle, free if anything is. */
export function firstSeat(plan: Plan): number {
  const middle = (plan.box.left + plan.box.right) / 2;
  let best = -1;
  let least = Infinity;
  for (let i = 0; i < plan.count; i++) {
    const cost = Math.hypot(plan.x[i]! - middle, plan.y[i]!) + (plan.isFree(i) ? 0 : 1e6);
    if (cost < least) {
      least = cost;
      best = i;
    }
  }
  return best;
}

/** A seat of a section: its free one nearest to its front and middle. */
export function seatOfSection(plan: Plan, section: number): number {
  const { box, rows } = plan.sections[section]!;
  const middle = (box.left + box.right) / 2;
  let best = -1;
  let least = Infinity;
  rows.forEach((at, back) => {
    for (const i of plan.rows[at]!.seats) {
      const cost = 2 * back + Math.abs(plan.x[i]! - middle) + (plan.isFree(i) ? 0 : 1e6);
      if (cost < least) {
        least = cost;
        best = i;
      }
    }
  });
  return best;
}
