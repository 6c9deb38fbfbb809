import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { getOrder, placeOrder } from "../api/calls";
import { Problem } from "../api/http";
import type { Order } from "../api/types";
import { buy, type Outcome, waitMs } from "./ordering";
import type { Wait } from "./phases";

vi.mock("../api/calls", () => ({ placeOrder: vi.fn(), getOrder: vi.fn() }));

const placing = vi.mocked(placeOrder);
const getting = vi.mocked(getOrder);
const kept = { id: "e.1", token: "secret", orderKey: "key", method: "sandbox:ok" };
const order = (state: string, more = {}) => ({ id: "e.o", state, ...more }) as Order;
const no = (status: number, reason: string, body = {}) =>
  new Problem(status, reason, `because ${reason}`, body);

/** Runs to its end, however long it would wait. */
async function run(wanted: () => boolean = () => true): Promise<[Outcome, Wait[]]> {
  const waits: Wait[] = [];
  const done = buy(kept, { wanted, waits: (wait) => waits.push(wait) });
  await vi.runAllTimersAsync();
  return [await done, waits];
}

beforeEach(() => {
  vi.useFakeTimers();
  placing.mockReset();
  getting.mockReset();
});
afterEach(() => vi.useRealTimers());

describe("buy", () => {
  it("is done when the order is sold", async () => {
    placing.mockResolvedValueOnce(order("confirmed"));
    expect(await run()).toEqual([{ type: "bought", order: order("confirmed") }, []]);
  });

  it("asks again under the same key when the answer was lost, or the first still runs", async () => {
    placing
      .mockRejectedValueOnce(no(0, "unreachable"))
      .mockRejectedValueOnce(no(409, "in_progress"))
      .mockRejectedValueOnce(no(503, "payment_unavailable", { order: "e.o" }))
      .mockResolvedValueOnce(order("confirmed"));
    const [outcome, waits] = await run();
    expect(outcome.type).toBe("bought");
    expect(waits).toEqual(["service", "provider"]);
    expect(placing.mock.calls.map((call) => call[3])).toEqual(["key", "key", "key", "key"]);
  });

  it("looks at an order that is pending until it is not", async () => {
    const asks = { next_action: { type: "redirect", url: "https://bank.example" } };
    placing.mockResolvedValueOnce(order("pending"));
    getting
      .mockResolvedValueOnce(order("pending", asks))
      .mockRejectedValueOnce(no(0, "unreachable"))
      .mockResolvedValueOnce(order("confirmed"));
    const [outcome, waits] = await run();
    expect(outcome.type).toBe("bought");
    expect(waits).toEqual(["payment", "buyer", "service", "buyer"]);
    expect(placing).toHaveBeenCalledTimes(1);
  });

  it("tells a decline, said at once or found later", async () => {
    placing.mockRejectedValueOnce(no(402, "declined"));
    expect((await run())[0]).toEqual({ type: "declined", why: "because declined" });
    placing.mockResolvedValueOnce(order("pending"));
    getting.mockResolvedValueOnce(order("declined", { reason: "no money" }));
    expect((await run())[0]).toEqual({ type: "declined", why: "no money" });
  });

  it("tells seats that were lost from a hold that was over before", async () => {
    placing.mockRejectedValueOnce(no(409, "hold_expired"));
    expect((await run())[0]).toEqual({ type: "ended", end: "expired" });
    placing.mockRejectedValueOnce(no(409, "hold_expired", { order: "e.o" }));
    getting.mockResolvedValueOnce(order("voided", { settlement: "voided", reason: "taken" }));
    expect((await run())[0]).toEqual({ type: "ended", end: "lost" });
  });

  it("leaves it to the hold when another order was first", async () => {
    placing.mockRejectedValueOnce(no(409, "confirmed"));
    expect((await run())[0]).toEqual({ type: "elsewhere" });
  });

  it("says nothing more once nobody wants to know", async () => {
    let asked = 0;
    placing.mockRejectedValue(no(0, "unreachable"));
    const [outcome] = await run(() => {
      asked += 1;
      return asked < 3;
    });
    expect(outcome).toEqual({ type: "left" });
    expect(placing).toHaveBeenCalledTimes(1);
  });
});

describe("waitMs", () => {
  it("grows, ends growing, and is never less than the service asked for", () => {
    expect(waitMs(0)).toBeLessThan(waitMs(2));
    expect(waitMs(99)).toBeLessThanOrEqual(18_000);
    expect(waitMs(0, new Problem(503, "x", "", {}, 5))).toBeGreaterThanOrEqual(5_000);
  });
});
