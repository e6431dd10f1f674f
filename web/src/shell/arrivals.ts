import type { AgentCard, FleetAnswer } from "../api/types";

/** Who needs a person, by name. */
export function needing(fleet: FleetAnswer): Map<string, AgentCard> {
  return new Map(fleet.agents.filter((agent) => agent.standing === "needs you").map((agent) => [agent.name, agent]));
}

/** Who has come to need a person between two answers, or asks anew. Of the first answer nobody is news, and nothing is while the log is being read. */
export function arrivals(before: FleetAnswer | null, fleet: FleetAnswer): AgentCard[] {
  if (!before?.caught_up || !fleet.caught_up) return [];
  const old = needing(before);
  return [...needing(fleet).values()].filter((agent) => old.get(agent.name)?.since !== agent.since);
}
