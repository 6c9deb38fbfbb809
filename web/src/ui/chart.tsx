/** uPlot, in the page's colours, as wide as there is room. */

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Line {
  label: string;
  /** The name of a custom property of the page, such as --chart-1. */
  color: string;
  fill?: boolean;
  dash?: number[];
}

export interface ChartProps {
  title: string;
  lines: Line[];
  /** The first row is x (seconds since 1970 when `time`), then one row a line. */
  data: (number | null)[][];
  height?: number;
  time?: boolean;
  format?: (value: number) => string;
}

const css = (name: string) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function Chart({ title, lines, data, height = 180, time = true, format }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);

  useEffect(() => {
    const element = box.current!;
    const draw = () => {
      plot.current?.destroy();
      const axis = {
        stroke: css("--text-soft"),
        grid: { stroke: css("--line"), width: 1 },
        ticks: { show: false },
        font: "12px system-ui, sans-serif",
      };
      const values = format ? (_: uPlot, splits: number[]) => splits.map(format) : undefined;
      plot.current = new uPlot(
        {
          width: element.clientWidth,
          height,
          cursor: { drag: { x: false, y: false } },
          legend: { live: false },
          scales: { x: { time }, y: { range: (_, __, max) => [0, Math.max(max * 1.1, 1e-9)] } },
          axes: [axis, { ...axis, size: 56, ...(values ? { values } : {}) }],
          series: [
            {},
            ...lines.map((line) => ({
              label: line.label,
              stroke: css(line.color),
              width: 2,
              points: { show: false },
              ...(line.dash ? { dash: line.dash } : {}),
              ...(line.fill ? { fill: `${css(line.color)}26` } : {}),
            })),
          ],
        },
        data as uPlot.AlignedData,
        element,
      );
    };
    draw();
    const sized = new ResizeObserver(() =>
      plot.current?.setSize({ width: element.clientWidth, height }),
    );
    sized.observe(element);
    addEventListener("themechange", draw);
    return () => {
      removeEventListener("themechange", draw);
      sized.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [height, lines.map((line) => line.label).join()]);

  useEffect(() => plot.current?.setData(data as uPlot.AlignedData), [data]);

  return <div class="chart" ref={box} role="img" aria-label={title} />;
}
