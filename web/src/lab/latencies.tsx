/** How long buyers waited: a bar for each bucket, times in powers of ten, median and p99 marked. */

import { milliseconds, number } from "../format";
import { t } from "../strings";
import { bars, placeOf, type Span, span, ticks } from "./figures";
import type { Result } from "./runs";

export interface LatenciesProps {
  result: Result;
  /** Shared by those that stand side by side. */
  across?: Span | null;
  small?: boolean;
}

export function Latencies({ result, across, small = false }: LatenciesProps) {
  const shown = across ?? span([result.histogram]);
  if (!shown) return null;
  const about = t.lab.latencyAbout(milliseconds(result.p50_ms), milliseconds(result.p99_ms));
  return (
    <figure class={small ? "latencies small" : "latencies"}>
      <figcaption>{t.lab.latency}</figcaption>
      <div class="plot" role="img" aria-label={about}>
        {bars(result.histogram, shown).map((bar) => (
          <span
            key={bar.le_ms}
            class={bar.count ? "bar" : "bar none"}
            title={t.lab.bucket(number(bar.count), milliseconds(bar.le_ms))}
            style={{
              left: `${100 * bar.left}%`,
              width: `${100 * bar.width}%`,
              height: `${100 * bar.height}%`,
            }}
          />
        ))}
        <Mark name={t.lab.p50} ms={result.p50_ms} across={shown} kind="p50" />
        <Mark name={t.lab.p99} ms={result.p99_ms} across={shown} kind="p99" />
      </div>
      <div class="axis" aria-hidden="true">
        {ticks(shown).map((ms) => (
          <span key={ms} style={{ left: `${100 * placeOf(ms, shown)}%` }}>
            {milliseconds(ms)}
          </span>
        ))}
      </div>
      <table class="visually-hidden">
        <caption>{t.lab.latency}</caption>
        <thead>
          <tr>
            <th scope="col">{t.lab.waited}</th>
            <th scope="col">{t.lab.buyers}</th>
          </tr>
        </thead>
        <tbody>
          {result.histogram.map((bucket) => (
            <tr key={bucket.le_ms}>
              <td>{milliseconds(bucket.le_ms)}</td>
              <td>{number(bucket.count)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </figure>
  );
}

function Mark(props: { name: string; ms: number; across: Span; kind: "p50" | "p99" }) {
  const place = placeOf(props.ms, props.across);
  const side = place > 0.6 ? "before" : "after";
  return (
    <span class={`mark-line ${props.kind} ${side}`} style={{ left: `${100 * place}%` }}>
      <span class="numbers">
        {props.name} {milliseconds(props.ms)}
      </span>
    </span>
  );
}
