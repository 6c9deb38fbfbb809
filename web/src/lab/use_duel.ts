/** A duel at a real seat: two buyers of its own, real holds, given back afterwards. */

import { useEffect, useRef, useState } from "preact/hooks";
import { getSeats, listEvents, newBuyer } from "../api/calls";
import { call, newIdempotencyKey, Problem, pagesKey } from "../api/http";
import type { Buyer } from "../api/storage";
import type { EventView, Hold, MapSeat } from "../api/types";
import { isTrial } from "../ops/trials";
import { t } from "../strings";
import { anySeat, counted, endingOf, type Pane, type Panes, READY, type Score } from "./fight";

const KEEP_MS = 30_000;
const TRIED_MAX = 5;

export interface Duel {
  /** Null until they are known. */
  events: EventView[] | null;
  event: string | null;
  seat: MapSeat | null;
  buyers: Buyer[];
  panes: Panes;
  score: Score;
  /** Whether the winner's seat was given back already. */
  released: boolean;
  trouble: string | null;
  choose: (event: string) => void;
  another: () => void;
  click: (pane: 0 | 1) => void;
  both: () => void;
  again: () => void;
}

export function useDuel(): Duel {
  const [events, setEvents] = useState<EventView[] | null>(null);
  const [event, setEvent] = useState<string | null>(null);
  const [free, setFree] = useState<MapSeat[]>([]);
  const [seat, setSeat] = useState<MapSeat | null>(null);
  const [buyers, setBuyers] = useState<Buyer[]>([]);
  const [panes, setPanes] = useState<Panes>([READY, READY]);
  const [score, setScore] = useState<Score>([0, 0, 0]);
  const [released, setReleased] = useState(false);
  const [trouble, setTrouble] = useState<string | null>(null);
  const held = useRef<{ hold: string; token: string; buyer: string }[]>([]);
  const gone = useRef(false);
  /** As they are now: an answer comes later than the click it answers. */
  const latest = useRef<Panes>(panes);

  const fail = (problem: unknown) =>
    setTrouble(problem instanceof Problem ? problem.detail : t.errors.unreachable);

  /** To an event that has a free seat: this one, or else the next that has. */
  const goTo = async (candidates: EventView[]) => {
    for (const candidate of candidates.slice(0, TRIED_MAX)) {
      const map = await getSeats(candidate.id);
      const found = map.seats.filter((each) => each.state === "available");
      if (!found.length) continue;
      setEvent(candidate.id);
      setFree(found);
      setSeat(anySeat(found, null, Math.random()));
      return;
    }
    setEvent(null);
    setSeat(null);
  };

  useEffect(() => {
    const begin = async () => {
      const found = (await listEvents()).filter(
        (each) => each.state === "on_sale" && each.available > 0 && !isTrial(each),
      );
      setBuyers(await Promise.all([newBuyer(), newBuyer()]));
      await goTo(found);
      setEvents(found);
    };
    begin().catch(fail);
  }, []);

  const release = async () => {
    const theirs = held.current.splice(0);
    setReleased(theirs.length > 0);
    await Promise.allSettled(
      theirs.map(({ hold, token, buyer }) =>
        call("DELETE", `/v1/holds/${encodeURIComponent(hold)}`, {
          holdToken: token,
          buyerToken: buyer,
        }),
      ),
    );
  };

  // Whoever leaves, or forgets about it, gives the seat back: real buyers want it.
  useEffect(() => {
    const leave = () => {
      for (const { hold, token, buyer } of held.current.splice(0)) letGo(hold, token, buyer);
    };
    addEventListener("pagehide", leave);
    return () => {
      removeEventListener("pagehide", leave);
      gone.current = true;
      leave();
    };
  }, []);
  const decided = panes.some((pane) => pane.kind === "won");
  useEffect(() => {
    if (!decided) return;
    const timer = setTimeout(() => void release(), KEEP_MS);
    return () => clearTimeout(timer);
  }, [decided, seat]);

  const show = (now: Panes) => {
    latest.current = now;
    setPanes(now);
  };
  const put = (nth: 0 | 1, pane: Pane) => {
    const [one, two] = latest.current;
    show(nth === 0 ? [pane, two] : [one, pane]);
  };

  const ask = async (nth: 0 | 1): Promise<Pane> => {
    const buyer = buyers[nth]!.token;
    const began = performance.now();
    try {
      const hold = await call<Hold>("POST", `/v1/events/${encodeURIComponent(event!)}/holds`, {
        body: { seats: [seat!.id] },
        buyerToken: buyer,
        idempotencyKey: newIdempotencyKey(),
      });
      const token = hold.token ?? "";
      if (gone.current) letGo(hold.id, token, buyer);
      else held.current.push({ hold: hold.id, token, buyer });
      const took_ms = performance.now() - began;
      return { kind: "won", hold: hold.id, token, until: hold.expires_at, took_ms };
    } catch (problem) {
      const took_ms = performance.now() - began;
      if (problem instanceof Problem && problem.status === 409) {
        return { kind: "lost", reason: problem.reason, detail: problem.detail, took_ms };
      }
      const detail = problem instanceof Problem ? problem.detail : t.errors.unreachable;
      return { kind: "failed", detail };
    }
  };

  const settled = () => {
    const ending = endingOf(latest.current);
    setScore((before) => counted(before, ending));
  };

  const click = async (nth: 0 | 1) => {
    put(nth, { kind: "asking" });
    put(nth, await ask(nth));
    settled();
  };

  /** In one breath; who is sent first is chance, and who is first there is the network's. */
  const both = async () => {
    show([{ kind: "asking" }, { kind: "asking" }]);
    const order: (0 | 1)[] = Math.random() < 0.5 ? [0, 1] : [1, 0];
    const answers = new Map<0 | 1, Promise<Pane>>();
    for (const nth of order) answers.set(nth, ask(nth));
    await Promise.all([...answers].map(([nth, answer]) => answer.then((pane) => put(nth, pane))));
    settled();
  };

  const renew = async (next: MapSeat | null) => {
    await release();
    setReleased(false);
    show([READY, READY]);
    setSeat(next);
  };

  return {
    events,
    event,
    seat,
    buyers,
    panes,
    score,
    released,
    trouble,
    choose: (id) => {
      const chosen = events?.filter((each) => each.id === id) ?? [];
      void renew(null)
        .then(() => goTo(chosen))
        .catch(fail);
    },
    another: () => void renew(anySeat(free, seat, Math.random())),
    click: (nth) => void click(nth),
    both: () => void both(),
    again: () => void renew(seat),
  };
}

/** As the page goes away: nobody waits for the answer. */
function letGo(hold: string, token: string, buyer: string): void {
  const headers = {
    Authorization: `Bearer ${pagesKey()}`,
    "Buyer-Token": buyer,
    "Hold-Token": token,
  };
  const path = `/v1/holds/${encodeURIComponent(hold)}`;
  fetch(path, { method: "DELETE", headers, keepalive: true, credentials: "omit" }).catch(() => {});
}
