/** A conversation as it is read, and a graph as it works: both out of the events of one run, which are all there is to know. */

import type { LoreEvent } from "../api/types";
import { gist } from "./events-filter";

/** What of a run is shown as conversation. */
export const TALK = [
  "prompt.submitted", "agent.spoke", "ui.action", "node.failed", "session.started", "session.turn_ended", "process.started", "process.finished", "tool.called", "tool.returned",
  "tool.failed", "tool.denied",
] as const;

/** Ends of a turn without an answer. */
const FAILED = new Set(["error", "interrupted"]);

/** Tools that only set the screen: it shows them itself. */
const SILENT_TOOLS = new Set(["emit_actions", "set_state", "emit_display", "create_machine", "add_state", "reset_machine", "destroy_machine"]);

export interface Card {
  name: string;
  state: "running" | "done" | "failed";
  ms: number | null;
  note: string;
}

export type Said =
  | { is: "user" | "agent" | "press" | "failed" | "note"; id: string; at: string; who: string; text: string; answer?: string }
  | { is: "card"; id: string; at: string; card: Card };

const text = (value: unknown): string => (typeof value === "string" ? value : "");
const number = (value: unknown): number | null => (typeof value === "number" && Number.isFinite(value) ? value : null);

function line(is: "user" | "agent" | "press" | "failed" | "note", event: LoreEvent, said: string, who = event.actor): Said {
  return { is, id: event.id, at: event.at, who, text: said };
}

/** A call or a process, by what it is known as from its beginning to its end. */
function callOf(event: LoreEvent): string {
  return text(event.data?.["call_id"]) || (event.kind.endsWith("started") || event.kind.endsWith("called") ? event.id : event.cause ?? event.id);
}

function beginning(event: LoreEvent): Card {
  const command = event.data?.["command"];
  const name = text(event.data?.["tool"]) || (Array.isArray(command) ? command.map(String).join(" ") : text(command)) || event.text || "process";
  return { name, state: "running", ms: null, note: "" };
}

function ended(card: Card, event: LoreEvent): Card {
  const data = event.data ?? {};
  const code = number(data["exit_code"]);
  const bad = event.kind === "tool.failed" || event.kind === "tool.denied" || data["timed_out"] === true || (code !== null && code !== 0);
  const note = data["timed_out"] === true ? "took too long, and was ended" : bad ? text(data["error"]) || event.text || (code === null ? "failed" : `exit ${code}`) : "";
  return { ...card, state: bad ? "failed" : "done", ms: number(data["duration_ms"]) ?? card.ms, note };
}

/** The conversation, oldest first, of events in the order of the log. It begins anew where it was cleared. */
export function conversationOf(events: readonly LoreEvent[]): Said[] {
  const said: Said[] = [];
  const cards = new Map<string, number>();
  let [graph, failed] = ["", ""];
  for (const event of events) {
    const data = event.data ?? {};
    if (event.kind === "session.started") {
      const before = graph;
      graph = text(data["graph"]) || graph;
      if (data["source"] === "clear") {
        said.length = 0;
        cards.clear();
        said.push(line("note", event, "Cleared"));
      } else if (before !== "" && before !== graph) said.push(line("note", event, `Goes on by ${graph}`));
    } else if (event.kind === "prompt.submitted") said.push(line("user", event, text(data["prompt"]) || (event.text ?? "")));
    else if (event.kind === "agent.spoke") event.text && speak(said, event, event.text);
    else if (event.kind === "ui.action") said.push(line("press", event, pressOf(event)));
    else if (event.kind === "node.failed") failed = text(data["node"]);
    else if (event.kind === "session.turn_ended") {
      if (FAILED.has(text(data["reason"]))) said.push(line("failed", event, (event.text ?? "").replace(`${failed}: `, ""), failed));
      failed = "";
    } else putCard(said, cards, event);
  }
  return said;
}

/** What a press came to, where the screen answers it alone, stands beside it. */
function speak(said: Said[], event: LoreEvent, words: string): void {
  const last = said.at(-1);
  if (event.data?.["local"] === true && last?.is === "press") said[said.length - 1] = { ...last, answer: words };
  else said.push(line("agent", event, words, event.agent ?? event.actor));
}

/** What was pressed: `[pressed Add]` is how the agent's own history has it. */
function pressOf(event: LoreEvent): string {
  return event.text?.replace(/^\[pressed (.*)\]$/s, "$1") || text(event.data?.["action"]) || gist(event);
}

function putCard(said: Said[], cards: Map<string, number>, event: LoreEvent): void {
  if (SILENT_TOOLS.has(text(event.data?.["tool"]))) return;
  const call = callOf(event);
  const place = cards.get(call);
  const there = place === undefined ? undefined : said[place];
  const begins = event.kind === "tool.called" || event.kind === "process.started";
  if (there?.is === "card") {
    if (!begins) said[place as number] = { ...there, card: ended(there.card, event) };
  } else if (begins) {
    cards.set(call, said.length);
    said.push({ is: "card", id: event.id, at: event.at, card: beginning(event) });
  }
}

// --- the graph at work

export type NodeState = "idle" | "active" | "done" | "failed";

export interface Worked {
  state: NodeState;
  ms: number | null;
}

export interface Work {
  /** The turn that is shown: the newest. */
  turn: number | null;
  nodes: ReadonlyMap<string, Worked>;
  /** Ways that were gone in it, as `from→to`. */
  ways: ReadonlySet<string>;
}

/** Where every turn begins. */
export const USER = "user";

export const way = (source: string, target: string): string => `${source}→${target}`;

/** How the nodes stand after the newest turn, of events in the order of the log. Who was never called on in it is idle. */
export function workOf(events: readonly LoreEvent[]): Work {
  let turn: number | null = null;
  let nodes = new Map<string, Worked>();
  let ways = new Set<string>();
  for (const event of events) {
    const step = stepOf(event);
    if (step === null) continue;
    if (step.turn !== null && step.turn !== turn) {
      // What works on after the reply belongs to its own turn, which may be over by now.
      if (turn !== null && step.turn < turn) continue;
      [turn, nodes, ways] = [step.turn, new Map(), new Set()];
    }
    nodes.set(step.node, { state: step.state, ms: step.ms });
    for (const target of step.targets) ways.add(way(step.node, target));
  }
  return { turn, nodes, ways };
}

export interface Step {
  node: string;
  state: NodeState;
  ms: number | null;
  turn: number | null;
  targets: string[];
}

/** One step of a node; `null` for any other event. */
export function stepOf(event: LoreEvent): Step | null {
  const data = event.data ?? {};
  const node = text(data["node"]);
  const state = ({ "node.started": "active", "node.finished": "done", "node.failed": "failed" } as const)[event.kind as "node.started"];
  if (!node || !state) return null;
  const edges = data["edges"];
  return { node, state, ms: number(data["duration_ms"]), turn: number(data["turn"]), targets: Array.isArray(edges) ? edges.filter((one) => typeof one === "string") : [] };
}

/** 0.4 ms, 12 ms, 3.2 s */
export function took(ms: number): string {
  if (ms >= 1000) return `${(ms / 1000).toFixed(1)} s`;
  return ms >= 10 ? `${Math.round(ms)} ms` : ms < 0.05 ? "<0.1 ms" : `${ms.toFixed(1)} ms`;
}
