/** Undo, files, a new beginning. */

import { useRef } from "preact/hooks";
import { t } from "../strings";
import { Button } from "../ui/button";

export type ExportKind = "event" | "design" | "seats";

export function Toolbar(props: {
  canUndo: boolean;
  canRedo: boolean;
  onUndo: () => void;
  onRedo: () => void;
  onImport: () => void;
  onExport: (kind: ExportKind) => void;
  onAnew: () => void;
}) {
  const menu = useRef<HTMLDetailsElement>(null);
  const summary = useRef<HTMLElement>(null);
  const say = t.design;
  const kinds: [ExportKind, string][] = [
    ["event", say.exportEvent],
    ["seats", say.exportSeats],
    ["design", say.exportDesign],
  ];
  const close = () => {
    menu.current!.open = false;
    summary.current!.focus();
  };
  return (
    <div class="row design-tools">
      <Step label={say.undo} off={!props.canUndo} onClick={props.onUndo}>
        M9 14 4 9l5-5M4 9h10a5.5 5.5 0 0 1 0 11h-3
      </Step>
      <Step label={say.redo} off={!props.canRedo} onClick={props.onRedo}>
        m15 14 5-5-5-5m5 5H10a5.5 5.5 0 0 0 0 11h3
      </Step>
      <Button onClick={props.onImport}>{say.importFile}</Button>
      <details
        class="design-menu"
        ref={menu}
        onKeyDown={(event) => {
          if (event.key === "Escape" && menu.current!.open) close();
        }}
        onFocusOut={(event) => {
          const to = event.relatedTarget as Node | null;
          if (to && !menu.current!.contains(to)) menu.current!.open = false;
        }}
      >
        <summary class="button plain" ref={summary}>
          {say.export}
        </summary>
        <ul>
          {kinds.map(([kind, label]) => (
            <li key={kind}>
              <button
                type="button"
                onClick={() => {
                  props.onExport(kind);
                  close();
                }}
              >
                {label}
              </button>
            </li>
          ))}
        </ul>
      </details>
      <Button kind="quiet" onClick={props.onAnew}>
        {say.startAnew}
      </Button>
    </div>
  );
}

function Step(props: { label: string; off: boolean; onClick: () => void; children: string }) {
  return (
    <button
      type="button"
      class="button plain design-step"
      aria-label={props.label}
      title={props.label}
      // Not `disabled`: whoever undid the last step stays where he is.
      aria-disabled={props.off}
      onClick={() => {
        if (!props.off) props.onClick();
      }}
    >
      <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true">
        <path d={props.children} />
      </svg>
    </button>
  );
}
