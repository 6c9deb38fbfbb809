/** A part of the house as a picture, somewhat larger than what is seen, so that moving it is all
 * that moving around takes. It is drawn in slices between pictures, and single seats again in it. */

import { Glyphs, stamp } from "./glyphs";
import type { Plan } from "./layout";
import { type NamedPlace, placesOfNames } from "./names";
import type { Palette } from "./palette";
import { MARGIN } from "./places";

/** What is done before whoever draws is asked whether there is time for more: in pixels. */
const SLICE_PIXELS = 150_000;
/** From here on, in CSS pixels a seat, a seat has its number on it. */
const NUMBERS_FROM = 21;
const ROW_NAMES_FROM = 13;
/** From here on a section's name stands above it; from further away it lies upon it. */
export const NAMES_ABOVE_FROM = 9;
/** The rows of a box are plain to see, and their names would be as large as it is. */
const NAMED_ROW_LEAST = 4;
/** More seats at once than this, and all of the picture is sent again. */
const PIECES_MAX = 1_200;

/** What is to be drawn, and how. */
export interface Scene {
  plan: Plan;
  /** A code of LOOKS for each seat that is not just in its state, else 0. */
  marks: Uint8Array;
  palette: Palette;
  stage: string | null;
  dpr: number;
}

export class Sheet {
  readonly canvas: HTMLCanvasElement;
  private readonly context: CanvasRenderingContext2D;
  private image: ImageData | null = null;
  private pixels = new Uint32Array();
  private base = new Uint32Array();
  private glyphs: Glyphs;
  private names: NamedPlace[] | null = null;
  private readonly numbered: boolean;
  private readonly colors: Uint16Array;

  constructor(
    private readonly scene: Scene,
    /** CSS pixels a seat. */
    readonly scale: number,
    /** Its upper left corner in the house, in device pixels at this scale. */
    readonly left: number,
    readonly top: number,
    readonly width: number,
    readonly height: number,
  ) {
    this.canvas = document.createElement("canvas");
    this.canvas.width = width;
    this.canvas.height = height;
    this.context = this.canvas.getContext("2d", { alpha: false, willReadFrequently: true })!;
    this.glyphs = new Glyphs(this.pitch, scene.palette);
    this.numbered = scale >= NUMBERS_FROM;
    this.colors = Uint16Array.from(scene.plan.tiers, (tier) => tier.color);
  }

  /** Device pixels a seat. */
  get pitch(): number {
    return this.scale * this.scene.dpr;
  }

  /** Draws all of it; whoever steps through decides when to go on. A sheet that is not needed any
   * more may give its memory: to get new memory from the system takes longer than to draw. */
  *draw(old: Sheet | null = null): Generator<void, void, void> {
    const { width, height, context } = this;
    const room = width * height;
    this.base = take(old?.base, room);
    this.pixels = take(old?.pixels, room);
    if (old) old.base = old.pixels = new Uint32Array();
    const band = Math.max(32, Math.floor(SLICE_PIXELS / width));
    for (let top = 0; top < height; top += band) {
      const high = Math.min(band, height - top);
      context.save();
      context.beginPath();
      context.rect(0, top, width, high);
      context.clip();
      this.ground(top, top + high);
      context.restore();
      const drawn = context.getImageData(0, top, width, high).data;
      const its = new Uint32Array(drawn.buffer, drawn.byteOffset, width * high);
      this.base.set(its, top * width);
      this.pixels.set(its, top * width);
      yield;
    }
    this.image = new ImageData(
      new Uint8ClampedArray(this.pixels.buffer as ArrayBuffer, 0, 4 * room),
      width,
      height,
    );
    const { x, y, count } = this.scene.plan;
    const { pitch } = this;
    const slice = Math.max(50, Math.floor(SLICE_PIXELS / this.glyphs.size ** 2));
    let since = 0;
    for (let i = 0; i < count; i++) {
      const cx = x[i]! * pitch - this.left;
      const cy = y[i]! * pitch - this.top;
      if (cx < -pitch || cy < -pitch || cx > width + pitch || cy > height + pitch) continue;
      this.seat(i, cx, cy, 0, 0, width, height);
      if (++since === slice) {
        since = 0;
        yield;
      }
    }
    context.putImageData(this.image, 0, 0);
  }

  /** These seats again: what is under them, then they and whoever reaches into their place. */
  redraw(seats: Iterable<number>): void {
    if (!this.image) return;
    const pieces: [number, number, number, number][] = [];
    for (const at of seats) {
      const piece = this.redrawOne(at);
      if (piece) pieces.push(piece);
    }
    if (pieces.length > PIECES_MAX) this.context.putImageData(this.image, 0, 0);
    else for (const piece of pieces) this.context.putImageData(this.image, 0, 0, ...piece);
  }

  private redrawOne(at: number): [number, number, number, number] | null {
    const { plan } = this.scene;
    const { pitch, width } = this;
    const cx = plan.x[at]! * pitch - this.left;
    const cy = plan.y[at]! * pitch - this.top;
    const left = Math.max(0, Math.floor(cx - pitch * 0.56));
    const top = Math.max(0, Math.floor(cy - pitch * 0.56));
    const right = Math.min(width, Math.ceil(cx + pitch * 0.56));
    const bottom = Math.min(this.height, Math.ceil(cy + pitch * 0.56));
    if (left >= right || top >= bottom) return null;
    for (let y = top; y < bottom; y++) {
      const from = y * width;
      this.pixels.set(this.base.subarray(from + left, from + right), from + left);
    }
    const near = 1 + 2 / pitch;
    plan.grid.within(plan.x[at]!, plan.y[at]!, near, (i) => {
      const [sx, sy] = [plan.x[i]! * pitch - this.left, plan.y[i]! * pitch - this.top];
      this.seat(i, sx, sy, left, top, right, bottom);
    });
    return [left, top, right - left, bottom - top];
  }

  private seat(
    i: number,
    cx: number,
    cy: number,
    left: number,
    top: number,
    right: number,
    bottom: number,
  ): void {
    const { plan, marks } = this.scene;
    const look = marks[i]! || plan.state[i]!;
    const flags = plan.flags[i]!;
    const glyph = this.glyphs.get(look, this.colors[plan.tier[i]!]!, flags);
    stamp(glyph, cx, cy, this.pixels, this.width, left, top, right, bottom);
    // A wheelchair has its sign there.
    if (!this.numbered || look !== 0 || flags & 1) return;
    const number = plan.number[i]!;
    if (number > 9_999) return;
    const label = this.glyphs.label(String(number));
    stamp(label, cx, cy, this.pixels, this.width, left, top, right, bottom);
  }

  /** Everything that does not change while the sale goes on, from one line to another. */
  private ground(from: number, to: number): void {
    const { palette, plan, stage } = this.scene;
    const ctx = this.context;
    const { pitch } = this;
    ctx.fillStyle = palette.ground;
    ctx.fillRect(0, from, this.width, to - from);
    ctx.setTransform(pitch, 0, 0, pitch, -this.left, -this.top);
    ctx.lineJoin = ctx.lineCap = "round";
    const line = Math.max(1 / this.scale, 0.02);
    for (const section of plan.sections) {
      const { box } = section;
      const inside =
        (box.right + 1) * pitch > this.left &&
        (box.left - 1) * pitch < this.left + this.width &&
        (box.bottom + 1) * pitch > this.top + from &&
        (box.top - 1) * pitch < this.top + to;
      if (!inside) continue;
      const path = pathOf(section.outline);
      ctx.strokeStyle = palette.line;
      ctx.lineWidth = 2 * (MARGIN + line);
      ctx.stroke(path);
      ctx.strokeStyle = ctx.fillStyle = palette.section;
      ctx.lineWidth = 2 * MARGIN;
      ctx.stroke(path);
      ctx.fill(path);
    }
    if (plan.stage && stage !== null) {
      const { top, bottom } = plan.stage;
      const inside = (bottom + 1) * pitch > this.top + from && top * pitch < this.top + to;
      if (inside) this.stage(stage);
    }
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    if (this.scale >= NAMES_ABOVE_FROM) this.sectionNames(from, to);
    if (this.scale >= ROW_NAMES_FROM) this.rowNames(from, to);
  }

  private stage(name: string): void {
    const { plan, palette } = this.scene;
    const ctx = this.context;
    const { left, right, top, bottom } = plan.stage!;
    const [wide, high] = [right - left, bottom - top];
    ctx.fillStyle = palette.stage;
    ctx.beginPath();
    if (top < plan.sections[0]!.box.top && high < wide / 4) {
      // In front: its edge bends towards those who watch.
      const bend = Math.min(high * 0.5, wide * 0.05);
      const round = high * 0.2;
      ctx.moveTo(left + round, top);
      ctx.lineTo(right - round, top);
      ctx.quadraticCurveTo(right, top, right, top + round);
      ctx.lineTo(right, bottom - bend);
      ctx.quadraticCurveTo((left + right) / 2, bottom + bend, left, bottom - bend);
      ctx.lineTo(left, top + round);
      ctx.quadraticCurveTo(left, top, left + round, top);
    } else ctx.roundRect(left, top, wide, high, Math.min(wide, high) * 0.12);
    ctx.fill();
    const px = Math.max(11 / this.scale, Math.min(high * 0.42, wide * 0.08));
    if (px > high * 0.8 && px * this.scale <= 11) return;
    ctx.save();
    ctx.translate((left + right) / 2, (top + bottom) / 2);
    // Text is set in whole pixels, so not at the scale of the house.
    ctx.scale(1 / this.scale, 1 / this.scale);
    ctx.fillStyle = palette.soft;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    ctx.font = `600 ${px * this.scale}px system-ui, "DejaVu Sans", sans-serif`;
    ctx.letterSpacing = `${px * this.scale * 0.12}px`;
    ctx.fillText(name.toUpperCase(), 0, 0);
    ctx.letterSpacing = "0px";
    ctx.restore();
  }

  private sectionNames(from: number, to: number): void {
    const { plan, palette, dpr } = this.scene;
    const ctx = this.context;
    const px = Math.min(Math.max(9.5, this.scale * 0.5), 15) * dpr;
    ctx.font = `600 ${px}px system-ui, "DejaVu Sans", sans-serif`;
    ctx.fillStyle = palette.soft;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    this.names ??= placesOfNames(
      plan,
      px / this.pitch,
      (name) => ctx.measureText(name).width / this.pitch,
    );
    for (const { name, x, y } of this.names) {
      const cx = x * this.pitch - this.left;
      const cy = y * this.pitch - this.top;
      if (cx < -200 || cy < from - 30 || cx > this.width + 200 || cy > to + 30) continue;
      ctx.fillText(name, cx, cy);
    }
  }

  private rowNames(from: number, to: number): void {
    const { plan, palette, dpr } = this.scene;
    const ctx = this.context;
    ctx.font = `${Math.min(Math.max(9.5, this.scale * 0.4), 13) * dpr}px system-ui, "DejaVu Sans", sans-serif`;
    ctx.fillStyle = palette.soft;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    for (const { name, seats } of plan.rows) {
      if (seats.length < NAMED_ROW_LEAST) continue;
      for (const [end, next] of [
        [seats[0]!, seats[1]!],
        [seats.at(-1)!, seats.at(-2)!],
      ] as const) {
        // Further along the row's own line: rows may be bent.
        const [dx, dy] = [plan.x[end]! - plan.x[next]!, plan.y[end]! - plan.y[next]!];
        const far = (MARGIN + 0.45) / (Math.hypot(dx, dy) || 1);
        const cx = (plan.x[end]! + dx * far) * this.pitch - this.left;
        const cy = (plan.y[end]! + dy * far) * this.pitch - this.top;
        if (cx < -20 || cy < from - 30 || cx > this.width + 20 || cy > to + 30) continue;
        ctx.fillText(name, cx, cy);
      }
    }
  }
}

/** So many numbers, in memory that is there if it is enough. */
function take(given: Uint32Array<ArrayBuffer> | undefined, room: number): Uint32Array<ArrayBuffer> {
  if (given && given.buffer.byteLength >= 4 * room) return new Uint32Array(given.buffer, 0, room);
  return new Uint32Array(room);
}

const paths = new WeakMap<Float32Array, Path2D>();

function pathOf(outline: Float32Array): Path2D {
  let path = paths.get(outline);
  if (!path) {
    path = new Path2D();
    for (let at = 0; at < outline.length; at += 2) path.lineTo(outline[at]!, outline[at + 1]!);
    path.closePath();
    paths.set(outline, path);
  }
  return path;
}
