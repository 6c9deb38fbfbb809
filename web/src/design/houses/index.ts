/** Six houses to start from. */

import type { Draft } from "../model";
import { arena } from "./arena";
import { clinic } from "./clinic";
import { club } from "./club";
import { sneakers } from "./sneakers";
import { stadium } from "./stadium";
import { theatre } from "./theatre";

export const HOUSES = { theatre, arena, stadium, club, sneakers, clinic } satisfies Record<
  string,
  () => Draft
>;

export type HouseName = keyof typeof HOUSES;
export const HOUSE_NAMES = Object.keys(HOUSES) as HouseName[];
