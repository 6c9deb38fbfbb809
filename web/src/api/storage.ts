/** What a browser keeps. Buyer and holds are shared by its tabs and survive a reload; the admin key
 * is a tab's own and ends with it. A browser that keeps nothing (private mode) works until reload. */

import type { Ask } from "./types";

const BUYER = "holdfast.buyer";
const HOLD = "holdfast.hold.";
const ORDERS = "holdfast.orders.";
const ORDERS_MAX = 50;
const ASKING = "holdfast.asking.";
const ADMIN = "holdfast.admin";
const THEME = "holdfast.theme";

export interface Buyer {
  buyer: string;
  token: string;
}

/** A hold of this browser's, and where its checkout stands. */
export interface KeptHold {
  id: string;
  token: string;
  /** The idempotency key of its order, made before the order is first sent. */
  orderKey?: string;
  method?: string;
  /** Whether equal or better seats will do, should the payment come too late. */
  otherSeats?: boolean;
  order?: string;
  /** How often it was extended, as far as this browser knows. */
  extensions?: number;
}

/** What this browser has bought, so that it can show the ticket again. */
export interface KeptOrder {
  id: string;
  holdToken: string;
  seats: string[];
  pools: Record<string, number>;
}

/** What the browser did not take, because it keeps nothing or is full: it counts before what is in
 * its storage, which is from before. */
const unkept = new Map<string, string | null>();

function read(area: () => Storage, name: string): string | null {
  const here = unkept.get(name);
  if (here !== undefined) return here;
  try {
    return area().getItem(name);
  } catch {
    return null;
  }
}

function write(area: () => Storage, name: string, value: string | null): void {
  try {
    if (value === null) area().removeItem(name);
    else area().setItem(name, value);
    unkept.delete(name);
  } catch {
    unkept.set(name, value);
  }
}

const shared = () => localStorage;
const own = () => sessionStorage;

function parsed<T>(text: string | null): T | null {
  if (text === null) return null;
  try {
    return JSON.parse(text) as T;
  } catch {
    return null;
  }
}

export const keptBuyer = (): Buyer | null => parsed<Buyer>(read(shared, BUYER));
export const keepBuyer = (buyer: Buyer | null): void =>
  write(shared, BUYER, buyer && JSON.stringify(buyer));
export const buyerToken = (): string | null => keptBuyer()?.token ?? null;

export const keptHold = (event: string): KeptHold | null =>
  parsed<KeptHold>(read(shared, HOLD + event));
export const keepHold = (event: string, hold: KeptHold | null): void =>
  write(shared, HOLD + event, hold && JSON.stringify(hold));

/** A hold that was asked for and is not answered: a reload finds out with the same key. */
export interface Asking {
  ask: Ask;
  key: string;
}

export const keptAsking = (event: string): Asking | null =>
  parsed<Asking>(read(own, ASKING + event));
export const keepAsking = (event: string, asking: Asking | null): void =>
  write(own, ASKING + event, asking && JSON.stringify(asking));

export const keptOrders = (event: string): KeptOrder[] =>
  parsed<KeptOrder[]>(read(shared, ORDERS + event)) ?? [];

/** The newest first; of an order that is there already, what is said last. */
export function keepOrder(event: string, order: KeptOrder): void {
  const kept = keptOrders(event);
  const at = kept.findIndex((each) => each.id === order.id);
  const all = at < 0 ? [order, ...kept].slice(0, ORDERS_MAX) : kept.with(at, order);
  write(shared, ORDERS + event, JSON.stringify(all));
}

export function forgetOrder(event: string, order: string): void {
  const left = keptOrders(event).filter((kept) => kept.id !== order);
  write(shared, ORDERS + event, left.length ? JSON.stringify(left) : null);
}

/** Calls back when another tab has changed this event's hold. Returns how to stop. */
export function onHoldChanged(event: string, changed: () => void): () => void {
  const heard = (storage: StorageEvent) => {
    const ours = storage.key === HOLD + event || storage.key === ORDERS + event;
    // What the other tab could keep is newer than what this one could not.
    if (ours) unkept.delete(storage.key!);
    if (ours || storage.key === null) changed();
  };
  addEventListener("storage", heard);
  return () => removeEventListener("storage", heard);
}

export const adminKey = (): string | null => read(own, ADMIN);
export const keepAdminKey = (key: string | null): void => write(own, ADMIN, key);

export type Theme = "light" | "dark";
export const keptTheme = (): Theme | null => {
  const found = read(shared, THEME);
  return found === "light" || found === "dark" ? found : null;
};
export const keepTheme = (theme: Theme | null): void => write(shared, THEME, theme);

/** Takes a key from the address (#key=...) before anybody can copy the address with it. True if
 * there was one. */
export function takeKeyFromAddress(): boolean {
  const given = /^#key=(.*)$/.exec(location.hash)?.[1];
  if (given === undefined) return false;
  history.replaceState(null, "", location.pathname + location.search);
  const key = decoded(given);
  if (!/^[\x21-\x7e]+$/.test(key)) return false;
  keepAdminKey(key);
  return true;
}

/** As it is, where it is not written as addresses are. */
export function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
