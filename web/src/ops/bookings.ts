/** The feed of what was just booked, from the statistics of several events. Pure. */

import type { EventView } from "../api/types";
import type { Booking, StatsView } from "./calls";

export const SHOWN_MAX = 20;
/** Of events whose sales have moved: the others are asked in the next rounds. */
const ASKED_MAX = 8;

export interface Booked extends Booking {
  event: string;
  currency: string;
  /** A name of its own: bookings have no id, and a flash sale has many in a millisecond. */
  key: string;
}

export interface Feed {
  /** Of each event how much it had sold, for how much, when it was last asked. */
  asked: Record<string, string>;
  booked: Booked[];
}

export const noFeed: Feed = { asked: {}, booked: [] };

const moved = (event: EventView): string => `${event.sold} ${event.revenue}`;

/** The events to ask about: those that have sold something since they were last asked. */
export function toAsk(feed: Feed, events: EventView[]): EventView[] {
  return events
    .filter((event) => (feed.asked[event.id] ?? "0 0") !== moved(event))
    .sort((one, other) => Number(other.state === "on_sale") - Number(one.state === "on_sale"))
    .slice(0, ASKED_MAX);
}

export function heard(feed: Feed, event: EventView, stats: StatsView): Feed {
  const seen = new Map<string, number>();
  const news = stats.recent.map((booking) => {
    const facts = `${event.id} ${booking.time} ${booking.amount} ${booking.seats} ${JSON.stringify(booking.pools)}`;
    const before = seen.get(facts) ?? 0;
    seen.set(facts, before + 1);
    return { ...booking, event: event.id, currency: stats.currency, key: `${facts} ${before}` };
  });
  const others = feed.booked.filter((booking) => booking.event !== event.id);
  const booked = [...news, ...others]
    .sort((one, other) => Date.parse(other.time) - Date.parse(one.time))
    .slice(0, SHOWN_MAX);
  return { asked: { ...feed.asked, [event.id]: moved(event) }, booked };
}

/** Which of these were not there before. */
export function fresh(before: Booked[], now: Booked[]): Booked[] {
  const known = new Set(before.map((booking) => booking.key));
  return now.filter((booking) => !known.has(booking.key));
}

/** What was booked, in short: its seats, then its pools. */
export function unitsOf(booking: Booking, most = 4): { named: string[]; more: number } {
  const pools = Object.entries(booking.pools).map(([pool, count]) => `${count} × ${pool}`);
  const named = [...booking.seats, ...pools].slice(0, most);
  const pooled = Object.values(booking.pools).reduce((sum, count) => sum + count, 0);
  const seats = booking.seats.length;
  const shownSeats = Math.min(seats, most);
  const shownPools = Object.values(booking.pools)
    .slice(0, Math.max(0, most - seats))
    .reduce((sum, count) => sum + count, 0);
  return { named, more: Math.max(booking.units, seats + pooled) - shownSeats - shownPools };
}
