import { asOf, setAsOf } from "../moment";
import { pages } from "../pages";
import { go } from "../router";
import { closeDrawer } from "../ui/drawer";
import { toggleHelp, closeHelp } from "./help";
import { openSearch } from "./search";
import { stepMoment, togglePlay } from "./travel";

/** Whether keys pressed there are words, and no commands. */
function typing(target: EventTarget | null): boolean {
  if (target instanceof HTMLInputElement) return !["range", "checkbox", "radio", "button"].includes(target.type);
  return target instanceof HTMLElement && (target.isContentEditable || /^(TEXTAREA|SELECT)$/.test(target.tagName));
}

const DEEDS: Record<string, () => void> = {
  "/": openSearch,
  "?": toggleHelp,
  "[": () => stepMoment(-1),
  "]": () => stepMoment(1),
  l: () => asOf.peek() !== null && setAsOf(null, "push"),
  p: togglePlay,
  s: () => go("brief"), // the key of the Story page, which it replaced
};

function deedOf(key: string): (() => void) | undefined {
  const page = pages.find((one) => one.key === key);
  return page ? () => go(page.path) : DEEDS[key];
}

function close(press: KeyboardEvent): void {
  if (closeHelp() || closeDrawer()) press.preventDefault();
  else if (typing(press.target)) (press.target as HTMLElement).blur();
}

function pressed(press: KeyboardEvent): void {
  if (press.defaultPrevented || press.ctrlKey || press.metaKey || press.altKey) return;
  if (press.key === "Escape") return close(press);
  if (typing(press.target)) return;
  const deed = deedOf(press.key);
  if (!deed) return;
  press.preventDefault();
  deed();
}

export function listenToKeys(): void {
  addEventListener("keydown", pressed);
}
