/** What pointers and wheels mean: one finger or button pans, two fingers zoom, a wheel zooms, and
 * what hardly moved was a tap. */

export type Gesture =
  | { kind: "start" }
  | { kind: "pan"; dx: number; dy: number }
  | { kind: "zoom"; x: number; y: number; factor: number }
  | { kind: "fling"; vx: number; vy: number }
  | { kind: "tap"; x: number; y: number; touch: boolean }
  | { kind: "hover"; x: number; y: number }
  | { kind: "leave" }
  | { kind: "end" };

const SLACK_PX = 5;
const SLACK_TOUCH_PX = 10;
/** A throw is what a hand did in the last moment. */
const THROW_MS = 90;
const THROW_LEAST_PX_MS = 0.15;
const WHEEL = 0.0016;
const PINCH = 0.01;
const LINE_PX = 16;

interface Finger {
  x: number;
  y: number;
}

export class Gestures {
  private readonly fingers = new Map<number, Finger>();
  private began: Finger | null = null;
  private dragged = false;
  private trail: { x: number; y: number; at: number }[] = [];
  private left = 0;
  private top = 0;
  private readonly undo: () => void;

  constructor(
    private readonly target: HTMLElement,
    private readonly tell: (gesture: Gesture) => void,
    private readonly mayZoom: (closer: boolean) => boolean = () => true,
  ) {
    const stop = new AbortController();
    const options = { signal: stop.signal };
    target.addEventListener("pointerdown", this.down, options);
    target.addEventListener("pointermove", this.moved, options);
    target.addEventListener("pointerup", this.up, options);
    target.addEventListener("pointercancel", this.cancel, options);
    target.addEventListener("pointerleave", this.gone, options);
    target.addEventListener("wheel", this.wheel, { ...options, passive: false });
    this.undo = () => stop.abort();
  }

  /** Somebody has a hand on it. */
  get busy(): boolean {
    return this.dragged && this.fingers.size > 0;
  }

  close(): void {
    this.undo();
  }

  private at(event: MouseEvent): Finger {
    return { x: event.clientX - this.left, y: event.clientY - this.top };
  }

  private measure(): void {
    const box = this.target.getBoundingClientRect();
    this.left = box.left;
    this.top = box.top;
  }

  private readonly down = (event: PointerEvent) => {
    if (event.pointerType === "mouse" && event.button !== 0) return;
    if (this.fingers.size >= 2) return;
    this.measure();
    const finger = this.at(event);
    this.fingers.set(event.pointerId, finger);
    if (this.fingers.size === 1) {
      this.began = finger;
      this.dragged = false;
      this.trail = [{ ...finger, at: event.timeStamp }];
    } else this.dragged = true;
    this.tell({ kind: "start" });
  };

  private readonly moved = (event: PointerEvent) => {
    const before = this.fingers.get(event.pointerId);
    if (!before) {
      if (event.pointerType !== "touch") {
        this.measure();
        this.tell({ kind: "hover", ...this.at(event) });
      }
      return;
    }
    const now = this.at(event);
    if (this.fingers.size === 2) {
      const other = [...this.fingers].find(([id]) => id !== event.pointerId)![1];
      this.fingers.set(event.pointerId, now);
      this.pinch(before, now, other);
      return;
    }
    if (!this.dragged) {
      const slack = event.pointerType === "touch" ? SLACK_TOUCH_PX : SLACK_PX;
      if (Math.hypot(now.x - this.began!.x, now.y - this.began!.y) < slack) return;
      this.dragged = true;
      // From here on it is ours, wherever it goes.
      this.target.setPointerCapture(event.pointerId);
    }
    this.fingers.set(event.pointerId, now);
    this.trail.push({ ...now, at: event.timeStamp });
    while (this.trail[0]!.at < event.timeStamp - THROW_MS) this.trail.shift();
    this.tell({ kind: "pan", dx: now.x - before.x, dy: now.y - before.y });
  };

  private pinch(before: Finger, now: Finger, other: Finger): void {
    const was = Math.hypot(before.x - other.x, before.y - other.y);
    const is = Math.hypot(now.x - other.x, now.y - other.y);
    this.tell({ kind: "pan", dx: (now.x - before.x) / 2, dy: (now.y - before.y) / 2 });
    const [x, y] = [(now.x + other.x) / 2, (now.y + other.y) / 2];
    if (was > 1 && is > 1) this.tell({ kind: "zoom", x, y, factor: is / was });
  }

  private readonly up = (event: PointerEvent) => {
    if (!this.fingers.delete(event.pointerId)) return;
    if (this.fingers.size) {
      // The finger that stays goes on panning; it throws nothing.
      this.trail = [];
      return;
    }
    if (!this.dragged) {
      this.tell({ kind: "tap", ...this.at(event), touch: event.pointerType === "touch" });
      return;
    }
    this.tell({ kind: "end" });
    const [first, last] = [this.trail[0], this.trail.at(-1)];
    if (!first || !last || event.timeStamp - last.at > THROW_MS / 2) return;
    const passed = Math.max(1, last.at - first.at);
    const [vx, vy] = [(last.x - first.x) / passed, (last.y - first.y) / passed];
    if (Math.hypot(vx, vy) > THROW_LEAST_PX_MS) this.tell({ kind: "fling", vx, vy });
  };

  private readonly cancel = (event: PointerEvent) => {
    if (this.fingers.delete(event.pointerId)) this.tell({ kind: "end" });
  };

  private readonly gone = (event: PointerEvent) => {
    if (event.pointerType !== "touch" && !this.fingers.size) this.tell({ kind: "leave" });
  };

  private readonly wheel = (event: WheelEvent) => {
    this.measure();
    const unit = event.deltaMode === 0 ? 1 : event.deltaMode === 1 ? LINE_PX : LINE_PX * 20;
    const [dx, dy] = [event.deltaX * unit, event.deltaY * unit];
    const pinched = event.ctrlKey || event.metaKey;
    if (!pinched && (event.shiftKey || Math.abs(dx) > Math.abs(dy))) {
      event.preventDefault();
      this.tell({ kind: "pan", dx: -(dx || dy), dy: 0 });
      return;
    }
    // At the end of the zoom a wheel scrolls the page, so that nobody is caught above the map.
    if (!pinched && !this.mayZoom(dy < 0)) return;
    event.preventDefault();
    const bounded = Math.max(-400, Math.min(400, dy));
    const fine = pinched && Math.abs(dy) < 50;
    const factor = Math.exp(-bounded * (fine ? PINCH : WHEEL));
    this.tell({ kind: "zoom", ...this.at(event), factor });
  };
}
