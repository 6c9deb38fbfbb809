/** Runs side by side, their histograms on one scale of time. */

import { milliseconds, number } from "../format";
import { t } from "../strings";
import { Button } from "../ui/button";
import { span, verdict } from "./figures";
import { Latencies } from "./latencies";
import { Figure, headline, Sign } from "./outcome";
import type { Offer, Result, Run } from "./runs";
import { crowdOf, mannerOf, nameOf, wait } from "./words";

export interface ComparisonProps {
  runs: Run[];
  offers: Offer[];
  onClear: () => void;
}

export function Comparison({ runs, offers, onClear }: ComparisonProps) {
  const results = runs.map((run) => run.result).filter((result): result is Result => !!result);
  const across = span(results.map((result) => result.histogram));
  return (
    <section class="card comparison" aria-labelledby="lab-compare" data-testid="lab-comparison">
      <header>
        <h2 id="lab-compare">{t.lab.compare}</h2>
        <Button kind="quiet" onClick={onClear}>
          {t.lab.clear}
        </Button>
      </header>
      <div class="compared">
        {runs.map((run) => {
          const result = run.result!;
          const kind = verdict(result) === "right" ? "good" : result.oversold ? "bad" : "warn";
          return (
            <article key={run.id}>
              <h3>{nameOf(run.strategy, offers)}</h3>
              <p class="soft numbers compared-crowd">
                {[crowdOf(run), mannerOf(run)].filter(Boolean).join(" · ")}
              </p>
              <p class={`verdict-line ${kind} numbers`}>
                <Sign kind={kind} size={24} />
                {headline(result)}
              </p>
              <dl class="figures small">
                <Figure name={t.lab.figures.rate} value={number(Math.round(result.rate))} />
                <Figure name={t.lab.figures.elapsed} value={milliseconds(result.elapsed_ms)} />
                <Figure name={t.lab.figures.p50} value={wait(result.p50_ms)} />
                <Figure name={t.lab.figures.p99} value={wait(result.p99_ms)} />
                <Figure name={t.lab.columns.reached} value={number(result.reached_authority)} />
                <Figure name={t.lab.figures.rejected} value={number(result.rejected)} />
              </dl>
              <Latencies result={result} across={across} small />
            </article>
          );
        })}
      </div>
    </section>
  );
}
