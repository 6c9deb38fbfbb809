/** The buyer's one hold of an event: placed, watched, paid for. Kept in the browser, so that a
 * reload or another tab goes on where this one was; told by the service, never by a clock. */

import { useEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import {
  extendHold,
  getHold,
  getOrder,
  payHold,
  placeHold,
  placeOrder,
  releaseHold,
} from "../api/calls";
import { newIdempotencyKey, Problem } from "../api/http";
import {
  type Asking,
  forgetOrder,
  type KeptHold,
  type KeptOrder,
  keepAsking,
  keepHold,
  keepOrder,
  keptAsking,
  keptHold,
  keptOrders,
  onHoldChanged,
} from "../api/storage";
import type { Ask, EventView, Hold, Order } from "../api/types";
import { type Refusal, refusalOf } from "../event/refusal";
import { t } from "../strings";
import { type Deadline, deadlineOf } from "./deadline";
import { endOf, type Fact, next, type Phase, START, standingOf } from "./phases";

const RETRY_MS = [500, 1000, 2000, 4000, 8000, 15_000];
const REFRESHED_MAX = 10;
const FRESH_MS = 1_500;

export interface Desk {
  phase: Phase;
  hold: Hold | null;
  order: Order | null;
  deadline: Deadline | null;
  /** What this browser has bought of the event, the newest first. */
  orders: KeptOrder[];
  /** What was asked for and is not answered. */
  busy: "place" | "release" | "extend" | null;
  /** What went wrong with the last click, where the phase stays as it is. */
  trouble: string | null;
  /** Whether one more extension may be asked for. */
  extendable: boolean;
  /** Whether this phase came after another, and not with the page: then the focus goes along. */
  moved: boolean;
  place(ask: Ask): Promise<Refusal | null>;
  release(): Promise<boolean>;
  extend(): Promise<void>;
  pay(method: string | null, otherSeats: boolean): Promise<void>;
  /** Back from a payment that does not come to an end, to choose another. */
  otherwise(): void;
  /** Asks the service how the hold stands. */
  look(): Promise<void>;
  /** On from a ticket, or from what came to an end, to picking. */
  again(): void;
  show(order: KeptOrder): Promise<void>;
}

/** Waits, unless the page is left meanwhile. */
const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

const waited = (tried: number, problem?: Problem): number => {
  const step = RETRY_MS[Math.min(tried, RETRY_MS.length - 1)]!;
  const asked = (problem?.retryAfter ?? 0) * 1000;
  // A crowd that was turned away together does not come back together.
  return Math.max(step, asked) * (1 + Math.random() * 0.2);
};

export function useHold(event: EventView): Desk {
  const id = event.id;
  const [phase, apply] = useReducer(next, START);
  const [deadline, setDeadline] = useState<Deadline | null>(null);
  const [busy, setBusy] = useState<Desk["busy"]>(null);
  const [trouble, setTrouble] = useState<string | null>(null);
  const [orders, setOrders] = useState<KeptOrder[]>(() => keptOrders(id));
  const [extensions, setExtensions] = useState(0);
  const here = useRef<Phase>(phase);
  here.current = phase;
  const latest = useRef(event);
  latest.current = event;
  /** Counts intentions: an answer to an earlier one is nobody's any more. */
  const turn = useRef(0);
  const last = useRef<KeptHold | null>(null);

  const desk = useMemo(() => {
    const tell = (fact: Fact) => {
      if ("hold" in fact) {
        const grace = latest.current.grace_seconds;
        setDeadline(deadlineOf(fact.hold, grace, performance.now(), Date.now()));
      }
      apply(fact);
    };

    const keep = (kept: KeptHold | null) => {
      if (kept) last.current = kept;
      keepHold(id, kept);
      setExtensions(kept?.extensions ?? 0);
    };

    const bought = (order: Order, token: string) => {
      const kept = keptHold(id);
      if (kept) keep({ id: kept.id, token: kept.token, order: order.id });
      keepOrder(id, { id: order.id, holdToken: token, seats: order.seats, pools: order.pools });
      setOrders(keptOrders(id));
      tell({ type: "bought", order });
    };

    const ended = (fact: Fact & { type: "ended" }) => {
      keep(null);
      tell(fact);
    };

    /** The hold as it stands, and what that means. */
    const follow = async (hold: Hold, kept: KeptHold, mine: number): Promise<void> => {
      setExtensions(kept.extensions ?? 0);
      if (hold.state === "confirmed" && hold.order) {
        const order = await getOrder(hold.order, kept.token);
        if (turn.current === mine) bought(order, kept.token);
      } else if (kept.orderKey && hold.state !== "released") {
        // Perhaps the order arrived and perhaps not: the same key finds out without a second one.
        tell({ type: "sent", hold });
        await send(hold, kept, mine);
      } else if (hold.state === "held" || hold.state === "paying") {
        tell({ type: "held", hold, found: true });
      } else if (hold.state === "released") {
        ended({ type: "ended", end: "released", units: hold });
      } else {
        ended({ type: "ended", end: "expired", units: hold });
      }
    };

    const look = async (): Promise<void> => {
      const now = here.current.name;
      const kept = keptHold(id) ?? (now === "holding" || now === "paying" ? last.current : null);
      if (!kept) {
        if (now !== "bought") tell({ type: "none" });
        return;
      }
      // What is on its way finds out by itself.
      if (now === "paying" && kept.orderKey && kept.orderKey === last.current?.orderKey) return;
      last.current = kept;
      turn.current += 1;
      const mine = turn.current;
      for (let tried = 0; ; tried += 1) {
        try {
          const hold = await getHold(kept.id, kept.token);
          if (turn.current === mine) await follow(hold, kept, mine);
          return;
        } catch (problem) {
          if (turn.current !== mine) return;
          if (!(problem instanceof Problem)) throw problem;
          if (!problem.passing) return ended({ type: "ended", end: "gone", units: null });
          setTrouble(t.checkout.unreachable);
          await pause(waited(tried, problem));
          if (turn.current !== mine) return;
          setTrouble(null);
        }
      }
    };

    const declined = async (why: string, hold: Hold, kept: KeptHold, mine: number) => {
      // The next method needs a key of its own.
      const { orderKey: _, method: __, order: ___, ...rest } = kept;
      keep(rest);
      try {
        const now = await getHold(kept.id, kept.token);
        if (turn.current !== mine) return;
        if (now.state === "held" || now.state === "paying") {
          tell({ type: "declined", hold: now, why });
        } else await follow(now, rest, mine);
      } catch {
        if (turn.current === mine) tell({ type: "declined", hold, why });
      }
    };

    /** An order as it was found when looked at again; false while it is not finished. */
    const settled = async (order: Order, hold: Hold, kept: KeptHold, mine: number) => {
      switch (standingOf(order)) {
        case "sold":
          bought(order, kept.token);
          return true;
        case "declined":
          await declined(order.reason ?? t.checkout.noReason, hold, kept, mine);
          return true;
        case "ended":
          ended({ type: "ended", end: endOf(order), units: hold });
          return true;
        default:
          return false;
      }
    };

    const poll = async (first: Order, hold: Hold, kept: KeptHold, mine: number): Promise<void> => {
      let order = first;
      for (let tried = 0; turn.current === mine; tried += 1) {
        if (await settled(order, hold, kept, mine)) return;
        await pause(waited(tried));
        if (turn.current !== mine) return;
        try {
          order = await getOrder(order.id, kept.token);
          if (turn.current === mine) tell({ type: "waits", wait: waitsFor(order), order });
        } catch (problem) {
          if (turn.current !== mine) return;
          if (!(problem instanceof Problem) || !problem.passing) throw problem;
          tell({ type: "waits", wait: "service", order: null });
        }
      }
    };

    /** Sends the order until it has an answer: always the same order, by its key. */
    const send = async (hold: Hold, kept: KeptHold, mine: number): Promise<void> => {
      for (let tried = 0; turn.current === mine; tried += 1) {
        try {
          const order = await placeOrder(kept.id, kept.token, kept, kept.orderKey!);
          if (turn.current !== mine) return;
          if (order.state === "pending") {
            keep({ ...kept, order: order.id });
            tell({ type: "waits", wait: waitsFor(order), order });
          }
          return await poll(order, hold, kept, mine);
        } catch (trouble) {
          if (turn.current !== mine) return;
          if (!(trouble instanceof Problem)) throw trouble;
          const goesOn = await refused(trouble, hold, kept, mine);
          if (!goesOn) return;
          await pause(waited(tried, trouble));
        }
      }
    };

    /** What a no to an order means; true if it is to be asked again. */
    const refused = async (no: Problem, hold: Hold, kept: KeptHold, mine: number) => {
      if (no.status === 402) {
        await declined(no.detail, hold, kept, mine);
        return false;
      }
      if (no.reason === "in_progress") return true;
      if (no.reason === "payment_unavailable") {
        tell({ type: "waits", wait: "provider", order: null });
        return true;
      }
      if (no.passing) {
        tell({ type: "waits", wait: "service", order: null });
        return true;
      }
      if (no.reason === "hold_expired") {
        const late = typeof no.body.order === "string" ? no.body.order : null;
        const order = late ? await getOrder(late, kept.token).catch(() => null) : null;
        if (turn.current === mine) {
          ended({ type: "ended", end: order ? endOf(order) : "expired", units: hold });
        }
        return false;
      }
      const { orderKey: _, method: __, order: ___, ...rest } = kept;
      if (no.reason === "confirmed" || no.reason === "released") {
        // Another order of this hold was first, or the hold was given back: it says which.
        keep(rest);
        const now = await getHold(kept.id, kept.token).catch(() => null);
        if (turn.current !== mine) return false;
        if (now) await follow(now, rest, mine);
        else ended({ type: "ended", end: "released", units: hold });
        return false;
      }
      if (no.status === 404) ended({ type: "ended", end: "gone", units: hold });
      else await declined(no.detail, hold, kept, mine);
      return false;
    };

    /** Asks under a key that is kept first: whoever asks for the same again, after a lost answer or
     * a reload, gets what the first call made. */
    const ask = async ({ ask, key }: Asking): Promise<Hold> => {
      keepAsking(id, { ask, key });
      const began = performance.now();
      try {
        const hold = await placeHold(id, ask, key);
        keepAsking(id, null);
        keep({ id: hold.id, token: hold.token! });
        // A first answer that is given again says how long there was then, not now.
        return performance.now() - began < FRESH_MS ? hold : await getHold(hold.id, hold.token!);
      } catch (problem) {
        if (problem instanceof Problem && !problem.passing) keepAsking(id, null);
        throw problem;
      }
    };

    const place = async (wanted: Ask): Promise<Refusal | null> => {
      setBusy("place");
      setTrouble(null);
      turn.current += 1;
      const before = keptAsking(id);
      const same = before && JSON.stringify(before.ask) === JSON.stringify(wanted);
      try {
        const hold = await ask(same ? before : { ask: wanted, key: newIdempotencyKey() });
        tell({ type: "held", hold, found: false });
        return null;
      } catch (problem) {
        if (!(problem instanceof Problem)) throw problem;
        return refusalOf(problem, navigator.onLine);
      } finally {
        setBusy(null);
      }
    };

    /** After a reload in mid-question. */
    const askAgain = async (): Promise<void> => {
      const before = keptAsking(id);
      if (!keptHold(id) && before) {
        await ask(before).catch((problem) => {
          if (!(problem instanceof Problem)) throw problem;
          keepAsking(id, null);
        });
      }
      await look();
    };

    const release = async (): Promise<boolean> => {
      const kept = keptHold(id);
      if (!kept) return true;
      setBusy("release");
      setTrouble(null);
      try {
        await releaseHold(kept.id, kept.token);
        turn.current += 1;
        last.current = null;
        keep(null);
        tell({ type: "none" });
        return true;
      } catch (problem) {
        if (!(problem instanceof Problem)) throw problem;
        if (problem.passing) setTrouble(t.checkout.notReleased);
        else await look();
        return false;
      } finally {
        setBusy(null);
      }
    };

    const extend = async (): Promise<void> => {
      const kept = keptHold(id);
      if (!kept) return;
      setBusy("extend");
      setTrouble(null);
      const most = latest.current.max_extensions;
      try {
        const hold = await extendHold(kept.id, kept.token);
        keep({ ...kept, extensions: (kept.extensions ?? 0) + 1 });
        tell({ type: "held", hold, found: false });
      } catch (problem) {
        if (!(problem instanceof Problem)) throw problem;
        if (problem.reason === "extension_limit") {
          keep({ ...kept, extensions: most });
          setTrouble(t.checkout.extensionLimit(most));
        } else if (problem.passing) setTrouble(t.checkout.notExtended);
        else await look();
      } finally {
        setBusy(null);
      }
    };

    const pay = async (method: string | null, otherSeats: boolean): Promise<void> => {
      const before = keptHold(id);
      const now = here.current;
      if (!before || now.name !== "holding") return look();
      setTrouble(null);
      turn.current += 1;
      const mine = turn.current;
      tell({ type: "sent", hold: now.hold });
      let hold = now.hold;
      try {
        // First, so that the units stay his while the bank takes its time.
        if (method) hold = await payHold(before.id, before.token);
        if (turn.current !== mine) return;
        tell({ type: "sent", hold });
      } catch (problem) {
        if (turn.current !== mine) return;
        tell({ type: "otherwise" });
        if (!(problem instanceof Problem)) throw problem;
        if (problem.passing) setTrouble(t.checkout.notBegun);
        else await look();
        return;
      }
      // Kept before it is sent: whoever comes back finds the same order, not a second one.
      const kept: KeptHold = { ...before, orderKey: newIdempotencyKey() };
      delete kept.order;
      if (method) kept.method = method;
      else delete kept.method;
      if (otherSeats) kept.otherSeats = true;
      else delete kept.otherSeats;
      keep(kept);
      await send(hold, kept, mine);
    };

    const otherwise = () => {
      const kept = keptHold(id);
      turn.current += 1;
      if (kept) {
        const { orderKey: _, method: __, order: ___, ...rest } = kept;
        keep(rest);
      }
      tell({ type: "otherwise" });
      void look();
    };

    const again = () => {
      turn.current += 1;
      last.current = null;
      keep(null);
      apply({ type: "dismissed" });
    };

    const show = async (kept: KeptOrder): Promise<void> => {
      setTrouble(null);
      try {
        const order = await getOrder(kept.id, kept.holdToken);
        if (standingOf(order) === "sold") apply({ type: "shown", order });
        else {
          forgetOrder(id, kept.id);
          setOrders(keptOrders(id));
          setTrouble(t.checkout.orderGone);
        }
      } catch (problem) {
        if (!(problem instanceof Problem)) throw problem;
        setTrouble(problem.detail);
      }
    };

    /** Orders that were cancelled meanwhile no longer count, and their seats are not mine. */
    const refreshOrders = async (): Promise<void> => {
      for (const kept of keptOrders(id).slice(0, REFRESHED_MAX)) {
        const order = await getOrder(kept.id, kept.holdToken).catch((problem) =>
          problem instanceof Problem && problem.status === 404 ? null : undefined,
        );
        if (order === undefined) return;
        if (!order || standingOf(order) !== "sold") forgetOrder(id, kept.id);
        else keepOrder(id, { ...kept, seats: order.seats, pools: order.pools });
      }
      setOrders(keptOrders(id));
    };

    return { place, askAgain, release, extend, pay, otherwise, look, again, show, refreshOrders };
  }, [id]);

  useEffect(() => {
    void desk.askAgain();
    void desk.refreshOrders();
    const stop = onHoldChanged(id, () => {
      setOrders(keptOrders(id));
      void desk.look();
    });
    // A browser that slept has not counted.
    const woken = () => {
      if (document.visibilityState === "visible" && here.current.name === "holding") {
        void desk.look();
      }
    };
    document.addEventListener("visibilitychange", woken);
    addEventListener("online", woken);
    addEventListener("pageshow", woken);
    return () => {
      turn.current += 1;
      stop();
      document.removeEventListener("visibilitychange", woken);
      removeEventListener("online", woken);
      removeEventListener("pageshow", woken);
    };
  }, [id]);

  const before = useRef<Phase["name"]>(phase.name);
  const moved = useRef(false);
  if (before.current !== phase.name) {
    moved.current = before.current !== "looking";
    before.current = phase.name;
  }
  const hold = phase.name === "holding" || phase.name === "paying" ? phase.hold : null;
  return {
    ...desk,
    phase,
    hold,
    order: phase.name === "bought" || phase.name === "paying" ? phase.order : null,
    deadline: hold && deadline,
    orders,
    busy,
    trouble,
    extendable: extensions < event.max_extensions,
    moved: moved.current,
  };
}

function waitsFor(order: Order): "buyer" | "payment" {
  return order.next_action ? "buyer" : "payment";
}
