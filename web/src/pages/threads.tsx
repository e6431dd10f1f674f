import { useMemo } from "preact/hooks";

import { grouped } from "../grouped";
import { useView } from "../moment";
import { go, useParam } from "../router";
import type { Arc, ArcsAnswer, Family, Thread, ThreadsAnswer } from "../shapes";
import "../styles/threads.css";
import { AgentName } from "../ui/agent";
import { Ago } from "../ui/ago";
import { ArcNote } from "../ui/arc";
import { BeatMark } from "../ui/beat";
import { FAMILIES, SAID, familyOf } from "../ui/beats";
import { Empty } from "../ui/empty";
import { Trouble, Waiting } from "../ui/state";
import { Switch } from "../ui/switch";
import { clock, count, counted, day } from "../ui/times";
import { Words } from "../ui/words";
import type { Page } from "./page";

const MOST_AGENTS = 5;

function Who({ agents }: { agents: Record<string, number> }) {
  const names = Object.entries(agents).sort((a, b) => b[1] - a[1]).map(([name]) => name);
  return (
    <span class="thread-who">
      {names.slice(0, MOST_AGENTS).map((name) => <AgentName key={name} name={name} />)}
      {names.length > MOST_AGENTS && <span class="faint">and {names.length - MOST_AGENTS} more</span>}
    </span>
  );
}

function beatsOf(family: Family, counts: Record<string, number>): number {
  return Object.entries(counts).reduce((sum, [beat, many]) => (familyOf(beat) === family ? sum + many : sum), 0);
}

function Beats({ counts }: { counts: Record<string, number> }) {
  return (
    <span class="thread-beats num">
      {FAMILIES.map((family) => [family, beatsOf(family, counts)] as const).filter(([, many]) => many > 0).map(([family, many]) => (
        <span key={family} title={SAID[family]}><BeatMark family={family} /> {count(many)}</span>
      ))}
    </span>
  );
}

function Row({ thread, arcs }: { thread: Thread; arcs: Arc[] }) {
  return (
    <li class={`thread ${thread.state}`}>
      <div class="thread-head">
        <h2>{thread.mission && thread.key !== `mission:${thread.mission}` && <span class="thread-mission"><Words text={thread.mission} /></span>}<button type="button" onClick={() => go("brief", { scope: thread.key })} title="Its brief"><Words text={thread.title} /></button></h2>
        <span class={`thread-state ${thread.state}`}>{thread.state}</span>
      </div>
      <p class="thread-line">
        <Who agents={thread.agents} />
        <Beats counts={thread.counts} />
        <span class="thread-figures faint num">{counted(thread.events, "event")} · {day(thread.first_at)} {clock(thread.first_at)} · last <Ago at={thread.last_at} /></span>
      </p>
      {arcs.length > 0 && <div class="thread-arcs">{arcs.map((arc) => <ArcNote key={arc.kind + arc.first} arc={arc} />)}</div>}
    </li>
  );
}

const RANK = (thread: Thread): number => (thread.state === "open" ? 0 : 1);

function Threads() {
  const [state, choose] = useParam("state", "all");
  const { data, error } = useView<ThreadsAnswer>("/api/threads", { state, limit: 200 });
  const arcs = useView<ArcsAnswer>("/api/arcs", { limit: 500, hidden: "false" }).data?.arcs;
  const byThread = useMemo(() => grouped(arcs ?? [], (arc) => arc.thread), [arcs]);
  if (!data) return error ? <Trouble error={error} /> : <Waiting lines={6} />;
  const threads = [...data.threads].sort((a, b) => RANK(a) - RANK(b));
  return (
    <div class="threads">
      <div class="tools">
        <Switch label="Which threads" value={state} choose={choose} options={[["all", "All"], ["open", "Open"], ["closed", "Closed"]]} />
        <span class="faint num">{counted(data.total, "thread")}{threads.length < data.total && `, the newest ${count(threads.length)} shown`}</span>
      </div>
      {error && <Trouble error={error} />}
      {threads.length === 0 && <Empty title="No threads here" hint="A thread is a line of story: a task, a goal, a run. It begins with the first event that names one." />}
      <ol class="thread-list">{threads.map((thread) => <Row key={thread.key} thread={thread} arcs={byThread.get(thread.key) ?? []} />)}</ol>
    </div>
  );
}

export const page: Page = {
  path: "threads", title: "Threads", key: "h", view: Threads,
  icon: "M5 4v6c0 3 3 4 7 4s7 1 7 4v2M19 4v3c0 3-3 4-7 4s-7 1-7 5v4",
};
