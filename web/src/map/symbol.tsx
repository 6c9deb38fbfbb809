/** A seat as the canvas draws it, for pages: 20 wide, around the middle. */

import type { Look } from "./props";

/** Places without seats, in the colour of their tier. */
export function AreaSymbol({ color }: { color: number }) {
  return (
    <svg class="seat-symbol" viewBox="-10 -10 20 20" width="20" height="20" aria-hidden="true">
      <rect
        x="-9"
        y="-7"
        width="18"
        height="14"
        rx="3"
        style={{ fill: tierVariable(color), opacity: 0.3 }}
      />
      <rect x="-9" y="3" width="18" height="4" rx="2" style={{ fill: tierVariable(color) }} />
    </svg>
  );
}

export interface SymbolProps {
  look: Look;
  /** Which of the tiers' colours. */
  color?: number;
  square?: boolean;
  cut?: boolean;
}

const TIERS = 6;
export const tierVariable = (color: number): string => `var(--tier-${(color % TIERS) + 1})`;

export function SeatSymbol({ look, color = 0, square = false, cut = false }: SymbolProps) {
  const tier = { fill: tierVariable(color) };
  const body = (radius: number, style: Record<string, string>, name = "") =>
    square ? (
      <rect
        class={name}
        x={-radius}
        y={-radius}
        width={2 * radius}
        height={2 * radius}
        rx={radius * 0.35}
        style={style}
      />
    ) : (
      <circle class={name} r={radius} style={style} />
    );
  return (
    <svg class="seat-symbol" viewBox="-10 -10 20 20" width="20" height="20" aria-hidden="true">
      {look === "available" && body(8, tier)}
      {look === "available" && cut && <path class="symbol-cut" d="M-10 5.2h20" />}
      {look === "held" && (
        <>
          <circle class="symbol-held-ring" r="6.6" />
          <circle class="symbol-held-dot" r="2" />
        </>
      )}
      {look === "sold" && <path class="symbol-sold" d="M-3.4-3.4l6.8 6.8m0-6.8l-6.8 6.8" />}
      {look === "picked" && (
        <>
          {body(5.6, tier)}
          {body(8.4, {}, "symbol-picked")}
        </>
      )}
      {look === "mine" && (
        <>
          {body(9, {}, "symbol-mine")}
          <path class="symbol-check" d="M-4 .4l3 3 5.2-6.4" />
        </>
      )}
      {look === "lost" && (
        <>
          <path class="symbol-lost" d="M0-9.8L9.8 0 0 9.8-9.8 0z" />
          <path class="symbol-mark" d="M-1-5h2v5.6h-2zM-1 2h2v2h-2z" />
        </>
      )}
      {look === "suggested" && (
        <>
          {body(6.2, tier)}
          <path class="symbol-plus" d="M-3 0h6M0-3v6" />
          {body(8.6, {}, "symbol-suggested")}
        </>
      )}
    </svg>
  );
}
