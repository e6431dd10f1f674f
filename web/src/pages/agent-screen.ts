/** Controls as they are laid out: those of a machine together, and of the others those of one kind that stand side by side. */

import type { Control } from "../api/types";

export interface Group {
  machine: string | null;
  type: string;
  controls: Control[];
}

const KNOWN = new Set(["button", "label", "table"]);

export function groupsOf(controls: readonly Control[]): Group[] {
  const groups: Group[] = [];
  for (const control of controls) {
    const machine = typeof control.machine_id === "string" && control.machine_id ? control.machine_id : null;
    const type = KNOWN.has(control.type) ? control.type : "other";
    const last = groups.at(-1);
    if (last && last.machine === machine && (machine !== null || last.type === type)) last.controls.push(control);
    else groups.push({ machine, type, controls: [control] });
  }
  return groups;
}

/** A value as one line of text. */
export function shown(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** A table's head and rows, whether each row is a list or names its values. */
export function rowsOf(control: Control): { columns: string[]; rows: unknown[][] } {
  const given = Array.isArray(control.columns) ? control.columns.map(shown) : [];
  const data = Array.isArray(control.data) ? control.data : [];
  const names = given.length > 0 ? given : [...new Set(data.flatMap((row) => (isNamed(row) ? Object.keys(row) : [])))];
  const rows = data.map((row) => (Array.isArray(row) ? (row as unknown[]) : isNamed(row) ? names.map((name) => row[name]) : [row]));
  return { columns: names, rows };
}

function isNamed(row: unknown): row is Record<string, unknown> {
  return typeof row === "object" && row !== null && !Array.isArray(row);
}
