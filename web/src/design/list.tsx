/** Rows of a list that can be moved, copied and removed, with buttons that say of which. */

import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { t } from "../strings";
import { Button } from "../ui/button";
import { useDesign } from "./context";
import { freeName, type ListName } from "./model";

const PATHS = {
  up: "M12 19V5m-6 6 6-6 6 6",
  down: "M12 5v14m6-6-6 6-6-6",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  remove: "M5 7h14M10 7V4h4v3m-8 0 1 13h10l1-13",
  open: "m8 10 4 4 4-4",
};

export function Icon({ name }: { name: keyof typeof PATHS }) {
  return (
    <svg viewBox="0 0 24 24" width="18" height="18" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

function Tool(props: {
  name: "up" | "down" | "copy" | "remove";
  label: string;
  disabled?: boolean;
  onClick: () => void;
}) {
  return (
    <button
      type="button"
      class={`icon-button tool ${props.name}`}
      data-tool={props.name}
      aria-label={props.label}
      title={props.label}
      disabled={props.disabled ?? false}
      onClick={props.onClick}
    >
      <Icon name={props.name} />
    </button>
  );
}

/** After the list is drawn anew: a button that was moved has lost the focus. */
function refocus(find: () => HTMLElement | null | undefined): void {
  requestAnimationFrame(() => requestAnimationFrame(() => find()?.focus()));
}

interface ItemProps {
  list: ListName;
  at: number;
  name: string;
  /** What to call it: `section A`. */
  item: string;
}

export function Tools({ list, at, name, item }: ItemProps) {
  const { draft, act, announce } = useDesign();
  const box = useRef<HTMLDivElement>(null);
  const items = draft[list];
  const key = items[at]!.key;
  const say = t.design.list;
  const move = (by: -1 | 1) => {
    act({ do: "move", list, at, by });
    announce(say.movedTo(item, at + by + 1));
    refocus(() => {
      const moved = document.querySelector(`[data-item="${key}"]`);
      const names = by < 0 ? ["up", "down"] : ["down", "up"];
      return names
        .map((each) => moved?.querySelector<HTMLButtonElement>(`[data-tool="${each}"]`))
        .find((button) => button && !button.disabled);
    });
  };
  const remove = () => {
    const next = items[at + 1]?.key ?? items[at - 1]?.key;
    const around = box.current?.closest<HTMLElement>(".design-card");
    act({ do: "remove", list, at });
    announce(say.removed(item));
    refocus(() =>
      next
        ? document.querySelector<HTMLElement>(`[data-item="${next}"] [data-tool="remove"]`)
        : around?.querySelector<HTMLElement>(".design-add button"),
    );
  };
  const names = (items as { id?: string; name?: string }[]).map((each) => each.id ?? each.name!);
  const copy = () => {
    const stem = name.replace(/-\d+$/, "") || "A";
    act({ do: "copy", list, at, name: freeName(names, stem) });
  };
  return (
    <div class="tools" ref={box}>
      <Tool name="up" label={say.up(item)} disabled={at === 0} onClick={() => move(-1)} />
      <Tool
        name="down"
        label={say.down(item)}
        disabled={at === items.length - 1}
        onClick={() => move(1)}
      />
      <Tool name="copy" label={say.copy(item)} onClick={copy} />
      <Tool name="remove" label={say.remove(item)} onClick={remove} />
    </div>
  );
}

/** A block that shows one line until its fields are wanted. */
export function Folded(
  props: ItemProps & {
    path: string;
    title: string;
    summary: string;
    count: string;
    children: ComponentChildren;
  },
) {
  const { draft, open, setOpen, faultsIn } = useDesign();
  const key = draft[props.list][props.at]!.key;
  const shown = open.has(key);
  const faults = faultsIn(props.path);
  const body = `design-${key}`;
  return (
    <li class={`design-block${faults ? " faulty" : ""}`} data-item={key}>
      <div class="design-block-head">
        <button
          type="button"
          class="design-fold"
          aria-expanded={shown}
          aria-controls={body}
          data-block={props.path}
          onClick={() => setOpen(key, !shown)}
        >
          <Icon name="open" />
          <span class="design-block-name">{props.title}</span>
          <span class="soft numbers">{props.summary}</span>
          {faults > 0 ? (
            <span class="badge bad">{t.design.faultsLeft(faults)}</span>
          ) : (
            <span class="soft numbers count">{props.count}</span>
          )}
        </button>
        <Tools list={props.list} at={props.at} name={props.name} item={props.item} />
      </div>
      <div id={body} class="design-block-body" hidden={!shown}>
        {shown && props.children}
      </div>
    </li>
  );
}

export function Add({ children, onClick }: { children: string; onClick: () => void }) {
  return (
    <div class="design-add">
      <Button onClick={onClick}>+ {children}</Button>
    </div>
  );
}

/** The first field of what was just added. */
export function focusFirst(key: string): void {
  refocus(() => document.querySelector<HTMLElement>(`[data-item="${key}"] input`));
}

const LONG = 12;

/** A stadium's sections do not push everything else off the page. */
export const listClass = (items: readonly unknown[]): string =>
  items.length > LONG ? "design-list scrolls" : "design-list";
