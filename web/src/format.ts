/** Numbers, money and times, in the reader's own way of writing them. */

const numbers = new Intl.NumberFormat();
const percents = new Intl.NumberFormat(undefined, { style: "percent", maximumFractionDigits: 1 });
const moneys = new Map<string, Intl.NumberFormat>();

export const number = (value: number): string => numbers.format(value);

/** Of a hundred. */
export const percent = (value: number): string => percents.format(value / 100);

/** From the minor unit: 9000 EUR is 90. */
export function money(minor: number, currency: string): string {
  let format = moneys.get(currency);
  if (!format) {
    format = new Intl.NumberFormat(undefined, { style: "currency", currency });
    moneys.set(currency, format);
  }
  const digits = format.resolvedOptions().maximumFractionDigits ?? 2;
  return format.format(minor / 10 ** digits);
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
