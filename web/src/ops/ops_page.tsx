/** The page of whoever runs the sale. */

import { useEffect, useRef, useState } from "preact/hooks";
import { callForText, Problem } from "../api/http";
import type { EventView } from "../api/types";
import type { PageProps } from "../app";
import { time } from "../format";
import { t } from "../strings";
import { type Forget, NeedsAdminKey } from "../ui/admin_key";
import { Button } from "../ui/button";
import { toast } from "../ui/toast";
import { type Feed, heard, noFeed, toAsk } from "./bookings";
import {
  readEvents,
  readStats,
  readSystem,
  readTroubled,
  type SystemView,
  type TroubledOrder,
} from "./calls";
import { Charts } from "./charts";
import { EventsTable } from "./events_table";
import { Facts } from "./facts";
import { JustBooked } from "./feed";
import { GatePanel } from "./gate_panel";
import { add, type History, noHistory } from "./history";
import { sampleOf } from "./metrics";
import { OrdersPanel } from "./orders_panel";
import { usePoller } from "./poller";
import { Tiles } from "./tiles";
import { counting } from "./trials";
import "../style/ops.css";

const METRICS_MS = 1_000;
const OVERVIEW_MS = 2_000;

export default function OpsPage(_: PageProps) {
  return <NeedsAdminKey>{(forget) => <Operations forget={forget} />}</NeedsAdminKey>;
}

function Operations({ forget }: { forget: Forget }) {
  const [paused, setPaused] = useState(false);
  const [history, setHistory] = useState<History>(noHistory);
  const [events, setEvents] = useState<EventView[] | null>(null);
  const [system, setSystem] = useState<SystemView | null>(null);
  const [orders, setOrders] = useState<TroubledOrder[] | null>(null);
  const [feed, setFeed] = useState<Feed | null>(null);
  const known = useRef<Feed>(noFeed);
  const [withTrials, setWithTrials] = useState(false);
  const asked = useRef(withTrials);
  asked.current = withTrials;

  const guarded = async (work: () => Promise<void>) => {
    try {
      await work();
    } catch (trouble) {
      if (trouble instanceof Problem && (trouble.status === 401 || trouble.status === 403)) {
        // It was revoked, or the service was started anew: the page asks for another, and says why.
        forget(true);
      }
      throw trouble;
    }
  };

  const metrics = usePoller(
    (signal) =>
      guarded(async () => {
        const text = await callForText("GET", "/metrics", { as: "admin", signal });
        setHistory((before) => add(before, sampleOf(text, Date.now() / 1000)));
      }),
    METRICS_MS,
    paused,
  );

  const overview = usePoller(
    (signal) =>
      guarded(async () => {
        // One after the other. Where one cannot be read, the others are: a store that is away must
        // not hide how the gate stands.
        const troubles: unknown[] = [];
        const attempt = async (work: () => Promise<void>) => {
          try {
            await work();
          } catch (trouble) {
            if (signal.aborted) throw trouble;
            troubles.push(trouble);
          }
        };
        await attempt(async () => setSystem(await readSystem(signal)));
        await attempt(async () => setOrders(await readTroubled(signal)));
        await attempt(async () => {
          const found = await readEvents(signal);
          setEvents(found);
          for (const event of toAsk(known.current, counting(found, asked.current).shown)) {
            await attempt(async () => {
              known.current = heard(known.current, event, await readStats(event.id, signal));
            });
          }
          setFeed(known.current);
        });
        if (troubles.length) throw troubles[0];
      }),
    OVERVIEW_MS,
    paused,
  );

  const { shown, trials } = counting(events ?? [], withTrials);
  const flipTrials = () => {
    // What was left out may be among the latest, and what goes has taken the place of others.
    known.current = noFeed;
    setFeed(null);
    setWithTrials(!withTrials);
    overview.now();
  };

  return (
    <div class="page ops">
      <div class="ops-top">
        <div>
          <h1>{t.ops.title}</h1>
          <p class="soft">{t.ops.about}</p>
        </div>
        <Status paused={paused} standings={[metrics, overview]} />
        <div class="row">
          <Button onClick={() => setPaused(!paused)}>{paused ? t.ops.goOn : t.ops.pause}</Button>
          <Button kind="quiet" onClick={() => forget()}>
            {t.adminKey.forget}
          </Button>
        </div>
      </div>
      <Trouble standings={[metrics, overview]} />
      <Tiles events={events && shown} history={history} needing={orders?.length ?? null} />
      <Charts points={history.points} />
      {events && (
        <EventsTable
          events={shown}
          system={system}
          changed={overview.now}
          trials={trials}
          withTrials={withTrials}
          flipTrials={flipTrials}
        />
      )}
      <div class="ops-pair">
        {feed && <JustBooked booked={feed.booked} events={shown} />}
        {system && <GatePanel system={system} events={shown} changed={overview.now} />}
      </div>
      {orders && <OrdersPanel orders={orders} changed={overview.now} />}
      {system && <Facts system={system} sample={history.last} />}
    </div>
  );
}

type Standings = ReturnType<typeof usePoller>[];

/** Since when nothing new is known: the older of the two, of those that are in trouble. */
function staleSince(standings: Standings): { at: number | null; problem: Problem } | null {
  const bad = standings.filter((standing) => standing.trouble !== null);
  if (!bad.length) return null;
  const times = bad.map((standing) => standing.goodAt);
  const at = times.some((each) => each === null) ? null : Math.min(...(times as number[]));
  return { at, problem: bad[0]!.trouble! };
}

const said = (at: number) => time(new Date(at).toISOString());

function Status({ paused, standings }: { paused: boolean; standings: Standings }) {
  const stale = staleSince(standings);
  const began = standings.every((standing) => standing.goodAt !== null);
  const [kind, sign, text] = paused
    ? ["", "❙❙", t.ops.paused]
    : stale
      ? ["bad", "!", stale.at === null ? t.ops.connecting : t.ops.stale(said(stale.at))]
      : began
        ? ["good", "●", t.ops.live]
        : ["", "…", t.ops.connecting];
  return (
    <p class="ops-status" role="status">
      <span class={`badge ${kind}`} data-testid="ops-status">
        <span aria-hidden="true">{sign}</span>
        {text}
      </span>
    </p>
  );
}

function Trouble({ standings }: { standings: Standings }) {
  const stale = staleSince(standings);
  const was = useRef(false);
  useEffect(() => {
    if (was.current && !stale) toast(t.ops.isBack, "good");
    was.current = stale !== null;
  }, [stale === null]);
  if (!stale) return null;
  // What cannot be read is somebody else's page about our absence.
  const away = stale.problem.status === 0 || stale.problem.reason === "unreadable";
  return (
    <div class="notice bad" role="alert">
      <b>{away ? t.errors.unreachable : `${t.ops.partly} ${stale.problem.detail}`}</b>{" "}
      {stale.at === null ? t.ops.never : t.ops.staleWhy(said(stale.at))}
    </div>
  );
}
