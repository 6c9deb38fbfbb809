/** uPlot, in the page's colours, as wide as there is room, with a legend that says the values:
 * those of now, or of the moment that is pointed at. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Line {
  label: string;
  /** The name of a custom property of the page, such as --chart-1. */
  color: string;
  fill?: boolean;
  /** Lines are told apart by their dashes too. */
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
  /** For the axis, where there is less room than in the legend. */
  axisFormat?: (value: number) => string;
  /** All that is shown, as text; the title alone without it. */
  summary?: string;
  /** Whether the legend has the last values while nothing is pointed at. */
  values?: boolean;
  /** One upon the other, the first at the bottom: the uppermost line is the sum. */
  stacked?: boolean;
  /** How much of x is shown, up to the last. */
  span?: number;
  /** Charts of one name point at the same moment. */
  together?: string;
  /** The axis of values reaches at least so far. */
  least?: number;
  /** Said where there is nothing to draw. */
  empty?: string;
}

const css = (name: string) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const moment = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

const CORNER_PX = 22;

/** From one time to the next, in seconds. uPlot's own go from one minute to five at once, which on a
 * phone leaves one time on the axis. */
const TIME_STEPS = [1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800];

/** Values between two gaps: a line of one point would not be seen. */
function alone(values: ArrayLike<number | null | undefined>): number[] {
  const found: number[] = [];
  for (let at = 0; at < values.length; at++) {
    if (values[at] != null && values[at - 1] == null && values[at + 1] == null) found.push(at);
  }
  return found;
}

function stack(data: (number | null)[][]): (number | null)[][] {
  const [x = [], ...rows] = data;
  const sums = new Array<number>(x.length).fill(0);
  const piled = rows.map((row) =>
    row.map((value, at) => {
      if (value === null) return null;
      sums[at]! += value;
      return sums[at]!;
    }),
  );
  return [x, ...piled];
}

export function Chart(props: ChartProps) {
  const { title, lines, data, height = 180, time = true, format = String } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [pointed, setPointed] = useState<number | null>(null);
  const drawn = useMemo(() => (props.stacked ? stack(data) : data), [data, props.stacked]);
  const latest = useRef(drawn);
  latest.current = drawn;
  const look = useRef(props);
  look.current = props;

  useEffect(() => {
    const element = box.current!;
    const draw = () => {
      plot.current?.destroy();
      plot.current = make(element, look.current, latest.current, height, setPointed);
    };
    draw();
    const sized = new ResizeObserver(() =>
      plot.current?.setSize({ width: element.clientWidth, height }),
    );
    sized.observe(element);
    const system = matchMedia("(prefers-color-scheme: dark)");
    addEventListener("themechange", draw);
    system.addEventListener("change", draw);
    return () => {
      removeEventListener("themechange", draw);
      system.removeEventListener("change", draw);
      sized.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [height, time, props.stacked, lines.map((line) => line.label).join("\n")]);

  useEffect(() => plot.current?.setData(drawn as uPlot.AlignedData), [drawn]);

  const x = data[0] ?? [];
  const at = pointed !== null && pointed < x.length ? pointed : null;
  const shown = at ?? (props.values ? x.length - 1 : null);
  const nothing = !data.slice(1).some((row) => row.some((value) => value !== null));
  const said = (index: number) => {
    const value = shown === null ? null : (data[index + 1]?.[shown] ?? null);
    return value === null ? "–" : format(value);
  };
  return (
    <div class="chart">
      <ul class="chart-legend" data-at={at === null ? undefined : ""}>
        {lines.map((line, index) => (
          <li key={line.label}>
            <Swatch line={line} area={props.stacked ? index : null} />
            {line.label}
            {shown !== null && <b>{said(index)}</b>}
          </li>
        ))}
        {at !== null && time && <li class="chart-when">{moment.format(x[at]! * 1000)}</li>}
      </ul>
      <div class="chart-plot" ref={box} role="img" aria-label={props.summary ?? title} />
      {nothing && props.empty && <p class="chart-empty">{props.empty}</p>}
    </div>
  );
}

/** A piece of the line itself, or of its area. */
function Swatch({ line, area }: { line: Line; area: number | null }) {
  if (area !== null) {
    const fill = { fill: `var(${line.color})`, fillOpacity: area % 2 ? 0.4 : 1 };
    return (
      <svg class="swatch" viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
        <rect x="1" y="1" width="10" height="10" rx="2" style={fill} />
      </svg>
    );
  }
  return (
    <svg class="swatch" viewBox="0 0 22 8" width="22" height="8" aria-hidden="true">
      <line
        x1="1"
        x2="21"
        y1="4"
        y2="4"
        style={{ stroke: `var(${line.color})` }}
        stroke-dasharray={line.dash?.join(" ")}
      />
    </svg>
  );
}

function make(
  element: HTMLElement,
  props: ChartProps,
  data: (number | null)[][],
  height: number,
  pointed: (index: number | null) => void,
): uPlot {
  const { lines, time = true, format, span, least = 1e-9, stacked, together } = props;
  const axis = {
    stroke: css("--text-soft"),
    grid: { stroke: css("--line"), width: 1 },
    ticks: { show: false },
    font: "12px system-ui, sans-serif",
  };
  const written = props.axisFormat ?? format;
  // A time that would not fit into the corner is left out.
  const times = (drawn: uPlot, splits: number[]) =>
    splits.map((at) => {
      const room = drawn.bbox.width / devicePixelRatio - drawn.valToPos(at, "x");
      return room < CORNER_PX ? null : clock.format(at * 1000);
    });
  return new uPlot(
    {
      width: element.clientWidth,
      height,
      padding: [8, 8, 0, 0],
      cursor: {
        y: false,
        drag: { x: false, y: false },
        ...(together ? { sync: { key: together, setSeries: false } } : {}),
      },
      legend: { show: false },
      scales: {
        x: { time, ...(span ? { range: (_, __, max) => [max - span, max] } : {}) },
        y: { range: (_, __, max) => [0, Math.max(1.12 * (max ?? 0), least)] },
      },
      axes: [
        { ...axis, size: 28, space: 64, ...(time ? { values: times, incrs: TIME_STEPS } : {}) },
        {
          ...axis,
          size: 52,
          space: 36,
          ...(written ? { values: (_: uPlot, splits: number[]) => splits.map(written) } : {}),
        },
      ],
      series: [{}, ...lines.map((line, index) => series(line, stacked ? index : null))],
      ...(stacked
        ? {
            bands: lines
              .slice(1)
              .map((_, index) => ({ series: [index + 2, index + 1] as [number, number] })),
          }
        : {}),
      hooks: { setCursor: [(drawn) => pointed(drawn.cursor.idx ?? null)] },
    },
    data as uPlot.AlignedData,
    element,
  );
}

/** Of areas upon each other every other one is darker, so that they differ in more than hue. */
const AREAS = ["8c", "40"];

function series(line: Line, storey: number | null): uPlot.Series {
  const color = css(line.color);
  const stacked = storey !== null;
  return {
    label: line.label,
    stroke: color,
    width: stacked ? 1.5 : 2,
    points: {
      show: true,
      size: 5,
      fill: color,
      filter: (plot, index) => alone(plot.data[index]!),
    },
    ...(line.dash && !stacked ? { dash: line.dash } : {}),
    ...(stacked ? { fill: color + AREAS[storey % 2]! } : {}),
    ...(line.fill && !stacked ? { fill: `${color}26` } : {}),
  };
}
