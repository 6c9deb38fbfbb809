import type { EventView } from "../api/types";
import { money, number } from "../format";
import { eventPath } from "../router";
import { t } from "../strings";
import { Button } from "../ui/button";
import { useDesign } from "./context";
import { CURRENCY } from "./limits";
import type { Draft } from "./model";
import type { Fault } from "./reading";
import type { Saved } from "./save";

export function SaveBar(props: {
  saved: Saved | null;
  /** The event that was saved with this very id. */
  made: EventView | null;
  /** Those that it is time to speak of. */
  faults: number;
  ready: boolean;
  busy: boolean;
  onFault: () => void;
  onSave: () => void;
  onAnother: () => void;
}) {
  const { draft, house } = useDesign();
  const { saved, made } = props;
  const say = t.design;
  const currency = CURRENCY.test(draft.currency) ? draft.currency : "EUR";
  const places = house.units - house.seats.length;
  const figures: [string, string][] = [
    [say.preview.seats, number(house.seats.length)],
    [say.preview.places, number(places)],
    [say.preview.units, number(house.units)],
    [say.preview.worth, money(house.worth, currency)],
  ];
  return (
    <div class="design-bar">
      <dl class="numbers" data-testid="design-figures">
        {figures.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <div class="design-bar-end">
        {(saved?.kind === "trouble" || saved?.kind === "faults") && (
          <p class="fault" role="alert">
            {saved.kind === "trouble" ? saved.why : inWords(saved.faults, draft)}
          </p>
        )}
        {saved?.kind === "exists" && <a href={eventPath(saved.id)}>{say.saved.existsLink}</a>}
        {props.faults > 0 && (
          <Button kind="quiet" onClick={props.onFault}>
            {say.faultsLeft(props.faults)}
          </Button>
        )}
        {props.ready && !saved && !made && <span class="badge good">{say.ready}</span>}
        {made ? (
          <>
            {saved ? (
              <span class="badge good">{say.saved.badge}</span>
            ) : (
              <span class="soft">{say.saved.already(made.id)}</span>
            )}
            <a href={eventPath(made.id)}>{say.saved.open}</a>
            <Button onClick={props.onAnother}>{say.saved.asAnother}</Button>
          </>
        ) : (
          <Button kind="primary" busy={props.busy} onClick={props.onSave}>
            {say.save}
          </Button>
        )}
      </div>
    </div>
  );
}

/** What speaks of no field is said here, for it can be marked nowhere. */
function inWords(faults: Fault[], draft: Draft): string {
  const nowhere = faults.find(
    ({ path }) => !/^(tiers|grids|arcs|pools|seats|units)\b/.test(path) && !(path in draft),
  );
  const { faults: marked, elsewhere } = t.design.saved;
  return nowhere ? elsewhere(nowhere.path, nowhere.text) : marked;
}
