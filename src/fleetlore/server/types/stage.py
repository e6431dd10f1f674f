"""Response types of `/api/stage`. Private thoughts have their own type and list, which is empty unless `minds=true`."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct, field

from fleetlore.events.budget_axes import BudgetUse
from fleetlore.server.types.common import Head


class StageLine(Struct, kw_only=True):
    """A public event: a line, a change of scene, a visitor, a remark."""

    id: str
    at: datetime
    turn: int
    speaker: str
    kind: str
    text: str
    mood: str | None
    label: str | None
    """The name of a visitor."""
    position: str


class StageThought(Struct, kw_only=True):
    """A private thought of one player. A thought that belongs to a line has the line's id."""

    id: str
    at: datetime
    turn: int
    owner: str
    kind: str
    text: str
    mood: str | None
    position: str


class StagePlayer(Struct, kw_only=True):
    """A member of the cast."""

    name: str
    role: str | None
    team: str | None
    lines: int
    last_said: str | None
    """Its newest line among those shown."""
    mood: str | None
    thinking: bool
    """Whether its model was called and has not answered yet."""
    persona: str | None
    """Its role description; private, like its thoughts."""


class StageVerdict(Struct, kw_only=True):
    """A judge's verdict."""

    id: str
    at: datetime
    turn: int
    judge: str
    text: str
    winner: str | None
    scores: dict[str, float]
    accused: str | None
    correct: bool | None
    """Whether the accusation was right."""
    reveal: dict[str, str]
    """Player → hidden role."""
    position: str


class StageFinish(Struct, kw_only=True):
    """How a run ended."""

    id: str
    at: datetime
    reason: str
    winner: str | None
    text: str


class StageFigures(Struct, kw_only=True):
    """Use or limits of a run; `null` is no limit or not known."""

    turns: int | None = None
    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None


class StagePlay(Struct, kw_only=True):
    """Details of one run."""

    run: str
    title: str
    scenario: str
    seed: str
    goal: str
    at: datetime
    turn: int
    scene: StageLine | None
    cast: list[StagePlayer]
    lines: list[StageLine] = field(default_factory=list)
    """The newest, oldest first."""
    said: int
    """Total number of lines of the cast."""
    thoughts: list[StageThought] = field(default_factory=list)
    verdicts: list[StageVerdict]
    finished: StageFinish | None
    spent: StageFigures
    budget: StageFigures = field(default_factory=StageFigures)
    budgets: list[BudgetUse] = field(default_factory=list)
    """Every budget, with axes that `spent` and `budget` have no field for; empty if the limits are not known."""


class StageRun(Struct, kw_only=True):
    """One run in the list."""

    run: str
    scenario: str
    seed: str
    at: datetime
    turn: int
    said: int
    finished: bool
    winner: str | None


class Stage(Head, kw_only=True):
    """One run of a cast, and the list of runs, newest first."""

    play: StagePlay | None
    """The requested run, else the newest; `null` if it is not found."""
    runs: list[StageRun]
    let_go: int
    """Older runs that the view dropped; their events are still on the log."""
