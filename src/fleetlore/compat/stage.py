"""The prompts of the stage (fishbowl), with its names: `ContextBuilder`, `EpisodicMemory`, `StageProjection`. See docs/ancestors.md.

    projection = rebuild_stage(events)
    prompt = ContextBuilder().build(agent_name="fern", persona="You are Fern.", projection=projection, all_events=events)

Plain values, no log: an event is an `Event` of this module, a mapping with the same keys, an event of a Fleetlore log, or any object with
`kind`, `actor`, `turn` and `payload`. Texts of agents and visitors are put on one line, so that none can forge a heading.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias
from uuid import uuid4

import msgspec

from fleetlore import clock
from fleetlore.dialects.stage import DIALECT, SCHEMA_VERSION
from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event as LogEvent
from fleetlore.prompts.text_safety import sanitize_line

BLACKBOARD_WINDOW, SHOWN_DISTURBANCES, KEPT_NOTES = 8, 3, 5
SPEECH_KINDS = frozenset(("agent.spoke", "oracle.spoke"))
VISIBLE_KINDS = frozenset(("world.observed", "judge.verdict", "user.injected", "run.started", "agent.reflected")) | SPEECH_KINDS
"""What every agent sees; of all other kinds, such as thoughts, an agent sees its own."""
PRIVATE_KINDS = frozenset(("agent.thought",))
LONGEST_LINE = 2000
_KIND = re.compile(r"[a-z][a-z0-9]*(?:\.[a-z][a-z0-9]*)+")
_SESSION = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MEMORY_PREFIX = re.compile(r"^(?:\[[^\]]*\]\s*)+")


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
        if not _KIND.fullmatch(self.kind):
            raise Invalid(f"not a dotted lower-case kind: {self.kind[:40]!r}")
        if self.session_id is not None and not _SESSION.fullmatch(self.session_id):
            object.__setattr__(self, "session_id", None)

    def to_json(self) -> bytes:
        """The record as the stage writes it."""
        return msgspec.json.encode({"id": self.id, **self.__dict__, "created_at": self.created_at.astimezone(UTC)})

    def to_event(self) -> LogEvent:
        """The same as an event of a log."""
        return DIALECT.decode(self.to_json())


AnyEvent: TypeAlias = Event | Mapping[str, Any] | LogEvent | Any


class _Fields(NamedTuple):
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
        return _Fields(event.run, number, event.kind, event.actor or event.agent or "", {**event.data, **text})
    get = event.get if isinstance(event, Mapping) else lambda name, default=None: getattr(event, name, default)
    payload = get("payload", None)
    turn = get("turn", 0)
    return _Fields(
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
    current_scene: str = "The curtain is down."
    agent_notes: list[str] = field(default_factory=list)
    """The last lines, each `name: text`; private thoughts are not among them."""
    judge_notes: list[str] = field(default_factory=list)
    user_artifacts: list[str] = field(default_factory=list)

    def apply(self, event: AnyEvent) -> None:
        """Take in one more event."""
        one = _read_event(event)
        if one.kind == "run.started":
            self.seed = str(one.payload.get("seed", self.seed))
            self.goal = str(one.payload.get("goal") or self.goal)
            self.current_scene = f"It begins with: {sanitize_line(self.seed, LONGEST_LINE)}" if self.seed else self.current_scene
        elif not one.text or one.kind in PRIVATE_KINDS or one.kind == "run.finished":
            return
        elif one.kind == "world.observed":
            self.current_scene = one.text
        elif one.kind == "judge.verdict":
            self.judge_notes = [*self.judge_notes, one.text][-KEPT_NOTES:]
        elif one.kind == "user.injected":
            self.user_artifacts = [*self.user_artifacts, one.text][-KEPT_NOTES:]
        else:
            self.agent_notes = [*self.agent_notes, _note_of(one)][-BLACKBOARD_WINDOW:]


def _note_of(one: _Fields) -> str:
    if one.kind == "agent.reflected":
        return f"{one.actor} believes: {one.text}"
    return f"{one.actor}: {one.text}" if one.kind == "agent.spoke" else f"{one.actor} [{one.kind}]: {one.text}"


def rebuild_stage(events: Iterable[AnyEvent], run_id: str | None = None) -> StageProjection:
    """The stage after some events, of one run or of all."""
    stage = StageProjection()
    for event in events:
        if run_id is None or _read_event(event).run == run_id:
            stage.apply(event)
    return stage


# --- Memory


@dataclass(frozen=True)
class EpisodicMemory:
    """The last events that an agent has seen: its own, and what everybody sees."""

    agent_name: str
    max_recent: int = 8

    def recall(self, events: Iterable[AnyEvent]) -> str:
        """One line per event, as in `[turn 003][agent.spoke] fern: The key is gone.`"""
        seen = [one for event in events if (one := _read_event(event)).text and self.can_see(one.kind, one.actor)]
        lines = [f"[turn {one.turn:03d}][{one.kind}] {one.actor}: {one.text}" for one in seen[-self.max_recent :] if self.max_recent > 0]
        return "\n".join(lines) or "(no memory yet)"

    def can_see(self, kind: str, actor: str) -> bool:
        """Whether the agent sees events of a kind by an actor."""
        return actor == self.agent_name or kind in VISIBLE_KINDS


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
        memory = EpisodicMemory(agent_name, memory_window).recall(all_events) if memory_text is None else memory_text
        blocks = [
            f"IDENTITY\n{persona}",
            *([f"SHARED GOAL\n{projection.goal}"] if projection.goal else ()),
            f"CURRENT SCENE\n{projection.current_scene}",
            _judge_block(said) if role == "judge" else _worker_block(said),
            _memory_block(memory, [*said, projection.current_scene]),
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
        return "WHAT'S BEEN SAID\n(nobody has spoken yet: you begin)"
    lines = "\n".join(f"- {line}" for line in said)
    return (
        f"WHAT'S BEEN SAID (the latest lines)\n{lines}\nRepeat none of these lines. Add something new: a detail, an objection, a question."
    )


def _judge_block(said: Sequence[str]) -> str:
    if not said:
        return "THE EXCHANGE TO JUDGE\n(nobody has spoken yet)"
    lines = "\n".join(f"- {line}" for line in said)
    return f"THE EXCHANGE TO JUDGE (all {len(said)} lines in order; judge the whole of it)\n{lines}"


def _memory_block(memory: str, shown: Iterable[str]) -> str:
    """Memory without the lines that are shown above."""
    known = {text for line in shown for text in (line, line.partition(": ")[2]) if text}
    lines = [line for line in memory.splitlines() if line.strip() and _MEMORY_PREFIX.sub("", line).strip() not in known]
    lines = [line for line in lines if _MEMORY_PREFIX.sub("", line).partition(": ")[2].strip() not in known]
    return "YOUR MEMORY (what you have seen)\n" + "\n".join(lines) if lines else "YOUR MEMORY\n(nothing that is not shown above)"


def _disturbance_block(artifacts: Sequence[str]) -> str:
    lines = [f"- {line}" for artifact in artifacts if (line := sanitize_line(artifact, LONGEST_LINE))]
    return "VISITOR DISTURBANCES\n" + ("\n".join(lines[-SHOWN_DISTURBANCES:]) or "(quiet)")
