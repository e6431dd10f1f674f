import { useLayoutEffect } from "preact/hooks";

/** Gives the focus back to what had it before this was drawn: an element that only changes its place among others loses it else. */
export function useHeldFocus(): void {
  const held = document.activeElement;
  useLayoutEffect(() => {
    const isLost = document.activeElement === null || document.activeElement === document.body;
    if (isLost && held instanceof HTMLElement && held !== document.body && held.isConnected) held.focus({ preventScroll: true });
  });
}
