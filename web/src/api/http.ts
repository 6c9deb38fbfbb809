/** One way to call the service: JSON in and out, problems as exceptions, time-outs, no cookies. */

import { t } from "../strings";
import { adminKey, buyerToken, keepBuyer } from "./storage";
import type { Deployment } from "./types";

const TIMEOUT_MS = 15_000;

/** What the service said no with (RFC 9457), or what kept us from asking: then status is 0. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly reason: string,
    readonly detail: string,
    /** All of it: `seats` of a refusal, `available`, `cap`, `errors`. */
    readonly body: Record<string, unknown> = {},
    readonly retryAfter: number | null = null,
  ) {
    super(detail);
  }

  /** Whether asking again may help, with the same words. */
  get passing(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

export interface CallOptions {
  body?: unknown;
  /** Which key to call with; the pages' own public key unless said otherwise. */
  as?: "public" | "admin";
  holdToken?: string;
  /** Calls in the name of this buyer instead of the one this browser keeps. */
  buyerToken?: string;
  idempotencyKey?: string;
  signal?: AbortSignal;
  timeoutMs?: number;
}

let deployment: Deployment | null = null;

export function setDeployment(found: Deployment): void {
  deployment = found;
}

export function pagesKey(): string {
  if (!deployment?.key) throw new Problem(0, "no_key", t.errors.noKey);
  return deployment.key;
}

export async function call<T>(method: string, path: string, how: CallOptions = {}): Promise<T> {
  return answer<T>(await send(method, path, how));
}

/** The answer as it came, for whoever wants to read it himself. */
export async function callForText(
  method: string,
  path: string,
  how: CallOptions = {},
): Promise<string> {
  const response = await send(method, path, how);
  if (!response.ok) await answer(response);
  try {
    return await response.text();
  } catch (trouble) {
    if (how.signal?.aborted) throw trouble;
    throw new Problem(0, "unreachable", t.errors.unreachable);
  }
}

/** A buyer's token of another deployment would be refused with every call, reading too: it is
 * forgotten, and the call is made once more without it. */
async function send(method: string, path: string, how: CallOptions): Promise<Response> {
  const kept = how.as === "admin" || how.buyerToken ? null : buyerToken();
  const response = await sendOnce(method, path, how);
  if (!kept || response.status !== 401) return response;
  const problem = await response
    .clone()
    .json()
    .catch(() => null);
  if (problem?.reason !== "buyer_token") return response;
  // Another tab may have got a new one meanwhile.
  if (buyerToken() === kept) keepBuyer(null);
  return sendOnce(method, path, how);
}

async function sendOnce(
  method: string,
  path: string,
  { body, as = "public", signal, timeoutMs = TIMEOUT_MS, ...tokens }: CallOptions,
): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json" };
  const key = as === "admin" ? adminKey() : pagesKey();
  // With other letters it is no key, and could not be sent.
  if (!key || /[^\x21-\x7e]/.test(key)) {
    throw new Problem(401, "unauthorized", t.errors.noAdminKey);
  }
  headers.Authorization = `Bearer ${key}`;
  if (as === "public") {
    const token = tokens.buyerToken ?? buyerToken();
    if (token) headers["Buyer-Token"] = token;
  }
  if (tokens.holdToken) headers["Hold-Token"] = tokens.holdToken;
  if (tokens.idempotencyKey) headers["Idempotency-Key"] = tokens.idempotencyKey;
  const request: RequestInit = { method, headers, credentials: "omit", cache: "no-cache" };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    request.body = JSON.stringify(body);
  }
  const late = AbortSignal.timeout(timeoutMs);
  request.signal = signal ? AbortSignal.any([signal, late]) : late;
  try {
    return await fetch(path, request);
  } catch (trouble) {
    if (signal?.aborted) throw trouble;
    const detail = late.aborted ? t.errors.tooSlow : t.errors.unreachable;
    throw new Problem(0, late.aborted ? "too_slow" : "unreachable", detail);
  }
}

async function answer<T>(response: Response): Promise<T> {
  if (response.status === 204) return undefined as T;
  let read: unknown;
  try {
    read = await response.json();
  } catch {
    // A yes whose words were lost on their way: whoever asks again, asks for the same.
    throw new Problem(response.ok ? 0 : response.status, "unreadable", t.errors.unreadable);
  }
  if (response.ok) return read as T;
  const problem = (read ?? {}) as Record<string, unknown>;
  const wait = Number(response.headers.get("Retry-After"));
  throw new Problem(
    response.status,
    String(problem.reason ?? "unknown"),
    String(problem.detail ?? problem.title ?? t.errors.unreadable),
    problem,
    wait > 0 ? wait : null,
  );
}

/** A name for one intention, so that asking for it twice does it once. */
export function newIdempotencyKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
