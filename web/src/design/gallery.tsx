/** The sample houses, as cards to start from. */

import { useEffect, useState } from "preact/hooks";
import { number } from "../format";
import type { Plan } from "../map/layout";
import { t } from "../strings";
import { houseOf } from "./house";
import { HOUSE_NAMES, HOUSES, type HouseName } from "./houses";
import { planOf } from "./plan";
import { Thumbnail } from "./thumbnail";

interface Shown {
  plan: Plan;
  units: number;
}

export function Gallery(props: { open: boolean; onUse: (name: HouseName) => void }) {
  const [open, setOpen] = useState(props.open);
  const [shown, setShown] = useState<Partial<Record<HouseName, Shown>>>({});
  // One after the other, so that the page answers in between: one of them has 60,000 seats.
  const next = open ? HOUSE_NAMES.find((name) => !shown[name]) : undefined;
  useEffect(() => {
    if (!next) return;
    const timer = setTimeout(() => {
      const house = houseOf(HOUSES[next]());
      setShown((before) => ({ ...before, [next]: { plan: planOf(house), units: house.units } }));
    }, 30);
    return () => clearTimeout(timer);
  }, [next]);
  const say = t.design.houses;
  return (
    <details
      class="design-gallery"
      open={open}
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary>
        <h2>{say.title}</h2>
      </summary>
      <ul>
        {HOUSE_NAMES.map((name) => {
          const { name: title, about } = say[name];
          const units = shown[name]?.units;
          return (
            <li key={name}>
              <button type="button" class="house" onClick={() => props.onUse(name)}>
                <Thumbnail plan={shown[name]?.plan ?? null} />
                <span class="house-text">
                  <span class="visually-hidden">{say.use}</span>
                  <strong>{title}</strong>
                  <span class="soft">{about}</span>
                  <span class="soft numbers">
                    {units === undefined
                      ? "…"
                      : t.common.units(units).replace(/\d+/, number(units))}
                  </span>
                </span>
              </button>
            </li>
          );
        })}
      </ul>
    </details>
  );
}
