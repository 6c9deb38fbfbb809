import { t } from "../strings";

export interface SwitchProps {
  label: string;
  on: boolean;
  onSwitch: (on: boolean) => void;
  busy?: boolean;
  disabled?: boolean;
}

/** A switch says in words how it stands, not by its colour and place alone. */
export function Switch({ label, on, onSwitch, busy = false, disabled = false }: SwitchProps) {
  return (
    <button
      type="button"
      class="switch"
      role="switch"
      aria-checked={on}
      aria-busy={busy}
      disabled={disabled}
      onClick={() => {
        if (!busy) onSwitch(!on);
      }}
    >
      <span class="switch-label">{label}</span>
      <span class="switch-state" aria-hidden="true">
        {on ? t.ops.gate.on : t.ops.gate.off}
      </span>
      <span class="switch-track" aria-hidden="true" />
    </button>
  );
}
