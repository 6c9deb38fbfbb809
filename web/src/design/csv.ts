/** Seats as CSV, as RFC 4180 has it: quoted where needed, a quotation mark doubled. A semicolon or a
 * tab between the values is understood too, for that is what spreadsheets write in half the world. */

import { t } from "../strings";
import { LABEL_CHARS_MAX, labelFault, NUMBER_MAX, PLACE_MAX, RANK_MAX, SEATS_MAX } from "./limits";
import { newSeat, type Seat } from "./model";

export const HEADER = [
  ...(["id", "section", "row", "number", "tier", "x", "y"] as const),
  ...(["accessible", "companion", "restricted_view"] as const),
] as const;
/** Written where a seat has them, and read wherever they are. */
const EXTRA = ["channel", "rank"] as const;
const KNOWN = [...HEADER, ...EXTRA];
type Column = (typeof KNOWN)[number];
const NEEDED: Column[] = ["id", "number", "tier"];

export const FAULTS_SHOWN_MAX = 20;

export interface LineFault {
  line: number;
  text: string;
}

export interface ReadCsv {
  seats: Seat[];
  faults: LineFault[];
  /** There may be more than are listed. */
  faulty: number;
}

const say = t.design.csv;

export function writeCsv(seats: readonly Seat[]): string {
  const extra = EXTRA.filter((name) =>
    seats.some((seat) => (name === "rank" ? seat.rank !== null : seat.channel)),
  );
  const columns: Column[] = [...HEADER, ...extra];
  const lines = [columns.join(",")];
  for (const seat of seats) lines.push(columns.map((name) => quoted(cellOf(seat, name))).join(","));
  return `${lines.join("\r\n")}\r\n`;
}

function cellOf(seat: Seat, name: Column): string {
  if (name === "restricted_view") return String(seat.restricted);
  return String(seat[name] ?? "");
}

const quoted = (cell: string): string =>
  /[",;\t\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;

interface Line {
  line: number;
  cells: string[];
}

/** Where a seat does not say its place, it stands at its number, in its row behind `depth`. */
export function readCsv(text: string, depth: number): ReadCsv {
  const faults: LineFault[] = [];
  let faulty = 0;
  const note = (line: number, fault: string) => {
    faulty += 1;
    if (faults.length < FAULTS_SHOWN_MAX) faults.push({ line, text: fault });
  };
  const done = (seats: Seat[] = []): ReadCsv => ({ seats: faulty ? [] : seats, faults, faulty });
  const lines = split(text.replace(/^\uFEFF/, ""), note);
  const head = lines[0];
  if (!head) {
    if (!faulty) note(1, say.empty);
    return done();
  }
  const columns = head.cells.map((cell) => cell.trim().toLowerCase() as Column);
  const all = KNOWN.join(", ");
  columns.forEach((name, at) => {
    if (!KNOWN.includes(name)) note(head.line, say.unknownColumn(name, all));
    else if (columns.indexOf(name) < at) note(head.line, say.columnTwice(name));
  });
  for (const name of NEEDED) {
    if (!columns.includes(name)) note(head.line, say.noColumn(name, all));
  }
  if (faulty) return done();
  if (lines.length === 1) note(head.line, say.empty);
  if (lines.length > SEATS_MAX + 1) note(lines[SEATS_MAX]!.line, say.tooMany(SEATS_MAX));
  const seats: Seat[] = [];
  const seen = new Map<string, number>();
  for (const { line, cells } of lines.slice(1)) {
    if (cells.length !== columns.length) {
      note(line, say.cells(cells.length, columns.length));
      continue;
    }
    const seat = readSeat(cells, columns, depth, (fault) => note(line, fault));
    if (!seat) continue;
    const before = seen.get(seat.id);
    if (before !== undefined) note(line, say.twice(seat.id, before));
    seen.set(seat.id, line);
    seats.push(seat);
  }
  return done(seats);
}

function readSeat(
  cells: string[],
  columns: Column[],
  depth: number,
  note: (fault: string) => void,
): Seat | null {
  let wrong = false;
  const fault = (text: string) => {
    wrong = true;
    note(text);
  };
  const cell = (name: Column) => cells[columns.indexOf(name)]?.trim() ?? "";
  const label = (name: Column, missing: string) => {
    const text = cell(name) || missing;
    if (labelFault(text)) fault(say.label(name, LABEL_CHARS_MAX));
    return text;
  };
  const whole = (name: Column, most: number) => {
    const text = cell(name);
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (!(value <= most)) fault(say.whole(name, 0, most));
    return value;
  };
  const number = (name: Column, missing: number) => {
    const text = cell(name).replace(",", ".");
    if (!text) return missing;
    const value = /^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$/.test(text) ? Number(text) : Number.NaN;
    if (!(Math.abs(value) < PLACE_MAX)) fault(say.number(name));
    return value;
  };
  const flag = (name: Column) => {
    const text = cell(name).toLowerCase();
    if (["true", "1", "yes", "x"].includes(text)) return true;
    if (!["", "false", "0", "no"].includes(text)) fault(say.flag(name));
    return false;
  };
  const row = label("row", "1");
  const place = whole("number", NUMBER_MAX);
  const seat = newSeat({
    id: label("id", ""),
    section: label("section", "main"),
    row,
    number: place,
    tier: label("tier", ""),
    x: number("x", place),
    y: number("y", depth + (/^\d+$/.test(row) ? Number(row) : 0)),
    accessible: flag("accessible"),
    companion: flag("companion"),
    restricted: flag("restricted_view"),
    channel: cell("channel") ? label("channel", "") : "",
    rank: cell("rank") ? whole("rank", RANK_MAX) : null,
  });
  return wrong ? null : seat;
}

/** The lines with their cells; empty lines are passed over. A quoted value may go on over lines. */
function split(text: string, note: (line: number, fault: string) => void): Line[] {
  const between = separatorOf(text);
  const lines: Line[] = [];
  let cells: string[] = [];
  let line = 1;
  let began = 1;
  let at = 0;
  const end = () => {
    if (cells.length > 1 || cells[0]?.trim()) lines.push({ line: began, cells });
    cells = [];
  };
  while (at < text.length) {
    if (cells.length === 0) began = line;
    if (text[at] === '"') {
      let close = at + 1;
      while (close < text.length && (text[close] !== '"' || text[close + 1] === '"')) {
        if (text[close] === "\n") line += 1;
        close += text[close] === '"' ? 2 : 1;
      }
      if (close >= text.length) {
        note(began, say.quote);
        return [];
      }
      cells.push(text.slice(at + 1, close).replaceAll('""', '"'));
      at = close + 1;
      if (at < text.length && ![between, "\r", "\n"].includes(text[at]!)) {
        note(line, say.afterQuote);
        return [];
      }
    } else {
      let stop = at;
      while (stop < text.length && ![between, "\r", "\n"].includes(text[stop]!)) stop += 1;
      cells.push(text.slice(at, stop));
      at = stop;
    }
    if (text[at] === between) {
      at += 1;
      // A value that is not there, at the end of the line or of the file.
      if (at >= text.length || text[at] === "\r" || text[at] === "\n") cells.push("");
      else continue;
    }
    if (text[at] === "\r" && text[at + 1] === "\n") at += 1;
    if (at < text.length) line += 1;
    at += 1;
    end();
  }
  return lines;
}

function separatorOf(text: string): string {
  const head = /^[^\r\n]*/.exec(text.trimStart())![0];
  return [",", ";", "\t"].find((each) => head.includes(each)) ?? ",";
}
