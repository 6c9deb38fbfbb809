/** An event's JSON, or a design's, read into a draft. The first thing that is wrong ends it, with
 * its path: a file that is half understood would be half an event. Values that a field can show as
 * wrong (a limit, a missing price) are taken, and shown there. */

import { t } from "../strings";
import { labelFault, NUMBER_MAX, PLACE_MAX, POOLS_MAX, RANK_MAX, SEATS_MAX } from "./limits";
import {
  type Arc,
  type Draft,
  emptyDraft,
  type Grid,
  newArc,
  newGrid,
  newPool,
  newSeat,
  newTier,
  type Seat,
} from "./model";
import { packSeats, unpackSeats } from "./pack";
import { toMajor } from "./reading";

const say = t.design.files;

/** A sentence for people, with the path. */
export class NotAnEvent extends Error {}

function refuse(path: string, why: string): never {
  throw new NotAnEvent(path ? say.refused(path, why) : say.refusedWhole(why));
}

const DESIGN = "holdfast_design";
const VERSION = 1;

const EVENT_FIELDS = [
  ...["id", "name", "currency", "state", "hold_seconds", "grace_seconds", "max_extensions"],
  ...["max_per_buyer", "prices", "ranking", "flash_sale", "late_payment", "policy", "gate"],
  ...["waiting_room", "sections", "seats", "pools"],
];
const TRAIT_FIELDS = ["channel", "accessible", "companion", "restricted_view", "rank", "x", "y"];
const SECTION_FIELDS = ["id", "tier", "rows", "seats_per_row", "aisles", ...TRAIT_FIELDS];
const SEAT_FIELDS = ["id", "section", "row", "number", "tier", ...TRAIT_FIELDS];
const POOL_FIELDS = ["id", "capacity", "tier", "channel"];

type Raw = Record<string, unknown>;

export function readText(text: string): Draft {
  let raw: unknown;
  try {
    raw = JSON.parse(text);
  } catch (trouble) {
    throw new NotAnEvent(say.notJson((trouble as Error).message.replace(/\.$/, "")));
  }
  if (isObject(raw) && DESIGN in raw) return readDesign(raw);
  return readEvent(raw);
}

export function readEvent(raw: unknown): Draft {
  const body = object("", raw, EVENT_FIELDS);
  const currency = optional(body, "currency", text) ?? "EUR";
  if (!("id" in body)) refuse("id", say.missing);
  const draft = emptyDraft({
    id: text("id", body.id),
    name: optional(body, "name", text) ?? "",
    currency,
    holdSeconds: `${optional(body, "hold_seconds", whole) ?? 480}`,
    graceSeconds: `${optional(body, "grace_seconds", whole) ?? 300}`,
    maxExtensions: `${optional(body, "max_extensions", whole) ?? 1}`,
    maxPerBuyer: `${nullable(body, "max_per_buyer", whole) ?? ""}`,
    state: optional(body, "state", oneOf("on_sale", "paused", "closed")) ?? "on_sale",
    ranking: optional(body, "ranking", oneOf("rows", "centre", "rank")) ?? "rows",
    latePayment: optional(body, "late_payment", oneOf("settle", "same_units", "void")) ?? "settle",
    policy: nullable(body, "policy", oneOf("authority", "two-layer", "gate")) ?? "",
    gate: optional(body, "gate", flag) ?? true,
    flashSale: optional(body, "flash_sale", flag) ?? false,
    waitingRoom: optional(body, "waiting_room", flag) ?? false,
  });
  const prices = object("prices", body.prices ?? {});
  draft.tiers = Object.entries(prices).map(([tier, price]) =>
    newTier(tier, toMajor(whole(`prices.${tier}`, price, 0, Number.MAX_SAFE_INTEGER), currency)),
  );
  let depth = 0;
  draft.grids = items("sections", body.sections, SEATS_MAX).map(([path, each]) => {
    const grid = readSection(path, each);
    const front = grid.y === "" ? depth : Number(grid.y);
    depth = Math.max(depth, front + Number(grid.rows) + 1);
    return grid;
  });
  draft.seats = items("seats", body.seats, SEATS_MAX).map(([path, each]) =>
    readSeat(path, each, depth),
  );
  draft.pools = items("pools", body.pools, POOLS_MAX).map(([path, each]) => {
    const pool = object(path, each, POOL_FIELDS);
    return newPool({
      id: text(`${path}.id`, pool.id),
      capacity: `${whole(`${path}.capacity`, pool.capacity)}`,
      tier: optional(pool, "tier", text, path) ?? "",
      channel: nullable(pool, "channel", text, path) ?? "",
    });
  });
  return draft;
}

function readSection(path: string, raw: unknown): Grid {
  const body = object(path, raw, SECTION_FIELDS);
  const aisles = items(`${path}.aisles`, body.aisles, SEATS_MAX);
  return newGrid({
    id: text(`${path}.id`, body.id),
    tier: text(`${path}.tier`, body.tier),
    rows: `${whole(`${path}.rows`, body.rows)}`,
    seats: `${whole(`${path}.seats_per_row`, body.seats_per_row)}`,
    aisles: aisles.map(([at, after]) => whole(at, after)).join(", "),
    x: plain(optional(body, "x", number, path) ?? 0),
    y: "y" in body ? plain(number(`${path}.y`, body.y)) : "",
    channel: nullable(body, "channel", text, path) ?? "",
    rank: `${nullable(body, "rank", whole, path) ?? ""}`,
    accessible: optional(body, "accessible", flag, path) ?? false,
    companion: optional(body, "companion", flag, path) ?? false,
    restricted: optional(body, "restricted_view", flag, path) ?? false,
  });
}

/** Single seats have no fields of their own, so theirs must be right at once. */
function readSeat(path: string, raw: unknown, depth: number): Seat {
  const body = object(path, raw, SEAT_FIELDS);
  const label = (name: string, value: unknown) => {
    const found = text(`${path}.${name}`, value);
    if (labelFault(found)) refuse(`${path}.${name}`, say.label(64));
    return found;
  };
  const row = typeof body.row === "number" ? `${whole(`${path}.row`, body.row)}` : body.row;
  const name = label("row", row ?? "1");
  const seat = whole(`${path}.number`, body.number, 0, NUMBER_MAX);
  const channel = body.channel ?? null;
  const rank = body.rank ?? null;
  return newSeat({
    id: label("id", body.id),
    section: label("section", body.section ?? "main"),
    row: name,
    number: seat,
    tier: label("tier", body.tier),
    x: optional(body, "x", number, path) ?? seat,
    y: optional(body, "y", number, path) ?? depth + (/^\d+$/.test(name) ? Number(name) : 0),
    channel: channel === null ? "" : label("channel", channel),
    rank: rank === null ? null : whole(`${path}.rank`, rank, 0, RANK_MAX),
    accessible: optional(body, "accessible", flag, path) ?? false,
    companion: optional(body, "companion", flag, path) ?? false,
    restricted: optional(body, "restricted_view", flag, path) ?? false,
  });
}

/** A draft as it is, to go on with later or elsewhere: arcs stay arcs. */
export function writeDesign(draft: Draft): Raw {
  const { seats, ...rest } = draft;
  const unkeyed = <T extends { key: string }>(list: T[]) => list.map(({ key: _, ...item }) => item);
  return {
    [DESIGN]: VERSION,
    ...rest,
    tiers: unkeyed(rest.tiers),
    grids: unkeyed(rest.grids),
    arcs: unkeyed(rest.arcs),
    pools: unkeyed(rest.pools),
    seats: packSeats(seats),
  };
}

export function readDesign(raw: unknown): Draft {
  const known = emptyDraft();
  const body = object("", raw, [DESIGN, ...Object.keys(known)]);
  if (body[DESIGN] !== VERSION) refuse(DESIGN, say.newer);
  const draft = alike("", known, { ...body, tiers: [], grids: [], arcs: [], pools: [], seats: [] });
  const list = <T extends object>(name: string, blank: () => T) =>
    items(name, body[name], SEATS_MAX).map(([path, each]) => {
      const { [DESIGN]: _, ...item } = object(path, each);
      return alike(path, blank(), item);
    });
  draft.tiers = list("tiers", () => newTier("", ""));
  draft.grids = list("grids", newGrid as () => Grid);
  draft.arcs = list("arcs", newArc as () => Arc);
  draft.pools = list("pools", newPool);
  const seats = unpackSeats(body.seats ?? []);
  if (!seats) refuse("seats", say.list);
  draft.seats = seats;
  return choices(draft);
}

/** What is given, where it is of the kind that is there by default. */
function alike<T extends object>(path: string, blank: T, given: Raw): T {
  const at = (name: string) => (path ? `${path}.${name}` : name);
  for (const [name, value] of Object.entries(given)) {
    if (name === DESIGN) continue;
    if (!Object.hasOwn(blank, name)) refuse(at(name), say.unknown(Object.keys(blank).join(", ")));
    const wanted = (blank as Raw)[name];
    if (typeof value !== typeof wanted || Array.isArray(value) !== Array.isArray(wanted)) {
      refuse(at(name), typeof wanted === "boolean" ? say.flag : say.text);
    }
    if (name !== "key") (blank as Raw)[name] = value;
  }
  return blank;
}

function choices(draft: Draft): Draft {
  oneOf("on_sale", "paused", "closed")("state", draft.state);
  oneOf("rows", "centre", "rank")("ranking", draft.ranking);
  oneOf("settle", "same_units", "void")("latePayment", draft.latePayment);
  oneOf("", "authority", "two-layer", "gate")("policy", draft.policy);
  draft.arcs.forEach((arc, n) => {
    oneOf("spacing", "fixed")(`arcs[${n}].fill`, arc.fill);
    oneOf("left", "right")(`arcs[${n}].numbering`, arc.numbering);
  });
  return draft;
}

const isObject = (raw: unknown): raw is Raw =>
  typeof raw === "object" && raw !== null && !Array.isArray(raw);

function object(path: string, raw: unknown, known?: string[]): Raw {
  if (!isObject(raw)) refuse(path, say.object);
  for (const name of Object.keys(raw)) {
    const at = path ? `${path}.${name}` : name;
    if (known && !known.includes(name)) refuse(at, say.unknown(known.join(", ")));
  }
  return raw;
}

function items(path: string, raw: unknown, most: number): [string, unknown][] {
  if (raw === undefined) return [];
  if (!Array.isArray(raw)) refuse(path, say.list);
  if (raw.length > most) refuse(path, say.tooMany(most));
  return raw.map((item, n) => [`${path}[${n}]`, item]);
}

type Read<T> = (path: string, raw: unknown) => T;

/** Left out is undefined; null is as wrong as it is to the service. */
function optional<T>(body: Raw, name: string, read: Read<T>, path = ""): T | undefined {
  if (!Object.hasOwn(body, name)) return undefined;
  return read(path ? `${path}.${name}` : name, body[name]);
}

const nullable = <T>(body: Raw, name: string, read: Read<T>, path = ""): T | undefined =>
  body[name] === null ? undefined : optional(body, name, read, path);

function text(path: string, raw: unknown): string {
  if (raw === undefined) refuse(path, say.missing);
  if (typeof raw !== "string") refuse(path, say.text);
  return raw;
}

function whole(path: string, raw: unknown, least = -PLACE_MAX, most = Number.MAX_SAFE_INTEGER) {
  if (raw === undefined || raw === null) refuse(path, say.missing);
  if (!Number.isSafeInteger(raw)) refuse(path, say.whole);
  const value = raw as number;
  if (value < least || value > most) refuse(path, say.wholeFrom(least, most));
  return value;
}

function number(path: string, raw: unknown): number {
  if (typeof raw !== "number" || Math.abs(raw) >= PLACE_MAX) refuse(path, say.number);
  return raw;
}

/** Without an exponent, which a field would not take. */
const plain = (value: number): string =>
  String(value).includes("e") ? value.toFixed(9).replace(/\.?0+$/, "") : String(value);

function flag(path: string, raw: unknown): boolean {
  if (typeof raw !== "boolean") refuse(path, say.flag);
  return raw;
}

function oneOf<const T extends string>(...known: T[]): Read<T> {
  return (path, raw) => {
    if (!known.includes(raw as T)) refuse(path, say.oneOf(known.filter(Boolean).join(", ")));
    return raw as T;
  };
}
