import { expect, describe as group, it } from "vitest";
import { HEADER, readCsv, writeCsv } from "./csv";
import { describe } from "./describe";
import { toLines } from "./files";
import { houseOf } from "./house";
import { emptyDraft, newSeat } from "./model";
import { packSeats, unpackSeats } from "./pack";
import { readEvent, readText, writeDesign } from "./read_event";

const GALA = {
  id: "gala",
  name: "Gala",
  currency: "EUR",
  hold_seconds: 480,
  grace_seconds: 300,
  max_extensions: 1,
  max_per_buyer: 8,
  ranking: "centre",
  prices: { gold: 9050, box: 15000, floor: 4500 },
  sections: [
    { id: "A", tier: "gold", rows: 10, seats_per_row: 20, aisles: [5, 15] },
    { id: "S", tier: "gold", rows: 1, seats_per_row: 10, channel: "sponsors", accessible: true },
    { id: "T", tier: "gold", rows: 1, seats_per_row: 10, x: -3.5, y: 40, rank: 7 },
  ],
  seats: [
    { id: "BOX-1", section: "BOX", row: "1", number: 1, tier: "box", x: 1, y: 43 },
    { id: "W-2", section: "W", row: "B", number: 2, tier: "gold", x: 2, y: 42, companion: true },
  ],
  pools: [{ id: "floor", capacity: 500, tier: "floor" }],
};

group("an event's JSON", () => {
  it("comes out as it went in", () => {
    expect(describe(readEvent(GALA)).body).toEqual(GALA);
    expect(JSON.parse(toLines(GALA))).toEqual(GALA);
  });

  it("gives seats without a place the one that the service gives them", () => {
    const [a, b, c] = readEvent({
      id: "x",
      prices: { gold: 1 },
      sections: [{ id: "A", tier: "gold", rows: 2, seats_per_row: 2 }],
      seats: [
        { id: "1", number: 4, tier: "gold" },
        { id: "2", number: 5, tier: "gold", row: 3 },
        { id: "3", number: 6, tier: "gold", row: "C" },
      ],
    }).seats;
    expect([a, b, c].map((seat) => [seat!.x, seat!.y])).toEqual([
      [4, 4],
      [5, 6],
      [6, 3],
    ]);
  });

  it.each([
    ["{", "This is not JSON"],
    ["[]", "Not imported: must be an object."],
    ["{}", "Not imported. id: is missing."],
    ['{"id": "x", "colour": 1}', "Not imported. colour: is not known here"],
    ['{"id": "x", "sections": {}}', "Not imported. sections: must be a list."],
    [
      '{"id": "x", "sections": [{"id": "A", "tier": "g", "rows": "2"}]}',
      "sections[0].rows: must be a whole number.",
    ],
    [
      '{"id": "x", "seats": [{"id": "1", "number": 1, "tier": "g", "row": " "}]}',
      "seats[0].row: must have 1 to 64",
    ],
    ['{"id": "x", "prices": {"gold": 1.5}}', "prices.gold: must be a whole number."],
    ['{"id": "x", "state": "open"}', "state: must be one of on_sale, paused, closed."],
    ['{"holdfast_design": 2}', "holdfast_design: is a design of another version"],
    ['{"holdfast_design": 1, "grids": [{"rows": 2}]}', "grids[0].rows: must be a text."],
  ])("%s is refused with one sentence", (text, sentence) => {
    expect(() => readText(text)).toThrow(sentence);
  });

  it("of a design keeps the arcs", () => {
    const draft = emptyDraft({ id: "x", seats: [newSeat({ id: "odd", number: 1, tier: "a" })] });
    const back = readText(JSON.stringify(writeDesign(draft)));
    expect(back.seats).toEqual(draft.seats);
    expect(back.id).toBe("x");
  });
});

group("CSV", () => {
  const seats = [
    newSeat({
      id: 'a "b", c',
      section: "Sal;on",
      row: "1",
      number: 1,
      tier: "gold",
      x: 1.5,
      y: -2,
    }),
    newSeat({ id: "W-2", number: 2, tier: "gold", y: 3, accessible: true, restricted: true }),
  ];

  it("comes back as it was written, quotes and all", () => {
    const text = writeCsv(seats);
    expect(text.split("\r\n")[0]).toBe(HEADER.join(","));
    expect(readCsv(text, 0)).toEqual({ seats, faults: [], faulty: 0 });
  });

  it("carries channels and ranks where there are some", () => {
    const ranked = seats.map((seat, n) => ({ ...seat, channel: "presale", rank: n }));
    expect(readCsv(writeCsv(ranked), 0).seats).toEqual(ranked);
  });

  it("understands spreadsheets: a mark at the start, semicolons, a value over two lines", () => {
    const text = '\uFEFFid;number;tier;x\n"two\nlines";1;gold;"1,5"\n\nb;2;gold;\n';
    const { seats: read, faults } = readCsv(text, 7);
    expect(faults.map((fault) => fault.line)).toEqual([2]);
    expect(read).toEqual([]);
    const fine = readCsv(text.replace("two\nlines", "one"), 7).seats;
    expect(fine.map((seat) => [seat.id, seat.x, seat.y])).toEqual([
      ["one", 1.5, 8],
      ["b", 2, 8],
    ]);
  });

  it("says every line that is wrong", () => {
    const text = "id,number,tier,accessible\na,1,gold,\nb,x,gold,maybe\na,2,gold,1\nc,3\n,4,,";
    const { faults, faulty } = readCsv(text, 0);
    expect(faulty).toBe(6);
    expect(faults.map((fault) => fault.line)).toEqual([3, 3, 4, 5, 6, 6]);
  });

  it.each([
    ["", 1],
    ["id,number\n1,2", 1],
    ["id,number,tier,colour\n1,2,3,4", 1],
    ['id,number,tier\n"1,2,gold', 2],
    ['id,number,tier\n"1"x,2,gold', 2],
  ])("%j is wrong on line %i", (text, line) => {
    const { faults, seats: read } = readCsv(text, 0);
    expect(faults[0]!.line).toBe(line);
    expect(read).toEqual([]);
  });
});

group("packed seats", () => {
  const { seats } = houseOf(readEvent(GALA));

  it("are the same, and small", () => {
    const packed = JSON.stringify(packSeats(seats));
    expect(unpackSeats(JSON.parse(packed))).toEqual(seats);
    expect(packed.length / seats.length).toBeLessThan(20);
  });

  it("may each have a rank of their own", () => {
    const ranked = seats.map((seat, n) => ({ ...seat, rank: n % 3 ? n : null }));
    expect(unpackSeats(JSON.parse(JSON.stringify(packSeats(ranked))))).toEqual(ranked);
    expect(packSeats(ranked).length).toBe(packSeats(seats).length);
  });

  it("of other hands are refused", () => {
    expect(unpackSeats([{ s: "A" }])).toBeNull();
    expect(unpackSeats("seats")).toBeNull();
  });
});
