/** A house, small: its seats as points in the colours of their prices. */

import { useEffect, useRef } from "preact/hooks";
import type { Plan } from "../map/layout";
import { readPalette, tierColor } from "../map/palette";

const WIDTH = 248;
const HEIGHT = 140;
const EDGE = 10;

export function Thumbnail({ plan }: { plan: Plan | null }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    if (!plan) return;
    const draw = () => paint(canvas.current!, plan);
    draw();
    addEventListener("themechange", draw);
    return () => removeEventListener("themechange", draw);
  }, [plan]);
  return <canvas ref={canvas} class="thumbnail" width={WIDTH * 2} height={HEIGHT * 2} />;
}

function paint(canvas: HTMLCanvasElement, plan: Plan): void {
  const pen = canvas.getContext("2d")!;
  const colors = readPalette(canvas);
  const { left, top, right, bottom } = plan.box;
  const scale = Math.min(
    (canvas.width - 4 * EDGE) / (right - left),
    (canvas.height - 4 * EDGE) / (bottom - top),
  );
  const dx = (canvas.width - (right - left) * scale) / 2 - left * scale;
  const dy = (canvas.height - (bottom - top) * scale) / 2 - top * scale;
  pen.clearRect(0, 0, canvas.width, canvas.height);
  const area = (box: Plan["box"], color: string, opacity: number) => {
    pen.globalAlpha = opacity;
    pen.fillStyle = color;
    pen.beginPath();
    const [width, height] = [(box.right - box.left) * scale, (box.bottom - box.top) * scale];
    pen.roundRect(box.left * scale + dx, box.top * scale + dy, width, height, 8);
    pen.fill();
    pen.globalAlpha = 1;
  };
  if (plan.stage) area(plan.stage, colors.stage, 1);
  for (const pool of plan.pools) {
    area(pool.box, tierColor(colors, plan.tiers[pool.tier]?.color ?? 0), 1);
    const [middle, half] = [
      (pool.box.left + pool.box.right) / 2,
      (pool.box.top + pool.box.bottom) / 2,
    ];
    const room = (pool.box.right - pool.box.left) * scale - 12;
    pen.font = "600 22px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillStyle = colors.seatText;
    if (pen.measureText(pool.id).width <= room) {
      pen.fillText(pool.id, middle * scale + dx, half * scale + dy);
    }
  }
  // Points that are smaller than the space between them make a pattern that is not there.
  const size = scale < 3 ? Math.max(1.2, scale) : scale * 0.76;
  plan.tiers.forEach((tier, at) => {
    pen.fillStyle = tierColor(colors, tier.color);
    pen.beginPath();
    for (let i = 0; i < plan.count; i += 1) {
      if (plan.tier[i] !== at) continue;
      const [x, y] = [plan.x[i]! * scale + dx, plan.y[i]! * scale + dy];
      if (size < 4) pen.rect(x - size / 2, y - size / 2, size, size);
      else {
        pen.moveTo(x + size / 2, y);
        pen.arc(x, y, size / 2, 0, 7);
      }
    }
    pen.fill();
  });
}
