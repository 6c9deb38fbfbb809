/** What is on the designer's desk: the draft, and the ones before it. Pure. */

import type { Draft, ListName, Seat, Tier } from "./model";
import { newKey } from "./model";
import { slug } from "./slug";

export interface Desk {
  past: Draft[];
  now: Draft;
  future: Draft[];
  /** The field that was typed into last: its letters are one step. */
  typing: string | null;
}

export type Action =
  | { do: "set"; field: keyof Draft; value: string | boolean }
  | { do: "edit"; list: ListName; at: number; changes: Record<string, string | boolean> }
  | { do: "add"; list: ListName; item: { key: string } }
  | { do: "copy"; list: ListName; at: number; name: string }
  | { do: "remove"; list: ListName; at: number }
  | { do: "move"; list: ListName; at: number; by: -1 | 1 }
  | { do: "seats"; seats: Seat[] }
  | { do: "replace"; draft: Draft }
  | { do: "undo" }
  | { do: "redo" };

export const UNDO_MAX = 100;

export const newDesk = (now: Draft): Desk => ({ past: [], now, future: [], typing: null });

export function act(desk: Desk, action: Action): Desk {
  if (action.do === "undo") {
    const before = desk.past.at(-1);
    if (!before) return desk;
    const future = [desk.now, ...desk.future];
    return { past: desk.past.slice(0, -1), now: before, future, typing: null };
  }
  if (action.do === "redo") {
    const [next, ...future] = desk.future;
    if (!next) return desk;
    return { past: [...desk.past, desk.now], now: next, future, typing: null };
  }
  const now = changed(desk.now, action);
  if (now === desk.now) return desk;
  const typing = fieldOf(desk.now, action);
  const goesOn = typing !== null && typing === desk.typing;
  const past = goesOn ? desk.past : [...desk.past, desk.now].slice(-UNDO_MAX);
  return { past, now, future: [], typing };
}

function fieldOf(draft: Draft, action: Action): string | null {
  if (action.do === "set") return action.field;
  if (action.do !== "edit") return null;
  return `${draft[action.list][action.at]?.key} ${Object.keys(action.changes).join()}`;
}

type Change = Exclude<Action, { do: "undo" | "redo" }>;

function changed(draft: Draft, action: Change): Draft {
  switch (action.do) {
    case "set":
      if (draft[action.field] === action.value) return draft;
      if (action.field === "name") return named(draft, String(action.value));
      return { ...draft, [action.field]: action.value };
    case "seats":
      return { ...draft, seats: action.seats };
    case "replace":
      return action.draft;
    case "add":
      return { ...draft, [action.list]: [...draft[action.list], action.item] };
    case "edit":
      return edited(draft, action.list, action.at, action.changes);
    case "copy": {
      const item = draft[action.list][action.at];
      if (!item) return draft;
      const name = action.list === "tiers" ? "name" : "id";
      const copy = { ...item, key: newKey(), [name]: action.name };
      const list: { key: string }[] = [...draft[action.list]];
      list.splice(action.at + 1, 0, copy);
      return { ...draft, [action.list]: list };
    }
    case "remove": {
      const list = (draft[action.list] as { key: string }[]).filter((_, at) => at !== action.at);
      return { ...draft, [action.list]: list };
    }
    case "move": {
      const list: { key: string }[] = [...draft[action.list]];
      const to = action.at + action.by;
      const item = list[action.at];
      if (!item || to < 0 || to >= list.length) return draft;
      list[action.at] = list[to]!;
      list[to] = item;
      return { ...draft, [action.list]: list };
    }
  }
}

/** The id follows the name until somebody says another one. */
const named = (draft: Draft, name: string): Draft =>
  draft.id === slug(draft.name) ? { ...draft, name, id: slug(name) } : { ...draft, name };

function edited(
  draft: Draft,
  list: ListName,
  at: number,
  changes: Record<string, string | boolean>,
): Draft {
  const item = draft[list][at];
  if (!item) return draft;
  const items: { key: string }[] = [...draft[list]];
  items[at] = { ...item, ...changes };
  const next = { ...draft, [list]: items };
  const name = changes.name;
  if (list !== "tiers" || typeof name !== "string") return next;
  const tier = draft.tiers[at]!;
  const before = tier.name || tier.was;
  const renaming: Tier = { ...tier, ...changes, was: name ? "" : before };
  items[at] = renaming;
  const another = draft.tiers.some((each, n) => n !== at && each.name === before);
  return name && before && !another ? renamed(next, before, name) : next;
}

/** Whatever has a price keeps it when the price is called something else. */
function renamed(draft: Draft, before: string, name: string): Draft {
  const follow = <T extends { tier: string }>(items: T[]): T[] =>
    items.some((item) => item.tier === before)
      ? items.map((item) => (item.tier === before ? { ...item, tier: name } : item))
      : items;
  const pools = draft.pools.map((pool) =>
    (pool.tier || pool.id) === before ? { ...pool, tier: name } : pool,
  );
  return {
    ...draft,
    grids: follow(draft.grids),
    arcs: follow(draft.arcs),
    seats: follow(draft.seats),
    pools,
  };
}
