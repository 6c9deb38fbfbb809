import { beforeEach, describe, expect, it, vi } from "vitest";
import { extendHold, getHold, payHold, placeHold, placeOrder, releaseHold } from "../api/calls";
import { Problem } from "../api/http";
import { type KeptHold, keepAsking, keepHold, keptAsking, keptHold } from "../api/storage";
import type { EventView, Hold, Order } from "../api/types";
import { HoldDesk } from "./desk";

vi.mock("../api/calls", () => ({
  extendHold: vi.fn(),
  getHold: vi.fn(),
  getOrder: vi.fn(),
  payHold: vi.fn(),
  placeHold: vi.fn(),
  placeOrder: vi.fn(),
  releaseHold: vi.fn(),
}));

const event = { id: "gala", grace_seconds: 300, max_extensions: 1 } as EventView;
const hold = (more: Partial<Hold> = {}): Hold => ({
  id: "gala.1",
  event: "gala",
  buyer: "b",
  state: "held",
  seats: ["A-1-1"],
  pools: {},
  amount: 100,
  currency: "EUR",
  expires_at: "2026-01-01T00:00:00Z",
  seconds_left: 480,
  version: 1,
  token: "secret",
  ...more,
});
const ask = { seats: ["A-1-1"] };
const away = () => new Problem(0, "unreachable", "away");
/** A promise, and how to keep it. */
function later<T>() {
  let come: (value: T) => void = () => undefined;
  const promise = new Promise<T>((resolve) => {
    come = resolve;
  });
  return { promise, come };
}

let desk: HoldDesk;
const here = () => desk.state.phase;

vi.stubGlobal("navigator", { onLine: true });

beforeEach(() => {
  vi.restoreAllMocks();
  vi.resetAllMocks();
  keepHold("gala", null);
  keepAsking("gala", null);
  desk = new HoldDesk(event, () => undefined);
});

describe("asking again after a lost answer", () => {
  it("shows the hold as it is now, not as the first answer had it", async () => {
    vi.mocked(placeHold).mockRejectedValueOnce(away()).mockResolvedValueOnce(hold());
    vi.mocked(getHold).mockResolvedValueOnce(hold({ seconds_left: 60 }));
    expect((await desk.place(ask))?.status).toBe(0);
    expect(await desk.place(ask)).toBeNull();
    const keys = vi.mocked(placeHold).mock.calls.map(([, , key]) => key);
    expect(keys[1]).toBe(keys[0]);
    expect(here()).toMatchObject({ name: "holding", hold: { seconds_left: 60 } });
    expect(keptAsking("gala")).toBeNull();
  });

  it("asks anew where what was held then is over", async () => {
    vi.mocked(placeHold)
      .mockRejectedValueOnce(away())
      .mockResolvedValueOnce(hold())
      .mockResolvedValueOnce(hold({ id: "gala.2" }));
    vi.mocked(getHold).mockResolvedValueOnce(hold({ state: "expired", seconds_left: 0 }));
    await desk.place(ask);
    expect(await desk.place(ask)).toBeNull();
    const keys = vi.mocked(placeHold).mock.calls.map(([, , key]) => key);
    expect(keys[2]).not.toBe(keys[1]);
    expect(here()).toMatchObject({ name: "holding", hold: { id: "gala.2" } });
    expect(keptHold("gala")?.id).toBe("gala.2");
  });

  it("does not lose the hold where it cannot be looked at just now", async () => {
    vi.mocked(placeHold).mockRejectedValueOnce(away()).mockResolvedValueOnce(hold());
    vi.mocked(getHold).mockRejectedValueOnce(away());
    await desk.place(ask);
    expect(await desk.place(ask)).toBeNull();
    expect(here().name).toBe("holding");
  });

  it("takes a first answer as it is", async () => {
    vi.mocked(placeHold).mockResolvedValueOnce(hold());
    await desk.place(ask);
    expect(getHold).not.toHaveBeenCalled();
  });
});

describe("a hold that another tab got at the same moment", () => {
  const both = async (kept: KeptHold) => {
    vi.mocked(releaseHold).mockResolvedValue();
    vi.mocked(placeHold).mockImplementationOnce(async () => {
      keepHold("gala", kept);
      return hold();
    });
    await desk.place(ask);
    expect(keptHold("gala")?.id).toBe("gala.1");
    return vi.mocked(releaseHold).mock.calls;
  };

  it("is given back", async () => {
    expect(await both({ id: "gala.0", token: "other" })).toEqual([["gala.0", "other"]]);
  });

  it("is left alone where it is being paid, or is the same", async () => {
    expect(await both({ id: "gala.0", token: "other", orderKey: "key" })).toEqual([]);
    expect(await both({ id: "gala.1", token: "secret" })).toEqual([]);
  });
});

describe("more time", () => {
  it("that comes after the payment began takes neither the order's key nor the phase", async () => {
    vi.mocked(placeHold).mockResolvedValueOnce(hold());
    await desk.place(ask);
    const more = later<Hold>();
    const sold = later<Order>();
    vi.mocked(extendHold).mockReturnValueOnce(more.promise);
    vi.mocked(payHold).mockResolvedValueOnce(hold({ state: "paying" }));
    vi.mocked(placeOrder).mockReturnValueOnce(sold.promise);
    const extending = desk.extend();
    const paying = desk.pay("sandbox:ok", false);
    await vi.waitFor(() => expect(placeOrder).toHaveBeenCalledTimes(1));
    const { orderKey } = keptHold("gala")!;
    expect(orderKey).toBeTruthy();
    more.come(hold({ seconds_left: 900 }));
    expect(await extending).toBe(true);
    expect(here().name).toBe("paying");
    expect(keptHold("gala")).toMatchObject({ orderKey, extensions: 1 });
    sold.come({
      id: "gala.o",
      state: "confirmed",
      seats: ["A-1-1"],
      pools: {},
    } as unknown as Order);
    await paying;
    expect(here().name).toBe("bought");
  });
});

describe("a payment", () => {
  beforeEach(async () => {
    vi.mocked(placeHold).mockResolvedValueOnce(hold());
    await desk.place(ask);
  });
  const declined = () => new Problem(402, "declined", "no money");

  it("that could not begin gives no time back", async () => {
    const { deadline } = desk.state;
    vi.spyOn(performance, "now").mockReturnValue(performance.now() + 60_000);
    vi.mocked(payHold).mockRejectedValueOnce(away());
    await desk.pay("sandbox:ok", false);
    expect(here().name).toBe("holding");
    expect(desk.state.deadline).toEqual(deadline);
    expect(desk.state.trouble).not.toBeNull();
    desk.reached();
    expect(desk.state.trouble).toBeNull();
  });

  it("that is declined gives none either, where the hold cannot be looked at", async () => {
    vi.mocked(payHold).mockResolvedValueOnce(hold({ state: "paying" }));
    const answer = later<void>();
    vi.mocked(placeOrder).mockImplementationOnce(() =>
      answer.promise.then(() => Promise.reject(declined())),
    );
    const paying = desk.pay("sandbox:declined", false);
    await vi.waitFor(() => expect(placeOrder).toHaveBeenCalledTimes(1));
    const { deadline } = desk.state;
    vi.mocked(getHold).mockRejectedValueOnce(away());
    vi.spyOn(performance, "now").mockReturnValue(performance.now() + 60_000);
    answer.come();
    await paying;
    expect(here()).toMatchObject({ name: "holding", declined: "no money" });
    expect(desk.state.deadline).toEqual(deadline);
  });

  it("that is declined is told here, though another tab heard it first", async () => {
    vi.mocked(payHold).mockResolvedValueOnce(hold({ state: "paying" }));
    const answer = later<void>();
    vi.mocked(placeOrder).mockImplementationOnce(() =>
      answer.promise.then(() => Promise.reject(declined())),
    );
    vi.mocked(getHold).mockResolvedValue(hold({ state: "paying" }));
    const paying = desk.pay("sandbox:declined", false);
    await vi.waitFor(() => expect(placeOrder).toHaveBeenCalledTimes(1));
    keepHold("gala", { id: "gala.1", token: "secret" });
    await desk.heard();
    expect(here().name).toBe("paying");
    answer.come();
    await paying;
    expect(here()).toMatchObject({ name: "holding", declined: "no money" });
    // And it stays, whatever is heard later.
    await desk.heard();
    expect(here()).toMatchObject({ declined: "no money" });
  });

  it("that another tab began anew is looked at", async () => {
    vi.mocked(payHold).mockResolvedValueOnce(hold({ state: "paying" }));
    vi.mocked(placeOrder)
      .mockReturnValueOnce(new Promise(() => undefined))
      .mockRejectedValueOnce(declined());
    vi.mocked(getHold).mockResolvedValue(hold({ state: "paying" }));
    void desk.pay("sandbox:ok", false);
    await vi.waitFor(() => expect(placeOrder).toHaveBeenCalledTimes(1));
    keepHold("gala", { id: "gala.1", token: "secret", orderKey: "another" });
    await desk.heard();
    expect(vi.mocked(placeOrder).mock.calls[1]![3]).toBe("another");
  });
});
