/** Something that is asked for again and again, as long as somebody looks at it. */

import { useEffect, useRef, useState } from "preact/hooks";

export interface Polled<T> {
  value: T | null;
  /** Why the last try failed; null when it did not. */
  trouble: unknown;
  again: () => void;
}

export function usePolled<T>(
  ask: (signal: AbortSignal) => Promise<T>,
  everyMs: number,
  first: T | null = null,
): Polled<T> {
  const [value, setValue] = useState<T | null>(first);
  const [trouble, setTrouble] = useState<unknown>(null);
  const latest = useRef(ask);
  latest.current = ask;
  const now = useRef<() => void>(() => undefined);
  useEffect(() => {
    const ended = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let asking = false;
    const look = async () => {
      clearTimeout(timer);
      if (asking || document.visibilityState !== "visible") return;
      asking = true;
      try {
        const found = await latest.current(ended.signal);
        if (ended.signal.aborted) return;
        setValue(found);
        setTrouble(null);
      } catch (problem) {
        if (ended.signal.aborted) return;
        setTrouble(problem);
      } finally {
        asking = false;
      }
      timer = setTimeout(look, everyMs);
    };
    const seen = () => void look();
    now.current = seen;
    if (first === null) void look();
    else timer = setTimeout(look, everyMs);
    document.addEventListener("visibilitychange", seen);
    addEventListener("online", seen);
    return () => {
      ended.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
      removeEventListener("online", seen);
    };
  }, []);
  return { value, trouble, again: () => now.current() };
}
