import { expect, it } from "vitest";
import type { EventView } from "../api/types";
import { counting } from "./trials";

it("leaves out the runs of the lab unless all are asked for", () => {
  const events = ["gala", "lab-1", "stampede-x", "laboratory"].map((id) => ({ id }) as EventView);
  const { shown, trials } = counting(events, false);
  expect(shown.map(({ id }) => id)).toEqual(["gala", "laboratory"]);
  expect(trials).toBe(2);
  expect(counting(events, true).shown).toHaveLength(4);
});
