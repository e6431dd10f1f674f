"""The structure of a scenario: the cast, what each agent reads and says, the competition and the limits. `files.py` loads and checks it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from fleetlore.stage.budget import StageLimits

JUDGE = "judge"
OBSERVER = "observer"

LineSlot = Literal["seed", "last", "quote", "visitor", "goal", "self"]
"""Placeholders of a line: the run's seed, the last speaker, their words, a visitor's words, the goal, the speaker's own name."""

CompetitionKind = Literal["none", "judged", "versus", "hidden"]


class ScriptLine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A line to say, with optional thought and mood."""

    text: str
    kind: str | None = None
    """The event kind, one of `may_emit`; the first of them by default."""
    thought: str | None = None
    mood: str | None = None
    use: str | None = None
    """A tool to use with it."""
    after: str | None = None
    """Only after these words were said."""
    answers: str | None = None
    """Only if the last line or the scene contains these words; then it is preferred."""


ScriptLines = tuple[ScriptLine | str, ...]


class AgentScript(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What an agent says without a model. No line is repeated within a run."""

    opening: ScriptLines = ()
    """For its first turn."""
    lines: ScriptLines = ()
    replies: dict[str, ScriptLines] = field(default_factory=dict)
    """Speaker → what to say after that agent spoke."""
    disturbed: ScriptLines = ()
    """After a visitor spoke."""
    closing: ScriptLines = ()
    """For the last turn."""
    reflections: ScriptLines = ()
    verdicts: dict[str, ScriptLines] = field(default_factory=dict)
    """For judges: winner or accused → the ruling."""
    dealt: dict[str, AgentScript] = field(default_factory=dict)
    """Hidden role → the script of the agent that has it; empty parts fall back to the usual script."""


class StageMemory(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What an agent remembers."""

    kind: Literal["episodic", "salience"] = "episodic"
    window: int = 8
    reflect_every: int | None = None
    """After this many visible events, its turn is a reflection."""


class AgentManifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One agent of the cast."""

    name: str = ""
    role: str = "worker"
    persona: str
    subscribes_to: tuple[str, ...] = ()
    """Kinds, or families such as `clue.*`, that wake it and that it may read."""
    may_emit: tuple[str, ...] = ("agent.spoke",)
    """Kinds that it may emit; the first is the default."""
    tick_every: int | None = None
    """It takes every n-th turn by itself; `None`: only when woken."""
    max_consecutive: int = 3
    """Turns in a row that it may take because it was woken; then it skips one."""
    memory: StageMemory = StageMemory()
    tools: tuple[str, ...] = ()
    mind: str = "scripted:"
    script: AgentScript = AgentScript()


class StageScene(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A change of scene at the start of a turn; the seed chooses one of several texts."""

    turn: int
    text: tuple[str, ...] | str


class HiddenRoleDeal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A hidden role: among whom the seed deals it, what its bearer is told, and what the others are told."""

    role: str
    among: tuple[str, ...]
    told: str
    others: str | None = None


class Competition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the cast competes for: nothing, best player, best team, or finding the hidden role."""

    kind: CompetitionKind = "none"
    teams: dict[str, tuple[str, ...]] = field(default_factory=dict)
    deal: HiddenRoleDeal | None = None


class StageScenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A validated scenario."""

    name: str
    title: str
    about: str = ""
    goal: str | None = None
    seeds: tuple[str, ...]
    opening: str
    scenes: tuple[StageScene, ...] = ()
    cast: tuple[AgentManifest, ...]
    competition: Competition = Competition()
    governor: StageLimits = StageLimits()

    @property
    def players(self) -> tuple[AgentManifest, ...]:
        """Agents who can win: all but judges and observers."""
        return tuple(manifest for manifest in self.cast if manifest.role not in (JUDGE, OBSERVER))

    @property
    def judges(self) -> tuple[AgentManifest, ...]:
        """Agents who give verdicts."""
        return tuple(manifest for manifest in self.cast if manifest.role == JUDGE)

    @property
    def candidates(self) -> tuple[str, ...]:
        """Names that a verdict may declare the winner: teams and players."""
        return (*self.competition.teams, *(manifest.name for manifest in self.players))

    def find_agent(self, name: str) -> AgentManifest:
        """The agent with this name; raises `StopIteration` if there is none."""
        return next(manifest for manifest in self.cast if manifest.name == name)

    def find_team(self, name: str) -> str | None:
        """The team of an agent, if it has one."""
        return next((team for team, members in self.competition.teams.items() if name in members), None)


def is_woken_by(manifest: AgentManifest, kind: str) -> bool:
    """Whether an event of this kind wakes the agent."""
    return any(is_matching_kind(pattern, kind) for pattern in manifest.subscribes_to)


def is_matching_kind(pattern: str, kind: str) -> bool:
    """Whether a kind equals the pattern, or belongs to its family (`clue.*`)."""
    return kind.startswith(pattern[:-1]) if pattern.endswith(".*") else kind == pattern
