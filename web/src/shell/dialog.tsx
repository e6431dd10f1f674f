import { signal, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

import { keepFocus } from "../ui/focus";

/** Whether a dialog is open. */
type Opened = Signal<boolean>;

export const closed = (): Opened => signal(false);

export function toggleDialog(opened: Opened): void {
  opened.value = !opened.peek();
}

/** Closes a dialog; says whether it was open. */
export function closeDialog(opened: Opened): boolean {
  const was = opened.peek();
  opened.value = false;
  return was;
}

/** A dialog above the page. A click beside it or Escape closes it, and the focus goes back to where it was. */
export function Dialog({ opened, class: extra, label, children }: { opened: Opened; class: string; label: string; children: ComponentChildren }) {
  const box = useRef<HTMLDialogElement>(null);
  const isOpen = opened.value;
  useLayoutEffect(() => {
    if (!isOpen) return;
    const giveBack = keepFocus();
    box.current?.showModal();
    return giveBack;
  }, [isOpen]);
  if (!isOpen) return null;
  const close = (): void => void closeDialog(opened);
  return <dialog class={extra} ref={box} onClose={close} onClick={(click) => click.target === box.current && close()} aria-label={label}>{children}</dialog>;
}
