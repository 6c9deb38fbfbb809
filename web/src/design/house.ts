/** A draft read as the service would read it: its units, its worth, and all that is wrong. */

import { minorDigits } from "../format";
import { t } from "../strings";
import {
  CAP_MAX,
  CAPACITY_MAX,
  CURRENCY,
  EVENT_ID,
  EXTENSIONS_MAX,
  LABEL_CHARS_MAX,
  NAME_CHARS_MAX,
  POOLS_MAX,
  PRICE_MAX,
  SEATS_MAX,
  SECONDS_MAX,
  TIERS_MAX,
  WORTH_MAX,
} from "./limits";
import type { Draft, Seat } from "./model";
import { type Fault, Reader, toMinor } from "./reading";
import { arcShape, gridShape, isPlain, type Shape } from "./shapes";

export interface Block {
  /** Where its fields are: `grids[0]`. */
  path: string;
  shape: Shape;
  /** Sent as a grid of the service's own. */
  plain: boolean;
}

export interface House {
  blocks: Block[];
  /** Of all blocks, and the single ones, in the order in which they are sent. */
  seats: Seat[];
  pools: { id: string; capacity: number; tier: string }[];
  /** In the minor unit. */
  prices: Record<string, number>;
  units: number;
  /** If everything sells, in the minor unit. */
  worth: number;
  faults: Fault[];
}

const say = t.design.faults;

export function houseOf(draft: Draft): House {
  const read = new Reader();
  readSettings(read, draft);
  const prices = readPrices(read, draft);
  const priced = (path: string, tier: string) => {
    if (!tier) read.add(path, say.tierNeeded, true);
    else if (!Object.hasOwn(prices, tier)) read.add(path, say.tierUnknown(tier));
  };
  const blocks = blocksOf(draft);
  for (const { path, shape } of blocks) {
    for (const fault of shape.faults) read.faults.push({ ...fault, path: `${path}.${fault.path}` });
  }
  draft.grids.forEach((grid, n) => {
    priced(`grids[${n}].tier`, grid.tier);
  });
  draft.arcs.forEach((arc, n) => {
    priced(`arcs[${n}].tier`, arc.tier);
  });
  for (const tier of new Set(draft.seats.map((seat) => seat.tier))) priced("seats", tier);
  const seats = joined(read, blocks, draft);
  const pools = readPools(read, draft, priced);
  const places = pools.reduce((sum, pool) => sum + pool.capacity, 0);
  const units = seats.length + places;
  const blocked = read.faults.length > 0;
  if (units === 0 && !blocked) read.add("units", say.noUnits, true);
  const dearest = Math.max(0, ...Object.values(prices));
  if (BigInt(units) * BigInt(dearest) > WORTH_MAX) read.add("tiers", say.tooDear);
  let worth = pools.reduce((sum, pool) => sum + pool.capacity * (prices[pool.tier] ?? 0), 0);
  for (const seat of seats) worth += prices[seat.tier] ?? 0;
  return { blocks, seats, pools, prices, units, worth, faults: read.faults };
}

function blocksOf(draft: Draft): Block[] {
  let depth = 0;
  let seats = 0;
  /** Past the limit nothing more is built: a small file can ask for more than there is memory. */
  const within = (make: () => Shape): Shape => {
    if (seats > SEATS_MAX) return { seats: [], faults: [], front: depth, depth };
    const shape = make();
    seats += shape.seats.length;
    return shape;
  };
  const blocks = draft.grids.map((grid, n): Block => {
    const shape = within(() => gridShape(grid, depth));
    depth = shape.depth;
    return { path: `grids[${n}]`, shape, plain: isPlain(grid) };
  });
  draft.arcs.forEach((arc, n) => {
    blocks.push({ path: `arcs[${n}]`, shape: within(() => arcShape(arc)), plain: false });
  });
  return blocks;
}

/** Where a seat stands that does not say it: behind all grids. */
export const depthOf = (draft: Draft): number =>
  Math.max(0, ...blocksOf(draft).map((block) => block.shape.depth));

/** All seats, grids of the service's own first, as it reads them; no two with the same id. */
function joined(read: Reader, blocks: Block[], draft: Draft): Seat[] {
  const seats: Seat[] = [];
  const taken = new Set<string>();
  const ordered = [...blocks.filter((b) => b.plain), ...blocks.filter((b) => !b.plain)];
  for (const { path, shape } of ordered) {
    const twice = shape.seats.find((seat) => taken.has(seat.id));
    if (twice) {
      read.add(`${path}.id`, say.seatTwice(twice.id));
      continue;
    }
    for (const seat of shape.seats) {
      taken.add(seat.id);
      seats.push(seat);
    }
  }
  const twice: string[] = [];
  for (const seat of draft.seats) {
    if (taken.has(seat.id)) twice.push(seat.id);
    taken.add(seat.id);
    seats.push(seat);
  }
  if (twice.length) read.add("seats", say.seatsTwice(twice.slice(0, 5), twice.length));
  if (seats.length > SEATS_MAX) read.add("units", say.tooManySeats);
  return seats;
}

function readSettings(read: Reader, draft: Draft): void {
  if (!draft.id) read.add("id", say.needed, true);
  else if (!EVENT_ID.test(draft.id)) read.add("id", say.eventId);
  // Without a name the event is called by its id.
  if (draft.name) read.label("name", draft.name, NAME_CHARS_MAX);
  if (!CURRENCY.test(draft.currency)) read.add("currency", say.currency);
  read.whole("holdSeconds", draft.holdSeconds, 1, SECONDS_MAX);
  read.whole("graceSeconds", draft.graceSeconds, 0, SECONDS_MAX);
  read.whole("maxExtensions", draft.maxExtensions, 0, EXTENSIONS_MAX);
  if (draft.maxPerBuyer.trim()) read.whole("maxPerBuyer", draft.maxPerBuyer, 1, CAP_MAX);
}

function readPrices(read: Reader, draft: Draft): Record<string, number> {
  const prices: Record<string, number> = {};
  draft.tiers.forEach((tier, n) => {
    const at = `tiers[${n}]`;
    read.label(`${at}.name`, tier.name, LABEL_CHARS_MAX);
    if (tier.name && Object.hasOwn(prices, tier.name)) read.add(`${at}.name`, say.tierTwice);
    const price = toMinor(tier.price, draft.currency);
    if (!tier.price.trim()) read.add(`${at}.price`, say.needed, true);
    else if (price === null) read.add(`${at}.price`, say.price(minorDigits(draft.currency)));
    else if (price > PRICE_MAX) read.add(`${at}.price`, say.priceMost);
    // A tier is known while its price is being typed.
    Object.defineProperty(prices, tier.name, {
      value: price ?? 0,
      enumerable: true,
      configurable: true,
      writable: true,
    });
  });
  if (draft.tiers.length > TIERS_MAX) read.add("tiers", say.tooManyTiers(TIERS_MAX));
  return prices;
}

function readPools(
  read: Reader,
  draft: Draft,
  priced: (path: string, tier: string) => void,
): House["pools"] {
  const found: House["pools"] = [];
  const taken = new Set<string>();
  draft.pools.forEach((pool, n) => {
    const at = `pools[${n}]`;
    read.label(`${at}.id`, pool.id, LABEL_CHARS_MAX);
    if (taken.has(pool.id)) read.add(`${at}.id`, say.poolTwice);
    taken.add(pool.id);
    const capacity = read.whole(`${at}.capacity`, pool.capacity, 1, CAPACITY_MAX);
    if (pool.channel) read.label(`${at}.channel`, pool.channel, LABEL_CHARS_MAX);
    const tier = pool.tier || pool.id;
    if (pool.id || pool.tier) priced(`${at}.tier`, tier);
    if (pool.id && !Number.isNaN(capacity)) found.push({ id: pool.id, capacity, tier });
  });
  if (draft.pools.length > POOLS_MAX) read.add("pools", say.tooManyPools(POOLS_MAX));
  return found;
}
