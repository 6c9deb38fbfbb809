/** What the symbols and colours of the map mean, and what they cost. */

import { useMemo } from "preact/hooks";
import { money } from "../format";
import { t } from "../strings";
import { ACCESSIBLE, COMPANION, type Plan, RESTRICTED } from "./layout";
import type { Look, SeatViewProps } from "./props";
import { AreaSymbol, SeatSymbol } from "./symbol";
import "../style/map.css";

export type LegendProps = Pick<
  SeatViewProps,
  "plan" | "version" | "currency" | "lost" | "suggested"
>;

/** Colours repeat long before; the tooltip tells each seat's price. */
const TIERS_MAX = 18;
const ALWAYS: readonly Look[] = ["picked", "mine", "held", "sold"];

export function Legend({ plan, currency, lost, suggested }: LegendProps) {
  const flags = useMemo(() => plan.flags.reduce((all, each) => all | each, 0), [plan]);
  const looks: Look[] = [
    ...ALWAYS,
    ...(lost?.size ? (["lost"] as const) : []),
    ...(suggested?.size ? (["suggested"] as const) : []),
  ];
  return (
    <section class="legend" aria-label={t.map.legend}>
      <ul class="legend-tiers">
        {plan.tiers.slice(0, TIERS_MAX).map((tier) => (
          <li key={tier.id}>
            {tier.seats ? (
              <SeatSymbol look="available" color={tier.color} />
            ) : (
              <AreaSymbol color={tier.color} />
            )}
            <span class="legend-tier">{tier.id}</span>
            {tier.price !== null && <span class="numbers">{money(tier.price, currency)}</span>}
            <span class="soft numbers legend-free">{freeOf(plan, tier.color)}</span>
          </li>
        ))}
        {plan.tiers.length > TIERS_MAX && (
          <li class="soft">{t.map.moreTiers(plan.tiers.length - TIERS_MAX)}</li>
        )}
      </ul>
      {plan.count > 0 && (
        <ul class="legend-looks">
          {looks.map((look) => (
            <li key={look}>
              <SeatSymbol look={look} />
              <span>{t.map.legendOf[look]}</span>
            </li>
          ))}
          {(flags & (ACCESSIBLE | COMPANION)) !== 0 && (
            <li>
              <SeatSymbol look="available" square />
              <span>{t.map.legendOf.accessible}</span>
            </li>
          )}
          {(flags & RESTRICTED) !== 0 && (
            <li>
              <SeatSymbol look="available" cut />
              <span>{t.map.legendOf.restrictedView}</span>
            </li>
          )}
        </ul>
      )}
    </section>
  );
}

/** Seats and places together: tiers are in the order of their colours. */
function freeOf(plan: Plan, at: number): string {
  const tier = plan.tiers[at]!;
  let { free, seats } = tier;
  for (const pool of plan.pools) {
    if (pool.tier !== at) continue;
    free += pool.available;
    seats += pool.capacity;
  }
  return t.map.free(free, seats);
}
