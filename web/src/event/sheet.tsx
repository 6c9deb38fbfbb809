/** The side of the page: beside the map where there is room, from below where there is not. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Deadline } from "../checkout/deadline";
import type { Phase } from "../checkout/phases";
import { Countdown } from "../checkout/timer";
import { t } from "../strings";
import { Button } from "../ui/button";

const NARROW = "(max-width: 859px)";
/** The second half of a double click comes within this. */
const SETTLE_MS = 600;

export interface SheetProps {
  phase: Phase["name"];
  /** There is nothing to choose but in here. */
  eager: boolean;
  /** Something in it must be seen now. */
  urgent: boolean;
  /** What a closed sheet says. */
  summary: string;
  /** Counted in a closed sheet, too. */
  deadline: Deadline | null;
  /** What can be done without opening it. */
  action?: string;
  onAction?: () => void;
  busy: boolean;
  children: ComponentChildren;
}

export function Sheet(props: SheetProps) {
  const { phase, eager, urgent, deadline, action, children } = props;
  const narrow = useNarrow();
  const settling = useSettling(phase, urgent) ? "settling" : "";
  const handle = useRef<HTMLButtonElement>(null);
  const first = useRef(true);
  const wanted = eager || (phase !== "picking" && phase !== "looking");
  const [open, setOpen] = useState(wanted);
  useEffect(() => {
    setOpen(wanted);
    // What had the focus is out of sight now.
    if (!first.current && !wanted && phase === "picking")
      handle.current?.focus({ preventScroll: true });
    first.current = phase === "looking";
  }, [phase, eager]);
  useEffect(() => {
    if (urgent) setOpen(true);
  }, [urgent]);
  if (!narrow) {
    return (
      <aside class={`sheet ${settling}`} aria-label={t.event.panel}>
        <div key="body" class="sheet-body">
          {children}
        </div>
      </aside>
    );
  }
  return (
    <aside
      class={`sheet narrow ${urgent && open ? "urgent" : ""} ${settling}`}
      aria-label={t.event.panel}
    >
      <div class="sheet-bar">
        <button
          type="button"
          class="sheet-handle"
          ref={handle}
          aria-expanded={open}
          onClick={() => setOpen(!open)}
        >
          <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true">
            <path d={open ? "m6 9 6 6 6-6" : "m6 15 6-6 6 6"} />
          </svg>
          <span>
            {!open && deadline && <Countdown deadline={deadline} />}
            {open ? t.event.sheetClose : props.summary}
          </span>
          {!open && <span class="visually-hidden">{t.event.sheetOpen}</span>}
        </button>
        {!open && action !== undefined && (
          <Button kind="primary" busy={props.busy} onClick={() => props.onAction?.()}>
            {action}
          </Button>
        )}
      </div>
      {/* Only out of sight: the clock in it goes on. */}
      <div key="body" class="sheet-body" hidden={!open}>
        {children}
      </div>
    </aside>
  );
}

/** True for a moment after other buttons took the place of those that were there: who clicks twice
 * does not mean what appears under the pointer. */
function useSettling(phase: Phase["name"], urgent: boolean): boolean {
  const last = useRef({ phase, urgent });
  const swaps = useRef(0);
  const [settled, setSettled] = useState(0);
  if (last.current.phase !== phase || last.current.urgent !== urgent) {
    // Before the first there was nothing to click.
    if (last.current.phase !== "looking") swaps.current += 1;
    last.current = { phase, urgent };
  }
  const swapped = swaps.current;
  useEffect(() => {
    const timer = setTimeout(() => setSettled(swapped), SETTLE_MS);
    return () => clearTimeout(timer);
  }, [swapped]);
  return swapped !== settled;
}

function useNarrow(): boolean {
  const [narrow, setNarrow] = useState(() => matchMedia(NARROW).matches);
  useEffect(() => {
    const query = matchMedia(NARROW);
    const changed = () => setNarrow(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  return narrow;
}
