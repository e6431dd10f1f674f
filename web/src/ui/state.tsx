import type { ComponentChildren } from "preact";

import { Refusal } from "../api";
import { connection } from "../live";

/** What went wrong, and that it is being tried again. */
export function Trouble({ error }: { error: Error }) {
  const refused = error instanceof Refusal;
  // The banner says so already.
  if (!refused && connection.value === "lost") return null;
  return (
    <p class="trouble-note" role="status">
      <strong>{refused ? error.title : "The server cannot be reached"}.</strong>{" "}
      {refused ? error.detail : "This page shows the last known state and retries."}
    </p>
  );
}

/** Grey lines where text will be, so that nothing jumps when it comes. */
export function Waiting({ lines = 4 }: { lines?: number }) {
  return (
    <div class="waiting" aria-label="Loading" role="status">
      {Array.from({ length: lines }, (_, index) => <div key={index} class="waiting-line" />)}
    </div>
  );
}

/** A small box with a word in it: a task, a mission, a kind. */
export function Chip({ label, children }: { label: string; children: ComponentChildren }) {
  return <span class="chip"><span class="chip-label">{label}</span>{children}</span>;
}
