import { Component, type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { keepTheme, type Theme } from "./api/storage";
import type { Deployment } from "./api/types";
import { type Place, placeOf, usePath } from "./router";
import { t } from "./strings";
import { Button } from "./ui/button";
import { lazy } from "./ui/lazy";
import { Toasts } from "./ui/toast";

// Each page is a file of its own: a buyer does not wait for the designer.
const EventsPage = lazy(() => import("./events/events_page"));
const EventPage = lazy(() => import("./event/event_page"));
const LabPage = lazy(() => import("./lab/lab_page"));
const OpsPage = lazy(() => import("./ops/ops_page"));
const DesignPage = lazy(() => import("./design/design_page"));

export interface PageProps {
  deployment: Deployment;
}

export function App({ deployment }: PageProps) {
  const path = usePath();
  const place = placeOf(path);
  const content = useRef<HTMLElement>(null);
  const first = useRef(true);
  useEffect(() => {
    const name = titleOf(place);
    // An event's page has the event's name once it knows it.
    document.title = name ? `${name} · ${t.brand}` : t.brand;
    // Whoever listens instead of looking hears that the page is another one.
    if (!first.current) content.current?.focus();
    first.current = false;
  }, [path]);
  return (
    <>
      <a class="skip" href="#content">
        {t.nav.skip}
      </a>
      <header class="top">
        <a class="brand" href="/">
          <Mark />
          {t.brand}
        </a>
        <nav aria-label={t.nav.label}>
          <NavLink path="/" at={place.page === "events" || place.page === "event"}>
            {t.nav.events}
          </NavLink>
          {deployment.lab !== "off" && (
            <NavLink path="/lab" at={place.page === "lab"}>
              {t.nav.lab}
            </NavLink>
          )}
          <NavLink path="/ops" at={place.page === "ops"}>
            {t.nav.ops}
          </NavLink>
          <NavLink path="/design" at={place.page === "design"}>
            {t.nav.design}
          </NavLink>
          <NavLink path="/docs" at={false}>
            {t.nav.docs}
          </NavLink>
        </nav>
        <ThemeSwitch />
      </header>
      <main id="content" ref={content} tabIndex={-1}>
        <Guarded key={path}>
          {place.page === "events" && <EventsPage deployment={deployment} />}
          {place.page === "event" && (
            <EventPage key={place.event} deployment={deployment} event={place.event} />
          )}
          {place.page === "lab" && <LabPage deployment={deployment} />}
          {place.page === "ops" && <OpsPage deployment={deployment} />}
          {place.page === "design" && <DesignPage deployment={deployment} />}
          {place.page === "nowhere" && <Nowhere />}
        </Guarded>
      </main>
      <Toasts />
    </>
  );
}

function titleOf({ page }: Place): string | null {
  if (page === "nowhere") return t.errors.notFound;
  return page === "event" ? null : t.nav[page];
}

function NavLink(props: { path: string; at: boolean; children: ComponentChildren }) {
  return (
    <a href={props.path} {...(props.at ? { "aria-current": "page" as const } : {})}>
      {props.children}
    </a>
  );
}

function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
      <rect width="32" height="32" rx="8" />
      <path d="M9 8v9a3 3 0 0 0 3 3h8a3 3 0 0 0 3-3V8M9 25v-5m14 5v-5M9 14h14" />
    </svg>
  );
}

function ThemeSwitch() {
  const system: Theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const [theme, setTheme] = useState(
    (document.documentElement.dataset.theme as Theme | undefined) ?? system,
  );
  useEffect(() => {
    // Until somebody chooses, it is the system's, which may change at dusk.
    const query = matchMedia("(prefers-color-scheme: dark)");
    const changed = () => {
      if (!document.documentElement.dataset.theme) setTheme(query.matches ? "dark" : "light");
    };
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  const other: Theme = theme === "dark" ? "light" : "dark";
  const label = other === "dark" ? t.nav.toDark : t.nav.toLight;
  const change = () => {
    document.documentElement.dataset.theme = other;
    keepTheme(other);
    setTheme(other);
    // The canvas reads its colours from the page and must be told.
    dispatchEvent(new Event("themechange"));
  };
  return (
    <button type="button" class="icon-button" aria-label={label} title={label} onClick={change}>
      <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true">
        {other === "dark" ? (
          <path d="M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z" />
        ) : (
          <path d="M12 7a5 5 0 1 0 0 10 5 5 0 0 0 0-10zm0-5v3m0 14v3M2 12h3m14 0h3M5 5l2 2m10 10 2 2M5 19l2-2M17 7l2-2" />
        )}
      </svg>
    </button>
  );
}

function Nowhere() {
  return (
    <section class="page narrow">
      <h1>{t.errors.notFound}</h1>
      <p>
        <a href="/">{t.errors.home}</a>
      </p>
    </section>
  );
}

export function Unreachable() {
  return (
    <section class="page narrow">
      <h1>{t.brand}</h1>
      <p role="alert">{t.errors.unreachable}</p>
      <Button onClick={() => location.reload()}>{t.errors.again}</Button>
    </section>
  );
}

/** A fault in one page leaves the header, and a way on. */
class Guarded extends Component<{ children: ComponentChildren }, { broken: boolean }> {
  override state = { broken: false };

  static override getDerivedStateFromError() {
    return { broken: true };
  }

  override componentDidCatch(trouble: unknown) {
    console.error(trouble);
  }

  override render() {
    if (!this.state.broken) return this.props.children;
    return (
      <section class="page narrow" role="alert">
        <h1>{t.errors.broken}</h1>
        <Button onClick={() => location.reload()}>{t.errors.reload}</Button>
      </section>
    );
  }
}
