/** The map of a draft. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { MapSeat } from "../api/types";
import { makePlan, type Plan } from "../map/layout";
import type { House } from "./house";

/** More than any house has; a map of a million is for whoever has such a machine. */
export const PREVIEW_SEATS_MAX = 150_000;
/** Large maps wait until typing stops. */
const SETTLE_MS = 150;
const LARGE = 5_000;

export function planOf(house: House): Plan {
  const seats = house.seats.slice(0, PREVIEW_SEATS_MAX).map((seat): MapSeat => {
    const { id, section, row, number, tier, x, y } = seat;
    const shown: MapSeat = { id, section, row, number, tier, x, y, state: "available" };
    if (seat.accessible) shown.accessible = true;
    if (seat.companion) shown.companion = true;
    if (seat.restricted) shown.restricted_view = true;
    return shown;
  });
  const pools = house.pools.map((pool) => ({ ...pool, available: pool.capacity }));
  return makePlan(seats, pools, house.prices);
}

/** Whether they look the same on the map. */
function alike(a: House, b: House): boolean {
  return (
    a.seats.length === b.seats.length &&
    a.seats.every((seat, at) => seat === b.seats[at]) &&
    JSON.stringify([a.pools, a.prices]) === JSON.stringify([b.pools, b.prices])
  );
}

/** The plan of the house as it is now, or was a moment ago. */
export function usePlan(house: House): Plan {
  const [plan, setPlan] = useState(() => planOf(house));
  const drawn = useRef(house);
  useEffect(() => {
    if (alike(drawn.current, house)) return;
    const draw = () => {
      drawn.current = house;
      setPlan(planOf(house));
    };
    const large = Math.max(house.seats.length, drawn.current.seats.length) > LARGE;
    const timer = setTimeout(draw, large ? SETTLE_MS : 0);
    return () => clearTimeout(timer);
  }, [house]);
  return plan;
}
