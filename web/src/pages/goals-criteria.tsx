import type { GoalCriterion, GoalPage } from "../api/types";
import { showEvents } from "../ui/events";
import { Words } from "../ui/words";

const KINDS: Record<string, string> = { shell_command: "command", file_matches: "file", custom: "verifier", llm_judge: "judged by a model" };

function Criterion({ one }: { one: GoalCriterion }) {
  const state = one.met === null ? "open" : one.met ? "met" : "failing";
  const text = one.kind === "llm_judge" ? <Words text={one.text} /> : <code><Words text={one.text} /></code>;
  return (
    <li class={`criterion ${state}`}>
      <span class="criterion-sign" role="img" aria-label={{ open: "not checked yet", met: "met", failing: "not met" }[state]}>{{ open: "○", met: "✓", failing: "✗" }[state]}</span>
      <div class="criterion-said">
        <p class="criterion-text">{text} <span class="faint">{KINDS[one.kind] ?? one.kind}</span></p>
        {one.message && <p class="criterion-message"><Words text={one.message} /></p>}
        {one.evidence && (
          <details>
            <summary>Evidence</summary>
            <pre class="evidence" tabIndex={0}><Words text={one.evidence} /></pre>
          </details>
        )}
      </div>
    </li>
  );
}

/** The criteria, ticked as they are met, each with what its last check showed. */
export function Criteria({ goal }: { goal: GoalPage }) {
  if (goal.criteria === 0) return null;
  const checked = goal.checked;
  return (
    <section class="goal-part" aria-label="Criteria">
      <h3>
        Criteria <span class="faint num">{goal.met} of {goal.criteria} met</span>
        {checked && <button type="button" class="quiet-link" onClick={() => showEvents([checked], "The newest verdict")}>the verdict</button>}
      </h3>
      <ol class="criteria">{goal.acceptance.map((one, index) => <Criterion key={index} one={one} />)}</ol>
    </section>
  );
}
