/** The map as something to look around in and to pick from: camera, pointers, keys and the loop
 * that draws, which sleeps when nothing changes. */

import { Camera } from "./camera";
import { type Gesture, Gestures } from "./gestures";
import type { Plan } from "./layout";
import { type Cursor, Painter, type Pointed } from "./painter";
import { readPalette } from "./palette";
import type { Box } from "./places";
import { canToggle, lookOf, type Marks } from "./props";
import { firstSeat, nextSeat, seatOfSection } from "./walking";

/** Closer than this, in CSS pixels a seat, and a click means the seat; else it comes closer. */
const PICK_FROM = 7;
const PICK_FROM_TOUCH = 15;
/** Where a key or a click on a section brings one. */
const READABLE = 26;
const STEP = 1.6;
const FLIGHT_MS = 240;
const GLIDE_STOP_PX_MS = 0.02;
/** How fast a glide ends: after so long a third of its speed is left. */
const GLIDE_MS = 280;
const DOUBLE_TAP_MS = 320;
const EXPLAIN_MS = 2_500;
/** Nearer to the edge than this, a seat is not well seen. */
const IN_SIGHT_PX = 24;

export interface ViewListener {
  onToggle(index: number): void;
  onPool(index: number): void;
  /** What could be chosen was, while nothing can. */
  onLocked(): void;
  /** Somebody points at this; null when no longer. */
  onPoint(at: Cursor | { kind: "section"; index: number } | null, x: number, y: number): void;
  /** The keys are at this. */
  onFocus(at: Cursor | null): void;
  /** Whether one can come closer, or go back. */
  onZoom(atFit: boolean, atClosest: boolean): void;
}

interface Flight {
  from: { x: number; y: number; scale: number };
  to: { x: number; y: number; scale: number };
  began: number;
}

export interface ViewScene {
  plan: Plan;
  marks: Marks;
  currency: string;
  stage: string | null;
  readonly: boolean;
}

export class MapView {
  readonly camera: Camera;
  private readonly painter: Painter;
  private readonly gestures: Gestures;
  private readonly pointed: Pointed = { hover: null, focus: null };
  private frame: number | null = null;
  private flight: Flight | null = null;
  private glide: { x: number; y: number; at: number } | null = null;
  private stopWatching: () => void;
  private readonly undo: (() => void)[] = [];
  private lastTap = -Infinity;
  private painted = false;
  private focused: Cursor | null = null;
  private zoomState = "";
  /** Where a mouse rests, if it does. */
  private pointer: { x: number; y: number } | null = null;
  private explaining: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly root: HTMLElement,
    private readonly canvas: HTMLCanvasElement,
    private scene: ViewScene,
    private readonly listener: ViewListener,
  ) {
    const { plan, currency, stage, marks } = scene;
    this.camera = new Camera(plan.box);
    this.painter = new Painter(canvas, plan, readPalette(root), currency, stage);
    this.painter.mark(marks);
    this.stopWatching = this.watch(plan);
    this.gestures = new Gestures(
      canvas,
      (gesture) => this.gesture(gesture),
      (closer) => this.canZoom(closer),
    );
    const sized = new ResizeObserver(() => this.resize());
    sized.observe(root);
    this.undo.push(() => sized.disconnect());
    const recolor = () => {
      this.painter.recolor(readPalette(this.root));
      this.wake();
    };
    const dark = matchMedia("(prefers-color-scheme: dark)");
    addEventListener("themechange", recolor);
    dark.addEventListener("change", recolor);
    this.undo.push(
      () => removeEventListener("themechange", recolor),
      () => dark.removeEventListener("change", recolor),
    );
    this.followDpr();
    this.resize();
  }

  close(): void {
    clearTimeout(this.explaining);
    this.stopWatching();
    this.gestures.close();
    for (const undo of this.undo) undo();
    if (this.frame !== null) cancelAnimationFrame(this.frame);
    this.frame = null;
  }

  /** A new house, or other marks. The camera stays, and what the keys are at. */
  show(scene: ViewScene): void {
    const before = this.scene;
    this.scene = scene;
    if (scene.plan !== before.plan) {
      this.stopWatching();
      this.stopWatching = this.watch(scene.plan);
      this.painter.enter(scene.plan, scene.currency, scene.stage);
      this.camera.enter(scene.plan.box, ...moved(before.plan, scene.plan));
      this.point(null, 0, 0);
      this.refocus(before.plan);
    } else if (scene.stage !== before.stage || scene.currency !== before.currency) {
      this.painter.enter(scene.plan, scene.currency, scene.stage);
    }
    this.painter.mark(scene.marks);
    this.again();
    this.wake();
  }

  /** What is pointed at may be another thing by now: its words are said again. */
  private again(): void {
    if (this.pointed.focus) this.listener.onFocus(this.pointed.focus);
    if (this.pointer) this.hover(this.pointer.x, this.pointer.y);
  }

  private refocus(before: Plan): void {
    const { plan } = this.scene;
    const at = this.focused;
    if (!at) return;
    const index =
      at.kind === "seat"
        ? plan.indexOf(before.ids[at.index]!)
        : plan.pools.findIndex((pool) => pool.id === before.pools[at.index]!.id);
    this.focus(index < 0 ? null : { kind: at.kind, index }, false);
  }

  private watch(plan: Plan): () => void {
    return plan.watch((touched) => {
      this.painter.touch(touched);
      // A suggestion that somebody took is none any more.
      if (this.scene.marks.suggested.size) this.painter.mark(this.scene.marks);
      this.again();
      this.wake();
    });
  }

  private followDpr(): void {
    const query = matchMedia(`(resolution: ${devicePixelRatio}dppx)`);
    const changed = () => {
      this.resize();
      this.followDpr();
    };
    query.addEventListener("change", changed, { once: true });
    this.undo.push(() => query.removeEventListener("change", changed));
  }

  private resize(): void {
    const { clientWidth, clientHeight } = this.root;
    if (!clientWidth || !clientHeight) return;
    this.camera.resize(clientWidth, clientHeight);
    this.painter.resize(clientWidth, clientHeight, devicePixelRatio);
    // At once: an emptied canvas must not be seen.
    this.draw(performance.now());
  }

  // The loop

  wake(): void {
    this.frame ??= requestAnimationFrame((now) => {
      this.frame = null;
      if (this.draw(now)) this.wake();
    });
  }

  private draw(now: number): boolean {
    const moving = this.move(now);
    const { camera, pointed } = this;
    const busy = this.gestures.busy || moving;
    const more = this.painter.draw(camera, pointed, now, busy);
    const state = `${camera.atFit} ${camera.atClosest}`;
    if (state !== this.zoomState) {
      this.zoomState = state;
      // A map that shows all of itself lets the page be scrolled over it.
      this.canvas.style.touchAction = camera.atFit ? "pan-y" : "none";
      this.listener.onZoom(camera.atFit, camera.atClosest);
    }
    if (!this.painted) {
      this.painted = true;
      // Once it was shown, not only drawn.
      requestAnimationFrame(() => setTimeout(() => performance.mark("map:painted")));
    }
    return moving || more;
  }

  /** True while the camera moves by itself. */
  private move(now: number): boolean {
    if (this.flight) {
      const { from, to, began } = this.flight;
      const part = Math.min(1, Math.max(0, now - began) / FLIGHT_MS);
      const eased = 1 - (1 - part) ** 3;
      // Equal steps of a zoom are equal factors.
      const scale = from.scale * (to.scale / from.scale) ** eased;
      const along =
        to.scale === from.scale
          ? eased
          : (1 / from.scale - 1 / scale) / (1 / from.scale - 1 / to.scale);
      this.camera.look(
        from.x + (to.x - from.x) * along,
        from.y + (to.y - from.y) * along,
        part === 1 ? to.scale : scale,
      );
      if (part === 1) this.flight = null;
      return this.flight !== null;
    }
    if (this.glide) {
      const passed = Math.min(64, Math.max(0, now - this.glide.at));
      this.camera.pan(this.glide.x * passed, this.glide.y * passed);
      const slower = Math.exp(-passed / GLIDE_MS);
      this.glide = { x: this.glide.x * slower, y: this.glide.y * slower, at: now };
      if (Math.hypot(this.glide.x, this.glide.y) < GLIDE_STOP_PX_MS) this.glide = null;
      return this.glide !== null;
    }
    return false;
  }

  private get still(): boolean {
    return matchMedia("(prefers-reduced-motion: reduce)").matches;
  }

  private fly(to: { x: number; y: number; scale: number }): void {
    const { camera } = this;
    const from = { x: camera.x, y: camera.y, scale: camera.scale };
    this.glide = null;
    camera.look(to.x, to.y, to.scale);
    const allowed = { x: camera.x, y: camera.y, scale: camera.scale };
    if (!this.still) {
      camera.look(from.x, from.y, from.scale);
      this.flight = { from, to: allowed, began: performance.now() };
    }
    this.wake();
  }

  // Where things are

  /** Of the seat, in pixels of the page: for whoever tests it. */
  pointOf(id: string): { x: number; y: number; scale: number } | null {
    const index = this.scene.plan.indexOf(id);
    if (index < 0) return null;
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = this.camera.toView(this.scene.plan.x[index]!, this.scene.plan.y[index]!);
    return { x: box.left + x, y: box.top + y, scale: this.camera.scale };
  }

  hit(px: number, py: number, touch: boolean): Cursor | null {
    const { plan } = this.scene;
    const [x, y] = this.camera.toHouse(px, py);
    const pool = plan.pools.findIndex(
      ({ box }) => x >= box.left && x <= box.right && y >= box.top && y <= box.bottom,
    );
    if (pool >= 0) return { kind: "pool", index: pool };
    // A finger is wide, but not so wide that it means the seat after the next.
    const within = Math.min(touch ? 1.2 : 0.7, Math.max(0.5, (touch ? 22 : 6) / this.camera.scale));
    const seat = plan.grid.nearest(x, y, within);
    return seat < 0 ? null : { kind: "seat", index: seat };
  }

  private sectionAt(px: number, py: number): number {
    const { plan } = this.scene;
    const seat = plan.grid.nearest(...this.camera.toHouse(px, py), 1.5);
    return seat < 0 ? -1 : plan.section[seat]!;
  }

  // What hands do

  zoomBy(factor: number): void {
    const { camera } = this;
    const goal = this.flight?.to ?? camera;
    this.fly({ x: goal.x, y: goal.y, scale: goal.scale * factor });
  }

  zoomIn = (): void => this.zoomBy(STEP);
  zoomOut = (): void => this.zoomBy(1 / STEP);

  fit = (): void => {
    const { box } = this.scene.plan;
    this.fly({ x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2, scale: 0 });
  };

  private gesture(gesture: Gesture): void {
    switch (gesture.kind) {
      case "start":
        this.flight = this.glide = null;
        break;
      case "pan":
        this.flight = this.glide = null;
        this.pointer = null;
        this.point(null, 0, 0);
        this.camera.pan(gesture.dx, gesture.dy);
        break;
      case "zoom":
        this.flight = this.glide = null;
        this.camera.zoomAt(gesture.x, gesture.y, gesture.factor);
        break;
      case "fling":
        if (!this.still) {
          this.glide = { x: gesture.vx, y: gesture.vy, at: performance.now() };
        }
        break;
      case "hover":
        this.pointer = { x: gesture.x, y: gesture.y };
        this.hover(gesture.x, gesture.y);
        return;
      case "leave":
        this.pointer = null;
        this.point(null, 0, 0);
        return;
      case "tap":
        this.tap(gesture.x, gesture.y, gesture.touch);
        break;
      case "end":
        break;
    }
    this.wake();
  }

  /** Whether a wheel that goes this way has anything to zoom; if not, the page scrolls. */
  canZoom(closer: boolean): boolean {
    return closer ? !this.camera.atClosest : !this.camera.atFit;
  }

  private hover(x: number, y: number): void {
    if (this.camera.scale < PICK_FROM) {
      const at = this.hit(x, y, false);
      const section = this.sectionAt(x, y);
      if (at?.kind === "pool") this.point(at, x, y);
      else this.point(section < 0 ? null : { kind: "section", index: section }, x, y);
    } else this.point(this.hit(x, y, false), x, y);
  }

  private point(
    at: Cursor | { kind: "section"; index: number } | null,
    x: number,
    y: number,
  ): void {
    const before = this.pointed.hover;
    this.pointed.hover = at && at.kind !== "section" ? at : null;
    const same = before?.kind === this.pointed.hover?.kind && before?.index === at?.index;
    if (!same) this.wake();
    this.canvas.style.cursor = this.cursorOver(at);
    this.listener.onPoint(at, x, y);
  }

  private cursorOver(at: Cursor | { kind: "section"; index: number } | null): string {
    const { plan, marks, readonly } = this.scene;
    if (!at) return "";
    if (at.kind === "section") return "zoom-in";
    if (readonly) return "";
    if (at.kind === "pool") return "pointer";
    return canToggle(lookOf(plan, at.index, marks)) ? "pointer" : "not-allowed";
  }

  private tap(x: number, y: number, touch: boolean): void {
    const at = this.hit(x, y, touch);
    const now = performance.now();
    const twice = now - this.lastTap < DOUBLE_TAP_MS;
    this.lastTap = now;
    if (at?.kind === "pool") {
      this.choose(at);
      return;
    }
    const close = this.camera.scale >= (touch ? PICK_FROM_TOUCH : PICK_FROM);
    if (at && close) {
      this.focused = at;
      if (touch) this.explain(at, x, y);
      else this.gesture({ kind: "hover", x, y });
      this.choose(at);
      this.lastTap = -Infinity;
      return;
    }
    // What is under the pointer will be another thing in a moment.
    this.pointer = null;
    this.point(null, 0, 0);
    const section = this.sectionAt(x, y);
    if (!close && section >= 0) this.approach(section, x, y);
    else if (twice) {
      const [hx, hy] = this.camera.toHouse(x, y);
      this.fly({ x: hx, y: hy, scale: this.camera.scale * 2 });
    }
  }

  /** For fingers, which do not hover: for a while, as it covers what is behind it. */
  private explain(at: Cursor, x: number, y: number): void {
    this.pointer = { x, y };
    this.point(at, x, y);
    clearTimeout(this.explaining);
    this.explaining = setTimeout(() => {
      this.pointer = null;
      this.point(null, 0, 0);
    }, EXPLAIN_MS);
  }

  /** Closer to a section: all of it if its seats can be picked then, else what was pointed at. */
  private approach(section: number, x: number, y: number): void {
    const { camera, scene } = this;
    const all = camera.framing(scene.plan.sections[section]!.box, READABLE);
    const [hx, hy] = camera.toHouse(x, y);
    if (all.scale >= PICK_FROM_TOUCH) this.fly(all);
    else this.fly({ x: hx, y: hy, scale: Math.max(READABLE * 0.7, camera.scale * 2) });
  }

  private choose(at: Cursor): void {
    const { plan, marks, readonly } = this.scene;
    const can = at.kind === "pool" || canToggle(lookOf(plan, at.index, marks));
    if (!can) return;
    if (readonly) this.listener.onLocked();
    else if (at.kind === "pool") this.listener.onPool(at.index);
    else this.listener.onToggle(at.index);
  }

  /** Brings seats into sight that are out of it, no closer than one is. */
  bring(ids: readonly string[]): void {
    const { camera, scene } = this;
    const { x, y } = scene.plan;
    const seats = ids.map((id) => scene.plan.indexOf(id)).filter((index) => index >= 0);
    const box = boxOf(seats.map((index) => [x[index]!, y[index]!]));
    if (!box || camera.atFit) return;
    if (seats.every((index) => camera.shows(x[index]!, y[index]!, IN_SIGHT_PX))) return;
    this.fly(camera.framing(box, this.flight?.to.scale ?? camera.scale));
  }

  // Keys

  /** The keys arrive: where they were, or in front. */
  focusIn(visible: boolean): void {
    if (!visible) return;
    const { plan } = this.scene;
    const first = firstSeat(plan);
    const begin: Cursor | null =
      first >= 0
        ? { kind: "seat", index: first }
        : plan.pools.length
          ? { kind: "pool", index: 0 }
          : null;
    this.focus(this.focused ?? begin, false);
  }

  focusOut(): void {
    this.pointed.focus = null;
    this.wake();
  }

  private focus(at: Cursor | null, closer = true): void {
    this.focused = this.pointed.focus = at;
    this.listener.onFocus(at);
    if (at && closer) this.reveal(at);
    this.wake();
  }

  private reveal(at: Cursor): void {
    const { camera, scene } = this;
    const box = at.kind === "pool" ? scene.plan.pools[at.index]!.box : null;
    const x = box ? (box.left + box.right) / 2 : scene.plan.x[at.index]!;
    const y = box ? (box.top + box.bottom) / 2 : scene.plan.y[at.index]!;
    const goal = this.flight?.to ?? camera;
    const scale = at.kind === "seat" ? Math.max(goal.scale, READABLE * 0.62) : goal.scale;
    if (scale !== goal.scale || !camera.shows(x, y, 48)) this.fly({ x, y, scale });
  }

  /** True if the key meant something here. */
  key(key: string, shift: boolean): boolean {
    const move = MOVES[key];
    if (move) this.walk(move[0], move[1], shift);
    else if (key === "Enter" || key === " ") {
      if (this.pointed.focus) this.choose(this.pointed.focus);
    } else if (key === "+" || key === "=") this.zoomIn();
    else if (key === "-" || key === "_") this.zoomOut();
    else if (key === "0") this.fit();
    else if (key === "PageDown" || key === "PageUp") this.leap(key === "PageDown" ? 1 : -1);
    else if (key === "Home" || key === "End") this.endOfRow(key === "End");
    else return false;
    return true;
  }

  private walk(dx: number, dy: number, onlyFree: boolean): void {
    const { plan, marks } = this.scene;
    const at = this.pointed.focus;
    if (!at) {
      this.focusIn(true);
      return;
    }
    if (at.kind === "pool") {
      this.leap(dx + dy);
      return;
    }
    const fits = (index: number) => !onlyFree || canToggle(lookOf(plan, index, marks));
    const next = nextSeat(plan, at.index, dx, dy, fits);
    if (next >= 0) this.focus({ kind: "seat", index: next });
  }

  /** Sections in their order, then pools, and from the last to the first. */
  private leap(by: number): void {
    const { plan } = this.scene;
    const stops = plan.sections.length + plan.pools.length;
    const at = this.pointed.focus;
    if (!stops) return;
    const now = !at
      ? -1
      : at.kind === "pool"
        ? plan.sections.length + at.index
        : plan.section[at.index]!;
    const next = (now + by + stops) % stops;
    if (next < plan.sections.length) {
      this.focus({ kind: "seat", index: seatOfSection(plan, next) });
    } else this.focus({ kind: "pool", index: next - plan.sections.length });
  }

  private endOfRow(last: boolean): void {
    const { plan } = this.scene;
    const at = this.pointed.focus;
    if (at?.kind !== "seat") return;
    const { seats } = plan.rows[plan.row[at.index]!]!;
    this.focus({ kind: "seat", index: last ? seats.at(-1)! : seats[0]! });
  }
}

function boxOf(points: readonly [number, number][]): Box | null {
  if (!points.length) return null;
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  return {
    left: Math.min(...xs),
    right: Math.max(...xs),
    top: Math.min(...ys),
    bottom: Math.max(...ys),
  };
}

/** How far what both houses have is from where it was: a row in front of all moves everything. */
function moved(before: Plan, after: Plan): [number, number] {
  for (let i = 0; i < before.count; i++) {
    const at = after.indexOf(before.ids[i]!);
    if (at >= 0) return [after.x[at]! - before.x[i]!, after.y[at]! - before.y[i]!];
  }
  return [0, 0];
}

const MOVES: Record<string, readonly [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};
