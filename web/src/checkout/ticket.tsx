/** What a buyer takes home: one ticket an order, for the screen and for paper. */

import { useMemo } from "preact/hooks";
import type { EventView, Order } from "../api/types";
import { dateTime } from "../format";
import { t } from "../strings";
import { addsUp, type Describe, linesOf } from "./describe";
import { ticketSquares } from "./qr";
import { price, UnitLines } from "./unit_lines";

const QUIET = 4;

export function Ticket(props: { event: EventView; order: Order; describe: Describe }) {
  const { event, order, describe } = props;
  const lines = linesOf(order, describe);
  return (
    <article class="ticket" aria-label={t.checkout.ticket}>
      <header>
        <span class="ticket-kind">{t.checkout.ticket}</span>
        <h3>{event.name}</h3>
      </header>
      <UnitLines lines={lines} currency={order.currency} priced={addsUp(lines, order.amount)} />
      <p class="ticket-total">
        <span>{t.checkout.paid}</span>
        <strong class="numbers">{price(order.amount, order.currency)}</strong>
      </p>
      <div class="ticket-stub">
        <Code order={order} />
        <dl>
          <dt>{t.checkout.order}</dt>
          <dd class="mono" data-testid="order-id">
            {order.id}
          </dd>
          <dt>{t.checkout.bought}</dt>
          <dd>
            <time dateTime={order.created_at}>{dateTime(order.created_at)}</time>
          </dd>
        </dl>
      </div>
    </article>
  );
}

/** Dark on light in every theme: that is what scanners read. */
function Code({ order }: { order: Order }) {
  const units = `${order.seats.join()} ${JSON.stringify(order.pools)}`;
  const { size, path } = useMemo(() => ticketSquares(order), [order.id, units]);
  const whole = size + 2 * QUIET;
  return (
    <svg
      class="qr"
      viewBox={`${-QUIET} ${-QUIET} ${whole} ${whole}`}
      role="img"
      aria-label={t.checkout.qr(order.id)}
      shape-rendering="crispEdges"
    >
      <rect x={-QUIET} y={-QUIET} width={whole} height={whole} fill="#fff" />
      <path d={path} fill="#000" />
    </svg>
  );
}
