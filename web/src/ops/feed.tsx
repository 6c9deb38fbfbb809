import { Fragment } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { EventView } from "../api/types";
import { money, time } from "../format";
import { eventPath } from "../router";
import { t } from "../strings";
import { type Booked, fresh, unitsOf } from "./bookings";

/** Whoever listens is told now and then, not of every single one. */
const ANNOUNCE_MS = 8_000;

export function JustBooked({ booked, events }: { booked: Booked[]; events: EventView[] }) {
  const words = t.ops.feed;
  const names = new Map(events.map((event) => [event.id, event.name]));
  const [first] = useState(() => new Set(booked.map((booking) => booking.key)));
  return (
    <section
      class={booked.length ? "card ops-feed" : "card ops-feed none"}
      aria-labelledby="ops-feed"
    >
      <h2 id="ops-feed">{words.title}</h2>
      <Announcer booked={booked} />
      {booked.length === 0 && <p class="soft">{words.none}</p>}
      <ol hidden={booked.length === 0}>
        {booked.map((booking) => {
          const { named, more } = unitsOf(booking);
          return (
            <li key={booking.key} class={first.has(booking.key) ? "" : "fresh"}>
              <time dateTime={booking.time} class="soft">
                {time(booking.time)}
              </time>
              <span class="ops-units">
                {named.map((unit, at) => (
                  <Fragment key={unit}>
                    {at > 0 && ", "}
                    <span>{unit}</span>
                  </Fragment>
                ))}{" "}
                {more > 0 && <span class="soft">{words.more(more)}</span>}
              </span>
              <b class="ops-amount">{money(booking.amount, booking.currency)}</b>
              <a href={eventPath(booking.event)}>{names.get(booking.event) || booking.event}</a>
            </li>
          );
        })}
      </ol>
    </section>
  );
}

function Announcer({ booked }: { booked: Booked[] }) {
  const [said, setSaid] = useState("");
  const told = useRef(booked);
  const latest = useRef(booked);
  latest.current = booked;
  useEffect(() => {
    const timer = setInterval(() => {
      const news = fresh(told.current, latest.current);
      told.current = latest.current;
      if (!news.length) return;
      const sums = new Map<string, number>();
      for (const { currency, amount } of news) {
        sums.set(currency, (sums.get(currency) ?? 0) + amount);
      }
      const sum = [...sums].map(([currency, amount]) => money(amount, currency)).join(" + ");
      setSaid(t.ops.feed.news(news.length, sum));
    }, ANNOUNCE_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <p class="visually-hidden" role="status">
      {said}
    </p>
  );
}
