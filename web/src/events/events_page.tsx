/** The page /: what there is, and how much of it is left. */

import { useState } from "preact/hooks";
import { listEvents } from "../api/calls";
import { Problem } from "../api/http";
import type { EventView } from "../api/types";
import type { PageProps } from "../app";
import { money, number } from "../format";
import { eventPath } from "../router";
import { t } from "../strings";
import { Button } from "../ui/button";
import { listing, priceRange, shares } from "./listing";
import { StateBadge } from "./state_badge";
import { usePolled } from "./use_polled";
import "../style/events.css";

const REFRESH_MS = 4_000;

export default function EventsPage(_: PageProps) {
  const { value: events, trouble, again } = usePolled(listEvents, REFRESH_MS);
  const [all, setAll] = useState(false);
  if (!events) {
    return (
      <section class="page">
        <h1>{t.events.title}</h1>
        {trouble ? (
          <div class="notice bad" role="alert">
            <p>{trouble instanceof Problem ? trouble.detail : t.errors.unreachable}</p>
            <Button onClick={again}>{t.errors.again}</Button>
          </div>
        ) : (
          <Waiting />
        )}
      </section>
    );
  }
  const { shown, hidden } = listing(events, all);
  return (
    <section class="page events">
      <header class="events-head">
        <div>
          <h1>{t.events.title}</h1>
          <p class="soft">{t.events.lead}</p>
        </div>
        {hidden > 0 && (
          <Button onClick={() => setAll(!all)}>
            {all ? t.events.showFewer : t.events.showAll(hidden)}
          </Button>
        )}
      </header>
      {trouble !== null && (
        <p class="notice warn" role="status">
          {t.events.stale}
        </p>
      )}
      {shown.length ? (
        <ul class="cards event-cards">
          {shown.map((event) => (
            <li key={event.id}>
              <EventCard event={event} />
            </li>
          ))}
        </ul>
      ) : (
        <Empty hidden={hidden} />
      )}
    </section>
  );
}

/** The shape of what is to come, so that nothing jumps. */
function Waiting() {
  return (
    <div class="cards event-cards">
      <p class="visually-hidden" role="status">
        {t.common.loading}
      </p>
      {[0, 1, 2].map((each) => (
        <div key={each} class="card event-card ghost" />
      ))}
    </div>
  );
}

function Empty({ hidden }: { hidden: number }) {
  return (
    <div class="card empty">
      <svg viewBox="0 0 64 48" width="96" height="72" aria-hidden="true">
        <path d="M8 10c16-6 32-6 48 0M8 20c16-6 32-6 48 0M8 30c16-6 32-6 48 0" />
        <rect x="18" y="38" width="28" height="6" rx="3" />
      </svg>
      <h2>{t.events.emptyTitle}</h2>
      <p class="soft">{hidden ? t.events.emptyHidden : t.events.empty}</p>
      <a class="button primary" href="/design">
        {t.events.design}
      </a>
    </div>
  );
}

function EventCard({ event }: { event: EventView }) {
  const selling = event.state === "on_sale" && event.available > 0;
  return (
    <article class="card event-card">
      <header>
        <h2>
          <a
            href={eventPath(event.id)}
            aria-label={(selling ? t.events.open : t.events.look)(event.name)}
          >
            {event.name}
          </a>
        </h2>
        <StateBadge event={event} />
      </header>
      <Availability event={event} />
      <footer>
        <strong class="numbers">{priceWords(event)}</strong>
        <span class="go" aria-hidden="true">
          {selling ? t.events.choose : t.events.see} →
        </span>
      </footer>
    </article>
  );
}

function Availability({ event }: { event: EventView }) {
  const { sold, held } = shares(event);
  const left = event.available
    ? t.events.left(number(event.available), number(event.capacity))
    : t.events.noneLeft(number(event.capacity));
  return (
    <div class="availability">
      <div class="bar" aria-hidden="true">
        <span class="sold" style={{ width: `${sold}%` }} />
        <span class="held" style={{ width: `${held}%` }} />
      </div>
      <p class="numbers">
        <span>{left}</span>
        {event.held > 0 && <span class="soft">{t.events.held(number(event.held))}</span>}
      </p>
    </div>
  );
}

function priceWords(event: EventView): string {
  const range = priceRange(event.prices);
  if (!range || range[1] === 0) return t.events.free;
  const [least, most] = range.map((price) =>
    price === 0 ? t.events.free : money(price, event.currency),
  );
  return least === most ? t.events.price(most!) : t.events.prices(least!, most!);
}
