/** What the page asks the service, all of it with the admin's key. */

import { call } from "../api/http";
import type { EventState, EventView, Order } from "../api/types";

export interface MendedGate {
  event: string;
  found: number;
  missing: number;
  orphans: number;
  stock: boolean;
  counters: number;
  broken: boolean;
  names: string[];
}

export interface Reconciliation {
  at: string;
  took_ms: number;
  events: number;
  found: number;
  mended: MendedGate[];
  failed: Record<string, string>;
}

export interface SystemView {
  version: string;
  store: string;
  gate: string;
  gate_state: string;
  policy: string;
  workers: number;
  broker: string;
  lags: Record<string, number>;
  drift: Record<string, number>;
  reconciled: Reconciliation | null;
  mended: Reconciliation | null;
}

export interface Booking {
  time: string;
  units: number;
  seats: string[];
  pools: Record<string, number>;
  amount: number;
}

export interface StatsView {
  event: string;
  seq: number;
  currency: string;
  recent: Booking[];
}

export type TroubledOrder = Order & { trouble?: string };

const ACTS_MS = 60_000;
const part = encodeURIComponent;

export const readSystem = (signal: AbortSignal): Promise<SystemView> =>
  call("GET", "/v1/system", { as: "admin", signal });

export const readEvents = async (signal: AbortSignal): Promise<EventView[]> =>
  (await call<{ events: EventView[] }>("GET", "/v1/events", { as: "admin", signal })).events;

export const readStats = (event: string, signal: AbortSignal): Promise<StatsView> =>
  call("GET", `/v1/events/${part(event)}/stats`, { as: "admin", signal });

export const readTroubled = async (signal: AbortSignal): Promise<TroubledOrder[]> =>
  (await call<{ orders: TroubledOrder[] }>("GET", "/v1/orders", { as: "admin", signal })).orders;

/** Event by event, so it may take a while. */
export const switchGate = (on: boolean): Promise<SystemView> =>
  call("PATCH", "/v1/system", {
    as: "admin",
    body: { gate: on ? "on" : "off" },
    timeoutMs: ACTS_MS,
  });

export const reconcile = (): Promise<Reconciliation> =>
  call("POST", "/v1/system/reconcile", { as: "admin", timeoutMs: ACTS_MS });

export const changeState = (event: string, state: EventState): Promise<EventView> =>
  call("PATCH", `/v1/events/${part(event)}`, { as: "admin", body: { state } });

export const retryOrder = (order: string): Promise<TroubledOrder> =>
  call("POST", `/v1/orders/${part(order)}/retry`, { as: "admin", timeoutMs: ACTS_MS });
