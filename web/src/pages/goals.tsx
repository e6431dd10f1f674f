import { asOf, useView } from "../moment";
import { go, href, rest, useParam } from "../router";
import type { GoalRow, GoalsAnswer } from "../api/types";
import "../styles/goals.css";
import { Ago } from "../ui/ago";
import { Copy } from "../ui/copy";
import { Empty } from "../ui/empty";
import { Name } from "../ui/name";
import { Trouble, Waiting } from "../ui/state";
import { Switch } from "../ui/switch";
import { count, counted } from "../ui/times";
import { Words } from "../ui/words";
import { Goal, GoalMark, open, placeOf } from "./goals-goal";
import { headline, isOver, isOwn, needsYou, tightest, whyOf } from "./goals-model";
import { SealLine } from "./goals-right";
import type { Page } from "./page";

const FILE = `description = "Make the tests pass. Fix causes, not symptoms."
harness = "claude-code"

[budget]
max_turns = 10
max_usd = 3

[[acceptance]]
command = "make test"`;

function Teach() {
  return (
    <section class="goals-teach">
      <h2>No goals yet</h2>
      <p>A goal says what to reach, how to check it, and what it may cost. An agent works in turns until the checks pass, a budget is spent, or it needs you. The agent cannot change the checks.</p>
      <p>Write a goal file, run it, and watch it here:</p>
      <div class="teach-file"><pre tabIndex={0}>{FILE}</pre><Copy text={FILE} /></div>
      <p class="command"><code>lore goal run fix.toml</code><Copy text="lore goal run fix.toml" /></p>
    </section>
  );
}

function Row({ row, here }: { row: GoalRow; here: boolean }) {
  const most = tightest(row);
  return (
    <li>
      <a class={`goal-row ${needsYou(row.state) ? "needs" : ""} ${isOver(row) ? "over" : ""}`} href={href(placeOf(row.goal))} aria-current={here ? "true" : undefined} onClick={(click) => open(click, row.goal)}>
        <span class="goal-row-top"><GoalMark row={row} />{row.asking > 1 && <span class="badge num" aria-label={counted(row.asking, "question")}>{row.asking}</span>}<Ago at={row.seen_at} /></span>
        <span class="goal-row-what"><Words text={headline(row)} /></span>
        {needsYou(row.state) && whyOf(row) && <span class="goal-row-why"><Words text={whyOf(row)} /></span>}
        <span class="goal-row-foot faint num">
          {row.agent && <span class="goal-row-who"><Name text={row.shown || row.agent} /></span>}
          {row.task && <span>task <Name text={row.task} /></span>}
          {row.criteria > 0 && <span>{count(row.met)} of {count(row.criteria)} met</span>}
          <span>turn {count(row.turn)}</span>
          {row.adrift && <span>not running</span>}
          {most !== null && most.used >= 0.005 && !isOver(row) && <span>{most.label} {Math.round(most.used * 100)}%</span>}
        </span>
        {most !== null && !isOver(row) && <span class="row-bar" aria-hidden="true"><span style={{ width: `${most.used * 100}%` }} /></span>}
      </a>
    </li>
  );
}

const WHICH = [["all", "All"], ["open", "Open"], ["over", "Ended"]] as const;

function List({ answer, chosen }: { answer: GoalsAnswer; chosen: string | null }) {
  const [state, choose] = useParam("state", "all");
  const [tasks, show] = useParam("tasks", "");
  const own = answer.goals.filter((row) => isOwn(row) || row.goal === chosen);
  const ofTasks = answer.goals.length - own.length;
  const rows = tasks ? answer.goals : own;
  return (
    <div class="goal-list">
      <div class="tools">
        <Switch label="Which goals" value={state} choose={choose} options={WHICH} />
        <span class="faint num">{counted(own.length, "goal")}</span>
        {ofTasks > 0 && <button class="quiet-link num" type="button" onClick={() => show(tasks ? "" : "shown")}>{tasks ? "Hide" : "Show"} {counted(ofTasks, "goal")} of town tasks</button>}
      </div>
      {rows.length === 0 && <p class="faint goal-none">No {state === "over" ? "ended" : "open"} goals.</p>}
      <ol>{rows.map((row) => <Row key={row.goal} row={row} here={row.goal === chosen} />)}</ol>
      {answer.let_go > 0 && <p class="faint num">{counted(answer.let_go, "older goal")} not listed here; they are in the log</p>}
      {chosen === null && <SealLine answer={answer} />}
    </div>
  );
}

function Back() {
  return (
    <a class="goal-back" href={href("goals")} onClick={(click) => {
      if (click.metaKey || click.ctrlKey || click.shiftKey) return;
      click.preventDefault();
      go("goals");
    }}>All goals</a>
  );
}

function Goals() {
  const wanted = rest.value || null;
  const [state] = useParam("state", "all");
  const which = WHICH.some(([one]) => one === state) ? state : "all";
  const { data, error, stale } = useView<GoalsAnswer>("/api/goals", { goal: wanted, state: which });
  if (!data) return error ? <Trouble error={error} /> : <Waiting lines={8} />;
  if (data.total === 0 && !wanted) return asOf.value === null ? <Teach /> : <Empty title="There were no goals yet at this time" hint="Move the time slider forward, or return to live." />;
  const goal = wanted && data.goal?.goal.startsWith(wanted) ? data.goal : null;
  return (
    <div class={`goals ${wanted ? "has-goal" : ""}`}>
      {error && <Trouble error={error} />}
      {wanted && <Back />}
      <List answer={data} chosen={goal?.goal ?? null} />
      {goal && <Goal key={goal.goal} goal={goal} answer={data} />}
      {wanted && !goal && (stale ? <Waiting lines={8} /> : <Empty title="There is no such goal" hint={asOf.value === null ? "It is not in this log, or older than those listed here. Choose another one." : "It had not started at this time. Move the time slider forward, or return to live."} />)}
    </div>
  );
}

export const page: Page = {
  path: "goals", title: "Goals", key: "o", view: Goals,
  icon: "M6 21V4M6 4.5c4-2 8 2 12.5 0v9c-4.5 2-8.5-2-12.5 0",
};
