/** A horseshoe: stalls around the stage, a balcony behind them, boxes along the walls. */

import { type Arc, type Draft, emptyDraft, newArc, newTier } from "../model";

const BOXES = [51, 62, 73, 84];
const BOX_HALF = 1.6;

export function theatre(): Draft {
  return emptyDraft({
    id: "winters-tale",
    name: "The Winter's Tale",
    maxPerBuyer: "8",
    ranking: "centre",
    tiers: [
      newTier("box", "95"),
      newTier("stalls", "68"),
      newTier("rear stalls", "52"),
      newTier("balcony", "34"),
    ],
    arcs: [
      newArc({
        id: "Stalls",
        tier: "stalls",
        rows: "6",
        radius: "8",
        from: "-42",
        to: "42",
        aisles: "-16, 16",
        rowNames: "A",
      }),
      newArc({
        id: "Rear stalls",
        tier: "rear stalls",
        rows: "4",
        radius: "15",
        from: "-42",
        to: "42",
        aisles: "-16, 16",
        rowNames: "G",
      }),
      newArc({
        id: "Terrace",
        tier: "rear stalls",
        rows: "1",
        radius: "20.4",
        from: "-14",
        to: "14",
        fill: "fixed",
        seats: "8",
        accessibleRows: "1",
        companions: true,
      }),
      newArc({
        id: "Balcony",
        tier: "balcony",
        rows: "4",
        radius: "23.6",
        from: "-34",
        to: "34",
        aisles: "-14, 14",
        rowNames: "A",
        restrictedRows: "4",
      }),
      ...BOXES.map((angle, n) => box(`Box L${n + 1}`, -angle, n === BOXES.length - 1)),
      ...BOXES.map((angle, n) => box(`Box R${n + 1}`, angle, n === BOXES.length - 1)),
    ],
  });
}

/** Four chairs; the boxes over the stage see it from the side. */
function box(id: string, angle: number, aside: boolean): Arc {
  return newArc({
    id,
    tier: "box",
    rows: "2",
    radius: "20",
    from: `${angle - BOX_HALF}`,
    to: `${angle + BOX_HALF}`,
    fill: "fixed",
    seats: "2",
    restricted: aside,
  });
}
