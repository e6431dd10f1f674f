import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";

import { get, Refusal } from "../api";
import { useFixed } from "../fixed";
import { asOf, useView } from "../moment";
import { go, href, params, setParams, useParam } from "../router";
import type { CheckName, HandOverAnswer, Outcome, TranscriptMatches, SessionAnswer, SessionDiffAnswer } from "../api/types";
import type { Source } from "../api/types";
import "../styles/session.css";
import { Approvals } from "../ui/approval";
import { Copy, CopyFrom } from "../ui/copy";
import { DiffLines } from "../ui/diff";
import { Empty } from "../ui/empty";
import { plain } from "../ui/hostile";
import { unmarked } from "../ui/markdown";
import { RichText } from "../ui/rich-text";
import { follow, openSession, sessionHref } from "../ui/session-link";
import { Trouble, Waiting } from "../ui/state";
import { clock, compact, count, counted, day, full, length, stretch, usd, zone } from "../ui/times";
import { VirtualList, type ListControl } from "../ui/virtual-list";
import { Words } from "../ui/words";
import { openWhy, whyHref } from "./why";
import { Row, guessHeight } from "./session-rows";
import { Transcript, arrange } from "./session-transcript";
import { StatusMark, statusOf } from "./session-status";

/** Opens a tab. Where it would begin below what is seen, as on a phone, the page moves to it. */
function openTab(tab: string): void {
  setParams({ tab: tab || null, at: null, q: null }, "push");
  const tabs = document.querySelector(".s-tabs");
  if (tabs && tabs.getBoundingClientRect().top > innerHeight / 2) tabs.scrollIntoView({ block: "start" });
}

/** Goes to the row of the transcript that shows something. */
function goToRow(evidence: readonly Source[]): void {
  const at = evidence.at(-1)?.event;
  if (at) setParams({ tab: null, at }, "push");
}

function ToRow({ evidence, class: extra, title, children }: { evidence: readonly Source[]; class?: string; title?: string; children: ComponentChildren }) {
  if (evidence.length === 0) return <span class={extra} title={title}>{children}</span>;
  return <button type="button" class={`to-row ${extra ?? ""}`} title={title ?? "Show it in the transcript"} onClick={() => goToRow(evidence)}>{children}</button>;
}

const CHECK_NAMES: Record<CheckName, string> = { tests: "Tests", lint: "Lint", types: "Types", build: "Build" };
const RESULTS: Record<string, string> = { pass: "passed", fail: "failed", could_not_run: "could not run", not_run: "not run after the last edit", no_edit: "no edit" };

function Checks({ outcome }: { outcome: Outcome }) {
  const names = (Object.keys(CHECK_NAMES) as CheckName[]).filter((name) => {
    const check = outcome.checks[name];
    return check !== undefined && (!["no_edit", "not_run"].includes(check.result ?? "") || (check.earlier && name !== "build") || (name === "tests" && check.result === "not_run"));
  });
  if (names.length === 0) return <p class="faint">No checks: nothing was edited.</p>;
  return (
    <ul class="s-chips">
      {names.map((name) => {
        const check = outcome.checks[name] as NonNullable<Outcome["checks"][CheckName]>;
        const result = (check.result === "no_edit" ? check.earlier : check.result) ?? "no_edit";
        return (
          <li key={name}><ToRow evidence={check.evidence ?? []} class={`s-chip ${result}`}>
            <strong>{CHECK_NAMES[name]}</strong> {RESULTS[result]}{check.counts && <span class="num"> (<Words text={check.counts} />)</span>}
            {check.reason && <span class="s-reason">: <Words text={check.reason} /></span>}
          </ToRow></li>
        );
      })}
    </ul>
  );
}

/** So many risks and claims are shown beside the checks; the others are in their tab. */
const MOST_SHOWN = 3;

function Trust({ outcome }: { outcome: Outcome }) {
  const openReview = (): void => openTab("review");
  const many = (verdict: string): number => outcome.claims.filter((claim) => claim.verdict === verdict).length;
  const [contradicted, unproven, supported] = [many("contradicted"), many("unproven"), many("supported")];
  const executed = outcome.flags.filter((flag) => flag.executed);
  const worst = executed.slice(0, MOST_SHOWN);
  const others = outcome.flags.length - executed.length;
  const doubtful = outcome.claims.filter(({ verdict }) => verdict === (contradicted > 0 ? "contradicted" : "unproven")).slice(0, MOST_SHOWN);
  return (
    <section class="s-box s-trust" aria-label="Can I trust it">
      <h3>Can I trust it?</h3>
      <Checks outcome={outcome} />
      {worst.length > 0 && (
        <ul class="s-chips">
          {worst.map((flag, index) => <li key={index}><ToRow evidence={flag.evidence} class="s-chip flag"><strong>{flag.flag === "loop" ? "Loop" : "Risk"}</strong> <Words text={flag.what} /></ToRow></li>)}
          {executed.length > worst.length && <li><button type="button" class="t-more" onClick={openReview}>{counted(executed.length - worst.length, "more risk")}</button></li>}
        </ul>
      )}
      {others > 0 && <p class="faint"><button type="button" class="to-row" onClick={openReview}>{counted(others, "risky command")} tried without success</button></p>}
      {outcome.claims.length > 0 ? (
        <p class="s-claims"><button type="button" class="to-row" onClick={openReview}>
          {contradicted > 0 && <span class="v-mark contradicted">{counted(contradicted, "claim")} contradicted</span>}
          {unproven > 0 && <span class="v-mark unproven">{counted(unproven, "claim")} unproven</span>}
          {supported > 0 && <span class="v-mark supported">{counted(supported, "claim")} supported</span>}
        </button></p>
      ) : <p class="faint">It claimed nothing that can be checked.</p>}
      {doubtful.length > 0 && <ul class="s-list s-doubtful">{doubtful.map((claim, index) => <li key={index}><ToRow evidence={claim.evidence}>“<Words text={claim.text} />”</ToRow>{claim.why && <span class="faint"> <Words text={claim.why} /></span>}</li>)}</ul>}
    </section>
  );
}

function Continue({ answer }: { answer: SessionAnswer }) {
  const { session: outcome, resume } = answer;
  const path = `/api/sessions/${encodeURIComponent(outcome.session)}/hand-over`;
  return (
    <section class="s-box s-continue" aria-label="How do I continue">
      <h3>How do I continue?</h3>
      {resume && <p class="command"><code title={plain(resume)}>{resume.split(/(?<= && )/).map((part, index) => <span key={index}><Words text={part} /></span>)}</code><Copy text={resume} label="Copy" /></p>}
      <p class="row s-copies">
        <CopyFrom label="Copy hand-over" read={() => get<HandOverAnswer>(path, { as_of: asOf.peek() }).then((found) => found.answer)} />
        <span class="s-copy-show"><Copy text={`lore show ${outcome.session.slice(0, 8)}`} label="Copy terminal command" title={`lore show ${outcome.session.slice(0, 8)}`} /></span>
      </p>
      <p class="faint s-hint">The hand-over is a prompt for another agent. It says what was asked, what is done, what failed and what is open.</p>
    </section>
  );
}

function Delivered({ outcome }: { outcome: Outcome }) {
  const { commits, pull_requests: requests, pushed, tasks } = outcome.delivered;
  const added = outcome.files.reduce((sum, file) => sum + file.added, 0);
  const removed = outcome.files.reduce((sum, file) => sum + file.removed, 0);
  const left = outcome.headline.split("; ").some((part) => part.endsWith("not committed")) ? (commits.length > 0 ? "some not committed" : "not committed") : "";
  return (
    <section class="s-box s-delivered" aria-label="What it made">
      <h3>What did it make?</h3>
      <ul class="s-list">
        {requests.slice(-3).reverse().map((one, index) => <li key={index}><ToRow evidence={one.evidence}>Pull request {one.number && `#${one.number} `}<Words text={one.title} /></ToRow>{/^https?:\/\//.test(one.url) && <> <a href={one.url} rel="noopener noreferrer" target="_blank">open</a></>}</li>)}
        {requests.length > 3 && <li class="faint">and {counted(requests.length - 3, "earlier pull request")}</li>}
        {commits.slice(-2).reverse().map((commit, index) => <li key={index}><ToRow evidence={commit.evidence}><code><Words text={commit.sha.slice(0, 7) || "commit"} /></code> <Words text={commit.subject} /></ToRow></li>)}
        {commits.length > 0 && <li class="faint">{commits.length > 2 && `and ${counted(commits.length - 2, "earlier commit")} · `}{pushed ? "pushed" : outcome.delivered.push_unknown ? "no push recorded" : "not pushed"}</li>}
        {outcome.files.length > 0 && <li><button type="button" class="to-row" onClick={() => openTab("changes")}>{counted(outcome.files.length, "file")} changed <span class="num plus">+{count(added)}</span> <span class="num minus">−{count(removed)}</span></button>{left && <span class="faint"> {left}</span>}</li>}
        {tasks.length > 0 && <li class="s-tasks">{tasks.length === 1 ? "Task" : "Tasks"} {tasks.slice(0, 6).map((task) => <a key={task} href={href("events", { scope: `task:${task}` })} onClick={(click) => follow(click, () => go("events", { scope: `task:${task}` }))}><Words text={task} /></a>)}{tasks.length > 6 && <span class="faint">and {tasks.length - 6} more</span>}</li>}
        {requests.length + commits.length + outcome.files.length + tasks.length === 0 && <li class="faint">No edits, commits or tasks are recorded.</li>}
      </ul>
    </section>
  );
}

function Facts({ outcome }: { outcome: Outcome }) {
  const where = [outcome.repo, outcome.branch].filter(Boolean).join(" @ ");
  return (
    <dl class="s-facts">
      {outcome.person && <div><dt>Person</dt><dd><Words text={outcome.person} /></dd></div>}
      {where && <div><dt>Repository</dt><dd><Words text={where} /></dd></div>}
      <div><dt>Cost</dt><dd class="num" title={`${count(outcome.tokens)} tokens`}>{usd(outcome.usd)} <span class="faint">{outcome.helpers.length > 0 && `with ${counted(outcome.helpers.length, "sub-agent")}, `}{compact(outcome.tokens)} tokens</span></dd></div>
      {outcome.started && outcome.ended && <div><dt>Time</dt><dd class="num" title={`${full(outcome.started)} to ${full(outcome.ended)}`}>{day(outcome.started)}, {stretch(outcome.started, outcome.ended)} {zone} <span class="faint" title="Without pauses of more than 10 minutes">{length(outcome.active_seconds)} active</span></dd></div>}
      {outcome.program && <div><dt>Agent</dt><dd><Words text={outcome.program} /></dd></div>}
    </dl>
  );
}

function NeedsYou({ answer }: { answer: SessionAnswer }) {
  const { session: outcome, question_text: whole } = answer;
  const { kind } = statusOf(outcome);
  if (kind !== "needs you") return null;
  const said = outcome.waiting_for === "permission" ? "It waits for a permission" : "It waits for your answer";
  return (
    <div class="s-needs" role="status">
      <p><strong>{said}{outcome.question ? ": " : "."}</strong><ToRow evidence={outcome.evidence["question"] ?? []}><Words text={unmarked(outcome.question ?? "")} /></ToRow> <span class="faint">Answer it in its own window. If that is closed, continue it with the command below.</span></p>
      {whole && <RichText text={whole} />}
    </div>
  );
}

function Header({ answer }: { answer: SessionAnswer }) {
  const { session: outcome } = answer;
  return (
    <header class="s-head">
      <p class="s-crumb"><a href={href("sessions")} onClick={(click) => follow(click, () => go("sessions"))}>‹ Sessions</a> <StatusMark outcome={outcome} /></p>
      <h2><Words text={unmarked(outcome.name)} /></h2>
      <p class="s-outcome"><Words text={unmarked(outcome.outcome)} /></p>
      <NeedsYou answer={answer} />
      <Approvals session={outcome.session} />
      <Facts outcome={outcome} />
      <div class="s-boxes">
        <Trust outcome={outcome} />
        <Delivered outcome={outcome} />
        <Continue answer={answer} />
      </div>
    </header>
  );
}

/** Claims, risks, troubles and corrections, each with a way to its row. */
function Review({ outcome }: { outcome: Outcome }) {
  const order = ["contradicted", "unproven", "supported"];
  const claims = [...outcome.claims].sort((a, b) => order.indexOf(a.verdict) - order.indexOf(b.verdict));
  return (
    <div class="s-review">
      <h3>Claims</h3>
      {claims.length === 0 && <p class="faint">It claimed nothing that can be checked.</p>}
      <ul class="s-list">{claims.map((claim, index) => (
        <li key={index}><span class={`v-mark ${claim.verdict}`}>{claim.verdict}</span> <ToRow evidence={claim.evidence}>“<Words text={claim.text} />”</ToRow>{claim.why && <span class="faint"> <Words text={claim.why} /></span>}</li>
      ))}</ul>
      {outcome.flags.length > 0 && <><h3>Risks</h3><ul class="s-list">{outcome.flags.map((flag, index) => (
        <li key={index}><span class="v-mark contradicted">{flag.flag.replaceAll("_", " ")}</span> <ToRow evidence={flag.evidence}><Words text={flag.what} /></ToRow>{!flag.executed && <span class="faint"> tried without success</span>}</li>
      ))}</ul></>}
      {outcome.troubles.length > 0 && <><h3>Trouble</h3><ul class="s-list">{outcome.troubles.map((trouble, index) => (
        <li key={index}><span class={`v-mark ${trouble.resolved ? "supported" : "contradicted"}`}>{trouble.resolved ? "solved" : "not solved"}</span> <ToRow evidence={trouble.evidence}><Words text={trouble.what} /></ToRow>{trouble.cause && !trouble.what.includes(trouble.cause) && <span class="faint"> <Words text={trouble.cause} /></span>}</li>
      ))}</ul></>}
      {outcome.corrections.length > 0 && <><h3>Corrections by a person</h3><ul class="s-list">{outcome.corrections.map((one, index) => <li key={index}><ToRow evidence={one.evidence}><Words text={one.prompt} /></ToRow></li>)}</ul></>}
      {outcome.helpers.length > 0 && <><h3>Sub-agents</h3><ul class="s-list">{outcome.helpers.map((one, index) => (
        <li key={index}><ToRow evidence={one.evidence}><strong><Words text={one.role || one.agent} /></strong> <Words text={one.asked} /></ToRow> <span class="faint">{one.status}</span></li>
      ))}</ul></>}
    </div>
  );
}

function Changes({ session }: { session: string }) {
  const { data, error } = useFixed<SessionDiffAnswer>(`/api/sessions/${encodeURIComponent(session)}/diff`, { as_of: asOf.value });
  if (error) return <Trouble error={error} />;
  if (!data) return <Waiting lines={6} />;
  if (data.files.length === 0) return <Empty title="No recorded edits" hint="Changes by commands, such as sed or a formatter, are in the transcript." />;
  return (
    <div class="s-changes">
      {data.more && <p class="faint">Only the first edits are shown: there are too many.</p>}
      {data.files.map((file, index) => (
        <details key={file.path} open={index < 6}>
          <summary><code><Words text={file.path} /></code> <span class="num plus">+{count(file.added)}</span> <span class="num minus">−{count(file.removed)}</span> <span class="faint">{counted(file.changes.length, "edit")}</span> {!file.path.startsWith("/") && <a class="s-why" href={whyHref(file.path)} onClick={(click) => follow(click, () => openWhy(file.path))}>who wrote each line</a>}</summary>
          {file.changes.map((change) => (
            <div key={change.id + change.diff.length} class="s-change">
              <p class="s-change-when"><a href={sessionHref(session, change.id)} onClick={(click) => follow(click, () => openSession(session, change.id))}>{change.at ? clock(change.at) : "row"}</a>{change.is_new && <span class="faint"> written whole</span>}</p>
              <DiffLines path={file.path} diff={change.diff} folded={40} />
            </div>
          ))}
        </details>
      ))}
    </div>
  );
}

const PATIENCE = 220;

/** Words to look for, and the rows that have them. */
function useSearch(session: string): { text: string; find: (text: string) => void; ids: readonly string[]; more: boolean; isSearching: boolean } {
  const [text, setText] = useParam("q");
  const [found, set] = useState<TranscriptMatches>({ ids: [], more: false });
  const [isSearching, searching] = useState(false);
  useEffect(() => {
    const abort = new AbortController();
    if (!text.trim()) {
      set({ ids: [], more: false });
      return undefined;
    }
    searching(true);
    const timer = setTimeout(() => {
      get<TranscriptMatches>(`/api/sessions/${encodeURIComponent(session)}/search`, { q: text.trim(), as_of: asOf.peek() }, abort.signal)
        .then(set, () => undefined).finally(() => searching(false));
    }, PATIENCE);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [session, text]);
  return { text, find: (next) => setText(next), ids: found.ids, more: found.more, isSearching };
}

function Conversation({ session, isRunning }: { session: string; isRunning: boolean }) {
  const moment = asOf.value;
  const transcript = useMemo(() => new Transcript(session), [session, moment]);
  useEffect(() => transcript.start(), [transcript]);
  const { rows, isComplete, error } = transcript.state.value;
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const toggle = useCallback((child: string) => setOpened((before) => {
    const next = new Set(before);
    if (!next.delete(child)) next.add(child);
    return next;
  }), []);
  const items = useMemo(() => arrange(rows, opened), [rows, opened]);
  const keys = useMemo(() => items.map((item) => item.row.id), [items]);
  const control = useRef<ListControl | null>(null);
  const search = useSearch(session);
  const at = params.value.get("at");
  const [chosen, choose] = useState(0);
  useEffect(() => choose(0), [search.text]);
  const current = search.ids.length > 0 ? search.ids[chosen] ?? null : null;
  const wanted = current ?? at;
  const target = useMemo(() => (wanted ? rows.find((row) => row.id === wanted || row.result === wanted) ?? null : null), [rows, wanted]);
  const reached = useRef<string | null>(null);
  useEffect(() => {
    if (!target || reached.current === `${target.id}${wanted}`) return;
    if (target.agent && !opened.has(target.agent) && !keys.includes(target.id)) {
      toggle(target.agent);
      return;
    }
    reached.current = `${target.id}${wanted}`;
    control.current?.scrollTo(target.id);
  }, [target, keys]);
  useEffect(() => {
    if (!wanted) reached.current = null;
  }, [wanted]);
  const [isFollowing, setFollowing] = useState(!at);
  const seen = useRef(0);
  useEffect(() => {
    // Only what is new: a reader who opens a running session begins at its start, and jumps by the button.
    if (isFollowing && isComplete && seen.current > 0 && rows.length > seen.current && control.current?.isAtEnd()) requestAnimationFrame(() => control.current?.scrollToEnd());
    if (isComplete) seen.current = rows.length;
  }, [rows]);
  const words = useMemo(() => search.text.toLowerCase().split(/\s+/).filter(Boolean), [search.text]);
  const matches = useMemo(() => new Set(search.ids), [search.ids]);
  const step = (by: number): void => choose((before) => (search.ids.length === 0 ? 0 : (before + by + search.ids.length) % search.ids.length));
  return (
    <>
      <div class="s-tools">
        <input class="field" type="search" placeholder="Search this session…" aria-label="Search this session" value={search.text}
          onInput={(input) => search.find(input.currentTarget.value)}
          onKeyDown={(press) => press.key === "Enter" && (press.preventDefault(), step(press.shiftKey ? -1 : 1))} />
        {search.text && <span class="num faint" role="status">{search.isSearching ? "Searching…" : search.ids.length === 0 ? "Nothing found" : `${chosen + 1} of ${count(search.ids.length)}${search.more ? "+" : ""}`}</span>}
        {search.ids.length > 1 && <><button type="button" class="button icon small" aria-label="Previous match" onClick={() => step(-1)}>↑</button><button type="button" class="button icon small" aria-label="Next match" onClick={() => step(1)}>↓</button></>}
        <span class="s-tools-end num faint" role="status">{isComplete ? counted(rows.length, "row") : `Loading… ${counted(rows.length, "row")}`} · times in {zone}</span>
        <button type="button" class="button small" onClick={() => control.current?.scrollToEnd()}>Jump to the end</button>
        {isRunning && moment === null && <button type="button" class="button small" aria-pressed={isFollowing} onClick={() => {
          setFollowing(!isFollowing);
          if (!isFollowing) control.current?.scrollToEnd();
        }}>Follow</button>}
      </div>
      {error && <Trouble error={error} />}
      {isComplete && rows.length === 0 && <Empty title="No conversation recorded" hint="The log has events of this session, but no prompts, answers or tool calls." />}
      <VirtualList keys={keys} guess={(index) => guessHeight(items[index] as (typeof items)[number])} control={control} turn={`${target?.id}|${search.ids.length}|${words.join(" ")}`}
        render={(index) => {
          const item = items[index] as (typeof items)[number];
          return <Row item={item} isTarget={item.row.id === target?.id} isMatch={matches.has(item.row.id)} words={words} toggle={toggle} />;
        }} />
    </>
  );
}

const TABS = [["", "Transcript"], ["changes", "Changes"], ["review", "Claims and risks"]] as const;

/** The page of one session. */
export function SessionPage({ name }: { name: string }) {
  const { data, error } = useView<SessionAnswer>(`/api/sessions/${encodeURIComponent(name)}`);
  const [tab] = useParam("tab");
  const session = data?.session.session;
  // A link may say a name or the beginning of an id; the address then shows the id.
  useEffect(() => {
    if (session && session !== name) history.replaceState(history.state, "", `/sessions/${encodeURIComponent(session)}${location.search}${location.hash}`);
  }, [session]);
  if (!data && error instanceof Refusal && error.status === 404) {
    return <Empty title="There is no such session" hint={error.detail}><a class="button" href={href("sessions")} onClick={(click) => follow(click, () => go("sessions"))}>All sessions</a></Empty>;
  }
  const shown = session ?? name;
  const counts: Record<string, number> = data ? { changes: data.session.files.length, review: data.session.claims.length + data.session.flags.length } : {};
  // The conversation does not wait for the outcome, which takes longer for a long session.
  return (
    <div class="session">
      {data ? <Header answer={data} /> : <div class="s-head"><Waiting lines={6} /></div>}
      <div class="s-tabs" role="tablist">
        {TABS.map(([value, word]) => (
          <button key={value} type="button" role="tab" aria-selected={tab === value} onClick={() => openTab(value)}>{word}{counts[value] ? <span class="num faint"> {counts[value]}</span> : null}</button>
        ))}
      </div>
      {error && <Trouble error={error} />}
      {tab === "changes" ? <Changes session={shown} /> : tab === "review" ? data && <Review outcome={data.session} /> : <Conversation key={shown} session={shown} isRunning={data?.session.status === "running"} />}
    </div>
  );
}
