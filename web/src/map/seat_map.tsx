/** The house on a canvas, to look around in and to pick seats from. */

import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { t } from "../strings";
import { flagsOf, placeOfSeat, poolInWords, seatInWords, tierAndPrice } from "./describe";
import type { Plan } from "./layout";
import type { Cursor } from "./painter";
import { canToggle, type Look, lookOf, marksOf, type SeatMapProps } from "./props";
import { MapView, type ViewScene } from "./view";
import "../style/map.css";

/** The map's root, as tests and measurements find it. */
export interface MapElement extends HTMLDivElement {
  /** Where a seat is on the page right now. */
  pointOf?: (id: string) => { x: number; y: number; scale: number } | null;
  /** What the map has for each seat, in the order of the plan. */
  states?: () => [string, string][];
}

type At = Cursor | { kind: "section"; index: number };

/** What seats surround is no stage, more often than not. */
const frontOf = ({ stage, box }: Plan): string =>
  stage && stage.top > box.top + 2 ? t.map.field : t.map.stage;

const sceneOf = (props: SeatMapProps): ViewScene => ({
  plan: props.plan,
  marks: marksOf(props),
  currency: props.currency,
  stage: props.stage === undefined ? frontOf(props.plan) : props.stage,
  readonly: props.readonly ?? false,
});

export function SeatMap(props: SeatMapProps) {
  const root = useRef<MapElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const tip = useRef<HTMLDivElement>(null);
  const said = useRef<HTMLDivElement>(null);
  const view = useRef<MapView | null>(null);
  // What the view calls back must see the props of now.
  const now = useRef(props);
  now.current = props;
  const keys = useId();
  const [zoom, setZoom] = useState({ atFit: true, atClosest: false });

  useEffect(() => {
    const made = new MapView(root.current!, canvas.current!, sceneOf(now.current), {
      onToggle: (index) => now.current.onToggle?.(now.current.plan.ids[index]!, index),
      onPool: (index) => now.current.onPool?.(now.current.plan.pools[index]!.id),
      onLocked: () => now.current.onLocked?.(),
      onPoint: (at, x, y) => showTip(tip.current!, at, x, y, now.current),
      onFocus: (at) => {
        const words = at ? inWords(at, now.current) : "";
        // The same words again would be said again.
        if (said.current!.textContent !== words) said.current!.textContent = words;
      },
      onZoom: (atFit, atClosest) => setZoom({ atFit, atClosest }),
    });
    view.current = made;
    root.current!.pointOf = (id) => made.pointOf(id);
    root.current!.states = () => {
      const { plan } = now.current;
      return plan.ids.map((id, index) => [id, plan.stateOf(index)]);
    };
    return () => made.close();
  }, []);

  // With the basket beside it, not a moment later: else the tip speaks of what was.
  useLayoutEffect(
    () => view.current?.show(sceneOf(now.current)),
    [
      props.plan,
      props.picked,
      props.mine,
      props.lost,
      props.suggested,
      props.readonly,
      props.first,
      props.stage,
      props.currency,
    ],
  );

  useEffect(() => {
    if (props.reveal) view.current?.bring(props.reveal);
  }, [props.reveal]);

  return (
    <div
      class="map"
      data-testid="map"
      data-seq={props.seq ?? ""}
      data-connection={props.connection}
      data-transport={props.transport}
      data-picked={props.picked?.size ?? 0}
    >
      <div
        ref={root}
        class="map-view"
        role="application"
        aria-roledescription={t.map.kind}
        aria-label={t.map.label}
        aria-describedby={keys}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: an application takes the keys itself
        tabIndex={0}
        onKeyDown={(event) => {
          if (event.ctrlKey || event.metaKey || event.altKey) return;
          if (view.current?.key(event.key, event.shiftKey)) event.preventDefault();
        }}
        onFocus={(event) => view.current?.focusIn(event.currentTarget.matches(":focus-visible"))}
        onBlur={() => view.current?.focusOut()}
      >
        {/* biome-ignore lint/a11y/noAriaHiddenOnFocusable: a canvas without a tabindex is not */}
        <canvas ref={canvas} aria-hidden="true" />
        <div ref={tip} class="map-tip" hidden />
      </div>
      <p id={keys} class="visually-hidden">
        {t.map.keys}
      </p>
      <div
        ref={said}
        class="visually-hidden"
        role="status"
        aria-live="polite"
        data-testid="map-focus"
      />
      <fieldset class="map-tools">
        <legend class="visually-hidden">{t.map.tools}</legend>
        <Tool label={t.map.zoomIn} off={zoom.atClosest} onClick={() => view.current?.zoomIn()}>
          M12 6v12M6 12h12
        </Tool>
        <Tool label={t.map.zoomOut} off={zoom.atFit} onClick={() => view.current?.zoomOut()}>
          M6 12h12
        </Tool>
        <Tool label={t.map.fit} off={zoom.atFit} onClick={() => view.current?.fit()}>
          M5 9V5h4M15 5h4v4M19 15v4h-4M9 19H5v-4
        </Tool>
      </fieldset>
    </div>
  );
}

function Tool(props: { label: string; off: boolean; onClick: () => void; children: string }) {
  return (
    <button
      type="button"
      class="icon-button"
      aria-label={props.label}
      title={props.label}
      // Not `disabled`: whoever is on it with the keys would be thrown off the page's order.
      aria-disabled={props.off}
      onClick={() => {
        if (!props.off) props.onClick();
      }}
    >
      <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true">
        <path d={props.children} />
      </svg>
    </button>
  );
}

function inWords(at: Cursor, props: SeatMapProps): string {
  const { plan, currency } = props;
  if (at.kind === "pool") return poolInWords(plan, plan.pools[at.index]!, currency);
  const look = lookOf(plan, at.index, marksOf(props));
  return [seatInWords(plan, at.index, look, currency), ...firstOf(look, props)].join(". ");
}

/** What stands between whoever looks and a seat that he could have. */
function firstOf(look: Look, { first, readonly }: SeatMapProps): string[] {
  return first && readonly && canToggle(look) ? [first] : [];
}

function linesOf(at: At, props: SeatMapProps): string[] {
  const { plan, currency } = props;
  if (at.kind === "section") {
    const { id, free, seats } = plan.sections[at.index]!;
    return [t.map.section(id), t.map.free(free, seats)];
  }
  if (at.kind === "pool") {
    const { id, available, capacity, tier } = plan.pools[at.index]!;
    return [id, tierAndPrice(plan, tier, currency), t.map.free(available, capacity)];
  }
  const look = lookOf(plan, at.index, marksOf(props));
  return [
    placeOfSeat(plan, at.index),
    tierAndPrice(plan, plan.tier[at.index]!, currency),
    [t.map.look[look], ...flagsOf(plan, at.index)].join(" · "),
    ...firstOf(look, props),
  ];
}

const GAP_PX = 16;

/** Beside the pointer, and inside of the map. Not by rendering: it follows every move. */
function showTip(tip: HTMLElement, at: At | null, x: number, y: number, props: SeatMapProps): void {
  tip.hidden = at === null;
  if (!at) return;
  const lines = linesOf(at, props);
  if (tip.dataset.shown !== lines.join("\n")) {
    tip.dataset.shown = lines.join("\n");
    tip.replaceChildren(
      ...lines.map((line, nth) => {
        const element = document.createElement(nth ? "span" : "strong");
        element.textContent = line;
        return element;
      }),
    );
  }
  const { clientWidth, clientHeight } = tip.parentElement!;
  const { offsetWidth, offsetHeight } = tip;
  const left = Math.max(4, Math.min(x + GAP_PX, clientWidth - offsetWidth - 4));
  const above = y - GAP_PX - offsetHeight;
  const top = above >= 4 ? above : Math.min(y + GAP_PX, clientHeight - offsetHeight - 4);
  tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
}
