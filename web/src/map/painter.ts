/** One picture of the map after the other: a sheet that was drawn before, moved to where the camera
 * is, and what lies upon it. */

import { money, number } from "../format";
import { t } from "../strings";
import type { Camera } from "./camera";
import { LOOKS } from "./glyphs";
import type { Plan, PoolArea, Touched } from "./layout";
import { type Palette, tierColor } from "./palette";
import { MARGIN } from "./places";
import type { Marks } from "./props";
import { NAMES_ABOVE_FROM, type Scene, Sheet } from "./sheet";

/** A sheet reaches so much further than the view, on each side, where there is memory for it. */
const MARGIN_SHARE = 0.35;
const SHEET_PIXELS_MAX = 5_000_000;
/** Drawing ahead must leave time for the picture itself. */
const SLICE_MS = 4;
const SLICE_IDLE_MS = 10;
/** After the last zoom step, before it is drawn sharp. */
const SETTLE_MS = 90;
const NAMES_MAX = 400;
const FONT = 'system-ui, "DejaVu Sans", sans-serif';

export interface Cursor {
  kind: "seat" | "pool";
  index: number;
}

export interface Pointed {
  hover: Cursor | null;
  focus: Cursor | null;
}

interface Name {
  x: number;
  y: number;
  pill: HTMLCanvasElement;
}

interface Drawing {
  sheet: Sheet;
  steps: Generator<void, void, void>;
  /** Changed since it was begun. */
  missed: Set<number>;
}

export class Painter {
  private readonly ctx: CanvasRenderingContext2D;
  private front: Sheet | null = null;
  /** All of the house in one: shown where the front sheet does not reach. */
  private whole: Sheet | null = null;
  private drawing: Drawing | null = null;
  /** The sheet before the last: nobody sees it any more. */
  private spare: Sheet | null = null;
  private marks = new Uint8Array();
  private marked: number[] = [];
  private dpr = 1;
  private zoomedAt = -Infinity;
  private lastScale = 0;
  private pending = new Set<number>();
  private readonly pills = new Map<string, HTMLCanvasElement>();
  private names: { scale: number; shown: Name[] } | null = null;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private plan: Plan,
    private palette: Palette,
    private currency: string,
    private stage: string | null,
  ) {
    this.ctx = canvas.getContext("2d", { alpha: false })!;
    this.enter(plan, currency, stage);
  }

  enter(plan: Plan, currency: string, stage: string | null): void {
    this.plan = plan;
    this.currency = currency;
    this.stage = stage;
    this.marks = new Uint8Array(plan.count);
    this.marked = [];
    this.forget();
  }

  recolor(palette: Palette): void {
    this.palette = palette;
    this.forget();
  }

  resize(width: number, height: number, dpr: number): void {
    this.dpr = dpr;
    const [wide, high] = [Math.round(width * dpr), Math.round(height * dpr)];
    if (this.canvas.width === wide && this.canvas.height === high) return;
    this.canvas.width = wide;
    this.canvas.height = high;
    this.forget();
  }

  private forget(): void {
    this.front = this.whole = this.drawing = this.spare = null;
    this.pending.clear();
    this.pills.clear();
    this.names = null;
  }

  mark({ picked, mine, lost, suggested }: Marks): void {
    const { plan } = this;
    const changed = new Set(this.marked);
    const before = this.marked.map((at) => [at, this.marks[at]!] as const);
    for (const at of this.marked) this.marks[at] = 0;
    this.marked = [];
    for (const [look, ids] of [
      ["suggested", suggested],
      ["lost", lost],
      ["picked", picked],
      ["mine", mine],
    ] as const) {
      for (const id of ids) {
        const at = plan.indexOf(id);
        if (at < 0 || (look === "suggested" && !plan.isFree(at))) continue;
        this.marks[at] = LOOKS.indexOf(look);
        this.marked.push(at);
        changed.add(at);
      }
    }
    for (const [at, look] of before) if (this.marks[at] === look) changed.delete(at);
    this.touch({ seats: [...changed], pools: [] });
  }

  /** Seats that look different from now on. */
  touch({ seats }: Touched): void {
    for (const at of seats) this.pending.add(at);
  }

  /** Draws what the camera sees; true while there is more to be drawn for it. */
  draw(camera: Camera, pointed: Pointed, now: number, moving: boolean): boolean {
    if (camera.scale !== this.lastScale) {
      this.lastScale = camera.scale;
      this.zoomedAt = now;
    }
    this.applyPending();
    this.advance(camera, now, moving);
    const { ctx } = this;
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.fillStyle = this.palette.ground;
    ctx.fillRect(0, 0, this.canvas.width, this.canvas.height);
    const covered = this.front !== null && this.reach(this.front, camera) >= 0;
    if (!covered && this.whole) this.lay(this.whole, camera);
    if (this.front) this.lay(this.front, camera);
    ctx.setTransform(this.dpr, 0, 0, this.dpr, 0, 0);
    this.drawPools(camera, pointed);
    if (camera.scale < NAMES_ABOVE_FROM) this.drawNames(camera);
    this.drawPointed(camera, pointed);
    return this.drawing !== null || this.front?.scale !== camera.scale;
  }

  private applyPending(): void {
    if (!this.pending.size) return;
    this.front?.redraw(this.pending);
    if (this.whole !== this.front) this.whole?.redraw(this.pending);
    for (const at of this.pending) this.drawing?.missed.add(at);
    this.pending.clear();
  }

  // Sheets

  private advance(camera: Camera, now: number, moving: boolean): void {
    if (!this.front) {
      this.begin(camera);
      this.finish(Infinity);
      return;
    }
    if (!this.drawing && this.wantsNew(this.front, camera, now, moving)) this.begin(camera);
    if (this.drawing) this.finish(moving ? SLICE_MS : SLICE_IDLE_MS);
  }

  private wantsNew(front: Sheet, camera: Camera, now: number, moving: boolean): boolean {
    if (front.scale === camera.scale) return this.reach(front, camera) < 0.4;
    const ratio = camera.scale / front.scale;
    const settled = now - this.zoomedAt >= SETTLE_MS && !moving;
    return settled || ratio > 2.2 || ratio < 0.45;
  }

  private begin(camera: Camera): void {
    const { plan, marks, palette, stage, dpr } = this;
    const scene: Scene = { plan, marks, palette, stage, dpr };
    const pitch = camera.scale * dpr;
    const [wide, high] = [this.canvas.width, this.canvas.height];
    const extra = (Math.sqrt(SHEET_PIXELS_MAX / (wide * high)) - 1) / 2;
    const share = Math.max(0.1, Math.min(MARGIN_SHARE, extra));
    const { box } = plan;
    const left = Math.max(
      Math.floor(camera.x * pitch - wide * (0.5 + share)),
      Math.floor(box.left * pitch),
    );
    const top = Math.max(
      Math.floor(camera.y * pitch - high * (0.5 + share)),
      Math.floor(box.top * pitch),
    );
    const right = Math.min(
      Math.ceil(camera.x * pitch + wide * (0.5 + share)),
      Math.ceil(box.right * pitch),
    );
    const bottom = Math.min(
      Math.ceil(camera.y * pitch + high * (0.5 + share)),
      Math.ceil(box.bottom * pitch),
    );
    const width = Math.max(1, right - left);
    const height = Math.max(1, bottom - top);
    const sheet = new Sheet(scene, camera.scale, left, top, width, height);
    this.drawing = { sheet, steps: sheet.draw(this.spare), missed: new Set() };
    this.spare = null;
  }

  private finish(budget: number): void {
    const { sheet, steps, missed } = this.drawing!;
    const until = performance.now() + budget;
    do {
      if (!steps.next().done) continue;
      sheet.redraw(missed);
      this.drawing = null;
      const { box } = this.plan;
      const whole =
        sheet.left <= box.left * sheet.pitch + 1 &&
        sheet.top <= box.top * sheet.pitch + 1 &&
        sheet.left + sheet.width >= box.right * sheet.pitch - 1 &&
        sheet.top + sheet.height >= box.bottom * sheet.pitch - 1;
      const before = this.front;
      if (whole) this.whole = sheet;
      this.front = sheet;
      if (before !== this.whole) this.spare = before;
      return;
    } while (performance.now() < until);
  }

  /** How far the sheet reaches beyond the view where it is shortest, as a share of the margin that
   * it was drawn with; less than 0 if something is not on it. Nothing is beyond the house. */
  private reach(sheet: Sheet, camera: Camera): number {
    const pitch = camera.scale * this.dpr;
    const factor = camera.scale / sheet.scale;
    const { box } = this.plan;
    const [wide, high] = [this.canvas.width, this.canvas.height];
    const [cx, cy] = [camera.x * pitch, camera.y * pitch];
    const room = (gap: number, beyond: boolean, side: number) =>
      beyond ? 1 : gap / (MARGIN_SHARE * side);
    const left = sheet.left * factor;
    const top = sheet.top * factor;
    const right = (sheet.left + sheet.width) * factor;
    const bottom = (sheet.top + sheet.height) * factor;
    return Math.min(
      room(cx - wide / 2 - left, left <= box.left * pitch + 1, wide),
      room(cy - high / 2 - top, top <= box.top * pitch + 1, high),
      room(right - cx - wide / 2, right >= box.right * pitch - 1, wide),
      room(bottom - cy - high / 2, bottom >= box.bottom * pitch - 1, high),
    );
  }

  private lay(sheet: Sheet, camera: Camera): void {
    const { ctx } = this;
    const factor = camera.scale / sheet.scale;
    const pitch = camera.scale * this.dpr;
    const x = sheet.left * factor - camera.x * pitch + this.canvas.width / 2;
    const y = sheet.top * factor - camera.y * pitch + this.canvas.height / 2;
    if (factor === 1) {
      ctx.imageSmoothingEnabled = false;
      ctx.drawImage(sheet.canvas, Math.round(x), Math.round(y));
      return;
    }
    ctx.imageSmoothingEnabled = true;
    ctx.imageSmoothingQuality = "low";
    ctx.drawImage(sheet.canvas, x, y, sheet.width * factor, sheet.height * factor);
  }

  // What lies upon them

  private drawPools(camera: Camera, { hover, focus }: Pointed): void {
    this.plan.pools.forEach((pool, at) => {
      const on = (cursor: Cursor | null) => cursor?.kind === "pool" && cursor.index === at;
      this.drawPool(camera, pool, on(hover), on(focus));
    });
  }

  private drawPool(camera: Camera, pool: PoolArea, hovered: boolean, focused: boolean): void {
    const { ctx, palette } = this;
    const [left, top] = camera.toView(pool.box.left, pool.box.top);
    const [right, bottom] = camera.toView(pool.box.right, pool.box.bottom);
    if (right < 0 || bottom < 0 || left > camera.width || top > camera.height) return;
    const [wide, high] = [right - left, bottom - top];
    const color = tierColor(palette, this.plan.tiers[pool.tier]!.color);
    const round = Math.min(10, wide * 0.08, high * 0.2);
    ctx.beginPath();
    ctx.roundRect(left, top, wide, high, round);
    ctx.fillStyle = palette.section;
    ctx.fill();
    ctx.save();
    ctx.clip();
    ctx.fillStyle = color;
    ctx.globalAlpha = hovered ? 0.26 : 0.16;
    ctx.fillRect(left, top, wide, high);
    // How much is left, as a bar along its lower edge: it needs no colour to be read.
    const bar = Math.max(3, Math.min(8, high * 0.07));
    ctx.globalAlpha = 0.25;
    ctx.fillRect(left, bottom - bar, wide, bar);
    ctx.globalAlpha = 1;
    ctx.fillRect(left, bottom - bar, (wide * pool.available) / Math.max(1, pool.capacity), bar);
    ctx.restore();
    ctx.lineWidth = hovered ? 2 : 1;
    ctx.strokeStyle = color;
    ctx.stroke();
    if (focused) this.ring(() => ctx.roundRect(left - 3, top - 3, wide + 6, high + 6, round + 3));
    this.poolText(pool, left, top, wide, high - bar);
  }

  private poolText(pool: PoolArea, left: number, top: number, wide: number, high: number): void {
    const { ctx, palette } = this;
    if (wide < 44 || high < 14) return;
    const px = Math.min(18, Math.max(11, high * 0.2));
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    const { price } = this.plan.tiers[pool.tier]!;
    const left_ = pool.available
      ? t.map.poolLeft(number(pool.available), number(pool.capacity))
      : t.map.poolFull;
    const lines = [pool.id, left_];
    if (price !== null) lines.push(money(price, this.currency));
    const room = Math.max(1, Math.min(lines.length, Math.floor((high - 6) / (px * 1.4))));
    const shown = room === 1 ? [`${pool.id} · ${left_}`] : lines.slice(0, room);
    const first = top + high / 2 - ((shown.length - 1) * px * 1.35) / 2;
    shown.forEach((line, nth) => {
      ctx.font = `${nth === 0 ? 650 : 450} ${nth === 0 ? px : px * 0.9}px ${FONT}`;
      ctx.fillStyle = nth === 0 ? palette.text : palette.soft;
      ctx.fillText(line, left + wide / 2, first + nth * px * 1.35, wide - 12);
    });
  }

  private drawNames(camera: Camera): void {
    const { ctx, dpr } = this;
    const snap = (at: number) => Math.round(at * dpr) / dpr;
    for (const name of this.namesAt(camera.scale)) {
      const [cx, cy] = camera.toView(name.x, name.y);
      const [wide, high] = [name.pill.width / dpr, name.pill.height / dpr];
      const [left, top] = [snap(cx - wide / 2), snap(cy - high / 2)];
      if (left + wide < 0 || top + high < 0 || left > camera.width || top > camera.height) continue;
      ctx.drawImage(name.pill, left, top, wide, high);
    }
  }

  /** The names that have room at this scale: none over another, whatever part is seen. */
  private namesAt(scale: number): Name[] {
    if (this.names?.scale === scale) return this.names.shown;
    const shown: Name[] = [];
    for (const { id, box } of this.plan.sections) {
      const pill = this.pill(id);
      const [wide, high] = [pill.width / this.dpr / scale, pill.height / this.dpr / scale];
      const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
      const room =
        wide <= (box.right - box.left + 2 * MARGIN) * 1.05 &&
        high <= (box.bottom - box.top + 2 * MARGIN) * 1.1 &&
        shown.length < NAMES_MAX &&
        !shown.some((other) => Math.abs(other.x - x) < wide && Math.abs(other.y - y) < high);
      if (room) shown.push({ x, y, pill });
    }
    this.names = { scale, shown };
    return shown;
  }

  private pill(text: string): HTMLCanvasElement {
    const known = this.pills.get(text);
    if (known) return known;
    const { palette, dpr } = this;
    const canvas = document.createElement("canvas");
    const ctx = canvas.getContext("2d")!;
    const font = `650 11px ${FONT}`;
    ctx.font = font;
    const [wide, high] = [Math.ceil(ctx.measureText(text).width) + 12, 18];
    canvas.width = Math.ceil(wide * dpr);
    canvas.height = Math.ceil(high * dpr);
    ctx.scale(dpr, dpr);
    ctx.globalAlpha = 0.9;
    ctx.fillStyle = palette.card;
    ctx.beginPath();
    ctx.roundRect(0.5, 0.5, wide - 1, high - 1, 8.5);
    ctx.fill();
    ctx.globalAlpha = 1;
    ctx.strokeStyle = palette.line;
    ctx.lineWidth = 1;
    ctx.stroke();
    ctx.font = font;
    ctx.fillStyle = palette.text;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    ctx.fillText(text, wide / 2, high / 2 + 0.5);
    this.pills.set(text, canvas);
    return canvas;
  }

  private drawPointed(camera: Camera, { hover, focus }: Pointed): void {
    const { ctx, plan, palette } = this;
    const around = (index: number, radius: number) => {
      const [x, y] = camera.toView(plan.x[index]!, plan.y[index]!);
      ctx.moveTo(x + radius, y);
      ctx.arc(x, y, radius, 0, 2 * Math.PI);
    };
    if (hover?.kind === "seat") {
      ctx.beginPath();
      around(hover.index, Math.max(4, camera.scale * 0.5));
      ctx.strokeStyle = palette.text;
      ctx.lineWidth = Math.min(2, Math.max(1.5, camera.scale * 0.08));
      ctx.stroke();
    }
    if (focus?.kind === "seat") {
      this.ring(() => around(focus.index, Math.max(6, camera.scale * 0.58)));
    }
  }

  /** Two colours, so that it is seen on any ground. */
  private ring(shape: () => void): void {
    const { ctx, palette } = this;
    for (const [color, width] of [
      [palette.card, 6],
      [palette.focus, 3],
    ] as const) {
      ctx.beginPath();
      shape();
      ctx.strokeStyle = color;
      ctx.lineWidth = width;
      ctx.stroke();
    }
  }
}
