/** The plan of an event, kept as it is now. */

import { useEffect, useRef, useState } from "preact/hooks";
import { type Connection, LiveMap, type Transport, type Trouble } from "../api/live";
import type { Changes, EventView, Snapshot } from "../api/types";
import { makePlan, type Plan } from "./layout";

export interface LivePlan {
  /** Null until the first snapshot. The same object while the house is the same: states change in
   * it, and `version` goes up. */
  plan: Plan | null;
  version: number;
  connection: Connection;
  transport: Transport;
  /** The number of the last fact that the plan contains; null before the first. */
  seq: number | null;
  /** Why there will be no map: then `connection` is "gone". */
  trouble: Trouble | null;
}

const NOTHING: LivePlan = {
  plan: null,
  version: 0,
  connection: "connecting",
  transport: "websocket",
  seq: null,
  trouble: null,
};

export function useLiveMap(event: Pick<EventView, "id" | "prices" | "seq">): LivePlan {
  const [live, setLive] = useState<LivePlan>(NOTHING);
  const following = useRef<LiveMap | null>(null);
  useEffect(() => {
    const follower = new Follower(event.prices, setLive);
    const map = new LiveMap(event.id, follower);
    map.start();
    following.current = map;
    return () => {
      following.current = null;
      map.close();
      follower.close();
    };
  }, [event.id, JSON.stringify(event.prices)]);
  useEffect(() => following.current?.reached(event.seq), [event]);
  return live;
}

/** Puts frames into the plan, all that came since the last picture at once: the page is told no
 * more often than it can draw. */
class Follower {
  private now: LivePlan = NOTHING;
  private waiting: Changes[] = [];
  private asked: number | null = null;

  constructor(
    private readonly prices: Readonly<Record<string, number>>,
    private readonly tell: (live: LivePlan) => void,
  ) {}

  readonly onSnapshot = (snapshot: Snapshot): void => {
    this.waiting = [];
    const { seats, pools, seq } = snapshot;
    let { plan } = this.now;
    performance.mark("map:data");
    if (!plan?.refresh(seats, pools)) plan = makePlan(seats, pools, this.prices);
    performance.mark("map:planned");
    this.update({ plan, seq, version: this.now.version + 1 });
  };

  readonly onChanges = (changes: Changes): void => {
    this.waiting.push(changes);
    // A hidden page is not drawn, and must not gather frames until it is.
    if (document.visibilityState === "hidden") this.apply();
    else this.asked ??= requestAnimationFrame(this.apply);
  };

  readonly onState = (
    connection: Connection,
    transport: Transport,
    trouble: Trouble | null,
  ): void => {
    this.apply();
    this.update({ connection, transport, trouble });
  };

  close(): void {
    if (this.asked !== null) cancelAnimationFrame(this.asked);
    this.waiting = [];
  }

  private readonly apply = (): void => {
    if (this.asked !== null) cancelAnimationFrame(this.asked);
    this.asked = null;
    const { plan } = this.now;
    const frames = this.waiting;
    if (!plan || !frames.length) return;
    this.waiting = [];
    const last = new Map(frames.flatMap((frame) => frame.changes));
    const pools = Object.assign({}, ...frames.map((frame) => frame.pools ?? {}));
    plan.apply(last, pools);
    this.update({ seq: frames.at(-1)!.to, version: this.now.version + 1 });
  };

  private update(changes: Partial<LivePlan>): void {
    this.now = { ...this.now, ...changes };
    this.tell(this.now);
  }
}
