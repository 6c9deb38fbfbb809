/** From a hold to a ticket, beside the map. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Deployment, EventView, Hold, Order } from "../api/types";
import { t } from "../strings";
import { Button } from "../ui/button";
import { toast } from "../ui/toast";
import { addsUp, type Describe, linesOf } from "./describe";
import { Payment } from "./payment";
import type { End, Phase, Units, Wait } from "./phases";
import { Ticket } from "./ticket";
import { InTime, Timer } from "./timer";
import { price, UnitLines } from "./unit_lines";
import type { Desk } from "./use_hold";
import "../style/checkout.css";

export interface CheckoutProps {
  event: EventView;
  desk: Desk;
  describe: Describe;
  payments: Deployment["payments"];
  /** How many of these seats are free, as far as the map knows. */
  freeOf: (seats: readonly string[]) => number;
  /** The hold was given back so that something else can be chosen, beginning with the same. */
  onChange: (units: Units) => void;
  /** What was held before is wanted again. */
  onAgain: (units: Units) => void;
  /** What was held before is gone: something near it is wanted. */
  onNearest: (units: Units) => void;
}

export function Checkout(props: CheckoutProps) {
  const { desk } = props;
  const { phase } = desk;
  switch (phase.name) {
    case "looking":
      return <Looking trouble={desk.trouble} />;
    case "picking":
      return null;
    case "holding":
      return <Holding {...props} phase={phase} />;
    case "paying":
      return <Paying {...props} hold={phase.hold} order={phase.order} wait={phase.wait} />;
    case "bought":
      return <Bought {...props} order={phase.order} elsewhere={phase.elsewhere} />;
    case "over":
      return <Over {...props} end={phase.end} units={phase.units} />;
  }
}

/** The heading of a phase. When one phase takes the place of another the focus goes with it, for
 * the button that led here is gone. */
export function PhaseTitle({ children, focus }: { children: ComponentChildren; focus: boolean }) {
  const title = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (focus) title.current?.focus({ preventScroll: true });
  }, []);
  return (
    <h2 class="phase-title" ref={title} tabIndex={-1}>
      {children}
    </h2>
  );
}

function Looking({ trouble }: { trouble: string | null }) {
  return (
    <p class="loading" role="status">
      {trouble ?? t.checkout.looking}
    </p>
  );
}

function Holding(props: CheckoutProps & { phase: Phase & { name: "holding" } }) {
  const { event, desk, describe, payments, phase, onChange } = props;
  const { hold, declined } = phase;
  const change = async () => {
    if (await desk.release()) onChange(hold);
  };
  const clock = useRef<HTMLDivElement>(null);
  const extend = async () => {
    if (await desk.extend()) toast(t.checkout.extended, "good");
    // The button may be gone, and the focus is not to go with it.
    clock.current?.focus();
  };
  const release = async () => {
    if (await desk.release()) toast(t.checkout.released);
  };
  return (
    <div class="checkout">
      <PhaseTitle focus={desk.moved}>
        {declined === null ? t.checkout.title : t.checkout.declinedTitle}
      </PhaseTitle>
      {declined !== null && (
        <p class="notice bad" role="alert">
          {t.checkout.declined(sentence(declined))}
        </p>
      )}
      {phase.elsewhere && <p class="notice">{t.checkout.elsewhere}</p>}
      {desk.deadline && (
        <div class="timer-row" ref={clock} tabIndex={-1}>
          <Timer
            deadline={desk.deadline}
            ofSeconds={event.hold_seconds}
            extendable={desk.extendable}
            onZero={desk.look}
          />
          {event.max_extensions > 0 &&
            (desk.extendable ? (
              <Button busy={desk.busy === "extend"} onClick={() => void extend()}>
                {t.checkout.extend}
              </Button>
            ) : (
              <small class="soft">{t.checkout.noMoreTime}</small>
            ))}
        </div>
      )}
      {desk.trouble !== null && (
        <p class="notice warn" role="alert">
          {desk.trouble}
        </p>
      )}
      <Basket hold={hold} describe={describe} />
      <div class="row basket-actions">
        <Button kind="quiet" busy={desk.busy === "release"} onClick={() => void change()}>
          {t.checkout.change}
        </Button>
        <Button kind="quiet" busy={desk.busy === "release"} onClick={() => void release()}>
          {t.checkout.release}
        </Button>
      </div>
      <Payment
        hold={hold}
        payments={payments}
        onPay={(method, otherSeats) => void desk.pay(method, otherSeats)}
      />
    </div>
  );
}

function Basket({ hold, describe }: { hold: Hold | Order; describe: Describe }) {
  const lines = linesOf(hold, describe);
  return (
    <div class="basket">
      <UnitLines lines={lines} currency={hold.currency} priced={addsUp(lines, hold.amount)} />
      <p class="total">
        <span>{t.checkout.total}</span>
        <strong class="numbers" data-testid="total">
          {price(hold.amount, hold.currency)}
        </strong>
      </p>
    </div>
  );
}

function Paying(props: CheckoutProps & { hold: Hold; order: Order | null; wait: Wait }) {
  const { desk, describe, hold, order, wait } = props;
  const action = wait === "buyer" ? actionOf(order) : null;
  const stuck = wait === "buyer" || wait === "provider";
  return (
    <div class="checkout">
      <PhaseTitle focus={desk.moved}>{t.checkout.payingTitle}</PhaseTitle>
      <div class={`paying ${stuck ? "stuck" : ""}`} role="status">
        <span class="spinner" aria-hidden="true" />
        <p>
          {t.checkout.waits[wait]}{" "}
          {desk.deadline && (
            <InTime deadline={desk.deadline}>
              <span class="soft">{t.checkout.keepsTime}</span>
            </InTime>
          )}
        </p>
      </div>
      {wait === "buyer" &&
        (action ? (
          <a class="button primary" href={action} target="_blank" rel="noopener noreferrer">
            {t.checkout.act}
          </a>
        ) : (
          <p class="notice">{t.checkout.actNowhere}</p>
        ))}
      {stuck && <Button onClick={() => desk.otherwise()}>{t.checkout.otherwise}</Button>}
      <Basket hold={hold} describe={describe} />
    </div>
  );
}

/** Where the bank waits for the buyer; null where the sandbox has no such place. */
function actionOf(order: Order | null): string | null {
  try {
    const url = new URL(order?.next_action?.url ?? "");
    const real = /^https?:$/.test(url.protocol) && !url.hostname.endsWith(".invalid");
    return real ? url.href : null;
  } catch {
    return null;
  }
}

function Bought(props: CheckoutProps & { order: Order; elsewhere: boolean }) {
  const { event, desk, describe, order, elsewhere } = props;
  const late =
    order.settlement === "other_seats" || order.settlement === "same_units"
      ? t.checkout.settlements[order.settlement]
      : null;
  return (
    <div class="checkout bought">
      <PhaseTitle focus={desk.moved}>
        <svg class="done" viewBox="0 0 24 24" width="24" height="24" aria-hidden="true">
          <circle cx="12" cy="12" r="12" />
          <path d="m6.5 12.5 3.5 3.5 7.5-8" />
        </svg>
        {t.checkout.boughtTitle}
      </PhaseTitle>
      {elsewhere && <p class="notice">{t.checkout.boughtElsewhere}</p>}
      {late !== null && (
        <p class="notice warn" role="alert">
          {late}
        </p>
      )}
      <Ticket event={event} order={order} describe={describe} />
      <div class="row bought-actions">
        <Button kind="primary" onClick={desk.again}>
          {t.checkout.more}
        </Button>
        <Button onClick={() => print()}>{t.checkout.print}</Button>
      </div>
    </div>
  );
}

function Over(props: CheckoutProps & { end: End; units: Units }) {
  const { desk, describe, end, units, freeOf, onAgain, onNearest } = props;
  const [title, why] = t.checkout.ends[end];
  const lines = linesOf(units, describe);
  const seats = units.seats.length;
  const free = freeOf(units.seats);
  const lost = end === "lost" && seats > 0 && free < seats;
  return (
    <div class="checkout">
      <PhaseTitle focus={desk.moved}>{title}</PhaseTitle>
      <p class="notice warn" role="alert">
        {why}
      </p>
      {lines.length > 0 && (
        <>
          <UnitLines lines={lines} currency={props.event.currency} priced={false} />
          {seats > 0 && (lost || free > 0) && (
            <p class="soft">
              {free === seats
                ? t.checkout.stillFree(seats)
                : free
                  ? t.checkout.someFree(free, seats)
                  : t.checkout.noneFree(seats)}
            </p>
          )}
        </>
      )}
      <div class="row">
        {lines.length > 0 &&
          (lost ? (
            <Button kind="primary" onClick={() => onNearest(units)}>
              {t.checkout.nearest}
            </Button>
          ) : (
            <Button kind="primary" busy={desk.busy === "place"} onClick={() => onAgain(units)}>
              {t.checkout.holdAgain(unitsIn(units))}
            </Button>
          ))}
        <Button onClick={desk.again}>{t.checkout.back}</Button>
      </div>
    </div>
  );
}

const unitsIn = ({ seats, pools }: Units): number =>
  Object.values(pools).reduce((sum, each) => sum + each, seats.length);

/** The service's details begin small and end without a stop. */
function sentence(detail: string): string {
  const [first = detail] = detail.split("; ");
  return first.charAt(0).toUpperCase() + first.slice(1).replace(/\.$/, "");
}
