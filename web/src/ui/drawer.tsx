import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

import { keepFocus } from "./focus";

interface Open {
  title: ComponentChildren;
  body: () => ComponentChildren;
}

const open = signal<Open | null>(null);
let giveBack = (): void => undefined;

/** Opens the drawer at the side. `body` is drawn anew when signals that it reads change. */
export function openDrawer(title: ComponentChildren, body: () => ComponentChildren): void {
  if (!open.peek()) giveBack = keepFocus();
  open.value = { title, body };
}

/** Closes it and gives the focus back. True if it was open. */
export function closeDrawer(): boolean {
  if (!open.peek()) return false;
  open.value = null;
  giveBack();
  return true;
}

function Body({ draw }: { draw: () => ComponentChildren }) {
  return <>{draw()}</>;
}

export function Drawer() {
  const shown = open.value;
  const pane = useRef<HTMLDivElement>(null);
  // Not after the next frame: who closes it before that would find the focus taken once more.
  useLayoutEffect(() => {
    if (shown && !pane.current?.contains(document.activeElement)) pane.current?.focus();
  }, [shown]);
  if (!shown) return null;
  return (
    <>
      <div class="veil" onClick={closeDrawer} />
      <div class="drawer" ref={pane} tabIndex={-1} role="dialog" aria-label="Details">
        <header>
          <h2>{shown.title}</h2>
          <button type="button" class="button icon" onClick={closeDrawer} aria-label="Close" title="Close (Esc)">×</button>
        </header>
        <div class="drawer-body">
          <Body draw={shown.body} />
        </div>
      </div>
    </>
  );
}
