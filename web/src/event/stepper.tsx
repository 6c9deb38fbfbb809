/** So many of something, by two large buttons. */

import { t } from "../strings";

export interface StepperProps {
  name: string;
  value: number;
  most: number;
  onChange: (value: number) => void;
  disabled?: boolean;
}

export function Stepper({ name, value, most, onChange, disabled = false }: StepperProps) {
  const step = (by: number) => () => onChange(value + by);
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset would need a legend that is seen.
    <div class="stepper" role="group" aria-label={name}>
      <button
        type="button"
        class="icon-button"
        aria-label={t.event.pick.fewer(name)}
        disabled={disabled || value <= 0}
        onClick={step(-1)}
      >
        −
      </button>
      <output class="numbers" aria-live="off">
        {value}
      </output>
      <button
        type="button"
        class="icon-button"
        aria-label={t.event.pick.more(name)}
        disabled={disabled || value >= most}
        onClick={step(1)}
      >
        +
      </button>
    </div>
  );
}
