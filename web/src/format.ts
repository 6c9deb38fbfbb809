/** Numbers, money and times, in the reader's own way of writing them. */

const numbers = new Intl.NumberFormat();
const percents = new Intl.NumberFormat(undefined, { style: "percent", maximumFractionDigits: 1 });
const moneys = new Map<string, Intl.NumberFormat>();

export const number = (value: number): string => numbers.format(value);

/** Of a hundred. */
export const percent = (value: number): string => percents.format(value / 100);

/** Minor units as ISO 4217 has them, where they are not hundredths. Browsers do not agree about it:
 * some have the digits of coins that are in use, and show 9000 HUF, which is 90, as 9,000. */
const MINOR_DIGITS = new Map<string, number>();
for (const [digits, currencies] of [
  [0, "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"],
  [3, "BHD IQD JOD KWD LYD OMR TND"],
  [4, "CLF UYW"],
] as const) {
  for (const currency of currencies.split(" ")) MINOR_DIGITS.set(currency, digits);
}

/** How many digits come after the point: 2 for EUR, 0 for JPY. */
export const minorDigits = (currency: string): number => MINOR_DIGITS.get(currency) ?? 2;

/** From the minor unit: 9000 EUR is 90. */
export function money(minor: number, currency: string, shown = minorDigits(currency)): string {
  const name = `${currency} ${shown}`;
  let format = moneys.get(name);
  if (!format) {
    const digits = { minimumFractionDigits: shown, maximumFractionDigits: shown };
    format = new Intl.NumberFormat(undefined, { style: "currency", currency, ...digits });
    moneys.set(name, format);
  }
  return format.format(minor / 10 ** minorDigits(currency));
}

/** 83 seconds as 1:23. */
export function countdown(seconds: number): string {
  const left = Math.max(0, Math.ceil(seconds));
  return `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
}

export function milliseconds(value: number): string {
  if (value >= 10_000) return `${number(Math.round(value / 1000))} s`;
  if (value >= 1000) return `${number(Math.round(value / 10) / 100)} s`;
  if (value >= 10) return `${number(Math.round(value))} ms`;
  return `${number(Math.round(value * 100) / 100)} ms`;
}

export const time = (iso: string): string =>
  new Date(iso).toLocaleTimeString(undefined, {
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  });

export const dateTime = (iso: string): string =>
  new Date(iso).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
