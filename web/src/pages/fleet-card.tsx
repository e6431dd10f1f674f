import { Component } from "preact";

import type { AgentCard } from "../shapes";
import { AgentName, StandingMark } from "../ui/agent";
import { openAgent } from "../ui/agent-drawer";
import { Ago } from "../ui/ago";
import { unmarked } from "../ui/markdown";
import { Sparkline } from "../ui/sparkline";
import { Chip } from "../ui/state";
import { compact, count, usd } from "../ui/times";
import { Words } from "../ui/words";
import { heldSince } from "./fleet-order";

const SCOPES = ["task", "mission", "goal"] as const;

function Work({ agent }: { agent: AgentCard }) {
  const scopes = SCOPES.filter((scope) => agent[scope]);
  return (
    <>
      <p class="card-doing">{agent.doing ? <Words text={unmarked(agent.doing)} /> : <span class="faint">nothing said yet</span>}</p>
      {scopes.length > 0 && (
        <p class="card-chips">{scopes.map((scope) => <Chip key={scope} label={scope}><Words text={scope === "goal" ? agent.goal?.slice(0, 8) : agent[scope]} /></Chip>)}</p>
      )}
    </>
  );
}

function Figures({ agent }: { agent: AgentCard }) {
  return (
    <dl class="card-figures num">
      <div><dt>seen</dt><dd><Ago at={agent.last_seen} /></dd></div>
      <div><dt>events</dt><dd>{compact(agent.events)}</dd></div>
      <div><dt>tokens</dt><dd title={count(agent.tokens)}>{agent.tokens > 0 ? compact(agent.tokens) : "–"}</dd></div>
      <div><dt>cost</dt><dd>{usd(agent.usd)}</dd></div>
    </dl>
  );
}

/** Whether a card says the same. Beats only ever come with another event. */
function isSame(a: AgentCard, b: AgentCard): boolean {
  return (Object.keys(a) as (keyof AgentCard)[]).every((field) => field === "beats" || a[field] === b[field]) && a.beats.at(-1)?.[0] === b.beats.at(-1)?.[0];
}

/** One agent. It is drawn anew only when something about it has changed: a fleet has hundreds. */
export class Card extends Component<{ agent: AgentCard }> {
  override shouldComponentUpdate(next: { agent: AgentCard }): boolean {
    return !isSame(next.agent, this.props.agent);
  }

  override render() {
    const { agent } = this.props;
    const open = (click: MouseEvent): void => {
      if (!(click.target as HTMLElement).closest("button, a")) openAgent(agent.name);
    };
    return (
      <article class={`card ${agent.standing.replace(" ", "-")}`} data-agent={agent.name} onClick={open}>
        <header>
          <h2><AgentName name={agent.name} shown={agent.shown} /></h2>
          <p class="card-standing">
            <StandingMark standing={agent.standing} beat={agent.standing === "working" ? agent.last_id : null} />
            <span class="card-since faint"><Ago at={heldSince(agent)} /></span>
          </p>
        </header>
        <Work agent={agent} />
        <Sparkline beats={agent.beats} />
        <Figures agent={agent} />
      </article>
    );
  }
}
