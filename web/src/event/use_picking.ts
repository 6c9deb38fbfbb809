/** Choosing, asking, being refused, and going on from there. */

import { useEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import type { EventView } from "../api/types";
import type { Describe } from "../checkout/describe";
import type { Units } from "../checkout/phases";
import type { Desk } from "../checkout/use_hold";
import type { Plan } from "../map/layout";
import { nearestFree, type Suggestion } from "../map/nearest";
import { t } from "../strings";
import { toast } from "../ui/toast";
import {
  along,
  type Explanation,
  explain,
  overtaken,
  type Refusal,
  unanswered,
  type Way,
} from "./refusal";
import {
  askOf,
  type BestDraft,
  count,
  NO_BEST,
  NOTHING,
  PUBLIC_CAP,
  type Selection,
  select,
  unitsOf,
} from "./selection";

export interface Picking {
  selection: Selection;
  cap: number;
  /** Units of this event that the buyer has bought. */
  owned: number;
  no: Refusal | null;
  explanation: Explanation | null;
  offer: Suggestion | null;
  /** How many the way "fewer" would take. */
  fewer: number;
  toggle(seat: string): void;
  pool(pool: string, quantity: number): void;
  best(best: Partial<BestDraft>): void;
  clear(): void;
  hold(): void;
  take(way: Way): void;
  dismiss(): void;
  /** Chosen again, and where `ask`, asked for at once. */
  resume(units: Units, ask: boolean): void;
  /** As if somebody had just been faster with these. */
  missed(units: Units): void;
  /** The service is known to answer again. */
  reached(): void;
}

export function usePicking(
  event: EventView,
  desk: Desk,
  plan: Plan | null,
  version: number,
  describe: Describe,
): Picking {
  const [selection, step] = useReducer(select, NOTHING);
  const [no, setNo] = useState<Refusal | null>(null);
  const cap = event.max_per_buyer ?? PUBLIC_CAP;
  const owned = desk.orders.reduce((sum, { seats, pools }) => sum + seats.length + count(pools), 0);
  const room = Math.max(0, cap - owned);
  const picking = desk.phase.name === "picking";
  /** Given back just now to be chosen again: the map calls them held until it hears of it. */
  const returning = useRef(new Set<string>());

  const ask = async (wanted: Selection) => {
    if (!unitsOf(wanted)) return;
    const refusal = await desk.place(askOf(wanted));
    setNo(refusal);
    if (!refusal) step({ type: "clear" });
    else if (refusal.reason === "taken" || refusal.reason === "unknown_unit") {
      step({ type: "drop", seats: refusal.seats });
    }
  };

  // What others take while it is being chosen leaves the choice at once, not at the till.
  useEffect(() => {
    if (!plan || !picking || desk.busy === "place") return;
    const gone = selection.seats.filter((seat) => {
      const index = plan.indexOf(seat);
      if (index < 0) return false;
      if (plan.isFree(index)) returning.current.delete(seat);
      return !plan.isFree(index) && !returning.current.has(seat);
    });
    if (!gone.length) return;
    step({ type: "drop", seats: gone });
    setNo((before) => overtaken(gone, before));
  }, [version, picking, desk.busy, selection]);

  const offer = useOffer(plan, version, no, selection);

  const full = () => toast(t.event.pick.full(cap));
  const explanation = useMemo(
    () =>
      no &&
      explain(no, {
        selection,
        owned,
        nameOfSeat: (seat) => describe.seat(seat).text,
        nameOfPool: (pool) => describe.pool(pool).text,
      }),
    [no, plan],
  );

  return {
    selection,
    cap,
    owned,
    no: picking ? no : null,
    explanation,
    offer,
    fewer: no ? unitsOf(along("fewer", no, selection, owned) ?? NOTHING) : 0,
    toggle(seat) {
      const adds = !selection.seats.includes(seat);
      if (adds && unitsOf(selection) >= room) return full();
      // Of seats that are lost the story goes on until it is dismissed.
      if (no && !no.seats.length) setNo(null);
      step({ type: "toggle", seat, room });
    },
    pool(pool, quantity) {
      const before = selection.pools[pool] ?? 0;
      if (quantity > before && unitsOf(selection) >= room) return full();
      if (no && !no.seats.length) setNo(null);
      step({ type: "pool", pool, quantity, room });
    },
    best(best) {
      if (no && !no.seats.length) setNo(null);
      step({ type: "best", best, room });
    },
    clear() {
      setNo(null);
      step({ type: "clear" });
    },
    hold: () => void ask(selection),
    take(way) {
      if (!no) return;
      if (way === "retry") return void ask(selection);
      if (way === "instead") {
        if (!offer) return;
        const instead = select(selection, { type: "add", seats: offer.seats, room });
        step({ type: "set", selection: instead });
        setNo(null);
        // Who had asked already wants them held; who was still choosing goes on choosing.
        if (no.reason === "taken") void ask(instead);
        return;
      }
      const other = along(way, no, selection, owned);
      if (!other) return;
      step({ type: "set", selection: other });
      setNo(null);
      void ask(other);
    },
    dismiss: () => setNo(null),
    resume(units, atOnce) {
      const again: Selection = { seats: units.seats, pools: units.pools, best: NO_BEST };
      setNo(null);
      returning.current = new Set(atOnce ? [] : units.seats);
      step({ type: "set", selection: again });
      if (atOnce) void ask(again);
    },
    reached: () => setNo((before) => (before && unanswered(before) ? null : before)),
    missed(units) {
      setNo({ ...overtaken(units.seats, null), reason: "taken" });
      step({ type: "set", selection: { seats: [], pools: units.pools, best: NO_BEST } });
    },
  };
}

/** The nearest free seats instead of those that are lost; the same ones as long as they are free. */
function useOffer(
  plan: Plan | null,
  version: number,
  no: Refusal | null,
  selection: Selection,
): Suggestion | null {
  const last = useRef<{ no: Refusal; offer: Suggestion | null } | null>(null);
  return useMemo(() => {
    const lost = no?.reason === "taken" || no?.reason === "overtaken" ? no : null;
    if (!plan || !lost) {
      last.current = null;
      return null;
    }
    const picked = new Set(selection.seats);
    const fits = (seat: string) => plan.isFree(plan.indexOf(seat)) && !picked.has(seat);
    if (last.current?.no === lost && last.current.offer?.seats.every(fits)) {
      return last.current.offer;
    }
    const offer = nearestFree(plan, lost.seats, (index) => !plan.isFree(index), selection.seats);
    last.current = { no: lost, offer };
    return offer;
  }, [plan, version, no, selection.seats]);
}
