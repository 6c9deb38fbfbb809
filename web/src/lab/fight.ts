/** Two buyers and one seat: what each of them knows, and who won. */

export type Pane =
  | { kind: "ready" }
  | { kind: "asking" }
  | { kind: "won"; hold: string; token: string; until: string; took_ms: number }
  | { kind: "lost"; reason: string; detail: string; took_ms: number }
  | { kind: "failed"; detail: string };

export type Panes = readonly [Pane, Pane];

export const READY: Pane = { kind: "ready" };

/** `first`: one has it, and the other has not clicked yet. */
export type Ending =
  | { kind: "one"; winner: 0 | 1 }
  | { kind: "first"; winner: 0 | 1 }
  | { kind: "neither" | "both" | "unanswered" };

/** Null while there is nothing to say. */
export function endingOf(panes: Panes): Ending | null {
  const [one, two] = panes;
  if (one.kind === "asking" || two.kind === "asking") return null;
  if (one.kind === "won" && two.kind === "won") return { kind: "both" };
  if (one.kind === "failed" || two.kind === "failed") return { kind: "unanswered" };
  if (one.kind === "lost" && two.kind === "lost") return { kind: "neither" };
  if (one.kind === "won") return { kind: two.kind === "lost" ? "one" : "first", winner: 0 };
  if (two.kind === "won") return { kind: one.kind === "lost" ? "one" : "first", winner: 1 };
  return null;
}

/** How many rounds the first won, the second, and both, which must not be. */
export type Score = readonly [number, number, number];

/** What decided nothing is no round. */
export function counted([one, two, both]: Score, ending: Ending | null): Score {
  if (ending?.kind === "both") return [one, two, both + 1];
  if (ending?.kind !== "one") return [one, two, both];
  return ending.winner === 0 ? [one + 1, two, both] : [one, two + 1, both];
}

/** Any that is free but the last one; null if there is none. */
export function anySeat<T>(free: T[], last: T | null, chance: number): T | null {
  const others = free.filter((seat) => seat !== last);
  const from = others.length ? others : free;
  return from[Math.min(Math.floor(chance * from.length), from.length - 1)] ?? null;
}
