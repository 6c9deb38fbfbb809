/** Units, one a line: their tier's colour, what they are called, what they cost. */

import type { ComponentChildren } from "preact";
import { money } from "../format";
import { t } from "../strings";
import type { Line } from "./describe";

export const price = (amount: number, currency: string): string =>
  amount === 0 ? t.checkout.free : money(amount, currency);

export interface UnitLinesProps {
  lines: Line[];
  currency: string;
  /** Whether to say what each costs. */
  priced?: boolean;
  /** What stands at the end of a line. */
  action?: (line: Line) => ComponentChildren;
}

export function UnitLines({ lines, currency, priced = true, action }: UnitLinesProps) {
  return (
    <ul class="unit-lines">
      {lines.map((line) => (
        <li key={line.key}>
          <TierDot color={line.words.color} />
          <span class="unit-name">
            {line.counted && <span class="numbers">{line.quantity} × </span>}
            {line.words.text}
            <small>{[line.words.tier, ...line.words.notes].filter(Boolean).join(" · ")}</small>
          </span>
          {priced && line.words.price !== null && (
            <span class="unit-price numbers">
              {price(line.words.price * line.quantity, currency)}
            </span>
          )}
          {action?.(line)}
        </li>
      ))}
    </ul>
  );
}

export function TierDot({ color }: { color: number | null }) {
  const style = color === null ? {} : { background: `var(--tier-${(color % 6) + 1})` };
  return <span class="tier-dot" style={style} aria-hidden="true" />;
}
