import { useState } from "preact/hooks";

import { useView } from "../moment";
import { useParam } from "../router";
import type { AgentCard, FleetAnswer, Standing } from "../shapes";
import "../styles/fleet.css";
import { Ago } from "../ui/ago";
import { BeatLegend } from "../ui/beat";
import { useHeldFocus } from "../ui/focus";
import { Empty } from "../ui/empty";
import { Trouble, Waiting } from "../ui/state";
import { Words } from "../ui/words";
import { Card } from "./fleet-card";
import { useGentleMoves } from "./fleet-motion";
import { STANDINGS, matches, ordered } from "./fleet-order";
import type { Page } from "./page";

const MOST_SHOWN = 120;
/** So few agents have room to say more. */
const FEW = 9;

function Grid({ agents }: { agents: AgentCard[] }) {
  useHeldFocus();
  const [most, show] = useState(MOST_SHOWN);
  const shown = agents.slice(0, most);
  const grid = useGentleMoves(shown.map((agent) => agent.name).join("\n"));
  return (
    <>
      <div class={agents.length <= FEW ? "cards few" : "cards"} ref={grid}>{shown.map((agent) => <Card key={agent.name} agent={agent} />)}</div>
      {agents.length > most && (
        <button type="button" class="button wide" onClick={() => show(most + MOST_SHOWN)}>Show {Math.min(MOST_SHOWN, agents.length - most)} more of {agents.length - most}</button>
      )}
    </>
  );
}

function Counts({ fleet, chosen, choose }: { fleet: FleetAnswer; chosen: string; choose: (standing: string) => void }) {
  const one = (standing: Standing) => {
    const many = fleet.counts[standing] ?? 0;
    const on = chosen === standing;
    return (
      <button key={standing} type="button" class={`count ${standing.replace(" ", "-")} ${many === 0 ? "none" : ""}`} aria-pressed={on} onClick={() => choose(on ? "" : standing)}>
        <span class="count-many num">{many}</span> <span class="count-word">{standing}</span>
      </button>
    );
  };
  return <div class="counts" role="group" aria-label="Show only">{STANDINGS.map(one)}</div>;
}

function Asking({ fleet }: { fleet: FleetAnswer }) {
  if (fleet.asking.length === 0) return null;
  return (
    <ul class="asking" aria-label="Missions that ask for help">
      {fleet.asking.map(({ mission, text, since }) => (
        <li key={mission}>
          <strong>Mission <Words text={mission} /> asks for help</strong> <Words text={text} /> <span class="faint"><Ago at={since} /></span>
        </li>
      ))}
    </ul>
  );
}

/** Who has ended or given no sign of life for a day: there, but folded away. */
function Away({ agents, opened }: { agents: AgentCard[]; opened: boolean }) {
  const [open, set] = useState(opened);
  if (agents.length === 0) return null;
  return (
    <details class="away-fold" open={open} onToggle={(toggle) => set(toggle.currentTarget.open)}>
      <summary><span class="num">{agents.length}</span> {agents.some((agent) => agent.at_rest) ? "ended, or at rest for a day" : "ended"}</summary>
      {open && <Grid agents={agents} />}
    </details>
  );
}

function Fleet() {
  const { data, error } = useView<FleetAnswer>("/api/fleet");
  const [text, find] = useParam("q");
  const [standing, choose] = useParam("standing");
  if (!data) return error ? <Trouble error={error} /> : <Waiting lines={6} />;
  const found = ordered(data.agents, Date.parse(data.now)).filter((agent) => (!standing || agent.standing === standing) && matches(agent, text));
  const foldEnded = found.length > FEW && standing !== "ended";
  const isAway = (agent: AgentCard): boolean => text === "" && (agent.at_rest || (foldEnded && agent.standing === "ended"));
  const here = found.filter((agent) => !isAway(agent));
  return (
    <>
      <div class="fleet-tools">
        <Counts fleet={data} chosen={standing} choose={choose} />
        <input class="field" type="search" placeholder="Find an agent, a task…" aria-label="Find an agent" value={text} onInput={(input) => find(input.currentTarget.value)} />
      </div>
      {error && <Trouble error={error} />}
      <Asking fleet={data} />
      {found.length === 0 && <Empty title={data.agents.length === 0 ? "No agents yet at this moment" : "No agent fits"} hint={data.agents.length === 0 ? "Move the slider on, or return to live." : "Change the words above, or press the chosen count again."} />}
      <Grid agents={here} />
      <Away agents={found.filter(isAway)} opened={here.length < FEW / 2} />
      {found.length > 0 && <p class="legend fleet-legend faint"><span>The last beats of each, newest at the right:</span><BeatLegend /></p>}
    </>
  );
}

export const page: Page = {
  path: "fleet", title: "Fleet", key: "f", view: Fleet,
  icon: "M4 5h6.5v6H4zM13.5 5H20v6h-6.5zM4 13.5h6.5v6H4zM13.5 13.5H20v6h-6.5z",
};
