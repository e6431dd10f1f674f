import { source } from "../moment";
import type { FleetAnswer, Standing } from "../shapes";
import { openAgent } from "./agent-drawer";
import { plain } from "./hostile";
import { Name } from "./name";

/** What people call an agent; its key where nobody gave it a name. */
export function shownName(name: string): string {
  const fleet = source<FleetAnswer>("/api/fleet").state.value.data;
  return fleet?.agents.find((agent) => agent.name === name)?.shown ?? name;
}

/** An agent's name; a click opens what it did last. */
export function AgentName({ name, shown }: { name: string; shown?: string | null | undefined }) {
  return (
    <button type="button" class="agent-name" onClick={() => openAgent(name)} title={plain(name)}>
      <Name text={shown ?? shownName(name)} />
    </button>
  );
}

const SIGNS: Record<Standing, string> = { "needs you": "!", working: "▸", silent: "◌", idle: "–", ended: "✓" };

/** How an agent stands, as a word and a sign; the sign beats once whenever `beat` changes. */
export function StandingMark({ standing, beat }: { standing: Standing; beat?: string | null }) {
  return (
    <span class={`standing ${standing.replace(" ", "-")}`}>
      <span key={beat} class={beat ? "standing-sign pulse" : "standing-sign"} aria-hidden="true">{SIGNS[standing]}</span>
      {standing}
    </span>
  );
}
