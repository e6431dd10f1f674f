import type { BeatName, Family } from "../api/types";

export const FAMILIES: readonly Family[] = ["work", "done", "trouble", "talk", "quiet"];

const BY_BEAT: Record<BeatName, Family> = {
  claim: "work", progress: "work", propose: "work",
  deliver: "done", recovery: "done", feat: "done",
  setback: "trouble", release: "trouble",
  together: "talk", handoff: "talk", judgement: "talk", voice: "talk", thought: "talk",
  pulse: "quiet", rest: "quiet",
};

/** The family of a beat, as the server has it (`views/activity.py`): what has no beat is work. */
export function familyOf(beat: string | null | undefined): Family {
  return BY_BEAT[beat as BeatName] ?? "work";
}

export const SAID: Record<Family, string> = {
  work: "work", done: "done / fixed", trouble: "trouble", talk: "messages and reviews", quiet: "heartbeat / idle",
};
