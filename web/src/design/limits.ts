/** The limits that the service has. It decides; these only say sooner what it would say. */

export const LABEL_CHARS_MAX = 64;
export const SECTION_CHARS_MAX = 40;
export const NAME_CHARS_MAX = 200;
export const SEATS_MAX = 1_000_000;
export const POOLS_MAX = 1_000;
export const TIERS_MAX = 1_000;
export const ROWS_MAX = 10_000;
export const NUMBER_MAX = 1_000_000;
export const CAPACITY_MAX = 1_000_000_000;
export const RANK_MAX = 1_000_000_000;
/** In the minor unit. */
export const PRICE_MAX = 1_000_000_000_000;
export const SECONDS_MAX = 86_400;
export const EXTENSIONS_MAX = 100;
export const CAP_MAX = 1_000_000;
/** Coordinates stay below this. */
export const PLACE_MAX = 1_000_000_000;
export const WORTH_MAX = 2n ** 63n - 1n;
export const UPLOAD_BYTES_MAX = 32 * 1024 * 1024;

export const EVENT_ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;
export const CURRENCY = /^[A-Z]{3}$/;

/** What Python calls not printable: controls, separators other than the blank, what is unassigned. */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u;

export type LabelFault = "missing" | "long" | "odd";

/** A text that may be the name of something: null, or what is wrong with it. */
export function labelFault(text: string, most = LABEL_CHARS_MAX): LabelFault | null {
  if (!text) return "missing";
  if ([...text].length > most) return "long";
  return UNPRINTABLE.test(text) || text !== text.trim() ? "odd" : null;
}
