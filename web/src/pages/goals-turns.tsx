import { useState } from "preact/hooks";

import type { GoalDecision, GoalPage, GoalRequest, GoalTurn, GoalUnderWay } from "../api/types";
import { Ago } from "../ui/ago";
import { showEvents } from "../ui/events";
import { clock, compact, count, counted, length, usd } from "../ui/times";
import { Words } from "../ui/words";
import { outcomeOf, toneOf, verdictOf } from "./goals-model";

const SHOWN = 20;

function Figures({ tokens, dollars, children }: { tokens: number; dollars: number; children?: preact.ComponentChildren }) {
  return (
    <p class="turn-figures faint num">
      {children}
      {tokens > 0 && <span>{compact(tokens)} tokens</span>}
      {dollars > 0 && <span>{usd(dollars)}</span>}
    </p>
  );
}

function Now({ turn }: { turn: GoalUnderWay }) {
  return (
    <li class="goal-turn under-way">
      <p class="turn-head">
        <span class="turn-number num">{count(turn.turn)}</span>
        <strong class="tone-work">{turn.is_over ? "being checked" : turn.is_summary ? "writes a summary" : "under way"}</strong>
        <span class="faint">for <Ago at={turn.at} long /></span>
      </p>
      {turn.last_tool && <p class="turn-words">Last: <Words text={turn.last_tool} /></p>}
      <Figures tokens={turn.tokens} dollars={turn.usd}>{turn.calls > 0 && <span>{counted(turn.calls, "answer")} of the model</span>}</Figures>
    </li>
  );
}

function Turn({ turn, criteria }: { turn: GoalTurn; criteria: number }) {
  const verdict = verdictOf(turn, criteria);
  return (
    <li class={`goal-turn ${turn.counts ? "" : "uncounted"}`}>
      <p class="turn-head">
        <span class="turn-number num">{count(turn.number)}</span>
        <strong class={`tone-${toneOf(turn)}`}><Words text={outcomeOf(turn)} /></strong>
        {verdict && <span>{verdict}</span>}
        {!turn.counts && <span class="faint">not counted</span>}
        <button type="button" class="turn-when num" title="Source event" onClick={() => showEvents([turn.id], `Turn ${count(turn.number)}`)}>{turn.ended_at ? clock(turn.ended_at) : "event"}</button>
      </p>
      {turn.words && <p class="turn-words"><Words text={turn.words} /></p>}
      <Figures tokens={turn.tokens} dollars={turn.usd}>
        {turn.seconds >= 1 && <span>{length(turn.seconds)}</span>}
        {turn.diff && <span><Words text={turn.diff.trim().split("\n").at(-1)?.trim()} /></span>}
      </Figures>
    </li>
  );
}

/** The turns, the newest first. */
export function Turns({ goal }: { goal: GoalPage }) {
  const [all, showAll] = useState(false);
  const turns = goal.turns.toReversed();
  const more = turns.length - SHOWN;
  if (turns.length === 0 && !goal.under_way) return null;
  return (
    <section class="goal-part" aria-label="Turns">
      <h3>Turns</h3>
      <ol class="goal-turns">
        {goal.under_way && <Now turn={goal.under_way} />}
        {(all ? turns : turns.slice(0, SHOWN)).map((turn) => <Turn key={turn.id} turn={turn} criteria={goal.criteria} />)}
      </ol>
      {!all && more > 0 && <button type="button" class="button small" onClick={() => showAll(true)}>{counted(more, "earlier turn")}</button>}
    </section>
  );
}

function Decision({ one }: { one: GoalDecision }) {
  return (
    <li>
      <button type="button" class="decision" onClick={() => showEvents([one.id], "A decision")}>
        <strong class={one.choice === "deny" ? "tone-trouble" : "tone-done"}><Words text={one.choice} /></strong>
        <code><Words text={one.tool} /></code>
        <span class="decision-why"><Words text={one.why} /></span>
        <span class="faint num">turn {count(one.turn)}</span>
      </button>
    </li>
  );
}

/** What was decided about tools, the newest first. */
export function Decisions({ goal }: { goal: GoalPage }) {
  if (goal.decisions.length === 0) return null;
  return (
    <section class="goal-part" aria-label="Decisions">
      <h3>Decisions <span class="faint num">{count(goal.allowed)} allowed, {count(goal.denied)} denied</span></h3>
      <ul class="decisions">{goal.decisions.map((one) => <Decision key={one.id} one={one} />)}</ul>
    </section>
  );
}

function Request({ one }: { one: GoalRequest }) {
  return (
    <li>
      <button type="button" class="decision" onClick={() => showEvents([one.id], "A request")}>
        <strong><Words text={one.action || "?"} /></strong>
        <span class="decision-why"><Words text={one.text} /></span>
        {one.obeyed === false && <span class="not-obeyed">not signed, not obeyed</span>}
        <span class="faint"><Words text={one.by} />{one.at && <>, <Ago at={one.at} /></>}</span>
      </button>
    </li>
  );
}

/** What people asked of it, the newest first. */
export function Requests({ goal }: { goal: GoalPage }) {
  if (goal.requests.length === 0) return null;
  return (
    <section class="goal-part" aria-label="Requests">
      <h3>Requests {goal.unsigned > 0 && <span class="not-obeyed num">{counted(goal.unsigned, "request")} not signed, and not obeyed</span>}</h3>
      <ul class="decisions">{goal.requests.map((one) => <Request key={one.id} one={one} />)}</ul>
    </section>
  );
}
