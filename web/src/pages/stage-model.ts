/** A run as a script to be read: lines, scenes, visitors, thoughts and verdicts in the order of the log. */

import type { StageLine, StagePlay, StagePlayer, StageThought, StageVerdict } from "../api/types";

const VOICES = 8;

export type Entry =
  | { is: "line"; line: StageLine; thought: StageThought | null; goesOn: boolean }
  | { is: "scene" | "visitor" | "aside"; line: StageLine; thought: StageThought | null }
  | { is: "thought"; thought: StageThought }
  | { is: "verdict"; verdict: StageVerdict };

/** What belongs to one turn; what came before the first is turn nought. */
export interface Turn {
  turn: number;
  entries: Entry[];
}

const SPEECH = new Set(["agent.spoke", "oracle.spoke"]);

function entryOf(line: StageLine, thought: StageThought | null): Entry {
  if (SPEECH.has(line.kind)) return { is: "line", line, thought, goesOn: false };
  if (line.kind === "world.observed") return { is: "scene", line, thought };
  return { is: line.kind === "user.injected" ? "visitor" : "aside", line, thought };
}

function partOf(entry: Entry): StageLine | StageThought | StageVerdict {
  if (entry.is === "verdict") return entry.verdict;
  return entry.is === "thought" ? entry.thought : entry.line;
}

export function keyOf(entry: Entry): string {
  return `${entry.is}:${partOf(entry).id}`;
}

function inOrder(play: StagePlay): Entry[] {
  const thoughts = new Map(play.thoughts.map((thought) => [thought.id, thought]));
  const lines = play.lines.map((line) => entryOf(line, thoughts.get(line.id) ?? null));
  const spoken = new Set(play.lines.map((line) => line.id));
  const alone = play.thoughts.filter((thought) => !spoken.has(thought.id)).map((thought): Entry => ({ is: "thought", thought }));
  const verdicts = play.verdicts.map((verdict): Entry => ({ is: "verdict", verdict }));
  const position = (entry: Entry): string => partOf(entry).position;
  return [...lines, ...alone, ...verdicts].sort((a, b) => (position(a) < position(b) ? -1 : position(a) > position(b) ? 1 : 0));
}

/** The scene in the light: the newest; of a play that is over the first that is shown, as it is read from its beginning. */
export function sceneOf(play: StagePlay): StageLine | null {
  const first = play.lines.find((line) => line.kind === "world.observed");
  return (play.finished ? first : null) ?? play.scene;
}

/** The script, turn by turn. A turn that the log does not name belongs to the one before. The opening is left out while it is in the light. */
export function scriptOf(play: StagePlay): Turn[] {
  const turns: Turn[] = [];
  const opening = play.lines[0]?.id === sceneOf(play)?.id ? play.lines[0]?.id : undefined;
  let speaker = "";
  for (const entry of inOrder(play)) {
    if (entry.is === "scene" && entry.line.id === opening) continue;
    let last = turns.at(-1);
    const turn = Math.max(partOf(entry).turn, last?.turn ?? 0);
    if (!last || last.turn < turn) {
      turns.push((last = { turn, entries: [] }));
      speaker = "";
    }
    if (entry.is === "line") entry.goesOn = entry.line.speaker === speaker;
    speaker = entry.is === "line" ? entry.line.speaker : entry.is === "thought" ? speaker : "";
    last.entries.push(entry);
  }
  return turns;
}

/** Each player's colour, from one on; judges, and whoever is not of the cast, speak in ink (nought). */
export function voicesOf(cast: readonly StagePlayer[]): Map<string, number> {
  const players = cast.filter((player) => player.role !== "judge");
  return new Map(players.map((player, index) => [player.name, (index % VOICES) + 1]));
}

/** Up to two letters for a character's mark. */
export function initials(name: string): string {
  const words = name.match(/[\p{L}\p{N}]+/gu) ?? [];
  return words.slice(0, 2).map((word) => [...word][0]?.toUpperCase() ?? "").join("") || "?";
}

/** Scores, the best first, each as a share of the best there can be. */
export function rankOf(verdict: StageVerdict): { name: string; score: number; share: number }[] {
  const most = Math.max(10, ...Object.values(verdict.scores));
  return Object.entries(verdict.scores).map(([name, score]) => ({ name, score, share: Math.max(0, score) / most })).sort((a, b) => b.score - a.score);
}
