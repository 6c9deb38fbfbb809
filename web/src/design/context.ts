/** What every part of the form shares. */

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Action } from "./desk";
import type { House } from "./house";
import type { Draft } from "./model";

export interface Design {
  draft: Draft;
  house: House;
  act: (action: Action) => void;
  /** What is wrong at a field, if it is time to say so. */
  faultAt: (path: string) => string | null;
  /** Whether something is wrong in there: `grids[0]`. */
  faultsIn: (path: string) => number;
  /** Said to whoever listens instead of looking. */
  announce: (text: string) => void;
  /** Blocks whose fields are shown, by their keys. */
  open: ReadonlySet<string>;
  setOpen: (key: string, open: boolean) => void;
}

export const DesignContext = createContext<Design | null>(null);

export const useDesign = (): Design => useContext(DesignContext)!;
