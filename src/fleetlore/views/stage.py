"""The stage view: every run of a cast, with public lines and, separately, each player's private thoughts.

Two types keep them apart. A `PublicLine` is visible to all; only `public_line` makes one, never from a private event. A `PrivateThought`
belongs to one player and is stored under `minds` only. What a prompt shows of others is a list of public lines.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, TypeVar

from msgspec import Struct, field

from fleetlore.events import budget_axes
from fleetlore.events.envelope import Event
from fleetlore.events.visibility import PUBLIC, can_see
from fleetlore.views.event_text import event_stamp

VERSION = 4 + budget_axes.VERSION
"""Raised with every change of the state's fields or rules; checkpoints of other versions are discarded."""

SPEECH_KINDS = frozenset(("agent.spoke", "oracle.spoke"))
"""What the cast says publicly."""
OPEN_KINDS = SPEECH_KINDS | {"world.observed", "judge.verdict", "user.injected", "run.started"}
"""Kinds that every player sees without a subscription."""
RUN_OPENING_KINDS = OPEN_KINDS | {"run.finished", "commentary.posted"}
"""Kinds that identify a run as a stage run. Thoughts do not, because coding sessions have them too."""
MACHINERY_PREFIXES = ("model.", "context.", "log.", "notify.", "control.")
"""Families that are never public lines, even for subscribers: a raw model answer contains its agent's thoughts."""

MAX_LINES = 80
MAX_REPORTS = 40
MAX_DISTURBANCES = 5
MAX_VERDICTS = 5
MAX_THOUGHTS = 20
"""Thoughts kept per player."""
MAX_THOUGHT_CHARS = 200_000
"""Characters of all players' thoughts; beyond it the player with the most text loses its oldest thought."""
MAX_RUNS = 16
MAX_CAST = 200
MAX_KINDS = 64
MAX_TEXT_CHARS = 4000
"""Characters kept of one text."""
MAX_NAME_CHARS = 200
MAX_TURN = 1 << 53

_Kept = TypeVar("_Kept")


class PublicLine(Struct, frozen=True, kw_only=True):
    """Something said or done publicly. Untrusted text."""

    id: str
    at: datetime
    turn: int
    speaker: str
    kind: str
    text: str
    position: str = ""


class PrivateThought(Struct, frozen=True, kw_only=True):
    """A thought that only its owner may see."""

    id: str
    at: datetime
    turn: int
    owner: str
    kind: str
    text: str
    position: str = ""


class Player(Struct, kw_only=True):
    """A player's public data, and counters of what it has seen since its last reflection."""

    name: str
    role: str | None = None
    team: str | None = None
    subscribes_to: list[str] = field(default_factory=list)
    lines: int = 0
    spoke_in: int | None = None
    """The turn in which it last spoke."""
    open_then: int = 0
    """Number of open events at its last reflection."""
    reports_then: dict[str, int] = field(default_factory=dict)
    own: dict[str, int] = field(default_factory=dict)
    """Its own events since then that were not open, by kind."""


class PrivateState(Struct, kw_only=True):
    """A player's private data: its persona and its thoughts."""

    persona: str = ""
    thoughts: list[PrivateThought] = field(default_factory=list)


class RunVerdict(Struct, kw_only=True):
    """A judge's verdict."""

    line: PublicLine
    winner: str | None = None
    scores: dict[str, float] = field(default_factory=dict)


class RunEnd(Struct, kw_only=True):
    """How a run ended."""

    id: str
    at: datetime
    reason: str = ""
    winner: str | None = None
    text: str = ""


class ModelUsage(Struct, kw_only=True):
    """Usage of a run, mostly from its `model.*` events."""

    asked: int = 0
    answered: int = 0
    tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0
    others: dict[str, float] = field(default_factory=dict)
    """Axes that are counted from events, by name."""

    @property
    def calls(self) -> int:
        """Number of model calls; requests or answers, whichever were recorded."""
        return max(self.asked, self.answered)


class StageRunState(Struct, kw_only=True):
    """The current state of a run."""

    id: str
    at: datetime
    is_whole: bool = False
    """Whether its first event was seen."""
    scenario: str = ""
    seed: str = ""
    """For the audience; no prompt shows it."""
    goal: str = ""
    scene: PublicLine | None = None
    turn: int = 0
    cast: dict[str, Player] = field(default_factory=dict)
    lines: list[PublicLine] = field(default_factory=list)
    """The newest public lines."""
    said: int = 0
    """How many there were in total."""
    reports: list[PublicLine] = field(default_factory=list)
    """The newest public events of other kinds, for subscribers."""
    verdicts: list[RunVerdict] = field(default_factory=list)
    disturbances: list[PublicLine] = field(default_factory=list)
    disturbed: int = 0
    finish: RunEnd | None = None
    spent: ModelUsage = field(default_factory=ModelUsage)
    events: int = 0
    last: str = ""
    """Position of its newest event."""
    open: int = 0
    """Number of events that everybody saw."""
    reported: dict[str, int] = field(default_factory=dict)
    """Public events of other kinds, by kind."""
    minds: dict[str, PrivateState] = field(default_factory=dict)
    """Player → its private data."""
    thinking: int = 0
    """Characters of all thoughts."""


class StageState(Struct, kw_only=True):
    """The newest runs of a log. Encodes to JSON and back."""

    version: int = VERSION
    events: int = 0
    position: str | None = None
    runs: dict[str, StageRunState] = field(default_factory=dict)
    newest: str | None = None
    """The run that started last."""
    let_go: int = 0
    """How many older runs were dropped."""


def initial() -> StageState:
    """The state without runs."""
    return StageState()


def apply(stage: StageState, event: Event) -> StageState:
    """The stage after one more event. Never raises. Modifies `stage`: continue with the returned one."""
    stage.events += 1
    stage.position = event.position or stage.position
    if event.run is None:
        return stage
    run = stage.runs.get(event.run)
    if run is None:
        if event.kind not in RUN_OPENING_KINDS or "graph" in event.data:  # a chat agent's events, not a stage run
            return stage
        run = _open_run(stage, event.run, event)
    _apply_to_run(run, event)
    return stage


def public_line(event: Event, turn: int = 0) -> PublicLine | None:
    """The public line of an event; `None` if it has no text or is not public."""
    text = _clean_text(event.text) if can_see(event, PUBLIC) and not event.kind.startswith(MACHINERY_PREFIXES) else ""
    if not text:
        return None
    return PublicLine(
        id=_event_id(event),
        at=event_stamp(event)[0],
        turn=event_turn(event, turn),
        speaker=event_speaker(event),
        kind=event.kind,
        text=text,
        position=event.position or "",
    )


def private_thought(event: Event, turn: int = 0) -> PrivateThought | None:
    """The private thought in an event; `None` if there is none."""
    get = event.data.get
    text = ("" if can_see(event, PUBLIC) else _clean_text(event.text)) or _clean_text(get("thought")) or _clean_text(get("secret"))
    if not text:
        return None
    return PrivateThought(
        id=_event_id(event),
        at=event_stamp(event)[0],
        turn=event_turn(event, turn),
        owner=event_speaker(event),
        kind=event.kind,
        text=text,
        position=event.position or "",
    )


def can_read(kind: str, subscribes_to: Collection[str]) -> bool:
    """Whether an agent may read a public line of this kind: open kinds, and those it subscribes to."""
    return kind in OPEN_KINDS or kind in subscribes_to or f"{kind.partition('.')[0]}.*" in subscribes_to


def count_unreflected(run: StageRunState, name: str, subscribes_to: Collection[str] = ()) -> int:
    """How many events an agent has seen since its last reflection."""
    player = run.cast.get(name) or Player(name=name)
    others = sum(
        run.reported[kind] - player.reports_then.get(kind, 0) - player.own.get(kind, 0)
        for kind in run.reported
        if can_read(kind, subscribes_to)
    )
    return run.open - player.open_then + sum(player.own.values()) + max(0, others)


def is_reflection_due(run: StageRunState, name: str, every: int | None, subscribes_to: Collection[str] = ()) -> bool:
    """Whether an agent has seen at least `every` events since its last reflection."""
    return every is not None and every > 0 and count_unreflected(run, name, subscribes_to) >= every


def event_speaker(event: Event) -> str:
    """Who caused the event."""
    return event.actor or event.agent or "someone"


def event_turn(event: Event, default: int = 0) -> int:
    """The turn in the event's data; `default` if it has none."""
    turn = event.data.get("turn")
    return turn if isinstance(turn, int) and not isinstance(turn, bool) and 0 <= turn <= MAX_TURN else default


# --- one run


def _open_run(stage: StageState, name: str, event: Event) -> StageRunState:
    if len(stage.runs) >= MAX_RUNS:
        del stage.runs[min(stage.runs.values(), key=lambda run: run.last).id]
        stage.let_go += 1
    run = stage.runs[name] = StageRunState(id=name, at=event_stamp(event)[0], is_whole=event.kind == "run.started")
    stage.newest = name
    return run


def _apply_to_run(run: StageRunState, event: Event) -> None:
    run.events += 1
    run.last = event.position or run.last
    run.turn = max(run.turn, event_turn(event))
    budget_axes.count_event(run.spent.others, event, "stage")
    if event.kind.startswith("model."):
        _add_model_usage(run.spent, event)
        return
    if event.agent is not None and not event.kind.startswith(MACHINERY_PREFIXES):
        _find_or_add_player(run, event.agent)
    thought = private_thought(event, run.turn)
    if thought is not None:
        _add_thought(run, thought)
    line = public_line(event, run.turn)
    if line is not None:
        _add_line(run, line)
    match event.kind:
        case "run.started":
            _on_run_started(run, event)
        case "run.finished":
            _on_run_finished(run, event)
        case "judge.verdict" if line is not None:
            winner = _clean_text(event.data.get("winner")) or None
            _append_bounded(
                run.verdicts, RunVerdict(line=line, winner=winner, scores=_parse_scores(event.data.get("scores"))), MAX_VERDICTS
            )
    _count_event(run, event)


def _add_thought(run: StageRunState, thought: PrivateThought) -> None:
    """Store a thought with its owner, and drop the oldest ones beyond the limits."""
    private = _find_or_add_private_state(run, thought.owner)
    if private is None:
        return
    private.thoughts.append(thought)
    run.thinking += len(thought.text)
    if len(private.thoughts) > MAX_THOUGHTS:
        _drop_oldest_thought(run, private)
    while run.thinking > MAX_THOUGHT_CHARS:
        _drop_oldest_thought(run, max(run.minds.values(), key=_thought_chars))


def _drop_oldest_thought(run: StageRunState, private: PrivateState) -> None:
    run.thinking -= len(private.thoughts.pop(0).text)


def _thought_chars(private: PrivateState) -> int:
    return sum(len(thought.text) for thought in private.thoughts)


def _add_line(run: StageRunState, line: PublicLine) -> None:
    """Store a line with its kind."""
    if line.kind in SPEECH_KINDS:
        run.said += 1
        _append_bounded(run.lines, line, MAX_LINES)
        player = _find_or_add_player(run, line.speaker)
        if player is not None:
            player.lines, player.spoke_in = player.lines + 1, line.turn
    elif line.kind == "world.observed":
        run.scene = line
    elif line.kind == "user.injected":
        run.disturbed += 1
        _append_bounded(run.disturbances, line, MAX_DISTURBANCES)
    elif line.kind not in RUN_OPENING_KINDS:
        _append_bounded(run.reports, line, MAX_REPORTS)


def _on_run_started(run: StageRunState, event: Event) -> None:
    data = event.data
    run.is_whole = True
    goal = _clean_text(data.get("goal")) if can_see(event, PUBLIC) else ""
    run.scenario, run.goal = _clean_text(data.get("scenario")), goal or run.goal
    seed = data.get("seed")
    run.seed = str(seed) if isinstance(seed, int) else _clean_text(seed)
    cast = data.get("cast")
    for name, entry in cast.items() if isinstance(cast, dict) else ():
        player = _find_or_add_player(run, name)
        if player is not None and isinstance(entry, dict):
            _describe_player(run, player, entry)


def _describe_player(run: StageRunState, player: Player, entry: dict[str, Any]) -> None:
    """Read a player's entry in the cast. The persona may contain a secret, so it is private."""
    player.role = _clean_text(entry.get("role")) or player.role
    player.team = _clean_text(entry.get("team")) or player.team
    kinds = entry.get("subscribes_to")
    player.subscribes_to = [kind for kind in kinds if _is_short_text(kind)][:MAX_KINDS] if isinstance(kinds, list) else []
    persona = _clean_text(entry.get("persona"))
    if persona and (private := _find_or_add_private_state(run, player.name)) is not None:
        private.persona = persona


def _on_run_finished(run: StageRunState, event: Event) -> None:
    if run.finish is None:
        data = event.data
        text = _clean_text(event.text) if can_see(event, PUBLIC) else ""
        reason, winner = _clean_text(data.get("reason")), _clean_text(data.get("winner")) or None
        run.finish = RunEnd(id=_event_id(event), at=event_stamp(event)[0], reason=reason, winner=winner, text=text)


def _add_model_usage(usage: ModelUsage, event: Event) -> None:
    data = event.data
    if event.kind == "model.called":
        usage.asked += 1
        return
    usage.answered += 1
    usage.seconds += _number_or_zero(data.get("latency_ms")) / 1000
    if event.kind == "model.replied":
        usage.tokens += sum(int(_number_or_zero(data.get(name))) for name in ("input", "output", "cache_read", "cache_write"))
        usage.usd += _number_or_zero(data.get("usd"))


def _count_event(run: StageRunState, event: Event) -> None:
    """Count what everybody, or the speaker alone, has seen; a reflection resets the speaker's counters."""
    if event.kind in OPEN_KINDS and can_see(event, PUBLIC):
        run.open += 1
        return
    if event.kind.startswith(MACHINERY_PREFIXES):
        return
    if can_see(event, PUBLIC) and event.kind not in RUN_OPENING_KINDS:
        _increment_kind(run.reported, event.kind)
    player = run.cast.get(event_speaker(event))
    if player is None:
        return
    if event.kind == "agent.reflected":
        player.open_then, player.reports_then, player.own = run.open, dict(run.reported), {}
    else:
        _increment_kind(player.own, event.kind)


def _increment_kind(counts: dict[str, int], kind: str) -> None:
    if kind in counts or len(counts) < MAX_KINDS:
        counts[kind] = counts.get(kind, 0) + 1


def _find_or_add_player(run: StageRunState, name: str) -> Player | None:
    if name not in run.cast and len(run.cast) < MAX_CAST and _is_short_text(name):
        run.cast[name] = Player(name=name)
    return run.cast.get(name)


def _find_or_add_private_state(run: StageRunState, name: str) -> PrivateState | None:
    if name not in run.minds and len(run.minds) < MAX_CAST and _is_short_text(name):
        run.minds[name] = PrivateState()
    return run.minds.get(name)


def _append_bounded(items: list[_Kept], item: _Kept, max_length: int) -> None:
    items.append(item)
    if len(items) > max_length:
        del items[0]


def _parse_scores(value: Any) -> dict[str, float]:
    pairs = list(value.items())[:MAX_CAST] if isinstance(value, dict) else []
    return {name: _number_or_zero(score) for name, score in pairs if _is_short_text(name) and _is_number(score)}


def _number_or_zero(value: Any) -> float:
    return float(value) if _is_number(value) and 0 <= value <= 1e12 else 0.0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_short_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_NAME_CHARS


def _clean_text(value: Any) -> str:
    return value[:MAX_TEXT_CHARS].strip() if isinstance(value, str) else ""


def _event_id(event: Event) -> str:
    return event.id or event.position or ""
