/** The runs there are, the one that goes on, and a way to start another. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../api/http";
import { t } from "../strings";
import { type As, type Asked, getRun, listRuns, type Offer, type Run, startRun } from "./runs";

const LOOK_MS = 250;
const AGAIN_MS = 2_000;

export interface Lab {
  /** Null until they are known. */
  runs: Run[] | null;
  strategies: Offer[];
  ways: Offer[];
  /** What is shown large: what runs, or what ran last. */
  shown: Run | null;
  running: boolean;
  starting: boolean;
  trouble: string | null;
  start: (asked: Asked) => void;
  show: (run: Run) => void;
  again: () => void;
}

const said = (trouble: unknown) =>
  trouble instanceof Problem ? trouble.detail : t.errors.unreachable;

/** `refused`: the service takes the admin key no more. */
export function useRuns(as: As, refused: () => void): Lab {
  const [runs, setRuns] = useState<Run[] | null>(null);
  const [offers, setOffers] = useState<{ strategies: Offer[]; ways: Offer[] }>({
    strategies: [],
    ways: [],
  });
  const [shownId, setShownId] = useState<string | null>(null);
  const [starting, setStarting] = useState(false);
  const [trouble, setTrouble] = useState<string | null>(null);
  const here = useRef(true);
  const noKey = useRef(refused);
  noKey.current = refused;

  const fail = useCallback(
    (problem: unknown) => {
      setTrouble(said(problem));
      if (as === "admin" && problem instanceof Problem && [401, 403].includes(problem.status)) {
        noKey.current();
      }
    },
    [as],
  );

  const put = useCallback((run: Run) => {
    setRuns((before) => {
      const known = before ?? [];
      const at = known.findIndex((each) => each.id === run.id);
      return at < 0 ? [run, ...known] : known.with(at, run);
    });
  }, []);

  /** Somebody else's run is shown as one's own is. */
  const look = useCallback(async () => {
    try {
      const found = await listRuns(as);
      if (!here.current) return;
      setRuns(found.runs);
      setOffers({ strategies: found.strategies, ways: found.over });
      setTrouble(null);
      const running = found.runs.find((run) => run.state === "running");
      if (running) setShownId(running.id);
    } catch (problem) {
      if (here.current) fail(problem);
    }
  }, [as, fail]);

  useEffect(() => {
    here.current = true;
    void look();
    return () => {
      here.current = false;
    };
  }, [look]);

  const followed = runs?.find((run) => run.state === "running")?.id ?? null;
  useEffect(() => {
    if (!followed) return;
    let timer: ReturnType<typeof setTimeout>;
    let over = false;
    const follow = async () => {
      let wait = LOOK_MS;
      try {
        const run = await getRun(as, followed);
        if (over) return;
        put(run);
        setTrouble(null);
        if (run.state !== "running") return;
      } catch (problem) {
        if (over) return;
        fail(problem);
        wait = AGAIN_MS;
      }
      timer = setTimeout(follow, wait);
    };
    timer = setTimeout(follow, LOOK_MS);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [as, followed, put, fail]);

  const start = async (asked: Asked) => {
    setStarting(true);
    setTrouble(null);
    try {
      const run = await startRun(as, asked);
      put(run);
      setShownId(run.id);
    } catch (problem) {
      if (problem instanceof Problem && problem.reason === "busy") {
        await look();
        setTrouble(t.lab.busy);
      } else fail(problem);
    } finally {
      setStarting(false);
    }
  };

  const shown = runs?.find((run) => run.id === shownId) ?? runs?.[0] ?? null;
  return {
    runs,
    strategies: offers.strategies,
    ways: offers.ways,
    shown,
    running: followed !== null,
    starting,
    trouble,
    start: (asked) => void start(asked),
    show: (run) => setShownId(run.id),
    again: () => void look(),
  };
}
