/** A draft as the JSON that makes the event, and the way back from its places to the fields. */

import { type Block, houseOf } from "./house";
import type { Draft, Seat } from "./model";
import { toMinor } from "./reading";

export interface Described {
  body: Record<string, unknown>;
  /** Which field of the draft a path of the service's speaks of: `sections[0].rows`. */
  fieldOf: (path: string) => string;
}

/** A draft that has no faults. */
export function describe(draft: Draft): Described {
  const { blocks } = houseOf(draft);
  const plain = blocks.filter((block) => block.plain);
  const spelled = blocks.filter((block) => !block.plain);
  const seats: Record<string, unknown>[] = [];
  const starts: { start: number; path: string }[] = [];
  for (const { path, shape } of spelled) {
    starts.push({ start: seats.length, path });
    for (const seat of shape.seats) seats.push(seatBody(seat));
  }
  const own = seats.length;
  for (const seat of draft.seats) seats.push(seatBody(seat));
  const sections = sectionBodies(draft, plain);
  const body = {
    ...settings(draft),
    prices: Object.fromEntries(
      draft.tiers.map((tier) => [tier.name, toMinor(tier.price, draft.currency)]),
    ),
    ...(sections.length ? { sections } : {}),
    ...(seats.length ? { seats } : {}),
    ...(draft.pools.length ? { pools: poolBodies(draft) } : {}),
  };
  return { body, fieldOf: (path) => fieldOf(path, draft, plain, starts, own) };
}

function settings(draft: Draft): Record<string, unknown> {
  const cap = draft.maxPerBuyer.trim();
  return {
    id: draft.id,
    ...(draft.name ? { name: draft.name } : {}),
    currency: draft.currency,
    ...(draft.state === "on_sale" ? {} : { state: draft.state }),
    hold_seconds: Number(draft.holdSeconds),
    grace_seconds: Number(draft.graceSeconds),
    max_extensions: Number(draft.maxExtensions),
    ...(cap ? { max_per_buyer: Number(cap) } : {}),
    ...(draft.ranking === "rows" ? {} : { ranking: draft.ranking }),
    ...(draft.latePayment === "settle" ? {} : { late_payment: draft.latePayment }),
    ...(draft.policy ? { policy: draft.policy } : {}),
    ...(draft.gate ? {} : { gate: false }),
    ...(draft.flashSale ? { flash_sale: true } : {}),
    ...(draft.waitingRoom ? { waiting_room: true } : {}),
  };
}

interface Marked {
  accessible: boolean;
  companion: boolean;
  restricted: boolean;
  channel: string;
}

const marks = (of: Marked, rank: number | null) => ({
  ...(of.accessible ? { accessible: true } : {}),
  ...(of.companion ? { companion: true } : {}),
  ...(of.restricted ? { restricted_view: true } : {}),
  ...(of.channel ? { channel: of.channel } : {}),
  ...(rank === null ? {} : { rank }),
});

const seatBody = (seat: Seat): Record<string, unknown> => ({
  id: seat.id,
  section: seat.section,
  row: seat.row,
  number: seat.number,
  tier: seat.tier,
  x: seat.x,
  y: seat.y,
  ...marks(seat, seat.rank),
});

const placeOf = (path: string): number => Number(/\[(\d+)\]$/.exec(path)![1]);

function sectionBodies(draft: Draft, plain: Block[]): Record<string, unknown>[] {
  let depth = 0;
  return plain.map(({ path, shape }) => {
    const grid = draft.grids[placeOf(path)]!;
    const aisles = expanded(grid.aisles);
    const x = Number(grid.x.replace(",", ".")) || 0;
    const stands = shape.front === depth;
    depth = Math.max(depth, shape.front + Number(grid.rows) + 1);
    return {
      id: grid.id,
      tier: grid.tier,
      rows: Number(grid.rows),
      seats_per_row: Number(grid.seats),
      ...(aisles.length ? { aisles } : {}),
      ...(x ? { x } : {}),
      ...(stands ? {} : { y: shape.front }),
      ...marks(grid, grid.rank.trim() ? Number(grid.rank) : null),
    };
  });
}

/** `1, 4-6` as 1, 4, 5, 6. */
function expanded(list: string): number[] {
  return list.split(/[,;]/).flatMap((part) => {
    const ends = part.match(/\d+/g)?.map(Number) ?? [];
    const [from = 1, to = from] = ends;
    return ends.length ? Array.from({ length: to - from + 1 }, (_, n) => from + n) : [];
  });
}

const poolBodies = (draft: Draft) =>
  draft.pools.map((pool) => ({
    id: pool.id,
    capacity: Number(pool.capacity),
    tier: pool.tier || pool.id,
    ...(pool.channel ? { channel: pool.channel } : {}),
  }));

const SETTINGS: Record<string, string> = {
  hold_seconds: "holdSeconds",
  grace_seconds: "graceSeconds",
  max_extensions: "maxExtensions",
  max_per_buyer: "maxPerBuyer",
  late_payment: "latePayment",
  flash_sale: "flashSale",
  waiting_room: "waitingRoom",
  prices: "tiers",
  sections: "units",
};

/** What a block calls the fields of its seats; whatever else is wrong with one shows at its name. */
const BLOCK_FIELDS: Record<string, string> = {
  id: "id",
  tier: "tier",
  rows: "rows",
  seats_per_row: "seats",
  aisles: "aisles",
  channel: "channel",
  rank: "rank",
  x: "x",
  y: "y",
};

function fieldOf(
  path: string,
  draft: Draft,
  plain: Block[],
  starts: { start: number; path: string }[],
  own: number,
): string {
  const [, list, nth, field = ""] = /^(sections|seats|pools)\[(\d+)\](?:\.(\w+))?/.exec(path) ?? [];
  const n = Number(nth);
  if (list === "pools") return `pools[${n}].${field || "id"}`;
  if (list === "sections") return `${plain[n]?.path ?? "units"}.${BLOCK_FIELDS[field] ?? "id"}`;
  if (list === "seats") {
    if (n >= own) return "seats";
    const block = starts.findLast(({ start }) => start <= n)!;
    return `${block.path}.${BLOCK_FIELDS[field] ?? "id"}`;
  }
  if (path.startsWith("prices.")) {
    const tier = draft.tiers.findIndex((each) => each.name === path.slice("prices.".length));
    return tier < 0 ? "tiers" : `tiers[${tier}].price`;
  }
  return SETTINGS[path] ?? path;
}
