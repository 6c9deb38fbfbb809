/** The live map of one event: a snapshot, then everything that changes, with no number missed.
 *
 * It goes on after the last number it has when a connection is lost, waits longer after each
 * failure, and takes server-sent events where WebSockets do not get through. */

import { pagesKey } from "./http";
import type { Changes, Frame, Snapshot } from "./types";

export type Connection = "connecting" | "live" | "reconnecting" | "gone";
export type Transport = "websocket" | "stream";

/** Why there is no map and will be none, however often it is asked for. */
export type Trouble = "unknown_event" | "unauthorized";

export interface LiveListener {
  onSnapshot(snapshot: Snapshot): void;
  onChanges(changes: Changes): void;
  onState(state: Connection, transport: Transport, trouble: Trouble | null): void;
}

/** Whether frames join: each must begin one after the last number of the frame before. */
export class Joiner {
  private last: number | null = null;

  /** The last number that is known; null before the first snapshot. */
  get seq(): number | null {
    return this.last;
  }

  /** False for changes that do not begin where the last frame ended: they must not be used. */
  take(frame: Frame): boolean {
    if (frame.type === "snapshot") {
      this.last = frame.seq;
      return true;
    }
    if (this.last === null || frame.from !== this.last + 1 || frame.to < frame.from) return false;
    this.last = frame.to;
    return true;
  }

  forget(): void {
    this.last = null;
  }
}

const WAIT_LEAST_MS = 400;
const WAIT_MOST_MS = 15_000;
/** What a full or limited service asks for: others wait too. */
const WAIT_BUSY_MS = 5_000;
/** No frame by then, and another way is tried. */
const FIRST_FRAME_MS = 15_000;
/** So often a way may fail before the other one is tried, then each in turn. */
const FAILURES_MAX = 3;
/** A page that slept so long may have a connection that is dead and does not know it. */
const ASLEEP_MS = 30_000;

/** Half of it certain, half of it chance: a crowd that lost its server does not come back at once. */
export function waitBefore(failures: number, chance: number): number {
  const most = Math.min(WAIT_MOST_MS, WAIT_LEAST_MS * 2 ** Math.min(failures, 16));
  return most / 2 + (most / 2) * chance;
}

/** Which way to try, after so many failures in a row of the one that worked last. */
export function transportAfter(failures: number, preferred: Transport): Transport {
  const other = preferred === "websocket" ? "stream" : "websocket";
  if (failures < FAILURES_MAX) return preferred;
  return (failures - FAILURES_MAX) % 2 === 0 ? other : preferred;
}

/** How one connection ended. */
interface End {
  busy?: boolean;
  trouble?: Trouble;
  /** The number that we went on from was not taken. */
  restart?: boolean;
}

const CODES: Record<number, End> = {
  1013: { busy: true },
  4401: { trouble: "unauthorized" },
  4404: { trouble: "unknown_event" },
  4422: { restart: true },
  4429: { busy: true },
};

export class LiveMap {
  private readonly joiner = new Joiner();
  private hangUp: (() => void) | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private state: Connection = "connecting";
  private preferred: Transport = "websocket";
  private transport: Transport = "websocket";
  private failures = 0;
  private hiddenAt: number | null = null;
  private closed = false;

  constructor(
    private readonly event: string,
    private readonly listener: LiveListener,
  ) {}

  start(): void {
    addEventListener("online", this.cameOnline);
    addEventListener("offline", this.wentOffline);
    document.addEventListener("visibilitychange", this.turned);
    this.connect();
  }

  close(): void {
    this.closed = true;
    removeEventListener("online", this.cameOnline);
    removeEventListener("offline", this.wentOffline);
    document.removeEventListener("visibilitychange", this.turned);
    this.drop();
  }

  private readonly cameOnline = () => {
    this.failures = 0;
    this.reconnect();
  };

  private readonly wentOffline = () => {
    if (this.state === "gone") return;
    // A socket may take minutes to find out; `online` connects again.
    this.drop();
    this.tell(this.joiner.seq === null ? "connecting" : "reconnecting");
  };

  private readonly turned = () => {
    if (document.visibilityState === "hidden") {
      this.hiddenAt = Date.now();
      return;
    }
    const asleep = this.hiddenAt !== null && Date.now() - this.hiddenAt > ASLEEP_MS;
    this.hiddenAt = null;
    // What waits for its turn need not wait while somebody looks.
    if (asleep || this.state === "reconnecting") this.reconnect();
  };

  private reconnect(): void {
    if (this.closed || this.state === "gone") return;
    this.drop();
    this.connect();
  }

  private drop(): void {
    clearTimeout(this.timer);
    this.hangUp?.();
    this.hangUp = null;
  }

  private tell(state: Connection, trouble: Trouble | null = null): void {
    this.state = state;
    this.listener.onState(state, this.transport, trouble);
  }

  private connect(): void {
    this.transport = transportAfter(this.failures, this.preferred);
    this.tell(this.joiner.seq === null ? "connecting" : "reconnecting");
    let over = false;
    const ended = (how: End) => {
      if (over) return;
      over = true;
      this.ended(how);
    };
    let address: string;
    try {
      address = this.address();
    } catch {
      // The pages have no key any more.
      this.tell("gone", "unauthorized");
      return;
    }
    const close =
      this.transport === "websocket"
        ? openSocket(address, this.received, ended)
        : openStream(address, this.received, ended);
    this.hangUp = () => {
      over = true;
      close();
    };
    this.timer = setTimeout(() => {
      this.hangUp?.();
      this.ended({});
    }, FIRST_FRAME_MS);
  }

  private address(): string {
    const query = new URLSearchParams({ key: pagesKey() });
    if (this.joiner.seq !== null) query.set("since", String(this.joiner.seq));
    const last = this.transport === "websocket" ? "live" : "stream";
    return `/v1/events/${encodeURIComponent(this.event)}/${last}?${query}`;
  }

  private readonly received = (text: string) => {
    const began = performance.now();
    const frame = JSON.parse(text) as Frame;
    if (frame.type === "snapshot") performance.mark("map:received", { startTime: began });
    if (!this.joiner.take(frame)) {
      // A number is missing. What we have is right up to the last one: ask for what follows it,
      // and if that does not join either, for everything.
      if (this.failures > 0) this.joiner.forget();
      this.hangUp?.();
      this.ended({});
      return;
    }
    clearTimeout(this.timer);
    this.failures = 0;
    this.preferred = this.transport;
    if (frame.type === "snapshot") this.listener.onSnapshot(frame);
    else this.listener.onChanges(frame);
    if (this.state !== "live") this.tell("live");
  };

  private ended({ busy, trouble, restart }: End): void {
    clearTimeout(this.timer);
    this.hangUp = null;
    if (this.closed) return;
    if (trouble) {
      this.tell("gone", trouble);
      return;
    }
    if (restart) this.joiner.forget();
    this.tell(this.joiner.seq === null ? "connecting" : "reconnecting");
    const wait = waitBefore(this.failures, Math.random());
    this.failures += 1;
    if (navigator.onLine === false) return;
    this.timer = setTimeout(() => this.connect(), busy ? Math.max(wait, WAIT_BUSY_MS) : wait);
  }
}

function openSocket(
  address: string,
  received: (text: string) => void,
  ended: (how: End) => void,
): () => void {
  const url = new URL(address, location.href);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(url);
  socket.onmessage = (message) => received(message.data as string);
  socket.onclose = (closing) => ended(CODES[closing.code] ?? {});
  return () => {
    socket.onmessage = socket.onclose = null;
    socket.close();
  };
}

function openStream(
  address: string,
  received: (text: string) => void,
  ended: (how: End) => void,
): () => void {
  const source = new EventSource(address);
  const frame = (message: MessageEvent<string>) => received(message.data);
  source.addEventListener("snapshot", frame);
  source.addEventListener("changes", frame);
  source.onerror = () => {
    // It would come back by itself, but only after some errors; ours comes back after all.
    source.close();
    ended({});
  };
  return () => {
    source.onerror = null;
    source.removeEventListener("snapshot", frame);
    source.removeEventListener("changes", frame);
    source.close();
  };
}
