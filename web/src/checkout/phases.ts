/** Where a buyer stands between picking and his ticket, and what moves him on. Pure: what the
 * service said comes in as a fact, and the next phase comes out. */

import type { Hold, Order } from "../api/types";

export interface Units {
  seats: readonly string[];
  pools: Readonly<Record<string, number>>;
}

/** Why a hold, or an order of it, came to nothing. */
export type End =
  /** The deadline passed before payment began, or the hard one while paying. */
  | "expired"
  /** Given back, here or in another tab. */
  | "released"
  /** Paid too late, and somebody else had the units by then. */
  | "lost"
  /** Paid too late, and the event no longer sells, or the cap stood in the way. */
  | "late"
  /** The service knows of no such hold. */
  | "gone";

/** What a payment waits for. */
export type Wait =
  /** The answer to the order. */
  | "answer"
  /** The payment takes longer than an answer may. */
  | "payment"
  /** The buyer, at his bank. */
  | "buyer"
  /** The provider, who does not answer. */
  | "provider"
  /** The service, which cannot be reached. */
  | "service";

export type Phase =
  /** A hold of before is being looked up. */
  | { name: "looking" }
  | { name: "picking" }
  | { name: "holding"; hold: Hold; declined: string | null; elsewhere: boolean }
  | { name: "paying"; hold: Hold; order: Order | null; wait: Wait }
  | { name: "bought"; order: Order; elsewhere: boolean }
  | { name: "over"; end: End; units: Units };

export type Fact =
  /** There is no hold, or none any more. */
  | { type: "none" }
  /** The hold is there: as it was placed, or as it was found. */
  | { type: "held"; hold: Hold; found: boolean }
  | { type: "sent"; hold: Hold }
  | { type: "waits"; wait: Wait; order: Order | null }
  | { type: "declined"; hold: Hold; why: string }
  /** He wants to pay in another way than the one that does not come to an end. */
  | { type: "otherwise" }
  | { type: "bought"; order: Order }
  /** A ticket of before is looked at again. */
  | { type: "shown"; order: Order }
  /** He has seen the ticket, or why there is none. */
  | { type: "dismissed" }
  | { type: "ended"; end: End; units: Units | null };

export const START: Phase = { name: "looking" };
const NO_UNITS: Units = { seats: [], pools: {} };

export function next(now: Phase, fact: Fact): Phase {
  switch (fact.type) {
    case "none":
      // What has come to an end is explained until the buyer has read it.
      return now.name === "over" || now.name === "picking" ? now : { name: "picking" };
    case "held": {
      const declined = now.name === "holding" && now.hold.id === fact.hold.id ? now.declined : null;
      const elsewhere =
        now.name === "holding" && now.hold.id === fact.hold.id
          ? now.elsewhere
          : fact.found && (now.name === "picking" || now.name === "over");
      return { name: "holding", hold: fact.hold, declined, elsewhere };
    }
    case "sent":
      return now.name === "paying" && now.hold.id === fact.hold.id
        ? { ...now, hold: fact.hold }
        : { name: "paying", hold: fact.hold, order: null, wait: "answer" };
    case "waits":
      if (now.name !== "paying") return now;
      return { ...now, wait: fact.wait, order: fact.order ?? now.order };
    case "declined":
      return { name: "holding", hold: fact.hold, declined: fact.why, elsewhere: false };
    case "otherwise":
      if (now.name !== "paying") return now;
      return { name: "holding", hold: now.hold, declined: null, elsewhere: false };
    case "bought": {
      if (now.name === "bought" && now.order.id === fact.order.id) {
        return { ...now, order: fact.order };
      }
      return { name: "bought", order: fact.order, elsewhere: now.name === "holding" };
    }
    case "shown":
      return now.name === "picking" || now.name === "over" || now.name === "bought"
        ? { name: "bought", order: fact.order, elsewhere: false }
        : now;
    case "dismissed":
      return { name: "picking" };
    case "ended": {
      if (now.name === "over") return now;
      const units = fact.units ?? unitsOf(now) ?? NO_UNITS;
      return { name: "over", end: fact.end, units };
    }
  }
}

/** The hold or order that the phase is about. */
export function unitsOf(phase: Phase): Units | null {
  switch (phase.name) {
    case "holding":
    case "paying":
      return phase.hold;
    case "bought":
      return phase.order;
    case "over":
      return phase.units;
    default:
      return null;
  }
}

/** What an order that has ended without a sale means for its buyer. */
export function endOf(order: Pick<Order, "reason">): End {
  switch (order.reason) {
    case "taken":
    case "sold_out":
    case "insufficient":
    case "not_together":
      return "lost";
    case "released":
      return "released";
    default:
      return "late";
  }
}

/** How an order that is looked at again stands. */
export type Standing = "sold" | "waits" | "declined" | "ended";

export function standingOf(order: Order): Standing {
  switch (order.state) {
    case "confirmed":
      return "sold";
    case "pending":
      return "waits";
    case "declined":
      return "declined";
    case "voided":
    case "refunded":
    case "authorized":
      // Freed before anything was decided: that is a bank which said no.
      return order.settlement === undefined ? "declined" : "ended";
    default:
      return "declined";
  }
}
