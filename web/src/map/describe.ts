/** A seat in words, for tooltips, the list, and whoever listens. */

import { money } from "../format";
import { t } from "../strings";
import { ACCESSIBLE, COMPANION, type Plan, type PoolArea, RESTRICTED } from "./layout";
import type { Look } from "./props";

export const placeOfSeat = (plan: Plan, index: number): string =>
  t.map.place(
    plan.sections[plan.section[index]!]!.id,
    plan.rows[plan.row[index]!]!.name,
    plan.number[index]!,
  );

export function tierAndPrice(plan: Plan, tier: number, currency: string): string {
  const { id, price } = plan.tiers[tier]!;
  return price === null ? id : `${id} · ${money(price, currency)}`;
}

export function flagsOf(plan: Plan, index: number): string[] {
  const flags = plan.flags[index]!;
  return [
    ...(flags & ACCESSIBLE ? [t.map.accessible] : []),
    ...(flags & COMPANION ? [t.map.companion] : []),
    ...(flags & RESTRICTED ? [t.map.restrictedView] : []),
  ];
}

/** All of it in one sentence. */
export function seatInWords(plan: Plan, index: number, look: Look, currency: string): string {
  return [
    placeOfSeat(plan, index),
    tierAndPrice(plan, plan.tier[index]!, currency),
    t.map.look[look],
    ...flagsOf(plan, index),
  ].join(", ");
}

export function poolInWords(plan: Plan, pool: PoolArea, currency: string): string {
  const { id, price } = plan.tiers[pool.tier]!;
  const tier =
    id === pool.id && price !== null
      ? money(price, currency)
      : tierAndPrice(plan, pool.tier, currency);
  return `${t.map.pool(pool.id, pool.available, pool.capacity)}, ${tier}`;
}
