/** Every English sentence of the pages. To translate them, translate this file. */

const s = (count: number) => (count === 1 ? "" : "s");

export const t = {
  brand: "Holdfast",
  nav: {
    label: "Pages",
    events: "Events",
    lab: "Lab",
    ops: "Operations",
    design: "Design",
    docs: "API",
    skip: "Skip to the content",
    toDark: "Dark colours",
    toLight: "Light colours",
  },
  errors: {
    noKey: "The pages' own key was revoked: an operator must allow them again.",
    noAdminKey: "This needs an admin key.",
    tooSlow: "No answer came in time. Try again.",
    unreachable: "The service cannot be reached. Check your connection and try again.",
    unreadable: "The service gave an answer that cannot be read.",
    broken: "Something went wrong on this page.",
    reload: "Reload",
    again: "Try again",
    notFound: "There is no such page.",
    home: "To the events",
  },
  common: {
    loading: "Loading…",
    close: "Close",
    cancel: "Cancel",
    units: (count: number) => `${count} unit${s(count)}`,
    seats: (count: number) => `${count} seat${s(count)}`,
  },
  adminKey: {
    title: "Admin key",
    why: "This page acts on the whole deployment, so it asks for an admin key. It is kept in this tab only.",
    label: "Admin key",
    enter: "Use this key",
    wrong: "The service does not take this key.",
    where:
      "`holdfast demo` prints one when it starts; `holdfast keys create --role admin` makes one.",
    forget: "Forget the key",
  },
  events: {
    title: "On sale",
  },
  map: {},
  event: {},
  checkout: {},
  lab: {
    title: "Lab",
  },
  ops: {
    title: "Operations",
  },
  design: {
    title: "Design an event",
  },
};
