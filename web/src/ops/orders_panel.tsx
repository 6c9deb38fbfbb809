import { dateTime, money } from "../format";
import { t } from "../strings";
import { Button } from "../ui/button";
import { toast } from "../ui/toast";
import { useActing } from "./acting";
import { retryOrder, type TroubledOrder } from "./calls";
import { Panel } from "./gate_panel";

const SHOWN_MAX = 50;

export interface OrdersPanelProps {
  orders: TroubledOrder[];
  changed: () => void;
}

export function OrdersPanel({ orders, changed }: OrdersPanelProps) {
  const words = t.ops.orders;
  const { acting, act } = useActing();
  const retry = (order: TroubledOrder) =>
    act(order.id, async () => {
      const now = await retryOrder(order.id);
      if (now.trouble) toast(words.still(order.id, now.trouble), "bad");
      else toast(words.solved(order.id), "good");
      changed();
    });
  const badge = orders.length > 0 && <span class="badge bad">! {orders.length}</span>;
  return (
    <Panel id="ops-orders" title={words.title} badge={badge}>
      {orders.length === 0 ? (
        <p class="soft">
          <span aria-hidden="true">✓ </span>
          {words.none}
        </p>
      ) : (
        <>
          <p class="soft">{words.hint}</p>
          <div class="table as-cards">
            <table>
              <thead>
                <tr>
                  <th scope="col">{words.order}</th>
                  <th scope="col" class="number">
                    {words.amount}
                  </th>
                  <th scope="col">{words.state}</th>
                  <th scope="col">{words.since}</th>
                  <th scope="col">{words.why}</th>
                  <th scope="col">
                    <span class="visually-hidden">{t.ops.events.actions}</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {orders.slice(0, SHOWN_MAX).map((order) => (
                  <tr key={order.id}>
                    <th scope="row" class="mono ops-id">
                      {order.id}
                    </th>
                    <td class="number" data-label={words.amount}>
                      {money(order.amount, order.currency)}
                    </td>
                    <td data-label={words.state}>
                      <span>
                        {order.state}
                        {order.payment && (
                          <span class="soft">, {words.payment(order.payment.state)}</span>
                        )}
                      </span>
                    </td>
                    <td data-label={words.since}>{dateTime(order.created_at)}</td>
                    <td data-label={words.why} class="ops-why">
                      {order.trouble}
                    </td>
                    <td class="ops-actions">
                      <Button
                        onClick={() => retry(order)}
                        busy={acting === order.id}
                        label={words.retryLabel(order.id)}
                      >
                        {words.retry}
                      </Button>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {orders.length > SHOWN_MAX && <p class="soft">{words.more(orders.length - SHOWN_MAX)}</p>}
        </>
      )}
    </Panel>
  );
}
