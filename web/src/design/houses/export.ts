/** The sample houses as the designer exports them, by name. */

import { describe } from "../describe";
import { toLines } from "../files";
import { HOUSE_NAMES, HOUSES } from ".";

export const exported = (): [string, string][] =>
  HOUSE_NAMES.map((name) => [name, toLines(describe(HOUSES[name]()).body)]);
