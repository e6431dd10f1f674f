import { asOf, setAsOf } from "../moment";
import { entries, more, pages } from "../pages";
import { go } from "../router";
import { closeDrawer } from "../ui/drawer";
import { toggleHelp, closeHelp } from "./help";
import { closePalette, togglePalette } from "./palette";
import { openSearch } from "./search";
import { stepMoment, togglePlay } from "./travel";

/** Whether keys pressed there are words, and no commands. */
function typing(target: EventTarget | null): boolean {
  if (target instanceof HTMLInputElement) return !["range", "checkbox", "radio", "button"].includes(target.type);
  return target instanceof HTMLElement && (target.isContentEditable || /^(TEXTAREA|SELECT)$/.test(target.tagName));
}

const ACTIONS: Record<string, () => void> = {
  "/": openSearch,
  "?": toggleHelp,
  "[": () => stepMoment(-1),
  "]": () => stepMoment(1),
  l: () => asOf.peek() !== null && setAsOf(null, "push"),
  p: togglePlay,
  f: () => go("now"), // the key of the Fleet page, which it replaced
};

function actionOf(key: string): (() => void) | undefined {
  const page = [...entries, ...more].find((entry) => entry.key === key)?.pages[0] ?? pages.find((one) => one.key !== "" && one.key === key);
  return page ? () => go(page.path) : ACTIONS[key];
}

function close(press: KeyboardEvent): void {
  if (closePalette() || closeHelp() || closeDrawer()) press.preventDefault();
  else if (typing(press.target)) (press.target as HTMLElement).blur();
}

function pressed(press: KeyboardEvent): void {
  if ((press.ctrlKey || press.metaKey) && press.key.toLowerCase() === "k" && !press.altKey && !press.shiftKey) {
    press.preventDefault();
    togglePalette();
    return;
  }
  if (press.defaultPrevented || press.ctrlKey || press.metaKey || press.altKey) return;
  if (press.key === "Escape") return close(press);
  if (typing(press.target)) return;
  const action = actionOf(press.key);
  if (!action) return;
  press.preventDefault();
  action();
}

export function listenToKeys(): void {
  addEventListener("keydown", pressed);
}
