/** How long a hold lasts, by a clock that nobody sets: the service says how many seconds are left,
 * and from there the browser only counts. Whether it is over is the service's to say. */

import type { Hold } from "../api/types";

export interface Deadline {
  /** By performance.now(), in milliseconds. */
  at: number;
  /** Whether it is the hard one: payment has begun. */
  hard: boolean;
}

/** `now` is performance.now() and `wall` Date.now(), both of the moment the hold was read. */
export function deadlineOf(hold: Hold, graceSeconds: number, now: number, wall: number): Deadline {
  if (hold.state !== "paying") return { at: now + hold.seconds_left * 1000, hard: false };
  // Past the soft deadline the seconds say nothing more, and the wall clock is the next best.
  const soft =
    hold.seconds_left > 0
      ? hold.seconds_left * 1000
      : Math.min(0, Math.max(Date.parse(hold.expires_at) - wall, -graceSeconds * 1000));
  return { at: now + soft + graceSeconds * 1000, hard: true };
}

/** Whole seconds left, never below 0. */
export const secondsLeft = (deadline: Deadline, now: number): number =>
  Math.max(0, Math.ceil((deadline.at - now) / 1000));

/** Below these many seconds something is said aloud, once each. */
export const WARN_SECONDS = [60, 20] as const;

/** Which warning is due: the smallest threshold reached, or null. */
export function warningAt(left: number): number | null {
  let due: number | null = null;
  for (const threshold of WARN_SECONDS) if (left > 0 && left <= threshold) due = threshold;
  return due;
}
