/** The state of the page: the desk, what is wrong on it, and that it is kept. */

import { useEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import type { Design } from "./context";
import { type Action, act as acted, type Desk, newDesk } from "./desk";
import { houseOf } from "./house";
import { keepDraft, keptDraft } from "./keep";
import { type Draft, firstDraft } from "./model";
import type { Fault } from "./reading";

const KEEP_MS = 400;

export interface UseDesign {
  design: Design;
  desk: Desk;
  /** Nothing was kept: whoever is here begins. */
  fresh: boolean;
  /** Of the draft and, until it changes, of the service. */
  faults: Fault[];
  /** How many of them it is time to speak of. */
  told: number;
  kept: boolean;
  said: string;
  /** From now on also what is missing is shown. */
  showAll: () => void;
  setServiceFaults: (faults: Fault[]) => void;
}

function begin(): { desk: Desk; fresh: boolean } {
  const kept = keptDraft();
  return { desk: newDesk(kept ?? firstDraft()), fresh: !kept };
}

export function useDesignState(): UseDesign {
  const start = useMemo(begin, []);
  const [desk, dispatch] = useReducer<Desk, Action>(acted, start.desk);
  const [all, setAll] = useState(false);
  const [touched, setTouched] = useState<ReadonlySet<string>>(new Set());
  const [open, setOpened] = useState<ReadonlySet<string>>(new Set());
  const [said, announce] = useState("");
  const [service, setService] = useState<{ draft: Draft; faults: Fault[] } | null>(null);
  const draft = desk.now;
  const house = useMemo(() => houseOf(draft), [draft]);
  const kept = useKept(draft);

  const faults = useMemo(
    () => [...house.faults, ...(service?.draft === draft ? service.faults : [])],
    [house, service, draft],
  );
  const shown = useMemo(
    () => faults.filter((fault) => all || !fault.missing || touched.has(fault.path)),
    [faults, all, touched],
  );
  const act = (action: Action) => {
    const path = pathOf(action);
    if (path && !touched.has(path)) setTouched(new Set([...touched, path]));
    if (action.do === "replace") {
      setAll(false);
      setTouched(new Set());
    }
    dispatch(action);
  };
  const setOpen = (key: string, open: boolean) =>
    setOpened((before) => {
      const next = new Set(before);
      if (open) next.add(key);
      else next.delete(key);
      return next;
    });
  const design: Design = {
    draft,
    house,
    act,
    faultAt: (path) => shown.find((fault) => fault.path === path)?.text ?? null,
    faultsIn: (path) =>
      shown.filter((fault) => fault.path === path || fault.path.startsWith(`${path}.`)).length,
    announce,
    open,
    setOpen,
  };
  return {
    design,
    desk,
    fresh: start.fresh,
    faults,
    told: shown.length,
    kept,
    said,
    showAll: () => setAll(true),
    setServiceFaults: (found) => setService({ draft, faults: found }),
  };
}

function pathOf(action: Action): string | null {
  if (action.do === "set") return action.field;
  if (action.do !== "edit") return null;
  return `${action.list}[${action.at}].${Object.keys(action.changes)[0]}`;
}

/** Keeps the draft a moment after each change, and at the latest when the page goes. */
function useKept(draft: Draft): boolean {
  const [kept, setKept] = useState(true);
  const waiting = useRef<Draft | null>(null);
  const first = useRef(true);
  const keep = () => {
    if (!waiting.current) return;
    setKept(keepDraft(waiting.current));
    waiting.current = null;
  };
  useEffect(() => {
    // What was read is there already, and a beginning is nothing to keep.
    if (first.current) {
      first.current = false;
      return;
    }
    waiting.current = draft;
    const timer = setTimeout(keep, KEEP_MS);
    return () => clearTimeout(timer);
  }, [draft]);
  useEffect(() => {
    addEventListener("pagehide", keep);
    return () => {
      removeEventListener("pagehide", keep);
      keep();
    };
  }, []);
  useEffect(() => {
    if (kept) return;
    const ask = (leaving: BeforeUnloadEvent) => leaving.preventDefault();
    addEventListener("beforeunload", ask);
    return () => removeEventListener("beforeunload", ask);
  }, [kept]);
  return kept;
}
