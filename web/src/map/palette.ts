/** The colours of the page, as a canvas wants them. Read again when the theme changes. */

export interface Palette {
  ground: string;
  section: string;
  line: string;
  text: string;
  soft: string;
  card: string;
  accent: string;
  onAccent: string;
  good: string;
  bad: string;
  held: string;
  sold: string;
  seatText: string;
  stage: string;
  focus: string;
  tiers: string[];
}

const TIERS = 6;

export function readPalette(element: Element): Palette {
  const style = getComputedStyle(element);
  const css = (name: string) => style.getPropertyValue(name).trim();
  return {
    ground: css("--map-ground") || css("--card"),
    section: css("--map-section") || css("--raised"),
    line: css("--line"),
    text: css("--text"),
    soft: css("--text-soft"),
    card: css("--card"),
    accent: css("--seat-mine"),
    onAccent: css("--on-accent"),
    good: css("--good"),
    bad: css("--bad"),
    held: css("--seat-held"),
    sold: css("--seat-sold"),
    seatText: css("--seat-text"),
    stage: css("--stage"),
    focus: css("--focus"),
    tiers: Array.from({ length: TIERS }, (_, at) => css(`--tier-${at + 1}`)),
  };
}

export const tierColor = (palette: Palette, color: number): string =>
  palette.tiers[color % palette.tiers.length]!;
