/** Seats as small pictures, drawn once for each size, and stamped into pixels from then on: tens of
 * thousands of them take a few milliseconds, on any machine. */

import { ACCESSIBLE, COMPANION, RESTRICTED } from "./layout";
import { type Palette, tierColor } from "./palette";
import type { Look } from "./props";

/** In the order of the codes that a sheet keeps for each seat; the first three are states. */
export const LOOKS: readonly Look[] = [
  "available",
  "held",
  "sold",
  "picked",
  "mine",
  "lost",
  "suggested",
];

/** Smaller than this, in device pixels a seat, and a picture is a block of its colour. */
const BLOCKS_BELOW = 6;
const SYMBOLS_FROM = 17;

export interface Glyph {
  /** Width and height. */
  size: number;
  /** How many places between two pixels it was drawn at, each way. */
  phases: number;
  /** One picture after the other, RGBA as it is in memory. */
  pixels: Uint32Array;
}

export class Glyphs {
  private readonly known = new Map<number, Glyph>();
  private readonly digits = new Map<string, Glyph>();
  readonly size: number;
  readonly phases: number;
  private readonly context: CanvasRenderingContext2D;

  constructor(
    /** Device pixels from seat to seat. */
    readonly pitch: number,
    private readonly palette: Palette,
  ) {
    this.size = Math.ceil(pitch * 1.04) + 2;
    this.phases = pitch < 18 ? 4 : pitch < 40 ? 2 : 1;
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = this.size * this.phases;
    this.context = canvas.getContext("2d", { willReadFrequently: true })!;
  }

  get(look: number, color: number, flags: number): Glyph {
    const key = (color * 8 + look) * 8 + flags;
    let glyph = this.known.get(key);
    if (!glyph) {
      glyph = this.draw((ctx) =>
        drawSeat(ctx, LOOKS[look]!, this.pitch, flags, color, this.palette),
      );
      this.known.set(key, glyph);
    }
    return glyph;
  }

  /** A seat's number, as large as fits into it. */
  label(text: string): Glyph {
    let glyph = this.digits.get(text);
    if (!glyph) {
      glyph = this.draw((ctx) => {
        const px = this.pitch * (text.length < 3 ? 0.38 : 0.9 / text.length);
        ctx.font = `600 ${px}px system-ui, "DejaVu Sans", sans-serif`;
        ctx.textAlign = "center";
        ctx.textBaseline = "alphabetic";
        ctx.fillStyle = this.palette.seatText;
        ctx.fillText(text, 0, px * 0.36);
      });
      this.digits.set(text, glyph);
    }
    return glyph;
  }

  /** Draws around the origin, once for each phase. */
  private draw(paint: (ctx: CanvasRenderingContext2D) => void): Glyph {
    const { size, phases, context } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, size * phases, size * phases);
    for (let v = 0; v < phases; v++) {
      for (let h = 0; h < phases; h++) {
        context.save();
        context.beginPath();
        context.rect(h * size, v * size, size, size);
        context.clip();
        context.translate(h * size + size / 2 + h / phases, v * size + size / 2 + v / phases);
        paint(context);
        context.restore();
      }
    }
    const whole = size * phases;
    const drawn = new Uint32Array(context.getImageData(0, 0, whole, whole).data.buffer);
    const pixels = new Uint32Array(whole * whole);
    let at = 0;
    for (let phase = 0; phase < phases * phases; phase++) {
      const top = Math.floor(phase / phases) * size;
      const left = (phase % phases) * size;
      for (let row = 0; row < size; row++, at += size) {
        const from = (top + row) * whole + left;
        pixels.set(drawn.subarray(from, from + size), at);
      }
    }
    return { size, phases, pixels };
  }
}

/** A seat around the origin, `pitch` from its neighbours. The legend draws the same ones. */
export function drawSeat(
  ctx: CanvasRenderingContext2D,
  look: Look,
  pitch: number,
  flags: number,
  color: number,
  palette: Palette,
): void {
  const tier = tierColor(palette, color);
  if (pitch < BLOCKS_BELOW) drawBlock(ctx, look, pitch, tier, palette);
  else SHAPES[look](ctx, pitch, tier, palette, flags);
}

type Shape = (
  ctx: CanvasRenderingContext2D,
  pitch: number,
  tier: string,
  palette: Palette,
  flags: number,
) => void;

const SHAPES: Record<Look, Shape> = {
  available: (ctx, pitch, tier, palette, flags) => {
    ctx.fillStyle = tier;
    body(ctx, pitch * 0.41, flags);
    ctx.fill();
    if (flags & RESTRICTED) cut(ctx, pitch);
    if (flags & ACCESSIBLE && pitch >= SYMBOLS_FROM) wheelchair(ctx, pitch * 0.4, palette.seatText);
  },
  held: (ctx, pitch, _, palette) => {
    ctx.strokeStyle = ctx.fillStyle = palette.held;
    ctx.lineWidth = Math.max(1, pitch * 0.085);
    disc(ctx, pitch * 0.33);
    ctx.stroke();
    disc(ctx, Math.max(0.8, pitch * 0.1));
    ctx.fill();
  },
  sold: (ctx, pitch, _, palette) => {
    const arm = pitch * 0.17;
    ctx.strokeStyle = palette.sold;
    ctx.lineWidth = Math.max(1, pitch * 0.1);
    ctx.lineCap = "round";
    ctx.beginPath();
    ctx.moveTo(-arm, -arm);
    ctx.lineTo(arm, arm);
    ctx.moveTo(arm, -arm);
    ctx.lineTo(-arm, arm);
    ctx.stroke();
  },
  picked: (ctx, pitch, tier, palette, flags) => {
    ctx.fillStyle = tier;
    body(ctx, pitch * 0.29, flags);
    ctx.fill();
    ctx.strokeStyle = palette.accent;
    ctx.lineWidth = Math.max(1.2, pitch * 0.1);
    body(ctx, pitch * 0.43, flags);
    ctx.stroke();
  },
  mine: (ctx, pitch, _, palette, flags) => {
    ctx.fillStyle = palette.accent;
    body(ctx, pitch * 0.46, flags);
    ctx.fill();
    ctx.strokeStyle = palette.onAccent;
    ctx.lineWidth = Math.max(1.2, pitch * 0.11);
    ctx.lineCap = ctx.lineJoin = "round";
    ctx.beginPath();
    ctx.moveTo(-pitch * 0.2, pitch * 0.02);
    ctx.lineTo(-pitch * 0.05, pitch * 0.17);
    ctx.lineTo(pitch * 0.21, -pitch * 0.15);
    ctx.stroke();
  },
  lost: (ctx, pitch, _, palette) => {
    const reach = pitch * 0.49;
    ctx.fillStyle = palette.bad;
    ctx.beginPath();
    ctx.moveTo(0, -reach);
    ctx.lineTo(reach, 0);
    ctx.lineTo(0, reach);
    ctx.lineTo(-reach, 0);
    ctx.closePath();
    ctx.fill();
    ctx.fillStyle = palette.card;
    const thick = Math.max(1, pitch * 0.1);
    ctx.fillRect(-thick / 2, -pitch * 0.25, thick, pitch * 0.28);
    ctx.fillRect(-thick / 2, pitch * 0.1, thick, thick);
  },
  suggested: (ctx, pitch, tier, palette, flags) => {
    ctx.fillStyle = tier;
    body(ctx, pitch * 0.31, flags);
    ctx.fill();
    ctx.strokeStyle = palette.seatText;
    ctx.lineWidth = Math.max(1, pitch * 0.09);
    ctx.beginPath();
    ctx.moveTo(-pitch * 0.15, 0);
    ctx.lineTo(pitch * 0.15, 0);
    ctx.moveTo(0, -pitch * 0.15);
    ctx.lineTo(0, pitch * 0.15);
    ctx.stroke();
    ctx.strokeStyle = palette.good;
    ctx.lineWidth = Math.max(1.2, pitch * 0.09);
    ctx.setLineDash([pitch * 0.2, pitch * 0.137]);
    body(ctx, pitch * 0.43, flags);
    ctx.stroke();
    ctx.setLineDash([]);
  },
};

/** From far away: how full a block is tells the states apart. */
function drawBlock(
  ctx: CanvasRenderingContext2D,
  look: Look,
  pitch: number,
  tier: string,
  palette: Palette,
): void {
  const [color, width, alpha] = (
    {
      available: [tier, 0.84, 1],
      held: [palette.held, 0.62, 0.7],
      sold: [palette.sold, 0.4, 0.8],
      picked: [palette.accent, 1.04, 1],
      mine: [palette.accent, 1.04, 1],
      lost: [palette.bad, 1.04, 1],
      suggested: [palette.good, 1.04, 1],
    } as const
  )[look];
  ctx.globalAlpha = alpha;
  ctx.fillStyle = color;
  ctx.fillRect((-pitch * width) / 2, (-pitch * width) / 2, pitch * width, pitch * width);
}

function disc(ctx: CanvasRenderingContext2D, radius: number): void {
  ctx.beginPath();
  ctx.arc(0, 0, radius, 0, 2 * Math.PI);
}

/** Round, or with corners where a wheelchair or its company has its place. */
function body(ctx: CanvasRenderingContext2D, radius: number, flags: number): void {
  if (!(flags & (ACCESSIBLE | COMPANION))) {
    disc(ctx, radius);
    return;
  }
  ctx.beginPath();
  ctx.roundRect(-radius, -radius, 2 * radius, 2 * radius, radius * 0.35);
}

/** Something is in the way. */
function cut(ctx: CanvasRenderingContext2D, pitch: number): void {
  ctx.save();
  ctx.globalCompositeOperation = "destination-out";
  ctx.lineWidth = Math.max(1, pitch * 0.08);
  ctx.beginPath();
  ctx.moveTo(-pitch * 0.5, pitch * 0.27);
  ctx.lineTo(pitch * 0.5, pitch * 0.27);
  ctx.stroke();
  ctx.restore();
}

function wheelchair(ctx: CanvasRenderingContext2D, reach: number, color: string): void {
  ctx.strokeStyle = ctx.fillStyle = color;
  ctx.lineWidth = Math.max(1, reach * 0.17);
  ctx.lineCap = ctx.lineJoin = "round";
  ctx.beginPath();
  ctx.arc(-reach * 0.08, -reach * 0.62, reach * 0.14, 0, 2 * Math.PI);
  ctx.fill();
  ctx.beginPath();
  ctx.moveTo(-reach * 0.08, -reach * 0.36);
  ctx.lineTo(-reach * 0.08, reach * 0.12);
  ctx.lineTo(reach * 0.3, reach * 0.12);
  ctx.lineTo(reach * 0.46, reach * 0.55);
  ctx.moveTo(-reach * 0.08, -reach * 0.14);
  ctx.lineTo(reach * 0.28, -reach * 0.14);
  ctx.stroke();
  ctx.beginPath();
  ctx.arc(-reach * 0.1, reach * 0.28, reach * 0.36, 0.35, Math.PI * 1.35);
  ctx.stroke();
}

/** Puts one picture of a glyph over opaque pixels, inside a clip given by its edges. */
export function stamp(
  glyph: Glyph,
  cx: number,
  cy: number,
  to: Uint32Array,
  width: number,
  left: number,
  top: number,
  right: number,
  bottom: number,
): void {
  const { size, phases, pixels } = glyph;
  const fx = cx - size / 2;
  const fy = cy - size / 2;
  let x0 = Math.floor(fx);
  let y0 = Math.floor(fy);
  let h = Math.round((fx - x0) * phases);
  let v = Math.round((fy - y0) * phases);
  if (h === phases) {
    h = 0;
    x0 += 1;
  }
  if (v === phases) {
    v = 0;
    y0 += 1;
  }
  const first = (v * phases + h) * size * size;
  const fromX = Math.max(0, left - x0);
  const toX = Math.min(size, right - x0);
  const toY = Math.min(size, bottom - y0);
  for (let y = Math.max(0, top - y0); y < toY; y++) {
    let from = first + y * size + fromX;
    let at = (y0 + y) * width + x0 + fromX;
    for (let x = fromX; x < toX; x++, from++, at++) {
      const source = pixels[from]!;
      const alpha = source >>> 24;
      if (alpha === 255) to[at] = source;
      else if (alpha !== 0) {
        // Red and blue at once: neither overflows into the other.
        const a = alpha + (alpha >>> 7);
        const under = to[at]!;
        const redBlue =
          ((Math.imul(source & 0xff00ff, a) + Math.imul(under & 0xff00ff, 256 - a)) >>> 8) &
          0xff00ff;
        const green =
          ((Math.imul(source & 0xff00, a) + Math.imul(under & 0xff00, 256 - a)) >>> 8) & 0xff00;
        to[at] = 0xff000000 | redBlue | green;
      }
    }
  }
}
