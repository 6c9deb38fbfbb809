/** Seats written small, so that a browser can keep tens of thousands: what a row's seats have in
 * common is said once, and of each only its number and place. */

import type { Seat } from "./model";

interface PackedRow {
  s: string;
  r: string;
  t: string;
  /** Accessible 1, companion 2, restricted view 4. */
  f: number;
  c: string;
  /** The rank of all, or of each. */
  k: number | null | (number | null)[];
  /** Number, x and y in turns. */
  n: number[];
  /** Left out where each is section, row and number. */
  i?: string[];
}

const flags = (seat: Seat): number =>
  (seat.accessible ? 1 : 0) | (seat.companion ? 2 : 0) | (seat.restricted ? 4 : 0);

const usual = (seat: Pick<Seat, "section" | "row" | "number">): string =>
  `${seat.section}-${seat.row}-${seat.number}`;

export function packSeats(seats: readonly Seat[]): PackedRow[] {
  const rows: PackedRow[] = [];
  let own: Seat[] = [];
  const close = () => {
    const row = rows.at(-1);
    if (row && own.some((seat) => seat.id !== usual(seat))) row.i = own.map((seat) => seat.id);
    if (row && own.some((seat) => seat.rank !== row.k)) row.k = own.map((seat) => seat.rank);
    own = [];
  };
  for (const seat of seats) {
    const before = own[0];
    const same =
      before &&
      before.section === seat.section &&
      before.row === seat.row &&
      before.tier === seat.tier &&
      before.channel === seat.channel &&
      flags(before) === flags(seat);
    if (!same) {
      close();
      const { section: s, row: r, tier: t, channel: c, rank: k } = seat;
      rows.push({ s, r, t, f: flags(seat), c, k, n: [] });
    }
    own.push(seat);
    rows.at(-1)!.n.push(seat.number, seat.x, seat.y);
  }
  close();
  return rows;
}

/** Null where it is not what `packSeats` wrote. */
export function unpackSeats(raw: unknown): Seat[] | null {
  if (!Array.isArray(raw)) return null;
  const seats: Seat[] = [];
  for (const row of raw as PackedRow[]) {
    if (!isRow(row)) return null;
    for (let at = 0; at < row.n.length; at += 3) {
      const [number, x, y] = [row.n[at]!, row.n[at + 1]!, row.n[at + 2]!];
      const place = { section: row.s, row: row.r, number };
      seats.push({
        id: row.i?.[at / 3] ?? usual(place),
        ...place,
        tier: row.t,
        x,
        y,
        accessible: (row.f & 1) > 0,
        companion: (row.f & 2) > 0,
        restricted: (row.f & 4) > 0,
        channel: row.c,
        rank: Array.isArray(row.k) ? row.k[at / 3]! : row.k,
      });
    }
  }
  return seats;
}

const isRank = (rank: number | null): boolean => rank === null || Number.isInteger(rank);

function isRow(row: PackedRow): boolean {
  return (
    typeof row === "object" &&
    row !== null &&
    [row.s, row.r, row.t, row.c].every((text) => typeof text === "string") &&
    Number.isInteger(row.f) &&
    Array.isArray(row.n) &&
    row.n.length % 3 === 0 &&
    (Array.isArray(row.k)
      ? row.k.length * 3 === row.n.length && row.k.every(isRank)
      : isRank(row.k)) &&
    row.n.every((value) => Number.isFinite(value)) &&
    (row.i === undefined ||
      (Array.isArray(row.i) &&
        row.i.length * 3 === row.n.length &&
        row.i.every((id) => typeof id === "string")))
  );
}
