import { expect, describe as group, it } from "vitest";
import { describe } from "./describe";
import { houseOf } from "./house";
import { emptyDraft, newArc, newGrid, newPool, newSeat, newTier } from "./model";
import { toMajor, toMinor } from "./reading";

const draftOf = (given: Parameters<typeof emptyDraft>[0] = {}) =>
  emptyDraft({ id: "gala", tiers: [newTier("gold", "90")], ...given });
const grid = (given = {}) => newGrid({ id: "A", tier: "gold", rows: "2", seats: "3", ...given });
const arc = (given = {}) => newArc({ id: "R", tier: "gold", ...given });
const faultsOf = (given: Parameters<typeof emptyDraft>[0]) =>
  houseOf(draftOf(given)).faults.map((fault) => fault.path);

group("prices", () => {
  it.each([
    ["90", "EUR", 9000],
    ["90.5", "EUR", 9050],
    ["0,07", "EUR", 7],
    ["1.005", "EUR", null],
    ["1.005", "KWD", 1005],
    ["500", "JPY", 500],
    ["500", "HUF", 50000],
    ["500.5", "JPY", null],
    ["-1", "EUR", null],
    ["ten", "EUR", null],
  ])("%s %s", (typed, currency, minor) => {
    expect(toMinor(typed, currency)).toBe(minor);
  });

  it("come back as they were typed", () => {
    expect([9000, 9050, 7, 0].map((minor) => toMajor(minor, "EUR"))).toEqual([
      "90",
      "90.50",
      "0.07",
      "0",
    ]);
    expect(toMajor(500, "JPY")).toBe("500");
  });
});

group("a grid", () => {
  it("has the service's seats: one step apart, an aisle is one more", () => {
    const { seats } = houseOf(draftOf({ grids: [grid({ aisles: "2", x: "5" })] }));
    expect(seats.map((seat) => [seat.id, seat.x, seat.y])).toEqual([
      ["A-1-1", 6, 1],
      ["A-1-2", 7, 1],
      ["A-1-3", 9, 1],
      ["A-2-1", 6, 2],
      ["A-2-2", 7, 2],
      ["A-2-3", 9, 2],
    ]);
  });

  it("stands behind the one before unless it says where", () => {
    const behind = [grid(), grid({ id: "B" }), grid({ id: "C", y: "-10" })];
    const { seats } = houseOf(draftOf({ grids: behind }));
    const front = (section: string) => seats.find((seat) => seat.section === section)!.y;
    expect([front("A"), front("B"), front("C")]).toEqual([1, 4, -9]);
  });

  it("turned by a quarter has its rows from front to back, exactly", () => {
    const { seats } = houseOf(draftOf({ grids: [grid({ turn: "90", x: "10", y: "0" })] }));
    expect(seats.slice(0, 3).map((seat) => [seat.x, seat.y])).toEqual([
      [9, 1],
      [9, 2],
      [9, 3],
    ]);
  });

  it("names rows by letters, by numbers, or by a list", () => {
    const rows = (rowNames: string) =>
      houseOf(draftOf({ grids: [grid({ rowNames })] })).seats.map((seat) => seat.row);
    expect(new Set(rows("Y"))).toEqual(new Set(["Y", "Z"]));
    expect(new Set(rows("9"))).toEqual(new Set(["9", "10"]));
    expect(new Set(rows("08:00, 09:00"))).toEqual(new Set(["08:00", "09:00"]));
  });

  it("sets every second seat of an accessible row aside for a companion", () => {
    const { seats } = houseOf(
      draftOf({ grids: [grid({ accessibleRows: "2", companions: true })] }),
    );
    const marks = seats.map((seat) => (seat.accessible ? "a" : seat.companion ? "c" : "-"));
    expect(marks.join("")).toBe("---aca");
  });
});

group("an arc", () => {
  it("bends its rows around the stage", () => {
    const it = arc({ rows: "3", radius: "10", rowStep: "2", x: "100", y: "50" });
    for (const seat of houseOf(draftOf({ arcs: [it] })).seats) {
      const r = Math.hypot(seat.x - 100, seat.y - 50);
      expect(r).toBeCloseTo(10 + 2 * (Number(seat.row) - 1), 2);
    }
  });

  it("begins and ends at its angles, from left to right or right to left", () => {
    const it = arc({ rows: "1", radius: "10", from: "-90", to: "90", fill: "fixed", seats: "3" });
    const ends = (numbering: "left" | "right") =>
      houseOf(draftOf({ arcs: [{ ...it, numbering }] }))
        .seats.sort((a, b) => a.number - b.number)
        .map((seat) => [seat.x, seat.y]);
    const points = [
      [-10, 0],
      [0, 10],
      [10, 0],
    ];
    expect(ends("left")).toEqual(points);
    expect(ends("right")).toEqual(points.reverse());
  });

  it("puts as many into a row as fit, never closer than the spacing", () => {
    const { seats } = houseOf(draftOf({ arcs: [arc({ rows: "5", spacing: "1.2" })] }));
    for (let n = 1; n < seats.length; n += 1) {
      const [a, b] = [seats[n - 1]!, seats[n]!];
      if (a.row !== b.row) continue;
      const apart = Math.hypot(a.x - b.x, a.y - b.y);
      expect(apart).toBeGreaterThan(1.15);
      expect(apart).toBeLessThan(1.5);
    }
  });

  it("has aisles that the service takes for aisles, and all its seats", () => {
    const it = arc({ rows: "1", radius: "20", fill: "fixed", seats: "21", aisles: "-15, 15" });
    const { seats } = houseOf(draftOf({ arcs: [it] }));
    expect(seats.length).toBe(21);
    const steps = seats
      .slice(1)
      .map((seat, n) => Math.hypot(seat.x - seats[n]!.x, seat.y - seats[n]!.y));
    const median = [...steps].sort((a, b) => a - b)[10]!;
    expect(steps.filter((step) => step > 1.5 * median).length).toBe(2);
  });

  it("goes all around without meeting itself", () => {
    const it = arc({ rows: "1", radius: "10", from: "0", to: "360", fill: "fixed", seats: "36" });
    const { seats } = houseOf(draftOf({ arcs: [it] }));
    expect(new Set(seats.map((seat) => `${seat.x} ${seat.y}`)).size).toBe(36);
  });
});

group("faults", () => {
  it.each([
    ["no id", { id: "", grids: [grid()] }, ["id"]],
    ["a dot in the id", { id: "no.dots", grids: [grid()] }, ["id"]],
    ["a long name", { name: "x".repeat(201), grids: [grid()] }, ["name"]],
    ["a currency in small letters", { currency: "eur", grids: [grid()] }, ["currency"]],
    ["no hold time", { holdSeconds: "0", grids: [grid()] }, ["holdSeconds"]],
    ["a cap of nothing", { maxPerBuyer: "0", grids: [grid()] }, ["maxPerBuyer"]],
    ["no units", {}, ["units"]],
    ["half a row", { grids: [grid({ rows: "1.5" })] }, ["grids[0].rows"]],
    ["too many rows", { grids: [grid({ rows: "10001" })] }, ["grids[0].rows"]],
    ["a million and more", { grids: [grid({ rows: "1000", seats: "1001" })] }, ["grids[0].rows"]],
    ["an aisle outside", { grids: [grid({ aisles: "4" })] }, ["grids[0].aisles"]],
    ["no place", { grids: [grid({ x: "left" })] }, ["grids[0].x"]],
    ["no such price", { grids: [grid({ tier: "tin" })] }, ["grids[0].tier"]],
    ["the same section twice", { grids: [grid(), grid()] }, ["grids[1].id"]],
    [
      "an arc that ends before it begins",
      { arcs: [arc({ from: "10", to: "10" })] },
      ["arcs[0].to"],
    ],
    ["an aisle beside the arc", { arcs: [arc({ aisles: "80" })] }, ["arcs[0].aisles"]],
    [
      "a pool of nothing",
      { pools: [newPool({ id: "f", tier: "gold", capacity: "0" })] },
      ["pools[0].capacity"],
    ],
    ["a pool without a price", { pools: [newPool({ id: "f" })] }, ["pools[0].tier"]],
    [
      "a tier twice",
      { tiers: [newTier("a", "1"), newTier("a", "2")], pools: [newPool({ id: "a" })] },
      ["tiers[1].name"],
    ],
    [
      "more than can be counted",
      {
        tiers: [newTier("a", "9999999999")],
        pools: [newPool({ id: "a", capacity: "1000000000" })],
      },
      ["tiers"],
    ],
    [
      "a single seat of a section",
      { grids: [grid()], seats: [newSeat({ id: "A-1-1", number: 1, tier: "gold" })] },
      ["seats"],
    ],
  ])("%s", (_, given, paths) => {
    expect(faultsOf(given)).toEqual(paths);
  });
});

group("what is sent", () => {
  const draft = draftOf({
    grids: [grid({ id: "T", turn: "90", x: "50" }), grid(), grid({ id: "B" })],
    arcs: [arc()],
    seats: [newSeat({ id: "K", number: 1, tier: "gold" })],
    pools: [newPool({ id: "floor", tier: "gold", capacity: "5" })],
  });
  const { body, fieldOf } = describe(draft);

  it("is a grid of the service's own where that says it all, else seat by seat", () => {
    expect((body.sections as { id: string }[]).map((section) => section.id)).toEqual(["A", "B"]);
    const seats = body.seats as { section: string }[];
    expect(new Set(seats.map((seat) => seat.section))).toEqual(new Set(["T", "R", "main"]));
    expect(body.prices).toEqual({ gold: 9000 });
  });

  it("leads back from each path to its field", () => {
    const last = (body.seats as unknown[]).length - 1;
    expect(
      [
        ...["id", "hold_seconds", "prices.gold", "prices", "sections"],
        ...["sections[1].seats_per_row", "sections[0].aisles[0]"],
        ...["seats[0].tier", "seats[6].x", `seats[${last}].id`, "pools[0].capacity"],
      ].map(fieldOf),
    ).toEqual([
      ...["id", "holdSeconds", "tiers[0].price", "tiers", "units"],
      ...["grids[2].seats", "grids[1].aisles"],
      ...["grids[0].tier", "arcs[0].x", "seats", "pools[0].capacity"],
    ]);
  });
});

group("a house of more seats than an event may have", () => {
  it("is not built any further, and says so", () => {
    const many = (n: number) => grid({ id: `S${n}`, rows: "1000", seats: "600" });
    const grids = Array.from({ length: 40 }, (_, n) => many(n));
    const house = houseOf(draftOf({ grids, arcs: [arc()] }));
    expect(house.seats.length).toBe(1_200_000);
    expect(house.faults.map((fault) => fault.path)).toEqual(["units"]);
  }, 30_000);
});
