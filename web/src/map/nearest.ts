/** What to offer instead of seats that somebody else was faster with. */

import type { Plan } from "./layout";

export interface Suggestion {
  /** As many as were lost. */
  seats: string[];
  /** Side by side in one row. */
  together: boolean;
  /** None of a tier that was not asked for. */
  sameTier: boolean;
}

/** Seats of one row are side by side up to here: an aisle is wider. */
const SIDE_BY_SIDE = 1.6;
/** What another section costs, in widths of a seat, when distances are compared. */
const OTHER_SECTION = 6;
const STRANDED = 0.75;

/** As many free seats as were lost: of the same tiers before others, beside those that are `kept` of
 * the same choice, else side by side if possible, and then the nearest. Null when there are not so
 * many. */
export function nearestFree(
  plan: Plan,
  lost: readonly string[],
  isTaken: (index: number) => boolean = (index) => !plan.isFree(index),
  kept: readonly string[] = [],
): Suggestion | null {
  const gone = lost.map((id) => plan.indexOf(id)).filter((index) => index >= 0);
  if (!gone.length) return null;
  const stay = kept.map((id) => plan.indexOf(id)).filter((index) => index >= 0);
  const without = new Set([...gone, ...stay]);
  const free = (index: number) => !without.has(index) && !isTaken(index);
  const tiers = new Set(gone.map((index) => plan.tier[index]!));
  const same = (index: number) => free(index) && tiers.has(plan.tier[index]!);
  for (const [sameTier, fits] of [
    [true, same],
    [false, free],
  ] as const) {
    const beside = nearestBeside(plan, gone, stay, fits);
    const run = beside ?? (gone.length > 1 ? nearestRun(plan, gone, fits) : null);
    const found = run ?? nearestEach(plan, gone, fits);
    if (found) {
      const seats = found.map((index) => plan.ids[index]!);
      return { seats, together: run !== null || seats.length === 1, sameTier };
    }
  }
  return null;
}

/** Whoever chose several wants to sit with the others: what a row of them can be lengthened by, at
 * the end that is nearer to what was lost. */
function nearestBeside(
  plan: Plan,
  gone: readonly number[],
  stay: readonly number[],
  fits: (index: number) => boolean,
): number[] | null {
  const middle = { x: mean(gone, plan.x), y: mean(gone, plan.y) };
  const far = (index: number) => Math.hypot(plan.x[index]! - middle.x, plan.y[index]! - middle.y);
  let best: number[] | null = null;
  let least = Infinity;
  for (const from of stay) {
    const chosen: number[] = [];
    const ours = new Set(stay);
    while (chosen.length < gone.length) {
      const ends = endsOf(plan, from, ours).filter(fits);
      if (!ends.length) break;
      const next = ends.reduce((a, b) => (far(b) < far(a) ? b : a));
      chosen.push(next);
      ours.add(next);
    }
    const cost = chosen.reduce((sum, index) => sum + far(index), 0);
    if (chosen.length === gone.length && cost < least) {
      least = cost;
      best = chosen;
    }
  }
  return best;
}

/** The seats next to a run of ours in its row, on either side. */
function endsOf(plan: Plan, from: number, ours: ReadonlySet<number>): number[] {
  const { seats } = plan.rows[plan.row[from]!]!;
  const ends: number[] = [];
  for (const step of [-1, 1]) {
    let at = seats.indexOf(from);
    for (;;) {
      const [here, next] = [seats[at]!, seats[at + step]];
      if (next === undefined || apart(plan, here, next) > SIDE_BY_SIDE) break;
      if (!ours.has(next)) {
        ends.push(next);
        break;
      }
      at += step;
    }
  }
  return ends;
}

function nearestRun(
  plan: Plan,
  gone: readonly number[],
  fits: (index: number) => boolean,
): number[] | null {
  const quantity = gone.length;
  const middle = { x: mean(gone, plan.x), y: mean(gone, plan.y) };
  const sections = new Set(gone.map((index) => plan.section[index]!));
  let best: number[] | null = null;
  let least = Infinity;
  for (const row of plan.rows) {
    const { seats } = row;
    const away = sections.has(row.section) ? 0 : OTHER_SECTION;
    for (let from = 0, length = 0; from + length < seats.length; ) {
      const at = seats[from + length]!;
      const joins = length === 0 || apart(plan, seats[from + length - 1]!, at) <= SIDE_BY_SIDE;
      if (!fits(at) || !joins) {
        from += fits(at) ? length : length + 1;
        length = 0;
        continue;
      }
      length += 1;
      if (length < quantity) continue;
      const run = Array.from(seats.subarray(from, from + quantity));
      const far = Math.hypot(mean(run, plan.x) - middle.x, mean(run, plan.y) - middle.y);
      const cost = far + away + stranded(plan, seats, from, quantity, fits);
      if (cost < least) {
        least = cost;
        best = run;
      }
      from += 1;
      length -= 1;
    }
  }
  return best;
}

/** A single seat that nobody would buy, left beside what is offered, is better avoided. */
function stranded(
  plan: Plan,
  seats: Uint32Array,
  from: number,
  quantity: number,
  fits: (index: number) => boolean,
): number {
  const open = (at: number, beside: number) =>
    at >= 0 &&
    at < seats.length &&
    fits(seats[at]!) &&
    apart(plan, seats[at]!, seats[beside]!) <= SIDE_BY_SIDE;
  const end = from + quantity - 1;
  const left = open(from - 1, from) && !open(from - 2, from - 1);
  const right = open(end + 1, end) && !open(end + 2, end + 1);
  return (Number(left) + Number(right)) * STRANDED;
}

function nearestEach(
  plan: Plan,
  gone: readonly number[],
  fits: (index: number) => boolean,
): number[] | null {
  const chosen = new Set<number>();
  for (const lost of gone) {
    let best = -1;
    let least = Infinity;
    for (let index = 0; index < plan.count; index++) {
      if (!fits(index) || chosen.has(index)) continue;
      const away = plan.section[index] === plan.section[lost] ? 0 : OTHER_SECTION;
      const cost = apart(plan, index, lost) + away;
      if (cost < least) {
        least = cost;
        best = index;
      }
    }
    if (best < 0) return null;
    chosen.add(best);
  }
  return [...chosen];
}

const apart = (plan: Plan, a: number, b: number) =>
  Math.hypot(plan.x[a]! - plan.x[b]!, plan.y[a]! - plan.y[b]!);

const mean = (indexes: readonly number[], of: Float32Array) =>
  indexes.reduce((sum, index) => sum + of[index]!, 0) / indexes.length;
