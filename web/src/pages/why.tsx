import { useEffect, useRef, useState } from "preact/hooks";

import { Refusal } from "../api";
import type { ExplainedLines, FileExplanation, LineSession, SessionsAnswer } from "../api/types";
import { useFixed } from "../fixed";
import { useView } from "../moment";
import { go, href, params, rest, setParams } from "../router";
import "../styles/why.css";
import { DiffLines } from "../ui/diff";
import { openDrawer } from "../ui/drawer";
import { Empty } from "../ui/empty";
import { unmarked } from "../ui/markdown";
import { SessionLink, follow } from "../ui/session-link";
import { Trouble, Waiting } from "../ui/state";
import { useSyntax } from "../ui/syntax";
import { clock, count, counted, day, full, usd } from "../ui/times";
import { Words } from "../ui/words";
import type { Page } from "./page";

const AUTHORS: Record<ExplainedLines["author"], string> = { agent: "by agents", hand: "by hand", unknown: "unknown" };
const RESULTS: Record<string, string> = { pass: "passed", fail: "failed", could_not_run: "could not run" };
const MOST_RECENT = 20;
const SHA = 10;

/** The address of the page of a file; `line` is shown and explained. */
export function whyHref(path: string, line?: number): string {
  return href(`why/${encodePath(path)}`, { line: line ?? null });
}

export function openWhy(path: string): void {
  go(`why/${encodePath(path)}`);
}

function encodePath(path: string): string {
  return path.split("/").map(encodeURIComponent).join("/");
}

function nameOf(part: ExplainedLines): string {
  if (part.author === "agent") return part.edit?.agent || part.other?.tool || "an agent";
  return part.author === "hand" ? part.commit?.author ?? "by hand" : "unknown";
}

function When({ at }: { at: string }) {
  return <time dateTime={at} title={full(at)}>{day(at)}, {clock(at)}</time>;
}

function SessionFacts({ session, at }: { session: LineSession; at: string }) {
  const contradicted = session.claims.filter((claim) => claim.verdict === "contradicted");
  return (
    <>
      <dt>Session</dt>
      <dd><SessionLink session={session.session} at={at}><Words text={unmarked(session.name)} /></SessionLink><p class="faint"><Words text={unmarked(session.headline)} /></p></dd>
      <dt>Cost</dt><dd class="num">{usd(session.usd)} <span class="faint">for the whole session</span></dd>
      <dt>Checks</dt>
      <dd>{Object.entries(session.checks).map(([kind, result]) => <span key={kind} class={`w-check ${result}`}>{kind} {RESULTS[result] ?? result}</span>)}{Object.keys(session.checks).length === 0 && "none after its last edit"}</dd>
      {contradicted.map((claim, index) => <><dt key={`t${index}`}>Claim</dt><dd key={index}><span class="v-mark contradicted">contradicted</span> “<Words text={claim.text} />” <span class="faint"><Words text={claim.why} /></span></dd></>)}
      {session.pull_requests.length > 0 && <><dt>Pull request</dt><dd>{session.pull_requests.map((one) => <p key={one}><Words text={one} /></p>)}</dd></>}
      {session.tasks.length > 0 && <><dt>Tasks</dt><dd><Words text={session.tasks.join(", ")} /></dd></>}
    </>
  );
}

/** What is known about lines: the edit, the answer around it, the prompt, the session, the commit. */
function Answer({ path, part, sessions }: { path: string; part: ExplainedLines; sessions: readonly LineSession[] }) {
  const { edit, commit, merge, other } = part;
  const session = sessions.find((one) => one.session === edit?.session);
  return (
    <div class="w-answer">
      <p><strong class={`w-mark ${part.author}`}>{part.author === "agent" ? "Written by an agent" : part.author === "hand" ? "Written by hand" : "Unknown"}</strong> <span class="faint"><Words text={part.why} /></span></p>
      {edit && <DiffLines path={edit.path} diff={edit.diff} />}
      <dl class="w-facts">
        {edit && <><dt>Edit</dt><dd><Words text={edit.tool} /> by <Words text={edit.agent} />, <When at={edit.at} /></dd></>}
        {edit?.prompt && <><dt>Asked</dt><dd class="w-text"><Words text={edit.prompt} /></dd></>}
        {edit?.said_meanwhile.map((prompt) => <><dt>Asked meanwhile</dt><dd class="w-text"><Words text={prompt} /></dd></>)}
        {edit?.answer && <><dt>Said</dt><dd class="w-text"><Words text={edit.answer} /></dd></>}
        {edit?.parent && <><dt>Launched by</dt><dd><Words text={edit.parent} /></dd></>}
        {edit?.allowed_by && <><dt>Allowed by</dt><dd><Words text={edit.allowed_by} /></dd></>}
        {(edit?.task || edit?.mission) && <><dt>For</dt><dd><Words text={[edit.task && `task ${edit.task}`, edit.mission && `mission ${edit.mission}`].filter(Boolean).join(", ")} /></dd></>}
        {session && edit && <SessionFacts session={session} at={edit.event} />}
        {other && <><dt>Noted by</dt><dd><Words text={[other.tool, other.model, other.session].filter(Boolean).join(", ")} /></dd></>}
        {commit && <><dt>Commit</dt><dd><code>{commit.sha.slice(0, SHA)}</code> <Words text={commit.subject} /> <span class="faint"><Words text={commit.author} />, <When at={commit.at} /></span></dd></>}
        {merge && <><dt>Merged</dt><dd><code>{merge.sha.slice(0, SHA)}</code> <Words text={merge.subject} /> <span class="faint"><Words text={merge.author} />, <When at={merge.at} /></span></dd></>}
        {!commit && <><dt>Commit</dt><dd>not committed</dd></>}
      </dl>
      <p class="command"><code>lore why {path}:{part.first}</code></p>
    </div>
  );
}

function explain(found: FileExplanation, part: ExplainedLines): void {
  const lines = part.first === part.last ? `Line ${part.first}` : `Lines ${part.first} to ${part.last}`;
  openDrawer(<>{lines} of <Words text={found.path} /></>, () => <Answer path={found.path} part={part} sessions={found.sessions} />);
}

function Part({ part, open }: { part: ExplainedLines; open: () => void }) {
  const code = useRef<HTMLPreElement>(null);
  const lines = part.text.split("\n");
  useSyntax(code, rest.value, part.text.length);
  const asked = part.edit?.prompt ?? part.commit?.subject ?? "";
  return (
    <li class={`w-part ${part.author}`} id={`L${part.first}`}>
      <button type="button" class="w-who" onClick={open} title="Why are these lines here?" aria-label={`Lines ${part.first} to ${part.last}, ${nameOf(part)}: why are they here?`}>
        <span class="w-name"><Words text={nameOf(part)} /></span>
        <span class="w-asked"><Words text={asked.slice(0, 120)} /></span>
      </button>
      <pre class="w-code" ref={code} style={{ counterReset: `line ${part.first - 1}` }} onClick={() => getSelection()?.isCollapsed && open()}>
        {lines.map((line, index) => <span key={index} class="w-line"><Words text={line || " "} /></span>)}
      </pre>
    </li>
  );
}

function File({ path }: { path: string }) {
  const { data, error } = useFixed<FileExplanation>("/api/why", { place: path });
  const wanted = Number(params.value.get("line"));
  useEffect(() => {
    const part = data?.lines.find((one) => one.first <= wanted && wanted <= one.last);
    if (!data || !part) return;
    document.getElementById(`L${part.first}`)?.scrollIntoView({ block: "center" });
    explain(data, part);
  }, [data, wanted]);
  if (error) return error instanceof Refusal ? <Empty title="This file cannot be shown" hint={error.detail} /> : <Trouble error={error} />;
  if (!data) return <Waiting lines={12} />;
  const total = data.lines.reduce((sum, part) => sum + part.last - part.first + 1, 0);
  const counts = (Object.keys(AUTHORS) as ExplainedLines["author"][]).map((author) => [author, data.lines.filter((part) => part.author === author).reduce((sum, part) => sum + part.last - part.first + 1, 0)] as const);
  return (
    <>
      <h2><Words text={data.path} /> <span class="faint"><Words text={data.repository} /></span></h2>
      <p class="w-counts">{counted(total, "line")}: {counts.filter(([, many]) => many > 0).map(([author, many]) => <span key={author} class={`w-mark ${author}`}>{count(many)} {AUTHORS[author]}</span>)}</p>
      <div class="w-bar" aria-hidden="true">{counts.map(([author, many]) => <span key={author} class={author} style={{ flexGrow: many }} />)}</div>
      <ol class="w-file">{data.lines.map((part) => <Part key={part.first} part={part} open={() => {
        if (wanted === part.first) explain(data, part);
        else setParams({ line: String(part.first) });
      }} />)}</ol>
    </>
  );
}

/** Files that agents edited last, and a box for any other. */
function Choice() {
  const { data } = useView<SessionsAnswer>("/api/sessions", { limit: MOST_RECENT });
  const [text, type] = useState("");
  const recent = [...new Set(data?.sessions.flatMap((one) => one.files.map((file) => file.path)).filter((path) => !/^(?:\/|\.\.|[A-Za-z]:)/.test(path)))].slice(0, MOST_RECENT);
  return (
    <>
      <h2>Why is this line here?</h2>
      <p>Each line of a file with the edit that wrote it, the prompt that asked for it, the session, its checks and its cost.</p>
      <form class="w-form" onSubmit={(submit) => {
        submit.preventDefault();
        if (text.trim()) openWhy(text.trim());
      }}>
        <input class="field" type="text" placeholder="src/retry.py" aria-label="File, relative to the repository" value={text} onInput={(input) => type(input.currentTarget.value)} />
        <button type="submit" class="button">Show</button>
      </form>
      {recent.length > 0 && <><h3>Edited last</h3><ul class="w-recent">{recent.map((path) => <li key={path}><a href={whyHref(path)} onClick={(click) => follow(click, () => openWhy(path))}><Words text={path} /></a></li>)}</ul></>}
      <p class="faint">Only files that git tracks in the repository in which <code>lore up</code> was started.</p>
    </>
  );
}

function Why() {
  const path = rest.value;
  return <div class="why">{path ? <File key={path} path={path} /> : <Choice />}</div>;
}

export const page: Page = {
  path: "why", title: "Why", key: "y", view: Why,
  icon: "M9.1 9a3 3 0 1 1 4.4 2.7c-.9.5-1.5 1.2-1.5 2.3M12 17.5v.5M4 4h16v16H4z",
};
