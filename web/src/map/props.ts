/** What the map and the list have in common: either can take the other's place. */

import type { Connection, Transport } from "../api/live";
import type { Plan } from "./layout";

export interface SeatViewProps {
  plan: Plan;
  /** Goes up whenever states in the plan have changed; see useLiveMap. */
  version?: number;
  currency: string;
  /** Ids of seats: chosen on this page and not held yet. */
  picked?: ReadonlySet<string>;
  /** Held or bought by whoever looks. */
  mine?: ReadonlySet<string>;
  /** Somebody else was faster. */
  lost?: ReadonlySet<string>;
  /** Offered instead. */
  suggested?: ReadonlySet<string>;
  /** A free seat, or one of the picked, was chosen. */
  onToggle?: (id: string, index: number) => void;
  onPool?: (id: string) => void;
  /** Nothing can be chosen; looking around is still possible. */
  readonly?: boolean;
  /** What to do first, where nothing can be chosen until then. */
  first?: string | null;
  /** Somebody tried to choose nevertheless. */
  onLocked?: () => void;
}

export interface SeatMapProps extends SeatViewProps {
  /** For whoever tests the page: they become data-seq, data-connection and data-transport. */
  seq?: number | null;
  connection?: Connection;
  transport?: Transport;
  /** What is in front; null for nothing. A stage unless said otherwise. */
  stage?: string | null;
  /** Seats to bring into sight, once for each new list. */
  reveal?: readonly string[] | null;
}

/** How a seat is shown: its state, and what it is to whoever looks. */
export type Look = "available" | "held" | "sold" | "picked" | "mine" | "lost" | "suggested";

const NONE: ReadonlySet<string> = new Set();

export interface Marks {
  picked: ReadonlySet<string>;
  mine: ReadonlySet<string>;
  lost: ReadonlySet<string>;
  suggested: ReadonlySet<string>;
}

export const marksOf = (props: SeatViewProps): Marks => ({
  picked: props.picked ?? NONE,
  mine: props.mine ?? NONE,
  lost: props.lost ?? NONE,
  suggested: props.suggested ?? NONE,
});

export function lookOf(plan: Plan, index: number, marks: Marks): Look {
  const id = plan.ids[index]!;
  if (marks.mine.has(id)) return "mine";
  if (marks.picked.has(id)) return "picked";
  if (marks.lost.has(id)) return "lost";
  if (marks.suggested.has(id) && plan.isFree(index)) return "suggested";
  return plan.stateOf(index);
}

/** Whether a click on it means anything. */
export const canToggle = (look: Look): boolean =>
  look === "available" || look === "picked" || look === "suggested";
