/** Ids of events, made of what is there. */

const CHARS_MAX = 64;

/** `Été à l'Opéra` as ete-a-lopera; empty where nothing of it can be part of an id. */
export const slug = (name: string): string =>
  name
    .normalize("NFKD")
    .replace(/[\p{M}'’]/gu, "")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-/, "")
    .slice(0, CHARS_MAX)
    .replace(/-$/, "");

/** gala, gala-2, gala-3. */
export function nextId(id: string): string {
  const [, stem = id, nth = "1"] = /^(.+)-(\d{1,2})$/.exec(id) ?? [];
  const end = `-${Number(nth) + 1}`;
  return stem.slice(0, CHARS_MAX - end.length) + end;
}
