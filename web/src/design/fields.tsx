/** The shared fields, each with its place in the draft: faults find them by it. */

import type { ComponentChildren } from "preact";
import { number } from "../format";
import { t } from "../strings";
import { type Choice, SelectField, TextField } from "../ui/field";
import { useDesign } from "./context";

interface Placed {
  path: string;
  label: string;
  hint?: string | undefined;
  value: string;
  onInput: (value: string) => void;
}

export function Text(props: Placed & { numeric?: boolean; placeholder?: string }) {
  const { faultAt } = useDesign();
  const { path, numeric, ...rest } = props;
  return (
    <div class="placed" data-path={path}>
      <TextField
        {...rest}
        {...(numeric ? { inputMode: "decimal" as const } : {})}
        fault={faultAt(path)}
      />
    </div>
  );
}

export function Choose(props: Placed & { choices: Choice[] }) {
  const { faultAt } = useDesign();
  const { path, ...rest } = props;
  return (
    <div class="placed" data-path={path}>
      <SelectField {...rest} fault={faultAt(path)} />
    </div>
  );
}

/** Which price; one that is not there any more stays to be seen. */
export function ChooseTier(props: Omit<Placed, "label"> & { own?: string }) {
  const { draft } = useDesign();
  const names = draft.tiers.map((tier) => tier.name).filter(Boolean);
  const empty = props.own ?? t.design.list.chooseTier;
  const gone = props.value && !names.includes(props.value) ? [props.value] : [];
  const choices = [
    ...(props.value && !props.own ? [] : [{ value: "", label: empty }]),
    ...[...gone, ...names].map((name) => ({ value: name, label: name })),
  ];
  return <Choose {...props} label={t.design.block.tier} choices={choices} />;
}

export function Fields({ children }: { children: ComponentChildren }) {
  return <div class="design-fields">{children}</div>;
}

/** A record of texts as choices. */
export const choicesOf = (labels: Readonly<Record<string, string>>): Choice[] =>
  Object.entries(labels).map(([value, label]) => ({ value, label }));

export function FaultLine({ path }: { path: string }) {
  const fault = useDesign().faultAt(path);
  return fault ? (
    <p class="notice bad" data-path={path} tabIndex={-1} role="alert">
      {fault}
    </p>
  ) : null;
}

export const seatsText = (count: number): string =>
  t.common.seats(count).replace(String(count), number(count));
