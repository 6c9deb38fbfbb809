/** What to try: a few that are worth trying, and everything by hand. */

import { useState } from "preact/hooks";
import type { Deployment } from "../api/types";
import { t } from "../strings";
import { Button } from "../ui/button";
import { CheckField, NumberField, SelectField } from "../ui/field";
import { scrollTo } from "../ui/scroll";
import { Choices } from "./choices";
import { BUYERS_MAX, faultsOf, SEATS_MAX, same, tidied } from "./figures";
import type { Asked, Offer, Over, Policy } from "./runs";
import type { Lab } from "./use_runs";
import { aboutOf, nameOf } from "./words";

const USUAL: Asked = {
  strategy: "holdfast",
  buyers: 10_000,
  seats: 1,
  stock: false,
  policy: null,
  gate: null,
  over: "engine",
};

const PRESETS: [keyof typeof t.lab.preset, Asked][] = [
  ["one", USUAL],
  ["five", { ...USUAL, seats: 5 }],
  ["http", { ...USUAL, buyers: 5_000, over: "http" }],
  ["naive", { ...USUAL, strategy: "naive" }],
];

const POLICIES: Policy[] = ["authority", "two-layer", "gate"];

export function LabForm({ deployment, lab }: { deployment: Deployment; lab: Lab }) {
  const [asked, setAsked] = useState(USUAL);
  const change = (changes: Partial<Asked>) => setAsked({ ...asked, ...changes });
  const faults = faultsOf(asked);
  const ours = asked.strategy === "holdfast";
  const busy = lab.running || lab.starting;
  const submit = () => {
    if (faults.buyers || faults.seats || busy) return;
    lab.start(tidied(asked));
    // On a phone it is below the form.
    if (matchMedia("(max-width: 959px)").matches) scrollTo(document.querySelector(".outcome"));
  };
  return (
    <form
      class="card lab-form"
      aria-labelledby="lab-stampede"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <h2 id="lab-stampede">{t.lab.stampede}</h2>
      <Presets asked={asked} onPick={setAsked} ways={lab.ways} />
      <Strategy asked={asked} offers={lab.strategies} onPick={(strategy) => change({ strategy })} />
      <div class="pair">
        <NumberField
          label={t.lab.buyers}
          value={asked.buyers}
          min={1}
          max={BUYERS_MAX}
          fault={faults.buyers ? t.lab.buyersFault : null}
          onInput={(buyers) => change({ buyers })}
        />
        <NumberField
          label={t.lab.count}
          value={asked.seats}
          min={1}
          max={SEATS_MAX}
          fault={faults.seats ? t.lab.countFault : null}
          onInput={(seats) => change({ seats })}
        />
      </div>
      <Choices
        legend={t.lab.units}
        name="units"
        value={asked.stock ? "stock" : "seats"}
        choices={[
          { value: "seats", label: t.lab.seats },
          { value: "stock", label: t.lab.stock },
        ]}
        hint={asked.stock ? t.lab.stockHint : t.lab.seatsHint}
        onPick={(value) => change({ stock: value === "stock" })}
      />
      {ours && <Manner asked={asked} deployment={deployment} lab={lab} onChange={change} />}
      <Button type="submit" kind="primary" busy={busy} testid="lab-start">
        {t.lab.start}
      </Button>
      <p class="hint lab-going" role="status">
        {lab.running && t.lab.going}
      </p>
    </form>
  );
}

function Presets(props: { asked: Asked; ways: Offer[]; onPick: (asked: Asked) => void }) {
  const http = props.ways.find((way) => way.id === "http");
  return (
    <fieldset class="presets">
      <legend>{t.lab.presets}</legend>
      <div class="chips">
        {PRESETS.filter(([name]) => name !== "http" || http?.available !== false).map(
          ([name, preset]) => (
            <button
              key={name}
              type="button"
              class="chip"
              aria-pressed={same(props.asked, preset)}
              onClick={() => props.onPick(preset)}
            >
              {t.lab.preset[name]}
            </button>
          ),
        )}
      </div>
    </fieldset>
  );
}

function Strategy(props: { asked: Asked; offers: Offer[]; onPick: (strategy: string) => void }) {
  const { asked, offers } = props;
  const known = offers.length ? offers : [{ id: asked.strategy, available: true } as Offer]; // they are not here yet
  const missing = offers.filter((offer) => !offer.available);
  return (
    <>
      <SelectField
        label={t.lab.strategy}
        value={asked.strategy}
        choices={known.map((offer) => ({
          value: offer.id,
          label: nameOf(offer.id, offers),
          disabled: !offer.available,
        }))}
        hint={aboutOf(asked.strategy, offers)}
        onInput={props.onPick}
      />
      {missing.length > 0 && (
        <details class="missing">
          <summary>
            {t.lab.notHere}: {missing.length}
          </summary>
          <dl>
            {missing.map((offer) => (
              <div key={offer.id}>
                <dt>{nameOf(offer.id, offers)}</dt>
                <dd>{offer.why_not}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </>
  );
}

/** How the crowd gets at Holdfast, and where its holds live. */
function Manner(props: {
  asked: Asked;
  deployment: Deployment;
  lab: Lab;
  onChange: (changes: Partial<Asked>) => void;
}) {
  const { asked, deployment, onChange } = props;
  const http = props.lab.ways.find((way) => way.id === "http");
  const gated = deployment.gate && asked.gate !== false;
  const hint = !deployment.gate
    ? t.lab.policyNeedsGate
    : !gated
      ? t.lab.policyHint.authority
      : asked.policy
        ? t.lab.policyHint[asked.policy]
        : t.lab.policyUsualHint;
  return (
    <>
      <Choices
        legend={t.lab.overLabel}
        name="over"
        value={asked.over}
        choices={[
          { value: "engine", label: t.lab.overChoice.engine },
          { value: "http", label: t.lab.overChoice.http, disabled: http?.available === false },
        ]}
        hint={http?.why_not ?? t.lab.overHint[asked.over]}
        onPick={(over) => onChange({ over: over as Over })}
      />
      {deployment.gate && (
        <CheckField
          label={t.lab.gate}
          checked={gated}
          onInput={(gate) => onChange({ gate: gate ? null : false, policy: null })}
        />
      )}
      <SelectField
        label={t.lab.policy}
        value={gated ? (asked.policy ?? "") : "authority"}
        choices={[
          ...(gated ? [{ value: "", label: t.lab.policyUsual }] : []),
          ...POLICIES.map((each) => ({
            value: each,
            label: t.lab.policies[each],
            disabled: !gated && each !== "authority",
          })),
        ]}
        hint={hint}
        onInput={(each) => onChange({ policy: (each || null) as Policy | null })}
      />
    </>
  );
}
