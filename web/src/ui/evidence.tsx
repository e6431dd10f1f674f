import { useState } from "preact/hooks";

import { useFixed } from "../fixed";
import { go, href } from "../router";
import type { EvidenceAnswer, EvidenceItem, FileDiff } from "../api/types";
import { AgentName } from "./agent";
import { Copy } from "./copy";
import { closeDrawer, openDrawer } from "./drawer";
import { showEvents } from "./events";
import { SessionLink } from "./session-link";
import { Trouble } from "./state";
import { clock, day, full } from "./times";
import { Words } from "./words";

/** What a line or sentence rests on. */
export interface Cited {
  text: string;
  events: readonly string[];
  sessions: readonly { session: string; title: string }[];
  tasks: readonly string[];
}

const MOST_EVENTS = 50;
const MOST_SESSIONS = 30;
/** Longer outputs are folded: the reader sees the beginning and opens the rest. */
const FOLDED_LINES = 24;
/** A long commit message must not push the output out of sight. */
const FOLDED_COMMAND_LINES = 8;

const STATES: Record<string, string> = { failed: "failed", denied: "denied", interrupted: "interrupted" };

function stateOf(item: EvidenceItem): string {
  if (item.state !== "ok" && STATES[item.state]) return item.exit_code ? `failed, exit code ${item.exit_code}` : (STATES[item.state] ?? "");
  if (item.exit_code !== null) return `exit code ${item.exit_code}`;
  return item.what !== "text" && item.state === "unknown" ? "no result recorded" : "";
}

function Long({ text, label, class: extra, folded = FOLDED_LINES }: { text: string; label: string; class: string; folded?: number }) {
  const lines = text.split("\n");
  const [isOpen, open] = useState(false);
  const isLong = lines.length > folded + 4;
  return (
    <>
      <pre class={extra} tabIndex={0} aria-label={label}><Words text={isLong && !isOpen ? lines.slice(0, folded).join("\n") : text} /></pre>
      {isLong && !isOpen && <button type="button" class="button small" onClick={() => open(true)}>Show all {lines.length} lines</button>}
    </>
  );
}

const DIFF_CLASSES: Record<string, string> = { "+": "added", "-": "removed", "@": "between" };

function Diff({ edit }: { edit: FileDiff }) {
  const lines = edit.diff.split("\n");
  const [isOpen, open] = useState(false);
  const shown = isOpen || lines.length <= FOLDED_LINES + 4 ? lines : lines.slice(0, FOLDED_LINES);
  return (
    <div class="cite-diff">
      <p class="cite-path"><code><Words text={edit.path} /></code>{edit.is_new && <span class="faint"> written whole</span>}</p>
      <pre tabIndex={0} aria-label="Diff">
        {shown.map((line, index) => <span key={index} class={`diff-line ${DIFF_CLASSES[line[0] ?? ""] ?? ""}`}><Words text={line === "@@" ? "⋯" : line || " "} />{"\n"}</span>)}
      </pre>
      {shown.length < lines.length && <button type="button" class="button small" onClick={() => open(true)}>Show all {lines.length} lines</button>}
      {edit.is_cut && <p class="faint">The diff is longer than what is shown.</p>}
    </div>
  );
}

const WHAT: Record<EvidenceItem["what"], string> = { command: "Command", edit: "Edit", read: "Read", search: "Search", other: "Tool call", text: "" };
const SPEAKERS: Record<string, string> = { "prompt.submitted": "Prompt", "model.replied": "Answer", "session.waiting": "Waiting", "session.turn_ended": "End of turn", "agent.returned": "Helper's answer" };

function Item({ item, withAgent }: { item: EvidenceItem; withAgent: boolean }) {
  const state = stateOf(item);
  const isBad = item.state === "failed" || item.state === "denied";
  return (
    <li class="cite-item">
      <p class="cite-head">
        <strong>{WHAT[item.what] || SPEAKERS[item.kind] || item.kind}</strong>
        {item.at && <time class="num faint" dateTime={item.at} title={full(item.at)}>{day(item.at)}, {clock(item.at)}</time>}
        {withAgent && item.agent && <AgentName name={item.agent} />}
        {state && <span class={isBad ? "cite-state bad" : "cite-state"}>{state}</span>}
      </p>
      {item.description && <p class="faint"><Words text={item.description} /></p>}
      {item.command && <Long class="cite-command" label="Command" text={item.command} folded={FOLDED_COMMAND_LINES} />}
      {item.edits.map((edit, index) => <Diff key={index} edit={edit} />)}
      {!item.command && item.edits.length === 0 && item.paths.map((path) => <p key={path} class="cite-path"><code><Words text={path} /></code></p>)}
      {item.text && <Long class="cite-text" label="Text" text={item.text} />}
      {item.output && (item.command || item.edits.length === 0 || isBad) && <Long class="cite-output" label="Output" text={item.output} />}
      {item.command && !item.output && item.state !== "unknown" && <p class="faint">No output.</p>}
      {item.is_cut && <p class="faint">The log keeps the beginning and the end of it.</p>}
      <p class="row">{item.session && <SessionLink session={item.session} at={item.id} class="cite-source">In the transcript</SessionLink>}<button type="button" class="cite-source" onClick={() => showEvents([item.id], "Source event")}>Source event</button></p>
    </li>
  );
}

function Items({ ids, withAgent }: { ids: readonly string[]; withAgent: boolean }) {
  const { data, error } = useFixed<EvidenceAnswer>("/api/evidence", { id: ids.slice(0, MOST_EVENTS) });
  if (error) return <Trouble error={error} />;
  if (!data) return <p class="faint">Loading…</p>;
  return (
    <>
      <ol class="cite-list">{data.items.map((item) => <Item key={item.id} item={item} withAgent={withAgent} />)}</ol>
      {data.missing.length > 0 && <p class="faint">{data.missing.length} of the source events are no longer in the log: they were trimmed or erased.</p>}
      {data.hidden > 0 && <p class="faint">{data.hidden} of the source events are private and not shown.</p>}
    </>
  );
}

function Follow({ page, scope, children }: { page: string; scope: string; children: string }) {
  return (
    <a class="button small" href={href(page, { scope })} onClick={(click) => {
      if (click.metaKey || click.ctrlKey) return;
      click.preventDefault();
      closeDrawer();
      go(page, { scope });
    }}>{children}</a>
  );
}

function Sessions({ cited, goTo }: { cited: Cited; goTo: (session: string) => void }) {
  const shown = cited.sessions.slice(0, MOST_SESSIONS);
  return (
    <ul class="cite-sessions">
      {shown.map(({ session, title }) => (
        <li key={session}>
          <p><Words text={title} /></p>
          <p class="row">
            <SessionLink session={session} at={cited.events[0]} class="button small primary">Open the session</SessionLink>
            <button type="button" class="button small" onClick={() => {
              closeDrawer();
              goTo(session);
            }}>In the story</button>
            <Follow page="events" scope={`run:${session}`}>All its events</Follow>
            <Copy text={`lore show ${session.slice(0, 8)}`} label={`Copy "lore show ${session.slice(0, 8)}"`} />
          </p>
        </li>
      ))}
      {cited.sessions.length > shown.length && <li class="faint">and {cited.sessions.length - shown.length} more sessions</li>}
    </ul>
  );
}

/** Opens the drawer with what a line rests on: commands with their output, diffs, texts, and the sessions. */
export function openEvidence(cited: Cited, goTo: (session: string) => void): void {
  openDrawer("Evidence", () => (
    <div class="cited">
      <blockquote><Words text={cited.text} /></blockquote>
      {cited.events.length > 0 && <Items key={cited.events.join()} ids={cited.events} withAgent={cited.sessions.length !== 1} />}
      {cited.sessions.length > 0 && <><h3>{cited.sessions.length === 1 ? "Session" : "Sessions"}</h3><Sessions cited={cited} goTo={goTo} /></>}
      {cited.tasks.length > 0 && (
        <>
          <h3>{cited.tasks.length === 1 ? "Task" : "Tasks"}</h3>
          <ul class="cite-sessions">
            {cited.tasks.slice(0, MOST_SESSIONS).map((task) => <li key={task} class="row"><Words text={task} /><Follow page="events" scope={`task:${task}`}>All its events</Follow></li>)}
            {cited.tasks.length > MOST_SESSIONS && <li class="faint">and {cited.tasks.length - MOST_SESSIONS} more tasks</li>}
          </ul>
        </>
      )}
    </div>
  ));
}
