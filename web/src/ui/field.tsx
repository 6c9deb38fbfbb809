import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { coded } from "./coded";

interface Labelled {
  label: string;
  hint?: string | undefined;
  fault?: string | null | undefined;
}

function Frame(props: Labelled & { id: string; children: ComponentChildren }) {
  return (
    <div class="field">
      <label for={props.id}>{props.label}</label>
      {props.children}
      {props.hint && (
        <p class="hint" id={`${props.id}-hint`}>
          {coded(props.hint)}
        </p>
      )}
      {props.fault && (
        <p class="fault" id={`${props.id}-fault`} role="alert">
          {props.fault}
        </p>
      )}
    </div>
  );
}

const described = (id: string, { hint, fault }: Labelled) =>
  [hint && `${id}-hint`, fault && `${id}-fault`].filter(Boolean).join(" ") || undefined;

export interface TextFieldProps extends Labelled {
  value: string;
  onInput: (value: string) => void;
  secret?: boolean;
  placeholder?: string;
  autocomplete?: string;
  required?: boolean;
  /** Which keyboard a phone shows. */
  inputMode?: "decimal" | "numeric";
}

export function TextField(props: TextFieldProps) {
  const id = useId();
  const common = {
    id,
    value: props.value,
    placeholder: props.placeholder,
    autocomplete: props.autocomplete ?? "off",
    spellcheck: false,
    required: props.required,
    inputMode: props.inputMode,
    "aria-invalid": !!props.fault,
    "aria-describedby": described(id, props),
    onInput: (input: { currentTarget: HTMLInputElement }) =>
      props.onInput(input.currentTarget.value),
  };
  // Preact's types want the type of an input to be one word.
  return (
    <Frame {...props} id={id}>
      {props.secret ? <input type="password" {...common} /> : <input type="text" {...common} />}
    </Frame>
  );
}

export interface NumberFieldProps extends Labelled {
  value: number;
  onInput: (value: number) => void;
  min?: number;
  max?: number;
  step?: number;
}

/** Emptied it is NaN: whoever uses the number decides what that means. */
export function NumberField(props: NumberFieldProps) {
  const id = useId();
  return (
    <Frame {...props} id={id}>
      <input
        id={id}
        type="number"
        inputMode="numeric"
        value={Number.isNaN(props.value) ? "" : props.value}
        min={props.min}
        max={props.max}
        step={props.step ?? 1}
        aria-invalid={!!props.fault}
        aria-describedby={described(id, props)}
        onInput={(input) => props.onInput(input.currentTarget.valueAsNumber)}
      />
    </Frame>
  );
}

export interface Choice {
  value: string;
  label: string;
  disabled?: boolean;
}

export interface SelectFieldProps extends Labelled {
  value: string;
  choices: Choice[];
  onInput: (value: string) => void;
}

export function SelectField(props: SelectFieldProps) {
  const id = useId();
  return (
    <Frame {...props} id={id}>
      <select
        id={id}
        value={props.value}
        aria-describedby={described(id, props)}
        onChange={(input) => props.onInput(input.currentTarget.value)}
      >
        {props.choices.map((choice) => (
          <option key={choice.value} value={choice.value} disabled={choice.disabled ?? false}>
            {choice.label}
          </option>
        ))}
      </select>
    </Frame>
  );
}

export interface CheckFieldProps {
  label: string;
  checked: boolean;
  onInput: (checked: boolean) => void;
  disabled?: boolean;
}

export function CheckField(props: CheckFieldProps) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={props.checked}
        disabled={props.disabled ?? false}
        onChange={(input) => props.onInput(input.currentTarget.checked)}
      />
      <span>{props.label}</span>
    </label>
  );
}
