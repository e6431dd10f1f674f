import type { ComponentChildren } from "preact";

import { Words } from "./words";

const MOST_DEEP = 40;

function scalar(value: unknown): ComponentChildren {
  if (typeof value === "string") return <span class="j-string">"<Words text={JSON.stringify(value).slice(1, -1)} />"</span>;
  return <span class={value === null ? "j-null" : "j-number"}>{String(value)}</span>;
}

function lines(entries: [string | null, unknown][], deep: number): ComponentChildren {
  const pad = "  ".repeat(deep + 1);
  return entries.map(([name, value], index) => (
    <>
      {`\n${pad}`}
      {name !== null && <span class="j-name">"<Words text={JSON.stringify(name).slice(1, -1)} />": </span>}
      <Value value={value} deep={deep + 1} />
      {index < entries.length - 1 ? "," : ""}
    </>
  ));
}

function Value({ value, deep }: { value: unknown; deep: number }): ComponentChildren {
  if (typeof value !== "object" || value === null) return scalar(value);
  const list = Array.isArray(value);
  const entries: [string | null, unknown][] = list ? value.map((one) => [null, one]) : Object.entries(value);
  const [open, close] = list ? "[]" : "{}";
  if (entries.length === 0) return <>{open}{close}</>;
  if (deep >= MOST_DEEP) return <>{open} … {close}</>;
  return <>{open}{lines(entries, deep)}{`\n${"  ".repeat(deep)}`}{close}</>;
}

/** A value as JSON that can be read: only text nodes, whatever is in it. */
export function Json({ value }: { value: unknown }) {
  return (
    <pre class="json" tabIndex={0}>
      <Value value={value} deep={0} />
    </pre>
  );
}
