import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

class Kept implements Pick<Storage, "getItem" | "setItem" | "removeItem"> {
  readonly items = new Map<string, string>();
  full = false;
  getItem = (name: string) => this.items.get(name) ?? null;
  setItem = (name: string, value: string) => {
    if (this.full) throw new DOMException("full", "QuotaExceededError");
    this.items.set(name, value);
  };
  removeItem = (name: string) => void this.items.delete(name);
}

let local: Kept;
let session: Kept;
let storage: typeof import("./storage");

beforeEach(async () => {
  local = new Kept();
  session = new Kept();
  vi.stubGlobal("localStorage", local);
  vi.stubGlobal("sessionStorage", session);
  vi.resetModules();
  storage = await import("./storage");
});
afterEach(() => vi.unstubAllGlobals());

describe("what a browser keeps", () => {
  it("is there after a full storage refused it, before what is older", () => {
    storage.keepHold("gala", { id: "gala.1", token: "one" });
    local.full = true;
    storage.keepHold("gala", { id: "gala.2", token: "two" });
    storage.keepBuyer({ buyer: "b", token: "t" });
    expect(storage.keptHold("gala")?.id).toBe("gala.2");
    expect(storage.buyerToken()).toBe("t");
    storage.keepHold("gala", null);
    expect(storage.keptHold("gala")).toBeNull();
    local.full = false;
    storage.keepHold("gala", { id: "gala.3", token: "three" });
    expect(storage.keptHold("gala")?.id).toBe("gala.3");
    expect(local.items.get("holdfast.hold.gala")).toContain("gala.3");
  });

  it("is there until the reload where there is no storage", () => {
    vi.stubGlobal("localStorage", undefined);
    storage.keepHold("gala", { id: "gala.1", token: "one" });
    expect(storage.keptHold("gala")?.id).toBe("gala.1");
    storage.keepHold("gala", null);
    expect(storage.keptHold("gala")).toBeNull();
  });
});

describe("a key in the address", () => {
  const open = (hash: string) => {
    const replaced: string[] = [];
    vi.stubGlobal("location", { hash, pathname: "/ops", search: "?a=1" });
    vi.stubGlobal("history", { replaceState: (_: null, __: "", to: string) => replaced.push(to) });
    const taken = storage.takeKeyFromAddress();
    return { taken, replaced, key: storage.adminKey() };
  };

  it("is kept and taken out of the address", () => {
    expect(open("#key=hf_admin_x%2Dy")).toEqual({
      taken: true,
      replaced: ["/ops?a=1"],
      key: "hf_admin_x-y",
    });
  });

  it("is taken out even where it can be none", () => {
    for (const hash of ["#key=", "#key=%C3%BC", "#key=a%20b"]) {
      expect(open(hash)).toEqual({ taken: false, replaced: ["/ops?a=1"], key: null });
    }
    expect(open("#key=%").key).toBe("%");
  });

  it("is no other fragment", () => {
    expect(open("#content")).toEqual({ taken: false, replaced: [], key: null });
  });
});
