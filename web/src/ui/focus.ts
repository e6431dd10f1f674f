import { useLayoutEffect } from "preact/hooks";

/** Keeps in mind what has the focus; gives what gives it back, to the page where that is gone. */
export function keepFocus(): () => void {
  const held = document.activeElement;
  return () => {
    const place = held?.isConnected ? held : document.getElementById("page");
    if (place instanceof HTMLElement) place.focus();
  };
}

/** Gives the focus back to what had it before this was drawn: an element that changes its place loses it. One that was made anew is found by its title. */
export function useHeldFocus(): void {
  const held = document.activeElement;
  useLayoutEffect(() => {
    const isLost = document.activeElement === null || document.activeElement === document.body;
    if (!isLost || !(held instanceof HTMLElement) || held === document.body) return;
    const again = held.isConnected ? held : held.title ? document.querySelector<HTMLElement>(`#page [title="${CSS.escape(held.title)}"]`) : null;
    again?.focus({ preventScroll: true });
  });
}
