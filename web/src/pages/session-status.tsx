import type { AgentCard, CheckName, Outcome, Standing } from "../api/types";
import { now } from "../clock";
import { counted } from "../ui/times";

/** How a session is shown: what matters to the reader first. */
type ShownStatus = "needs you" | "working" | "stuck" | "silent" | "finished" | "stopped";

interface SessionState { kind: ShownStatus; word: string }

/** A running session without an event for so long is silent, as on Now (`views/fleet.py`). */
const SILENT_AFTER = 10 * 60_000;

/** A question that nobody answered for so long is no longer urgent. */
const OLD = 24 * 3_600_000;

/** So many equal failures in a row are a reason to look. */
const SAME_FAILURE = 3;

type Known = Pick<Outcome, "status" | "waiting_for" | "ended"> & Partial<Pick<Outcome, "flags" | "troubles">>;

/** Why a session at work may not get on; empty if it does. */
export function trouble(outcome: Partial<Pick<Outcome, "status" | "flags" | "troubles">> | undefined): string {
  if (outcome?.status !== "running") return "";
  if (outcome.flags?.some((flag) => flag.flag === "loop")) return "In a loop:";
  const repeated = outcome.troubles?.find((one) => !one.resolved && Number(/ (\d+) times/.exec(one.what)?.[1] ?? 0) >= SAME_FAILURE);
  return repeated ? `${repeated.what.split(":", 1)[0]}:` : "";
}

/** The state of a session, in the one word that all pages use. */
export function statusOf(outcome: Known): SessionState {
  const age = now.value - Date.parse(outcome.ended ?? "");
  const isOld = age > OLD;
  if (outcome.waiting_for === "permission" && !isOld) return { kind: "needs you", word: "needs permission" };
  if (outcome.waiting_for === "person") return isOld ? { kind: "stopped", word: "not answered" } : { kind: "needs you", word: "asks you" };
  if (outcome.status === "running" && outcome.waiting_for === "helpers") return { kind: "working", word: "waits for sub-agents" };
  if (outcome.status === "running" && age > SILENT_AFTER) return { kind: "silent", word: "silent" };
  const stuck = trouble(outcome);
  if (stuck) return { kind: "stuck", word: stuck.startsWith("In a loop") ? "looping" : "stuck" };
  if (outcome.status === "running") return { kind: "working", word: "working" };
  if (outcome.status === "failed") return { kind: "stopped", word: "failed" };
  return outcome.status === "interrupted" ? { kind: "stopped", word: "stopped early" } : { kind: "finished", word: "finished" };
}

/** Whether it asked, and nobody answered for so long that it is not urgent any more. */
export function isLeftOpen(outcome: Known): boolean {
  const { kind } = statusOf(outcome);
  return outcome.waiting_for === "person" && kind === "stopped";
}

/** What an agent's status can be while its session is in a state. An agent of a goal or town may do more than its newest session. */
const FITTING: Record<ShownStatus, readonly Standing[]> = {
  "needs you": ["needs you"],
  working: ["working"],
  stuck: ["working", "silent"],
  silent: ["silent"],
  finished: ["idle", "ended"],
  stopped: ["idle", "ended", "silent"],
};

/** The word for an agent: that of its session if the session says how it is, else its own. */
export function wordOf(agent: Pick<AgentCard, "standing" | "status" | "waiting_for" | "last_seen" | "session">, outcome: Outcome | undefined): string {
  if (agent.status === null) return agent.standing;
  const { kind, word } = statusOf({ status: agent.status, waiting_for: agent.waiting_for, ended: agent.last_seen, flags: outcome?.flags ?? [], troubles: outcome?.troubles ?? [] });
  return FITTING[kind].includes(agent.standing) ? word : agent.standing;
}

/** `bad` and `warn` make a reader look twice; `note` is something to know. */
export type Fact = readonly [kind: "bad" | "warn" | "note", word: string];

function isOver({ status }: Pick<Outcome, "status">): boolean {
  return status !== "running";
}

/** What speaks against a good end, the worst first. The list and the page of a session show the same. */
export function factsOf(outcome: Pick<Outcome, "status" | "checks" | "claims" | "flags" | "delivered">): Fact[] {
  const claims = (verdict: string): number => outcome.claims.filter((claim) => claim.verdict === verdict).length;
  const checks = (Object.entries(outcome.checks) as [CheckName, { result?: string }][]);
  const [contradicted, unproven] = [claims("contradicted"), claims("unproven")];
  const risks = outcome.flags.filter((flag) => flag.executed && flag.flag !== "loop").length;
  const { commits, pushed, unpushed = 0, push_unknown: isPushUnknown = false, pull_requests: requests } = outcome.delivered;
  const found: Fact[] = checks.filter(([, { result }]) => result === "fail").map(([name]) => ["bad", `${name} failed`]);
  if (contradicted > 0) found.push(["bad", `${counted(contradicted, "claim")} contradicted`]);
  if (outcome.flags.some((flag) => flag.flag === "loop")) found.push(["bad", "loop"]);
  if (risks > 0) found.push(["warn", counted(risks, "risk")]);
  if (!isOver(outcome)) return found;
  if (commits.length > 0 && requests.length === 0 && !pushed && !isPushUnknown) found.push(["note", "not pushed"]);
  else if (unpushed > 0) found.push(["note", `${counted(unpushed, "commit")} not pushed`]);
  if (outcome.checks.tests?.result === "could_not_run") found.push(["note", "tests could not run"]);
  if (outcome.checks.tests?.result === "not_run") found.push(["note", "tests not run"]);
  if (unproven > 0) found.push(["note", `${counted(unproven, "claim")} unproven`]);
  return found;
}

/** The worst of them, to stand beside the state of a session that is over. A claim that nothing proves is no fault yet. */
export function worstOf(outcome: Outcome): Fact | null {
  const worst = isOver(outcome) ? factsOf(outcome)[0] : undefined;
  return worst && !worst[1].endsWith("unproven") ? worst : null;
}

/** Whether it finished, a check passed, and nothing speaks against it. */
export function isGood(outcome: Outcome): boolean {
  return Object.values(outcome.checks).some((check) => check.result === "pass") && statusOf(outcome).kind === "finished" && worstOf(outcome) === null && outcome.troubles.every((one) => one.resolved);
}

const SIGNS: Record<ShownStatus, string> = { "needs you": "!", working: "▸", stuck: "↻", silent: "◌", finished: "–", stopped: "■" };

export function WorstFact({ outcome }: { outcome: Outcome | undefined }) {
  const worst = outcome && worstOf(outcome);
  return worst ? <span class={`s-fact ${worst[0]}`}>{worst[1]}</span> : null;
}

/** The state of a session and the worst fact about it. Green is only what ended well. */
export function StatusMark({ outcome }: { outcome: Outcome }) {
  const { kind, word } = statusOf(outcome);
  const good = isGood(outcome);
  return (
    <span class={`s-status ${kind.replace(" ", "-")} ${good ? "good" : ""}`}>
      <span class="s-word"><span aria-hidden="true">{good ? "✓" : SIGNS[kind]}</span> {word}</span> <WorstFact outcome={outcome} />
    </span>
  );
}
