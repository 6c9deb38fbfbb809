/** A page that is fetched when it is first shown. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { t } from "../strings";

export function lazy<P extends object>(
  load: () => Promise<{ default: ComponentType<P> }>,
): ComponentType<P> {
  let found: ComponentType<P> | null = null;
  return function Lazy(props: P) {
    const [Page, setPage] = useState<ComponentType<P> | null>(() => found);
    const [trouble, setTrouble] = useState<unknown>(null);
    useEffect(() => {
      if (Page) return;
      load().then((module) => {
        found = module.default;
        setPage(() => module.default);
      }, setTrouble);
    }, []);
    // Thrown here, the page's own guard catches it: a new version may have taken the file's place.
    if (trouble) throw trouble;
    return Page ? <Page {...props} /> : <p class="loading">{t.common.loading}</p>;
  };
}
