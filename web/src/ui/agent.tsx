import { source } from "../moment";
import type { AgentCard, FleetAnswer, Standing } from "../api/types";
import { openAgent } from "./agent-drawer";
import { openSession } from "./session-link";
import { plain } from "./hostile";
import { Name } from "./name";

function findCard(name: string): AgentCard | undefined {
  return source<FleetAnswer>("/api/fleet").state.value.data?.agents.find((agent) => agent.name === name);
}

/** The display name of an agent; its name in the log if it has none. */
export function shownName(name: string): string {
  return findCard(name)?.shown ?? name;
}

/** Opens an agent's session, or what it did last if it has none. A sub-agent leads to the session that it works in. */
export function openWork(name: string): void {
  const card = findCard(name);
  const session = card?.session ?? (card?.parent ? findCard(card.parent)?.session : null);
  if (session) openSession(session);
  else openAgent(name);
}

/** An agent's name; a click opens its session or what it did last. */
export function AgentName({ name, shown }: { name: string; shown?: string | null | undefined }) {
  return (
    <button type="button" class="agent-name" onClick={() => openWork(name)} title={plain(name)}>
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
