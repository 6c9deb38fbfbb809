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
      <Button onClick={props.onUndo} disabled={!props.canUndo}>
        {say.undo}
      </Button>
      <Button onClick={props.onRedo} disabled={!props.canRedo}>
        {say.redo}
      </Button>
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
