/** A seat is a quarter of an hour: the section is the doctor, the row the hour. */

import { type Draft, emptyDraft, type Grid, newGrid, newTier } from "../model";

const DOCTORS: [string, string][] = [
  ["Dr Adeyemi", "consultation"],
  ["Dr Brandt", "consultation"],
  ["Dr Castillo", "specialist"],
  ["Dr Dubois", "specialist"],
  ["Nurse Ek", "check-up"],
];
const QUARTERS = 4;
const SESSIONS = [
  { hours: ["08", "09", "10", "11"], y: 0 },
  { hours: ["13", "14", "15", "16"], y: 5 },
];

export function clinic(): Draft {
  return emptyDraft({
    id: "clinic-monday",
    name: "Clinic, Monday",
    holdSeconds: "600",
    maxPerBuyer: "2",
    tiers: [newTier("specialist", "140"), newTier("consultation", "75"), newTier("check-up", "30")],
    grids: DOCTORS.flatMap(([doctor, tier], n) =>
      SESSIONS.map(
        ({ hours, y }): Grid =>
          newGrid({
            id: doctor,
            tier,
            rows: `${hours.length}`,
            seats: `${QUARTERS}`,
            rowNames: hours.join(", "),
            x: `${n * (QUARTERS + 3)}`,
            y: `${y}`,
          }),
      ),
    ),
  });
}
