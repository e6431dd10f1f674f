import { useState } from "preact/hooks";

import { post } from "../api";
import { now } from "../clock";
import type { Choice, GoalPage, GoalQuestion } from "../api/types";
import { Json } from "../ui/json";
import { Trouble } from "../ui/state";
import { length } from "../ui/times";
import { Words } from "../ui/words";
import { maySteer } from "./goals-right";

function Given({ input }: { input: unknown }) {
  if (typeof input !== "object" || input === null || Array.isArray(input)) return <Json value={input} />;
  return (
    <dl class="question-input">
      {Object.entries(input).map(([name, value]) => (
        <div key={name}>
          <dt><Words text={name} /></dt>
          <dd>{typeof value === "string" ? <pre tabIndex={0}><Words text={value} /></pre> : <Json value={value} />}</dd>
        </div>
      ))}
    </dl>
  );
}

function Left({ expires }: { expires: string | null }) {
  if (!expires) return null;
  const seconds = (Date.parse(expires) - now.value) / 1000;
  return <span class="num">{seconds > 0 ? `${length(seconds)} left, then it is denied` : "time is up"}</span>;
}

function Answer({ goal, question }: { goal: string; question: GoalQuestion }) {
  const [message, say] = useState("");
  const [busy, wait] = useState(false);
  const [error, fail] = useState<Error | null>(null);
  const answer = (choice: Choice): void => {
    wait(true);
    fail(null);
    post(`/api/goals/${encodeURIComponent(goal)}/decide`, { of: question.id, choice, ...(message.trim() ? { message: message.trim() } : {}) }).catch(fail).finally(() => wait(false));
  };
  return (
    <div class="answer">
      <input class="field" aria-label="Reason, for the agent" placeholder="Reason (for the agent)" maxLength={2000} autocomplete="off" value={message} onInput={(input) => say(input.currentTarget.value)} />
      <button type="button" class="button allow" disabled={busy} onClick={() => answer("allow")}>Allow</button>
      <button type="button" class="button deny" disabled={busy} onClick={() => answer("deny")}>Deny</button>
      {error && <Trouble error={error} />}
    </div>
  );
}

function Question({ goal, question }: { goal: string; question: GoalQuestion }) {
  return (
    <li class="question">
      <p class="question-head"><strong>May it use <code><Words text={question.tool} /></code>?</strong> <Left expires={question.expires} /></p>
      <Given input={question.input} />
      {question.hidden > 0 && <p class="question-hidden">This is not the whole text: the log shortens long texts and removes secrets.</p>}
      {question.answered
        ? <p class="question-answered">Answered: <strong>{question.answered}</strong>. The process that runs the goal has not read the answer yet.</p>
        : maySteer() && <Answer goal={goal} question={question} />}
    </li>
  );
}

/** What the agent waits to be allowed. */
export function Questions({ goal }: { goal: GoalPage }) {
  if (goal.questions.length === 0) return null;
  return (
    <section class="questions" aria-label="Waiting for you">
      <ul>{goal.questions.map((question) => <Question key={question.id} goal={goal.goal} question={question} />)}</ul>
    </section>
  );
}
