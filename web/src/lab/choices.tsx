/** A few words side by side, of which one counts: radio buttons that look like one switch. */

import { useId } from "preact/hooks";

export interface ChoicesProps {
  legend: string;
  name: string;
  value: string;
  choices: { value: string; label: string; disabled?: boolean }[];
  hint?: string | undefined;
  onPick: (value: string) => void;
}

export function Choices(props: ChoicesProps) {
  const id = useId();
  return (
    <fieldset class="choices" {...(props.hint ? { "aria-describedby": `${id}-hint` } : {})}>
      <legend>{props.legend}</legend>
      <div class="choice-row">
        {props.choices.map((choice) => (
          <label key={choice.value}>
            <input
              type="radio"
              name={`${id}-${props.name}`}
              value={choice.value}
              checked={choice.value === props.value}
              disabled={choice.disabled ?? false}
              onChange={() => props.onPick(choice.value)}
            />
            <span>{choice.label}</span>
          </label>
        ))}
      </div>
      {props.hint && (
        <p class="hint" id={`${id}-hint`}>
          {props.hint}
        </p>
      )}
    </fieldset>
  );
}
