/** Where the seats of a block stand. Pure: the same block gives the same seats, and one that has not
 * changed is not computed again. */

import { t } from "../strings";
import { LABEL_CHARS_MAX, RANK_MAX, ROWS_MAX, SEATS_MAX, SECTION_CHARS_MAX } from "./limits";
import type { Arc, Grid, Seat, Traits } from "./model";
import { type Fault, Reader } from "./reading";

export interface Shape {
  /** None where something is wrong. */
  seats: Seat[];
  /** Paths are fields of the block: `rows`. */
  faults: Fault[];
  /** How near the front it begins. */
  front: number;
  /** Where the next grid may stand. */
  depth: number;
}

const say = t.design.faults;

/** Thousandths: nobody sits more exactly, and files stay small. */
const exact = (value: number): number => Math.round(value * 1000) / 1000 + 0;

const RADIANS = Math.PI / 180;

/** Whole turns and quarters come out exactly. */
function sinCos(degrees: number): [number, number] {
  const a = degrees * RADIANS;
  return degrees % 90 === 0
    ? [Math.round(Math.sin(a)), Math.round(Math.cos(a))]
    : [Math.sin(a), Math.cos(a)];
}

const grids = new WeakMap<Grid, Shape & { given: number }>();
const arcs = new WeakMap<Arc, Shape>();

/** A grid that does not say its `y` begins at `depth`. */
export function gridShape(grid: Grid, depth: number): Shape {
  const given = grid.y.trim() ? Number.NaN : depth;
  const known = grids.get(grid);
  if (known && Object.is(known.given, given)) return known;
  const shape = { ...makeGrid(grid, depth), given };
  grids.set(grid, shape);
  return shape;
}

export function arcShape(arc: Arc): Shape {
  let shape = arcs.get(arc);
  if (!shape) {
    shape = makeArc(arc);
    arcs.set(arc, shape);
  }
  return shape;
}

/** Whether the service's own grids can say it; what they cannot is sent seat by seat. */
export const isPlain = (grid: Grid): boolean =>
  Number(grid.turn) === 0 &&
  grid.first.trim() === "1" &&
  ![
    ...[grid.rowNames, grid.accessibleRows, grid.restrictedRows],
    ...[grid.rankStep, grid.rankSide],
  ].some((text) => text.trim());

interface RowTraits {
  names: string[];
  first: number;
  accessible: Set<number>;
  restricted: Set<number>;
  rank: number | null;
  rankStep: number;
  rankSide: number;
}

function readRows(read: Reader, block: Grid | Arc, rows: number): RowTraits {
  const known = Number.isNaN(rows) ? ROWS_MAX : rows;
  return {
    names: Number.isNaN(rows) ? [] : read.rowNames("rowNames", block.rowNames, rows),
    first: read.first("first", block.first),
    accessible: new Set(read.wholes("accessibleRows", block.accessibleRows, known)),
    restricted: new Set(read.wholes("restrictedRows", block.restrictedRows, known)),
    ...readRank(read, block, known),
  };
}

function readRank(read: Reader, block: Traits, rows: number) {
  if (!block.rank.trim()) {
    if (block.rankStep.trim() || block.rankSide.trim()) read.add("rank", say.needed);
    return { rank: null, rankStep: 0, rankSide: 0 };
  }
  const rank = read.whole("rank", block.rank, 0, RANK_MAX);
  const most = Math.floor(RANK_MAX / ROWS_MAX);
  const more = (field: "rankStep" | "rankSide") =>
    block[field].trim() ? read.whole(field, block[field], 0, most) : 0;
  const [rankStep, rankSide] = [more("rankStep"), more("rankSide")];
  const worst = rank + rankStep * (rows - 1) + (rankSide * ROWS_MAX) / 2;
  if (worst > RANK_MAX) read.add("rank", say.range(0, RANK_MAX));
  return { rank, rankStep, rankSide };
}

function readTraits(read: Reader, block: Grid | Arc): void {
  read.label("id", block.id, SECTION_CHARS_MAX);
  if (block.channel) read.label("channel", block.channel, LABEL_CHARS_MAX);
}

function seatOf(
  block: Grid | Arc,
  traits: RowTraits,
  row: number,
  nth: number,
  width: number,
  x: number,
  y: number,
): Seat {
  const name = traits.names[row]!;
  const number = traits.first + nth;
  // The two in the middle of an even row are equally good.
  const aside = Math.floor(Math.abs(nth - (width - 1) / 2));
  const special = traits.accessible.has(row + 1);
  const companion = special && block.companions && nth % 2 === 1;
  return {
    id: `${block.id}-${name}-${number}`,
    section: block.id,
    row: name,
    number,
    tier: block.tier,
    x,
    y,
    accessible: block.accessible || (special && !companion),
    companion: block.companion || companion,
    restricted: block.restricted || traits.restricted.has(row + 1),
    channel: block.channel,
    rank:
      traits.rank === null ? null : traits.rank + traits.rankStep * row + traits.rankSide * aside,
  };
}

const longest = (seats: Seat[]): number =>
  seats.reduce((most, seat) => Math.max(most, seat.id.length), 0);

function finished(read: Reader, seats: Seat[], front: number, before: number): Shape {
  if (longest(seats) > LABEL_CHARS_MAX) read.add("id", say.seatIdLong(LABEL_CHARS_MAX));
  const broken = read.faults.length > 0;
  const back = seats.reduce((most, seat) => Math.max(most, seat.y), Number.NEGATIVE_INFINITY);
  return {
    seats: broken ? [] : seats,
    faults: read.faults,
    front,
    depth: broken ? before : Math.max(before, back + 1),
  };
}

function makeGrid(grid: Grid, depth: number): Shape {
  const read = new Reader();
  readTraits(read, grid);
  const rows = read.whole("rows", grid.rows, 1, ROWS_MAX);
  const width = read.whole("seats", grid.seats, 1, ROWS_MAX);
  const traits = readRows(read, grid, rows);
  const aisles = read.wholes("aisles", grid.aisles, width || ROWS_MAX);
  const left = grid.x.trim() ? read.number("x", grid.x) : 0;
  const front = grid.y.trim() ? read.number("y", grid.y) : depth;
  const turn = grid.turn.trim() ? read.number("turn", grid.turn, -360, 360) : 0;
  if (rows * width > SEATS_MAX) read.add("rows", say.tooManySeats);
  const seats: Seat[] = [];
  if (read.faults.length === 0) {
    const [sin, cos] = sinCos(turn);
    const along = Array.from(
      { length: width },
      (_, n) => n + 1 + aisles.filter((after) => after < n + 1).length,
    );
    for (let row = 0; row < rows; row += 1) {
      for (let n = 0; n < width; n += 1) {
        const dx = along[n]!;
        const dy = row + 1;
        const x = turn ? exact(left + dx * cos - dy * sin) : left + dx;
        const y = turn ? exact(front + dx * sin + dy * cos) : front + dy;
        seats.push(seatOf(grid, traits, row, n, width, x, y));
      }
    }
  }
  return finished(read, seats, front, depth);
}

function makeArc(arc: Arc): Shape {
  const read = new Reader();
  readTraits(read, arc);
  const rows = read.whole("rows", arc.rows, 1, ROWS_MAX);
  const x = read.number("x", arc.x);
  const y = read.number("y", arc.y);
  const radius = read.number("radius", arc.radius, 0.1, 100_000);
  const from = read.number("from", arc.from, -360, 360);
  const to = read.number("to", arc.to, -360, 360);
  const rowStep = read.number("rowStep", arc.rowStep, 0.1, 1000);
  const bySpacing = arc.fill === "spacing";
  const spacing = bySpacing ? read.number("spacing", arc.spacing, 0.1, 1000) : 1;
  const each = bySpacing ? 0 : read.whole("seats", arc.seats, 1, ROWS_MAX);
  const traits = readRows(read, arc, rows);
  const aisles = read.numbers("aisles", arc.aisles).sort((a, b) => a - b);
  if (from >= to) read.add("to", say.angles);
  else if (to - from > 360) read.add("to", say.fullTurn);
  if (aisles.some((at) => at <= from || at >= to)) read.add("aisles", say.aisleOutside(from, to));
  const back = radius + rowStep * (rows - 1);
  const most = bySpacing ? (back * (to - from) * RADIANS) / spacing + 1 : each;
  if (most > ROWS_MAX) read.add(bySpacing ? "spacing" : "seats", say.rowTooLong(ROWS_MAX));
  else if (most * rows > SEATS_MAX) read.add("rows", say.tooManySeats);
  const seats: Seat[] = [];
  if (read.faults.length === 0) {
    for (let row = 0; row < rows; row += 1) {
      const r = radius + rowStep * row;
      const angles = rowAngles(r, from, to, aisles, bySpacing ? spacing : null, each);
      angles.forEach((angle, n) => {
        const nth = arc.numbering === "left" ? n : angles.length - 1 - n;
        const [sin, cos] = sinCos(angle);
        const at: [number, number] = [exact(x + r * sin), exact(y + r * cos)];
        seats.push(seatOf(arc, traits, row, nth, angles.length, ...at));
      });
    }
  }
  return finished(read, seats, y + radius, Number.NEGATIVE_INFINITY);
}

/** The angles of one row's seats, from left to right. The ends of a stretch between aisles carry a
 * seat each, so that blocks have straight edges; an aisle is as wide as two seats. */
function rowAngles(
  r: number,
  from: number,
  to: number,
  aisles: number[],
  spacing: number | null,
  each: number,
): number[] {
  const whole = to - from === 360;
  const step = spacing ?? ((to - from) * RADIANS * r) / Math.max(1, each - (whole ? 0 : 1));
  const half = Math.min(step / r / RADIANS, (to - from) / (4 * (aisles.length + 1)));
  const ends = [from, ...aisles, to];
  const stretches = ends.slice(1).map((end, n): [number, number] => {
    const left = ends[n]! + (n > 0 ? half : 0);
    // A whole round ends one step before it began.
    const gap = n === aisles.length ? (whole ? step / r / RADIANS : 0) : half;
    return [left, end - gap];
  });
  const shares = spacing
    ? stretches.map(([a, b]) => Math.floor(((b - a) * RADIANS * r) / spacing + 1e-6) + 1)
    : shared(each, stretches);
  return stretches.flatMap(([a, b], n) => {
    const count = shares[n]!;
    if (count === 1) return [(a + b) / 2];
    return Array.from({ length: count }, (_, i) => a + ((b - a) * i) / (count - 1));
  });
}

/** So many seats divided among stretches by their lengths; what rounding leaves goes to the largest
 * remainders. */
function shared(each: number, stretches: [number, number][]): number[] {
  const lengths = stretches.map(([a, b]) => b - a);
  const whole = lengths.reduce((sum, length) => sum + length, 0);
  const ideal = lengths.map((length) => (each * length) / whole);
  const counts = ideal.map(Math.floor);
  let left = each - counts.reduce((sum, count) => sum + count, 0);
  const order = ideal.map((_, n) => n).sort((a, b) => (ideal[b]! % 1) - (ideal[a]! % 1));
  for (const n of order) {
    if (left <= 0) break;
    counts[n]! += 1;
    left -= 1;
  }
  return counts;
}
