/** The shapes of the server's answers. Times are RFC 3339, positions opaque. Every text in them is hostile: show it with `Words`. */

export interface Head {
  as_of: string | null;
  at: string | null;
  live: boolean;
  caught_up: boolean;
}

export interface Meta {
  town: string;
  log: string;
  version: string;
  head: string | null;
  events: number;
  first_at: string | null;
  last_at: string | null;
  caught_up: boolean;
  done: number;
  total: number;
  token_needed_to_read: boolean;
  scopes_of_token: string[];
  sealed: boolean;
  silent_after_seconds: number;
}

export interface LoreEvent {
  id: string;
  at: string;
  kind: string;
  actor: string;
  agent?: string;
  parent?: string;
  child?: string;
  task?: string;
  mission?: string;
  goal?: string;
  run?: string;
  cause?: string;
  trace?: string;
  old_state?: string;
  new_state?: string;
  text?: string;
  visibility?: string;
  data?: Record<string, unknown>;
  origin?: Record<string, unknown>;
  position?: string;
  [other: string]: unknown;
}

export interface EventsAnswer {
  events: LoreEvent[];
  next: string | null;
}

export type FoundEvent = LoreEvent & { excerpt?: string };

export interface SearchAnswer {
  events: FoundEvent[];
  indexing: boolean;
}

export type Standing = "needs you" | "working" | "silent" | "idle" | "ended";
export type BeatName =
  | "claim" | "progress" | "propose" | "deliver" | "setback" | "recovery" | "release" | "together"
  | "handoff" | "judgement" | "pulse" | "rest" | "feat" | "voice" | "thought";
export type Family = "work" | "done" | "trouble" | "talk" | "quiet";

export interface AgentCard {
  name: string;
  shown: string;
  standing: Standing;
  /** No sign of life for a day, and nobody is needed. */
  at_rest: boolean;
  since: string | null;
  doing: string;
  kind: string | null;
  last_seen: string | null;
  task: string | null;
  mission: string | null;
  goal: string | null;
  run: string | null;
  parent: string | null;
  events: number;
  beats: [at: string, beat: string][];
  tokens: number;
  usd: number | null;
  last_id: string | null;
  last_position: string | null;
}

export interface FleetAnswer extends Head {
  now: string;
  /** By standing, without those at rest. */
  counts: Partial<Record<Standing, number>>;
  at_rest: number;
  agents: AgentCard[];
  asking: { mission: string; text: string; since: string }[];
}

export interface Thread {
  key: string;
  title: string;
  state: "open" | "closed";
  mission: string | null;
  agents: Record<string, number>;
  counts: Record<string, number>;
  first_at: string;
  last_at: string;
  events: number;
  stalled_seconds: number | null;
}

export interface ThreadsAnswer extends Head {
  threads: Thread[];
  total: number;
}

export interface Arc {
  kind: string;
  thread: string;
  title: string;
  agents: string[];
  state: "open" | "closed";
  first: string;
  last: string;
  evidence: string[];
  count: number;
  first_at: string;
  last_at: string;
  note: string;
  text: string;
}

export interface ArcsAnswer extends Head {
  arcs: Arc[];
  counts: Record<string, number>;
}

/** Where a fact comes from: the event, and the record's own id in the program. */
export interface Source {
  event: string;
  source: string;
}

export interface BriefLine {
  text: string;
  sessions: string[];
  tasks: string[];
  evidence: Source[];
}

export interface Brief {
  title: string;
  since: string | null;
  until: string | null;
  delivered: BriefLine[];
  in_progress: BriefLine[];
  went_wrong: BriefLine[];
  check_this: BriefLine[];
  needs_you: BriefLine[];
  bill: { text: string; sessions: number; usd: number | null; tokens: number; commits: number; pull_requests: number; tasks_closed: number };
}

/** `days`: the day that is shown, and the nearest days with sessions before and after it. */
export interface BriefAnswer extends Head {
  brief: Brief;
  days: { shown: string | null; previous: string | null; next: string | null };
}

export interface StorySentence {
  text: string;
  evidence: Source[];
}

export interface StoryParagraph {
  title: string;
  session: string | null;
  started: string | null;
  ended: string | null;
  sentences: StorySentence[];
}

export interface Story {
  title: string;
  since: string | null;
  until: string | null;
  paragraphs: StoryParagraph[];
  bill: string;
}

export interface StoryAnswer extends Head {
  story: Story;
}

export interface FileDiff {
  path: string;
  diff: string;
  is_new: boolean;
  is_cut: boolean;
}

export interface EvidenceItem {
  id: string;
  kind: string;
  at: string | null;
  agent: string | null;
  session: string | null;
  task: string | null;
  what: "command" | "edit" | "read" | "search" | "other" | "text";
  text: string;
  tool: string;
  command: string;
  description: string;
  folder: string;
  paths: string[];
  edits: FileDiff[];
  state: "ok" | "failed" | "denied" | "interrupted" | "unknown";
  exit_code: number | null;
  output: string;
  is_cut: boolean;
}

export interface EvidenceAnswer {
  items: EvidenceItem[];
  missing: string[];
  hidden: number;
}

export interface Figures {
  input: number;
  output: number;
  cache_read: number;
  cache_write: number;
  tokens: number;
  usd: number | null;
}

export type CostRow = Figures & { name?: string; [by: string]: string | number | null | undefined };

export interface CostsAnswer extends Head {
  total: Figures;
  by: CostRow[];
  unpriced: unknown;
  prices: string;
  older?: Figures | null;
}

export interface Lane {
  agent: string;
  shown: string;
  standing: Standing | null;
  total: number;
  buckets: [index: number, counts: number[]][];
}

export interface Mark {
  id: string;
  at: string;
  agent: string;
  beat: string | null;
  family: Family;
  kind: string;
  text: string;
  cause: string | null;
  position: string;
}

export interface TimelineAnswer extends Head {
  from: string | null;
  to: string | null;
  first_at: string | null;
  last_at: string | null;
  exact: boolean;
  bucket_seconds: number;
  families: Family[];
  lanes: Lane[];
  marks: Mark[];
  links: [from: string, to: string][];
  arcs: (Arc & { lanes: string[] })[];
  more_lanes: number;
}

export interface StageLine {
  id: string;
  at: string;
  turn: number;
  speaker: string;
  kind: string;
  text: string;
  mood: string | null;
  /** What a visitor is called. */
  label: string | null;
  position: string;
}

export interface StageThought {
  /** That of the line it belongs to, where there is one. */
  id: string;
  at: string;
  turn: number;
  owner: string;
  kind: string;
  text: string;
  mood: string | null;
  position: string;
}

export interface StagePlayer {
  name: string;
  role: string | null;
  team: string | null;
  lines: number;
  last_said: string | null;
  mood: string | null;
  thinking: boolean;
  persona: string | null;
}

export interface StageVerdict {
  id: string;
  at: string;
  turn: number;
  judge: string;
  text: string;
  winner: string | null;
  scores: Record<string, number>;
  accused: string | null;
  correct: boolean | null;
  reveal: Record<string, string>;
  position: string;
}

/** How much of one budget is used. */
export interface BudgetUse {
  axis: string;
  label: string;
  unit: "count" | "tokens" | "usd" | "seconds";
  used: number;
  /** `null` where there is none. */
  limit: number | null;
  is_in_a_row: boolean;
}

export interface StageFigures {
  turns: number | null;
  calls: number | null;
  tokens: number | null;
  usd: number | null;
  seconds: number | null;
}

export interface StagePlay {
  run: string;
  title: string;
  scenario: string;
  seed: string;
  goal: string;
  at: string;
  turn: number;
  scene: StageLine | null;
  cast: StagePlayer[];
  lines: StageLine[];
  /** How many things the cast has said in all. */
  said: number;
  /** Empty unless minds are read. */
  thoughts: StageThought[];
  verdicts: StageVerdict[];
  finished: { id: string; at: string; reason: string; winner: string | null; text: string } | null;
  spent: StageFigures;
  budget: StageFigures;
  /** Every budget in order; empty where the limits are not known. */
  budgets: BudgetUse[];
}

export interface StageRun {
  run: string;
  scenario: string;
  seed: string;
  at: string;
  turn: number;
  said: number;
  finished: boolean;
  winner: string | null;
}

export interface StageAnswer extends Head {
  play: StagePlay | null;
  runs: StageRun[];
  let_go: number;
}
