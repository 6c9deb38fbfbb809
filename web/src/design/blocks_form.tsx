/** Straight and bent rows. */

import { useEffect, useRef } from "preact/hooks";
import { t } from "../strings";
import { CheckField } from "../ui/field";
import { useDesign } from "./context";
import { Choose, ChooseTier, choicesOf, Fields, seatsText, Text } from "./fields";
import type { House } from "./house";
import { Add, Folded, focusFirst, listClass } from "./list";
import { type Arc, type Draft, freeName, type Grid, newArc, newGrid, type Seat } from "./model";

type Edit<T> = <K extends keyof T & string>(field: K) => (value: T[K]) => void;

/** A phone's keyboard for numbers has no minus. */
const POSITIVE = new Set(["rows", "seats", "radius", "rowStep", "spacing"]);

const taken = (draft: Draft): string[] => [
  ...draft.grids.map((grid) => grid.id),
  ...draft.arcs.map((arc) => arc.id),
  ...draft.seats.map((seat) => seat.section),
];

export function GridsForm() {
  const { draft, house, act, setOpen } = useDesign();
  const say = t.design.grids;
  const add = () => {
    const grid = placedGrid(house, draft, {
      id: freeName(taken(draft)),
      tier: draft.tiers[0]?.name ?? "",
    });
    act({ do: "add", list: "grids", item: grid });
    setOpen(grid.key, true);
    focusFirst(grid.key);
  };
  return (
    <section class="card design-card" aria-labelledby="design-grids">
      <h2 id="design-grids">{say.title}</h2>
      <p class="soft">{say.about}</p>
      <ol class={listClass(draft.grids)}>
        {draft.grids.map((grid, at) => (
          <Folded
            key={grid.key}
            list="grids"
            at={at}
            name={grid.id}
            item={say.item(grid.id)}
            path={`grids[${at}]`}
            title={grid.id || "…"}
            summary={say.summary(grid.rows || "?", grid.seats || "?")}
            count={seatsText(house.blocks[at]?.shape.seats.length ?? 0)}
          >
            <GridFields grid={grid} at={at} />
          </Folded>
        ))}
      </ol>
      <Add onClick={add}>{say.add}</Add>
    </section>
  );
}

function GridFields({ grid, at }: { grid: Grid; at: number }) {
  const { act } = useDesign();
  const say = t.design.grids;
  const edit: Edit<Grid> = (field) => (value) =>
    act({ do: "edit", list: "grids", at, changes: { [field]: value } });
  const text = (field: keyof Grid & string, label: string, hint?: string) => (
    <Text
      path={`grids[${at}].${field}`}
      label={label}
      hint={hint}
      numeric={POSITIVE.has(field)}
      value={grid[field] as string}
      onInput={edit(field) as (value: string) => void}
    />
  );
  return (
    <>
      <Fields>
        {text("id", t.design.block.id)}
        <ChooseTier path={`grids[${at}].tier`} value={grid.tier} onInput={edit("tier")} />
        {text("rows", say.rows)}
        {text("seats", say.seats)}
        {text("aisles", say.aisles, say.aislesHint)}
        {text("x", say.x)}
        {text("y", say.y, say.yHint)}
        {text("turn", say.turn, say.turnHint)}
      </Fields>
      <TraitFields path={`grids[${at}]`} block={grid} edit={edit as Edit<Grid | Arc>} />
    </>
  );
}

export function ArcsForm() {
  const { draft, house, act, setOpen } = useDesign();
  const say = t.design.arcs;
  const add = () => {
    const arc = placedArc(house, {
      id: freeName(taken(draft)),
      tier: draft.tiers[0]?.name ?? "",
    });
    act({ do: "add", list: "arcs", item: arc });
    setOpen(arc.key, true);
    focusFirst(arc.key);
  };
  return (
    <section class="card design-card" aria-labelledby="design-arcs">
      <h2 id="design-arcs">{say.title}</h2>
      <p class="soft">{say.about}</p>
      <ol class={listClass(draft.arcs)}>
        {draft.arcs.map((arc, at) => (
          <Folded
            key={arc.key}
            list="arcs"
            at={at}
            name={arc.id}
            item={say.item(arc.id)}
            path={`arcs[${at}]`}
            title={arc.id || "…"}
            summary={say.summary(arc.rows || "?", arc.from || "?", arc.to || "?")}
            count={seatsText(house.blocks[draft.grids.length + at]?.shape.seats.length ?? 0)}
          >
            <ArcFields arc={arc} at={at} />
          </Folded>
        ))}
      </ol>
      <Add onClick={add}>{say.add}</Add>
    </section>
  );
}

/** Where nobody sits yet: in the middle, behind all others. */
function freePlace(seats: readonly Seat[]): { middle: number; back: number } | null {
  if (seats.length === 0) return null;
  let [left, right, back] = [seats[0]!.x, seats[0]!.x, seats[0]!.y];
  for (const { x, y } of seats) {
    left = Math.min(left, x);
    right = Math.max(right, x);
    back = Math.max(back, y);
  }
  return { middle: Math.round((left + right) / 2), back: Math.ceil(back + 1) };
}

function placedGrid(house: House, draft: Draft, given: Partial<Grid>): Grid {
  const grid = newGrid(given);
  // Behind other grids it stands by itself.
  const place = draft.arcs.length || draft.seats.length ? freePlace(house.seats) : null;
  if (!place) return grid;
  const x = place.middle - Math.ceil(Number(grid.seats) / 2);
  return { ...grid, x: `${x}`, y: `${place.back}` };
}

function placedArc(house: House, given: Partial<Arc>): Arc {
  const arc = newArc(given);
  const place = freePlace(house.seats);
  if (!place) return arc;
  const ends = Number(arc.radius) * Math.cos((Number(arc.to) * Math.PI) / 180);
  return { ...arc, x: `${place.middle}`, y: `${Math.ceil(place.back + 1 - ends)}` };
}

function ArcFields({ arc, at }: { arc: Arc; at: number }) {
  const { act } = useDesign();
  const say = t.design.arcs;
  const edit: Edit<Arc> = (field) => (value) =>
    act({ do: "edit", list: "arcs", at, changes: { [field]: value } });
  const text = (field: keyof Arc & string, label: string, hint?: string) => (
    <Text
      path={`arcs[${at}].${field}`}
      label={label}
      hint={hint}
      numeric={POSITIVE.has(field)}
      value={arc[field] as string}
      onInput={edit(field) as (value: string) => void}
    />
  );
  return (
    <>
      <Fields>
        {text("id", t.design.block.id)}
        <ChooseTier path={`arcs[${at}].tier`} value={arc.tier} onInput={edit("tier")} />
        {text("rows", t.design.grids.rows)}
        {text("radius", say.radius)}
        {text("rowStep", say.rowStep)}
        {text("from", say.from, say.angleHint)}
        {text("to", say.to)}
        <Choose
          path={`arcs[${at}].fill`}
          label={say.fill}
          value={arc.fill}
          onInput={edit("fill") as (value: string) => void}
          choices={choicesOf(say.fills)}
        />
        {arc.fill === "spacing" ? text("spacing", say.spacing) : text("seats", say.seats)}
        {text("aisles", say.aisles, say.aislesHint)}
        {text("x", say.x)}
        {text("y", say.y)}
        <Choose
          path={`arcs[${at}].numbering`}
          label={say.numbering}
          value={arc.numbering}
          onInput={edit("numbering") as (value: string) => void}
          choices={choicesOf(say.numberings)}
        />
      </Fields>
      <TraitFields path={`arcs[${at}]`} block={arc} edit={edit as Edit<Grid | Arc>} />
    </>
  );
}

/** What straight and bent rows may both say, and few do. */
function TraitFields(props: { path: string; block: Grid | Arc; edit: Edit<Grid | Arc> }) {
  const { path, block, edit } = props;
  const { faultsIn } = useDesign();
  const say = t.design.block;
  const fields = ["rowNames", "first", "accessibleRows", "restrictedRows", "channel"] as const;
  const faulty = [...fields, "rank", "rankStep", "rankSide"].some((field) =>
    faultsIn(`${path}.${field}`),
  );
  const details = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    if (faulty) details.current!.open = true;
  }, [faulty]);
  const text = (
    field: (typeof fields)[number] | "rank" | "rankStep" | "rankSide",
    hint?: string,
    numeric = false,
  ) => (
    <Text
      path={`${path}.${field}`}
      label={say[field]}
      hint={hint}
      numeric={numeric}
      value={block[field]}
      onInput={edit(field)}
    />
  );
  const check = (field: "companions" | "accessible" | "companion" | "restricted") => (
    <CheckField label={say[field]} checked={block[field]} onInput={edit(field)} />
  );
  return (
    <details class="design-more" ref={details}>
      <summary>{say.details}</summary>
      <Fields>
        {text("rowNames", say.rowNamesHint)}
        {text("first", undefined, true)}
        {text("accessibleRows", say.rowsHint)}
        {text("restrictedRows", say.rowsHint)}
        {text("channel", say.channelHint)}
        {text("rank", say.rankHint, true)}
        {text("rankStep", undefined, true)}
        {text("rankSide", say.rankSideHint, true)}
      </Fields>
      <div class="design-checks">
        {check("companions")}
        {check("accessible")}
        {check("companion")}
        {check("restricted")}
      </div>
    </details>
  );
}
