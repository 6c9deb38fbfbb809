/** To where it is, at once for whoever wants nothing to move. */
export function scrollTo(element: Element | null): void {
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  element?.scrollIntoView({ behavior: still ? "auto" : "smooth" });
}
