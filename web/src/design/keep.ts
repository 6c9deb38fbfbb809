/** The draft in the browser, so that a reload loses nothing. */

import type { Draft } from "./model";
import { readDesign, writeDesign } from "./read_event";

const DRAFT = "holdfast.design";

/** Null where nothing was kept, or what was kept is of other pages. */
export function keptDraft(): Draft | null {
  try {
    const text = localStorage.getItem(DRAFT);
    return text === null ? null : readDesign(JSON.parse(text));
  } catch {
    return null;
  }
}

/** False where the browser does not keep it: too large, or private. */
export function keepDraft(draft: Draft): boolean {
  try {
    localStorage.setItem(DRAFT, JSON.stringify(writeDesign(draft)));
    return true;
  } catch {
    return false;
  }
}
