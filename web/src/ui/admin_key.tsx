/** What a page that needs an admin key shows until it has one that the service takes. */

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, type Problem } from "../api/http";
import { adminKey, keepAdminKey } from "../api/storage";
import { t } from "../strings";
import { Button } from "./button";
import { TextField } from "./field";

/** Lets go of the key; `refused` when the service no longer takes it, which is said. */
export type Forget = (refused?: boolean) => void;

export function NeedsAdminKey({ children }: { children: (forget: Forget) => ComponentChildren }) {
  const [state, setState] = useState<"asking" | "trying" | "in">(adminKey() ? "trying" : "asking");
  const [typed, setTyped] = useState("");
  const [fault, setFault] = useState<string | null>(null);

  const attempt = async (wrong: string) => {
    try {
      await call("GET", "/v1/system", { as: "admin" });
      setState("in");
    } catch (trouble) {
      const problem = trouble as Problem;
      const refused = problem.status === 401 || problem.status === 403;
      if (refused) keepAdminKey(null);
      setFault(refused ? wrong : problem.detail);
      setState("asking");
    }
  };
  useEffect(() => {
    if (adminKey()) void attempt(t.adminKey.kept);
  }, []);

  const forget: Forget = (refused = false) => {
    keepAdminKey(null);
    setTyped("");
    setFault(refused ? t.adminKey.noLonger : null);
    setState("asking");
  };

  if (state === "in") return <>{children(forget)}</>;
  if (state === "trying") return <p class="loading">{t.common.loading}</p>;
  return (
    <section class="page narrow">
      <form
        class="card"
        onSubmit={(event) => {
          event.preventDefault();
          // Nothing typed is another try of the key that is there and could not be asked about.
          const key = typed.trim();
          if (!key && !adminKey()) {
            setFault(t.adminKey.empty);
            return;
          }
          if (key) keepAdminKey(key);
          void attempt(t.adminKey.wrong);
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
