/** The page /e/{event}: a live map, what is chosen on it, and the way to the ticket. */

import { useEffect } from "preact/hooks";
import { getEvent } from "../api/calls";
import { Problem } from "../api/http";
import type { PageProps } from "../app";
import { usePolled } from "../events/use_polled";
import { t } from "../strings";
import { Button } from "../ui/button";
import { House } from "./house";
import "../style/event.css";

const REFRESH_MS = 5_000;

export default function EventPage({ deployment, event: id }: PageProps & { event: string }) {
  const { value: event, trouble, again } = usePolled((signal) => getEvent(id, signal), REFRESH_MS);
  useEffect(() => {
    if (!event) return;
    const before = document.title;
    document.title = `${event.name} · ${t.brand}`;
    return () => {
      document.title = before;
    };
  }, [event?.name]);
  if (event) return <House event={event} deployment={deployment} onStale={again} />;
  if (trouble === null) return <p class="loading">{t.common.loading}</p>;
  const unknown = trouble instanceof Problem && trouble.status === 404;
  return (
    <section class="page narrow">
      <h1>{unknown ? t.event.unknown : t.brand}</h1>
      {!unknown && (
        <p role="alert">{trouble instanceof Problem ? trouble.detail : t.errors.unreachable}</p>
      )}
      <div class="row">
        {!unknown && <Button onClick={again}>{t.errors.again}</Button>}
        <a class="button" href="/">
          {t.event.toEvents}
        </a>
      </div>
    </section>
  );
}
