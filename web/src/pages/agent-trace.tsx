import { useState } from "preact/hooks";

import type { FoundEvent } from "../api/types";
import { plain } from "../ui/hostile";
import { Trouble, Waiting } from "../ui/state";
import { clockSeconds, counted, full } from "../ui/times";
import { Words } from "../ui/words";
import { took } from "./agent-model";
import { openEvent } from "./events-drawer";
import { gist } from "./events-filter";
import type { EventsModel } from "./events-model";

export const FILTERS = {
  all: ["Everything", []],
  nodes: ["Nodes", ["node.*"]],
  talk: ["Talk", ["prompt.submitted", "agent.spoke", "session.*"]],
  screen: ["Screen", ["ui.*", "machine.*"]],
  tools: ["Models and tools", ["model.*", "tool.*", "process.*"]],
  checks: ["Audits and sensor", ["audit.*", "sensor.*"]],
} as const satisfies Record<string, readonly [string, readonly string[]]>;

export type Which = keyof typeof FILTERS;

const PAGE = 120;

/** What says most about an event that has no words of its own. */
const NAMED = ["purpose", "model", "tool", "machine", "graph", "source", "reason", "exit_code"];

function said(event: FoundEvent): string {
  const node = event.data?.["node"];
  if (event.kind.startsWith("node.") && typeof node === "string") {
    const error = event.data?.["error"];
    return typeof error === "string" ? `${node}: ${error}` : node;
  }
  const { controls } = event.data ?? {};
  if (Array.isArray(controls)) return counted(controls.length, "control");
  const told = NAMED.map((name) => event.data?.[name]).filter((value) => typeof value === "string" || typeof value === "number");
  if (event.new_state) told.push(`${event.old_state ?? ""} → ${event.new_state}`);
  return event.text || told.join(" · ") || gist(event);
}

function Row({ event }: { event: FoundEvent }) {
  const ms = event.data?.["duration_ms"];
  return (
    <li class={`trace-row family-${event.kind.split(".")[0]}${/failed|audit|denied/.test(event.kind) ? " bad" : ""}`}>
      <button type="button" onClick={() => openEvent(event)}>
        <time class="num faint" dateTime={event.at} title={full(event.at)}>{clockSeconds(event.at)}</time>
        <code>{event.kind}</code>
        <span class="trace-what"><Words text={said(event)} /></span>
        {typeof ms === "number" && <span class="num faint">{took(ms)}</span>}
      </button>
    </li>
  );
}

/** The trace is the log: the run's own events, newest first, as they come. */
export function Trace({ model, which, choose, node, freeNode }: { model: EventsModel; which: Which; choose: (which: Which) => void; node: string; freeNode: () => void }) {
  const [many, show] = useState(PAGE);
  const all = model.rows.value;
  const rows = node === "" ? all : all.filter((event) => event.data?.["node"] === node);
  const more = (): void => {
    show(many + PAGE);
    if (rows.length < many + PAGE) model.older();
  };
  return (
    <section class="agent-trace" aria-labelledby="agent-trace-title">
      <header class="trace-head">
        <h2 id="agent-trace-title">Trace</h2>
        <select class="field" aria-label="Which events" value={which} onChange={(change) => choose(change.currentTarget.value as Which)}>
          {Object.entries(FILTERS).map(([name, [word]]) => <option key={name} value={name}>{word}</option>)}
        </select>
        {node !== "" && <button type="button" class="button small" onClick={freeNode} aria-label={`Only ${plain(node, 40)}: show all nodes again`}><Words text={node} /> ×</button>}
        <span class="faint num" role="status">{counted(rows.length, "event")}{model.more.value && " so far"}</span>
      </header>
      {model.error.value && <Trouble error={model.error.value} />}
      {rows.length === 0 && (model.loading.value ? <Waiting lines={4} /> : <p class="faint trace-none">{which === "all" && node === "" ? "Shows every step of a turn as it happens." : "Nothing of that kind so far."}</p>)}
      {rows.length > 0 && (
        <div class="trace-rows">
          <ol aria-label="Events of this session, newest first">{rows.slice(0, many).map((event) => <Row key={event.id} event={event} />)}</ol>
          {(rows.length > many || model.more.value) && <button type="button" class="button small wide" onClick={more}>Earlier</button>}
        </div>
      )}
    </section>
  );
}
