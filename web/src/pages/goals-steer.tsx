import { useState } from "preact/hooks";

import { post } from "../api";
import type { Action, BudgetUse, GoalPage } from "../api/types";
import { Trouble } from "../ui/state";
import { Words } from "../ui/words";
import { budgetsOf, figure, limitOf } from "./goals-model";
import { HowToSteer, maySteer } from "./goals-right";

type Ask = (action: Action, more?: { value?: unknown; reason?: string }) => Promise<boolean>;

function useAsk(goal: string): { ask: Ask; busy: boolean; error: Error | null } {
  const [busy, wait] = useState(false);
  const [error, fail] = useState<Error | null>(null);
  const ask: Ask = async (action, more = {}) => {
    wait(true);
    fail(null);
    try {
      await post(`/api/goals/${encodeURIComponent(goal)}/control`, { action, ...more });
      return true;
    } catch (refused) {
      fail(refused as Error);
      return false;
    } finally {
      wait(false);
    }
  };
  return { ask, busy, error };
}

function Cancel({ ask, busy }: { ask: Ask; busy: boolean }) {
  const [asked, askBack] = useState(false);
  const [reason, say] = useState("");
  if (!asked) return <button type="button" class="button" onClick={() => askBack(true)}>Cancel…</button>;
  const end = (): void => void ask("cancel", reason.trim() ? { reason: reason.trim() } : {}).then((done) => done && askBack(false));
  return (
    <div class="ask-back" role="group" aria-label="Cancel this goal?">
      <span>Cancel this goal? The turn stops; its changes stay.</span>
      <input class="field" aria-label="Why" placeholder="Why" maxLength={2000} autocomplete="off" value={reason} onInput={(input) => say(input.currentTarget.value)} />
      <button type="button" class="button deny" disabled={busy} onClick={end}>Cancel goal</button>
      <button type="button" class="button" onClick={() => askBack(false)}>No</button>
    </div>
  );
}

function Say({ ask, busy }: { ask: Ask; busy: boolean }) {
  const [text, set] = useState("");
  const submit = (sent: Event): void => {
    sent.preventDefault();
    if (text.trim() && !busy) void ask("say", { value: text.trim() }).then((done) => done && set(""));
  };
  return (
    <form class="steer-say" onSubmit={submit}>
      <input class="field" aria-label="Say something to the agent" placeholder="Message for its next turn…" maxLength={16_000} autocomplete="off" value={text} onInput={(input) => set(input.currentTarget.value)} />
      <button type="submit" class="button primary" disabled={busy || !text.trim()}>Say it</button>
    </form>
  );
}

const EXAMPLE: Record<BudgetUse["unit"], string> = { count: "60", seconds: "6h", tokens: "3M", usd: "10" };

function Raise({ goal, ask, busy }: { goal: GoalPage; ask: Ask; busy: boolean }) {
  const budgets = budgetsOf(goal).filter((one) => one.limit !== null);
  const [axis, choose] = useState(() => budgets.find((one) => one.axis === goal.why)?.axis ?? "turns");
  const [text, set] = useState("");
  const unit = budgets.find((one) => one.axis === axis)?.unit ?? "count";
  const limit = limitOf(unit, text);
  const submit = (sent: Event): void => {
    sent.preventDefault();
    if (limit !== null && !busy) void ask("raise", { value: { [axis]: limit } }).then((done) => done && set(""));
  };
  return (
    <form class="steer-raise" onSubmit={submit}>
      <label>Raise <select class="field" aria-label="Which budget" value={axis} onChange={(change) => choose(change.currentTarget.value)}>
        {budgets.map((one) => <option key={one.axis} value={one.axis}>{one.label}, now {figure(one.unit, one.limit ?? 0)}</option>)}
      </select></label>
      <label>to <input class="field num" aria-label="The new limit" placeholder={EXAMPLE[unit]} maxLength={20} autocomplete="off" value={text} onInput={(input) => set(input.currentTarget.value)} /></label>
      <button type="submit" class="button" disabled={busy || limit === null}>Raise it</button>
    </form>
  );
}

/** What was said to the agent, and has not been heard to the end. */
function Messages({ goal }: { goal: GoalPage }) {
  if (goal.messages.length === 0) return null;
  return (
    <ul class="goal-messages">
      {goal.messages.map((one) => (
        <li key={one.id}><span class="faint"><Words text={one.by} />, {one.is_told ? "told in this turn" : "for the next turn"}:</span> <Words text={one.text} /></li>
      ))}
    </ul>
  );
}

function Buttons({ goal }: { goal: GoalPage }) {
  const { ask, busy, error } = useAsk(goal.goal);
  const can = (action: Action): boolean => goal.can.includes(action);
  return (
    <>
      <div class="steer-buttons">
        {can("pause") && <button type="button" class="button" disabled={busy} onClick={() => void ask("pause")}>Pause</button>}
        {can("resume") && goal.outcome === null && <button type="button" class="button primary" disabled={busy} onClick={() => void ask("resume")}>Resume</button>}
        {can("cancel") && <Cancel ask={ask} busy={busy} />}
      </div>
      {can("say") && <Say ask={ask} busy={busy} />}
      {can("raise") && <Raise key={goal.why} goal={goal} ask={ask} busy={busy} />}
      {error && <Trouble error={error} />}
    </>
  );
}

/** Pause, resume, cancel, say, raise: for who may, as far as it makes sense. What has ended needs a process that drives it: the page says which command that is. */
export function Steer({ goal }: { goal: GoalPage }) {
  const steers = goal.can.length > 0;
  if (!steers && goal.messages.length === 0 && goal.questions.length === 0) return null;
  return (
    <section class="goal-part steer" aria-label="Steer">
      <h3>Steer</h3>
      <Messages goal={goal} />
      {steers && maySteer() ? <Buttons goal={goal} /> : <HowToSteer />}
    </section>
  );
}
