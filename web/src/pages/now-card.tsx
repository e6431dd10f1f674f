import { Component } from "preact";

import type { AgentCard, Outcome, SessionAnswer, Standing } from "../api/types";
import { nameOf, openWork, StandingMark } from "../ui/agent";
import { useView } from "../moment";
import { go, href } from "../router";
import { Ago } from "../ui/ago";
import { Copy } from "../ui/copy";
import { plain } from "../ui/hostile";
import { Name } from "../ui/name";
import { unmarked } from "../ui/markdown";
import { RichText } from "../ui/rich-text";
import { follow, SessionLink } from "../ui/session-link";
import { Sparkline } from "../ui/sparkline";
import { Chip } from "../ui/state";
import { compact, count, counted, usd } from "../ui/times";
import { Words } from "../ui/words";
import { heldSince, type Member } from "./now-order";
import { isGood, trouble, wordOf, WorstFact, worstOf } from "./session-status";

const SCOPES = ["task", "mission", "goal"] as const;
const MOST_HELPERS = 3;
/** What a town writes when only the state changed; the mark beside the name shows it. */
const STATE_CHANGE = /^\w+ → \w+$/;
/** How an agent is shown: one at work that does not get on is stuck, and counted with the silent ones. */
export function shownStanding(agent: AgentCard, outcome: Outcome | undefined): Standing {
  return agent.standing === "working" && trouble(outcome) !== "" ? "silent" : agent.standing;
}

/** What an agent does, without what `trouble` says beside it. */
export function doingOf(agent: AgentCard, outcome: Outcome | undefined): string {
  return unmarked(trouble(outcome) ? agent.doing.replace(/^in a loop: /, "") : agent.doing);
}

/** How much of the model's context window the newest request used. */
export function ContextUse({ outcome }: { outcome: Outcome | undefined }) {
  if (!outcome?.context_tokens) return <span class="faint">–</span>;
  const share = outcome.context_window ? outcome.context_tokens / outcome.context_window : null;
  return <span class={share !== null && share > 0.8 ? "context full" : "context"} title={`${count(outcome.context_tokens)} tokens${outcome.context_window ? ` of ${count(outcome.context_window)}` : ""}`}>{share === null ? `${compact(outcome.context_tokens)} tokens` : `${Math.round(share * 100)} %`}</span>;
}

function Work({ agent, outcome }: { agent: AgentCard; outcome: Outcome | undefined }) {
  const scopes = SCOPES.filter((scope) => agent[scope]);
  const stuck = trouble(outcome);
  const where = [outcome?.repo, outcome?.branch].filter(Boolean).join(" @ ");
  const worst = outcome && agent.status !== null && worstOf(outcome);
  const name = outcome && unmarked(outcome.name);
  // An agent with a name of its own shows it; the name of its session stands below, unless it only repeats that.
  const title = name && !name.startsWith(unmarked(nameOf(agent, outcome))) && name !== doingOf(agent, outcome) ? name : "";
  return (
    <>
      <p class="card-doing">{stuck && <strong class="now-trouble">{stuck} </strong>}{agent.doing && !STATE_CHANGE.test(agent.doing) ? <Words text={doingOf(agent, outcome)} /> : <span class="faint">–</span>}</p>
      {(scopes.length > 0 || where || title || worst) && (
        <p class="card-chips">
          {worst && <WorstFact outcome={outcome} />}
          {where && <Chip label="repo"><Words text={where} /></Chip>}
          {scopes.map((scope) => <Chip key={scope} label={scope}><Words text={scope === "goal" ? agent.goal?.slice(0, 8) : agent[scope]} /></Chip>)}
          {title && <Chip label="session"><Words text={title} /></Chip>}
        </p>
      )}
    </>
  );
}

/** How to answer an agent that waits, where this page cannot. */
function HowToAnswer({ agent }: { agent: AgentCard }) {
  return agent.goal === null && agent.session !== null ? <AnswerSession session={agent.session} /> : <p class="card-answer">Answer it {agent.goal === null ? "where it runs" : "on the page of its goal"}.</p>;
}

/** How to stop an agent that does not get on. */
function HowToStop({ agent }: { agent: AgentCard }) {
  if (agent.goal !== null) {
    const goal = `goals/${encodeURIComponent(agent.goal)}`;
    return <p class="card-answer"><span><a href={href(goal)} onClick={(click) => follow(click, () => go(goal))}>Open its goal</a> to pause it, or to tell it what to do.</span></p>;
  }
  return agent.session === null ? null : <StopSession session={agent.session} />;
}

function StopSession({ session }: { session: string }) {
  const { stop } = useView<SessionAnswer>(`/api/sessions/${encodeURIComponent(session)}`).data ?? {};
  return (
    <div class="card-answer">
      <p><SessionLink session={session}>Open the session</SessionLink> to see what fails. Stop it in its own window{stop ? ", or with:" : "."}</p>
      {stop && <p class="command"><code>{stop}</code><Copy text={stop} label="Copy" /></p>}
    </div>
  );
}

function AnswerSession({ session }: { session: string }) {
  const { resume, question_text: whole } = useView<SessionAnswer>(`/api/sessions/${encodeURIComponent(session)}`).data ?? {};
  return (
    <div class="card-answer">
      {whole && <RichText text={whole} />}
      <p>Answer it in its own window.{resume && " If that is closed, continue it with:"}</p>
      {resume && <p class="command"><code><Words text={resume} /></code><Copy text={resume} label="Copy" /></p>}
    </div>
  );
}

function Helpers({ helpers }: { helpers: readonly AgentCard[] }) {
  if (helpers.length === 0) return null;
  return (
    <ul class="card-helpers" aria-label="Sub-agents">
      {helpers.slice(0, MOST_HELPERS).map((helper) => (
        <li key={helper.name}><StandingMark standing={helper.standing} /> <button type="button" class="agent-name" onClick={() => openWork(helper.name)}><Name text={helper.shown} /></button></li>
      ))}
      {helpers.length > MOST_HELPERS && <li class="faint">and {helpers.length - MOST_HELPERS} more sub-agents</li>}
    </ul>
  );
}

/** What an agent and its sub-agents cost; null if no price is known. */
export function costOf({ agent, helpers }: Member): number | null {
  const known = [agent, ...helpers].flatMap((one) => one.usd ?? []);
  return known.length === 0 ? null : known.reduce((sum, one) => sum + one, 0);
}

/** What the cost of an agent consists of. */
export function costTitle({ agent, helpers }: Member): string {
  const tokens = [agent, ...helpers].reduce((sum, one) => sum + one.tokens, 0);
  return `${count(tokens)} tokens${helpers.length > 0 ? `, with ${counted(helpers.length, "sub-agent")}` : ""}`;
}

function Figures({ agent, helpers, outcome }: Props) {
  return (
    <dl class="card-figures num">
      <div><dt>last event</dt><dd><Ago at={agent.last_seen} suffix /></dd></div>
      {outcome?.context_tokens ? <div><dt>context used</dt><dd><ContextUse outcome={outcome} /></dd></div> : agent.tokens > 0 ? <div><dt>tokens</dt><dd title={count(agent.tokens)}>{compact(agent.tokens)}</dd></div> : <div><dt>events</dt><dd>{compact(agent.events)}</dd></div>}
      <div><dt>cost</dt><dd title={costTitle({ agent, helpers })}>{usd(costOf({ agent, helpers }))}</dd></div>
    </dl>
  );
}

/** Whether a card says the same. Beats only ever come with another event. */
function isSame(a: AgentCard, b: AgentCard): boolean {
  return (Object.keys(a) as (keyof AgentCard)[]).every((field) => field === "beats" || a[field] === b[field]) && a.beats.at(-1)?.[0] === b.beats.at(-1)?.[0];
}

interface Props extends Member {
  outcome: Outcome | undefined;
}

/** One agent with its sub-agents. It is drawn anew only when something about it has changed: there may be hundreds. */
export class Card extends Component<Props> {
  override shouldComponentUpdate(next: Props): boolean {
    const { agent, helpers, outcome } = this.props;
    return !isSame(next.agent, agent) || helpers.length !== next.helpers.length || helpers.some((helper, index) => !isSame(helper, next.helpers[index] as AgentCard))
      || outcome?.name !== next.outcome?.name || outcome?.context_tokens !== next.outcome?.context_tokens || trouble(outcome) !== trouble(next.outcome) || (outcome && worstOf(outcome)?.[1]) !== (next.outcome && worstOf(next.outcome)?.[1]);
  }

  override render() {
    const { agent, helpers, outcome } = this.props;
    const standing = shownStanding(agent, outcome);
    const open = (click: MouseEvent): void => {
      if (!(click.target as HTMLElement).closest("button, a")) openWork(agent.name);
    };
    return (
      <article class={`card ${agent.at_rest ? "ended" : agent.standing.replace(" ", "-")}`} data-agent={agent.name} onClick={open}>
        <header>
          <h3><button type="button" class="agent-name" onClick={() => openWork(agent.name)} title={plain(agent.name)}><Words text={unmarked(nameOf(agent, outcome))} /></button></h3>
          <p class="card-standing">
            <StandingMark standing={standing} word={wordOf(agent, outcome)} good={agent.session !== null && outcome !== undefined && isGood(outcome)} inactive={agent.at_rest} beat={agent.standing === "working" ? agent.last_id : null} />
            <span class="card-since faint" title="In this state for"><Ago at={heldSince(agent)} /></span>
          </p>
        </header>
        <Work agent={agent} outcome={outcome} />
        {agent.standing === "needs you" && <HowToAnswer agent={agent} />}
        {standing === "silent" && trouble(outcome) !== "" && <HowToStop agent={agent} />}
        <Helpers helpers={helpers} />
        <Sparkline beats={agent.beats} />
        <Figures agent={agent} helpers={helpers} outcome={outcome} />
      </article>
    );
  }
}
