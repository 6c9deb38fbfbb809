import { number } from "../format";
import { t } from "../strings";
import type { SystemView } from "./calls";
import { Panel } from "./gate_panel";
import type { Sample } from "./metrics";

/** What this deployment is, as the process that answered sees it. */
export function Facts({ system, sample }: { system: SystemView; sample: Sample | null }) {
  const words = t.ops.facts;
  const named = (numbers: Record<string, number>, name: (key: string) => string) =>
    Object.entries(numbers)
      .filter(([, count]) => count > 0)
      .map(([key, count]) => `${name(key)} ${number(count)}`)
      .join(", ");
  const workers = sample
    ? words.workersUp(number(sample.workers), number(system.workers))
    : number(system.workers);
  const rows: [string, string, boolean?][] = [
    [words.version, system.version],
    [words.store, system.store, true],
    [words.gate, system.gate === "none" ? words.none : system.gate, system.gate !== "none"],
    [words.policy, system.policy],
    [words.workers, workers],
    [words.broker, system.broker === "none" ? words.none : system.broker, system.broker !== "none"],
    [words.inHand, sample ? number(sample.inHand) : t.ops.charts.none],
    [words.lags, named(system.lags, (key) => t.ops.followers[key] ?? key) || words.noLag],
  ];
  if (system.gate !== "none") {
    rows.push([words.drift, named(system.drift, (event) => event) || words.noDrift]);
  }
  return (
    <Panel id="ops-facts" title={words.title}>
      <dl class="ops-facts">
        {rows.map(([name, value, code]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd class={code ? "mono" : ""}>{value}</dd>
          </div>
        ))}
      </dl>
    </Panel>
  );
}
