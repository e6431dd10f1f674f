import type { AgentCard, Standing } from "../api/types";

export const STANDINGS: readonly Standing[] = ["needs you", "silent", "working", "idle", "ended"];

/** An agent that is idle for less than this keeps its place among those at work. */
const SHORT_REST = 120_000;

const BY_NAME = new Intl.Collator(undefined, { numeric: true });

function byText(a: string | null, b: string | null): number {
  return (a ?? "") < (b ?? "") ? -1 : Number(a !== b);
}

function rank(agent: AgentCard, now: number): number {
  const resting = agent.standing === "idle" && now - Date.parse(agent.since ?? "") < SHORT_REST;
  return STANDINGS.indexOf(resting ? "working" : agent.standing);
}

/** Since when it is in this state; silence begins with the last event. */
export function heldSince(agent: AgentCard): string | null {
  return agent.standing === "silent" ? agent.last_seen : agent.since;
}

function within(a: AgentCard, b: AgentCard): number {
  if (a.standing === "needs you" || a.standing === "silent") return byText(heldSince(a), heldSince(b));
  if (a.standing === "ended") return byText(b.last_seen, a.last_seen);
  return BY_NAME.compare(a.shown, b.shown);
}

/** Agents that need a person first, the one that waits longest before all; those at work by name, so that cards keep their place. */
export function ordered(agents: readonly AgentCard[], now: number): AgentCard[] {
  return [...agents].sort((a, b) => rank(a, now) - rank(b, now) || within(a, b) || byText(a.name, b.name));
}

/** An agent with its sub-agents. */
export interface Member {
  agent: AgentCard;
  helpers: AgentCard[];
}

/** Agents in their order, each with its sub-agents; a sub-agent whose parent is not among them stands alone. */
export function groups(agents: readonly AgentCard[]): Member[] {
  const names = new Set(agents.map((agent) => agent.name));
  const isHelper = (agent: AgentCard): boolean => agent.parent !== null && agent.parent !== agent.name && names.has(agent.parent);
  const members = new Map(agents.filter((agent) => !isHelper(agent)).map((agent) => [agent.name, { agent, helpers: [] as AgentCard[] }]));
  const parents = new Map(agents.map((agent) => [agent.name, agent.parent]));
  for (const agent of agents) {
    if (!isHelper(agent)) continue;
    let top = agent.parent;
    for (let depth = 0; depth < 8 && top !== null && !members.has(top); depth += 1) top = parents.get(top) ?? null;
    const member = members.get(top ?? "");
    if (member) member.helpers.push(agent);
    else members.set(agent.name, { agent, helpers: [] });
  }
  return [...members.values()];
}

/** Whether an agent has all the words somewhere: in its name, its work, its task or its mission. */
export function matches(agent: AgentCard, text: string): boolean {
  const whole = [agent.shown, agent.name, agent.doing, agent.task, agent.mission, agent.goal, agent.standing].join("\n").toLowerCase();
  return text.toLowerCase().split(/\s+/).every((one) => whole.includes(one));
}
