/** The runs that are kept; two to four of them can be put side by side. */

import { useState } from "preact/hooks";
import { number, time } from "../format";
import { t } from "../strings";
import { Button } from "../ui/button";
import { scrollTo } from "../ui/scroll";
import { COMPARED_MAX } from "./figures";
import type { Run } from "./runs";
import type { Lab } from "./use_runs";
import { crowdOf, mannerOf, nameOf, wait } from "./words";

const SHOWN = 8;

export interface RunsTableProps {
  lab: Lab;
  runs: Run[];
  chosen: ReadonlySet<string>;
  onChoose: (chosen: ReadonlySet<string>) => void;
}

export function RunsTable({ lab, runs, chosen, onChoose }: RunsTableProps) {
  const columns = t.lab.columns;
  const [all, setAll] = useState(false);
  // What is compared, or looked at, stays in sight.
  const listed = runs.filter(
    (run, nth) => all || nth < SHOWN || chosen.has(run.id) || run.id === lab.shown?.id,
  );
  const flip = (run: Run) => {
    const next = new Set(chosen);
    if (!next.delete(run.id)) next.add(run.id);
    onChoose(next);
  };
  return (
    <div class="card lab-runs">
      <h2 id="lab-earlier">{t.lab.earlier}</h2>
      <p class="hint">{t.lab.earlierHint}</p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so keys must reach it */}
      <section class="table" aria-labelledby="lab-earlier" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">
                <span class="visually-hidden">{columns.choose}</span>
              </th>
              <th scope="col">{columns.run}</th>
              <th scope="col" class="number">
                {columns.oversold}
              </th>
              <th scope="col" class="number">
                {columns.sold}
              </th>
              <th scope="col" class="number">
                {columns.rate}
              </th>
              <th scope="col" class="number">
                {columns.p50}
              </th>
              <th scope="col" class="number">
                {columns.p99}
              </th>
              <th scope="col" class="number">
                {columns.reached}
              </th>
              <th scope="col">{columns.when}</th>
            </tr>
          </thead>
          <tbody>
            {listed.map((run) => (
              <Row
                key={run.id}
                run={run}
                lab={lab}
                chosen={chosen.has(run.id)}
                full={chosen.size >= COMPARED_MAX}
                onFlip={() => flip(run)}
              />
            ))}
          </tbody>
        </table>
      </section>
      {runs.length > SHOWN && (
        <Button kind="quiet" onClick={() => setAll(!all)}>
          {all ? t.lab.fewer : t.lab.all(runs.length)}
        </Button>
      )}
    </div>
  );
}

function Row(props: { run: Run; lab: Lab; chosen: boolean; full: boolean; onFlip: () => void }) {
  const { run, lab, chosen } = props;
  const name = nameOf(run.strategy, lab.strategies);
  const when = time(run.created_at);
  const result = run.result;
  const shown = lab.shown?.id === run.id;
  return (
    <tr class={shown ? "shown" : ""}>
      <td>
        <label class="check">
          <input
            type="checkbox"
            checked={chosen}
            disabled={!result || (props.full && !chosen)}
            onChange={props.onFlip}
          />
          <span class="visually-hidden">{t.lab.chooseRun(name, when)}</span>
        </label>
      </td>
      <th scope="row">
        <button
          type="button"
          class="link"
          aria-label={t.lab.showRun(name, when)}
          aria-pressed={shown}
          onClick={() => {
            lab.show(run);
            scrollTo(document.querySelector(".lab-bench"));
          }}
        >
          {name}
        </button>
        <span class="soft"> {mannerOf(run)}</span>
        <span class="soft numbers run-crowd">{crowdOf(run)}</span>
      </th>
      {result ? (
        <>
          <td class="number">
            <span class={result.oversold ? "badge bad" : "badge good"}>
              {number(result.oversold)}
            </span>
          </td>
          <td class="number">{number(result.sold)}</td>
          <td class="number">{number(Math.round(result.rate))}</td>
          <td class="number">{wait(result.p50_ms)}</td>
          <td class="number">{wait(result.p99_ms)}</td>
          <td class="number">{number(result.reached_authority)}</td>
        </>
      ) : (
        <td colSpan={6}>
          <span class={run.state === "failed" ? "badge bad" : "badge"}>
            {t.lab.states[run.state]}
          </span>
        </td>
      )}
      <td class="numbers">{when}</td>
    </tr>
  );
}
