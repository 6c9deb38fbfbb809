/** 60,000: three tiers all around a pitch, with places for wheelchairs beside it. */

import { houseOf } from "../house";
import { type Draft, emptyDraft, newGrid, newTier } from "../model";
import { type Field, halves, ring } from "./bowl";

const UNITS = 60_000;
const FIELD: Field = {
  long: { sections: 8, seats: 22 },
  short: { sections: 5, seats: 20 },
  corner: 3,
};
const RADIUS = 16;

export function stadium(): Draft {
  const rings = [
    ring(FIELD, {
      hundred: 100,
      rows: 26,
      radius: RADIUS,
      tier: (stand) => (stand === "long" ? "sideline" : "lower"),
      rank: (stand) => (stand === "long" ? 0 : 50),
    }),
    ring(FIELD, { hundred: 200, rows: 10, radius: 45, tier: () => "club", rank: () => 20 }),
    ring(FIELD, {
      hundred: 300,
      rows: 33,
      radius: 61,
      tier: (stand) => (stand === "long" ? "upper side" : "upper end"),
      rank: (stand) => (stand === "long" ? 100 : 150),
    }),
  ];
  const draft = emptyDraft({
    id: "cup-final",
    name: "Cup final",
    maxPerBuyer: "4",
    ranking: "rank",
    tiers: [
      newTier("club", "160"),
      newTier("sideline", "110"),
      newTier("lower", "75"),
      newTier("upper side", "55"),
      newTier("upper end", "38"),
      newTier("wheelchair", "30"),
    ],
    grids: rings.flatMap((each) => each.grids),
    arcs: rings.flatMap((each) => each.arcs),
  });
  const left = UNITS - houseOf(draft).units;
  const [, half] = halves(FIELD);
  // What is left makes the house full, along the front touchline.
  draft.grids.unshift(
    newGrid({
      id: "Pitchside",
      tier: "wheelchair",
      rows: "1",
      seats: `${left}`,
      x: `${-(left + 1) / 2}`,
      y: `${half + RADIUS - 4}`,
      rank: "0",
      rankSide: "1",
      accessibleRows: "1",
      companions: true,
    }),
  );
  return draft;
}
