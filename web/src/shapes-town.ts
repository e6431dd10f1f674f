/** What `/api/town` answers. As everywhere, every text is hostile: show it with `Words`. */

import type { Head } from "./shapes";

export type AgentState = "cold" | "starting" | "idle" | "working" | "paused" | "draining" | "stopped" | "error";
export type TaskState = "pending" | "assigned" | "running" | "completed" | "failed" | "cancelled";
export type MissionState = "planning" | "running" | "blocked" | "completed" | "failed";
export type ItemState = "pending" | "ready" | "assigned" | "running" | "blocked" | "done";

export interface TownAgent {
  name: string;
  shown: string;
  state: AgentState;
  type: string;
  roles: string[];
  harness: string;
  parent: string | null;
  /** The lease of whoever runs it; empty while nobody does. */
  run_by: string;
  task: string | null;
  /** The title of its task. */
  doing: string;
  /** Tasks that were given to it, and are not begun. */
  queue: number;
  /** Messages that wait for it. */
  inbox: number;
  completed: number;
  failed: number;
  at: string | null;
  seen_at: string | null;
  reason: string;
  /** What it was asked to do, and has not done yet. */
  wish: string;
}

export interface TownTask {
  id: string;
  title: string;
  state: TaskState;
  roles: string[];
  priority: string;
  purpose: string;
  mission: string | null;
  item: string | null;
  agent: string | null;
  shown: string;
  /** The one agent that it is for. */
  wanted: string | null;
  attempt: number;
  tries: number;
  round: number;
  at: string | null;
  started_at: string | null;
  ended_at: string | null;
  /** Tasks that must be completed before it can begin. */
  waits_for: number;
  error: string;
  is_dead_letter: boolean;
}

export interface TownColumn {
  state: TaskState;
  total: number;
  tasks: TownTask[];
}

export interface TownMission {
  id: string;
  title: string;
  state: MissionState;
  is_archived: boolean;
  items: number;
  by_state: Record<ItemState, number>;
  /** Items for which only a person can do something. */
  stuck: number;
  reason: string;
  at: string | null;
  moved_at: string | null;
  ended_at: string | null;
}

export interface TownHelp {
  mission: string;
  title: string;
  reason: string;
  /** How often it has asked. */
  attempt: number;
  at: string | null;
}

export interface TownMessage {
  id: string;
  sender: string;
  shown: string;
  to: string;
  type: string;
  priority: string;
  body: string;
  correlation: string | null;
  task: string | null;
  mission: string | null;
  at: string | null;
}

export interface TownInbox {
  name: string;
  shown: string;
  is_person: boolean;
  total: number;
  urgent: number;
  messages: TownMessage[];
}

export interface TownItem {
  id: string;
  title: string;
  type: string;
  state: ItemState;
  depends_on: string[];
  /** Of these, what is not done. */
  waits_for: string[];
  roles: string[];
  checks: string[];
  source: string;
  description: string;
  task: string | null;
  review: string | null;
  agent: string | null;
  shown: string;
  /** How often changes were asked for. */
  round: number;
  verdict: "" | "approved" | "rejected";
  /** Its work is done, and nobody has judged it. */
  awaits_verdict: boolean;
  approved_by: string | null;
  is_stuck: boolean;
  reason: string;
  artifacts: string[];
  done_at: string | null;
}

export interface TownWatch {
  id: string;
  type: string;
  item: string | null;
  target: string;
  action: string;
  state: "active" | "snoozed" | "done";
  until: string | null;
  triggered: number;
}

export interface TownNote {
  id: string;
  at: string | null;
  by: string;
  text: string;
}

export interface MissionPage extends TownMission {
  max_parallel: number;
  needs_review: boolean;
  watches_pulls: boolean;
  tries: number;
  work: TownItem[];
  left_out: number;
  watches: TownWatch[];
  watches_left_out: number;
  notes: TownNote[];
  can: string[];
}

export interface TaskPage extends TownTask {
  description: string;
  result: string;
  tags: string[];
  checks: string[];
  depends_on: string[];
  missing: string[];
  parent_task: string | null;
  of: string | null;
  not_by: string[];
  epoch: number;
  run_by: string;
  by: string;
  /** Facts told of it that were not believed. */
  refused: number;
  can: string[];
}

export interface AgentPage extends TownAgent {
  spawn_mode: string;
  tasks: TownTask[];
  messages: TownMessage[];
  can: string[];
}

export interface TownAnswer extends Head {
  now: string;
  agents: TownAgent[];
  agents_by_state: Record<AgentState, number>;
  agents_total: number;
  board: TownColumn[];
  missions: TownMission[];
  missions_total: number;
  archived: number;
  help: TownHelp[];
  inboxes: TownInbox[];
  inboxes_total: number;
  let_go: number;
  refused: number;
  mission: MissionPage | null;
  task: TaskPage | null;
  agent: AgentPage | null;
}

/** What the server says to a mission that it has started. */
export interface StartedAnswer {
  positions: string[];
  mission: string;
  left_out: string[];
}
