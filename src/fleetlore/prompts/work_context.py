"""What an agent that plays on no stage, such as a coding session, may know of its work: from a bounded part of its newest events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from fleetlore.events.catalog import beat_of
from fleetlore.events.envelope import Event
from fleetlore.events.names import is_name
from fleetlore.log.base import Position, just_after
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.prompts.turn import DISTURBANCES, TRANSCRIPT, Scene
from fleetlore.views.event_text import line_of, stamp_of
from fleetlore.views.stage import MACHINERY, Line, Thought, is_public, speaker_of, thought_of

RECENT = 300
"""So many of an agent's newest events are read,"""
FURTHER = 1200
"""and so many more, if need be, to find what it was asked to do."""
ON_THREAD = 200
TOLD = 40
"""Of its newest events, so many are told as where its work stands."""
SENTENCES = 6
LONGEST = 4000

_VOICES = frozenset(("voice", "handoff", "judgement", "together"))
_ROUTINE = frozenset(("progress", "pulse", "rest"))
_LASTING = frozenset(("commit", "push", "pr_open", "pr_merge", "revert"))
"""Deeds of a tool that are remembered though all went well."""
_QUIET = frozenset(("pulse", "rest"))
_THREADS = ("task", "goal", "mission", "run")


class Told(NamedTuple):
    """A sentence, and the events that it tells."""

    text: str
    events: tuple[str, ...] = ()


Telling: TypeAlias = Callable[[Sequence[Event]], Sequence[Told]]
"""Events in the order of the log, as sentences; the newest come last."""


class Work(NamedTuple):
    """An agent's work, as its log tells it."""

    scope: str
    run: str | None = None
    goal: str = ""
    goal_event: str | None = None
    goal_from: str | None = None
    scene: Scene | None = None
    said: tuple[Line, ...] = ()
    disturbances: tuple[Line, ...] = ()
    recalled: tuple[Line, ...] = ()
    thoughts: tuple[Thought, ...] = ()
    notes: tuple[str, ...] = ()


def look(log: BlockingRecorder, agent: str, *, run: str | None, upto: Position | None, tell: Telling) -> Work:
    """What an agent did last, what it was asked to do, and what others said to it; of one run where that is named."""
    scope = f"run:{run}" if run is not None else f"agent:{agent}"
    if not is_name(scope.partition(":")[2]):
        return Work("town", notes=("this is no name that a log can hold",))
    events = _newest(log, scope, RECENT, upto)
    task = _asked(events, agent)
    if task is None and len(events) == RECENT:
        task = _asked(_newest(log, scope, FURTHER, events[0].position, without=True), agent)
    since = [event for event in events if task is None or (event.position or "") > (task.position or "")]
    own = [event for event in since if speaker_of(event) == agent and is_public(event)][-TOLD:]
    thread = _thread(events)
    around = events if thread in (None, scope) else _newest(log, thread or scope, ON_THREAD, upto)
    return Work(
        scope=scope,
        run=run or next((event.run for event in reversed(events) if event.run is not None), None),
        goal="" if task is None else _words(task),
        goal_event=None if task is None else task.id,
        goal_from=None if task is None or _is_prompt(task) else _giver(task, agent),
        scene=_scene(own, tell),
        said=tuple(_said(around, agent, task))[-TRANSCRIPT:],
        disturbances=tuple(_interruptions(since))[-DISTURBANCES:],
        recalled=tuple(lines_of(events, agent)),
        thoughts=tuple(thought for event in events if (thought := thought_of(event)) is not None and thought.owner == agent),
        notes=_notes(scope, len(events), task),
    )


def tell(events: Sequence[Event]) -> list[Told]:
    """The last few events, each in its own line: what stands there where nobody puts them into better words."""
    told = [event for event in events if _is_worth_telling(event)]
    return [Told(f"{event.kind}: {line_of(event)}", (event.id or "",)) for event in told][-SENTENCES:]


def lines_of(events: Iterable[Event], agent: str) -> Iterator[Line]:
    """What an agent did or was told, as lines that it could remember; of others in its run, what they said to all."""
    lines = (_line(event) for event in events if _is_memorable(event) and (_is_of(event, agent) or _is_word(event)))
    return (line for line in lines if line is not None)


def _is_of(event: Event, agent: str) -> bool:
    """Whether an agent did it, or had it done to it."""
    return agent in (event.actor, event.agent, event.child)


def _is_word(event: Event) -> bool:
    return beat_of(event) in _VOICES


def _is_worth_telling(event: Event) -> bool:
    """Signs of life are not, nor is that a tool came back; what the agent said at the end of its turn is."""
    if event.kind.startswith(MACHINERY) or (event.kind == "tool.returned" and not event.text):
        return False
    return beat_of(event) not in _QUIET or event.kind == "session.turn_ended"


def _is_memorable(event: Event) -> bool:
    """Of what tools did, what went wrong and what lasts; of turns, those that ended with the agent's own words."""
    if event.kind == "tool.returned":
        return event.data.get("deed") in _LASTING or beat_of(event) not in _ROUTINE
    if event.kind == "session.turn_ended" and event.data.get("reason") == "interrupted":
        return False
    return event.kind != "tool.called" and _is_worth_telling(event)


def _newest(log: BlockingRecorder, scope: str, limit: int, upto: Position | None, *, without: bool = False) -> list[Event]:
    before = upto if without or upto is None else just_after(upto)
    return list(log.read(scope, newest_first=True, before=before, limit=limit))[::-1]


def _asked(events: Sequence[Event], agent: str) -> Event | None:
    """The newest thing that the agent was asked to do: what a person said, else the task that it took, or was handed."""
    own = [event for event in events if _is_of(event, agent)]
    for is_task in (_is_prompt, _is_claim, lambda event: event.child == agent and beat_of(event) == "handoff"):
        for event in reversed(own):
            if is_task(event) and is_public(event) and _words(event):
                return event
    return None


def _is_prompt(event: Event) -> bool:
    return event.kind == "prompt.submitted" and event.data.get("correction") is not True


def _is_claim(event: Event) -> bool:
    return beat_of(event) == "claim" and event.kind != "prompt.submitted"


def _giver(event: Event, agent: str) -> str:
    """Whose words a task is that no person gave: whoever handed it over, or the agent that took it."""
    return speaker_of(event) if beat_of(event) == "handoff" else agent


def _words(event: Event) -> str:
    """All that a person said, where the line is only its beginning."""
    whole = event.data.get("prompt")
    return (whole if isinstance(whole, str) and whole.strip() else event.text or "")[:LONGEST].strip()


def _thread(events: Sequence[Event]) -> str | None:
    """The scope of the thread that the agent is on."""
    for event in reversed(events):
        for name in _THREADS:
            if (value := getattr(event, name)) is not None:
                return f"{name}:{value}"
    return None


def _scene(events: Sequence[Event], tell: Telling) -> Scene | None:
    told = list(tell(events))[-SENTENCES:] if events else []
    if not told:
        return None
    return Scene(text="\n".join(one.text for one in told), events=tuple(event for one in told for event in one.events))


def _said(events: Iterable[Event], agent: str, task: Event | None) -> Iterator[Line]:
    """What others said on the agent's thread."""
    for event in events:
        is_word = _is_word(event) or _is_prompt(event)
        if is_word and _teller(event) != agent and (task is None or event.id != task.id) and (line := _line(event)) is not None:
            yield line


def _interruptions(events: Iterable[Event]) -> Iterator[Line]:
    """Where a person broke in."""
    for event in events:
        if event.kind == "user.injected" or (event.kind == "prompt.submitted" and event.data.get("correction") is True):
            line = _line(event)
            if line is not None:
                yield line


def _line(event: Event) -> Line | None:
    """What a public event says; of one without words of its own, what its payload says."""
    words = line_of(event) if is_public(event) else None
    if not words:
        return None
    return Line(
        id=event.id or "",
        at=stamp_of(event)[0],
        turn=0,
        speaker=_teller(event),
        kind=event.kind,
        text=_unfolded(words) if event.kind == "tool.failed" else words,
        position=event.position or "",
    )


def _teller(event: Event) -> str:
    """Whose words an event holds: a report is that of the one who came back."""
    return event.child if event.kind == "agent.returned" and event.child else speaker_of(event)


def _unfolded(words: str) -> str:
    """What a program printed, its line breaks as such: some tools hand them on as a backslash and an n."""
    return words.replace("\\r\\n", "\n").replace("\\n", "\n")


def _notes(scope: str, events: int, task: Event | None) -> tuple[str, ...]:
    read = f"no run of a stage: the newest {events:,} events of {scope} were read"
    return (read, "it was asked to do nothing that was found" if task is None else f"the task is that of {task.kind} at {task.position}")
