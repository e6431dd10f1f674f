import { computed, effect, signal } from "@preact/signals";

type Theme = "dark" | "light";

const KEPT = "fleetlore.theme";
const system = matchMedia("(prefers-color-scheme: light)");
const systemTheme = signal<Theme>(system.matches ? "light" : "dark");
const chosen = signal(localStorage.getItem(KEPT) as Theme | null);

system.addEventListener("change", () => (systemTheme.value = system.matches ? "light" : "dark"));

/** The theme that is shown: the one that was chosen, else the system's. Charts draw anew when it changes. */
export const theme = computed<Theme>(() => chosen.value ?? systemTheme.value);

effect(() => {
  document.documentElement.dataset["theme"] = theme.value;
});

export function switchTheme(): void {
  chosen.value = theme.value === "dark" ? "light" : "dark";
  localStorage.setItem(KEPT, chosen.value);
}

/** A colour (or any other custom property) of the theme that is shown, for canvases. */
export function cssVar(name: `--${string}`): string {
  void theme.value;
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export const calm = matchMedia("(prefers-reduced-motion: reduce)");
