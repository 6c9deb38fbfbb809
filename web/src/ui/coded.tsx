/** Words in which `backticks` stand around what is typed into a terminal or a file. */

import type { ComponentChildren } from "preact";

/** Every second part is code; a backtick without another one stays what it is. */
export function codeIn(text: string): string[] {
  const parts = text.split("`");
  if (parts.length % 2 === 1) return parts;
  const last = parts.pop()!;
  return [...parts.slice(0, -1), `${parts.at(-1)}\`${last}`];
}

export const coded = (text: string): ComponentChildren =>
  codeIn(text).map((part, nth) => (nth % 2 ? <code key={part}>{part}</code> : part));
