/** Numbers that change every second, short enough not to dance. */

import { number } from "../format";

const compact = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

/** 0.4, 7.2, 38, 12,345. */
export const rate = (value: number): string =>
  number(value < 10 ? Math.round(10 * value) / 10 : Math.round(value));

/** Sums of money, without the cents where they do not matter. */
export function roundMoney(minor: number, currency: string): string {
  const format = new Intl.NumberFormat(undefined, { style: "currency", currency });
  const digits = format.resolvedOptions().maximumFractionDigits ?? 2;
  const major = minor / 10 ** digits;
  if (Math.abs(major) < 10_000) return format.format(major);
  const round = { style: "currency", currency, maximumFractionDigits: 0 } as const;
  return new Intl.NumberFormat(undefined, round).format(major);
}

/** For an axis: 12K. */
export const short = (value: number): string =>
  value < 1000 ? rate(value) : compact.format(value);
