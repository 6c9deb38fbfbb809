/** What is on a ticket's QR code, and its squares as one path. */

import qrcode from "qrcode-generator";
import type { Order } from "../api/types";

/** What a scanner at the door reads. */
export function ticketText(order: Pick<Order, "id" | "seats" | "pools">): string {
  const { id, seats, pools } = order;
  return JSON.stringify({
    order: id,
    ...(seats.length ? { seats } : {}),
    ...(Object.keys(pools).length ? { pools } : {}),
  });
}

export interface Squares {
  /** Squares on a side. */
  size: number;
  /** For an SVG path, one unit a square. */
  path: string;
}

export function squaresOf(text: string): Squares {
  const code = qrcode(0, "M");
  // The library takes one byte a character: what is beyond Latin is given to it as UTF-8.
  code.addData(String.fromCharCode(...new TextEncoder().encode(text)), "Byte");
  code.make();
  const size = code.getModuleCount();
  let path = "";
  for (let row = 0; row < size; row++) {
    for (let column = 0; column < size; column++) {
      if (!code.isDark(row, column)) continue;
      const from = column;
      while (column + 1 < size && code.isDark(row, column + 1)) column += 1;
      path += `M${from} ${row}h${column + 1 - from}v1H${from}z`;
    }
  }
  return { size, path };
}

/** Of everything on the ticket; of the order alone where that is too much for a code. */
export function ticketSquares(order: Pick<Order, "id" | "seats" | "pools">): Squares {
  try {
    return squaresOf(ticketText(order));
  } catch {
    return squaresOf(ticketText({ id: order.id, seats: [], pools: {} }));
  }
}
