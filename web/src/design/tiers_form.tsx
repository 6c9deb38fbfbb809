import { t } from "../strings";
import { useDesign } from "./context";
import { FaultLine, Text } from "./fields";
import { Add, focusFirst, Tools } from "./list";
import { newTier } from "./model";

export function TiersForm() {
  const { draft, house, act } = useDesign();
  const say = t.design.tiers;
  const used = new Set([
    ...draft.grids.map((grid) => grid.tier),
    ...draft.arcs.map((arc) => arc.tier),
    ...draft.seats.map((seat) => seat.tier),
    ...house.pools.map((pool) => pool.tier),
  ]);
  const edit = (at: number, field: string) => (value: string) =>
    act({ do: "edit", list: "tiers", at, changes: { [field]: value } });
  const add = () => {
    const tier = newTier("", "");
    act({ do: "add", list: "tiers", item: tier });
    focusFirst(tier.key);
  };
  return (
    <section class="card design-card" aria-labelledby="design-tiers">
      <h2 id="design-tiers">{say.title}</h2>
      <FaultLine path="tiers" />
      {draft.tiers.length === 0 && <p class="soft">{say.none}</p>}
      <ol class="design-list">
        {draft.tiers.map((tier, at) => (
          <li key={tier.key} class="design-line" data-item={tier.key}>
            <Text
              path={`tiers[${at}].name`}
              label={say.name}
              value={tier.name}
              onInput={edit(at, "name")}
              hint={tier.name && !used.has(tier.name) ? say.unused : undefined}
            />
            <Text
              path={`tiers[${at}].price`}
              label={say.price(draft.currency)}
              numeric
              value={tier.price}
              onInput={edit(at, "price")}
            />
            <Tools list="tiers" at={at} name={tier.name} item={say.item(tier.name)} />
          </li>
        ))}
      </ol>
      <Add onClick={add}>{say.add}</Add>
    </section>
  );
}
