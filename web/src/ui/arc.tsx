import type { Arc } from "../api/types";
import { showEvents } from "./events";
import { counted, full, stretch } from "./times";
import { Words } from "./words";

/** An arc's kind in words. */
export function arcWords(kind: string): string {
  return (kind[0] ?? "").toUpperCase() + kind.slice(1).replaceAll("_", " ");
}

/** An arc as a note in the margin; a click opens the events that prove it. */
export function ArcNote({ arc }: { arc: Arc }) {
  const open = (): void => showEvents(arc.evidence, arcWords(arc.kind));
  return (
    <button type="button" class={`arc ${arc.state}`} onClick={open} title={`${full(arc.first_at)} to ${full(arc.last_at)}`}>
      <span class="arc-kind">{arcWords(arc.kind)}{arc.state === "open" && <span class="arc-open">open</span>}</span>
      <span class="arc-text"><Words text={arc.text} /></span>
      <span class="arc-foot num">{stretch(arc.first_at, arc.last_at)} · {counted(arc.count, "event")}</span>
    </button>
  );
}
