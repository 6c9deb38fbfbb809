/** What GET /metrics says, as numbers. Pure: text in, numbers out. */

export interface Histogram {
  /** Upper ends of the buckets, the last is infinite. */
  bounds: number[];
  /** In each bucket those of all smaller ones too, as Prometheus counts. */
  counts: number[];
  sum: number;
}

/** The deployment at one moment. Counters have grown since its workers started. */
export interface Sample {
  /** Seconds since 1970, by this browser's clock. */
  at: number;
  placed: number;
  confirmed: number;
  refused: Record<string, number>;
  holdSeconds: Histogram;
  batchCommands: Histogram;
  waiting: number;
  longestLane: number;
  lags: Record<string, number>;
  workers: number;
  inHand: number;
}

interface Row {
  name: string;
  labels: Record<string, string>;
  value: number;
}

const HOLDS = "POST /v1/events/{event}/holds";
const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?$/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;
const ESCAPED: Record<string, string> = { "\\n": "\n", '\\"': '"', "\\\\": "\\" };

function numberOf(text: string): number {
  if (text === "+Inf") return Number.POSITIVE_INFINITY;
  if (text === "-Inf") return Number.NEGATIVE_INFINITY;
  return Number(text);
}

/** Every line that is a number. Lines that cannot be read are passed over. */
export function parse(text: string): Row[] {
  const rows: Row[] = [];
  for (const line of text.split("\n")) {
    const found = line.startsWith("#") ? null : LINE.exec(line.trim());
    if (!found) continue;
    const labels: Record<string, string> = {};
    for (const [, name, value] of (found[2] ?? "").matchAll(LABEL)) {
      labels[name!] = value!.replace(/\\[n"\\]/g, (escaped) => ESCAPED[escaped]!);
    }
    rows.push({ name: found[1]!, labels, value: numberOf(found[3]!) });
  }
  return rows;
}

export function sampleOf(text: string, at: number): Sample {
  const sample: Sample = {
    at,
    placed: 0,
    confirmed: 0,
    refused: {},
    holdSeconds: empty(),
    batchCommands: empty(),
    waiting: 0,
    longestLane: 0,
    lags: {},
    workers: 0,
    inHand: 0,
  };
  for (const { name, labels, value } of parse(text)) {
    if (name.startsWith("holdfast_request_seconds")) {
      if (labels.route === HOLDS) observe(sample.holdSeconds, name, labels, value);
    } else if (name.startsWith("holdfast_batch_commands")) {
      observe(sample.batchCommands, name, labels, value);
    } else if (name === "holdfast_outcomes_total") {
      if (labels.outcome === "placed") sample.placed = value;
      else if (labels.outcome === "confirmed") sample.confirmed = value;
      else if (labels.outcome === "refused") sample.refused[labels.reason ?? ""] = value;
    } else if (name === "holdfast_log_lag_facts") sample.lags[labels.follower ?? ""] = value;
    else if (name === "holdfast_lane_commands") sample.waiting = value;
    else if (name === "holdfast_lane_commands_max") sample.longestLane = value;
    else if (name === "holdfast_workers") sample.workers = value;
    else if (name === "holdfast_in_hand") sample.inHand = value;
  }
  return sample;
}

const empty = (): Histogram => ({ bounds: [], counts: [], sum: 0 });

function observe(into: Histogram, name: string, labels: Record<string, string>, value: number) {
  if (name.endsWith("_sum")) into.sum = value;
  else if (name.endsWith("_bucket") && labels.le) {
    into.bounds.push(numberOf(labels.le));
    into.counts.push(value);
  }
}

/** How much a counter grew. One that fell began anew at 0: its process was started again. */
export const grown = (before: number, now: number): number => (now < before ? now : now - before);

/** What was observed between two looks; all of the second if the first is of another life. */
export function between(before: Histogram, now: Histogram): Histogram {
  const had = before.counts.at(-1) ?? 0;
  const has = now.counts.at(-1) ?? 0;
  if (has < had || before.counts.length !== now.counts.length) return now;
  return {
    bounds: now.bounds,
    counts: now.counts.map((count, index) => count - before.counts[index]!),
    sum: now.sum - before.sum,
  };
}

export function mean({ counts, sum }: Histogram): number | null {
  const all = counts.at(-1) ?? 0;
  return all > 0 ? sum / all : null;
}

/** The value below which that part of all lies, evenly spread within its bucket; the last finite
 * bound where it is beyond all of them. Null: nothing was observed. */
export function quantile(part: number, { bounds, counts }: Histogram): number | null {
  const all = counts.at(-1) ?? 0;
  if (all <= 0) return null;
  const rank = part * all;
  const index = counts.findIndex((count) => count >= rank && count > 0);
  const above = bounds[index]!;
  if (!Number.isFinite(above)) return bounds[index - 1] ?? null;
  const below = index > 0 ? bounds[index - 1]! : 0;
  const under = index > 0 ? counts[index - 1]! : 0;
  const inside = counts[index]! - under;
  return inside > 0 ? below + ((above - below) * (rank - under)) / inside : above;
}
