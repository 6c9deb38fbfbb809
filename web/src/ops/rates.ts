/** Numbers that change every second, short enough not to dance. */

import { minorDigits, money, number } from "../format";

const compact = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

/** 0.4, 7.2, 38, 12,345. */
export const rate = (value: number): string =>
  number(value < 10 ? Math.round(10 * value) / 10 : Math.round(value));

/** Sums of money, without the cents where they do not matter. */
export function roundMoney(minor: number, currency: string): string {
  const large = Math.abs(minor) >= 10_000 * 10 ** minorDigits(currency);
  return large ? money(minor, currency, 0) : money(minor, currency);
}

/** For an axis: 12K. */
export const short = (value: number): string =>
  value < 1000 ? rate(value) : compact.format(value);
