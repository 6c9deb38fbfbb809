import { money, number } from "../format";
import { SeatMap } from "../map/seat_map";
import { t } from "../strings";
import { useDesign } from "./context";
import { CURRENCY } from "./limits";
import { PREVIEW_SEATS_MAX, usePlan } from "./plan";

export function Preview() {
  const { draft, house } = useDesign();
  const plan = usePlan(house);
  const say = t.design.preview;
  const currency = CURRENCY.test(draft.currency) ? draft.currency : "EUR";
  const empty = plan.count === 0 && plan.pools.length === 0;
  return (
    <section class="card design-preview" aria-labelledby="design-preview">
      <h2 id="design-preview">{say.title}</h2>
      <div class="design-map">
        {empty ? (
          <p class="soft design-empty">{say.empty}</p>
        ) : (
          <SeatMap plan={plan} currency={currency} readonly />
        )}
      </div>
      {house.seats.length > PREVIEW_SEATS_MAX && (
        <p class="hint">{say.most(number(PREVIEW_SEATS_MAX))}</p>
      )}
      <ul class="design-legend" aria-label={say.legend}>
        {plan.tiers.map((tier) => (
          <li key={tier.id}>
            <span
              class="design-swatch"
              style={{ background: `var(--tier-${(tier.color % 6) + 1})` }}
              aria-hidden="true"
            />
            <span class="name">{tier.id}</span>
            <span class="numbers">{tier.price === null ? "?" : money(tier.price, currency)}</span>
            <span class="soft numbers">× {number(unitsOf(tier.id))}</span>
          </li>
        ))}
      </ul>
    </section>
  );

  function unitsOf(id: string): number {
    const places = house.pools.filter((pool) => pool.tier === id);
    const seats = plan.tiers.find((tier) => tier.id === id)?.seats ?? 0;
    return places.reduce((sum, pool) => sum + pool.capacity, seats);
  }
}
