/** Stands all around a field: straight ones on its four sides, bent ones around its corners. */

import { type Arc, type Grid, newArc, newGrid } from "../model";

export interface Field {
  /** Sections on each long side, seats in a row of one. */
  long: { sections: number; seats: number };
  short: { sections: number; seats: number };
  /** Sections around each corner. */
  corner: number;
}

export type Stand = "long" | "short" | "corner";

export interface Ring {
  /** 100 names its sections 101, 102 and so on, once around. */
  hundred: number;
  rows: number;
  /** From the corners of the field to the first row. */
  radius: number;
  tier: (stand: Stand) => string;
  /** As good as which row of the best stand its first row is. */
  rank: (stand: Stand) => number;
}

/** Between two sections, in seats. */
const GAP = 2;
/** One row further back is as bad as so many seats further from the middle. */
const ROW_RANK = 2;

const lengthOf = (side: Field["long"]): number => side.sections * (side.seats + GAP);

/** Half of the field's straight sides. */
export const halves = (field: Field): [number, number] => [
  lengthOf(field.long) / 2,
  lengthOf(field.short) / 2,
];

/** One ring of sections, counted from the left end of the front side, against the clock. */
export function ring(field: Field, it: Ring): { grids: Grid[]; arcs: Arc[] } {
  const [a, b] = halves(field);
  const grids: Grid[] = [];
  const arcs: Arc[] = [];
  let number = it.hundred;
  const traits = (stand: Stand) => {
    number += 1;
    return {
      id: `${number}`,
      tier: it.tier(stand),
      rank: `${it.rank(stand) * ROW_RANK}`,
      rankStep: `${ROW_RANK}`,
      rankSide: "1",
      rows: `${it.rows}`,
    };
  };
  // Each side begins where the corner before it ends, and runs along (dx, dy).
  const sides: {
    stand: "long" | "short";
    turn: number;
    x: number;
    y: number;
    dx: number;
    dy: number;
  }[] = [
    { stand: "long", turn: 0, x: -a, y: b + it.radius, dx: 1, dy: 0 },
    { stand: "short", turn: -90, x: a + it.radius, y: b, dx: 0, dy: -1 },
    { stand: "long", turn: 180, x: a, y: -b - it.radius, dx: -1, dy: 0 },
    { stand: "short", turn: 90, x: -a - it.radius, y: -b, dx: 0, dy: 1 },
  ];
  const corners: [number, number][] = [
    [a, b],
    [a, -b],
    [-a, -b],
    [-a, b],
  ];
  sides.forEach(({ stand, turn, x, y, dx, dy }, side) => {
    const { sections, seats } = field[stand];
    for (let n = 0; n < sections; n += 1) {
      // A grid's first seat is one step along and one step out from where it stands.
      const along = n * (seats + GAP) + (GAP - 1) / 2;
      grids.push(
        newGrid({
          ...traits(stand),
          seats: `${seats}`,
          turn: `${turn}`,
          x: `${x + dx * along + dy}`,
          y: `${y + dy * along - dx}`,
        }),
      );
    }
    const wedge = 90 / field.corner;
    const gap = ((GAP / 2 / it.radius) * 180) / Math.PI;
    const [cx, cy] = corners[side]!;
    for (let n = 0; n < field.corner; n += 1) {
      const from = side * 90 + n * wedge;
      arcs.push(
        newArc({
          ...traits("corner"),
          x: `${cx}`,
          y: `${cy}`,
          radius: `${it.radius}`,
          from: tenth(from + gap),
          to: tenth(from + wedge - gap),
        }),
      );
    }
  });
  return { grids, arcs };
}

const tenth = (degrees: number): string => `${Math.round(degrees * 10) / 10}`;
