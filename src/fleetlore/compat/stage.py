"""The stage (fishbowl), with its names: `Event`, `Ledger`, `StageProjection`, memories and `ContextBuilder`. See docs/ancestors.md.

    projection = rebuild_stage(events)
    prompt = ContextBuilder().build(agent_name="fern", persona="You are Fern.", projection=projection, all_events=events)

Plain values, no log: an event is an `Event` of this module, a mapping with the same keys, an event of a Fleetlore log, or any object with
`kind`, `actor`, `turn` and `payload`. Headings and markers of empty blocks are those of the stage, since programs look for them.
Texts of agents and visitors are put on one line, so that none can forge a heading.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol, TypeAlias
from uuid import uuid4

import msgspec

from fleetlore import clock
from fleetlore.dialects.stage import DIALECT, SCHEMA_VERSION
from fleetlore.events.envelope import Event as LogEvent
from fleetlore.prompts.text_safety import sanitize_line

__all__ = [
    "CORE_EVENT_KINDS", "IMPORTANCE", "ContextBuilder", "EpisodicMemory", "Event", "Ledger", "MemoryIndex", "ReflectionTracker",
    "SalienceMemory", "StageProjection", "event_summary", "is_valid_kind", "normalize_session_id", "rebuild_stage",
]  # fmt: skip

BLACKBOARD_WINDOW, SHOWN_DISTURBANCES, KEPT_NOTES = 8, 3, 5
SPEECH_KINDS = frozenset(("agent.spoke", "oracle.spoke"))
REFLECTION_KINDS = frozenset(("world.observed", "judge.verdict", "user.injected", "run.started", "agent.reflected"))
"""What counts for the next reflection of an agent, beside its own events."""
VISIBLE_KINDS = REFLECTION_KINDS | SPEECH_KINDS
"""What every agent sees; of all other kinds, such as thoughts, an agent sees its own."""
CORE_EVENT_KINDS = VISIBLE_KINDS - {"oracle.spoke"} | {"run.finished", "agent.thought"}
IMPORTANCE: Mapping[str, float] = {
    "run.started": 0.3,
    "agent.thought": 0.4,
    "agent.spoke": 0.5,
    "oracle.spoke": 0.5,
    "world.observed": 0.7,
    "hypothesis.proposed": 0.75,
    "clue.found": 0.8,
    "agent.reflected": 0.85,
    "judge.verdict": 0.9,
    "user.injected": 0.95,
    "verdict.final": 1.0,
}
"""How much an event of a kind matters to `SalienceMemory`; any other kind 0.5."""
PRIVATE_KINDS = frozenset(("agent.thought",))
LONGEST_LINE = 2000
_KIND = re.compile(r"[a-z][a-z0-9]*(?:\.[a-z][a-z0-9]*)+")
_SESSION = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MEMORY_PREFIX = re.compile(r"^(?:\[[^\]]*\]\s*)+")
_SPEAKER = re.compile(r"(?P<text>.*) \((?P<actor>[^()]*)\)")


def is_valid_kind(kind: str) -> bool:
    """Whether a kind is lower-case and dotted, as `clue.found`."""
    return _KIND.fullmatch(kind) is not None


def normalize_session_id(value: str | None) -> str | None:
    """The session id, or `None` if it is none."""
    found = (value or "").strip()
    return found if _SESSION.fullmatch(found) else None


@dataclass(frozen=True)
class Event:
    """One event of a run."""

    run_id: str
    turn: int
    kind: str
    actor: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=lambda: str(uuid4()))
    created_at: datetime = field(default_factory=clock.now)
    schema_version: int = SCHEMA_VERSION
    session_id: str | None = None
    model_profile: str | None = None
    model_id: str | None = None

    def __post_init__(self) -> None:
        if not is_valid_kind(self.kind):
            raise ValueError(f"not a dotted lower-case kind: {self.kind[:40]!r}")
        object.__setattr__(self, "session_id", normalize_session_id(self.session_id))

    def to_json(self) -> bytes:
        """The record as the stage writes it."""
        return msgspec.json.encode({"id": self.id, **self.__dict__, "created_at": self.created_at.astimezone(UTC)})

    def to_event(self) -> LogEvent:
        """The same as an event of a log."""
        return DIALECT.decode(self.to_json())


AnyEvent: TypeAlias = Event | Mapping[str, Any] | LogEvent | Any


def event_summary(event: AnyEvent) -> str:
    """One line: turn, kind, actor and text."""
    one = _read_event(event)
    return f"{one.turn:03d} {one.kind:<15} {one.actor:<14} {one.text or sanitize_line(str(dict(one.payload)), LONGEST_LINE)}"


class Ledger:
    """Events in memory, in order; an id is stored once."""

    def __init__(self) -> None:
        self._events: dict[str, Event] = {}

    @property
    def events(self) -> tuple[Event, ...]:
        """All events, oldest first."""
        return tuple(self._events.values())

    def append(self, event: Event) -> Event:
        """Store an event, unless its id is stored; returns the event."""
        self._events.setdefault(event.id, event)
        return event

    def extend(self, events: Iterable[Event]) -> None:
        """Store several events."""
        for event in events:
            self.append(event)

    def reset(self) -> None:
        """Remove all events."""
        self._events.clear()

    def events_for_run(self, run_id: str) -> tuple[Event, ...]:
        """The events of one run."""
        return tuple(event for event in self.events if event.run_id == run_id)

    def runs(self) -> tuple[str, ...]:
        """Ids of all runs, in the order of their first events."""
        return tuple(dict.fromkeys(event.run_id for event in self.events))


class _Fields(NamedTuple):
    id: str
    run: str | None
    turn: int
    kind: str
    actor: str
    payload: Mapping[str, Any]

    @property
    def text(self) -> str:
        """What can be shown of it: its text, else its summary, else its goal; never anything else of the payload."""
        for key in ("text", "summary", "goal"):
            value = self.payload.get(key)
            if isinstance(value, str) and value.strip():
                return sanitize_line(value, LONGEST_LINE)
        return ""


def _read_event(event: AnyEvent) -> _Fields:
    if isinstance(event, LogEvent):
        text = {} if event.text is None else {"text": event.text}
        turn = event.data.get("turn")
        number = turn if isinstance(turn, int) else 0
        return _Fields(event.id or "", event.run, number, event.kind, event.actor or event.agent or "", {**event.data, **text})
    get = event.get if isinstance(event, Mapping) else lambda name, default=None: getattr(event, name, default)
    payload = get("payload", None)
    turn = get("turn", 0)
    return _Fields(
        str(get("id", "")),
        get("run_id", None),
        turn if isinstance(turn, int) else 0,
        str(get("kind", "")),
        str(get("actor", "")),
        payload if isinstance(payload, Mapping) else {},
    )


# --- What everybody sees


@dataclass
class StageProjection:
    """The stage as everybody sees it; `apply` folds one event into it and never raises."""

    seed: str = ""
    goal: str = ""
    current_scene: str = "The curtain has not risen."
    agent_notes: list[str] = field(default_factory=list)
    """The last lines, each `name: text`; private thoughts are not among them."""
    judge_notes: list[str] = field(default_factory=list)
    user_artifacts: list[str] = field(default_factory=list)

    def apply(self, event: AnyEvent) -> None:
        """Fold one more event."""
        one = _read_event(event)
        if one.kind == "run.started":
            self.seed = str(one.payload.get("seed", self.seed))
            self.goal = str(one.payload.get("goal") or self.goal)
            self.current_scene = f"The wood wakes around: {sanitize_line(self.seed, LONGEST_LINE)}" if self.seed else self.current_scene
        elif "text" not in one.payload or not one.text or one.kind in PRIVATE_KINDS:
            return
        elif one.kind == "world.observed":
            self.current_scene = one.text
        elif one.kind == "judge.verdict":
            self.judge_notes = [*self.judge_notes, one.text][-KEPT_NOTES:]
        elif one.kind == "user.injected":
            self.user_artifacts = [*self.user_artifacts, one.text][-KEPT_NOTES:]
        else:
            self.agent_notes = [*self.agent_notes, _make_note(one)][-BLACKBOARD_WINDOW:]


def _make_note(one: _Fields) -> str:
    if one.kind == "agent.reflected":
        return f"💭 {one.actor} believes: {one.text}"
    return f"{one.actor}: {one.text}" if one.kind == "agent.spoke" else f"{one.actor} [{one.kind}]: {one.text}"


def rebuild_stage(events: Iterable[AnyEvent], run_id: str | None = None) -> StageProjection:
    """The stage after some events, of one run or of all."""
    stage = StageProjection()
    for event in events:
        if run_id is None or _read_event(event).run == run_id:
            stage.apply(event)
    return stage


# --- Memory


def _list_visible(agent_name: str, events: Iterable[AnyEvent], run_id: str | None, kinds: frozenset[str] = VISIBLE_KINDS) -> list[AnyEvent]:
    """The agent's own events, and those of kinds that everybody sees."""
    return [
        event
        for event in events
        if ((one := _read_event(event)).actor == agent_name or one.kind in kinds) and (run_id is None or one.run == run_id)
    ]


@dataclass
class EpisodicMemory:
    """The last events that an agent has seen: its own, and what everybody sees."""

    agent_name: str
    max_recent: int = 8

    def visible(self, events: Iterable[AnyEvent], run_id: str | None = None) -> list[AnyEvent]:
        """The last `max_recent` events that the agent sees, oldest first."""
        return _list_visible(self.agent_name, events, run_id)[-self.max_recent :] if self.max_recent > 0 else []

    def format_for_prompt(self, events: Iterable[AnyEvent]) -> str:
        """One line per event that has a text, as in `[turn 003][agent.spoke] The key is gone. (fern)`."""
        lines = [
            f"[turn {one.turn:03d}][{one.kind}] {one.text} ({one.actor})" for one in map(_read_event, self.visible(events)) if one.text
        ]
        return "\n".join(lines) or "(no prior memory)"


class MemoryIndex(Protocol):
    """A search for related events; each hit has the `id` of an event, the best first."""

    def index(self, events: tuple[Any, ...]) -> Any:
        """Add events; those that are known are ignored."""

    def search(self, query: str, k: int, run_id: str | None = None) -> Iterable[Any]:
        """The `k` best hits."""


@dataclass
class SalienceMemory:
    """The events that matter most now, by relevance, recency and the importance of their kind."""

    agent_name: str
    top_k: int = 8
    w_relevance: float = 0.3
    w_recency: float = 0.4
    w_importance: float = 0.3
    decay_lambda: float = 0.1
    index: MemoryIndex | None = None

    def score(self, event: AnyEvent, current_turn: int, query: str, relevance: float | None = None) -> float:
        """The salience of an event; `relevance` is by default the share of words that it has in common with `query`."""
        one = _read_event(event)
        recency = math.exp(-self.decay_lambda * max(0, current_turn - one.turn))
        relevance = _word_overlap(str(one.payload.get("text", "")), query) if relevance is None else relevance
        return self.w_relevance * relevance + self.w_recency * recency + self.w_importance * IMPORTANCE.get(one.kind, 0.5)

    def visible(self, events: Iterable[AnyEvent], current_turn: int, query: str, run_id: str | None = None) -> list[AnyEvent]:
        """The `top_k` events by salience, ordered by turn."""
        return [event for event, _ in self._rank(events, current_turn, query, run_id)]

    def format_for_prompt(self, events: Iterable[AnyEvent], current_turn: int, query: str) -> str:
        """One line per event that has a text, as in `[turn 003][agent.spoke][sal=0.71] The key is gone. (fern)`."""
        ranked = ((_read_event(event), score) for event, score in self._rank(events, current_turn, query, None))
        lines = [f"[turn {one.turn:03d}][{one.kind}][sal={score:.2f}] {one.text} ({one.actor})" for one, score in ranked if one.text]
        return "\n".join(lines) or "(no salient memories)"

    def _rank(self, events: Iterable[AnyEvent], current_turn: int, query: str, run_id: str | None) -> list[tuple[AnyEvent, float]]:
        candidates = _list_visible(self.agent_name, events, run_id)
        relevance = self._search_index(candidates, query)
        scored = [
            (event, self.score(event, current_turn, query, None if relevance is None else relevance.get(_read_event(event).id, 0.0)))
            for event in candidates
        ]
        best = sorted(scored, key=lambda pair: -pair[1])[: self.top_k]
        return sorted(best, key=lambda pair: _read_event(pair[0]).turn)

    def _search_index(self, candidates: Sequence[AnyEvent], query: str) -> dict[str, float] | None:
        """Relevance by id, from the rank among the hits; `None` without an index, or if it fails."""
        if self.index is None or not query or not candidates:
            return None
        ids, runs = {_read_event(event).id for event in candidates}, {_read_event(event).run for event in candidates}
        try:
            self.index.index(tuple(candidates))
            hits = self.index.search(query, k=len(candidates), run_id=runs.pop() if len(runs) == 1 else None)
            ranked = [hit.id for hit in hits if hit.id in ids]
        except Exception:  # noqa: BLE001 - third-party code that only improves the order
            return None
        return {id: (len(ranked) - rank) / len(ranked) for rank, id in enumerate(ranked)}


def _word_overlap(text: str, query: str) -> float:
    words, wanted = set(text.lower().split()), set(query.lower().split())
    return len(words & wanted) / len(words | wanted) if words and wanted else 0.0


@dataclass
class ReflectionTracker:
    """Says when an agent should reflect: each time it has seen `threshold` more events, not counting what others said."""

    agent_name: str
    threshold: int
    _seen: int = field(default=0, init=False, repr=False)

    def observe(self, events: Iterable[AnyEvent]) -> bool:
        """Whether a reflection is due now."""
        before, self._seen = self._seen, len(_list_visible(self.agent_name, events, None, REFLECTION_KINDS))
        return self._seen // self.threshold > before // self.threshold  # it has passed a multiple of the threshold


# --- The prompt


class ContextBuilder:
    """Builds the prompt of an agent's turn."""

    def build(
        self,
        *,
        agent_name: str,
        persona: str,
        projection: StageProjection,
        all_events: Sequence[AnyEvent],
        memory_window: int = 8,
        memory_text: str | None = None,
        role: str = "worker",
    ) -> str:
        """The blocks in order, each with its heading. `memory_text` replaces the episodic memory of the last `memory_window` events.

        A worker sees the last eight lines; a judge (`role="judge"`) sees every spoken line and no private thought.
        """
        said = _list_speech(all_events) if role == "judge" else _list_notes(projection)
        memory = EpisodicMemory(agent_name, memory_window).format_for_prompt(all_events) if memory_text is None else memory_text
        blocks = [
            f"IDENTITY\n{persona}",
            *([f"SHARED GOAL\n{projection.goal}"] if projection.goal else ()),
            f"CURRENT SCENE\n{projection.current_scene}",
            _judge_block(said) if role == "judge" else _worker_block(said),
            _memory_block(memory, said, projection.current_scene),
            _disturbance_block(projection.user_artifacts),
        ]
        return "\n\n".join(blocks)


def _list_notes(projection: StageProjection) -> list[str]:
    return [line for note in projection.agent_notes if (line := sanitize_line(note, LONGEST_LINE))][-BLACKBOARD_WINDOW:]


def _list_speech(events: Iterable[AnyEvent]) -> list[str]:
    read = map(_read_event, events)
    return [f"{one.actor}: {one.text}" for one in read if one.kind in SPEECH_KINDS and one.text]


def _worker_block(said: Sequence[str]) -> str:
    if not said:
        return "WHAT'S BEEN SAID\n(you go first — set the tone)"
    lines = "\n".join(f"- {line}" for line in said)
    return (
        f"WHAT'S BEEN SAID (the table so far — react to it)\n{lines}\n"
        "Do not echo these lines. Bring a new angle: a detail, an objection or a question."
    )


def _judge_block(said: Sequence[str]) -> str:
    if not said:
        return "THE EXCHANGE TO JUDGE\n(no one has spoken yet)"
    lines = "\n".join(f"- {line}" for line in said)
    return f"THE EXCHANGE TO JUDGE (every spoken line, in order — weigh ALL of it, not just the last few):\n{lines}"


def _memory_block(memory: str, said: Sequence[str], scene: str) -> str:
    """Memory without the lines that are shown above."""
    lines = [line for line in memory.splitlines() if line.strip() and not _is_shown(_MEMORY_PREFIX.sub("", line).strip(), said, scene)]
    if not lines:
        return "YOUR MEMORY\n(nothing beyond the exchange above)"
    return "YOUR MEMORY (recent events you witnessed)\n" + "\n".join(lines)


def _is_shown(remembered: str, said: Sequence[str], scene: str) -> bool:
    """Whether a line of memory is the scene, or among the lines that were said.

    A said line is `speaker: text`. Memory has `text (speaker)`, that of other programs `speaker: text` or only the text.
    """
    notes: list[tuple[str, str]] = []
    for line in said:
        speaker, colon, text = line.partition(": ")
        notes.append((speaker, text) if colon else ("", line))
    if remembered in said or remembered == scene or any(remembered == text for _, text in notes):
        return True
    match = _SPEAKER.fullmatch(remembered)
    if match is None:
        return False
    return match["text"] == scene or any(match["text"] == text and match["actor"] in speaker for speaker, text in notes)


def _disturbance_block(artifacts: Sequence[str]) -> str:
    lines = [f"- {line}" for artifact in artifacts if (line := sanitize_line(artifact, LONGEST_LINE))]
    return "VISITOR DISTURBANCES\n" + ("\n".join(lines[-SHOWN_DISTURBANCES:]) or "(quiet)")
