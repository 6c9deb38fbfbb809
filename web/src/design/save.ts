/** Saving: POST /v1/events, and every answer there is. */

import { call, newIdempotencyKey, Problem } from "../api/http";
import { adminKey, keepAdminKey } from "../api/storage";
import type { EventView } from "../api/types";
import { t } from "../strings";
import { describe } from "./describe";
import type { Draft } from "./model";
import type { Fault } from "./reading";

/** A stadium is megabytes. */
const TIMEOUT_MS = 120_000;

export type Saved =
  | { kind: "saved"; event: EventView }
  | { kind: "key"; why: string | null }
  | { kind: "exists"; id: string }
  | { kind: "faults"; faults: Fault[] }
  | { kind: "trouble"; why: string };

/** Of each draft, so that sending one twice makes one event. */
const keys = new WeakMap<Draft, string>();

/** `typed`: the key was, just now; else it is one from before. */
export async function save(draft: Draft, typed: boolean): Promise<Saved> {
  if (!adminKey()) return { kind: "key", why: null };
  const { body, fieldOf } = describe(draft);
  const key = keys.get(draft) ?? newIdempotencyKey();
  keys.set(draft, key);
  try {
    const event = await call<EventView>("POST", "/v1/events", {
      body,
      as: "admin",
      idempotencyKey: key,
      timeoutMs: TIMEOUT_MS,
    });
    return { kind: "saved", event };
  } catch (trouble) {
    if (!(trouble instanceof Problem)) throw trouble;
    return refused(trouble, draft, fieldOf, typed ? t.adminKey.wrong : t.adminKey.noLonger);
  }
}

function refused(
  problem: Problem,
  draft: Draft,
  fieldOf: (path: string) => string,
  noKey: string,
): Saved {
  const say = t.design.saved;
  if (problem.status === 401 || problem.status === 403) {
    keepAdminKey(null);
    return { kind: "key", why: noKey };
  }
  if (problem.reason === "exists") return { kind: "exists", id: draft.id };
  if (problem.reason === "in_progress") return { kind: "trouble", why: say.running };
  if (problem.status === 413) return { kind: "trouble", why: say.tooLarge };
  const faults = faultsOf(problem, fieldOf);
  return faults.length ? { kind: "faults", faults } : { kind: "trouble", why: problem.detail };
}

/** `faults` of a 422, each at the field that it speaks of. */
export function faultsOf(problem: Problem, fieldOf: (path: string) => string): Fault[] {
  const given = problem.status === 422 ? problem.body.faults : null;
  if (!Array.isArray(given)) return [];
  return given.map((fault: { path?: unknown; problem?: unknown }) => ({
    path: fieldOf(String(fault.path ?? "")),
    text: String(fault.problem ?? ""),
  }));
}
