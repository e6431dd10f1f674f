"""What a scenario is: who plays, what each may hear and say, what is at stake, and what it may cost."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from fleetlore.stage.budget import StageLimits

JUDGE = "judge"
OBSERVER = "observer"

LineSlot = Literal["seed", "last", "quote", "visitor", "goal", "self"]
"""What a line may leave open: the run's seed, who spoke last, what that one said, what a visitor said, the goal, the speaker."""

CompetitionKind = Literal["none", "judged", "versus", "hidden"]


class ScriptLine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One thing to say, what is thought while saying it, and in what mood."""

    text: str
    kind: str | None = None
    """Which of the kinds that it may emit; the first where nothing is said."""
    thought: str | None = None
    mood: str | None = None
    use: str | None = None
    """A tool to use with it."""
    after: str | None = None
    """Only once these words have fallen."""
    answers: str | None = None
    """Only, and then first of all, where these words are in what was said last or in the scene."""


ScriptLines = tuple[ScriptLine | str, ...]


class AgentScript(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What an agent says where no model is asked. No line is said twice in a run."""

    opening: ScriptLines = ()
    """For the first time that it speaks."""
    lines: ScriptLines = ()
    replies: dict[str, ScriptLines] = field(default_factory=dict)
    """Name → what to say after that one spoke."""
    disturbed: ScriptLines = ()
    """After a visitor broke in."""
    closing: ScriptLines = ()
    """For the end."""
    reflections: ScriptLines = ()
    verdicts: dict[str, ScriptLines] = field(default_factory=dict)
    """For judges: winner, or accused → the ruling."""
    dealt: dict[str, AgentScript] = field(default_factory=dict)
    """Hidden role → what is said by whoever was dealt it; an empty list there leaves the usual one."""


class StageMemory(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What an agent remembers."""

    kind: Literal["episodic", "salience"] = "episodic"
    window: int = 8
    reflect_every: int | None = None
    """After so many things that it could see, it takes a turn to come to a belief."""


class AgentManifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One of the cast."""

    name: str = ""
    role: str = "worker"
    persona: str
    subscribes_to: tuple[str, ...] = ()
    """Kinds, or families such as `clue.*`, that wake it and that it may read."""
    may_emit: tuple[str, ...] = ("agent.spoke",)
    """Kinds that it may put on the log; the first is what it says where it names none."""
    tick_every: int | None = None
    """It takes every so-manieth turn by itself; `None`: only when woken."""
    max_consecutive: int = 3
    """Turns in a row that it may take because it was woken; then it sits one out."""
    memory: StageMemory = StageMemory()
    tools: tuple[str, ...] = ()
    mind: str = "scripted:"
    script: AgentScript = AgentScript()


class StageScene(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How the scene changes when a turn begins: one of several texts, as the seed has it."""

    turn: int
    text: tuple[str, ...] | str


class HiddenRoleDeal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A hidden role: to whom the seed gives it, what that one is told, and what the others are."""

    role: str
    among: tuple[str, ...]
    told: str
    others: str | None = None


class Competition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is at stake: nothing; the best of the cast; a team; or who bears the hidden role."""

    kind: CompetitionKind = "none"
    teams: dict[str, tuple[str, ...]] = field(default_factory=dict)
    deal: HiddenRoleDeal | None = None


class StageScenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A scenario, checked."""

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
        """Those who can win: all but judges and observers."""
        return tuple(manifest for manifest in self.cast if manifest.role not in (JUDGE, OBSERVER))

    @property
    def judges(self) -> tuple[AgentManifest, ...]:
        """Those who rule."""
        return tuple(manifest for manifest in self.cast if manifest.role == JUDGE)

    @property
    def candidates(self) -> tuple[str, ...]:
        """Whom a verdict may name as the winner: the teams where there are any, and every player."""
        return (*self.competition.teams, *(manifest.name for manifest in self.players))

    def find_agent(self, name: str) -> AgentManifest:
        """One of the cast."""
        return next(manifest for manifest in self.cast if manifest.name == name)

    def find_team(self, name: str) -> str | None:
        """The team that somebody plays for."""
        return next((team for team, members in self.competition.teams.items() if name in members), None)


def is_woken_by(manifest: AgentManifest, kind: str) -> bool:
    """Whether a kind wakes it."""
    return any(is_matching_kind(pattern, kind) for pattern in manifest.subscribes_to)


def is_matching_kind(pattern: str, kind: str) -> bool:
    """Whether a kind is this one, or of this family."""
    return kind.startswith(pattern[:-1]) if pattern.endswith(".*") else kind == pattern
