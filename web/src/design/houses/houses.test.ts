import { expect, describe as group, it } from "vitest";
import { describe } from "../describe";
import { houseOf } from "../house";
import { UPLOAD_BYTES_MAX } from "../limits";
import { readDesign, readEvent, writeDesign } from "../read_event";
import { HOUSE_NAMES, HOUSES } from ".";

const UNITS = {
  theatre: 313,
  arena: 20_000,
  stadium: 60_000,
  club: 1_010,
  sneakers: 1_000,
  clinic: 160,
};

/** The shortest way between two seats of the house. */
function closest(seats: { x: number; y: number }[]): number {
  const cells = new Map<string, { x: number; y: number }[]>();
  let least = Number.POSITIVE_INFINITY;
  for (const seat of seats) {
    const [h, v] = [Math.floor(seat.x), Math.floor(seat.y)];
    for (let i = h - 1; i <= h + 1; i += 1) {
      for (let j = v - 1; j <= v + 1; j += 1) {
        for (const other of cells.get(`${i} ${j}`) ?? []) {
          least = Math.min(least, Math.hypot(seat.x - other.x, seat.y - other.y));
        }
      }
    }
    const cell = cells.get(`${h} ${v}`);
    if (cell) cell.push(seat);
    else cells.set(`${h} ${v}`, [seat]);
  }
  return least;
}

group.each(["arena", "stadium"] as const)("the best seats of the %s", (name) => {
  const { seats } = houseOf(HOUSES[name]());
  it.each(["101", "106", "304"])("are in the middle of the front of section %s", (section) => {
    const inside = seats.filter((seat) => seat.section === section);
    const front = inside.filter((seat) => seat.row === "1");
    const best = Math.min(...inside.map((seat) => seat.rank!));
    const middle = (front.length + 1) / 2;
    expect(inside.filter((seat) => seat.rank === best).map((seat) => seat.number)).toEqual([
      ...new Set([Math.floor(middle), Math.ceil(middle)]),
    ]);
    expect(front[0]!.rank).toBe(best + Math.floor((front.length - 1) / 2));
    expect(front.at(-1)!.rank).toBe(front[0]!.rank);
    expect(inside.find((seat) => seat.row === "2")!.rank).toBeGreaterThan(front[0]!.rank!);
  });
});

group.each(HOUSE_NAMES)("the sample house %s", (name) => {
  const draft = HOUSES[name]();
  const house = houseOf(draft);

  it("has no fault, and as many units as it says", () => {
    expect(house.faults).toEqual([]);
    const [least, most] = [UNITS[name]].flat(2) as [number, number?];
    expect(house.units).toBeGreaterThanOrEqual(least);
    expect(house.units).toBeLessThanOrEqual(most ?? least);
  });

  it("has no seat on another's lap", () => {
    if (house.seats.length) expect(closest(house.seats)).toBeGreaterThanOrEqual(0.9);
  });

  it("is the same house after a journey through its JSON", () => {
    const { body } = describe(draft);
    const text = JSON.stringify(body);
    expect(text.length).toBeLessThan(UPLOAD_BYTES_MAX);
    const back = readEvent(JSON.parse(text));
    const again = houseOf(back);
    expect(again.faults).toEqual([]);
    expect(again.seats.length).toBe(house.seats.length);
    expect(JSON.stringify(describe(back).body)).toBe(text);
  });

  it("is the same design after a journey through a file", () => {
    const back = readDesign(JSON.parse(JSON.stringify(writeDesign(draft))));
    expect(writeDesign(back)).toEqual(writeDesign(draft));
  });
});
