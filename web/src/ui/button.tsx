import type { ComponentChildren, JSX } from "preact";

export interface ButtonProps {
  children: ComponentChildren;
  onClick?: () => void;
  kind?: "primary" | "plain" | "quiet" | "danger";
  type?: "button" | "submit";
  disabled?: boolean;
  /** Something was asked for and is not answered: no second click, and it says so. */
  busy?: boolean;
  label?: string;
  testid?: string;
}

export function Button({ kind = "plain", type = "button", ...props }: ButtonProps): JSX.Element {
  return (
    <button
      type={type}
      class={`button ${kind}`}
      disabled={props.disabled ?? false}
      aria-busy={props.busy ?? false}
      // Not `disabled`: whoever pressed it with a key stays on it.
      aria-disabled={props.busy || undefined}
      aria-label={props.label}
      data-testid={props.testid}
      onClick={() => {
        if (!props.busy) props.onClick?.();
      }}
    >
      {props.children}
    </button>
  );
}
