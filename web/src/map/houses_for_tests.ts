/** Houses as the service would answer them, for tests. */

import type { MapSeat } from "../api/types";

export interface Block {
  section: string;
  rows: number;
  width: number;
  tier?: string;
  x?: number;
  y?: number;
  /** After which seats of a row there is a gap. */
  aisles?: number[];
}

export function block({ section, rows, width, tier = "gold", x = 0, y = 0, aisles = [] }: Block) {
  const seats: MapSeat[] = [];
  for (let row = 1; row <= rows; row++) {
    for (let number = 1; number <= width; number++) {
      seats.push({
        id: `${section}-${row}-${number}`,
        section,
        row: String(row),
        number,
        tier,
        x: x + number + aisles.filter((after) => after < number).length,
        y: y + row,
        state: "available",
      });
    }
  }
  return seats;
}

/** The house of `holdfast demo`. */
export const demo = (): MapSeat[] => [
  ...block({ section: "A", rows: 10, width: 20, x: 5, aisles: [5, 15] }),
  ...block({ section: "B", rows: 10, width: 30, tier: "silver", y: 11, aisles: [8, 22] }),
];
