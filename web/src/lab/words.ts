/** A run in words. */

import { milliseconds } from "../format";
import { t } from "../strings";
import type { Offer, Run } from "./runs";

type Named = keyof typeof t.lab.strategies;

/** In the reader's language where it is known, else as the service calls it. */
export function nameOf(strategy: string, offers: Offer[] = []): string {
  const known = t.lab.strategies[strategy as Named];
  return known?.[0] ?? offers.find((offer) => offer.id === strategy)?.name ?? strategy;
}

export function aboutOf(strategy: string, offers: Offer[] = []): string {
  const known = t.lab.strategies[strategy as Named];
  return known?.[1] ?? offers.find((offer) => offer.id === strategy)?.about ?? "";
}

/** How it was done: HTTP or engine, policy, gate. Other strategies have nothing to say here. */
export function mannerOf(run: Run): string {
  if (run.strategy !== "holdfast") return "";
  const gated = run.gate && run.policy && run.policy !== "authority";
  return [
    t.lab.over[run.over],
    gated ? t.lab.holdsIn(t.lab.policies[run.policy as keyof typeof t.lab.policies]) : "",
  ]
    .filter(Boolean)
    .join(" · ");
}

/** A wait may be shorter than what is written with two digits. */
export const wait = (ms: number): string => (ms > 0 && ms < 0.01 ? t.lab.hardly : milliseconds(ms));

export const crowdOf = (run: { buyers: number; seats: number; stock: boolean }): string =>
  t.lab.crowd(run.buyers, run.seats, run.stock);
