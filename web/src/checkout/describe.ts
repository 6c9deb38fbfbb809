/** How units are called. The map knows; the checkout only asks. */

export interface UnitWords {
  /** "A · row 1 · seat 5" */
  text: string;
  tier: string;
  /** Which of the colours --tier-1 and so on; null where it is not known. */
  color: number | null;
  /** Of one unit, in the minor unit; null where it is not known. */
  price: number | null;
  /** "restricted view" */
  notes: string[];
}

export interface Describe {
  seat(id: string): UnitWords;
  pool(id: string): UnitWords;
}

export interface Line {
  key: string;
  words: UnitWords;
  quantity: number;
  /** Of many that are alike: then how many is said, even of one. */
  counted: boolean;
}

export function linesOf(
  units: { seats: readonly string[]; pools: Readonly<Record<string, number>> },
  describe: Describe,
): Line[] {
  return [
    ...units.seats.map((seat) => ({
      key: `seat ${seat}`,
      words: describe.seat(seat),
      quantity: 1,
      counted: false,
    })),
    ...Object.entries(units.pools).map(([pool, quantity]) => ({
      key: `pool ${pool}`,
      words: describe.pool(pool),
      quantity,
      counted: true,
    })),
  ];
}

/** Whether today's prices of the lines make up the amount. If not, the amount was fixed under other
 * prices, and those of the lines are better not said. */
export function addsUp(lines: readonly Line[], amount: number): boolean {
  let sum = 0;
  for (const { words, quantity } of lines) {
    if (words.price === null) return false;
    sum += words.price * quantity;
  }
  return sum === amount;
}
