/** What is said about graphs and conversations, over HTTP and over the socket. Every text in it is hostile: show it with `Words`. */

import type { Head } from "./shapes";

export interface GraphNode {
  name: string;
  implementation: string;
}

export type EdgeKind = "data" | "context" | "state";

export interface GraphEdge {
  source: string;
  target: string;
  type: EdgeKind;
  carries: string;
  /** When it is gone along; empty: always. */
  condition: string;
  /** Whether it is gone along once the reply is given. */
  after: boolean;
}

export interface GraphShape {
  name: string;
  description: string;
  nodes: GraphNode[];
  edges: GraphEdge[];
}

export interface GraphList {
  graphs: GraphShape[];
  /** Which one a new conversation begins with. */
  default: string;
}

/** Something on the agent's screen. What else it may hold is the agent's own. */
export interface Control {
  type: string;
  label?: unknown;
  action?: unknown;
  payload?: unknown;
  id?: unknown;
  text?: unknown;
  value?: unknown;
  columns?: unknown;
  data?: unknown;
  machine_id?: unknown;
  [other: string]: unknown;
}

export interface Screen {
  session: string;
  graph: string;
  /** Turns begun. */
  turn: number;
  /** Whether one is being taken. */
  busy: boolean;
  controls: Control[];
  state: Record<string, unknown>;
  /** The number of this screen on its socket. */
  n?: number;
}

export interface ChatSession {
  session: string;
  title: string;
  graph: string;
  /** When its user last did something. */
  at: string | null;
  turns: number;
}

export interface ChatAnswer extends Head {
  identity: string;
  screen: Screen | null;
  /** One's own, the newest first. */
  sessions: ChatSession[];
}

/** What comes over the socket. */
export type Heard =
  | ({ type: "screen" } & Screen)
  | { type: "hud"; node?: string; event?: string }
  | { type: "delta"; content: string }
  | { type: "controls"; n: number; controls: Control[]; state: Record<string, unknown> }
  | { type: "error"; message: string }
  | { type: "done" };
