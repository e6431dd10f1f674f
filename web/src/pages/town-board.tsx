import { setParams, useParam } from "../router";
import type { TaskState, TownAnswer, TownColumn, TownTask } from "../api/types";
import { Ago } from "../ui/ago";
import { useHeldFocus } from "../ui/focus";
import { Name } from "../ui/name";
import { count, counted } from "../ui/times";
import { Words } from "../ui/words";
import { openTask } from "./town-drawers";
import { AddTask } from "./town-start";
import { PRIORITY_SIGNS, TASK_SIGNS, sinceOf } from "./town-model";

const USUAL: readonly TaskState[] = ["pending", "assigned", "running", "completed"];

function Card({ task, mission }: { task: TownTask; mission: boolean }) {
  const sign = PRIORITY_SIGNS[task.priority];
  return (
    <li>
      <button type="button" class={`town-card ${task.state}`} onClick={() => openTask(task.id)}>
        <span class="town-card-what">
          {sign && <span class={`town-priority ${task.priority}`} title={`${task.priority} priority`}>{sign}<span class="said-only"> {task.priority}</span></span>}
          <Words text={task.title || task.id} />
        </span>
        {task.error && (task.state === "failed" || task.state === "pending") && <span class="town-card-error"><Words text={task.error} /></span>}
        <span class="town-card-foot">
          {task.agent && task.state !== "pending" && <span class="town-card-who"><Name text={task.shown || task.agent} /></span>}
          {task.purpose !== "work" && <span class="chip">{task.purpose}</span>}
          {task.is_dead_letter && <span class="chip">put aside</span>}
          {task.waits_for > 0 && <span>waits for {task.waits_for}</span>}
          {task.attempt > 1 && <span class="num">try {task.attempt} of {task.tries}</span>}
          {mission && task.mission && <span class="town-card-mission"><Words text={task.mission} /></span>}
          <Ago at={sinceOf(task)} />
        </span>
      </button>
    </li>
  );
}

function Column({ column, mission, more }: { column: TownColumn; mission: boolean; more: () => void }) {
  const left = column.total - column.tasks.length;
  return (
    <li class={`town-column ${column.total === 0 ? "none" : ""}`}>
      <h3 class={`town-mark ${column.state}`}><span class="town-sign" aria-hidden="true">{TASK_SIGNS[column.state]}</span>{column.state} <span class="faint num">{count(column.total)}</span></h3>
      <ol>{column.tasks.map((task) => <Card key={task.id} task={task} mission={mission} />)}</ol>
      {left > 0 && (column.tasks.length < 500
        ? <button type="button" class="button small" onClick={more}>{count(left)} more…</button>
        : <p class="faint num">{count(left)} more are not shown: <code>lore town task</code></p>)}
    </li>
  );
}

/** Every task that is open, and the newest that have ended, by state. */
export function Board({ town, mission }: { town: TownAnswer; mission: boolean }) {
  const [, show] = useParam("more");
  useHeldFocus();
  const columns = town.board.filter((column) => column.total > 0 || USUAL.includes(column.state));
  return (
    <section class="town-part" aria-label="Board">
      <h2>Board{mission && <><span class="faint">of this mission</span><button type="button" class="button small" onClick={() => setParams({ mission: null, more: null }, "push")}>All tasks</button></>}{!mission && <AddTask agents={town.agents} />}</h2>
      <div class="town-board-scroll" tabIndex={0} role="region" aria-label="Columns of the board">
        <ol class="town-board" style={{ "--columns": columns.map((column) => (column.total > 0 ? "minmax(13.5rem, 1fr)" : "9.5rem")).join(" ") }}>{columns.map((column) => <Column key={column.state} column={column} mission={!mission} more={() => show(column.state)} />)}</ol>
      </div>
      {town.let_go > 0 && <p class="faint num">{counted(town.let_go, "older task")} only in the log</p>}
      {town.refused > 0 && <p class="faint num" title="Ignored: outdated, impossible, or an approval by the author. The events stay in the log">{counted(town.refused, "fact")} not believed</p>}
    </section>
  );
}
