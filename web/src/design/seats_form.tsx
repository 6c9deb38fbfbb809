/** Seats of no pattern. They are many or odd, so they are edited as text, section by section. */

import { useMemo, useState } from "preact/hooks";
import { number } from "../format";
import { t } from "../strings";
import { Button } from "../ui/button";
import { useDesign } from "./context";
import { CsvEditor } from "./csv_editor";
import { FaultLine, seatsText } from "./fields";
import { Icon, listClass } from "./list";
import type { Seat } from "./model";

/** A text field with more lines is slower than a file. */
const EDIT_SEATS_MAX = 5_000;

interface Group {
  section: string;
  seats: Seat[];
  tiers: string;
}

function groupsOf(seats: readonly Seat[]): Group[] {
  const groups = new Map<string, Seat[]>();
  for (const seat of seats) {
    const group = groups.get(seat.section);
    if (group) group.push(seat);
    else groups.set(seat.section, [seat]);
  }
  return [...groups].map(([section, its]) => ({
    section,
    seats: its,
    tiers: [...new Set(its.map((seat) => seat.tier))].join(", "),
  }));
}

export function SeatsForm({ onImport }: { onImport: () => void }) {
  const { draft, act } = useDesign();
  const [editing, setEditing] = useState<Group | "new" | null>(null);
  const say = t.design.seats;
  const groups = useMemo(() => groupsOf(draft.seats), [draft.seats]);
  const without = (section: string) => draft.seats.filter((seat) => seat.section !== section);
  const use = (seats: Seat[]) => {
    const kept = editing === "new" ? draft.seats : without((editing as Group).section);
    const ids = new Set(seats.map((seat) => seat.id));
    act({ do: "seats", seats: [...kept.filter((seat) => !ids.has(seat.id)), ...seats] });
    setEditing(null);
  };
  return (
    <section
      class="card design-card"
      aria-labelledby="design-seats"
      data-path="seats"
      tabIndex={-1}
    >
      <h2 id="design-seats">{say.title}</h2>
      <p class="soft">{say.about}</p>
      <FaultLine path="seats" />
      {groups.length > 0 && (
        <ul class={listClass(groups)}>
          {groups.map((group) => (
            <li key={group.section} class="design-block">
              <div class="design-block-head">
                <span class="design-group">
                  <span class="design-block-name">{group.section}</span>
                  <span class="soft">{group.tiers}</span>
                  <span class="soft numbers count">{seatsText(group.seats.length)}</span>
                </span>
                <div class="tools">
                  {group.seats.length <= EDIT_SEATS_MAX && (
                    <Button
                      kind="quiet"
                      label={say.edit(group.section)}
                      onClick={() => setEditing(group)}
                    >
                      {say.editAll}
                    </Button>
                  )}
                  <button
                    type="button"
                    class="icon-button tool remove"
                    aria-label={say.remove(group.section)}
                    title={say.remove(group.section)}
                    onClick={() => act({ do: "seats", seats: without(group.section) })}
                  >
                    <Icon name="remove" />
                  </button>
                </div>
              </div>
            </li>
          ))}
        </ul>
      )}
      {groups.some((group) => group.seats.length > EDIT_SEATS_MAX) && (
        <p class="hint">{say.tooManyToEdit(number(EDIT_SEATS_MAX))}</p>
      )}
      <div class="design-add row">
        <Button onClick={() => setEditing("new")}>+ {say.write}</Button>
        <Button kind="quiet" onClick={onImport}>
          {say.importCsv}
        </Button>
      </div>
      {editing && (
        <CsvEditor
          title={editing === "new" ? say.writeTitle : say.editTitle(editing.section)}
          seats={editing === "new" ? [] : editing.seats}
          onUse={use}
          onClose={() => setEditing(null)}
        />
      )}
    </section>
  );
}
