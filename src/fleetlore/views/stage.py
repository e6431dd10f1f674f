"""The stage: every run of a cast, with what was said for all to hear, and apart from it what each player thought.

Two types keep them apart. A `Line` is what all may know, and `line_of` alone makes one, of nothing that is private. A `Thought`
belongs to one player; it is kept under `minds` and nowhere else. What a prompt shows of others is a list of lines.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, TypeVar

from msgspec import Struct, field

from fleetlore.events.envelope import Event
from fleetlore.views.event_text import stamp_of

VERSION = 4
"""Raised with every change of the state's shape or rules: a checkpoint of another version is thrown away."""

SPEECH = frozenset(("agent.spoke", "oracle.spoke"))
"""What the cast says to all."""
OPEN = SPEECH | {"world.observed", "judge.verdict", "user.injected", "run.started"}
"""What everybody on a stage hears and sees, without asking for it."""
OPENERS = OPEN | {"run.finished", "commentary.posted"}
"""What shows that a run is one of a stage. Thoughts do not: coding sessions have them, too."""
MACHINERY = ("model.", "context.", "log.", "notify.", "control.")
"""Families that nobody reads as a line, not even who subscribes to them: a model's raw answer holds what its agent only thought."""

LINES_KEPT = 80
REPORTS_KEPT = 40
DISTURBANCES_KEPT = 5
VERDICTS_KEPT = 5
THOUGHTS_KEPT = 20
"""Of one player,"""
THINKING_KEPT = 200_000
"""and so many characters of all of them: where it is more, whoever thinks most forgets first."""
RUNS_KEPT = 16
CAST_KEPT = 200
KINDS_KEPT = 64
LONGEST = 4000
"""Characters of one text that are kept."""
LONGEST_NAME = 200
HIGHEST_TURN = 1 << 53

_Kept = TypeVar("_Kept")


class Line(Struct, frozen=True, kw_only=True):
    """What all may know: said, seen or done for everybody. Its words are hostile."""

    id: str
    at: datetime
    turn: int
    speaker: str
    kind: str
    text: str
    position: str = ""


class Thought(Struct, frozen=True, kw_only=True):
    """What only its owner knows."""

    id: str
    at: datetime
    turn: int
    owner: str
    kind: str
    text: str
    position: str = ""


class Player(Struct, kw_only=True):
    """One of the cast, as far as all may know it, and what it has seen since it last reflected."""

    name: str
    role: str | None = None
    team: str | None = None
    subscribes_to: list[str] = field(default_factory=list)
    lines: int = 0
    spoke_in: int | None = None
    """The turn in which it last spoke."""
    open_then: int = 0
    """How many open events there were when it last reflected."""
    reports_then: dict[str, int] = field(default_factory=dict)
    own: dict[str, int] = field(default_factory=dict)
    """Its own events since then that were not open, by kind."""


class Mind(Struct, kw_only=True):
    """What one player knows of itself: who it was told to be, and what it thought."""

    persona: str = ""
    thoughts: list[Thought] = field(default_factory=list)


class Verdict(Struct, kw_only=True):
    """What a judge said."""

    line: Line
    winner: str | None = None
    scores: dict[str, float] = field(default_factory=dict)


class Finish(Struct, kw_only=True):
    """How a run ended."""

    id: str
    at: datetime
    reason: str = ""
    winner: str | None = None
    text: str = ""


class Spent(Struct, kw_only=True):
    """What the models of a run took, by its `model.*`."""

    asked: int = 0
    answered: int = 0
    tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0

    @property
    def calls(self) -> int:
        """How often a model was asked, whichever end of it was recorded."""
        return max(self.asked, self.answered)


class Run(Struct, kw_only=True):
    """One run, as it stands."""

    id: str
    at: datetime
    is_whole: bool = False
    """Whether its beginning is in here."""
    scenario: str = ""
    seed: str = ""
    """For the audience; no prompt shows it."""
    goal: str = ""
    scene: Line | None = None
    turn: int = 0
    cast: dict[str, Player] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    """The newest things said to all."""
    said: int = 0
    """How many there were in all."""
    reports: list[Line] = field(default_factory=list)
    """The newest public events of other kinds, for those who subscribe to them."""
    verdicts: list[Verdict] = field(default_factory=list)
    disturbances: list[Line] = field(default_factory=list)
    disturbed: int = 0
    finish: Finish | None = None
    spent: Spent = field(default_factory=Spent)
    events: int = 0
    last: str = ""
    """Position of its newest event."""
    open: int = 0
    """Events that everybody saw."""
    reported: dict[str, int] = field(default_factory=dict)
    """Public events of other kinds, by kind."""
    minds: dict[str, Mind] = field(default_factory=dict)
    """Player → what only it knows."""
    thinking: int = 0
    """Characters of all their thoughts."""


class Stage(Struct, kw_only=True):
    """The newest runs of a log. Encodes to JSON and back."""

    version: int = VERSION
    events: int = 0
    position: str | None = None
    runs: dict[str, Run] = field(default_factory=dict)
    newest: str | None = None
    """The run that began last."""
    let_go: int = 0
    """How many older ones are not kept."""


def initial() -> Stage:
    """Nobody has played yet."""
    return Stage()


def apply(stage: Stage, event: Event) -> Stage:
    """The stage after one more event. Never raises. Consumes the stage: go on with the one that is returned."""
    stage.events += 1
    stage.position = event.position or stage.position
    if event.run is None:
        return stage
    run = stage.runs.get(event.run)
    if run is None:
        if event.kind not in OPENERS or "graph" in event.data:  # a conversational agent's words are no play
            return stage
        run = _opened(stage, event.run, event)
    _add(run, event)
    return stage


def line_of(event: Event, turn: int = 0) -> Line | None:
    """What an event says to all; `None` if it says nothing, or not to all."""
    words = _words(event.text) if is_public(event) and not event.kind.startswith(MACHINERY) else ""
    if not words:
        return None
    return Line(
        id=_id(event),
        at=stamp_of(event)[0],
        turn=turn_of(event, turn),
        speaker=speaker_of(event),
        kind=event.kind,
        text=words,
        position=event.position or "",
    )


def thought_of(event: Event, turn: int = 0) -> Thought | None:
    """What the doer of an event thought, and told nobody."""
    said = event.data.get
    words = ("" if is_public(event) else _words(event.text)) or _words(said("thought")) or _words(said("secret"))
    if not words:
        return None
    return Thought(
        id=_id(event),
        at=stamp_of(event)[0],
        turn=turn_of(event, turn),
        owner=speaker_of(event),
        kind=event.kind,
        text=words,
        position=event.position or "",
    )


def is_public(event: Event) -> bool:
    """Whether an event is told to all; a thought is not, whatever its writer says."""
    return event.visibility == "public" and event.kind != "agent.thought"


def reads(kind: str, subscribes_to: Collection[str]) -> bool:
    """Whether an agent may read a public line of this kind: what is open to all, and what it subscribes to."""
    return kind in OPEN or kind in subscribes_to or f"{kind.partition('.')[0]}.*" in subscribes_to


def unreflected(run: Run, name: str, subscribes_to: Collection[str] = ()) -> int:
    """How many events an agent has seen since it last reflected."""
    player = run.cast.get(name) or Player(name=name)
    others = sum(
        run.reported[kind] - player.reports_then.get(kind, 0) - player.own.get(kind, 0)
        for kind in run.reported
        if reads(kind, subscribes_to)
    )
    return run.open - player.open_then + sum(player.own.values()) + max(0, others)


def is_reflection_due(run: Run, name: str, every: int | None, subscribes_to: Collection[str] = ()) -> bool:
    """Whether an agent that is to reflect after so many events has seen as many, or more, since it last did."""
    return every is not None and every > 0 and unreflected(run, name, subscribes_to) >= every


def speaker_of(event: Event) -> str:
    """Whose deed an event is."""
    return event.actor or event.agent or "someone"


def turn_of(event: Event, otherwise: int = 0) -> int:
    """The turn that an event names."""
    turn = event.data.get("turn")
    return turn if isinstance(turn, int) and not isinstance(turn, bool) and 0 <= turn <= HIGHEST_TURN else otherwise


# --- one run


def _opened(stage: Stage, name: str, event: Event) -> Run:
    if len(stage.runs) >= RUNS_KEPT:
        del stage.runs[min(stage.runs.values(), key=lambda run: run.last).id]
        stage.let_go += 1
    run = stage.runs[name] = Run(id=name, at=stamp_of(event)[0], is_whole=event.kind == "run.started")
    stage.newest = name
    return run


def _add(run: Run, event: Event) -> None:
    run.events += 1
    run.last = event.position or run.last
    run.turn = max(run.turn, turn_of(event))
    if event.kind.startswith("model."):
        _spend(run.spent, event)
        return
    if event.agent is not None and not event.kind.startswith(MACHINERY):
        _player(run, event.agent)
    thought = thought_of(event, run.turn)
    if thought is not None:
        _think(run, thought)
    line = line_of(event, run.turn)
    if line is not None:
        _say(run, line)
    match event.kind:
        case "run.started":
            _start(run, event)
        case "run.finished":
            _finish(run, event)
        case "judge.verdict" if line is not None:
            winner = _words(event.data.get("winner")) or None
            _keep(run.verdicts, Verdict(line=line, winner=winner, scores=_scores(event.data.get("scores"))), VERDICTS_KEPT)
    _count(run, event)


def _think(run: Run, thought: Thought) -> None:
    """Put a thought where its owner alone looks for it, and forget old ones."""
    mind = _mind(run, thought.owner)
    if mind is None:
        return
    mind.thoughts.append(thought)
    run.thinking += len(thought.text)
    if len(mind.thoughts) > THOUGHTS_KEPT:
        _forget(run, mind)
    while run.thinking > THINKING_KEPT:
        _forget(run, max(run.minds.values(), key=_size))


def _forget(run: Run, mind: Mind) -> None:
    run.thinking -= len(mind.thoughts.pop(0).text)


def _size(mind: Mind) -> int:
    return sum(len(thought.text) for thought in mind.thoughts)


def _say(run: Run, line: Line) -> None:
    """Put a line where those who may read it look for it."""
    if line.kind in SPEECH:
        run.said += 1
        _keep(run.lines, line, LINES_KEPT)
        player = _player(run, line.speaker)
        if player is not None:
            player.lines, player.spoke_in = player.lines + 1, line.turn
    elif line.kind == "world.observed":
        run.scene = line
    elif line.kind == "user.injected":
        run.disturbed += 1
        _keep(run.disturbances, line, DISTURBANCES_KEPT)
    elif line.kind not in OPENERS:
        _keep(run.reports, line, REPORTS_KEPT)


def _start(run: Run, event: Event) -> None:
    data = event.data
    run.is_whole = True
    goal = _words(data.get("goal")) if is_public(event) else ""
    run.scenario, run.goal = _words(data.get("scenario")), goal or run.goal
    seed = data.get("seed")
    run.seed = str(seed) if isinstance(seed, int) else _words(seed)
    cast = data.get("cast")
    for name, said in cast.items() if isinstance(cast, dict) else ():
        player = _player(run, name)
        if player is not None and isinstance(said, dict):
            _describe(run, player, said)


def _describe(run: Run, player: Player, said: dict[str, Any]) -> None:
    """What a run's beginning says of a player. Its persona may hold a secret: it is the player's own."""
    player.role = _words(said.get("role")) or player.role
    player.team = _words(said.get("team")) or player.team
    kinds = said.get("subscribes_to")
    player.subscribes_to = [kind for kind in kinds if _is_short(kind)][:KINDS_KEPT] if isinstance(kinds, list) else []
    persona = _words(said.get("persona"))
    if persona and (mind := _mind(run, player.name)) is not None:
        mind.persona = persona


def _finish(run: Run, event: Event) -> None:
    if run.finish is None:
        data = event.data
        text = _words(event.text) if event.visibility == "public" else ""
        reason, winner = _words(data.get("reason")), _words(data.get("winner")) or None
        run.finish = Finish(id=_id(event), at=stamp_of(event)[0], reason=reason, winner=winner, text=text)


def _spend(spent: Spent, event: Event) -> None:
    data = event.data
    if event.kind == "model.called":
        spent.asked += 1
        return
    spent.answered += 1
    spent.seconds += _number(data.get("latency_ms")) / 1000
    if event.kind == "model.replied":
        spent.tokens += sum(int(_number(data.get(name))) for name in ("input", "output", "cache_read", "cache_write"))
        spent.usd += _number(data.get("usd"))


def _count(run: Run, event: Event) -> None:
    """What everybody, or its doer alone, has seen one more of; who reflects begins to count anew."""
    if event.kind in OPEN and is_public(event):
        run.open += 1
        return
    if event.kind.startswith(MACHINERY):
        return
    if is_public(event) and event.kind not in OPENERS:
        _one_more(run.reported, event.kind)
    player = run.cast.get(speaker_of(event))
    if player is None:
        return
    if event.kind == "agent.reflected":
        player.open_then, player.reports_then, player.own = run.open, dict(run.reported), {}
    else:
        _one_more(player.own, event.kind)


def _one_more(counts: dict[str, int], kind: str) -> None:
    if kind in counts or len(counts) < KINDS_KEPT:
        counts[kind] = counts.get(kind, 0) + 1


def _player(run: Run, name: str) -> Player | None:
    if name not in run.cast and len(run.cast) < CAST_KEPT and _is_short(name):
        run.cast[name] = Player(name=name)
    return run.cast.get(name)


def _mind(run: Run, name: str) -> Mind | None:
    if name not in run.minds and len(run.minds) < CAST_KEPT and _is_short(name):
        run.minds[name] = Mind()
    return run.minds.get(name)


def _keep(kept: list[_Kept], one: _Kept, most: int) -> None:
    kept.append(one)
    if len(kept) > most:
        del kept[0]


def _scores(said: Any) -> dict[str, float]:
    pairs = list(said.items())[:CAST_KEPT] if isinstance(said, dict) else []
    return {name: _number(score) for name, score in pairs if _is_short(name) and _is_number(score)}


def _number(said: Any) -> float:
    """A figure that can be one; else nought."""
    return float(said) if _is_number(said) and 0 <= said <= 1e12 else 0.0


def _is_number(said: Any) -> bool:
    return isinstance(said, (int, float)) and not isinstance(said, bool)


def _is_short(said: Any) -> bool:
    """Whether it can be a name or a kind."""
    return isinstance(said, str) and len(said) <= LONGEST_NAME


def _words(said: Any) -> str:
    return said[:LONGEST].strip() if isinstance(said, str) else ""


def _id(event: Event) -> str:
    return event.id or event.position or ""
