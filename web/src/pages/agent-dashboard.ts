/** What a screen really shows, read off the page itself: an agent may have sent a button that is not there. */

import type { Control } from "../api/types";

interface Made {
  control: Control;
  /** What it read as when it was drawn. */
  text: string;
}

const made = new WeakMap<Element, Made>();
export const MARK = "data-control";

/** Remembers what an element stands for, as it is drawn now. */
export function remember(element: Element | null, control: Control): void {
  if (element) made.set(element, { control, text: element.textContent ?? "" });
}

function seen(element: Element): Control | null {
  const known = made.get(element);
  if (!known || element.getClientRects().length === 0) return null;
  const text = element.textContent ?? "";
  if (text === known.text) return reported(known.control);
  // Somebody has changed it under our hands.
  return { ...reported(known.control), [known.control.type === "button" ? "label" : "text"]: text };
}

/** A control as it is told of: what can be seen of it, and what it does. */
export function reported(control: Control): Control {
  const { type, label, action, id, text, value, columns, data, machine_id } = control;
  const told: Control = { type };
  if (type === "button") Object.assign(told, { label, action });
  else if (type === "table") Object.assign(told, { columns, rows: Array.isArray(data) ? data.length : 0 });
  else if (type === "label") Object.assign(told, { id, text, value });
  else Object.assign(told, { label, text });
  return machine_id === undefined ? told : { ...told, machine_id };
}

/** All that can be seen of a screen, in its order. */
export function dashboardOf(panel: Element | null): Control[] {
  return [...(panel?.querySelectorAll(`[${MARK}]`) ?? [])].map(seen).filter((one) => one !== null);
}

/** Whether a screen shows what it was given. */
export function shows(panel: Element | null, controls: readonly Control[]): boolean {
  return JSON.stringify(dashboardOf(panel)) === JSON.stringify(controls.map(reported));
}
