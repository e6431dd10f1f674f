import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { asOf, useView } from "../moment";
import { go, href } from "../router";
import type { AgentPage, TaskPage, TownAnswer, TownItem, TownMessage, TownTask } from "../api/types";
import { openAgent } from "../ui/agent-drawer";
import { Ago } from "../ui/ago";
import { closeDrawer, openDrawer } from "../ui/drawer";
import { plain } from "../ui/hostile";
import { Name } from "../ui/name";
import { Trouble, Waiting } from "../ui/state";
import { counted } from "../ui/times";
import { Words } from "../ui/words";
import { AGENT_SIGNS, PRIORITY_SIGNS, STAND_SIGNS, STAND_WORDS, TASK_SIGNS, called, standOf } from "./town-model";
import { AskBack, HowToSteer, Line, Refused, maySteer, mayWrite, useAsk } from "./town-steer";

/** Opens all of a task. */
export function openTask(task: string): void {
  openDrawer("A task", () => <One ask={{ task }} pick={(answer) => answer.task} draw={(found, answer) => <Task task={found} town={answer} />} />);
}

/** Opens all of an agent of the town. */
export function openTownAgent(agent: string): void {
  openDrawer("An agent", () => <One ask={{ agent }} pick={(answer) => answer.agent} draw={(found) => <Agent agent={found} />} />);
}

/** Opens all of an item of a mission. */
export function openItem(mission: string, id: string): void {
  openDrawer("An item of a mission", () => <One ask={{ mission }} pick={(answer) => answer.mission?.work.find((one) => one.id === id) ?? null} draw={(found) => <Item item={found} mission={mission} />} />);
}

/** One thing of the town as it is at the moment that is shown. */
function One<T>({ ask, pick, draw }: { ask: Record<string, string>; pick: (answer: TownAnswer) => T | null; draw: (found: T, answer: TownAnswer) => ComponentChildren }) {
  const { data, error, stale } = useView<TownAnswer>("/api/town", ask);
  const found = data && !stale ? pick(data) : null;
  if (data && found !== null) return <div class="town-one">{error && <Trouble error={error} />}{draw(found, data)}</div>;
  if (error) return <Trouble error={error} />;
  return stale ? <Waiting lines={6} /> : <p class="faint">{asOf.value === null ? "It is not on the board any more: only the log has it." : "It did not exist yet at this time."}</p>;
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}

function EventsLink({ scope }: { scope: string }) {
  return (
    <a class="button small" href={href("events", { scope })} onClick={(click) => {
      if (click.metaKey || click.ctrlKey || click.shiftKey) return;
      click.preventDefault();
      closeDrawer();
      go("events", { scope });
    }}>All its events</a>
  );
}

function Text({ name, text }: { name: string; text: string }) {
  return text ? <section><h3>{name}</h3><p class="town-text"><Words text={text} /></p></section> : null;
}

function Names({ of }: { of: readonly string[] }) {
  return <>{of.map((one, index) => <span key={one}>{index > 0 && ", "}<Words text={one} /></span>)}</>;
}

function TaskLink({ id, children }: { id: string; children?: ComponentChildren }) {
  return <button type="button" class="town-link" onClick={() => openTask(id)}>{children ?? <Words text={id} />}</button>;
}

function AgentLink({ name, shown }: { name: string; shown?: string }) {
  return <button type="button" class="town-link" onClick={() => openTownAgent(name)}><Name text={shown || name} /></button>;
}

function TaskMark({ task }: { task: TownTask }) {
  return <span class={`town-mark ${task.state}`}><span class="town-sign" aria-hidden="true">{TASK_SIGNS[task.state]}</span>{task.is_dead_letter ? "put aside" : task.state}</span>;
}

// --- a task

function TaskFacts({ task }: { task: TaskPage }) {
  return (
    <dl class="town-facts">
      {task.agent && <Fact name={task.state === "pending" ? "last with" : "with"}><AgentLink name={task.agent} shown={task.shown} /></Fact>}
      {task.wanted && <Fact name="meant for"><AgentLink name={task.wanted} /></Fact>}
      <Fact name="priority">{PRIORITY_SIGNS[task.priority] ?? ""} {task.priority}</Fact>
      {task.attempt > 0 && <Fact name="tries">{task.attempt} of {task.tries}</Fact>}
      {task.roles.length > 0 && <Fact name="for"><Names of={task.roles} /></Fact>}
      {task.not_by.length > 0 && <Fact name="not by"><Names of={task.not_by} /></Fact>}
      {task.checks.length > 0 && <Fact name="checks"><Names of={task.checks} /></Fact>}
      {task.tags.length > 0 && <Fact name="tags"><Names of={task.tags} /></Fact>}
      {task.mission && <Fact name="mission"><Words text={task.mission} />{task.item && <> · <Words text={task.item} /></>}</Fact>}
      {task.of && <Fact name={task.purpose === "review" ? "reviews" : "mends"}><TaskLink id={task.of} /></Fact>}
      {task.depends_on.length > 0 && <Fact name="after">{task.depends_on.map((one) => <span key={one} class="town-after"><TaskLink id={one} />{task.missing.includes(one) ? " (not done)" : " ✓"}</span>)}</Fact>}
      <Fact name="written down"><Words text={task.by || "somebody"} />, <Ago at={task.at} /></Fact>
      {task.run_by && <Fact name="run by"><Words text={task.run_by} /></Fact>}
      {task.refused > 0 && <Fact name="not believed">{counted(task.refused, "fact")} told of it</Fact>}
    </dl>
  );
}

function Redirect({ task, town, busy, act }: { task: TaskPage; town: TownAnswer; busy: boolean; act: (agent: string) => Promise<unknown> }) {
  const others = town.agents.filter((agent) => agent.name !== task.agent && !task.not_by.includes(agent.name) && !["stopped", "error", "draining"].includes(agent.state));
  const [to, choose] = useState("");
  if (others.length === 0) return null;
  return (
    <form class="steer-raise" onSubmit={(sent) => {
      sent.preventDefault();
      if (to && !busy) void act(to).then((done) => done !== null && choose(""));
    }}>
      <label>Give it to <select class="field" aria-label="Recipient" value={to} onChange={(change) => choose(change.currentTarget.value)}>
        <option value="">…</option>
        {others.map((agent) => <option key={agent.name} value={agent.name}>{plain(agent.shown || agent.name)}, {agent.state}</option>)}
      </select></label>
      <button type="submit" class="button" disabled={busy || !to}>Give it</button>
    </form>
  );
}

function TaskSteer({ task, town }: { task: TaskPage; town: TownAnswer }) {
  const asking = useAsk();
  if (task.can.length === 0) return null;
  if (!maySteer()) return <HowToSteer />;
  const wish = (action: string, more: Record<string, string> = {}) => asking.ask("tasks", { task: task.id, action, ...more });
  return (
    <section class="town-steer" aria-label="Steer">
      <div class="steer-buttons">
        {task.can.includes("retry") && <button type="button" class="button primary" disabled={asking.busy} onClick={() => void wish("retry")}>Try again</button>}
        {task.can.includes("cancel") && <AskBack word="Cancel goal" label="Cancel this goal?" question="The agent that works on it stops." busy={asking.busy} act={(reason) => wish("cancel", reason ? { reason } : {})} />}
      </div>
      {task.can.includes("assign") && <Redirect task={task} town={town} busy={asking.busy} act={(agent) => wish("assign", { agent })} />}
      <Refused asking={asking} />
    </section>
  );
}

function Task({ task, town }: { task: TaskPage; town: TownAnswer }) {
  return (
    <>
      <p class="row"><TaskMark task={task} />{task.purpose !== "work" && <span class="chip">{task.purpose}</span>}<code class="faint"><Words text={task.id} /></code></p>
      <h2 class="town-title"><Words text={task.title || task.id} /></h2>
      <TaskFacts task={task} />
      <Text name="What is to be done" text={task.description} />
      <Text name={task.state === "failed" ? "Why it failed" : "What went wrong last"} text={task.error} />
      <Text name="What came of it" text={task.result} />
      <TaskSteer task={task} town={town} />
      <p class="row"><EventsLink scope={`task:${task.id}`} /></p>
    </>
  );
}

// --- an agent

const WORDS: Record<string, string> = { interrupt: "Interrupt", resume: "Resume", drain: "Drain", kill: "Kill", restart: "Restart" };
const HINTS: Record<string, string> = {
  interrupt: "Stops the turn that runs, and keeps its session",
  resume: "Continues where it was interrupted",
  drain: "Finishes its task, takes no other, and stops",
  restart: "Starts anew, with a fresh session",
};

function AgentSteer({ agent }: { agent: AgentPage }) {
  const asking = useAsk();
  const wish = (action: string, more: Record<string, string> = {}) => asking.ask("agents", { agent: agent.name, action, ...more });
  const plainly = agent.can.filter((action) => action !== "kill");
  return (
    <section class="town-steer" aria-label="Steer">
      {maySteer() ? (
        <div class="steer-buttons">
          {plainly.map((action) => <button key={action} type="button" class={action === "resume" ? "button primary" : "button"} title={HINTS[action]} disabled={asking.busy} onClick={() => void wish(action)}>{WORDS[action] ?? action}</button>)}
          {agent.can.includes("kill") && <AskBack word="Kill" label="Kill it?" question="Its programs are ended at once; its task goes to another." busy={asking.busy} act={(reason) => wish("kill", reason ? { reason } : {})} />}
        </div>
      ) : <HowToSteer />}
      {mayWrite() && <Line label="Tell it something" hint="Message…" word="Send" busy={asking.busy} send={(body) => asking.ask("messages", { to: agent.name, body })} />}
      <Refused asking={asking} />
    </section>
  );
}

function Agent({ agent }: { agent: AgentPage }) {
  return (
    <>
      <p class="row"><span class={`town-mark agent-${agent.state}`}><span class="town-sign" aria-hidden="true">{AGENT_SIGNS[agent.state]}</span>{agent.state}</span>{agent.wish && <span class="chip">asked to {agent.wish}</span>}</p>
      <h2 class="town-title"><Name text={agent.shown || agent.name} /></h2>
      {agent.reason && <p class="town-why"><Words text={agent.reason} /></p>}
      <dl class="town-facts">
        {agent.task && <Fact name="works on"><TaskLink id={agent.task}><Words text={agent.doing || agent.task} /></TaskLink></Fact>}
        <Fact name="roles">{agent.roles.length > 0 ? <Names of={agent.roles} /> : "anything"}</Fact>
        {agent.harness && <Fact name="harness"><Words text={agent.harness} /></Fact>}
        {agent.parent && <Fact name="spawned by"><AgentLink name={agent.parent} /></Fact>}
        <Fact name="done">{agent.completed}{agent.failed > 0 && `, ${agent.failed} failed`}</Fact>
        <Fact name="run by">{agent.run_by ? <Words text={agent.run_by} /> : "nobody"}</Fact>
        <Fact name="last sign"><Ago at={agent.seen_at} /></Fact>
      </dl>
      <AgentSteer agent={agent} />
      {agent.messages.length > 0 && <section><h3>Waits for it</h3><Messages messages={agent.messages} /></section>}
      {agent.tasks.length > 0 && (
        <section>
          <h3>Its tasks</h3>
          <ul class="town-tasks">{agent.tasks.map((task) => <li key={task.id}><TaskMark task={task} /> <TaskLink id={task.id}><Words text={task.title || task.id} /></TaskLink></li>)}</ul>
        </section>
      )}
      <p class="row"><button type="button" class="button small" onClick={() => openAgent(agent.name)}>Newest events</button><EventsLink scope={`agent:${agent.name}`} /></p>
    </>
  );
}

/** Messages that wait, the most urgent first. */
export function Messages({ messages, answer }: { messages: readonly TownMessage[]; answer?: (message: TownMessage) => ComponentChildren }) {
  return (
    <ol class="town-messages">
      {messages.map((message) => (
        <li key={message.id} class={message.priority}>
          <p class="town-message-head">
            <strong><Name text={message.shown || message.sender} /></strong>
            <span class="faint">{called(message.type)}</span>
            {message.priority !== "normal" && <span class="town-priority">{PRIORITY_SIGNS[message.priority] ?? ""} {message.priority}</span>}
            {message.task && <TaskLink id={message.task} />}
            <Ago at={message.at} />
          </p>
          <p class="town-text"><Words text={message.body} /></p>
          {answer?.(message)}
        </li>
      ))}
    </ol>
  );
}

// --- an item

function Judge({ item, mission }: { item: TownItem; mission: string }) {
  const asking = useAsk();
  if (!item.awaits_verdict) return null;
  if (!maySteer()) return <HowToSteer />;
  const judge = (verdict: string, reason = "") => asking.ask("reviews", { mission, item: item.id, verdict, ...(reason ? { reason } : {}) });
  return (
    <section class="town-steer" aria-label="Review">
      <p>This task waits for a review. You can review it yourself.</p>
      <div class="steer-buttons">
        <button type="button" class="button" disabled={asking.busy} onClick={() => void judge("approve")}>Approve</button>
        <AskBack word="Send back" label="Send it back?" question="What is to be changed?" busy={asking.busy} act={(reason) => judge("reject", reason)} />
      </div>
      <Refused asking={asking} />
    </section>
  );
}

function Item({ item, mission }: { item: TownItem; mission: string }) {
  const stand = standOf(item);
  return (
    <>
      <p class="row"><span class={`town-mark stand-${stand}`}><span class="town-sign" aria-hidden="true">{STAND_SIGNS[stand]}</span>{STAND_WORDS[stand]}</span><span class="chip">{called(item.type)}</span><code class="faint"><Words text={item.id} /></code></p>
      <h2 class="town-title"><Words text={item.title || item.id} /></h2>
      {item.reason && <p class="town-why"><Words text={item.reason} /></p>}
      <dl class="town-facts">
        {item.task && <Fact name="task"><TaskLink id={item.task} /></Fact>}
        {item.review && <Fact name="review"><TaskLink id={item.review} />{item.verdict && ` ${item.verdict}`}</Fact>}
        {item.approved_by && <Fact name="approved by"><AgentLink name={item.approved_by} /></Fact>}
        {item.round > 0 && <Fact name="changes asked for">{counted(item.round, "time")}</Fact>}
        {item.agent && <Fact name="with"><AgentLink name={item.agent} shown={item.shown} /></Fact>}
        {item.roles.length > 0 && <Fact name="for"><Names of={item.roles} /></Fact>}
        {item.checks.length > 0 && <Fact name="checks"><Names of={item.checks} /></Fact>}
        {item.depends_on.length > 0 && <Fact name="after">{item.depends_on.map((one) => (
          <span key={one} class="town-after"><button type="button" class="town-link" onClick={() => openItem(mission, one)}><Words text={one} /></button>{item.waits_for.includes(one) ? " (not done)" : " ✓"}</span>
        ))}</Fact>}
        {item.artifacts.length > 0 && <Fact name="made"><Names of={item.artifacts} /></Fact>}
        {item.source && <Fact name="told in"><Words text={item.source} /></Fact>}
        {item.done_at && <Fact name="done"><Ago at={item.done_at} /></Fact>}
      </dl>
      <Text name="What is to be done" text={item.description} />
      <Judge item={item} mission={mission} />
      <p class="row"><EventsLink scope={`mission:${mission}`} /></p>
    </>
  );
}
