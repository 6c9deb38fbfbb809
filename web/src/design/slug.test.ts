import { expect, describe as group, it } from "vitest";
import { EVENT_ID } from "./limits";
import { nextId, slug } from "./slug";

group("ids", () => {
  it("are made of names", () => {
    expect(slug("Été à l’Opéra, 2027!")).toBe("ete-a-lopera-2027");
    expect(slug("  -- ")).toBe("");
    expect(slug("音楽会")).toBe("");
    const long = slug(`${"a".repeat(63)} b`);
    expect(long).toBe("a".repeat(63));
    expect(long).toMatch(EVENT_ID);
  });

  it("are counted on", () => {
    expect(nextId("gala")).toBe("gala-2");
    expect(nextId("gala-9")).toBe("gala-10");
    expect(nextId("gala-2027")).toBe("gala-2027-2");
    expect(nextId("a".repeat(64))).toMatch(EVENT_ID);
  });
});
