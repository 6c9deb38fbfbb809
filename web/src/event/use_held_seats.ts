/** The map may know before the clock does: seats of the hold that are free again, or sold. */

import { useEffect, useRef } from "preact/hooks";
import type { Desk } from "../checkout/use_hold";
import { HELD, type Plan } from "../map/layout";

export function useHeldSeats(desk: Desk, plan: Plan | null, version: number): void {
  const before = useRef<{ seat: string; state: number } | null>(null);
  const seat = desk.phase.name === "holding" ? desk.phase.hold.seats[0] : undefined;
  useEffect(() => {
    const index = seat === undefined ? -1 : (plan?.indexOf(seat) ?? -1);
    if (!plan || seat === undefined || index < 0) {
      before.current = null;
      return;
    }
    const state = plan.state[index]!;
    const was = before.current?.seat === seat ? before.current.state : null;
    before.current = { seat, state };
    // Only the change counts: right after the hold was placed the map is still behind.
    if (was === HELD && state !== HELD) void desk.look();
  }, [plan, version, seat]);
}
