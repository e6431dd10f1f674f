import { memo } from "preact/compat";
import { useRef, useState } from "preact/hooks";

import { get } from "../api";
import type { EvidenceAnswer } from "../api/types";
import type { FileDiff, TranscriptRow } from "../api/types";
import { Copy } from "../ui/copy";
import { DiffLines } from "../ui/diff";
import { showEvents } from "../ui/events";
import { plain } from "../ui/hostile";
import { unmarked } from "../ui/markdown";
import { RichText } from "../ui/rich-text";
import { useMarked } from "../ui/syntax";
import { clockSeconds, compact, full, length, usd } from "../ui/times";
import { Words } from "../ui/words";
import type { Item } from "./session-transcript";

const FOLDED_TEXT = 2400;
const FOLDED_LINES = 40;
const OUTPUT_LINES = 5;
const FAILED_OUTPUT_LINES = 14;
const MOST_OUTPUT_LINES = 400;

/** A text cut to what a row shows at first. */
function folded(text: string): string {
  const lines = text.split("\n");
  const cut = lines.length > FOLDED_LINES ? lines.slice(0, FOLDED_LINES).join("\n") : text;
  return cut.length > FOLDED_TEXT ? cut.slice(0, FOLDED_TEXT) : cut;
}

function Told({ text, rich, isCut }: { text: string; rich: boolean; isCut: boolean }) {
  const [isOpen, open] = useState(false);
  const short = folded(text);
  const shown = isOpen ? text : short;
  return (
    <>
      {rich ? <RichText text={shown} /> : <p class="t-plain"><Words text={shown} /></p>}
      {!isOpen && short.length < text.length && <button type="button" class="t-more" onClick={() => open(true)}>Show all</button>}
      {isOpen && isCut && <p class="faint">The text is longer than what is shown.</p>}
    </>
  );
}

function Output({ row }: { row: TranscriptRow }) {
  const [whole, set] = useState<string | null>(null);
  const isBad = row.state === "failed" || row.state === "denied";
  const text = whole ?? row.output ?? "";
  if (!text) return null;
  const lines = text.split("\n");
  const most = whole !== null ? MOST_OUTPUT_LINES : isBad ? FAILED_OUTPUT_LINES : OUTPUT_LINES;
  const hidden = lines.length - most;
  const open = async (): Promise<void> => {
    const found = row.is_cut ? await get<EvidenceAnswer>("/api/evidence", { id: [row.id] }).catch(() => null) : null;
    set(found?.items[0]?.output || (row.output ?? ""));
  };
  return (
    <div class="t-output">
      {(hidden > 0 || row.is_cut) && whole === null && <button type="button" class="t-more" onClick={() => void open()}>{row.is_cut ? "Show the output" : `Show all ${lines.length} lines`}</button>}
      <pre tabIndex={0} aria-label="Output"><Words text={(hidden > 0 ? lines.slice(-most) : lines).join("\n")} /></pre>
    </div>
  );
}

function Edits({ edits }: { edits: readonly FileDiff[] }) {
  return <>{edits.map((edit, index) => (
    <div class="t-edit" key={index}>
      {edits.length > 1 && <p class="t-path"><code><Words text={edit.path} /></code></p>}
      <DiffLines path={edit.path} diff={edit.diff} folded={14} />
      {edit.is_cut && <p class="faint">The diff is longer than what is shown.</p>}
    </div>
  ))}</>;
}

const STATE_WORDS: Record<string, string> = { failed: "failed", denied: "denied", interrupted: "interrupted", unknown: "no result yet" };

function State({ row }: { row: TranscriptRow }) {
  const state = row.state ?? "unknown";
  const took = (row.seconds ?? 0) >= 1 ? length(row.seconds ?? 0) : "";
  const word = state === "ok" ? "" : state === "failed" && row.exit_code ? `failed, exit code ${row.exit_code}` : STATE_WORDS[state];
  return <>{word && <span class={`t-state ${state}`}>{word}</span>}{took && <span class="t-took num">{took}</span>}</>;
}

const VERBS: Record<string, string> = { command: "Ran", edit: "Edited", read: "Read", search: "Searched", other: "" };

/** What a call was about: its text often begins with the tool, which stands before it. */
function withoutTool({ text = "", tool }: TranscriptRow): string {
  const lead = `${tool}: `;
  return tool && text.startsWith(lead) ? text.slice(lead.length) : text;
}

/** A tool call: one line, and below it what it shows. */
function Call({ row }: { row: TranscriptRow }) {
  const [isOpen, open] = useState(false);
  const paths = row.paths ?? [];
  const subject = row.command ? row.description ?? "" : paths.length > 0 ? paths.join(", ") : unmarked(withoutTool(row));
  const isQuiet = (row.kind === "read" || row.kind === "search" || row.kind === "other") && row.state !== "failed" && row.state !== "denied";
  return (
    <div class="t-call">
      <p class="t-line">
        <span class="t-verb">{VERBS[row.kind] || <Words text={row.tool} />}</span>
        <span class="t-subject" title={plain(subject, 500)}><Words text={subject} /></span>
        <State row={row} />
        {isQuiet && row.output && <button type="button" class="t-more" aria-expanded={isOpen} onClick={() => open(!isOpen)}>{isOpen ? "Hide" : "Output"}</button>}
      </p>
      {row.command && <pre class="t-command" tabIndex={0} aria-label="Command"><Words text={folded(row.command)} /></pre>}
      {row.edits && <Edits edits={row.edits} />}
      {(isQuiet ? isOpen : row.kind !== "edit" || row.state !== "ok") && <Output row={row} />}
    </div>
  );
}

function Thinking({ row }: { row: TranscriptRow }) {
  const [isOpen, open] = useState(false);
  const first = (row.text ?? "").split("\n", 1)[0] ?? "";
  return (
    <div class="t-thinking">
      <button type="button" class="t-fold" aria-expanded={isOpen} onClick={() => open(!isOpen)}>
        <span class="t-verb">Thinking</span>{!isOpen && <span class="t-subject"><Words text={unmarked(first).slice(0, 200)} /></span>}
      </button>
      {isOpen && <Told text={row.text ?? ""} rich isCut={row.is_cut ?? false} />}
    </div>
  );
}

const NOTES: Record<string, string> = {
  "session.started": "Session started", "session.ended": "Session ended", "session.compacted": "Context compacted", "claude_code.pr_link": "Pull request linked", "fleet.pr_open": "Pull request opened", "fleet.pr_merge": "Pull request merged", "fleet.dispatch": "Task taken",
};

/** What a kind of event is called where people read it: `town.task_delegated` is "Task delegated". */
function nameOf(kind: string): string {
  const words = kind.slice(kind.lastIndexOf(".") + 1).replaceAll("_", " ");
  return NOTES[kind] ?? words.charAt(0).toUpperCase() + words.slice(1);
}

function Note({ row }: { row: TranscriptRow }) {
  const said = nameOf(row.event ?? "");
  if (row.event === "session.compacted") return <details class="t-note"><summary>{said}</summary><Told text={row.text ?? ""} rich isCut={row.is_cut ?? false} /></details>;
  return <p class="t-note"><span title={row.event}>{said}</span>{row.event !== "claude_code.pr_link" && row.text && <> · <Words text={unmarked(row.text).slice(0, 400)} /></>}</p>;
}

function Launch({ item, toggle }: { item: Item; toggle: (child: string) => void }) {
  const { row } = item;
  return (
    <div class="t-launch">
      <p class="t-line"><span class="t-verb">Sub-agent</span><strong><Words text={row.description || row.child} /></strong>
        {item.steps > 0 && <button type="button" class="t-more" aria-expanded={item.isOpen} onClick={() => toggle(row.child ?? "")}>{item.isOpen ? "Hide" : "Show"} its {item.steps} steps</button>}
      </p>
      <Told text={row.text ?? ""} rich={false} isCut={row.is_cut ?? false} />
    </div>
  );
}

function Body({ item, toggle }: { item: Item; toggle: (child: string) => void }) {
  const { row } = item;
  switch (row.kind) {
    case "prompt": return <div class="t-bubble"><Told text={row.text ?? ""} rich={false} isCut={row.is_cut ?? false} /></div>;
    case "answer": return <div class="t-answer"><Told text={row.text ?? ""} rich isCut={row.is_cut ?? false} /></div>;
    case "thinking": return <Thinking row={row} />;
    case "launch": return <Launch item={item} toggle={toggle} />;
    case "return": return <div class="t-return"><p class="t-line"><span class="t-verb">Sub-agent answered</span><strong><Words text={row.description || row.child} /></strong></p><Told text={row.text ?? ""} rich isCut={row.is_cut ?? false} /></div>;
    case "waiting": return <p class="t-waiting"><span class="t-verb">Waiting</span> <Words text={unmarked(row.text ?? "")} /></p>;
    case "note": return <Note row={row} />;
    default: return <Call row={row} />;
  }
}

const SPEAKERS: Record<string, string> = { prompt: "Prompt", answer: "Answer" };

function TurnFacts({ item }: { item: Item }) {
  const { turn } = item;
  if (!turn) return null;
  const facts = [`Turn ${turn.number}`, turn.usd > 0 ? usd(turn.usd) : "", turn.tokens > 0 ? `${compact(turn.tokens)} tokens` : "", turn.to > turn.from ? `${length((turn.to - turn.from) / 1000)} from start to end` : "", turn.calls > 0 ? `${turn.calls} ${turn.calls === 1 ? "call" : "calls"}` : ""];
  return <span class="t-turn num">{facts.filter(Boolean).join(" · ")}</span>;
}

/** One row of the transcript. */
export const Row = memo(function Row({ item, isTarget, isMatch, words, toggle }: { item: Item; isTarget: boolean; isMatch: boolean; words: readonly string[]; toggle: (child: string) => void }) {
  const { row } = item;
  const element = useRef<HTMLElement>(null);
  useMarked(element, isMatch ? words : [], row);
  const [shownAt, cost] = [row.at ? clockSeconds(row.at) : "", row.usd ?? 0];
  return (
    <article ref={element} class={`t-row t-${row.kind}${item.isNested ? " nested" : ""}${isTarget ? " target" : ""}${isMatch ? " match" : ""}`} id={`row-${row.id}`}>
      <div class="t-when num">
        <button type="button" title={`${row.at ? full(row.at) : ""}: source event`} onClick={() => showEvents(row.result ? [row.id, row.result] : [row.id], "Source events")}>{shownAt}</button>
        {cost >= 0.005 && <span class="t-cost" title={`${compact(row.tokens ?? 0)} tokens`}>{usd(cost)}</span>}
      </div>
      <div class="t-body">
        {SPEAKERS[row.kind] && <p class="t-speaker">{SPEAKERS[row.kind]}<TurnFacts item={item} />{row.kind === "answer" && <span class="t-copy"><Copy text={row.text ?? ""} label="Copy" /></span>}</p>}
        <Body item={item} toggle={toggle} />
      </div>
    </article>
  );
});

/** A guess of a row's height in pixels, until it is measured. */
export function guessHeight({ row }: Item): number {
  const lines = (text: string | undefined, width: number): number => (text ? Math.min(FOLDED_LINES, text.split("\n", FOLDED_LINES).reduce((sum, line) => sum + 1 + Math.floor(line.length / width), 0)) : 0);
  switch (row.kind) {
    case "thinking": return 32;
    case "note": return 32;
    case "read": case "search": case "other": return 32;
    case "prompt": case "answer": return 48 + 21 * lines(row.text, 100);
    case "edit": return 60 + 18 * Math.min(14, (row.edits ?? []).reduce((sum, edit) => sum + edit.diff.split("\n", 15).length, 0));
    default: return 56 + 18 * (lines(row.command, 100) + Math.min(row.state === "failed" ? FAILED_OUTPUT_LINES : OUTPUT_LINES, lines(row.output, 120)));
  }
}
