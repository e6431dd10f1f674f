import { post } from "../api";
import type { Choice, GoalPage } from "../api/types";
import { mayApprove, Request } from "../ui/approval";

/** What the agent waits to be allowed. */
export function Questions({ goal }: { goal: GoalPage }) {
  if (goal.questions.length === 0) return null;
  return (
    <section class="questions" aria-label="Waiting for you">
      <ul>
        {goal.questions.map((question) => {
          const send = (choice: Choice, reason: string): Promise<unknown> => post(`/api/approvals/${encodeURIComponent(question.id)}`, { choice, ...(reason ? { reason } : {}) });
          return (
            <Request key={question.id} asked={question} then="it is denied" send={question.answered || !mayApprove() ? undefined : send}>
              {question.answered && <p class="question-answered">Answered: <strong>{question.answered}</strong>. The goal's driver has not read it yet.</p>}
            </Request>
          );
        })}
      </ul>
    </section>
  );
}
