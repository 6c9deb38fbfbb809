import type { EventView } from "../api/types";
import { t } from "../strings";

export function StateBadge({ event }: { event: EventView }) {
  if (event.state === "on_sale" && event.available === 0) {
    return <span class="badge bad">{t.events.soldOut}</span>;
  }
  const kind = { on_sale: "good", paused: "warn", closed: "" }[event.state];
  return <span class={`badge ${kind}`}>{t.events.states[event.state]}</span>;
}
