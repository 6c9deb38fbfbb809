/** Runs of the lab, as the service tells them, and how to ask for them. */

import { type CallOptions, call, newIdempotencyKey } from "../api/http";

export type RunState = "running" | "done" | "failed";
export type Over = "engine" | "http";
export type Policy = "authority" | "two-layer" | "gate";

export interface Asked {
  strategy: string;
  buyers: number;
  seats: number;
  stock: boolean;
  policy: Policy | null;
  gate: boolean | null;
  over: Over;
}

export interface Progress {
  answered: number;
  sold: number;
  rejected: number;
  errors: number;
  elapsed_ms: number;
}

/** So many buyers waited for up to `le_ms`, and longer than the bucket before says. */
export interface Bucket {
  le_ms: number;
  count: number;
}

export interface Result {
  buyers: number;
  seats: number;
  stock: boolean;
  sold: number;
  rejected: number;
  errors: number;
  oversold: number;
  elapsed_ms: number;
  rate: number;
  p50_ms: number;
  p99_ms: number;
  histogram: Bucket[];
  reached_authority: number;
  batches: number | null;
  redis_calls: number;
  store: string;
  gate: string;
  policy: string | null;
  strategy: string;
  over: Over;
}

export interface Run {
  id: string;
  state: RunState;
  strategy: string;
  buyers: number;
  seats: number;
  stock: boolean;
  policy: string | null;
  gate: boolean;
  over: Over;
  progress: Progress;
  result: Result | null;
  error: string | null;
  created_at: string;
}

export interface Offer {
  id: string;
  name: string;
  about: string;
  available: boolean;
  why_not: string | null;
}

export interface Runs {
  runs: Run[];
  strategies: Offer[];
  over: Offer[];
}

/** Which key the lab is asked with: the pages' own where it is open, else an admin's. */
export type As = NonNullable<CallOptions["as"]>;

export const listRuns = (as: As): Promise<Runs> => call("GET", "/v1/lab/runs", { as });

export const getRun = (as: As, run: string): Promise<Run> =>
  call("GET", `/v1/lab/runs/${encodeURIComponent(run)}`, { as });

export const startRun = (as: As, asked: Asked): Promise<Run> =>
  call("POST", "/v1/lab/runs", { as, body: asked, idempotencyKey: newIdempotencyKey() });
