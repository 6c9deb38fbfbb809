/** Nobody sits: places are counted. */

import { type Draft, emptyDraft, newPool, newTier } from "../model";

export function club(): Draft {
  return emptyDraft({
    id: "basement-saturday",
    name: "Basement Saturday",
    holdSeconds: "300",
    maxPerBuyer: "6",
    tiers: [
      newTier("lounge", "60"),
      newTier("gallery", "28"),
      newTier("floor", "22"),
      newTier("early bird", "15"),
    ],
    pools: [
      newPool({ id: "Floor", tier: "floor", capacity: "700" }),
      newPool({ id: "Early bird", tier: "early bird", capacity: "150" }),
      newPool({ id: "Gallery", tier: "gallery", capacity: "120" }),
      newPool({ id: "Lounge", tier: "lounge", capacity: "40" }),
    ],
  });
}
