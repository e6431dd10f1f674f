import type { AgentCard, Standing } from "../shapes";

export const STANDINGS: readonly Standing[] = ["needs you", "silent", "working", "idle", "ended"];

/** Who rests for less than this between two deeds keeps its place among those at work. */
const SHORT_REST = 120_000;

const BY_NAME = new Intl.Collator(undefined, { numeric: true });

function byText(a: string | null, b: string | null): number {
  return (a ?? "") < (b ?? "") ? -1 : Number(a !== b);
}

function rank(agent: AgentCard, now: number): number {
  const resting = agent.standing === "idle" && now - Date.parse(agent.since ?? "") < SHORT_REST;
  return STANDINGS.indexOf(resting ? "working" : agent.standing);
}

/** Since when it stands as it does; silence begins with the last sign of life, whenever the work began. */
export function heldSince(agent: AgentCard): string | null {
  return agent.standing === "silent" ? agent.last_seen : agent.since;
}

function within(a: AgentCard, b: AgentCard): number {
  if (a.standing === "needs you" || a.standing === "silent") return byText(heldSince(a), heldSince(b));
  if (a.standing === "ended") return byText(b.last_seen, a.last_seen);
  return BY_NAME.compare(a.shown, b.shown);
}

/** Those who need a person first, who waits longest before all; those at work by name, so that cards keep their place. */
export function ordered(agents: readonly AgentCard[], now: number): AgentCard[] {
  return [...agents].sort((a, b) => rank(a, now) - rank(b, now) || within(a, b) || byText(a.name, b.name));
}

/** Whether an agent has all the words somewhere: in its name, its work, its task or its mission. */
export function matches(agent: AgentCard, text: string): boolean {
  const whole = [agent.shown, agent.name, agent.doing, agent.task, agent.mission, agent.goal, agent.standing].join("\n").toLowerCase();
  return text.toLowerCase().split(/\s+/).every((one) => whole.includes(one));
}
