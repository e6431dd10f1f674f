import { now } from "../clock";
import { go, href } from "../router";
import type { BudgetUse, GoalPage, GoalRow, GoalsAnswer } from "../api/types";
import { AgentName } from "../ui/agent";
import { Ago } from "../ui/ago";
import { clock, count, day, length } from "../ui/times";
import { Words } from "../ui/words";
import { Questions } from "./goals-asking";
import { Burn } from "./goals-burn";
import { Criteria } from "./goals-criteria";
import { SIGNS, budgetsOf, codes, failuresOf, figure, headline, needsYou, partOf, whyOf } from "./goals-model";
import { SealLine } from "./goals-right";
import { Steer } from "./goals-steer";
import { Decisions, Requests, Turns } from "./goals-turns";

/** The address of a goal's page. */
export const placeOf = (goal: string): string => `goals/${encodeURIComponent(goal)}`;

/** Opens a goal where it is, unless a tab of its own is wanted. */
export function open(click: MouseEvent, goal: string): void {
  if (click.metaKey || click.ctrlKey || click.shiftKey || click.button !== 0) return;
  click.preventDefault();
  go(placeOf(goal));
}

export function GoalMark({ row }: { row: GoalRow }) {
  return (
    <span class={`goal-state ${needsYou(row.state) ? "needs" : row.state}`}>
      <span class="goal-sign" aria-hidden="true">{SIGNS[row.state]}</span>{row.state}
    </span>
  );
}

/** What was spent by now: the time of a goal that is driven goes on between two answers. */
function usedNow(goal: GoalPage, use: BudgetUse, answer: GoalsAnswer): BudgetUse {
  if (use.unit !== "seconds" || !goal.ticking || !answer.live) return use;
  return { ...use, used: use.used + Math.max(0, (now.value - Date.parse(answer.now)) / 1000) };
}

function Budget({ use }: { use: BudgetUse }) {
  const part = partOf(use);
  const colour = use.unit === "count" ? use.axis : use.unit;
  return (
    <div class="budget">
      <dt>{use.label[0]?.toUpperCase()}{use.label.slice(1)}</dt>
      <dd class="num"><strong>{figure(use.unit, use.used)}</strong>{use.limit !== null && <span class="faint"> of {figure(use.unit, use.limit)}</span>}</dd>
      {part !== null && <span class={`budget-bar ${part >= 1 ? "full" : ""}`} aria-hidden="true"><span class={`of-${colour}`} style={{ width: `${part * 100}%` }} /></span>}
    </div>
  );
}

function Budgets({ goal, answer }: { goal: GoalPage; answer: GoalsAnswer }) {
  const failures = failuresOf(goal);
  return (
    <>
      <dl class="budgets">{budgetsOf(goal).map((use) => <Budget key={use.axis} use={usedNow(goal, use, answer)} />)}</dl>
      {failures.length > 0 && <p class="faint num">{failures.map(({ used, limit, label }) => `${used}${limit ? ` of ${limit}` : ""} ${label} in a row`).join(", ")}</p>}
    </>
  );
}

/** Our own words, with commands in them. */
function Advice({ text }: { text: string }) {
  return <>{codes(text).map((part, index) => (index % 2 ? <code key={index}><Words text={part} /></code> : <Words key={index} text={part} />))}</>;
}

function Standing({ goal }: { goal: GoalPage }) {
  const why = whyOf(goal) || (goal.cancel === null ? "" : `to be called off: ${goal.cancel}`);
  if (!why && !goal.wake && !goal.next) return null;
  return (
    <div class={`goal-standing ${needsYou(goal.state) ? "needs" : ""}`}>
      {why && <p class="goal-why"><Words text={why} /></p>}
      {goal.wake && goal.state === "waiting" && <p>Waits until <span class="num">{clock(goal.wake)}</span>: <Words text={goal.waiting_for} /></p>}
      {goal.next && <p><Advice text={goal.next} /></p>}
    </div>
  );
}

function Family({ row, said }: { row: GoalRow; said: string }) {
  return (
    <li><span class="faint">{said}</span> <a href={href(placeOf(row.goal))} onClick={(click) => open(click, row.goal)}><Words text={headline(row)} /></a> <GoalMark row={row} /></li>
  );
}

function Relatives({ goal }: { goal: GoalPage }) {
  if (!goal.above && goal.below.length === 0) return null;
  return (
    <ul class="goal-family">
      {goal.above && <Family row={goal.above} said="part of" />}
      {goal.below.map((row) => <Family key={row.goal} row={row} said="with" />)}
    </ul>
  );
}

function Head({ goal }: { goal: GoalPage }) {
  const end = goal.ended_at ?? null;
  const more = goal.description.trim().slice(headline(goal).length).trim();
  return (
    <header class="goal-head">
      <p class="goal-line"><GoalMark row={goal} />{goal.signed === false && <span class="not-obeyed">not signed</span>}<code class="faint"><Words text={goal.goal.slice(0, 8)} /></code></p>
      <h2><Words text={headline(goal)} /></h2>
      {more && <p class="goal-more faint"><Words text={more} /></p>}
      <p class="goal-line faint">
        {goal.agent && <AgentName name={goal.agent} shown={goal.shown} />}
        {goal.harness && <span>{goal.harness}</span>}
        <span class="num">turn {count(goal.turn)}</span>
        {goal.at && <span class="num">began {day(goal.at)}, {clock(goal.at)}</span>}
        {end && goal.at ? <span class="num">ended after {length((Date.parse(end) - Date.parse(goal.at)) / 1000)}</span> : <span>last sign <Ago at={goal.seen_at} /></span>}
        {goal.driver && <span>driven by <Words text={goal.driver} /></span>}
        <a href={href("events", { scope: `goal:${goal.goal}` })} onClick={(click) => {
          if (click.metaKey || click.ctrlKey || click.shiftKey) return;
          click.preventDefault();
          go("events", { scope: `goal:${goal.goal}` });
        }}>its events</a>
      </p>
    </header>
  );
}

/** All of one goal. */
export function Goal({ goal, answer }: { goal: GoalPage; answer: GoalsAnswer }) {
  return (
    <article class="goal" aria-label="The goal">
      <Head goal={goal} />
      <Standing goal={goal} />
      <Questions goal={goal} />
      <Budgets goal={goal} answer={answer} />
      <Relatives goal={goal} />
      <Criteria goal={goal} />
      <Steer goal={goal} />
      <Burn goal={goal} />
      <Turns goal={goal} />
      <Decisions goal={goal} />
      <Requests goal={goal} />
      <SealLine answer={answer} />
    </article>
  );
}
