"""What `/api/stage` answers, as types. What was thought has a type and a list of its own: it is empty unless it was asked for."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct, field

from fleetlore.server.types.common import Head


class StageLine(Struct, kw_only=True):
    """What all could hear or see: a line, a change of scene, a visitor, a remark."""

    id: str
    at: datetime
    turn: int
    speaker: str
    kind: str
    text: str
    mood: str | None
    label: str | None
    """What a visitor is called."""
    position: str


class StageThought(Struct, kw_only=True):
    """What one player thought, and told nobody. That of a line has the line's id."""

    id: str
    at: datetime
    turn: int
    owner: str
    kind: str
    text: str
    mood: str | None
    position: str


class StagePlayer(Struct, kw_only=True):
    """One of the cast."""

    name: str
    role: str | None
    team: str | None
    lines: int
    last_said: str | None
    """Of what is shown."""
    mood: str | None
    thinking: bool
    """Whether it was asked for its turn, and has not answered yet."""
    persona: str | None
    """Who it was told to be: its own business, as its thoughts are."""


class StageVerdict(Struct, kw_only=True):
    """What a judge said."""

    id: str
    at: datetime
    turn: int
    judge: str
    text: str
    winner: str | None
    scores: dict[str, float]
    accused: str | None
    correct: bool | None
    """Whether the accused was who it should have been."""
    reveal: dict[str, str]
    """Who bore which hidden role."""
    position: str


class StageFinish(Struct, kw_only=True):
    """How a run ended."""

    id: str
    at: datetime
    reason: str
    winner: str | None
    text: str


class StageFigures(Struct, kw_only=True):
    """What was spent, or may be; `null` is without limit, or not known."""

    turns: int | None = None
    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None


class StagePlay(Struct, kw_only=True):
    """One run, as it stands."""

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
    """How many things the cast has said in all."""
    thoughts: list[StageThought] = field(default_factory=list)
    verdicts: list[StageVerdict]
    finished: StageFinish | None
    spent: StageFigures
    budget: StageFigures = field(default_factory=StageFigures)


class StageRun(Struct, kw_only=True):
    """One run to choose from."""

    run: str
    scenario: str
    seed: str
    at: datetime
    turn: int
    said: int
    finished: bool
    winner: str | None


class Stage(Head, kw_only=True):
    """A run of a cast, and those there are, the newest first."""

    play: StagePlay | None
    """The run that was asked for, else the newest; `null` if it is not there, or not yet."""
    runs: list[StageRun]
    let_go: int
    """How many older runs are not kept in here; their events still are on the log."""
