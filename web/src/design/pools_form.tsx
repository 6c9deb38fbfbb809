import { t } from "../strings";
import { useDesign } from "./context";
import { ChooseTier, FaultLine, Text } from "./fields";
import { Add, focusFirst, listClass, Tools } from "./list";
import { freeName, newPool } from "./model";

export function PoolsForm() {
  const { draft, act } = useDesign();
  const say = t.design.pools;
  const edit = (at: number, field: string) => (value: string) =>
    act({ do: "edit", list: "pools", at, changes: { [field]: value } });
  const add = () => {
    const name = freeName(
      draft.pools.map((pool) => pool.id),
      "floor",
    );
    const pool = newPool({ id: name, tier: draft.tiers[0]?.name ?? "" });
    act({ do: "add", list: "pools", item: pool });
    focusFirst(pool.key);
  };
  return (
    <section class="card design-card" aria-labelledby="design-pools">
      <h2 id="design-pools">{say.title}</h2>
      <p class="soft">{say.about}</p>
      <FaultLine path="pools" />
      <ol class={listClass(draft.pools)}>
        {draft.pools.map((pool, at) => (
          <li key={pool.key} class="design-line three" data-item={pool.key}>
            <Text
              path={`pools[${at}].id`}
              label={say.id}
              value={pool.id}
              onInput={edit(at, "id")}
            />
            <Text
              path={`pools[${at}].capacity`}
              label={say.capacity}
              numeric
              value={pool.capacity}
              onInput={edit(at, "capacity")}
            />
            <ChooseTier
              path={`pools[${at}].tier`}
              own={say.tierOwn}
              value={pool.tier}
              onInput={edit(at, "tier")}
            />
            {pool.channel && (
              <Text
                path={`pools[${at}].channel`}
                label={say.channel}
                value={pool.channel}
                onInput={edit(at, "channel")}
              />
            )}
            <Tools list="pools" at={at} name={pool.id} item={say.item(pool.id)} />
          </li>
        ))}
      </ol>
      <Add onClick={add}>{say.add}</Add>
    </section>
  );
}
