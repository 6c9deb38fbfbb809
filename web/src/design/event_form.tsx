import { t } from "../strings";
import { CheckField } from "../ui/field";
import { useDesign } from "./context";
import { Choose, choicesOf, Fields, Text } from "./fields";
import type { Draft } from "./model";

const CURRENCIES = ["EUR", "USD", "GBP", "CHF", "SEK", "NOK", "DKK", "PLN", "CZK", "JPY"];

export function EventForm() {
  const { draft, act } = useDesign();
  const say = t.design.event;
  const set = (field: keyof Draft) => (value: string | boolean) => act({ do: "set", field, value });
  const held = Number(draft.holdSeconds);
  const currencies = CURRENCIES.includes(draft.currency)
    ? CURRENCIES
    : [draft.currency, ...CURRENCIES];
  return (
    <section class="card design-card" aria-labelledby="design-event">
      <h2 id="design-event">{say.title}</h2>
      <Fields>
        <div class="wide">
          <Text path="name" label={say.name} value={draft.name} onInput={set("name")} />
        </div>
        <Text
          path="id"
          label={say.id}
          hint={say.idHint}
          value={draft.id}
          onInput={set("id")}
          placeholder="opening-night"
        />
        <Choose
          path="currency"
          label={say.currency}
          value={draft.currency}
          onInput={set("currency")}
          choices={currencies.map((value) => ({ value, label: value }))}
        />
        <Text
          path="holdSeconds"
          label={say.holdSeconds}
          hint={held > 0 ? say.holdHint(held) : undefined}
          numeric
          value={draft.holdSeconds}
          onInput={set("holdSeconds")}
        />
        <Text
          path="maxPerBuyer"
          label={say.maxPerBuyer}
          hint={say.maxPerBuyerHint}
          numeric
          value={draft.maxPerBuyer}
          onInput={set("maxPerBuyer")}
        />
      </Fields>
      <details class="design-more">
        <summary>{say.rules}</summary>
        <Fields>
          <Text
            path="graceSeconds"
            label={say.graceSeconds}
            numeric
            value={draft.graceSeconds}
            onInput={set("graceSeconds")}
          />
          <Text
            path="maxExtensions"
            label={say.maxExtensions}
            numeric
            value={draft.maxExtensions}
            onInput={set("maxExtensions")}
          />
          <Choose
            path="state"
            label={say.state}
            value={draft.state}
            onInput={set("state")}
            choices={choicesOf(say.states)}
          />
          <Choose
            path="ranking"
            label={say.ranking}
            value={draft.ranking}
            onInput={set("ranking")}
            choices={choicesOf(say.rankings)}
          />
          <Choose
            path="latePayment"
            label={say.latePayment}
            value={draft.latePayment}
            onInput={set("latePayment")}
            choices={choicesOf(say.latePayments)}
          />
          <Choose
            path="policy"
            label={say.policy}
            value={draft.policy}
            onInput={set("policy")}
            choices={choicesOf(say.policies)}
          />
        </Fields>
        <div class="design-checks">
          <CheckField label={say.gate} checked={draft.gate} onInput={set("gate")} />
          <CheckField label={say.flashSale} checked={draft.flashSale} onInput={set("flashSale")} />
        </div>
      </details>
    </section>
  );
}
