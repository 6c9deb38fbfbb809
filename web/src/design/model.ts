/** An event while it is being designed. What people type stays text until it is read, so that a
 * half-written number is neither lost nor taken for another one. */

export interface Tier {
  key: string;
  name: string;
  /** In the currency's major unit, as typed. */
  price: string;
  /** What it was called before its name was emptied: what has this price follows the next one. */
  was: string;
}

/** What the seats of a block have in common. */
export interface Traits {
  tier: string;
  channel: string;
  /** Of the middle of the first row; each row behind it has `rankStep` more, each seat further from
   * the middle of its row `rankSide`. */
  rank: string;
  rankStep: string;
  rankSide: string;
  accessible: boolean;
  companion: boolean;
  restricted: boolean;
  /** Rows by their place from the front, as `1, 4-6`. */
  accessibleRows: string;
  /** Every second seat of those rows is for who comes along. */
  companions: boolean;
  restrictedRows: string;
}

/** Straight rows. */
export interface Grid extends Traits {
  key: string;
  id: string;
  rows: string;
  seats: string;
  aisles: string;
  x: string;
  /** Empty: behind the grid before. */
  y: string;
  /** Degrees, clockwise, around the front left corner. */
  turn: string;
  rowNames: string;
  first: string;
}

/** Rows bent around a point. Angle 0 looks straight away from it, negative ones are on the left. */
export interface Arc extends Traits {
  key: string;
  id: string;
  rows: string;
  x: string;
  y: string;
  radius: string;
  from: string;
  to: string;
  rowStep: string;
  fill: "spacing" | "fixed";
  spacing: string;
  seats: string;
  /** Angles at which people walk. */
  aisles: string;
  numbering: "left" | "right";
  rowNames: string;
  first: string;
}

/** One seat with all it has, as the service keeps it. */
export interface Seat {
  id: string;
  section: string;
  row: string;
  number: number;
  tier: string;
  x: number;
  y: number;
  accessible: boolean;
  companion: boolean;
  restricted: boolean;
  channel: string;
  rank: number | null;
}

export interface Pool {
  key: string;
  id: string;
  capacity: string;
  /** Empty: the pool's id. */
  tier: string;
  channel: string;
}

export interface Draft {
  id: string;
  name: string;
  currency: string;
  state: "on_sale" | "paused" | "closed";
  holdSeconds: string;
  graceSeconds: string;
  maxExtensions: string;
  /** Empty: no cap. */
  maxPerBuyer: string;
  ranking: "rows" | "centre" | "rank";
  latePayment: "settle" | "same_units" | "void";
  policy: "" | "authority" | "two-layer" | "gate";
  gate: boolean;
  flashSale: boolean;
  waitingRoom: boolean;
  tiers: Tier[];
  grids: Grid[];
  arcs: Arc[];
  seats: Seat[];
  pools: Pool[];
}

export type ListName = "tiers" | "grids" | "arcs" | "pools";

let made = 0;

/** Tells the items of a list apart while they are moved around; no part of the event. */
export function newKey(): string {
  made += 1;
  return `k${made}`;
}

const TRAITS: Omit<Traits, "tier"> = {
  channel: "",
  rank: "",
  rankStep: "",
  rankSide: "",
  accessible: false,
  companion: false,
  restricted: false,
  accessibleRows: "",
  companions: false,
  restrictedRows: "",
};

export const newTier = (name: string, price: string): Tier => ({
  key: newKey(),
  name,
  price,
  was: "",
});

export const newGrid = (given: Partial<Grid> = {}): Grid => ({
  key: newKey(),
  id: "",
  tier: "",
  rows: "10",
  seats: "20",
  aisles: "",
  x: "0",
  y: "",
  turn: "0",
  rowNames: "",
  first: "1",
  ...TRAITS,
  ...given,
});

export const newArc = (given: Partial<Arc> = {}): Arc => ({
  key: newKey(),
  id: "",
  tier: "",
  rows: "8",
  x: "0",
  y: "0",
  radius: "8",
  from: "-50",
  to: "50",
  rowStep: "1",
  fill: "spacing",
  spacing: "1",
  seats: "20",
  aisles: "",
  numbering: "left",
  rowNames: "",
  first: "1",
  ...TRAITS,
  ...given,
});

export const newPool = (given: Partial<Pool> = {}): Pool => ({
  key: newKey(),
  id: "",
  capacity: "100",
  tier: "",
  channel: "",
  ...given,
});

export const newSeat = (given: Pick<Seat, "id" | "number" | "tier"> & Partial<Seat>): Seat => ({
  section: "main",
  row: "1",
  x: given.number,
  y: 0,
  accessible: false,
  companion: false,
  restricted: false,
  channel: "",
  rank: null,
  ...given,
});

/** What an event is that says nothing: the service's own defaults. */
export const emptyDraft = (given: Partial<Draft> = {}): Draft => ({
  id: "",
  name: "",
  currency: "EUR",
  state: "on_sale",
  holdSeconds: "480",
  graceSeconds: "300",
  maxExtensions: "1",
  maxPerBuyer: "",
  ranking: "rows",
  latePayment: "settle",
  policy: "",
  gate: true,
  flashSale: false,
  waitingRoom: false,
  tiers: [],
  grids: [],
  arcs: [],
  seats: [],
  pools: [],
  ...given,
});

/** What a new design begins with: a small room, to be changed. */
export const firstDraft = (): Draft =>
  emptyDraft({
    maxPerBuyer: "8",
    tiers: [newTier("standard", "45")],
    grids: [newGrid({ id: "A", tier: "standard", rows: "8", seats: "16", aisles: "8" })],
  });

/** The first of A, B, C … that no block is called yet. */
export function freeName(taken: Iterable<string>, stem = ""): string {
  const used = new Set(taken);
  for (let n = 0; ; n += 1) {
    const name = stem ? `${stem}${n ? `-${n + 1}` : ""}` : letters(n);
    if (!used.has(name)) return name;
  }
}

/** 0 is A, 25 is Z, 26 is AA. */
export function letters(n: number): string {
  const last = String.fromCharCode(65 + (n % 26));
  return n < 26 ? last : letters(Math.floor(n / 26) - 1) + last;
}
