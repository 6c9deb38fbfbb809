/** The buyer's one hold of an event: placed, watched, paid for. Kept in the browser, so that a
 * reload or another tab goes on where this one was; told by the service, never by a clock. */

import { extendHold, getHold, getOrder, payHold, placeHold, releaseHold } from "../api/calls";
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
} from "../api/storage";
import type { Ask, EventView, Hold, Order } from "../api/types";
import { type Refusal, refusalOf } from "../event/refusal";
import { t } from "../strings";
import { type Deadline, deadlineOf } from "./deadline";
import { buy, type Outcome, pause, waitMs } from "./ordering";
import { type End, type Fact, next, type Phase, START, standingOf, type Units } from "./phases";

const REFRESHED_MAX = 10;
const FRESH_MS = 1_500;
const { notBegun, notExtended, notReleased, unreachable } = t.checkout;
const SILENCE: ReadonlySet<string> = new Set([notBegun, notExtended, notReleased, unreachable]);

export interface DeskState {
  phase: Phase;
  deadline: Deadline | null;
  /** What this browser has bought of the event, the newest first. */
  orders: KeptOrder[];
  /** What was asked for and is not answered. */
  busy: "place" | "release" | "extend" | null;
  /** What went wrong with the last click, where the phase stays as it is. */
  trouble: string | null;
  /** How often the hold was extended, as far as this browser knows. */
  extensions: number;
}

/** Without what belongs to one attempt to pay: the next one needs a key of its own. */
function unpaid({ id, token, extensions }: KeptHold): KeptHold {
  return extensions === undefined ? { id, token } : { id, token, extensions };
}

export class HoldDesk {
  private readonly id: string;
  private last: KeptHold | null = null;
  /** Counts intentions: an answer to an earlier one is nobody's any more. */
  private turn = 0;
  /** Holds whose deadline was set: a second look at the same answer gives nobody more time. */
  private readonly timed = new WeakSet<Hold>();
  /** Whether the payment that this tab began, or took up, is still its business. */
  private underWay: () => boolean = () => false;
  state: DeskState;

  constructor(
    private event: EventView,
    private readonly changed: (state: DeskState) => void,
  ) {
    this.id = event.id;
    this.state = {
      phase: START,
      deadline: null,
      orders: keptOrders(this.id),
      busy: null,
      trouble: null,
      extensions: 0,
    };
  }

  update(event: EventView): void {
    this.event = event;
  }

  /** What is under way here is left to itself, and to whoever comes back. */
  close(): void {
    this.turn += 1;
  }

  private set(changes: Partial<DeskState>): void {
    this.state = { ...this.state, ...changes };
    this.changed(this.state);
  }

  private tell(fact: Fact): void {
    let { deadline } = this.state;
    if ("hold" in fact && !this.timed.has(fact.hold)) {
      this.timed.add(fact.hold);
      const { grace_seconds } = this.event;
      deadline = deadlineOf(fact.hold, grace_seconds, performance.now(), Date.now());
    }
    this.set({ phase: next(this.state.phase, fact), deadline });
  }

  private keep(kept: KeptHold | null): void {
    if (kept) this.last = kept;
    keepHold(this.id, kept);
    this.set({ extensions: kept?.extensions ?? 0 });
  }

  private end(end: End, units: Units | null): void {
    this.keep(null);
    this.tell({ type: "ended", end, units });
  }

  /** Begins something new; says whether it is still what is wanted. */
  private begin(): () => boolean {
    this.turn += 1;
    const mine = this.turn;
    return () => this.turn === mine;
  }

  // Finding out

  /** After a reload, or in a new tab: first whatever was asked for and not answered. */
  async open(): Promise<void> {
    void this.refreshOrders();
    const asking = keptAsking(this.id);
    if (asking && !keptHold(this.id)) {
      await this.ask(asking).catch((problem) => {
        if (!(problem instanceof Problem)) throw problem;
        keepAsking(this.id, null);
      });
    }
    await this.look();
  }

  /** Another tab has changed what is kept. */
  async heard(): Promise<void> {
    this.set({ orders: keptOrders(this.id) });
    await this.look();
  }

  /** Asks the service how the hold stands, until it answers. */
  async look(): Promise<void> {
    const { name } = this.state.phase;
    const under = name === "holding" || name === "paying";
    const kept = keptHold(this.id) ?? (under ? this.last : null);
    if (!kept) {
      if (name !== "bought") this.tell({ type: "none" });
      return;
    }
    // What is on its way finds out by itself, also where another tab heard first that it came to
    // nothing: whoever paid here is told here.
    const same = kept.id === this.last?.id && !kept.order;
    const other = kept.orderKey && kept.orderKey !== this.last?.orderKey;
    if (name === "paying" && same && !other && this.underWay()) return;
    this.last = kept;
    const wanted = this.begin();
    for (let tried = 0; ; tried += 1) {
      try {
        const hold = await getHold(kept.id, kept.token);
        if (!wanted()) return;
        this.reached();
        await this.follow(hold, kept, wanted);
        return;
      } catch (problem) {
        if (!wanted()) return;
        if (!(problem instanceof Problem)) throw problem;
        if (!problem.passing) return this.end("gone", null);
        this.set({ trouble: t.checkout.unreachable });
        await pause(waitMs(tried, problem));
        if (!wanted()) return;
        this.set({ trouble: null });
      }
    }
  }

  /** The service answers again: what was said about its silence is over. */
  reached(): void {
    if (this.state.trouble !== null && SILENCE.has(this.state.trouble)) this.set({ trouble: null });
  }

  /** The hold as it stands, and what that means. */
  private async follow(hold: Hold, kept: KeptHold, wanted: () => boolean): Promise<void> {
    this.set({ extensions: kept.extensions ?? 0 });
    if (hold.state === "confirmed" && hold.order) {
      const order = await getOrder(hold.order, kept.token);
      if (wanted()) this.bought(order, kept);
    } else if (hold.state === "released") {
      this.end("released", hold);
    } else if (kept.orderKey) {
      // Perhaps the order arrived and perhaps not: the same key finds out without a second one.
      this.tell({ type: "sent", hold });
      await this.order(hold, kept, wanted);
    } else if (hold.state === "expired") {
      this.end("expired", hold);
    } else {
      this.tell({ type: "held", hold, found: true });
    }
  }

  // Holding

  /** Under a key that is kept first: whoever asks for the same again, after a lost answer or a
   * reload, gets what the first call made. */
  private async ask({ ask, key }: Asking): Promise<Hold> {
    const again = keptAsking(this.id)?.key === key;
    keepAsking(this.id, { ask, key });
    const began = performance.now();
    try {
      const hold = await placeHold(this.id, ask, key);
      keepAsking(this.id, null);
      this.giveBack(keptHold(this.id), hold.id);
      this.keep({ id: hold.id, token: hold.token! });
      // A first answer that is given again says how it was then, not now.
      const fresh = !again && performance.now() - began < FRESH_MS;
      if (fresh) return hold;
      return await getHold(hold.id, hold.token!).catch((problem) => {
        if (problem instanceof Problem && problem.passing) return hold;
        throw problem;
      });
    } catch (problem) {
      if (problem instanceof Problem && !problem.passing) keepAsking(this.id, null);
      throw problem;
    }
  }

  /** Two tabs asked at the same moment, and both got something. What is no longer kept could not
   * be reached by anybody until its time is over. */
  private giveBack(other: KeptHold | null, hold: string): void {
    if (!other || other.id === hold || other.orderKey || other.order) return;
    releaseHold(other.id, other.token).catch(() => undefined);
  }

  /** All of it or nothing: null, or why not. */
  async place(wanted: Ask): Promise<Refusal | null> {
    this.begin();
    const before = keptAsking(this.id);
    const same = before && JSON.stringify(before.ask) === JSON.stringify(wanted);
    this.set({ busy: "place", trouble: null });
    try {
      let hold = await this.ask(same ? before : { ask: wanted, key: newIdempotencyKey() });
      // What the lost answer spoke of may be over since: then this is a new wish.
      if (same && (hold.state === "expired" || hold.state === "released")) {
        this.keep(null);
        hold = await this.ask({ ask: wanted, key: newIdempotencyKey() });
      }
      this.tell({ type: "held", hold, found: false });
      return null;
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      return refusalOf(problem, navigator.onLine);
    } finally {
      this.set({ busy: null });
    }
  }

  /** Does something with the hold. What the service says no to is looked at; true if it was done. */
  private async act(
    busy: "release" | "extend",
    unreachable: string,
    what: (kept: KeptHold) => Promise<void>,
  ): Promise<boolean> {
    const kept = keptHold(this.id);
    if (!kept) {
      await this.look();
      return false;
    }
    this.set({ busy, trouble: null });
    try {
      await what(kept);
      return true;
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      if (problem.reason === "extension_limit") this.extendedEnough(kept);
      else if (problem.passing) this.set({ trouble: unreachable });
      else await this.look();
      return false;
    } finally {
      this.set({ busy: null });
    }
  }

  release(): Promise<boolean> {
    return this.act("release", t.checkout.notReleased, async (kept) => {
      await releaseHold(kept.id, kept.token);
      this.begin();
      this.last = null;
      this.keep(null);
      this.tell({ type: "none" });
    });
  }

  extend(): Promise<boolean> {
    return this.act("extend", t.checkout.notExtended, async (kept) => {
      const hold = await extendHold(kept.id, kept.token);
      this.extended(kept.id, (kept.extensions ?? 0) + 1);
      // Who has gone on to pay meanwhile is not called back.
      if (this.state.phase.name === "holding") this.tell({ type: "held", hold, found: false });
    });
  }

  private extendedEnough(kept: KeptHold): void {
    const most = this.event.max_extensions;
    this.extended(kept.id, most);
    this.set({ trouble: t.checkout.extensionLimit(most) });
  }

  /** Into what is kept now, not as it was when this was asked: an order may have begun since. */
  private extended(hold: string, extensions: number): void {
    const now = keptHold(this.id);
    if (now?.id === hold) this.keep({ ...now, extensions });
  }

  // Paying

  async pay(method: string | null, otherSeats: boolean): Promise<void> {
    const before = keptHold(this.id);
    const { phase } = this.state;
    if (!before || phase.name !== "holding") return this.look();
    const wanted = this.begin();
    this.set({ trouble: null });
    this.underWay = wanted;
    this.tell({ type: "sent", hold: phase.hold });
    let { hold } = phase;
    try {
      // First, so that the units stay his while the bank takes its time.
      if (method) hold = await payHold(before.id, before.token);
      if (!wanted()) return;
      this.tell({ type: "sent", hold });
    } catch (problem) {
      if (!wanted()) return;
      if (!(problem instanceof Problem)) throw problem;
      this.tell({ type: "otherwise" });
      if (!problem.passing) return this.look();
      return this.set({ trouble: t.checkout.notBegun });
    }
    // Kept before it is sent: whoever comes back finds the same order, not a second one.
    const kept: KeptHold = { ...unpaid(before), orderKey: newIdempotencyKey() };
    if (method) kept.method = method;
    if (otherSeats) kept.otherSeats = true;
    this.keep(kept);
    await this.order(hold, kept, wanted);
  }

  private async order(hold: Hold, kept: KeptHold, wanted: () => boolean): Promise<void> {
    this.underWay = wanted;
    const outcome = await buy(kept, {
      wanted,
      waits: (wait, order) => this.tell({ type: "waits", wait, order }),
    });
    if (wanted()) await this.came(outcome, hold, kept, wanted);
  }

  private async came(
    outcome: Outcome,
    hold: Hold,
    kept: KeptHold,
    wanted: () => boolean,
  ): Promise<void> {
    switch (outcome.type) {
      case "bought":
        return this.bought(outcome.order, kept);
      case "ended":
        return this.end(outcome.end, hold);
      case "left":
        return;
    }
    const rest = unpaid(kept);
    const { orderKey } = keptHold(this.id) ?? {};
    // Unless another tab has begun to pay anew meanwhile.
    if (orderKey === undefined || orderKey === kept.orderKey) this.keep(rest);
    const now = await getHold(kept.id, kept.token).catch(() => null);
    if (!wanted()) return;
    const { state } = now ?? hold;
    if (outcome.type === "declined" && (state === "held" || state === "paying")) {
      this.tell({ type: "declined", hold: now ?? hold, why: outcome.why });
    } else if (now) await this.follow(now, rest, wanted);
    else {
      this.underWay = () => false;
      await this.look();
    }
  }

  private bought(order: Order, { id, token }: KeptHold): void {
    if (keptHold(this.id)) this.keep({ id, token, order: order.id });
    const { seats, pools } = order;
    keepOrder(this.id, { id: order.id, holdToken: token, seats, pools });
    this.set({ orders: keptOrders(this.id) });
    this.tell({ type: "bought", order });
  }

  /** Back from a payment that does not come to an end, to choose another. */
  otherwise(): void {
    this.begin();
    const kept = keptHold(this.id);
    if (kept) this.keep(unpaid(kept));
    this.tell({ type: "otherwise" });
    void this.look();
  }

  // Afterwards

  /** On from a ticket, or from what came to an end, to picking. */
  again(): void {
    this.begin();
    this.last = null;
    this.keep(null);
    this.tell({ type: "dismissed" });
  }

  /** A ticket of before. */
  async show(kept: KeptOrder): Promise<void> {
    this.set({ trouble: null });
    try {
      const order = await getOrder(kept.id, kept.holdToken);
      if (standingOf(order) === "sold") return this.tell({ type: "shown", order });
      forgetOrder(this.id, kept.id);
      this.set({ orders: keptOrders(this.id), trouble: t.checkout.orderGone });
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      this.set({ trouble: problem.detail });
    }
  }

  /** Orders that were cancelled meanwhile no longer count, and their seats are not mine. */
  private async refreshOrders(): Promise<void> {
    for (const kept of keptOrders(this.id).slice(0, REFRESHED_MAX)) {
      const order = await getOrder(kept.id, kept.holdToken).catch((problem) =>
        problem instanceof Problem && problem.status === 404 ? null : undefined,
      );
      if (order === undefined) return;
      if (!order || standingOf(order) !== "sold") forgetOrder(this.id, kept.id);
      else keepOrder(this.id, { ...kept, seats: order.seats, pools: order.pools });
    }
    this.set({ orders: keptOrders(this.id) });
  }
}
