/** A limited edition: so many pairs of each size, one for each buyer. */

import { type Draft, emptyDraft, newPool, newTier } from "../model";

const PAIRS: [string, number][] = [
  ["38", 40],
  ["39", 60],
  ["40", 90],
  ["41", 140],
  ["42", 180],
  ["43", 180],
  ["44", 140],
  ["45", 90],
  ["46", 50],
  ["47", 30],
];

export function sneakers(): Draft {
  return emptyDraft({
    id: "aurora-low",
    name: "Aurora Low, limited to 1,000 pairs",
    holdSeconds: "180",
    graceSeconds: "120",
    maxExtensions: "0",
    maxPerBuyer: "1",
    tiers: [newTier("pair", "180")],
    pools: PAIRS.map(([size, pairs]) =>
      newPool({ id: `EU ${size}`, tier: "pair", capacity: `${pairs}` }),
    ),
  });
}
