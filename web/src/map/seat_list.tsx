/** The house as a list, as able as the map: sections, their rows, their seats as buttons. Only what
 * is open is rendered, so it may be a stadium. */

import { useState } from "preact/hooks";
import { money } from "../format";
import { t } from "../strings";
import { CheckField } from "../ui/field";
import { poolInWords, seatInWords } from "./describe";
import type { Plan } from "./layout";
import { canToggle, lookOf, type Marks, marksOf, type SeatViewProps } from "./props";
import { AreaSymbol, SeatSymbol } from "./symbol";
import "../style/map.css";

/** A section with more seats than this shows its rows one by one. */
const SEATS_AT_ONCE = 800;
const ROWS_AT_ONCE = 200;

export function SeatList(props: SeatViewProps) {
  const { plan, currency, readonly } = props;
  const [onlyFree, setOnlyFree] = useState(false);
  return (
    <section class="seat-list" aria-label={t.map.list} data-testid="seat-list">
      {plan.count > 0 && (
        <CheckField label={t.map.onlyFree} checked={onlyFree} onInput={setOnlyFree} />
      )}
      {plan.pools.length > 0 && (
        <ul class="seat-list-pools">
          {plan.pools.map((pool) => (
            <li key={pool.id}>
              <button
                type="button"
                class="seat-list-pool"
                aria-disabled={readonly || pool.available === 0}
                onClick={() => {
                  if (!pool.available) return;
                  if (readonly) props.onLocked?.();
                  else props.onPool?.(pool.id);
                }}
              >
                <AreaSymbol color={plan.tiers[pool.tier]!.color} />
                <span>{poolInWords(plan, pool, currency)}</span>
              </button>
            </li>
          ))}
        </ul>
      )}
      {plan.sections.map((section, at) => (
        <SectionItem key={section.id} {...props} at={at} onlyFree={onlyFree} />
      ))}
    </section>
  );
}

interface PartProps extends SeatViewProps {
  at: number;
  onlyFree: boolean;
}

function SectionItem(props: PartProps) {
  const { plan, at, onlyFree } = props;
  const section = plan.sections[at]!;
  const [open, setOpen] = useState(plan.sections.length === 1);
  const [rows, setRows] = useState(ROWS_AT_ONCE);
  const folded = section.seats > SEATS_AT_ONCE;
  const marks = marksOf(props);
  const shown = section.rows.filter(
    (row) =>
      !onlyFree || Array.from(plan.rows[row]!.seats).some((seat) => offered(plan, seat, marks)),
  );
  return (
    <details
      class="seat-section"
      open={open}
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary>
        <span class="seat-section-name">{t.map.section(section.id)}</span>
        <span class="soft numbers">{t.map.free(section.free, section.seats)}</span>
        <span class="soft numbers">{pricesOf(plan, at, props.currency)}</span>
      </summary>
      {open && (
        // biome-ignore lint/a11y/noStaticElementInteractions: the buttons in it hear the keys
        <div onKeyDown={walk}>
          {shown.slice(0, rows).map((row) => (
            <RowItem key={row} {...props} at={row} folded={folded} />
          ))}
          {shown.length === 0 && <p class="soft">{t.map.nothingFree}</p>}
          {shown.length > rows && (
            <button
              type="button"
              class="button quiet"
              onClick={() => setRows((before) => before + ROWS_AT_ONCE)}
            >
              {t.map.moreRows}
            </button>
          )}
        </div>
      )}
    </details>
  );
}

const offered = (plan: Plan, seat: number, marks: Marks) => canToggle(lookOf(plan, seat, marks));

function RowItem(props: PartProps & { folded: boolean }) {
  const { plan, at, folded } = props;
  const [open, setOpen] = useState(false);
  const row = plan.rows[at]!;
  if (!folded) {
    return (
      <div class="seat-row">
        <span class="seat-row-name" id={`row-${at}`}>
          {t.map.row(row.name)}
        </span>
        <Seats {...props} />
      </div>
    );
  }
  return (
    <details class="seat-row" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary id={`row-${at}`}>{t.map.row(row.name)}</summary>
      {open && <Seats {...props} />}
    </details>
  );
}

function Seats(props: PartProps) {
  const { plan, at, onlyFree, currency, readonly } = props;
  const marks = marksOf(props);
  const seats = Array.from(plan.rows[at]!.seats);
  // One stop for Tab in a row; the arrows do the rest. The seat it was at may be gone by now.
  const [last, setLast] = useState(-1);
  const [focused, setFocused] = useState(-1);
  // What somebody took stays as long as the keys are at it: else they would be nowhere.
  const shown = onlyFree
    ? seats.filter((seat) => seat === focused || offered(plan, seat, marks))
    : seats;
  const stop = shown.includes(last) ? last : shown[0];
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset would need a legend for each row
    <div class="seat-row-seats" role="group" aria-labelledby={`row-${at}`}>
      {shown.map((seat) => {
        const look = lookOf(plan, seat, marks);
        const can = canToggle(look) && !readonly;
        return (
          <button
            key={seat}
            type="button"
            class={`seat-button ${look}`}
            data-seat={plan.ids[seat]}
            aria-pressed={look === "picked" || look === "mine"}
            aria-disabled={!can}
            aria-label={seatInWords(plan, seat, look, currency)}
            tabIndex={seat === stop ? 0 : -1}
            onFocus={() => {
              setLast(seat);
              setFocused(seat);
            }}
            onBlur={() => setFocused(-1)}
            onClick={() => {
              if (can) props.onToggle?.(plan.ids[seat]!, seat);
              else if (readonly && canToggle(look)) props.onLocked?.();
            }}
          >
            <SeatSymbol look={look} color={plan.tierOf(seat).color} />
            <span class="numbers">{plan.number[seat]}</span>
          </button>
        );
      })}
    </div>
  );
}

/** Left and right in a row, up and down to the same place of the row before or after. */
function walk(event: KeyboardEvent & { currentTarget: HTMLElement }): void {
  const here = (event.target as Element).closest<HTMLElement>("[data-seat]");
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[
    event.key
  ];
  if (!here || !(step || event.key === "Home" || event.key === "End")) return;
  const row = here.parentElement!;
  const place = [...row.children].indexOf(here);
  let goal: Element | undefined;
  if (!step) goal = row.children[event.key === "Home" ? 0 : row.children.length - 1];
  else if (step[0]) goal = row.children[place + step[0]];
  else {
    const rows = [...event.currentTarget.querySelectorAll(".seat-row-seats")];
    const next = rows[rows.indexOf(row) + step[1]!];
    goal = next?.children[Math.min(place, next.children.length - 1)];
  }
  event.preventDefault();
  (goal as HTMLElement | undefined)?.focus();
}

function pricesOf(plan: Plan, section: number, currency: string): string {
  let [least, most] = [Infinity, -Infinity];
  for (const row of plan.sections[section]!.rows) {
    // A row is of one tier nearly always; its ends tell.
    const { seats } = plan.rows[row]!;
    for (const seat of [seats[0]!, seats.at(-1)!]) {
      const price = plan.priceOf(seat);
      if (price === null) continue;
      least = Math.min(least, price);
      most = Math.max(most, price);
    }
  }
  if (least > most) return "";
  if (least === most) return money(least, currency);
  return `${money(least, currency)} – ${money(most, currency)}`;
}
