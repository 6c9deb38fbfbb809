/** Why nothing was held, and what to do about it with one button. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Suggestion } from "../map/nearest";
import { t } from "../strings";
import { Button } from "../ui/button";
import type { Explanation, Refusal, Way } from "./refusal";

export interface RefusedProps {
  no: Refusal;
  explanation: Explanation;
  offer: Suggestion | null;
  nameOfSeat: (seat: string) => string;
  /** How many the way "fewer" would take. */
  fewer: number;
  busy: boolean;
  onWay: (way: Way) => void;
  onDismiss: () => void;
}

export function Refused(props: RefusedProps) {
  const { no, explanation, offer, nameOfSeat, fewer, busy, onWay } = props;
  const box = useRef<HTMLElement>(null);
  const wait = useWait(no);
  // The button that was pressed is still there, but what matters now is here.
  useEffect(() => {
    if (no.reason !== "overtaken") box.current?.focus();
  }, [no]);
  const words = t.event.refused;
  const ways = explanation.ways.filter((way) => way !== "instead" || offer !== null);
  const label = (way: Way): string => {
    switch (way) {
      case "instead":
        return words.instead(offer?.seats.length ?? 1);
      case "fewer":
        return words.fewer(fewer);
      case "retry":
        return wait > 0 ? words.retryIn(wait) : words.retry;
      default:
        return words[way];
    }
  };
  return (
    <section
      class="refused notice warn"
      ref={box}
      tabIndex={-1}
      aria-label={words.title}
      data-reason={no.reason}
    >
      <p role="alert">{explanation.text}</p>
      {explanation.ways.includes("instead") && (
        <p>
          {offer
            ? words.offer(offer.seats.map(nameOfSeat), offer.together, offer.sameTier)
            : words.noOffer}
        </p>
      )}
      <div class="row">
        {ways.map((way, nth) =>
          way === "events" ? (
            <a key={way} class="button" href="/">
              {words.events}
            </a>
          ) : (
            <Button
              key={way}
              kind={nth === 0 ? "primary" : "plain"}
              busy={busy}
              disabled={way === "retry" && wait > 0}
              onClick={() => onWay(way)}
            >
              {label(way)}
            </Button>
          ),
        )}
        <Button kind="quiet" onClick={props.onDismiss}>
          {words.dismiss}
        </Button>
      </div>
    </section>
  );
}

/** The seconds until the service wants to be asked again. */
function useWait(no: Refusal): number {
  const [left, setLeft] = useState(Math.ceil(no.retryAfter ?? 0));
  useEffect(() => {
    const until = performance.now() + (no.retryAfter ?? 0) * 1000;
    const tick = () => setLeft(Math.max(0, Math.ceil((until - performance.now()) / 1000)));
    tick();
    if (!no.retryAfter) return;
    const timer = setInterval(tick, 250);
    return () => clearInterval(timer);
  }, [no]);
  return left;
}
