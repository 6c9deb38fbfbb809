import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Problem, setDeployment } from "./http";
import { Joiner, LiveMap, transportAfter, waitBefore } from "./live";
import type { Changes, SeatMapView, Snapshot } from "./types";

const snapshot = (seq: number): Snapshot => ({ type: "snapshot", seq, seats: [], pools: [] });
const changes = (from: number, to: number): Changes => ({ type: "changes", from, to, changes: [] });

describe("Joiner", () => {
  it("takes frames that join, and knows the last number", () => {
    const joiner = new Joiner();
    expect(joiner.seq).toBeNull();
    expect(joiner.take(snapshot(41))).toBe(true);
    expect(joiner.take(changes(42, 44))).toBe(true);
    expect(joiner.take(changes(45, 45))).toBe(true);
    expect(joiner.seq).toBe(45);
  });

  it("takes none that leaves a gap, repeats, or runs backwards", () => {
    const joiner = new Joiner();
    expect(joiner.take(changes(1, 2))).toBe(false);
    joiner.take(snapshot(10));
    for (const frame of [changes(12, 13), changes(10, 11), changes(5, 6), changes(11, 10)]) {
      expect(joiner.take(frame)).toBe(false);
      expect(joiner.seq).toBe(10);
    }
  });

  it("begins anew at a snapshot", () => {
    const joiner = new Joiner();
    joiner.take(snapshot(10));
    expect(joiner.take(snapshot(99))).toBe(true);
    expect(joiner.take(changes(100, 100))).toBe(true);
  });
});

describe("waiting", () => {
  it("doubles with each failure up to a limit, and is never without chance", () => {
    expect(waitBefore(0, 1)).toBe(400);
    expect(waitBefore(1, 1)).toBe(800);
    expect(waitBefore(1, 0)).toBe(400);
    expect(waitBefore(99, 1)).toBe(15_000);
  });

  it("keeps to the way that works, and takes turns when it fails", () => {
    const tried = [0, 1, 2, 3, 4, 5].map((failures) => transportAfter(failures, "websocket"));
    const [ws, sse] = ["websocket", "stream"];
    expect(tried).toEqual([ws, ws, ws, sse, ws, sse]);
    expect(transportAfter(0, "stream")).toBe("stream");
  });
});

class Line {
  static opened: Line[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((message: { data: string }) => void) | null = null;
  onclose: ((closing: { code: number }) => void) | null = null;
  onerror: (() => void) | null = null;
  closed = false;
  readonly url: URL;
  private readonly listeners: ((message: { data: string }) => void)[] = [];

  constructor(
    url: string | URL,
    readonly kind: "websocket" | "stream",
  ) {
    this.url = new URL(url, "http://shop.test");
    Line.opened.push(this);
  }

  static get last(): Line {
    return Line.opened.at(-1)!;
  }

  addEventListener(_: string, listener: (message: { data: string }) => void): void {
    this.listeners.push(listener);
  }

  removeEventListener(): void {}

  send(frame: Snapshot | Changes): void {
    const message = { data: JSON.stringify(frame) };
    if (this.onmessage) this.onmessage(message);
    else this.listeners[0]?.(message);
  }

  break(code = 1006): void {
    if (this.kind === "websocket") this.onclose?.({ code });
    else this.onerror?.();
  }

  close(): void {
    this.closed = true;
  }
}

describe("LiveMap", () => {
  const told: string[] = [];
  let map: LiveMap;
  let maps: (SeatMapView | Problem | string)[];

  /** The next map is served; then the line that follows it is there. */
  const served = async (found: SeatMapView | Problem) => {
    maps.push(found);
    await vi.advanceTimersByTimeAsync(20);
  };

  const getMap = async () => {
    while (!maps.length) await new Promise((resolve) => setTimeout(resolve, 10));
    const found = maps.shift()!;
    if (found instanceof Problem) throw found;
    return typeof found === "string" ? found : JSON.stringify(found);
  };

  beforeEach(() => {
    vi.useFakeTimers();
    maps = [];
    told.length = 0;
    Line.opened = [];
    const page = Object.assign(new EventTarget(), { visibilityState: "visible" });
    vi.stubGlobal("document", page);
    vi.stubGlobal("location", { href: "http://shop.test/e/gala", protocol: "http:" });
    vi.stubGlobal("navigator", { onLine: true });
    const window = new EventTarget();
    vi.stubGlobal("addEventListener", window.addEventListener.bind(window));
    vi.stubGlobal("removeEventListener", window.removeEventListener.bind(window));
    vi.stubGlobal("dispatchEvent", window.dispatchEvent.bind(window));
    vi.stubGlobal("WebSocket", function socket(url: URL) {
      return new Line(url, "websocket");
    });
    vi.stubGlobal("EventSource", function source(url: string) {
      return new Line(url, "stream");
    });
    setDeployment({ version: "1", key: "k", lab: "off", payments: "none", gate: false });
    const listener = {
      onSnapshot: ({ seq }: Snapshot) => told.push(`snapshot ${seq}`),
      onChanges: ({ from, to }: Changes) => told.push(`changes ${from} ${to}`),
      onState: (state: string, transport: string) => told.push(`${state} ${transport}`),
    };
    map = new LiveMap("gala", listener, getMap);
    map.start();
  });

  afterEach(() => {
    map.close();
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it("gets the map, follows it, and goes on after the last number", async () => {
    expect(Line.opened).toHaveLength(0);
    await served(snapshot(41));
    expect(Line.last.url.href).toBe("ws://shop.test/v1/events/gala/live?key=k&since=41");
    Line.last.send(changes(42, 44));
    Line.last.break();
    vi.advanceTimersByTime(400);
    expect(Line.last.url.searchParams.get("since")).toBe("44");
    Line.last.send(changes(45, 50));
    expect(told).toEqual([
      ...["connecting websocket", "snapshot 41", "connecting websocket", "changes 42 44"],
      ...["live websocket", "reconnecting websocket", "reconnecting websocket"],
      ...["changes 45 50", "live websocket"],
    ]);
  });

  it("asks again where the map is somebody else's page", async () => {
    maps.push("<html>Please log in to the network");
    await vi.advanceTimersByTimeAsync(20);
    expect(Line.opened).toHaveLength(0);
    await vi.advanceTimersByTimeAsync(400);
    await served(snapshot(7));
    expect(told).toContain("snapshot 7");
    expect(Line.last.url.searchParams.get("since")).toBe("7");
  });

  it("does not trust a line that is silent about what has happened", async () => {
    await served(snapshot(41));
    Line.last.onopen!();
    vi.advanceTimersByTime(250);
    const look = (seq: number, times: number) => {
      for (let n = 0; n < times; n++) {
        map.reached(seq);
        vi.advanceTimersByTime(5_000);
      }
    };
    look(41, 20);
    // As long as it tells something, it is only late.
    for (let seq = 42; seq < 60; seq++) {
      look(99, 3);
      Line.last.send(changes(seq, seq));
    }
    expect(Line.opened).toHaveLength(1);
    look(99, 7);
    expect(Line.opened).toHaveLength(2);
    expect(Line.opened[0]!.closed).toBe(true);
    expect(Line.last.url.searchParams.get("since")).toBe("59");
    expect(told.at(-1)).toBe("reconnecting websocket");
  });

  it("is live also where nothing happens", async () => {
    await served(snapshot(41));
    Line.last.onopen!();
    vi.advanceTimersByTime(250);
    expect(told.at(-1)).toBe("live websocket");
    vi.advanceTimersByTime(600_000);
    expect(Line.opened).toHaveLength(1);
    Line.last.break();
    vi.advanceTimersByTime(400);
    Line.last.onopen!();
    vi.advanceTimersByTime(250);
    expect(told.at(-1)).toBe("live websocket");
  });

  it("does not believe a line that was opened only to be told why not", async () => {
    await served(snapshot(41));
    for (let tries = 0; tries < 3; tries++) {
      Line.last.onopen!();
      Line.last.break(1006);
      vi.advanceTimersByTime(15_000);
    }
    expect(told).not.toContain("live websocket");
    expect(Line.last.kind).toBe("stream");
  });

  it("uses no frame after a gap: it asks again from before the gap, then for everything", async () => {
    await served(snapshot(10));
    Line.last.onopen!();
    vi.advanceTimersByTime(250);
    Line.last.send(changes(12, 13));
    expect(Line.last.closed).toBe(true);
    expect(told.at(-1)).toBe("reconnecting websocket");
    vi.advanceTimersByTime(400);
    expect(Line.last.url.searchParams.get("since")).toBe("10");
    Line.last.send(changes(12, 13));
    vi.advanceTimersByTime(800);
    await served(snapshot(13));
    expect(Line.last.url.searchParams.get("since")).toBe("13");
    Line.last.send(changes(14, 14));
    expect(told.filter((line) => line.startsWith("changes"))).toEqual(["changes 14 14"]);
    expect(told.at(-1)).toBe("live websocket");
  });

  it("takes a snapshot that it was not waiting for", async () => {
    await served(snapshot(10));
    Line.last.send(snapshot(99));
    Line.last.send(changes(100, 101));
    expect(told.slice(-3)).toEqual(["snapshot 99", "live websocket", "changes 100 101"]);
  });

  it("takes server-sent events where sockets do not get through, and stays with them", async () => {
    await served(snapshot(5));
    for (let tries = 0; tries < 3; tries++) {
      Line.last.break();
      vi.advanceTimersByTime(15_000);
    }
    expect(Line.last.kind).toBe("stream");
    Line.last.send(changes(6, 6));
    expect(told.at(-1)).toBe("live stream");
    Line.last.break();
    vi.advanceTimersByTime(400);
    expect(Line.last.kind).toBe("stream");
    expect(Line.last.url.searchParams.get("since")).toBe("6");
  });

  it("gives up on an event that is not there, and on nothing else", async () => {
    await served(new Problem(429, "too_many_requests", ""));
    vi.advanceTimersByTime(5_000);
    await served(snapshot(1));
    Line.last.break(4429);
    vi.advanceTimersByTime(4_999);
    expect(Line.opened).toHaveLength(1);
    vi.advanceTimersByTime(1);
    Line.last.break(4404);
    expect(told.at(-1)).toBe("gone websocket");
    vi.advanceTimersByTime(600_000);
    expect(Line.opened).toHaveLength(2);
  });

  it("gives up where there is no map, or no key for it", async () => {
    await served(new Problem(404, "unknown_event", ""));
    expect(told.at(-1)).toBe("gone websocket");
    expect(Line.opened).toHaveLength(0);
  });

  it("knows at once that it is offline, and comes back at once", async () => {
    await served(snapshot(6));
    Line.last.send(changes(7, 7));
    dispatchEvent(new Event("offline"));
    expect(Line.last.closed).toBe(true);
    expect(told.at(-1)).toBe("reconnecting websocket");
    vi.advanceTimersByTime(4_000);
    expect(Line.opened).toHaveLength(1);
    dispatchEvent(new Event("online"));
    expect(Line.opened).toHaveLength(2);
    expect(Line.last.url.searchParams.get("since")).toBe("7");
  });

  it("finds the service that is there although the browser says that nothing is", async () => {
    await served(snapshot(6));
    Line.last.send(changes(7, 7));
    vi.stubGlobal("navigator", { onLine: false });
    dispatchEvent(new Event("offline"));
    vi.advanceTimersByTime(5_000);
    expect(Line.opened).toHaveLength(2);
    Line.last.break();
    vi.advanceTimersByTime(4_000);
    expect(Line.opened).toHaveLength(2);
    vi.advanceTimersByTime(1_000);
    Line.last.onopen!();
    vi.advanceTimersByTime(250);
    expect(told.at(-1)).toBe("live websocket");
  });

  it("tries again when nothing comes at all", async () => {
    await served(snapshot(7));
    vi.advanceTimersByTime(15_000 + 400);
    expect(Line.opened).toHaveLength(2);
    expect(Line.opened[0]!.closed).toBe(true);
  });

  it("says nothing after it was closed", async () => {
    await served(snapshot(7));
    const line = Line.last;
    map.close();
    const before = told.length;
    line.send(snapshot(1));
    line.break();
    vi.advanceTimersByTime(60_000);
    expect(told).toHaveLength(before);
    expect(Line.opened).toHaveLength(1);
  });
});
