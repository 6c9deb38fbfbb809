/** How long the hold still lasts. Counted here, decided by the service: at zero it is asked. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { countdown } from "../format";
import { t } from "../strings";
import { type Deadline, secondsLeft, warningAt } from "./deadline";

const ASK_AGAIN_MS = 1_000;
const nothing = async () => undefined;

export interface TimerProps {
  deadline: Deadline;
  /** How long it was at first, for the bar. */
  ofSeconds: number;
  extendable: boolean;
  onZero: () => Promise<void>;
}

/** What is said only as long as there is time. */
export function InTime(props: { deadline: Deadline; children: ComponentChildren }) {
  return useSecondsLeft(props.deadline) > 0 && props.children;
}

/** The time alone, for where there is no room for more. */
export function Countdown({ deadline }: { deadline: Deadline }) {
  const left = useSecondsLeft(deadline);
  return (
    <strong class={`numbers ${warningAt(left) === null ? "" : "soon"}`}>{countdown(left)}</strong>
  );
}

export function Timer({ deadline, ofSeconds, extendable, onZero }: TimerProps) {
  const left = useSecondsLeft(deadline, onZero);
  const whole = useRef(Math.max(ofSeconds, left));
  whole.current = Math.max(whole.current, left);

  const warning = warningAt(left);
  const share = Math.min(100, (left / whole.current) * 100);
  return (
    <div class={`timer ${warning === null ? "" : "soon"}`}>
      <div class="timer-words">
        <span role="timer" class="numbers">
          {countdown(left)}
        </span>
        <span>
          {left === 0 ? t.checkout.checking : deadline.hard ? t.checkout.leftHard : t.checkout.left}
        </span>
      </div>
      <div class="timer-bar" aria-hidden="true">
        <span style={{ width: `${share}%` }} />
      </div>
      {/* Said at the thresholds only: a voice that counts drowns everything else. */}
      <p class="visually-hidden" role="status" aria-live="polite">
        {warning !== null &&
          (extendable ? t.checkout.warnExtend(warning) : t.checkout.warn(warning))}
      </p>
    </div>
  );
}

/** Ticks with the whole seconds. At zero it calls, and a while after each answer again, until the
 * deadline is another. The service counts whole seconds, so in the last one it says 0 and means
 * "nearly": that is a new deadline each time, and no reason to ask without a pause. */
export function useSecondsLeft(deadline: Deadline, onZero: () => Promise<void> = nothing): number {
  const [left, setLeft] = useState(() => secondsLeft(deadline, performance.now()));
  const zero = useRef(onZero);
  zero.current = onZero;
  const asking = useRef(false);
  const askedAt = useRef(-Infinity);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    const ask = async () => {
      asking.current = true;
      try {
        await zero.current();
      } finally {
        asking.current = false;
        askedAt.current = performance.now();
      }
    };
    const tick = () => {
      const now = performance.now();
      const seconds = secondsLeft(deadline, now);
      setLeft(seconds);
      if (seconds === 0) {
        if (!asking.current && now - askedAt.current >= ASK_AGAIN_MS) void ask();
        timer = setTimeout(tick, ASK_AGAIN_MS / 4);
        return;
      }
      // Just after the next whole second, whatever the browser makes of timers.
      timer = setTimeout(tick, ((deadline.at - now) % 1000) + 10);
    };
    tick();
    return () => clearTimeout(timer);
  }, [deadline.at]);
  return left;
}
