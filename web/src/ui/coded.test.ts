import { expect, it } from "vitest";
import { codeIn } from "./coded";

it("finds what stands between backticks", () => {
  expect(codeIn("plain")).toEqual(["plain"]);
  expect(codeIn("`holdfast demo` prints one; `keys` too")).toEqual([
    "",
    "holdfast demo",
    " prints one; ",
    "keys",
    " too",
  ]);
  expect(codeIn("a `b` c ` d")).toEqual(["a ", "b", " c ` d"]);
});
