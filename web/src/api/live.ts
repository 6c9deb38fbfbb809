/** The live map of one event: the whole of it, then everything that changes, with no number missed.
 *
 * The map is got first, for as an answer it is compressed, and then followed from its number on. It
 * goes on after the last number it has when a connection is lost, waits longer after each
 * failure, and takes server-sent events where WebSockets do not get through. */

import { callForText, Problem, pagesKey } from "./http";
import type { Changes, Frame, SeatMapView, Snapshot } from "./types";

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
/** A browser that calls itself offline may be wrong, and the service on the same machine. */
const WAIT_OFFLINE_MS = 5_000;
/** Not through by then, and another way is tried. */
const CONNECT_MS = 15_000;
/** An open line is believed after so long: whoever is refused is let in first, to be told why. */
const BELIEVED_MS = 250;
/** A large house on a slow line. */
const MAP_MS = 60_000;
/** So often a way may fail before the other one is tried, then each in turn. */
const FAILURES_MAX = 3;
/** A page that slept so long may have a connection that is dead and does not know it. */
const ASLEEP_MS = 30_000;
/** So long a line may say nothing of what is known to have happened. Longer than a frame may take. */
const SILENT_MS = 25_000;

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
  /** Since when it is known to be behind, and at which number. */
  private behind: { seq: number | null; since: number } | null = null;
  /** "connecting" until it was live once. */
  private waiting: Connection = "connecting";

  constructor(
    private readonly event: string,
    private readonly listener: LiveListener,
    private readonly getMap: (event: string, signal: AbortSignal) => Promise<string> = seatsOf,
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

  /** The service has got as far as this, as was learned in another way. A line that is cut
   * somewhere on its way does not know it: what it should have told, and did not, shows it. */
  reached(seq: number): void {
    const { seq: known } = this.joiner;
    const late = this.state === "live" && known !== null && known < seq;
    if (!late) this.behind = null;
    else if (this.behind?.seq !== known) this.behind = { seq: known, since: Date.now() };
    else if (Date.now() - this.behind.since >= SILENT_MS) {
      this.behind = null;
      this.reconnect();
    }
  }

  private readonly cameOnline = () => {
    this.failures = 0;
    this.reconnect();
  };

  private readonly wentOffline = () => {
    if (this.state === "gone") return;
    // A socket may take minutes to find out; `online` connects again.
    this.drop();
    this.tell(this.waiting);
    this.timer = setTimeout(() => this.connect(), WAIT_OFFLINE_MS);
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
    this.tell(this.waiting);
    let over = false;
    const ended = (how: End) => {
      if (over) return;
      over = true;
      this.ended(how);
    };
    if (this.joiner.seq === null) {
      const leaving = new AbortController();
      this.hangUp = () => {
        over = true;
        leaving.abort();
      };
      void this.load(leaving.signal, ended);
      return;
    }
    const address = this.address();
    const open = this.transport === "websocket" ? openSocket : openStream;
    const close = open(address, this.opened, this.received, ended);
    this.hangUp = () => {
      over = true;
      close();
    };
    this.timer = setTimeout(() => {
      this.hangUp?.();
      this.ended({});
    }, CONNECT_MS);
  }

  /** The map first; then what has changed since. */
  private async load(signal: AbortSignal, ended: (how: End) => void): Promise<void> {
    let text: string;
    try {
      text = await this.getMap(this.event, signal);
    } catch (trouble) {
      if (signal.aborted) return;
      if (!(trouble instanceof Problem)) throw trouble;
      ended(endOf(trouble));
      return;
    }
    if (signal.aborted) return;
    this.hangUp = null;
    const began = performance.now();
    let map: SeatMapView;
    try {
      map = JSON.parse(text) as SeatMapView;
    } catch {
      // Somebody else's page, from the network between: the service is asked again.
      ended({});
      return;
    }
    performance.mark("map:received", { startTime: began });
    const snapshot: Snapshot = { ...map, type: "snapshot" };
    this.joiner.take(snapshot);
    this.listener.onSnapshot(snapshot);
    this.connect();
  }

  /** The line is open. It need not say anything: perhaps nothing happens in this house. */
  private readonly opened = () => {
    clearTimeout(this.timer);
    this.timer = setTimeout(this.believed, BELIEVED_MS);
  };

  private readonly believed = () => {
    clearTimeout(this.timer);
    this.failures = 0;
    this.preferred = this.transport;
    this.waiting = "reconnecting";
    if (this.state !== "live") this.tell("live");
  };

  private address(): string {
    const query = new URLSearchParams({ key: pagesKey(), since: String(this.joiner.seq) });
    const last = this.transport === "websocket" ? "live" : "stream";
    return `/v1/events/${encodeURIComponent(this.event)}/${last}?${query}`;
  }

  private readonly received = (text: string) => {
    const frame = JSON.parse(text) as Frame;
    if (!this.joiner.take(frame)) {
      // A number is missing. What we have is right up to the last one: ask for what follows it,
      // and if that does not join either, for everything.
      if (this.failures > 0) this.joiner.forget();
      this.hangUp?.();
      this.ended({});
      return;
    }
    if (frame.type === "snapshot") this.listener.onSnapshot(frame);
    else this.listener.onChanges(frame);
    this.believed();
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
    this.tell(this.waiting);
    const wait = waitBefore(this.failures, Math.random());
    this.failures += 1;
    const offline = navigator.onLine === false;
    const least = busy ? WAIT_BUSY_MS : offline ? WAIT_OFFLINE_MS : 0;
    this.timer = setTimeout(() => this.connect(), Math.max(wait, least));
  }
}

const seatsOf = (event: string, signal: AbortSignal): Promise<string> =>
  callForText("GET", `/v1/events/${encodeURIComponent(event)}/seats`, {
    signal,
    timeoutMs: MAP_MS,
  });

/** As a socket would have been closed. */
const endOf = ({ status, reason }: Problem): End => {
  if (status === 401 || status === 403 || reason === "no_key") return { trouble: "unauthorized" };
  if (status === 404) return { trouble: "unknown_event" };
  return { busy: status === 429 || status === 503 };
};

function openSocket(
  address: string,
  opened: () => void,
  received: (text: string) => void,
  ended: (how: End) => void,
): () => void {
  const url = new URL(address, location.href);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(url);
  socket.onopen = opened;
  socket.onmessage = (message) => received(message.data as string);
  socket.onclose = (closing) => ended(CODES[closing.code] ?? {});
  return () => {
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  };
}

function openStream(
  address: string,
  opened: () => void,
  received: (text: string) => void,
  ended: (how: End) => void,
): () => void {
  const source = new EventSource(address);
  source.onopen = opened;
  const frame = (message: MessageEvent<string>) => received(message.data);
  source.addEventListener("snapshot", frame);
  source.addEventListener("changes", frame);
  source.onerror = () => {
    // It would come back by itself, but only after some errors; ours comes back after all.
    source.close();
    ended({});
  };
  return () => {
    source.onopen = source.onerror = null;
    source.removeEventListener("snapshot", frame);
    source.removeEventListener("changes", frame);
    source.close();
  };
}
