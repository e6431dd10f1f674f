import { useRef, useState } from "preact/hooks";

import { useSyntax } from "./syntax";
import { Words } from "./words";

const CLASSES: Record<string, string> = { "+": "added", "-": "removed", "@": "between" };
const MOST_LINES = 2000;

/** The lines of a diff, with syntax colours by the file's name. */
export function DiffLines({ path, diff, folded = 24 }: { path: string; diff: string; folded?: number }) {
  const lines = diff.split("\n");
  const [isOpen, open] = useState(false);
  const box = useRef<HTMLPreElement>(null);
  const shown = lines.length <= folded + 4 ? lines : lines.slice(0, isOpen ? MOST_LINES : folded);
  useSyntax(box, path, shown.length + diff.length, 1);
  return (
    <>
      <pre class="diff" ref={box} tabIndex={0} aria-label="Diff">
        {shown.map((line, index) => <span key={index} class={`diff-line ${CLASSES[line[0] ?? ""] ?? ""}`}><Words text={line === "@@" ? "⋯" : line || " "} /></span>)}
      </pre>
      {shown.length < lines.length && <button type="button" class="t-more" onClick={() => open(true)}>Show all {lines.length} lines</button>}
    </>
  );
}
