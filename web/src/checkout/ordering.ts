/** One order, sent until it has an answer: always the same order, by its key. What becomes of it is
 * told as an outcome; what it waits for meanwhile, as it happens. */

import { getOrder, placeOrder } from "../api/calls";
import { Problem } from "../api/http";
import type { KeptHold } from "../api/storage";
import type { Order } from "../api/types";
import { t } from "../strings";
import { type End, endOf, standingOf, type Wait } from "./phases";

export type Outcome =
  | { type: "bought"; order: Order }
  /** The hold is still his. */
  | { type: "declined"; why: string }
  | { type: "ended"; end: End }
  /** Another order was first, or the hold was given back: the hold itself says which. */
  | { type: "elsewhere" }
  /** Nobody waits for it here any more. It goes on by itself. */
  | { type: "left" };

export interface Listener {
  /** False once the answer is nobody's any more. */
  wanted(): boolean;
  waits(wait: Wait, order: Order | null): void;
}

const RETRY_MS = [500, 1000, 2000, 4000, 8000, 15_000];
const LEFT: Outcome = { type: "left" };

/** How long to wait before asking once more; at least as long as the service said. */
export function waitMs(tried: number, problem?: Problem): number {
  const step = RETRY_MS[Math.min(tried, RETRY_MS.length - 1)]!;
  const asked = (problem?.retryAfter ?? 0) * 1000;
  // A crowd that was turned away together does not come back together.
  return Math.max(step, asked) * (1 + Math.random() * 0.2);
}

export const pause = (ms: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, ms));

/** `kept` has the order's key and method: whoever comes back with the same finds the same order. */
export async function buy(kept: KeptHold, listener: Listener): Promise<Outcome> {
  for (let tried = 0; listener.wanted(); tried += 1) {
    try {
      const order = await placeOrder(kept.id, kept.token, kept, kept.orderKey!);
      return await settled(order, kept.token, listener);
    } catch (no) {
      if (!(no instanceof Problem)) throw no;
      const wait = waitAfter(no);
      if (wait === null) return listener.wanted() ? refused(no, kept.token) : LEFT;
      if (wait !== "answer" && listener.wanted()) listener.waits(wait, null);
      await pause(waitMs(tried, no));
    }
  }
  return LEFT;
}

/** What a no leaves to wait for, if the same order is to be asked for again. */
function waitAfter(no: Problem): Wait | null {
  if (no.reason === "in_progress") return "answer";
  if (no.reason === "payment_unavailable") return "provider";
  return no.passing ? "service" : null;
}

/** What a no that is final means. */
async function refused(no: Problem, token: string): Promise<Outcome> {
  if (no.reason === "hold_expired") {
    // An order that came too late says why there was nothing to sell.
    const late = typeof no.body.order === "string" ? no.body.order : null;
    const order = late && (await getOrder(late, token).catch(() => null));
    return { type: "ended", end: order ? endOf(order) : "expired" };
  }
  if (no.reason === "confirmed" || no.reason === "released") return { type: "elsewhere" };
  if (no.status === 404) return { type: "ended", end: "gone" };
  return { type: "declined", why: no.detail };
}

/** Looks at an order until it is finished. */
async function settled(first: Order, token: string, listener: Listener): Promise<Outcome> {
  let order = first;
  for (let tried = 0; listener.wanted(); tried += 1) {
    const outcome = outcomeOf(order);
    if (outcome) return outcome;
    listener.waits(order.next_action ? "buyer" : "payment", order);
    await pause(waitMs(tried));
    if (!listener.wanted()) break;
    try {
      order = await getOrder(order.id, token);
    } catch (problem) {
      if (!(problem instanceof Problem) || !problem.passing) throw problem;
      if (listener.wanted()) listener.waits("service", order);
    }
  }
  return LEFT;
}

function outcomeOf(order: Order): Outcome | null {
  switch (standingOf(order)) {
    case "sold":
      return { type: "bought", order };
    case "declined":
      return { type: "declined", why: order.reason ?? t.checkout.noReason };
    case "ended":
      return { type: "ended", end: endOf(order) };
    default:
      return null;
  }
}
