/** A house as the map draws it: seats in typed arrays, one seat's width apart, with the sections,
 * rows, pools and tiers that they make up. Where everything is never changes; states do. */

import type { MapPool, MapSeat, SeatState } from "../api/types";
import { Grid } from "./grid";
import { type Box, boxOf, furnish, outlineOf, untangle } from "./places";

export const AVAILABLE = 0;
export const HELD = 1;
export const SOLD = 2;
export const STATES: readonly SeatState[] = ["available", "held", "sold"];

export const ACCESSIBLE = 1;
export const COMPANION = 2;
export const RESTRICTED = 4;

const code = (state: SeatState): number =>
  state === "available" ? AVAILABLE : state === "held" ? HELD : SOLD;

export interface Tier {
  id: string;
  /** In the minor unit; null where the event does not say. */
  price: number | null;
  /** Which of the colours --tier-1 and so on: the dearest is the first. */
  color: number;
  seats: number;
  free: number;
}

export interface Row {
  section: number;
  name: string;
  /** In order of their numbers. */
  seats: Uint32Array;
}

export interface Section {
  id: string;
  box: Box;
  /** Around its outer seats, x and y in turns; drawn with a wide stroke it is around the section. */
  outline: Float32Array;
  /** Indexes into the plan's rows, front to back. */
  rows: number[];
  seats: number;
  free: number;
}

/** Counted stock, as an area of its own. */
export interface PoolArea {
  id: string;
  tier: number;
  capacity: number;
  available: number;
  box: Box;
}

/** What one round of changes touched. */
export interface Touched {
  seats: readonly number[];
  pools: readonly number[];
}

export class Plan {
  private readonly watchers = new Set<(touched: Touched) => void>();

  constructor(
    readonly ids: readonly string[],
    readonly x: Float32Array,
    readonly y: Float32Array,
    readonly state: Uint8Array,
    readonly flags: Uint8Array,
    readonly tier: Uint16Array,
    readonly section: Uint32Array,
    /** Index into `rows`, for each seat. */
    readonly row: Uint32Array,
    readonly number: Int32Array,
    readonly tiers: readonly Tier[],
    readonly sections: readonly Section[],
    readonly rows: readonly Row[],
    readonly pools: readonly PoolArea[],
    /** Everything that is drawn. */
    readonly box: Box,
    /** Where the eyes go: a stage in front, or what the seats surround. */
    readonly stage: Box | null,
    readonly grid: Grid,
    private readonly index: ReadonlyMap<string, number>,
    private readonly served: Float32Array,
  ) {}

  get count(): number {
    return this.ids.length;
  }

  /** -1 where there is no such seat. */
  indexOf(id: string): number {
    return this.index.get(id) ?? -1;
  }

  pool(id: string): PoolArea | undefined {
    return this.pools.find((pool) => pool.id === id);
  }

  isFree(index: number): boolean {
    return this.state[index] === AVAILABLE;
  }

  stateOf(index: number): SeatState {
    return STATES[this.state[index]!]!;
  }

  tierOf(index: number): Tier {
    return this.tiers[this.tier[index]!]!;
  }

  priceOf(index: number): number | null {
    return this.tierOf(index).price;
  }

  /** Calls back after each round of changes. Returns how to stop. */
  watch(watcher: (touched: Touched) => void): () => void {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }

  /** Seats in their new states, and what is left of pools. What is not of this plan is passed over:
   * a frame may tell of a seat that the next snapshot brings. */
  apply(
    changes: Iterable<readonly [string, SeatState]>,
    pools: Readonly<Record<string, number>> = {},
  ): void {
    const seats: number[] = [];
    for (const [id, state] of changes) {
      const at = this.index.get(id);
      if (at !== undefined && this.set(at, code(state))) seats.push(at);
    }
    this.tell(seats, this.setPools(Object.entries(pools)));
  }

  /** Takes the states of a snapshot, if it is of the same house: false when it is not. */
  refresh(seats: readonly MapSeat[], pools: readonly MapPool[]): boolean {
    if (!this.sameAs(seats, pools)) return false;
    const changed: number[] = [];
    seats.forEach((seat, at) => {
      if (this.set(at, code(seat.state))) changed.push(at);
    });
    this.tell(changed, this.setPools(pools.map((pool) => [pool.id, pool.available] as const)));
    return true;
  }

  private sameAs(seats: readonly MapSeat[], pools: readonly MapPool[]): boolean {
    if (seats.length !== this.count || pools.length !== this.pools.length) return false;
    const tiers = this.tiers;
    return (
      pools.every((pool, at) => {
        const known = this.pools[at]!;
        return pool.id === known.id && pool.capacity === known.capacity;
      }) &&
      seats.every(
        (seat, at) =>
          seat.id === this.ids[at] &&
          seat.tier === tiers[this.tier[at]!]!.id &&
          Math.fround(seat.x) === this.served[2 * at] &&
          Math.fround(seat.y) === this.served[2 * at + 1],
      )
    );
  }

  private set(at: number, state: number): boolean {
    const before = this.state[at]!;
    if (before === state) return false;
    this.state[at] = state;
    const freed = Number(state === AVAILABLE) - Number(before === AVAILABLE);
    this.sections[this.section[at]!]!.free += freed;
    this.tiers[this.tier[at]!]!.free += freed;
    return true;
  }

  private setPools(left: Iterable<readonly [string, number]>): number[] {
    const changed: number[] = [];
    for (const [id, available] of left) {
      const at = this.pools.findIndex((pool) => pool.id === id);
      const pool = this.pools[at];
      if (!pool || pool.available === available) continue;
      pool.available = available;
      changed.push(at);
    }
    return changed;
  }

  private tell(seats: number[], pools: number[]): void {
    if (!seats.length && !pools.length) return;
    for (const watcher of this.watchers) watcher({ seats, pools });
  }
}

/** The plan of what GET .../seats answers. Prices are the event's, by tier. */
export function makePlan(
  seats: readonly MapSeat[],
  pools: readonly MapPool[],
  prices: Readonly<Record<string, number>> = {},
): Plan {
  const count = seats.length;
  const tiers = tiersOf(seats, pools, prices);
  const tierAt = new Map(tiers.map((tier, at) => [tier.id, at]));
  const ids = new Array<string>(count);
  const index = new Map<string, number>();
  const served = new Float32Array(2 * count);
  const x = new Float32Array(count);
  const y = new Float32Array(count);
  const state = new Uint8Array(count);
  const flags = new Uint8Array(count);
  const tier = new Uint16Array(count);
  const number = new Int32Array(count);
  for (let i = 0; i < count; i++) {
    const seat = seats[i]!;
    ids[i] = seat.id;
    index.set(seat.id, i);
    x[i] = served[2 * i] = seat.x;
    y[i] = served[2 * i + 1] = seat.y;
    state[i] = code(seat.state);
    tier[i] = tierAt.get(seat.tier)!;
    number[i] = seat.number;
    flags[i] =
      (seat.accessible ? ACCESSIBLE : 0) |
      (seat.companion ? COMPANION : 0) |
      (seat.restricted_view ? RESTRICTED : 0);
    const its = tiers[tier[i]!]!;
    its.seats += 1;
    if (state[i] === AVAILABLE) its.free += 1;
  }
  const { sections, rows, section, row } = rowsOf(seats, number);
  untangle(x, y, rows, sections);
  const grid = new Grid(x, y);
  for (const each of sections) {
    const members = each.rows.map((at) => rows[at]!.seats);
    each.box = boxOf(x, y, members);
    each.outline = outlineOf(x, y, members);
  }
  for (let i = 0; i < count; i++) {
    const its = sections[section[i]!]!;
    its.seats += 1;
    if (state[i] === AVAILABLE) its.free += 1;
  }
  const house = furnish(x, y, sections, rows.length, pools.length);
  const areas = pools.map((pool, at) => ({
    id: pool.id,
    tier: tierAt.get(pool.tier ?? pool.id) ?? 0,
    capacity: pool.capacity,
    available: pool.available,
    box: house.pools[at]!,
  }));
  return new Plan(
    ...([ids, x, y, state, flags, tier, section, row, number, tiers, sections, rows] as const),
    ...([areas, house.box, house.stage, grid, index, served] as const),
  );
}

/** Those that something is of, the dearest first. */
function tiersOf(
  seats: readonly MapSeat[],
  pools: readonly MapPool[],
  prices: Readonly<Record<string, number>>,
): Tier[] {
  const names = new Set<string>();
  for (const seat of seats) names.add(seat.tier);
  for (const pool of pools) names.add(pool.tier ?? pool.id);
  const price = (name: string) => (Object.hasOwn(prices, name) ? prices[name]! : null);
  return [...names]
    .sort((a, b) => (price(b) ?? -1) - (price(a) ?? -1) || natural(a, b))
    .map((id, color) => ({ id, price: price(id), color, seats: 0, free: 0 }));
}

const collator = new Intl.Collator(undefined, { numeric: true });
/** 2 before 10. */
export const natural = (a: string, b: string): number => collator.compare(a, b);

function rowsOf(seats: readonly MapSeat[], number: Int32Array) {
  const sections: Section[] = [];
  const rows: Row[] = [];
  const members: number[][] = [];
  const known = new Map<string, { at: number; rows: Map<string, number> }>();
  const section = new Uint32Array(seats.length);
  const row = new Uint32Array(seats.length);
  seats.forEach((seat, i) => {
    let mine = known.get(seat.section);
    if (!mine) {
      mine = { at: sections.length, rows: new Map() };
      known.set(seat.section, mine);
      sections.push(blank(seat.section));
    }
    let at = mine.rows.get(seat.row);
    if (at === undefined) {
      at = rows.length;
      mine.rows.set(seat.row, at);
      rows.push({ section: mine.at, name: seat.row, seats: new Uint32Array() });
      members.push([]);
      sections[mine.at]!.rows.push(at);
    }
    members[at]!.push(i);
    section[i] = mine.at;
    row[i] = at;
  });
  rows.forEach((each, at) => {
    each.seats = Uint32Array.from(members[at]!).sort((a, b) => number[a]! - number[b]!);
  });
  for (const each of sections) each.rows.sort((a, b) => natural(rows[a]!.name, rows[b]!.name));
  return { sections, rows, section, row };
}

const blank = (id: string): Section => ({
  id,
  box: { left: 0, top: 0, right: 0, bottom: 0 },
  outline: new Float32Array(),
  rows: [],
  seats: 0,
  free: 0,
});
