import type { Outcome } from "../api/types";
import { now } from "../clock";

/** How a session is shown: what matters to the reader first. */
type ShownStatus = "needs you" | "running" | "silent" | "finished" | "stopped";

/** A running session without an event for so long is silent, as on Now (`views/fleet.py`). */
const SILENT_AFTER = 10 * 60_000;

/** A question that nobody answered for so long is no longer urgent. */
const OLD = 24 * 3_600_000;

type Known = Pick<Outcome, "status" | "waiting_for" | "ended">;

export function statusOf(outcome: Known): { kind: ShownStatus; word: string } {
  const age = now.value - Date.parse(outcome.ended ?? "");
  const isOld = age > OLD;
  if (outcome.waiting_for === "permission" && !isOld) return { kind: "needs you", word: "needs permission" };
  if (outcome.waiting_for === "person") return isOld ? { kind: "stopped", word: "asked, no answer" } : { kind: "needs you", word: "asks you" };
  if (outcome.status === "running" && outcome.waiting_for === "helpers") return { kind: "running", word: "waits for sub-agents" };
  if (outcome.status === "running") return age > SILENT_AFTER ? { kind: "silent", word: "silent" } : { kind: "running", word: "running" };
  if (outcome.status === "failed") return { kind: "stopped", word: "failed" };
  return outcome.status === "interrupted" ? { kind: "stopped", word: "stopped early" } : { kind: "finished", word: "finished" };
}

/** Whether it asked, and nobody answered for so long that it is not urgent any more. */
export function isLeftOpen(outcome: Known): boolean {
  const { kind } = statusOf(outcome);
  return outcome.waiting_for === "person" && kind === "stopped";
}

const SIGNS: Record<ShownStatus, string> = { "needs you": "!", running: "▸", silent: "◌", finished: "✓", stopped: "■" };

export function StatusMark({ outcome }: { outcome: Known }) {
  const { kind, word } = statusOf(outcome);
  return <span class={`s-status ${kind.replace(" ", "-")}`}><span aria-hidden="true">{SIGNS[kind]}</span> {word}</span>;
}
