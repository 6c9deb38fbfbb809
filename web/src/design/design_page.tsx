/** /design: an event from nothing, from a sample, or from a file, with its map beside it. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { EventView } from "../api/types";
import type { PageProps } from "../app";
import { eventPath } from "../router";
import { t } from "../strings";
import { Button } from "../ui/button";
import { toast } from "../ui/toast";
import { ArcsForm, GridsForm } from "./blocks_form";
import { DesignContext } from "./context";
import { writeCsv } from "./csv";
import { describe } from "./describe";
import { CsvDialog, type How, KeyDialog } from "./dialogs";
import { EventForm } from "./event_form";
import { FaultLine } from "./fields";
import { download, type Imported, importFile, toLines } from "./files";
import { Gallery } from "./gallery";
import { type Block, depthOf } from "./house";
import { HOUSES, type HouseName } from "./houses";
import { type Draft, firstDraft, newTier, type Seat } from "./model";
import { PoolsForm } from "./pools_form";
import { Preview } from "./preview";
import { writeDesign } from "./read_event";
import { type Saved, save } from "./save";
import { SaveBar } from "./save_bar";
import { SeatsForm } from "./seats_form";
import { nextId } from "./slug";
import { TiersForm } from "./tiers_form";
import { type ExportKind, Toolbar } from "./toolbar";
import { useDesignState } from "./use_design";
import "../style/design.css";

export default function DesignPage(_: PageProps) {
  const { design, desk, fresh, faults, told, kept, said, showAll, setServiceFaults } =
    useDesignState();
  const { draft, house, act } = design;
  const [saving, setSaving] = useState(false);
  const [answer, setAnswer] = useState<{ draft: Draft; saved: Saved } | null>(null);
  const [imported, setImported] = useState<Imported | null>(null);
  const file = useRef<HTMLInputElement>(null);
  const latest = useRef(draft);
  latest.current = draft;
  const say = t.design;

  useUndoKeys(
    () => act({ do: "undo" }),
    () => act({ do: "redo" }),
  );

  // What the service said counts for the draft it was said of.
  const saved = answer?.draft === draft ? answer.saved : null;
  // An event is made once: for more of the same id there is nothing to save.
  const made = answer?.saved.kind === "saved" ? answer.saved.event : null;

  const goToFault = () => {
    showAll();
    if (faults[0]) goTo(faults[0].path);
  };
  const goTo = (path: string) => {
    const block = /^(grids|arcs)\[(\d+)\]/.exec(path);
    const item = block && draft[block[1] as "grids" | "arcs"][Number(block[2])];
    if (item) design.setOpen(item.key, true);
    // Once the block is open, and the dialog that was before it is gone.
    requestAnimationFrame(() => requestAnimationFrame(() => focusPath(path)));
  };
  const anotherId = () => {
    act({ do: "set", field: "id", value: nextId(draft.id) });
    goTo("id");
  };
  const send = async (typed = false) => {
    if (house.faults.length) {
      goToFault();
      return;
    }
    setSaving(true);
    const result = await save(draft, typed).finally(() => setSaving(false));
    setAnswer({ draft, saved: result });
    if (result.kind === "exists") {
      setServiceFaults([{ path: "id", text: say.saved.exists(result.id) }]);
      goTo("id");
    }
    if (result.kind === "faults") {
      setServiceFaults(result.faults);
      showAll();
      goTo(result.faults[0]!.path);
    }
    if (result.kind !== "saved") return;
    // Who went on typing sees no notice of what was before.
    if (latest.current === draft) scrollTo(0, 0);
    else toast(say.saved.title(result.event.name), "good");
  };
  const replace = (next: Draft, words: string) => {
    act({ do: "replace", draft: next });
    setImported(null);
    toast(words, "good");
  };
  const read = async (chosen: File) => {
    const found = await importFile(chosen, depthOf(draft));
    if (found.kind === "event") replace(found.draft, say.files.imported(found.name));
    else setImported(found);
  };
  const useSeats = (seats: Seat[], how: How, name: string) =>
    replace(withSeats(draft, seats, how), say.files.imported(name));
  const write = (kind: ExportKind) => {
    if (kind === "event" && house.faults.length) {
      toast(say.files.correctFirst, "bad");
      goToFault();
      return;
    }
    const name = exportFile(kind, draft, house.seats);
    toast(say.files.exported(name), "good");
  };

  return (
    <DesignContext.Provider value={design}>
      <section class="page design">
        <header class="design-head">
          <div>
            <h1>{say.title}</h1>
            <p class="soft">{say.about}</p>
          </div>
          <Toolbar
            canUndo={desk.past.length > 0}
            canRedo={desk.future.length > 0}
            onUndo={() => act({ do: "undo" })}
            onRedo={() => act({ do: "redo" })}
            onImport={() => file.current!.click()}
            onExport={write}
            onAnew={() => replace(firstDraft(), say.undoHint)}
          />
          <input
            ref={file}
            type="file"
            class="visually-hidden"
            tabIndex={-1}
            aria-label={say.importAbout}
            accept=".json,.csv,application/json,text/csv"
            onChange={(event) => {
              const chosen = event.currentTarget.files?.[0];
              event.currentTarget.value = "";
              if (chosen) void read(chosen);
            }}
          />
        </header>
        {saved?.kind === "saved" && (
          <SavedNotice event={saved.event} onAnother={() => replace(firstDraft(), say.undoHint)} />
        )}
        {imported?.kind === "wrong" && (
          <div class="notice bad design-wrong" role="alert">
            <strong>{imported.name}</strong>
            <span>{imported.why}</span>
            <Button kind="quiet" onClick={() => setImported(null)}>
              {t.common.close}
            </Button>
          </div>
        )}
        {!kept && (
          <p class="notice warn" role="alert">
            {say.notKept}
          </p>
        )}
        <Gallery
          open={fresh}
          onUse={(name: HouseName) =>
            replace(HOUSES[name](), say.houses.loaded(say.houses[name].name))
          }
        />
        <div class="design-body">
          <div class="design-form">
            <EventForm />
            <TiersForm />
            <FaultLine path="units" />
            <GridsForm />
            <ArcsForm />
            <PoolsForm />
            <SeatsForm onImport={() => file.current!.click()} />
          </div>
          <div class="design-side">
            <Preview />
            <SaveBar
              saved={saved}
              made={made?.id === draft.id ? made : null}
              faults={told}
              ready={faults.length === 0}
              busy={saving}
              onFault={goToFault}
              onSave={() => void send()}
              onAnother={anotherId}
            />
          </div>
        </div>
        <p class="visually-hidden" role="status" aria-live="polite">
          {said}
        </p>
        {saved?.kind === "key" && (
          <KeyDialog
            fault={saved.why}
            busy={saving}
            onKey={() => void send(true)}
            onClose={() => setAnswer(null)}
          />
        )}
        {imported?.kind === "seats" && (
          <CsvDialog
            name={imported.name}
            read={imported.read}
            occupied={house.seats.length > 0}
            clashes={clash(house.blocks, imported.read.seats)}
            onUse={(how) => useSeats(imported.read.seats, how, imported.name)}
            onClose={() => setImported(null)}
          />
        )}
      </section>
    </DesignContext.Provider>
  );
}

function SavedNotice({ event, onAnother }: { event: EventView; onAnother: () => void }) {
  const say = t.design.saved;
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => box.current!.focus(), []);
  return (
    <div class="notice good design-saved" role="status" tabIndex={-1} ref={box}>
      <strong>{say.title(event.name)}</strong>
      <span>{event.state === "on_sale" ? say.onSale : say.notOnSale}</span>
      <a class="button primary" href={eventPath(event.id)}>
        {say.link}
      </a>
      <Button onClick={onAnother}>{say.another}</Button>
    </div>
  );
}

/** To the field with that place, or to whatever is nearest around it. */
function focusPath(path: string): void {
  const box = document.querySelector<HTMLElement>(`[data-path="${CSS.escape(path)}"]`);
  const field = box?.querySelector<HTMLElement>("input, select, textarea") ?? box;
  const fold = field?.closest("details");
  if (fold) fold.open = true;
  field?.focus();
  field?.scrollIntoView({ block: "center" });
}

/** Whether some of the seats are those of sections and arcs. */
function clash(blocks: Block[], seats: Seat[]): boolean {
  const ids = new Set(seats.map((seat) => seat.id));
  return blocks.some((block) => block.shape.seats.some((seat) => ids.has(seat.id)));
}

/** The house with these seats; prices that they name and nobody has given are there to be filled. */
function withSeats(draft: Draft, seats: Seat[], how: How): Draft {
  const ids = new Set(seats.map((seat) => seat.id));
  const known = new Set(draft.tiers.map((tier) => tier.name));
  const missing = [...new Set(seats.map((seat) => seat.tier))].filter((tier) => !known.has(tier));
  const stay = how === "add" ? draft.seats.filter((seat) => !ids.has(seat.id)) : [];
  return {
    ...draft,
    tiers: [...draft.tiers, ...missing.map((tier) => newTier(tier, ""))],
    grids: how === "add" ? draft.grids : [],
    arcs: how === "add" ? draft.arcs : [],
    seats: [...stay, ...seats],
  };
}

function exportFile(kind: ExportKind, draft: Draft, seats: Seat[]): string {
  const stem = draft.id.replace(/[^\w-]/g, "") || "event";
  if (kind === "seats") {
    download(`${stem}-seats.csv`, "text/csv", writeCsv(seats));
    return `${stem}-seats.csv`;
  }
  const [name, body] =
    kind === "event"
      ? [`${stem}.json`, describe(draft).body]
      : [`${stem}.design.json`, writeDesign(draft)];
  download(name, "application/json", toLines(body));
  return name;
}

/** Ctrl-Z and Ctrl-Y, except where a text field has its own. */
function useUndoKeys(undo: () => void, redo: () => void): void {
  const now = useRef({ undo, redo });
  now.current = { undo, redo };
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const key = event.key.toLowerCase();
      if (!(event.ctrlKey || event.metaKey) || event.altKey || !["z", "y"].includes(key)) return;
      const at = event.target as Element | null;
      if (at?.matches?.("input:not([type=checkbox]), textarea") || at?.closest?.("dialog")) return;
      event.preventDefault();
      if (key === "y" || event.shiftKey) now.current.redo();
      else now.current.undo();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}
