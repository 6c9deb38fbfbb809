import { expect, it } from "vitest";
import { Problem } from "../api/http";
import { faultsOf } from "./save";

it("the service's faults are shown at their fields", () => {
  const problem = new Problem(422, "invalid", "2 faults", {
    faults: [
      { path: "sections[0].rows", problem: "must be from 1 to 10000", value: "0" },
      { path: "", problem: "must be an object" },
    ],
  });
  expect(faultsOf(problem, (path) => `field of ${path}`)).toEqual([
    { path: "field of sections[0].rows", text: "must be from 1 to 10000" },
    { path: "field of ", text: "must be an object" },
  ]);
  expect(faultsOf(new Problem(409, "exists", "there"), (path) => path)).toEqual([]);
});
