import { expect, test } from "vitest";
import { makePlan } from "./layout";
import { placesOfNames } from "./names";

const bent = (section: string, radius: number, from = 0) =>
  [0, 1].flatMap((row) =>
    Array.from({ length: 21 }, (_, nth) => {
      const angle = ((nth - 10) * 6 * Math.PI) / 180;
      return {
        id: `${section}-${row}-${nth}`,
        section,
        row: String(row),
        number: nth + 1,
        tier: "gold",
        x: (radius + row) * Math.sin(angle),
        y: from + (radius + row) * Math.cos(angle),
        state: "available" as const,
      };
    }),
  );

test("a name stands before the middle of its first row, also where the rows are bent", () => {
  const plan = makePlan(bent("Stalls", 12), [], { gold: 1 });
  const [stalls] = placesOfNames(plan, 0.6, () => 3);
  const middle = plan.indexOf("Stalls-0-10");
  expect(stalls!.x).toBeCloseTo(plan.x[middle]!, 1);
  expect(Math.abs(stalls!.y - plan.y[middle]!)).toBeCloseTo(1, 1);
});

test("no name lies on seats or on another name", () => {
  const tight = [...bent("Stalls", 12), ...bent("Rear", 14)];
  const plan = makePlan(tight, [], { gold: 1 });
  const places = placesOfNames(plan, 0.6, () => 3);
  for (const { x, y } of places) expect(plan.grid.nearest(x, y, 0.5)).toBe(-1);
  expect(new Set(places.map(({ name }) => name)).has("Stalls")).toBe(true);
});
