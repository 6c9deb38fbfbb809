/** Every call the pages make, by name. */

import { call, newIdempotencyKey, Problem } from "./http";
import { type Buyer, buyerToken, keepBuyer } from "./storage";
import type { Ask, EventView, Hold, Order, SeatMapView } from "./types";

const at = (event: string) => `/v1/events/${encodeURIComponent(event)}`;
const held = (hold: string) => `/v1/holds/${encodeURIComponent(hold)}`;

export const listEvents = async (signal?: AbortSignal): Promise<EventView[]> =>
  (await call<{ events: EventView[] }>("GET", "/v1/events", signal ? { signal } : {})).events;

export const getEvent = (event: string, signal?: AbortSignal): Promise<EventView> =>
  call("GET", at(event), signal ? { signal } : {});

export const getSeats = (event: string): Promise<SeatMapView> => call("GET", `${at(event)}/seats`);

/** A buyer of this browser's own: made when first needed, and kept. */
export async function ensureBuyer(): Promise<void> {
  if (!buyerToken()) keepBuyer(await newBuyer());
}

export const newBuyer = (): Promise<Buyer> => call("POST", "/v1/buyers", { body: {} });

/** Sent twice it holds once: the key is the caller's, made before the first try. */
export async function placeHold(event: string, ask: Ask, key = newIdempotencyKey()): Promise<Hold> {
  await ensureBuyer();
  const send = () => call<Hold>("POST", `${at(event)}/holds`, { body: ask, idempotencyKey: key });
  try {
    return await send();
  } catch (trouble) {
    if (!(trouble instanceof Problem)) throw trouble;
    if (trouble.status === 401) {
      // The token is of another deployment, or of one whose secret has changed.
      keepBuyer(null);
      await ensureBuyer();
      return send();
    }
    // The answer may have been lost on its way: the same key finds what the first one made.
    if (trouble.status === 0) return send();
    throw trouble;
  }
}

export const getHold = (hold: string, holdToken: string): Promise<Hold> =>
  call("GET", held(hold), { holdToken });

export const extendHold = (hold: string, holdToken: string): Promise<Hold> =>
  call("POST", `${held(hold)}/extend`, { body: {}, holdToken });

export const releaseHold = (hold: string, holdToken: string): Promise<void> =>
  call("DELETE", held(hold), { holdToken });

export const payHold = (hold: string, holdToken: string): Promise<Hold> =>
  call("POST", `${held(hold)}/pay`, { holdToken });

export const placeOrder = (
  hold: string,
  holdToken: string,
  { method, otherSeats = false }: { method?: string | undefined; otherSeats?: boolean | undefined },
  idempotencyKey: string,
): Promise<Order> =>
  call("POST", "/v1/orders", {
    body: {
      hold,
      ...(method ? { payment: { method } } : {}),
      ...(otherSeats ? { accept_other_seats: true } : {}),
    },
    holdToken,
    idempotencyKey,
    timeoutMs: 60_000,
  });

export const getOrder = (order: string, holdToken: string): Promise<Order> =>
  call("GET", `/v1/orders/${encodeURIComponent(order)}`, { holdToken });
