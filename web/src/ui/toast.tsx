/** Short words about what just happened, seen and heard. Good news leaves by itself, bad
 * news stays until it is closed; nothing that must be acted on is said only here. */

import { useEffect, useState } from "preact/hooks";
import { t } from "../strings";

const STAY_MS = 6_000;

interface Said {
  id: number;
  text: string;
  kind: "good" | "bad" | "plain";
}

let last = 0;
let told: ((said: Said) => void) | null = null;

export function toast(text: string, kind: Said["kind"] = "plain"): void {
  last += 1;
  told?.({ id: last, text, kind });
}

export function Toasts() {
  const [shown, setShown] = useState<Said[]>([]);
  const drop = (id: number) => setShown((before) => before.filter((said) => said.id !== id));
  useEffect(() => {
    told = (said) => {
      // Said once more, not twice.
      const others = (before: Said[]) => before.filter(({ text }) => text !== said.text);
      setShown((before) => [...others(before).slice(-2), said]);
      if (said.kind !== "bad") setTimeout(() => drop(said.id), STAY_MS);
    };
    return () => {
      told = null;
    };
  }, []);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {shown.map((said) => (
        <div key={said.id} class={`toast ${said.kind}`}>
          <span>{said.text}</span>
          <button type="button" aria-label={t.common.close} onClick={() => drop(said.id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
