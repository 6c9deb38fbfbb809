import { expect, describe as group, it } from "vitest";
import { type Action, act, newDesk, UNDO_MAX } from "./desk";
import { emptyDraft, newGrid, newPool, newTier } from "./model";

const start = () =>
  newDesk(
    emptyDraft({
      tiers: [newTier("gold", "90")],
      grids: [newGrid({ id: "A", tier: "gold" }), newGrid({ id: "B", tier: "gold" })],
      pools: [newPool({ id: "gold" })],
    }),
  );
const run = (...actions: Action[]) => actions.reduce(act, start());
const type = (value: string): Action => ({ do: "set", field: "name", value });

group("the desk", () => {
  it("undoes what was typed into one field at once, and does it again", () => {
    const typed = run(type("G"), type("Ga"), type("Gala"));
    expect(typed.past.length).toBe(1);
    const undone = act(typed, { do: "undo" });
    expect(undone.now.name).toBe("");
    expect(act(undone, { do: "redo" }).now.name).toBe("Gala");
  });

  it("makes the id of the name until it is said", () => {
    const id = (value: string): Action => ({ do: "set", field: "id", value });
    expect(run(type("Gala"), type("Gala night")).now.id).toBe("gala-night");
    expect(run(type("Gala"), id("g1"), type("Gala night")).now.id).toBe("g1");
    expect(run(type("Gala"), { do: "undo" }).now.id).toBe("");
  });

  it("forgets what was undone when something else is done", () => {
    const desk = run(type("Gala"), { do: "undo" }, { do: "remove", list: "grids", at: 0 });
    expect(desk.future).toEqual([]);
    expect(desk.now.grids.map((grid) => grid.id)).toEqual(["B"]);
  });

  it("moves, copies and removes", () => {
    const desk = run(
      { do: "move", list: "grids", at: 0, by: 1 },
      { do: "copy", list: "grids", at: 1, name: "A-2" },
      { do: "move", list: "grids", at: 0, by: -1 },
    );
    expect(desk.now.grids.map((grid) => grid.id)).toEqual(["B", "A", "A-2"]);
    expect(new Set(desk.now.grids.map((grid) => grid.key)).size).toBe(3);
  });

  it("lets what has a price follow its new name, also over an empty one", () => {
    const name = (value: string): Action => ({
      do: "edit",
      list: "tiers",
      at: 0,
      changes: { name: value },
    });
    const desk = run(name("gol"), name(""), name("s"), name("silver"));
    expect(desk.now.grids.map((grid) => grid.tier)).toEqual(["silver", "silver"]);
    expect(desk.now.pools[0]!.tier).toBe("silver");
    expect(act(desk, { do: "undo" }).now.grids[0]!.tier).toBe("gold");
  });

  it("remembers so many steps and no more", () => {
    const desk = run(
      ...Array.from(
        { length: UNDO_MAX + 20 },
        (): Action => ({ do: "add", list: "grids", item: newGrid() }),
      ),
    );
    expect(desk.past.length).toBe(UNDO_MAX);
  });
});
