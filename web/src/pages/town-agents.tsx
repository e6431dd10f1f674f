import { useState } from "preact/hooks";

import { useParam } from "../router";
import type { TownAgent, TownAnswer } from "../api/types";
import { Ago } from "../ui/ago";
import { plain } from "../ui/hostile";
import { Name } from "../ui/name";
import { counted } from "../ui/times";
import { Words } from "../ui/words";
import { openTownAgent } from "./town-drawers";
import { AGENT_SIGNS, AGENT_STATES } from "./town-model";

/** Three rows on a wide screen; more is there at a press. */
const FEW = 18;

function Chip({ agent }: { agent: TownAgent }) {
  const said = agent.wish ? `asked to ${agent.wish}` : agent.doing || (agent.state === "error" || agent.state === "paused" ? agent.reason : "");
  return (
    <li>
      <button type="button" class={`town-agent agent-${agent.state}`} title={plain(agent.name)} onClick={() => openTownAgent(agent.name)}>
        <span class="town-sign" aria-hidden="true">{AGENT_SIGNS[agent.state]}</span>
        <span class="town-agent-name"><Name text={agent.shown || agent.name} /></span>
        <span class="town-agent-more">
          <span class="town-agent-state">{agent.state}</span>
          {said ? <span class="town-agent-doing"><Words text={said} /></span> : agent.roles.length > 0 && <span class="town-agent-doing faint"><Words text={agent.roles.join(", ")} /></span>}
        </span>
        <span class="town-agent-side num">
          {agent.inbox > 0 && <span title="Unread messages">✉{agent.inbox}</span>}
          {agent.queue > 0 && <span title="Assigned tasks">+{agent.queue}</span>}
          <Ago at={agent.seen_at} />
        </span>
      </button>
    </li>
  );
}

/** Who is there, the ones to look at first; by their state where that is wanted. */
export function Agents({ town }: { town: TownAnswer }) {
  const [chosen, choose] = useParam("agents");
  const [all, show] = useState(false);
  const found = town.agents.filter((agent) => !chosen || agent.state === chosen);
  const shown = all ? found : found.slice(0, FEW);
  const unshown = (chosen ? town.agents_by_state[chosen as TownAgent["state"]] ?? 0 : town.agents_total) - found.length;
  return (
    <section class="town-part" aria-label="Agents">
      <h2>Agents of the town <span class="faint num">{town.agents_total}</span></h2>
      <div class="town-counts" role="group" aria-label="Show only">
        {AGENT_STATES.filter((state) => town.agents_by_state[state] > 0).map((state) => (
          <button key={state} type="button" class={`town-count agent-${state}`} aria-pressed={chosen === state} onClick={() => choose(chosen === state ? "" : state)}>
            <span class="town-sign" aria-hidden="true">{AGENT_SIGNS[state]}</span><span class="num">{town.agents_by_state[state]}</span> {state}
          </button>
        ))}
      </div>
      {town.agents_total === 0 && <p class="faint">No agents yet. Add one with <code>lore town spawn ada</code>. Agents outside the town are on the page Now.</p>}
      <ul class="town-agents">{shown.map((agent) => <Chip key={agent.name} agent={agent} />)}</ul>
      {found.length > shown.length && <button type="button" class="button small" onClick={() => show(true)}>Show {found.length - shown.length} more</button>}
      {unshown > 0 && (all || found.length <= FEW) && <p class="faint num">{counted(unshown, "more agent")} not shown here: <code>lore town list</code> has all</p>}
    </section>
  );
}
