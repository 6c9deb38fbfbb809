/** How to pay. In the sandbox the buyer chooses what shall happen. */

import { useState } from "preact/hooks";
import type { Deployment, Hold } from "../api/types";
import { t } from "../strings";
import { Button } from "../ui/button";
import { CheckField, TextField } from "../ui/field";
import { price } from "./unit_lines";

/** Without 3-D Secure: the bank that is pretended in the service has no page to ask on. */
const SANDBOX = [
  { method: "sandbox:ok", words: t.checkout.methods.ok },
  { method: "sandbox:declined", words: t.checkout.methods.declined },
  { method: "sandbox:slow:8", words: t.checkout.methods.slow },
  { method: "sandbox:timeout", words: t.checkout.methods.timeout },
  { method: "sandbox:error", words: t.checkout.methods.error },
];

export interface PaymentProps {
  hold: Hold;
  payments: Deployment["payments"];
  onPay: (method: string | null, otherSeats: boolean) => void;
}

export function Payment({ hold, payments, onPay }: PaymentProps) {
  const free = hold.amount === 0;
  const [method, setMethod] = useState(payments === "sandbox" ? SANDBOX[0]!.method : "");
  const [otherSeats, setOtherSeats] = useState(false);
  if (!free && payments === "none") {
    return <p class="notice warn">{t.checkout.noPayments}</p>;
  }
  return (
    <form
      class="payment"
      onSubmit={(submit) => {
        submit.preventDefault();
        if (free) onPay(null, false);
        else if (method.trim()) onPay(method.trim(), otherSeats);
      }}
    >
      {!free && payments === "sandbox" && <Sandbox method={method} onChoose={setMethod} />}
      {!free && payments === "stripe" && (
        <>
          <p class="hint">{t.checkout.stripe}</p>
          <TextField
            label={t.checkout.stripeMethod}
            value={method}
            onInput={setMethod}
            hint={t.checkout.stripeHint}
            required
          />
        </>
      )}
      {!free && hold.seats.length > 0 && (
        <CheckField label={t.checkout.otherSeats} checked={otherSeats} onInput={setOtherSeats} />
      )}
      <div class="payment-end">
        <Button type="submit" kind="primary">
          {free ? t.checkout.get : t.checkout.pay(price(hold.amount, hold.currency))}
        </Button>
      </div>
    </form>
  );
}

function Sandbox({ method, onChoose }: { method: string; onChoose: (method: string) => void }) {
  return (
    <fieldset class="methods">
      <legend>{t.checkout.method}</legend>
      <p class="hint">{t.checkout.pretended}</p>
      {SANDBOX.map((each) => (
        <label key={each.method} class="method">
          <input
            type="radio"
            name="method"
            value={each.method}
            checked={method === each.method}
            onChange={() => onChoose(each.method)}
          />
          <span>
            {each.words[0]}
            <small>{each.words[1]}</small>
          </span>
        </label>
      ))}
    </fieldset>
  );
}
