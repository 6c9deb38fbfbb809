/** What a page that needs an admin key shows until it has one that the service takes. */

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, type Problem } from "../api/http";
import { adminKey, keepAdminKey } from "../api/storage";
import { t } from "../strings";
import { Button } from "./button";
import { TextField } from "./field";

export function NeedsAdminKey({ children }: { children: ComponentChildren }) {
  const [state, setState] = useState<"asking" | "trying" | "in">(adminKey() ? "trying" : "asking");
  const [typed, setTyped] = useState("");
  const [fault, setFault] = useState<string | null>(null);

  const attempt = async () => {
    try {
      await call("GET", "/v1/system", { as: "admin" });
      setState("in");
    } catch (trouble) {
      const problem = trouble as Problem;
      const refused = problem.status === 401 || problem.status === 403;
      if (refused) keepAdminKey(null);
      setFault(refused ? t.adminKey.wrong : problem.detail);
      setState("asking");
    }
  };
  useEffect(() => {
    if (adminKey()) void attempt();
  }, []);

  if (state === "in") return <>{children}</>;
  if (state === "trying") return <p class="loading">{t.common.loading}</p>;
  return (
    <section class="page narrow">
      <form
        class="card"
        onSubmit={(event) => {
          event.preventDefault();
          // Nothing typed is another try of the key that is there and could not be asked about.
          const key = typed.trim();
          if (!key && !adminKey()) return;
          if (key) keepAdminKey(key);
          void attempt();
        }}
      >
        <h1>{t.adminKey.title}</h1>
        <p>{t.adminKey.why}</p>
        <TextField
          label={t.adminKey.label}
          secret
          value={typed}
          onInput={setTyped}
          hint={t.adminKey.where}
          fault={fault}
        />
        <Button type="submit" kind="primary">
          {t.adminKey.enter}
        </Button>
      </form>
    </section>
  );
}
