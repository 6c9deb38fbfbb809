/** What is chosen, and the button that holds it: all or nothing. */

import { useId, useMemo } from "preact/hooks";
import type { KeptOrder } from "../api/storage";
import type { EventView } from "../api/types";
import { PhaseTitle } from "../checkout/checkout";
import { type Describe, linesOf } from "../checkout/describe";
import { price, TierDot, UnitLines } from "../checkout/unit_lines";
import { money, number } from "../format";
import { ACCESSIBLE, natural, type Plan } from "../map/layout";
import { t } from "../strings";
import { Button } from "../ui/button";
import { CheckField, SelectField } from "../ui/field";
import { type BestDraft, count, type Estimate, type Selection, unitsOf } from "./selection";
import { Stepper } from "./stepper";

export interface PickerProps {
  event: EventView;
  plan: Plan;
  describe: Describe;
  selection: Selection;
  cost: Estimate;
  cap: number;
  owned: number;
  selling: boolean;
  busy: boolean;
  orders: KeptOrder[];
  focus: boolean;
  onSeat: (seat: string) => void;
  onPool: (pool: string, quantity: number) => void;
  onBest: (best: Partial<BestDraft>) => void;
  onClear: () => void;
  onHold: () => void;
  onShow: (order: KeptOrder) => void;
}

export function Picker(props: PickerProps) {
  const { event, plan, describe, selection, cost, selling, owned, cap } = props;
  const units = unitsOf(selection);
  const room = Math.max(0, cap - owned);
  const lines = linesOf({ seats: selection.seats, pools: {} }, describe);
  const words = t.event.pick;
  return (
    <div class="picker">
      <div class="picker-head">
        <PhaseTitle focus={props.focus}>{words.title}</PhaseTitle>
        {units > 0 && (
          <Button kind="quiet" onClick={props.onClear}>
            {words.clear}
          </Button>
        )}
      </div>
      <p class="hint">
        {!units && `${plan.count ? words.empty : words.emptyPools} `}
        {owned ? words.mostLeft(room, owned) : words.most(cap)}
      </p>
      {lines.length > 0 && (
        <UnitLines
          lines={lines}
          currency={event.currency}
          action={(line) => (
            <button
              type="button"
              class="icon-button"
              aria-label={words.remove(line.words.text)}
              onClick={() => props.onSeat(line.key.slice("seat ".length))}
            >
              ×
            </button>
          )}
        />
      )}
      {plan.pools.length > 0 && <Pools {...props} room={room} units={units} />}
      {plan.count > 0 && <Best {...props} room={room} units={units} />}
      <div class="picker-end">
        {units > 0 && (
          <p class="total">
            <span>{words.total}</span>
            <strong class="numbers">{costWords(cost, event.currency)}</strong>
          </p>
        )}
        <Button
          kind="primary"
          disabled={!selling || units === 0}
          busy={props.busy}
          onClick={props.onHold}
        >
          {units ? words.holdUnits(units) : words.hold}
        </Button>
        <p class="hint">{words.allOrNothing(event.hold_seconds)}</p>
      </div>
      {props.orders.length > 0 && <Tickets {...props} />}
    </div>
  );
}

export function costWords({ least, most }: Estimate, currency: string): string {
  if (least === most) return price(most, currency);
  return t.event.pick.about(money(least, currency), money(most, currency));
}

type PartProps = PickerProps & { room: number; units: number };

function Pools({ event, plan, describe, selection, onPool, selling, room, units }: PartProps) {
  const title = useId();
  return (
    <section class="picker-part" aria-labelledby={title}>
      <h3 id={title}>{t.event.pick.pools}</h3>
      <ul class="pool-lines">
        {plan.pools.map((pool) => {
          const words = describe.pool(pool.id);
          const chosen = selection.pools[pool.id] ?? 0;
          return (
            <li key={pool.id}>
              <TierDot color={words.color} />
              <span class="unit-name">
                {words.text}
                <small class="numbers">
                  {words.price !== null && `${price(words.price, event.currency)} · `}
                  {pool.available
                    ? t.event.pick.poolLeft(number(pool.available))
                    : t.event.pick.poolGone}
                </small>
              </span>
              <Stepper
                name={words.text}
                value={chosen}
                most={Math.min(Math.max(pool.available, 0), chosen + room - units)}
                disabled={!selling}
                onChange={(quantity) => onPool(pool.id, quantity)}
              />
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function Best({ event, plan, selection, onBest, selling, room, units }: PartProps) {
  const { best } = selection;
  const title = useId();
  const words = t.event.pick;
  const sections = plan.sections.map((section) => section.id).sort(natural);
  const tiers = plan.tiers.filter((tier) => tier.seats > 0);
  const accessible = useMemo(() => plan.flags.some((flags) => flags & ACCESSIBLE), [plan]);
  return (
    <section class="picker-part best" aria-labelledby={title}>
      <div class="best-head">
        <div>
          <h3 id={title}>{words.best}</h3>
          <p class="hint">{words.bestLead}</p>
        </div>
        <Stepper
          name={words.bestQuantity}
          value={best.quantity}
          most={Math.min(plan.count, best.quantity + room - units)}
          disabled={!selling}
          onChange={(quantity) => onBest({ quantity })}
        />
      </div>
      {best.quantity > 0 && (
        <div class="best-form">
          {tiers.length > 1 && (
            <SelectField
              label={words.tier}
              value={best.tier}
              choices={[
                { value: "", label: words.anyTier },
                ...tiers.map(({ id, price: each }) => ({
                  value: id,
                  label: each === null ? id : `${id}, ${price(each, event.currency)}`,
                })),
              ]}
              onInput={(tier) => onBest({ tier })}
            />
          )}
          {sections.length > 1 && (
            <SelectField
              label={words.section}
              value={best.section}
              choices={[
                { value: "", label: words.anySection },
                ...sections.map((id) => ({ value: id, label: id })),
              ]}
              onInput={(section) => onBest({ section })}
            />
          )}
          <div class="best-checks">
            {best.quantity > 1 && (
              <CheckField
                label={words.together}
                checked={best.together}
                onInput={(together) => onBest({ together })}
              />
            )}
            {accessible && (
              <CheckField
                label={words.accessible}
                checked={best.accessible}
                onInput={(chosen) => onBest({ accessible: chosen })}
              />
            )}
          </div>
        </div>
      )}
    </section>
  );
}

function Tickets({ orders, describe, onShow }: PickerProps) {
  const title = useId();
  return (
    <section class="picker-part" aria-labelledby={title}>
      <h3 id={title}>{t.event.tickets}</h3>
      <ul class="ticket-lines">
        {orders.map((order) => {
          const units = t.event.ticketOf(order.seats.length + count(order.pools));
          const names = linesOf(order, describe).map(
            ({ words, quantity, counted }) => (counted ? `${quantity} × ` : "") + words.text,
          );
          return (
            <li key={order.id}>
              <span class="unit-name">
                {units}
                <small class="ticket-units">{names.join("; ")}</small>
              </span>
              <Button label={`${t.event.showTicket} ${order.id}`} onClick={() => onShow(order)}>
                {t.event.showTicket}
              </Button>
            </li>
          );
        })}
      </ul>
    </section>
  );
}
