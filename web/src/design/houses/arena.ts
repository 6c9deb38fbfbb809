/** 20,000: a bowl of two rings, a ring of suites between them, and people standing on the floor. */

import { houseOf } from "../house";
import { type Draft, emptyDraft, newPool, newTier } from "../model";
import { type Field, ring } from "./bowl";

const UNITS = 20_000;
const FIELD: Field = {
  long: { sections: 5, seats: 18 },
  short: { sections: 3, seats: 12 },
  corner: 3,
};

export function arena(): Draft {
  const rings = [
    ring(FIELD, {
      hundred: 100,
      rows: 20,
      radius: 13,
      tier: (stand) => (stand === "long" ? "lower side" : "lower bowl"),
      rank: (stand) => (stand === "long" ? 0 : 30),
    }),
    ring(FIELD, { hundred: 200, rows: 2, radius: 36, tier: () => "suite", rank: () => 10 }),
    ring(FIELD, { hundred: 300, rows: 19, radius: 41, tier: () => "upper bowl", rank: () => 100 }),
  ];
  const draft = emptyDraft({
    id: "northern-lights-tour",
    name: "Northern Lights Tour",
    maxPerBuyer: "6",
    ranking: "rank",
    tiers: [
      newTier("suite", "220"),
      newTier("floor", "145"),
      newTier("lower side", "120"),
      newTier("lower bowl", "89"),
      newTier("upper bowl", "49"),
    ],
    grids: rings.flatMap((each) => each.grids),
    arcs: rings.flatMap((each) => each.arcs),
  });
  const seats = houseOf(draft).units;
  draft.pools = [newPool({ id: "Floor, standing", tier: "floor", capacity: `${UNITS - seats}` })];
  return draft;
}
