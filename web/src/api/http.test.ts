import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { call, Problem, setDeployment } from "./http";
import { buyerToken, keepBuyer } from "./storage";

const json = (status: number, body: unknown) =>
  new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });
const fetched = vi.fn<(path: string, request: RequestInit) => Promise<Response>>();
const tokens = () =>
  fetched.mock.calls.map(
    ([, { headers }]) => (headers as Record<string, string>)["Buyer-Token"] ?? null,
  );
const stranger = () => json(401, { reason: "buyer_token", detail: "not one of ours" });

beforeEach(() => {
  fetched.mockReset();
  vi.stubGlobal("fetch", fetched);
  setDeployment({ version: "1", key: "k", lab: "open", payments: "sandbox", gate: false });
  keepBuyer({ buyer: "b", token: "of before" });
});
afterEach(() => {
  keepBuyer(null);
  vi.unstubAllGlobals();
});

describe("a buyer's token that is not the service's", () => {
  it("is forgotten, and reading goes on without it", async () => {
    fetched.mockResolvedValueOnce(stranger()).mockResolvedValueOnce(json(200, { events: [] }));
    expect(await call("GET", "/v1/events")).toEqual({ events: [] });
    expect(tokens()).toEqual(["of before", null]);
    expect(buyerToken()).toBeNull();
  });

  it("leaves alone one that another tab has got meanwhile", async () => {
    fetched
      .mockImplementationOnce(async () => {
        keepBuyer({ buyer: "c", token: "of now" });
        return stranger();
      })
      .mockResolvedValueOnce(json(200, {}));
    await call("GET", "/v1/events");
    expect(tokens()).toEqual(["of before", "of now"]);
    expect(buyerToken()).toBe("of now");
  });

  it("is not asked about twice, nor where another key was refused", async () => {
    fetched.mockImplementation(async () => stranger());
    await expect(call("GET", "/v1/events")).rejects.toMatchObject({ status: 401 });
    expect(fetched).toHaveBeenCalledTimes(2);
    keepBuyer({ buyer: "b", token: "mine" });
    fetched.mockReset();
    fetched.mockImplementation(async () => json(401, { reason: "unauthorized" }));
    await expect(call("GET", "/v1/events")).rejects.toMatchObject({ status: 401 });
    expect(fetched).toHaveBeenCalledTimes(1);
    expect(buyerToken()).toBe("mine");
  });
});

describe("an answer that cannot be read", () => {
  const of = async (status: number) => {
    fetched.mockResolvedValueOnce(new Response('{"id": "e.', { status }));
    return call("POST", "/v1/orders").catch((problem: unknown) => problem as Problem);
  };

  it("may be asked for again where it was a yes: its words were lost on the way", async () => {
    const lost = await of(201);
    expect(lost).toBeInstanceOf(Problem);
    expect(lost).toMatchObject({ status: 0, reason: "unreadable", passing: true });
  });

  it("is the no that it is", async () => {
    expect(await of(404)).toMatchObject({ status: 404, passing: false });
    expect(await of(502)).toMatchObject({ status: 502, passing: true });
  });
});
