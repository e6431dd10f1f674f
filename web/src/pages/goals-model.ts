/** A goal in figures: what is left of each budget, turn by turn, and what its states and outcomes are called. */

import { share } from "../charts/figures";
import type { BudgetUse, GoalBurn, GoalFigures, GoalRow, GoalState, GoalTurn } from "../api/types";
import { compact, count, length, usd } from "../ui/times";

type Axis = "turns" | "seconds" | "tokens" | "usd";

/** The axes whose use is known turn by turn. */
const AXES: readonly Axis[] = ["turns", "seconds", "tokens", "usd"];
export const CALLED: Record<Axis, string> = { turns: "Turns", seconds: "Time", tokens: "Tokens", usd: "Money" };

export const SIGNS: Record<GoalState, string> = {
  asking: "?", "needs you": "!", spent: "!", working: "▸", checking: "▸", waiting: "◌", paused: "‖", done: "✓", cancelled: "–",
};
const NEEDS: readonly GoalState[] = ["asking", "needs you", "spent"];

/** Whether a person is needed for it to go on. */
export const needsYou = (state: GoalState): boolean => NEEDS.includes(state);

export const isOver = (row: GoalRow): boolean => row.outcome !== null;

/** Whether it is listed among goals that a person started: goals of tasks are, as soon as they need somebody. */
export const isOwn = (row: GoalRow): boolean => row.task === null || needsYou(row.state);

/** What a goal is, in short: the first paragraph of its description. */
export const headline = (row: GoalRow): string => row.description.trim().split("\n\n", 1)[0] || row.goal;

/** An amount of a unit, or of an axis that is named like one, as people read it. */
export function figure(unit: Axis | BudgetUse["unit"], value: number): string {
  if (unit === "seconds") return length(value);
  if (unit === "usd") return usd(value);
  return unit === "tokens" ? compact(value) : count(value);
}

/** The budgets that have a limit, or of which something was spent, without those that count failures in a row. */
export function budgetsOf(row: GoalRow): BudgetUse[] {
  return row.budgets.filter((one) => !one.is_in_a_row && (one.limit !== null || one.used > 0));
}

/** The budgets of failures in a row, where there were some. */
export const failuresOf = (row: GoalRow): BudgetUse[] => row.budgets.filter((one) => one.is_in_a_row && one.used > 0);

/** How much of a budget is used, from 0 to 1; `null` where there is no limit. */
export function partOf({ used, limit }: BudgetUse): number | null {
  return limit === null || limit <= 0 ? null : share(used, limit);
}

/** The budget that is nearest to its end. */
export function tightest(row: GoalRow): { label: string; used: number } | null {
  const all = budgetsOf(row).flatMap((one) => {
    const part = partOf(one);
    return part === null ? [] : [{ label: one.label, used: part }];
  });
  return all.reduce<{ label: string; used: number } | null>((most, one) => (most === null || one.used > most.used ? one : most), null);
}

export interface Line {
  axis: Axis;
  /** What is left after each point, from 1 to 0; the first is before the first turn. */
  left: number[];
}

/** What is left of each budget that has a limit, by today's limits: they may have been raised on the way. */
export function linesOf(burn: readonly GoalBurn[], limits: GoalFigures): Line[] {
  return AXES.filter((axis) => (limits[axis] ?? 0) > 0).map((axis) => ({
    axis,
    left: [1, ...burn.map((point) => 1 - share(point[axis], limits[axis] ?? 0))],
  }));
}

const SPENT: Record<string, string> = {
  wall_time: "time", usd: "dollars", consecutive_denies: "patience: too many tools were denied in a row", consecutive_errors: "patience: too many errors in a row",
  consecutive413: "patience: the context was too long, again and again",
};

/** Why it ended, where it ended otherwise than well. */
export function whyOf(row: GoalRow): string {
  return row.outcome === "budget_exhausted" ? `Out of ${SPENT[row.why] ?? row.why}` : row.why;
}

const OUTCOMES: Record<string, string> = {
  done: "done", needs_retry: "not yet", continue: "goes on", sleep: "asleep", budget_exhausted: "budget spent", cancelled: "called off", escalate: "needs you",
  summary: "wrote a summary",
};

/** What a turn came to, in a word or two. */
export function outcomeOf(turn: GoalTurn): string {
  if (turn.complaint === "interrupted") return "cut short";
  return turn.complaint?.replaceAll("_", " ") ?? OUTCOMES[turn.outcome] ?? turn.outcome.replaceAll("_", " ");
}

type Tone = "done" | "trouble" | "work" | "quiet";

export function toneOf(turn: GoalTurn): Tone {
  if (turn.outcome === "done") return "done";
  if (turn.complaint !== null || turn.outcome === "escalate" || turn.outcome === "budget_exhausted") return "trouble";
  return turn.outcome === "needs_retry" ? "work" : "quiet";
}

/** What a turn's check found; empty where none was made. */
export function verdictOf(turn: GoalTurn, criteria: number): string {
  if (turn.failing === null) return "";
  return turn.failing === 0 ? "all criteria met" : `${turn.failing} of ${criteria} not met`;
}

/** Text with `code` in backticks, cut into its parts: every second one is code. */
export const codes = (text: string): string[] => text.split("`");

/** What somebody wrote for a limit, as the server reads it; `null` if it is none. */
export function limitOf(unit: BudgetUse["unit"], text: string): string | number | null {
  const said = text.trim().replace(/^\$/, "").replaceAll(/[,_ ](?=\d{3})/g, "");
  if (unit === "seconds") return /^(\d+ ?(d|h|m|min|s)\s*)+$/.test(said) ? said : null;
  const size = /k$/i.test(said) ? 1e3 : /m$/i.test(said) ? 1e6 : 1;
  const value = Number(said.replace(/[km]$/i, "")) * size;
  if (!said || !Number.isFinite(value) || value <= 0) return null;
  return unit === "usd" ? value : Math.round(value);
}
