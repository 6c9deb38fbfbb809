/** Events that the lab and `holdfast stampede` make for a run: sold out in a second, bought by nobody. */

import type { EventView } from "../api/types";

export const isTrial = ({ id }: Pick<EventView, "id">): boolean => /^(lab|stampede)-/.test(id);

/** Those that count, and how many runs are left out; with `all` nothing is. */
export function counting(
  events: EventView[],
  all: boolean,
): { shown: EventView[]; trials: number } {
  const sales = events.filter((event) => !isTrial(event));
  return { shown: all ? events : sales, trials: events.length - sales.length };
}
