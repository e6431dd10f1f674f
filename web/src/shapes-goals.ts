/** What `/api/goals` answers. As everywhere, every text is hostile: show it with `Words`. */

import type { BudgetUse, Head } from "./shapes";

export type { BudgetUse };

export type GoalState = "working" | "checking" | "waiting" | "asking" | "paused" | "done" | "spent" | "needs you" | "cancelled";
export type Action = "pause" | "resume" | "cancel" | "say" | "raise";
export type Choice = "allow" | "deny";

export interface GoalFigures {
  turns: number;
  seconds: number;
  tokens: number;
  usd: number | null;
  denies: number;
  errors: number;
  overflows: number;
}

export interface GoalRow {
  goal: string;
  state: GoalState;
  description: string;
  agent: string;
  shown: string;
  /** `null` where somebody else's driver pursues it. */
  harness: string | null;
  turn: number;
  at: string | null;
  seen_at: string | null;
  ended_at: string | null;
  outcome: string | null;
  why: string;
  spent: GoalFigures;
  limits: GoalFigures;
  /** Every budget in order, also those that `spent` and `limits` have no field for. */
  budgets: BudgetUse[];
  /** Its time goes on. */
  ticking: boolean;
  /** It is under way, and nobody drives it any more. */
  adrift: boolean;
  met: number;
  criteria: number;
  asking: number;
  parent: string | null;
  signed: boolean | null;
  position: string | null;
}

export interface GoalTurn {
  number: number;
  id: string;
  outcome: string;
  counts: boolean;
  complaint: string | null;
  words: string;
  at: string | null;
  ended_at: string | null;
  seconds: number;
  tokens: number;
  usd: number;
  failing: number | null;
  diff: string;
}

export interface GoalUnderWay {
  turn: number;
  id: string;
  at: string | null;
  tokens: number;
  usd: number;
  calls: number;
  last_tool: string;
  is_summary: boolean;
  is_over: boolean;
}

export interface GoalBurn {
  turn: number;
  at: string | null;
  turns: number;
  seconds: number;
  tokens: number;
  usd: number;
}

export interface GoalCriterion {
  kind: string;
  text: string;
  met: boolean | null;
  message: string;
  evidence: string;
}

export interface GoalQuestion {
  id: string;
  turn: number;
  tool: string;
  input: unknown;
  /** How many texts of the input were cut, or had secrets taken out. */
  hidden: number;
  at: string | null;
  expires: string | null;
  /** What a person has said, until the driver has heard it. */
  answered: Choice | null;
}

export interface GoalDecision {
  id: string;
  turn: number;
  tool: string;
  choice: string;
  why: string;
  at: string | null;
}

export interface GoalMessage {
  id: string;
  by: string;
  text: string;
  at: string | null;
  is_told: boolean;
}

export interface GoalRequest {
  id: string;
  at: string | null;
  by: string;
  action: string;
  text: string;
  obeyed: boolean | null;
}

export interface GoalPage extends GoalRow {
  under_way: GoalUnderWay | null;
  words: string;
  workspace: string | null;
  branch: string | null;
  is_paused: boolean;
  cancel: string | null;
  wake: string | null;
  waiting_for: string;
  driver: string | null;
  next: string;
  can: Action[];
  turns: GoalTurn[];
  burn: GoalBurn[];
  acceptance: GoalCriterion[];
  checked: string | null;
  questions: GoalQuestion[];
  decisions: GoalDecision[];
  allowed: number;
  denied: number;
  messages: GoalMessage[];
  requests: GoalRequest[];
  unsigned: number;
  above: GoalRow | null;
  below: GoalRow[];
}

export interface GoalsAnswer extends Head {
  now: string;
  goals: GoalRow[];
  total: number;
  let_go: number;
  signatures: "none" | "named" | "checked";
  goal: GoalPage | null;
}
