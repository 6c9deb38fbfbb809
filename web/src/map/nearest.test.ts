import { describe, expect, it } from "vitest";
import { block, demo } from "./houses_for_tests";
import { makePlan, type Plan } from "./layout";
import { nearestFree } from "./nearest";

const sell = (plan: Plan, ids: string[]) => plan.apply(ids.map((id) => [id, "sold"] as const));

describe("nearestFree", () => {
  it("offers as many as were lost, side by side, next to them", () => {
    const plan = makePlan(demo(), [], {});
    sell(plan, ["A-5-8", "A-5-9"]);
    const found = nearestFree(plan, ["A-5-8", "A-5-9"])!;
    expect(found).toMatchObject({ together: true, sameTier: true });
    expect(found.seats).toHaveLength(2);
    for (const id of found.seats) expect(id).toMatch(/^A-[456]-/);
  });

  it("never offers what was lost, or what is taken, even if it looks free", () => {
    const plan = makePlan(block({ section: "A", rows: 1, width: 6 }), [], {});
    const taken = plan.indexOf("A-1-3");
    const found = nearestFree(plan, ["A-1-2"], (index) => index === taken || !plan.isFree(index))!;
    expect(found.seats).toEqual(["A-1-1"]);
  });

  it("does not call seats with an aisle between them together", () => {
    const plan = makePlan(block({ section: "A", rows: 2, width: 4, aisles: [2] }), [], {});
    sell(plan, ["A-1-1", "A-1-4", "A-2-1", "A-2-2"]);
    // A-1-2 and A-1-3 are nearer, but an aisle is between them.
    const found = nearestFree(plan, ["A-1-1", "A-1-4"])!;
    expect(found).toEqual({ seats: ["A-2-3", "A-2-4"], together: true, sameTier: true });
  });

  it("prefers the same tier apart to another one together", () => {
    const plan = makePlan(
      [
        ...block({ section: "A", rows: 1, width: 5 }),
        ...block({ section: "B", rows: 1, width: 5, tier: "silver", y: 2 }),
      ],
      [],
      {},
    );
    sell(plan, ["A-1-1", "A-1-2", "A-1-4"]);
    const found = nearestFree(plan, ["A-1-1", "A-1-2"])!;
    expect(found.seats.toSorted()).toEqual(["A-1-3", "A-1-5"]);
    expect(found).toMatchObject({ together: false, sameTier: true });
  });

  it("takes another tier when the same has too few, and says so", () => {
    const plan = makePlan(
      [
        ...block({ section: "A", rows: 1, width: 3 }),
        ...block({ section: "B", rows: 1, width: 5, tier: "silver", y: 2 }),
      ],
      [],
      {},
    );
    sell(plan, ["A-1-1", "A-1-2"]);
    const found = nearestFree(plan, ["A-1-1", "A-1-2"])!;
    expect(found).toMatchObject({ together: true, sameTier: false });
    expect(found.seats).toEqual(["B-1-1", "B-1-2"]);
  });

  it("leaves no single seat beside its offer where another is as good", () => {
    const plan = makePlan(block({ section: "A", rows: 1, width: 8 }), [], {});
    sell(plan, ["A-1-4", "A-1-5"]);
    // Three are free on each side: the outer two would leave none between, the inner two one.
    const found = nearestFree(plan, ["A-1-4"])!;
    expect(found.seats).toEqual(["A-1-3"]);
    sell(plan, ["A-1-1"]);
    expect(nearestFree(plan, ["A-1-4", "A-1-5"])!.seats).toEqual(["A-1-2", "A-1-3"]);
  });

  it("offers a neighbour of those that are kept before what is nearer to the lost one", () => {
    const plan = makePlan(block({ section: "A", rows: 3, width: 8 }), [], {});
    const taken = (index: number) => !plan.isFree(index);
    sell(plan, ["A-2-3"]);
    // A-2-2 and A-1-3 are nearer to A-2-3, but the friends sit on 4 and 5.
    expect(nearestFree(plan, ["A-2-3"], taken, ["A-2-4", "A-2-5"])!.seats).toEqual(["A-2-6"]);
    // Of two ends the one that is nearer.
    sell(plan, ["A-2-1"]);
    expect(nearestFree(plan, ["A-2-1"], taken, ["A-2-5", "A-2-6"])!.seats).toEqual(["A-2-4"]);
    expect(nearestFree(plan, ["A-1-1", "A-1-2"], taken, ["A-1-3", "A-1-4"])).toEqual({
      seats: ["A-1-5", "A-1-6"],
      together: true,
      sameTier: true,
    });
  });

  it("goes elsewhere where those that are kept have no room beside them", () => {
    const plan = makePlan(block({ section: "A", rows: 2, width: 6, aisles: [3] }), [], {});
    const taken = (index: number) => !plan.isFree(index);
    sell(plan, ["A-1-1"]);
    // Beyond the aisle is not beside.
    const found = nearestFree(plan, ["A-1-1"], taken, ["A-1-2", "A-1-3"])!;
    expect(found.seats).toEqual(["A-2-1"]);
  });

  it("offers nothing when there are not enough, or nothing of this house was lost", () => {
    const plan = makePlan(block({ section: "A", rows: 1, width: 3 }), [], {});
    sell(plan, ["A-1-1", "A-1-2"]);
    expect(nearestFree(plan, ["A-1-1", "A-1-2"])).toBeNull();
    expect(nearestFree(plan, ["nowhere"])).toBeNull();
    expect(nearestFree(plan, [])).toBeNull();
  });

  it("finds the only free seat of 60,000", () => {
    const plan = makePlan(block({ section: "A", rows: 300, width: 200 }), [], {});
    sell(
      plan,
      plan.ids.filter((id) => id !== "A-250-7"),
    );
    expect(nearestFree(plan, ["A-1-1"])!.seats).toEqual(["A-250-7"]);
  });
});
