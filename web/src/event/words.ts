/** Units of a plan in words. */

import type { Describe, UnitWords } from "../checkout/describe";
import { flagsOf, placeOfSeat } from "../map/describe";
import type { Plan, Tier } from "../map/layout";

const unknown = (id: string): UnitWords => ({
  text: id,
  tier: "",
  color: null,
  price: null,
  notes: [],
});

const of = ({ id, color, price }: Tier) => ({ tier: id, color, price });

/** What the plan does not know (withdrawn meanwhile, or not there yet) goes by its id. */
export function describeBy(plan: Plan | null): Describe {
  return {
    seat(id) {
      const index = plan?.indexOf(id) ?? -1;
      if (!plan || index < 0) return unknown(id);
      const text = placeOfSeat(plan, index);
      return { text, notes: flagsOf(plan, index), ...of(plan.tierOf(index)) };
    },
    pool(id) {
      const tier = plan?.tiers[plan.pool(id)?.tier ?? -1];
      if (!tier) return unknown(id);
      // A tier that is named like its pool says nothing new.
      const words = { ...of(tier), text: id, notes: [] };
      return tier.id === id ? { ...words, tier: "" } : words;
    },
  };
}

/** What seats can cost that the best may be of. */
export function seatPrices(plan: Plan, tier: string, section: string): number[] {
  const tiers = new Set<number>();
  const at = section ? plan.sections.findIndex((each) => each.id === section) : -1;
  for (let index = 0; index < plan.count; index++) {
    if (at < 0 || plan.section[index] === at) tiers.add(plan.tier[index]!);
  }
  return [...tiers]
    .map((index) => plan.tiers[index]!)
    .filter((each) => !tier || each.id === tier)
    .map((each) => each.price ?? 0);
}
