import { useMemo } from "preact/hooks";
import { milliseconds } from "../format";
import { t } from "../strings";
import { Chart, type Line } from "../ui/chart";
import { namesOf, type Point, WINDOW_SECONDS } from "./history";
import { rate, short } from "./rates";

const HEIGHT = 168;
const NAMES_MAX = 5;
/** Of the first, second, ... line: told apart without colour. */
const DASHES: (number[] | undefined)[] = [undefined, [6, 4], [2, 3], [10, 3, 2, 3], [1, 4]];

interface PlotProps {
  title: string;
  unit: string;
  points: Point[];
  lines: Line[];
  rows: (number | null)[][];
  format?: (value: number) => string;
  axisFormat?: (value: number) => string;
  stacked?: boolean;
  least?: number;
  empty?: string;
}

export function Charts({ points }: { points: Point[] }) {
  const words = t.ops.charts;
  return (
    <section class="ops-charts" aria-label={words.label}>
      <Plot
        title={words.sales}
        unit={words.unit.perSecond}
        points={points}
        lines={[
          { label: words.holds, color: "--chart-1", fill: true },
          { label: words.sold, color: "--chart-2", dash: [6, 4] },
        ]}
        rows={[points.map((point) => point.holds), points.map((point) => point.sales)]}
        least={4}
      />
      <Refusals points={points} />
      <Plot
        title={words.latency}
        unit={words.unit.time}
        points={points}
        lines={[
          { label: words.p50, color: "--chart-1" },
          { label: words.p99, color: "--chart-3", dash: [6, 4] },
        ]}
        rows={[points.map((point) => point.p50), points.map((point) => point.p99)]}
        format={milliseconds}
        axisFormat={milliseconds}
        least={5}
        empty={words.noHolds}
      />
      <Plot
        title={words.batch}
        unit={words.unit.commands}
        points={points}
        lines={[
          { label: words.batchMean, color: "--chart-1", fill: true },
          { label: words.p99, color: "--chart-3", dash: [6, 4] },
        ]}
        rows={[points.map((point) => point.batch), points.map((point) => point.batchP99)]}
        least={4}
        empty={words.noBatches}
      />
      <Plot
        title={words.lanes}
        unit={words.unit.commands}
        points={points}
        lines={[
          { label: words.waiting, color: "--chart-1", fill: true },
          { label: words.longest, color: "--chart-4", dash: [6, 4] },
        ]}
        rows={[points.map((point) => point.waiting), points.map((point) => point.longestLane)]}
        least={4}
      />
      <Lags points={points} />
    </section>
  );
}

function Refusals({ points }: { points: Point[] }) {
  const words = t.ops.charts;
  const { names, rest } = namesOf(points, (point) => point.refusals, NAMES_MAX);
  // In the order of the alphabet, so that no reason changes its colour while another overtakes it.
  names.sort();
  const rows = names.map((name) =>
    points.map((point) => point.refusals && (point.refusals[name] ?? 0)),
  );
  const lines: Line[] = names.map((name, index) => ({
    label: t.ops.reasons[name] ?? name.replaceAll("_", " "),
    color: `--chart-${index + 1}`,
  }));
  if (rest.length) {
    lines.push({ label: words.other, color: "--chart-5" });
    rows.push(
      points.map(
        ({ refusals }) => refusals && rest.reduce((sum, name) => sum + (refusals[name] ?? 0), 0),
      ),
    );
  }
  return (
    <Plot
      title={words.refusals}
      unit={words.unit.perSecond}
      points={points}
      lines={lines}
      rows={rows}
      least={4}
      stacked
      empty={words.noRefusals}
    />
  );
}

function Lags({ points }: { points: Point[] }) {
  const names = Object.keys(points.at(-1)?.lags ?? {}).sort();
  return (
    <Plot
      title={t.ops.charts.lag}
      unit={t.ops.charts.unit.facts}
      points={points}
      lines={names.slice(0, NAMES_MAX).map((name, index) => ({
        label: t.ops.followers[name] ?? name,
        color: `--chart-${index + 1}`,
        ...(DASHES[index] ? { dash: DASHES[index] } : {}),
      }))}
      rows={names
        .slice(0, NAMES_MAX)
        .map((name) => points.map((point) => point.lags?.[name] ?? null))}
      least={4}
      empty={t.ops.charts.noLag}
    />
  );
}

function Plot({ title, unit, points, lines, rows, format = rate, ...more }: PlotProps) {
  const words = t.ops.charts;
  const data = useMemo(
    () => [points.map((point) => point.at), ...rows],
    [points, lines.map((line) => line.label).join("\n")],
  );
  const values = lines.map((line, index) => {
    const value = rows[index]?.at(-1) ?? null;
    return words.value(line.label, value === null ? words.none : format(value));
  });
  return (
    <figure class="card ops-chart">
      <figcaption>
        <h3>{title}</h3>
        <span class="ops-unit">{unit}</span>
      </figcaption>
      <Chart
        title={title}
        summary={words.summary(title, values.join(", ") || words.none)}
        lines={lines}
        data={data}
        height={HEIGHT}
        format={format}
        axisFormat={more.axisFormat ?? short}
        span={WINDOW_SECONDS}
        together="ops"
        values
        stacked={more.stacked ?? false}
        least={more.least ?? 1}
        {...(more.empty ? { empty: more.empty } : {})}
      />
    </figure>
  );
}
