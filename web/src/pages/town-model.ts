/** A town in words and signs: no state is told by its colour alone. */

import type { AgentState, ItemState, MissionState, TaskState, TownItem, TownMission, TownTask } from "../api/types";

export const AGENT_SIGNS: Record<AgentState, string> = { cold: "○", starting: "◔", idle: "–", working: "▸", paused: "‖", draining: "▿", stopped: "■", error: "!" };
export const AGENT_STATES: readonly AgentState[] = ["error", "paused", "working", "starting", "draining", "idle", "cold", "stopped"];

export const TASK_SIGNS: Record<TaskState, string> = { pending: "◌", assigned: "◔", running: "▸", completed: "✓", failed: "!", cancelled: "–" };
export const MISSION_SIGNS: Record<MissionState, string> = { planning: "◌", running: "▸", blocked: "‖", completed: "✓", failed: "!" };

/** How an item stands, as a person asks: one that is blocked waits for a review, or for a person. */
type Stand = "waits" | "ready" | "assigned" | "running" | "review" | "stuck" | "done";

export const STANDS: readonly Stand[] = ["done", "running", "assigned", "review", "stuck", "ready", "waits"];
export const STAND_SIGNS: Record<Stand, string> = { waits: "◌", ready: "○", assigned: "◔", running: "▸", review: "◎", stuck: "!", done: "✓" };
export const STAND_WORDS: Record<Stand, string> = {
  waits: "waits for others", ready: "ready", assigned: "given out", running: "being worked on", review: "in review or held up", stuck: "needs a person", done: "done",
};

const STANDING: Record<ItemState, Stand> = { pending: "waits", ready: "ready", assigned: "assigned", running: "running", blocked: "review", done: "done" };

export function standOf(item: TownItem): Stand {
  return item.is_stuck && item.state !== "done" ? "stuck" : STANDING[item.state];
}

/** The parts of a mission's bar, in the order in which they are drawn. */
export function partsOf(mission: TownMission): { stand: Stand; many: number }[] {
  const held = Math.max(0, mission.by_state.blocked - mission.stuck);
  const many: Record<Stand, number> = {
    done: mission.by_state.done, running: mission.by_state.running, assigned: mission.by_state.assigned,
    review: held, stuck: mission.by_state.blocked - held, ready: mission.by_state.ready, waits: mission.by_state.pending,
  };
  return STANDS.map((stand) => ({ stand, many: many[stand] })).filter((part) => part.many > 0);
}

export const PRIORITY_SIGNS: Record<string, string> = { urgent: "▲▲", high: "▲", low: "▽" };

/** Since when a task is as it is. */
export function sinceOf(task: TownTask): string | null {
  return task.ended_at ?? task.started_at ?? task.at;
}

export const called = (word: string): string => word.replaceAll("_", " ");
