/** The theme's colours for canvases, read again when the theme changes. */

import { computed } from "@preact/signals";

import type { Family, Standing } from "../api/types";
import { cssVar } from "../theme";

export interface Palette {
  readonly ground: string;
  readonly ink: string;
  readonly faint: string;
  readonly line: string;
  readonly lineStrong: string;
  readonly accent: string;
  /** Over what has not happened yet. */
  readonly beyond: string;
  readonly font: string;
  readonly families: Readonly<Record<Family, string>>;
  readonly moods: Readonly<Record<"bright" | "dark" | "plain", string>>;
}

export const palette = computed<Palette>(() => {
  const families = { work: cssVar("--work"), done: cssVar("--done"), trouble: cssVar("--trouble"), talk: cssVar("--talk"), quiet: cssVar("--quiet") };
  return {
    ground: cssVar("--panel"),
    ink: cssVar("--ink"),
    faint: cssVar("--ink-3"),
    line: cssVar("--line"),
    lineStrong: cssVar("--line-2"),
    accent: cssVar("--accent"),
    beyond: cssVar("--tl-beyond"),
    font: cssVar("--sans") || "system-ui, sans-serif",
    families,
    moods: { bright: families.done, dark: families.trouble, plain: families.talk },
  };
});

/** The class of a status, as the stylesheet knows it. */
export function standingClass(standing: Standing | null): string {
  return standing ? standing.replace(" ", "-") : "unknown";
}
