/**
 * Short names for the types of the server's answers. `npm run types` generates them from the OpenAPI document.
 * Times are RFC 3339, positions are opaque, and every text is untrusted: show it with `Words`.
 */

import type { components, paths } from "./types.gen";

type Schemas = components["schemas"];

/** What a GET of this path answers. */
export type Answer<Path extends keyof paths> = paths[Path] extends { get: { responses: { 200: { content: { "application/json": infer Body } } } } } ? Body : never;

/** How every view begins. */
export type Head = Pick<Schemas["Fleet"], "as_of" | "at" | "live" | "caught_up">;
export type Meta = Schemas["Meta"];

// Events and search. An event has what its program wrote, so it is open; the document describes what is stored.
export type LoreEvent = Partial<Omit<Schemas["Event"], "data" | "origin" | "visibility">> & {
  id: string;
  at: string;
  kind: string;
  actor: string;
  visibility?: string;
  data?: Record<string, unknown>;
  origin?: Record<string, unknown>;
  position?: string;
  [other: string]: unknown;
};
export type FoundEvent = LoreEvent & { excerpt?: string };
export type EventsAnswer = Omit<Schemas["Events"], "events"> & { events: LoreEvent[] };
export type SearchAnswer = Omit<Schemas["Found"], "events"> & { events: FoundEvent[] };
export type EvidenceAnswer = Schemas["Evidence"];
export type EvidenceItem = Schemas["EvidenceItem"];
export type FileDiff = Schemas["FileDiff"];

// The fleet. The document has no arrays of a fixed length, so pairs are named here.
export type Standing = Schemas["AgentCard"]["standing"];
export type AgentCard = Omit<Schemas["AgentCard"], "beats"> & { beats: [at: string, beat: string][] };
export type FleetAnswer = Omit<Schemas["Fleet"], "agents"> & { agents: AgentCard[] };
export type Arc = Schemas["ArcRow"];

// Beats of the timeline and of events, in groups. The words are those of `events/payload.py`.
export type BeatName =
  | "claim" | "progress" | "propose" | "deliver" | "setback" | "recovery" | "release" | "together"
  | "handoff" | "judgement" | "pulse" | "rest" | "feat" | "voice" | "thought";
export type Family = "work" | "done" | "trouble" | "talk" | "quiet";
export type Lane = Omit<Schemas["LaneRow"], "buckets"> & { buckets: [index: number, counts: number[]][] };
export type Mark = Omit<Schemas["Mark"], "family"> & { family: Family };
export type TimelineAnswer = Omit<Schemas["Timeline"], "lanes" | "marks" | "links" | "families"> & {
  families: Family[];
  lanes: Lane[];
  marks: Mark[];
  links: [from: string, to: string][];
};

// What happened.
export type Outcome = Schemas["Outcome"];
export type CheckName = keyof Outcome["checks"];
export type TranscriptRow = Schemas["TranscriptRow"];
export type TranscriptAnswer = Schemas["TranscriptPage"];
export type TranscriptMatches = Schemas["TranscriptMatches"];
export type FileExplanation = Schemas["FileExplanation"];
export type ExplainedLines = Schemas["ExplainedLines"];
export type LineSession = Schemas["LineSession"];
export type SessionDiffAnswer = Schemas["SessionDiff"];
export type HandOverAnswer = Schemas["HandOver"];
export type SessionsAnswer = Schemas["Sessions"];
export type SessionAnswer = Schemas["Session"];
export type Source = Schemas["Source"];
export type Brief = Schemas["Brief"];
export type BriefLine = Schemas["BriefLine"];
export type BriefAnswer = Schemas["PeriodBrief"];
export type Story = Schemas["Story"];
export type StoryParagraph = Schemas["StoryParagraph"];
export type StorySentence = Schemas["StorySentence"];
export type StoryAnswer = Schemas["PeriodStory"];

// Costs. A row has the names that it is counted by, such as `model` and `day`.
export interface Figures {
  input: number;
  output: number;
  cache_read: number;
  cache_write: number;
  tokens: number;
  usd: number | null;
}
export type CostRow = Figures & { name?: string; [by: string]: string | number | null | undefined };
export type CostsAnswer = Omit<Schemas["Costs"], "total" | "by" | "older"> & { total: Figures; by: CostRow[]; older?: Figures | null };

// Goals.
export type BudgetUse = Schemas["BudgetUse"];
export type GoalState = Schemas["GoalRow"]["state"];
export type GoalFigures = Schemas["GoalFigures"];
export type GoalRow = Schemas["GoalRow"];
export type GoalTurn = Schemas["GoalTurn"];
export type GoalUnderWay = Schemas["GoalNow"];
export type GoalBurn = Schemas["GoalBurn"];
export type GoalCriterion = Schemas["GoalCriterion"];
export type GoalQuestion = Schemas["GoalQuestion"];
export type GoalDecision = Schemas["GoalDecision"];
export type GoalMessage = Schemas["GoalMessage"];
export type GoalRequest = Schemas["GoalRequest"];
export type GoalPage = Schemas["GoalPage"];
export type GoalsAnswer = Schemas["Goals"];
export type Action = Schemas["Steering"]["action"];
export type Choice = Schemas["Decide"]["choice"];
export type OpenApproval = Schemas["OpenApproval"];
export type OpenApprovals = Schemas["OpenApprovals"];

// The town. Every state is counted, also those with none.
export type AgentState = Schemas["TownAgent"]["state"];
export type TaskState = Schemas["TownTask"]["state"];
export type MissionState = Schemas["TownMission"]["state"];
export type ItemState = Schemas["TownItem"]["state"];
export type TownAgent = Schemas["TownAgent"];
export type TownTask = Schemas["TownTask"];
export type TownColumn = Schemas["TownColumn"];
export type TownMission = Omit<Schemas["TownMission"], "by_state"> & { by_state: Record<ItemState, number> };
export type TownHelp = Schemas["TownHelp"];
export type TownMessage = Schemas["TownMessage"];
export type TownInbox = Schemas["TownInbox"];
export type TownItem = Schemas["TownItem"];
export type TownWatch = Schemas["TownWatch"];
export type TownNote = Schemas["TownNote"];
export type MissionPage = Omit<Schemas["MissionPage"], "by_state"> & { by_state: Record<ItemState, number> };
export type TaskPage = Schemas["TaskPage"];
export type AgentPage = Schemas["AgentPage"];
export type TownAnswer = Omit<Schemas["Town"], "agents_by_state" | "missions" | "mission"> & {
  agents_by_state: Record<AgentState, number>;
  missions: TownMission[];
  mission: MissionPage | null;
};
export type StartedAnswer = Schemas["MissionStarted"];

// The stage.
export type StageLine = Schemas["StageLine"];
export type StageThought = Schemas["StageThought"];
export type StagePlayer = Schemas["StagePlayer"];
export type StageVerdict = Schemas["StageVerdict"];
export type StageFigures = Schemas["StageFigures"];
export type StagePlay = Schemas["StagePlay"];
export type StageRun = Schemas["StageRun"];
export type StageAnswer = Schemas["Stage"];

// Graph agents.
export type GraphNode = Schemas["GraphNode"];
export type GraphEdge = Schemas["GraphEdge"];
export type GraphShape = Schemas["GraphShape"];
export type GraphList = Schemas["GraphList"];
export type ChatSession = Schemas["ChatSession"];
/** Something on the agent's screen. What else it has is up to the agent. */
export type Control = { type: string; [other: string]: unknown };
/** `n` is the number of this screen on its socket. */
export type Screen = Omit<Schemas["Screen"], "controls"> & { controls: Control[]; n?: number };
export type ChatAnswer = Omit<Schemas["Chat"], "screen"> & { screen: Screen | null };

/** What the chat's socket sends; it is not in the OpenAPI document (docs/graph.md). */
export type SocketMessage =
  | ({ type: "screen" } & Screen)
  | { type: "hud"; node?: string; event?: string }
  | { type: "delta"; content: string }
  | { type: "controls"; n: number; controls: Control[]; state: Record<string, unknown> }
  | { type: "error"; message: string }
  | { type: "done" };
