/** The desk of an event's hold, for a page. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type KeptOrder, onHoldChanged } from "../api/storage";
import type { Ask, EventView, Hold, Order } from "../api/types";
import type { Refusal } from "../event/refusal";
import { type DeskState, HoldDesk } from "./desk";
import type { Phase } from "./phases";

export interface Desk extends Omit<DeskState, "extensions"> {
  hold: Hold | null;
  order: Order | null;
  /** Whether one more extension may be asked for. */
  extendable: boolean;
  /** Whether this phase came after another, and not with the page: then the focus goes along. */
  moved: boolean;
  place(ask: Ask): Promise<Refusal | null>;
  release(): Promise<boolean>;
  extend(): Promise<boolean>;
  pay(method: string | null, otherSeats: boolean): Promise<void>;
  otherwise(): void;
  look(): Promise<void>;
  /** The service is known to answer again. */
  reached(): void;
  again(): void;
  show(order: KeptOrder): Promise<void>;
}

export function useHold(event: EventView): Desk {
  const [, redraw] = useState<DeskState | null>(null);
  const desk = useMemo(() => new HoldDesk(event, redraw), [event.id]);
  desk.update(event);

  useEffect(() => {
    void desk.open();
    const stop = onHoldChanged(event.id, () => void desk.heard());
    // A browser that slept has not counted.
    const woken = () => {
      const holding = desk.state.phase.name === "holding";
      if (document.visibilityState === "visible" && holding) void desk.look();
    };
    // One that the browser had put away has heard nothing of what other tabs did.
    const back = (shown: PageTransitionEvent) => {
      if (shown.persisted) void desk.heard();
    };
    document.addEventListener("visibilitychange", woken);
    addEventListener("online", woken);
    addEventListener("pageshow", back);
    return () => {
      desk.close();
      stop();
      document.removeEventListener("visibilitychange", woken);
      removeEventListener("online", woken);
      removeEventListener("pageshow", back);
    };
  }, [desk]);

  const { phase, deadline, extensions, ...rest } = desk.state;
  const before = useRef<Phase["name"]>(phase.name);
  const moved = useRef(false);
  if (before.current !== phase.name) {
    moved.current = before.current !== "looking";
    before.current = phase.name;
  }
  const hold = phase.name === "holding" || phase.name === "paying" ? phase.hold : null;
  return {
    ...rest,
    phase,
    hold,
    order: phase.name === "bought" || phase.name === "paying" ? phase.order : null,
    deadline: hold && deadline,
    extendable: extensions < event.max_extensions,
    moved: moved.current,
    place: (ask) => desk.place(ask),
    release: () => desk.release(),
    extend: () => desk.extend(),
    pay: (method, otherSeats) => desk.pay(method, otherSeats),
    otherwise: () => desk.otherwise(),
    look: () => desk.look(),
    reached: () => desk.reached(),
    again: () => desk.again(),
    show: (order) => desk.show(order),
  };
}
