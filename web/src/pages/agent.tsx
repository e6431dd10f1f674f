import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { post } from "../api";
import { useFixed } from "../fixed";
import { onEvents } from "../live";
import { meta } from "../meta";
import { asOf, useView, type View } from "../moment";
import { setParams, useParam } from "../router";
import type { LoreEvent } from "../api/types";
import type { ChatAnswer, ChatSession, GraphList, GraphShape, Screen } from "../api/types";
import { Empty } from "../ui/empty";
import { plain } from "../ui/hostile";
import { Trouble, Waiting } from "../ui/state";
import { clock, counted, day } from "../ui/times";
import { Controls } from "./agent-controls";
import { GraphPanel } from "./agent-graph";
import { Line } from "./agent-line";
import { conversationOf, TALK, workOf } from "./agent-model";
import { Composer, Talk } from "./agent-talk";
import { FILTERS, Trace, type Which } from "./agent-trace";
import { EVERYTHING } from "./events-filter";
import { EventsModel, NO_RUN } from "./events-model";
import type { Page } from "./page";
import "../styles/agent.css";

const NEW = "new";
const RETRY = 3000;

/** Events of one run that are of some kinds, newest first, as they come. */
function useRun(session: string | null, kinds: readonly string[]): EventsModel {
  const filter = { ...EVERYTHING, scope: session === null ? NO_RUN : `run:${session}`, kinds };
  const model = useMemo(() => new EventsModel(filter), []);
  useEffect(() => model.start(), [model]);
  const isFirst = useRef(true);
  useEffect(() => {
    if (!isFirst.current) model.restart(filter);
    isFirst.current = false;
  }, [session, kinds]);
  return model;
}

function inOrder(model: EventsModel): LoreEvent[] {
  return [...model.rows.value].reverse();
}

/** The line to the conversation that the address names. One that was new keeps it when it gets its name. */
function useLine(wanted: string | null, live: boolean): Line | null {
  const kept = useRef<Line | null>(null);
  if (live && kept.current?.session !== wanted) {
    kept.current?.close();
    kept.current = new Line(wanted);
    kept.current.onSession = (session) => setParams({ session });
  } else if (!live) {
    kept.current?.close();
    kept.current = null;
  }
  const line = kept.current;
  useEffect(() => {
    if (line?.session) line.open();
    return line ? onEvents((events) => line.stored(events.filter((event) => event.run === line.session && line.session !== null))) : undefined;
  }, [line]);
  useEffect(() => () => {
    kept.current?.close();
    kept.current = null;
  }, []);
  return line;
}

function titleOf(one: ChatSession): string {
  const when = one.at === null ? [] : [`${day(one.at)} ${clock(one.at)}`, counted(one.turns, "turn")];
  return plain([one.title || "Nothing said yet", ...when].join(" · "), 90);
}

function Tools({ answer, graphs, screen, session, line }: { answer: ChatAnswer; graphs: GraphList; screen: Screen | null; session: string | null; line: Line | null }) {
  const [, choose] = useParam("session");
  const [error, fail] = useState<Error | null>(null);
  const [asking, ask] = useState(false);
  const steer = (path: string, body: Record<string, unknown>): void => {
    fail(null);
    ask(false);
    post<{ session: string }>(path, { ...body, ...(session === null ? {} : { session }) }).then((done) => {
      if (done.session !== session) choose(done.session, "replace");
    }, fail);
  };
  const here = session ?? NEW;
  return (
    <div class="tools agent-tools">
      <select class="field" aria-label="Which conversation" value={here} onChange={(change) => choose(change.currentTarget.value, "push")}>
        {here === NEW && <option value={NEW}>A new conversation</option>}
        {here !== NEW && !answer.sessions.some((one) => one.session === here) && <option value={here}>This conversation</option>}
        {answer.sessions.map((one) => <option key={one.session} value={one.session}>{titleOf(one)}</option>)}
      </select>
      {here !== NEW && <button type="button" class="button" onClick={() => choose(NEW, "push")}>New</button>}
      <span class="agent-graph-choice"><span class="faint" aria-hidden="true">Graph</span>
        <select class="field" aria-label="Graph" value={screen?.graph ?? graphs.default} disabled={line === null} onChange={(change) => steer("/api/graph/switch", { graph: change.currentTarget.value })}>
          {screen && !graphs.graphs.some((one) => one.name === screen.graph) && <option value={screen.graph}>{plain(screen.graph, 60)}</option>}
          {graphs.graphs.map((one) => <option key={one.name} value={one.name}>{plain(one.name, 60)}</option>)}
        </select>
      </span>
      {line !== null && session !== null && (asking
        ? <span class="row" role="group" aria-label="Delete this conversation?"><span>Delete this conversation and clear the screen?</span><button type="button" class="button primary" onClick={() => steer("/api/clear", {})}>Clear it</button><button type="button" class="button" onClick={() => ask(false)}>No</button></span>
        : <button type="button" class="button" onClick={() => ask(true)}>Clear…</button>)}
      {line !== null && line.link.value === "lost" && <span class="line-lost" role="status">Connection lost. Reconnecting…</span>}
      {error && <Trouble error={error} />}
    </div>
  );
}

const BLANK: GraphShape = { name: "", description: "", nodes: [], edges: [] };

function Room({ answer, graphs, wanted }: { answer: ChatAnswer; graphs: GraphList; wanted: string | null }) {
  const live = asOf.value === null;
  const line = useLine(wanted, live);
  const session = line?.session ?? wanted;
  const screen = (live ? line?.screen.value : null) ?? (answer.screen?.session === session ? answer.screen : null);
  const [filter, choose] = useParam("trace", "all");
  const which = filter in FILTERS ? (filter as Which) : "all";
  const [node, chooseNode] = useParam("node");
  const talk = useRun(session, TALK);
  const steps = useRun(session, FILTERS.nodes[1]);
  const trace = useRun(session, FILTERS[which][1]);
  const said = useMemo(() => conversationOf(inOrder(talk)), [talk.rows.value]);
  const stepped = useMemo(() => inOrder(steps), [steps.rows.value]);
  const at = useMemo(() => [...workOf(stepped).nodes].findLast(([, one]) => one.state === "active")?.[0] ?? null, [stepped]);
  const name = screen?.graph ?? graphs.default;
  const graph = graphs.graphs.find((one) => one.name === name) ?? BLANK;
  return (
    <div class="agent-page">
      <Tools answer={answer} graphs={graphs} screen={screen} session={session} line={line} />
      <div class="agent-talk">
        <Talk said={said} line={line} at={at} more={talk.more.value} older={() => talk.older()} />
        {talk.error.value && <Trouble error={talk.error.value} />}
        {screen && <Controls screen={screen} line={line} />}
        {line && <Composer line={line} />}
        {!live && <p class="agent-past faint">This is the past. Return to live to continue.</p>}
      </div>
      <div class="agent-side">
        {graph !== BLANK && <GraphPanel key={graph.name} graph={graph} events={stepped} session={live ? session : null} chosen={node} choose={chooseNode} />}
        <Trace model={trace} which={which} choose={choose} node={node} freeNode={() => chooseNode("")} />
      </div>
    </div>
  );
}

function Locked() {
  return (
    <Empty title="You need write access to chat" hint="Only the token that started a conversation can continue it.">
      Run <code>lore up --open</code>, or append <code>#token=…</code> to the URL. <code>lore token create --scope write --label you</code> creates a token.
    </Empty>
  );
}

/** The graphs there are; asked for again as long as there is no answer. */
function useGraphs(): View<GraphList> {
  const [nth, again] = useState(0);
  const graphs = useFixed<GraphList>("/api/graph/list", {}, nth);
  useEffect(() => {
    const timer = graphs.error ? setTimeout(() => again(nth + 1), RETRY) : undefined;
    return () => clearTimeout(timer);
  }, [graphs.error]);
  return graphs;
}

function Mine() {
  const [param] = useParam("session");
  const { data, error } = useView<ChatAnswer>("/api/chat", { session: param === NEW ? null : param });
  const graphs = useGraphs();
  const newest = data?.sessions[0]?.session ?? null;
  // Whoever comes without saying which goes on with the newest.
  useEffect(() => {
    if (!param && newest !== null) setParams({ session: newest });
  }, [param, newest]);
  const trouble = error ?? graphs.error;
  if (!data || !graphs.data) return trouble ? <Trouble error={trouble} /> : <Waiting lines={8} />;
  if (asOf.value !== null && !data.screen) return <Empty title="No conversation yet at this time" hint="Move the time slider forward, or return to live." />;
  if (!param && newest !== null) return <Waiting lines={8} />;
  return (
    <>
      {error && <Trouble error={error} />}
      <Room answer={data} graphs={graphs.data} wanted={!param || param === NEW ? null : param} />
    </>
  );
}

function Agent() {
  if (!meta.value) return <Waiting lines={8} />;
  return meta.value.scopes_of_token.includes("write") ? <Mine /> : <Locked />;
}

export const page: Page = {
  path: "chat", title: "Chat", key: "a", view: Agent, alone: true,
  icon: "M5 5.5h14v9H11l-4.5 4v-4H5zM9 10h.01M12 10h.01M15 10h.01",
};
