/** Where we are. Five addresses need no library. */

import { useEffect, useState } from "preact/hooks";
import { decoded } from "./api/storage";

export type Place =
  | { page: "events" }
  | { page: "event"; event: string }
  | { page: "lab" }
  | { page: "ops" }
  | { page: "design" }
  | { page: "nowhere" };

export function placeOf(path: string): Place {
  if (path === "/") return { page: "events" };
  const event = /^\/e\/([^/]+)\/?$/.exec(path)?.[1];
  if (event) return { page: "event", event: decoded(event) };
  const word = /^\/(lab|ops|design)\/?$/.exec(path)?.[1] as "lab" | "ops" | "design" | undefined;
  return { page: word ?? "nowhere" };
}

export const eventPath = (event: string): string => `/e/${encodeURIComponent(event)}`;

export function go(path: string): void {
  history.pushState(null, "", path);
  dispatchEvent(new PopStateEvent("popstate"));
}

export function usePath(): string {
  const [path, setPath] = useState(location.pathname);
  useEffect(() => {
    const moved = () => setPath(location.pathname);
    const clicked = (click: MouseEvent) => {
      const link = (click.target as Element | null)?.closest?.("a");
      const plain = !click.defaultPrevented && click.button === 0;
      if (!link || !plain || click.metaKey || click.ctrlKey || click.shiftKey) return;
      if (link.target || link.origin !== location.origin || link.hasAttribute("download")) return;
      if (placeOf(link.pathname).page === "nowhere" || link.hash) return;
      click.preventDefault();
      go(link.pathname + link.search);
      scrollTo(0, 0);
    };
    addEventListener("popstate", moved);
    document.addEventListener("click", clicked);
    return () => {
      removeEventListener("popstate", moved);
      document.removeEventListener("click", clicked);
    };
  }, []);
  return path;
}
