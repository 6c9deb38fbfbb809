/** Asks again and again, one ask at a time: never while the tab is hidden, less often while the
 * service does not answer, and at once when somebody comes back to look. */

import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../api/http";

const PATIENCE_MS = 10_000;

export interface Standing {
  /** When all of it was last read, in milliseconds since 1970. */
  goodAt: number | null;
  /** What kept the last ask from being answered; null while all is well. */
  trouble: Problem | null;
}

export class Poller {
  private timer: ReturnType<typeof setTimeout> | null = null;
  private asking: AbortController | null = null;
  private failures = 0;
  private again = false;
  private going = false;

  constructor(
    private readonly ask: (signal: AbortSignal) => Promise<void>,
    private readonly everyMs: number,
    private readonly told: (standing: Partial<Standing>) => void,
  ) {}

  start(): void {
    if (this.going) return;
    this.going = true;
    this.soon(0);
  }

  stop(): void {
    this.going = false;
    this.asking?.abort();
    if (this.timer) clearTimeout(this.timer);
    this.timer = null;
  }

  /** At once; if an ask is under way, after it: what it brings may be from before. */
  now(): void {
    if (this.asking) this.again = true;
    else if (this.going) this.soon(0);
  }

  private soon(waitMs: number): void {
    if (this.timer) clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.round(), waitMs);
  }

  private async round(): Promise<void> {
    this.timer = null;
    if (this.asking || !this.going) return;
    const own = new AbortController();
    this.asking = own;
    const began = Date.now();
    try {
      await this.ask(own.signal);
      this.failures = 0;
      if (!own.signal.aborted) this.told({ goodAt: Date.now(), trouble: null });
    } catch (trouble) {
      if (!own.signal.aborted) {
        if (!(trouble instanceof Problem)) {
          // A fault of the page's own: seen by whoever looks, and no reason to end the watch.
          console.error(trouble);
        }
        this.failures += 1;
        const problem =
          trouble instanceof Problem ? trouble : new Problem(0, "broken", String(trouble));
        this.told({ trouble: problem });
      }
    }
    this.asking = null;
    if (!this.going) return;
    const pause = Math.min(this.everyMs * 2 ** this.failures, PATIENCE_MS);
    const due = this.failures ? Math.max(pause, this.everyMs) : this.everyMs;
    this.soon(this.again ? 0 : Math.max(0, due - (Date.now() - began)));
    this.again = false;
  }
}

/** Asks while the page is looked at and `paused` is false. */
export function usePoller(
  ask: (signal: AbortSignal) => Promise<void>,
  everyMs: number,
  paused: boolean,
): Standing & { now: () => void } {
  const [standing, setStanding] = useState<Standing>({ goodAt: null, trouble: null });
  const latest = useRef(ask);
  latest.current = ask;
  const poller = useRef<Poller | null>(null);
  useEffect(() => {
    if (paused) return;
    const own = new Poller(
      (signal) => latest.current(signal),
      everyMs,
      (news) => setStanding((before) => ({ ...before, ...news })),
    );
    poller.current = own;
    const looked = () => (document.hidden ? own.stop() : own.start());
    looked();
    document.addEventListener("visibilitychange", looked);
    return () => {
      document.removeEventListener("visibilitychange", looked);
      own.stop();
      poller.current = null;
    };
  }, [everyMs, paused]);
  return { ...standing, now: () => poller.current?.now() };
}
