/** Map or list on one side, basket and checkout on the other; on a phone the basket is a sheet. */

import { useEffect, useMemo, useState } from "preact/hooks";
import type { Deployment, EventView } from "../api/types";
import { Checkout } from "../checkout/checkout";
import type { Phase } from "../checkout/phases";
import { type Desk, useHold } from "../checkout/use_hold";
import { StateBadge } from "../events/state_badge";
import { number } from "../format";
import { ConnectionPill } from "../map/connection";
import type { Plan } from "../map/layout";
import { Legend } from "../map/legend";
import type { SeatViewProps } from "../map/props";
import { SeatList } from "../map/seat_list";
import { SeatMap } from "../map/seat_map";
import { useLiveMap } from "../map/use_live_map";
import { t } from "../strings";
import { toast } from "../ui/toast";
import { costWords, Picker } from "./picker";
import { Refused } from "./refused";
import { estimate, unitsOf } from "./selection";
import { Sheet } from "./sheet";
import { useHeldSeats } from "./use_held_seats";
import { usePicking } from "./use_picking";
import { describeBy, seatPrices } from "./words";

export interface HouseProps {
  event: EventView;
  deployment: Deployment;
  /** What is known of the event may be out of date. */
  onStale: () => void;
}

export function House({ event, deployment, onStale }: HouseProps) {
  const live = useLiveMap(event);
  const { plan, version } = live;
  const desk = useHold(event);
  const describe = useMemo(() => describeBy(plan), [plan]);
  const picking = usePicking(event, desk, plan, version, describe);
  const [view, setView] = useState<"map" | "list">("map");
  const { selection, no, offer } = picking;
  const selling = event.state === "on_sale";
  useHeldSeats(desk, plan, version);

  useEffect(() => {
    if (live.connection !== "live") return;
    desk.reached();
    picking.reached();
  }, [live.connection]);

  useEffect(() => {
    if (no?.reason === "not_on_sale" || no?.reason === "unknown_event") onStale();
  }, [no]);

  const cost = useMemo(() => {
    if (!plan) return { least: 0, most: 0 };
    const { quantity, tier, section } = selection.best;
    const prices = quantity ? seatPrices(plan, tier, section) : [];
    return estimate(
      selection,
      (seat) => describe.seat(seat).price ?? 0,
      (pool) => describe.pool(pool).price ?? 0,
      prices,
    );
  }, [plan, selection]);

  const mine = useMemo(() => mySeats(desk), [desk.phase, desk.orders]);
  const picked = useMemo(() => new Set(selection.seats), [selection.seats]);
  const lost = useMemo(() => new Set(no?.seats ?? []), [no]);
  const suggested = useMemo(() => new Set(offer?.seats ?? []), [offer]);
  const held = desk.hold?.seats ?? null;
  const reveal = useMemo(() => held, [desk.hold?.id]);
  const first = firstWords(desk.phase);
  const units = unitsOf(selection);
  const amount = costWords(cost, event.currency);

  const addOne = (pool: string) => {
    const more = (selection.pools[pool] ?? 0) + 1;
    if (more > (plan?.pool(pool)?.available ?? 0)) return;
    picking.pool(pool, more);
  };

  const props: SeatViewProps | null = plan && {
    plan,
    version,
    currency: event.currency,
    picked,
    mine,
    lost,
    suggested,
    readonly: !selling || desk.phase.name !== "picking" || desk.busy === "place",
    onToggle: picking.toggle,
    onPool: addOne,
    first,
    onLocked: () => first && toast(first),
  };

  return (
    <section class="event">
      <div class="event-stage">
        <header class="event-head">
          <div class="event-title">
            <h1>{event.name}</h1>
            <StateBadge event={event} />
            <p class="soft numbers">
              {t.event.left(number(plan ? freeOf(plan) : event.available), number(event.capacity))}
            </p>
          </div>
          <ConnectionPill connection={live.connection} transport={live.transport} />
          {plan && plan.count > 0 && <Views view={view} onView={setView} />}
        </header>
        {!selling && (
          <p class="notice warn event-notice" role="status">
            {event.state === "paused" ? t.event.paused : t.event.closed}
          </p>
        )}
        <div class="event-map">
          {!props ? (
            <p class="loading" role={live.trouble ? "alert" : "status"}>
              {live.trouble ? t.errors.unreachable : t.common.loading}
            </p>
          ) : view === "list" ? (
            <SeatList {...props} />
          ) : (
            <SeatMap
              {...props}
              reveal={reveal}
              seq={live.seq}
              connection={live.connection}
              transport={live.transport}
            />
          )}
        </div>
        {plan && view === "map" && (
          <Legend
            plan={plan}
            version={version}
            currency={event.currency}
            lost={lost}
            suggested={suggested}
          />
        )}
      </div>
      <Sheet
        phase={desk.phase.name}
        eager={plan?.count === 0}
        urgent={no !== null}
        summary={
          desk.phase.name === "picking"
            ? units
              ? `${t.common.units(units)} · ${amount}`
              : t.event.nothing
            : summaryOf(desk.phase)
        }
        deadline={desk.phase.name === "holding" ? desk.deadline : null}
        {...(desk.phase.name === "picking" && units > 0 && selling
          ? { action: t.event.pick.hold, onAction: picking.hold }
          : {})}
        busy={desk.busy === "place"}
      >
        {desk.phase.name === "picking" && plan && (
          <>
            {no && picking.explanation && (
              <Refused
                no={no}
                explanation={picking.explanation}
                offer={offer}
                nameOfSeat={(seat) => describe.seat(seat).text}
                fewer={picking.fewer}
                busy={desk.busy === "place"}
                onWay={picking.take}
                onDismiss={picking.dismiss}
              />
            )}
            {desk.trouble !== null && (
              <p class="notice warn" role="alert">
                {desk.trouble}
              </p>
            )}
            <Picker
              event={event}
              plan={plan}
              describe={describe}
              selection={selection}
              cost={cost}
              cap={picking.cap}
              owned={picking.owned}
              selling={selling}
              busy={desk.busy === "place"}
              orders={desk.orders}
              focus={desk.moved}
              onSeat={picking.toggle}
              onPool={picking.pool}
              onBest={picking.best}
              onClear={picking.clear}
              onHold={picking.hold}
              onShow={(order) => void desk.show(order)}
            />
          </>
        )}
        <Checkout
          event={event}
          desk={desk}
          describe={describe}
          payments={deployment.payments}
          freeOf={(seats) =>
            seats.filter(
              (seat) => plan && plan.indexOf(seat) >= 0 && plan.isFree(plan.indexOf(seat)),
            ).length
          }
          onChange={(units) => picking.resume(units, false)}
          onAgain={(units) => {
            desk.again();
            picking.resume(units, true);
          }}
          onNearest={(units) => {
            desk.again();
            picking.missed(units);
          }}
        />
      </Sheet>
      <p class="visually-hidden" role="status">
        {desk.phase.name === "picking" && units > 0 && `${t.common.units(units)}, ${amount}`}
      </p>
    </section>
  );
}

/** As live as the map is; what is known of the event is asked for now and then only. */
function freeOf({ sections, pools }: Plan): number {
  let free = 0;
  for (const section of sections) free += section.free;
  for (const pool of pools) free += pool.available;
  return free;
}

function mySeats({ phase, orders }: Desk): Set<string> {
  const seats = new Set<string>();
  for (const order of orders) for (const seat of order.seats) seats.add(seat);
  const own =
    phase.name === "holding" || phase.name === "paying"
      ? phase.hold
      : phase.name === "bought"
        ? phase.order
        : null;
  for (const seat of own?.seats ?? []) seats.add(seat);
  return seats;
}

/** Which button leads back to choosing; null where there is none. */
function firstWords({ name }: Phase): string | null {
  const { change, more, back } = t.checkout;
  const buttons: Partial<Record<Phase["name"], string>> = {
    holding: change,
    bought: more,
    over: back,
  };
  const button = buttons[name];
  return button === undefined ? null : t.event.pick.first(button);
}

function summaryOf(phase: Phase): string {
  switch (phase.name) {
    case "looking":
      return t.checkout.looking;
    case "holding":
      return t.checkout.title;
    case "paying":
      return t.checkout.payingTitle;
    case "bought":
      return t.checkout.boughtTitle;
    case "over":
      return t.checkout.ends[phase.end][0]!;
    default:
      return "";
  }
}

function Views(props: { view: "map" | "list"; onView: (view: "map" | "list") => void }) {
  const one = (view: "map" | "list", name: string) => (
    <button type="button" aria-pressed={props.view === view} onClick={() => props.onView(view)}>
      {name}
    </button>
  );
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset would need a legend that is seen.
    <div class="views" role="group" aria-label={t.event.views}>
      {one("map", t.event.asMap)}
      {one("list", t.event.asList)}
    </div>
  );
}
