/** Whether what is seen is what is. */

import { useRef } from "preact/hooks";
import type { Connection, Transport } from "../api/live";
import { t } from "../strings";
import "../style/map.css";

export interface ConnectionPillProps {
  connection: Connection;
  transport?: Transport;
}

export function ConnectionPill({ connection, transport }: ConnectionPillProps) {
  // Said aloud only when it is lost and when it is back, not at the start.
  const lost = useRef(false);
  if (connection === "reconnecting" || connection === "gone") lost.current = true;
  const spoken = lost.current ? ({ role: "status" } as const) : {};
  return (
    <p
      class={`connection ${connection}`}
      title={t.map.connectionHint[connection]}
      data-testid="connection"
      data-transport={transport}
      {...spoken}
    >
      <span class="connection-dot" aria-hidden="true" />
      {t.map.connection[connection]}
    </p>
  );
}
