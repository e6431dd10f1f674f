import { useMemo } from "preact/hooks";

import { source, useView } from "../moment";
import type { AgentCard, FleetAnswer, Outcome, SessionsAnswer, Standing } from "../api/types";
import { openAgent } from "./agent-drawer";
import { openSession } from "./session-link";
import { plain } from "./hostile";
import { Name } from "./name";

function findCard(name: string): AgentCard | undefined {
  return source<FleetAnswer>("/api/fleet").state.value.data?.agents.find((agent) => agent.name === name);
}

const NEWEST_SESSIONS = { limit: 60 };

/** The newest sessions by id, kept fresh while a page uses them. */
export function useSessions(): ReadonlyMap<string, Outcome> {
  const sessions = useView<SessionsAnswer>("/api/sessions", NEWEST_SESSIONS, 2500).data?.sessions;
  return useMemo(() => new Map((sessions ?? []).map((outcome) => [outcome.session, outcome])), [sessions]);
}

/** The name of an agent's session, as the sessions page has it; an agent with a name of its own keeps that. */
export function nameOf(agent: Pick<AgentCard, "name" | "shown">, outcome: Outcome | undefined): string {
  return outcome && outcome.agent === agent.name && agent.shown !== agent.name ? outcome.name : agent.shown;
}

/** The display name of an agent; its name in the log if it has none. */
export function shownName(name: string, usual = name): string {
  const card = findCard(name);
  if (!card) return usual;
  const sessions = source<SessionsAnswer>("/api/sessions", NEWEST_SESSIONS).state.value.data?.sessions;
  return nameOf(card, sessions?.find((outcome) => outcome.session === card.session));
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
      <Name text={shownName(name, shown ?? name)} />
    </button>
  );
}

const SIGNS: Record<Standing, string> = { "needs you": "!", working: "▸", silent: "◌", idle: "–", ended: "–" };

/** How an agent stands, as a word and a sign; the sign beats once whenever `beat` changes. Silence of more than a day is no alarm any more. */
export function StandingMark({ standing, word = standing, beat, inactive = false, good = false }: { standing: Standing; word?: string; beat?: string | null; inactive?: boolean; good?: boolean }) {
  const shown = inactive && standing === "silent" ? "idle" : standing;
  return (
    <span class={`standing ${shown.replace(" ", "-")} ${good && SIGNS[shown] === "–" ? "good" : ""}`}>
      <span key={beat} class={beat ? "standing-sign pulse" : "standing-sign"} aria-hidden="true">{good && SIGNS[shown] === "–" ? "✓" : SIGNS[shown]}</span>
      {word}
    </span>
  );
}
