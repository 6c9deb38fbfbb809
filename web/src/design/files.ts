/** Files in and out. */

import { t } from "../strings";
import { type ReadCsv, readCsv } from "./csv";
import { UPLOAD_BYTES_MAX } from "./limits";
import type { Draft } from "./model";
import { NotAnEvent, readText } from "./read_event";

export type Imported =
  | { kind: "event"; name: string; draft: Draft }
  | { kind: "seats"; name: string; read: ReadCsv }
  | { kind: "wrong"; name: string; why: string };

/** What a file holds is seen from its first letter, whatever its name says. */
export async function importFile(file: File, depth: number): Promise<Imported> {
  const { name } = file;
  if (file.size > UPLOAD_BYTES_MAX) return { kind: "wrong", name, why: t.design.files.tooLarge };
  let text: string;
  try {
    text = await file.text();
  } catch {
    return { kind: "wrong", name, why: t.design.files.unreadable };
  }
  const isJson = /^\uFEFF?\s*[[{]/.test(text) || /\.json$/i.test(name);
  if (!isJson) return { kind: "seats", name, read: readCsv(text, depth) };
  try {
    return { kind: "event", name, draft: readText(text.replace(/^\uFEFF/, "")) };
  } catch (trouble) {
    if (trouble instanceof NotAnEvent) return { kind: "wrong", name, why: trouble.message };
    throw trouble;
  }
}

export function download(name: string, type: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** JSON that people can read and compare: one item of a list a line. */
export function toLines(body: Record<string, unknown>): string {
  const fields = Object.entries(body).map(([name, value]) => {
    const listed = Array.isArray(value) && value.length > 0;
    const text = listed
      ? `[\n${value.map((item) => `    ${JSON.stringify(item)}`).join(",\n")}\n  ]`
      : JSON.stringify(value);
    return `  ${JSON.stringify(name)}: ${text}`;
  });
  return `{\n${fields.join(",\n")}\n}\n`;
}
