/** How long buyers waited: a bar for each bucket, times in powers of ten, median and p99 marked. */

import { milliseconds, number } from "../format";
import { t } from "../strings";
import { bars, placeOf, type Span, span, ticks } from "./figures";
import type { Result } from "./runs";
import { wait } from "./words";

export interface LatenciesProps {
  result: Result;
  /** Shared by those that stand side by side. */
  across?: Span | null;
  small?: boolean;
}

export function Latencies({ result, across, small = false }: LatenciesProps) {
  const shown = across ?? span([result.histogram]);
  if (!shown) return null;
  const about = t.lab.latencyAbout(wait(result.p50_ms), wait(result.p99_ms));
  return (
    <figure class={small ? "latencies small" : "latencies"}>
      <figcaption>
        <span>{t.lab.latency}</span>
        <span class="marks numbers">
          <span class="p50">{t.lab.p50(wait(result.p50_ms))}</span>
          <span class="p99">{t.lab.p99(wait(result.p99_ms))}</span>
        </span>
      </figcaption>
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
        <span class="mark-line p50" style={{ left: `${100 * placeOf(result.p50_ms, shown)}%` }} />
        <span class="mark-line p99" style={{ left: `${100 * placeOf(result.p99_ms, shown)}%` }} />
      </div>
      <div class="axis numbers" aria-hidden="true">
        {ticks(shown, small ? 4 : 5).map((ms) => (
          <Tick key={ms} ms={ms} place={placeOf(ms, shown)} />
        ))}
      </div>
      {/* Around the table, for a table itself is never smaller than its words. */}
      <div class="visually-hidden">
        <table>
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
      </div>
    </figure>
  );
}

/** Under its place, but never beyond the ends of the axis. */
function Tick({ ms, place }: { ms: number; place: number }) {
  const shift = place < 0.06 ? 0 : place > 0.94 ? -100 : -50;
  return (
    <span class="tick" style={{ left: `${100 * place}%`, transform: `translateX(${shift}%)` }}>
      {milliseconds(ms)}
    </span>
  );
}
