/** The page /lab: the stampede, what came of it, earlier ones to compare, and a duel. */

import { useState } from "preact/hooks";
import type { Deployment } from "../api/types";
import type { PageProps } from "../app";
import { t } from "../strings";
import { type Forget, NeedsAdminKey } from "../ui/admin_key";
import { Button } from "../ui/button";
import { coded } from "../ui/coded";
import { Comparison } from "./comparison";
import { Duel } from "./duel";
import { compared } from "./figures";
import { LabForm } from "./form";
import { Outcome } from "./outcome";
import type { As } from "./runs";
import { RunsTable } from "./runs_table";
import { useRuns } from "./use_runs";
import "../style/lab.css";

export default function LabPage({ deployment }: PageProps) {
  if (deployment.lab === "off") {
    return (
      <section class="page narrow">
        <h1>{t.lab.title}</h1>
        <p>{coded(t.lab.off)}</p>
      </section>
    );
  }
  if (deployment.lab === "open") return <Open deployment={deployment} as="public" />;
  return (
    <NeedsAdminKey>
      {(forget) => <Open deployment={deployment} as="admin" forget={forget} />}
    </NeedsAdminKey>
  );
}

function Open(props: { deployment: Deployment; as: As; forget?: Forget }) {
  const { deployment, as, forget } = props;
  const lab = useRuns(as, () => forget?.(true));
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const side = compared(lab.runs ?? [], chosen);
  return (
    <section class="page lab">
      <header>
        <h1>{t.lab.title}</h1>
        <p class="soft lab-lead">{t.lab.lead}</p>
      </header>
      {lab.trouble && (
        <div class="notice warn lab-trouble" role="alert">
          <span>{lab.trouble}</span>
          {!lab.runs && <Button onClick={lab.again}>{t.errors.again}</Button>}
        </div>
      )}
      <div class="lab-bench">
        <LabForm deployment={deployment} lab={lab} />
        <Outcome lab={lab} />
      </div>
      {side.length > 1 && (
        <Comparison runs={side} offers={lab.strategies} onClear={() => setChosen(new Set())} />
      )}
      {lab.runs && lab.runs.length > 0 && (
        <RunsTable lab={lab} runs={lab.runs} chosen={chosen} onChoose={setChosen} />
      )}
      <Duel />
    </section>
  );
}
