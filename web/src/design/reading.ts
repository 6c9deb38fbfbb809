/** Reads what was typed. Whatever is wrong is noted at its field, and reading goes on. */

import { minorDigits } from "../format";
import { t } from "../strings";
import { labelFault, NUMBER_MAX, PLACE_MAX, ROWS_MAX } from "./limits";
import { letters } from "./model";

export interface Fault {
  /** The field of the draft: `grids[0].rows`. */
  path: string;
  text: string;
  /** Nothing was typed yet: said when somebody wants to save, not before. */
  missing?: boolean;
}

const say = t.design.faults;

export class Reader {
  readonly faults: Fault[] = [];

  add(path: string, text: string, missing = false): void {
    this.faults.push(missing ? { path, text, missing } : { path, text });
  }

  label(path: string, text: string, most: number): void {
    const fault = labelFault(text, most);
    if (fault === "missing") this.add(path, say.needed, true);
    if (fault === "long") this.add(path, say.long(most));
    if (fault === "odd") this.add(path, say.odd);
  }

  whole(path: string, text: string, least: number, most: number): number {
    const typed = text.trim();
    const value = Number(typed);
    if (!typed) this.add(path, say.needed, true);
    else if (!/^-?\d+$/.test(typed)) this.add(path, say.whole);
    else if (value < least || value > most) this.add(path, say.range(least, most));
    else return value;
    return Number.NaN;
  }

  number(path: string, text: string, least = -PLACE_MAX, most = PLACE_MAX): number {
    const typed = text.trim().replace(",", ".");
    const value = Number(typed);
    if (!typed) this.add(path, say.needed, true);
    else if (!/^[-+]?(\d+\.?\d*|\.\d+)$/.test(typed)) this.add(path, say.number);
    else if (value < least || value > most || Math.abs(value) >= PLACE_MAX)
      this.add(path, say.range(least, most));
    else return value;
    return Number.NaN;
  }

  /** Whole numbers, with ranges: `1, 4-6`. */
  wholes(path: string, text: string, most: number): number[] {
    const found: number[] = [];
    for (const part of parts(text)) {
      const [, low, high] = /^(\d+)(?:\s*[-–]\s*(\d+))?$/.exec(part) ?? [];
      const from = Number(low);
      const to = high === undefined ? from : Number(high);
      if (low === undefined || from < 1 || to > most || from > to) {
        this.add(path, say.list(part, most));
        return [];
      }
      for (let n = from; n <= to; n += 1) found.push(n);
    }
    return found;
  }

  /** Angles or other numbers: `-20, 20`. */
  numbers(path: string, text: string): number[] {
    const found: number[] = [];
    for (const part of parts(text)) {
      if (!/^[-+]?\d+(\.\d+)?$/.test(part)) {
        this.add(path, say.number);
        return [];
      }
      found.push(Number(part));
    }
    return found;
  }

  /** Nothing counts from 1, a number from there, a letter on from it, and a list is what it is. */
  rowNames(path: string, text: string, rows: number): string[] {
    const typed = text.trim();
    const names = nameRows(typed, rows);
    if (!names) this.add(path, say.rowNames(rows));
    else if (names.some((name) => labelFault(name))) this.add(path, say.odd);
    else if (new Set(names).size < names.length) this.add(path, say.rowTwice);
    else return names;
    return [];
  }

  /** The number of a row's first seat. */
  first(path: string, text: string): number {
    return this.whole(path, text, 0, NUMBER_MAX - ROWS_MAX);
  }
}

function nameRows(typed: string, rows: number): string[] | null {
  const each = (name: (n: number) => string) => Array.from({ length: rows }, (_, n) => name(n));
  if (!typed) return each((n) => `${n + 1}`);
  if (typed.includes(",")) {
    const names = parts(typed);
    return names.length < rows ? null : names.slice(0, rows);
  }
  if (/^\d{1,6}$/.test(typed)) return each((n) => `${Number(typed) + n}`);
  const start = /^[A-Z]$/.test(typed) ? typed.charCodeAt(0) - 65 : -1;
  if (start >= 0) return each((n) => letters(start + n));
  return rows === 1 ? [typed] : null;
}

const parts = (text: string): string[] =>
  text
    .split(/[,;]/)
    .map((part) => part.trim())
    .filter(Boolean);

/** 90.50 as 9050, without ever being a fraction; null where it is not an amount. */
export function toMinor(typed: string, currency: string): number | null {
  const digits = minorDigits(currency);
  const [, whole, part = ""] = /^(\d{1,13})(?:[.,](\d+))?$/.exec(typed.trim()) ?? [];
  if (whole === undefined || part.length > digits) return null;
  return Number(whole + part.padEnd(digits, "0"));
}

/** 9050 as 90.50, and 9000 as 90. */
export function toMajor(minor: number, currency: string): string {
  const digits = minorDigits(currency);
  const text = String(minor).padStart(digits + 1, "0");
  const cut = text.length - digits;
  const part = text.slice(cut);
  return /^0*$/.test(part) ? text.slice(0, cut) : `${text.slice(0, cut)}.${part}`;
}
