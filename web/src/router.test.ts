import { describe, expect, it } from "vitest";
import { eventPath, placeOf } from "./router";

describe("placeOf", () => {
  it("finds each page by its address", () => {
    expect(placeOf("/")).toEqual({ page: "events" });
    expect(placeOf("/lab")).toEqual({ page: "lab" });
    expect(placeOf("/ops/")).toEqual({ page: "ops" });
    expect(placeOf("/design")).toEqual({ page: "design" });
    expect(placeOf("/e/demo-night")).toEqual({ page: "event", event: "demo-night" });
  });

  it("leads nowhere with anything else", () => {
    for (const path of ["/e/", "/e/a/b", "/labs", "/x"]) {
      expect(placeOf(path)).toEqual({ page: "nowhere" });
    }
  });

  it("takes an address that is no proper one as it is", () => {
    for (const event of ["%", "%E0%A4", "100%"]) {
      expect(placeOf(`/e/${event}`)).toEqual({ page: "event", event });
    }
  });

  it("finds the event of the address it made", () => {
    const event = "a b/ü%";
    expect(placeOf(eventPath(event))).toEqual({ page: "event", event });
  });
});
