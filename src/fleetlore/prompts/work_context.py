"""Reads what an agent may know of its work when it is on no stage, such as a coding session, from its newest events.

Used by `agent_context.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from fleetlore.events.catalog import find_beat
from fleetlore.events.envelope import Event, is_name
from fleetlore.events.visibility import PUBLIC, can_see
from fleetlore.log.base import Position, position_after
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.prompts.text_safety import truncate_text
from fleetlore.prompts.turn import MAX_DISTURBANCES, TRANSCRIPT_LINES, PromptScene
from fleetlore.views.event_text import event_line, event_stamp
from fleetlore.views.stage import MACHINERY_PREFIXES, PrivateThought, PublicLine, event_speaker, private_thought
from fleetlore.views.threads import CLOSING_BEATS, ENDING_KINDS

MAX_RECENT_EVENTS = 300
"""How many of an agent's newest events are read."""
MAX_FURTHER_EVENTS = 1200
"""How many more are read, if needed, to find its task."""
MAX_PROMPTS = 50
"""How many of its newest prompts are looked at."""
MAX_TAKEN = 20
MAX_THREAD_EVENTS = 200
MAX_SUMMARIZED_EVENTS = 40
"""How many of its newest events the summary of its work covers."""
MAX_SENTENCES = 6
MAX_TEXT_CHARS = 4000
MAX_FIRST_CHARS = 600

MAX_FOLLOW_UP_WORDS = 8
_WORD = re.compile(r"[^\W_]+")
_FOLLOW_UP_WORDS = frozenset(
    (
        *("continue", "go", "going", "on", "ahead", "proceed", "keep", "resume", "next", "more", "again", "retry", "try", "now", "then"),
        *("yes", "y", "yep", "yeah", "ok", "okay", "sure", "please", "pls", "do", "it", "that", "and", "the", "work", "with", "from"),
        *("here", "where", "you", "left", "off", "thanks", "thank", "good", "great", "perfect", "nice", "lgtm"),
        *("commit", "push", "merge", "rebase", "pr", "pull", "request", "open", "create", "make", "run", "test", "tests", "lint", "format"),
        *("a", "all", "everything", "this", "these", "change", "changes", "branch", "to", "main", "up", "can", "could", "me", "for"),
        *("weiter", "mach", "mache", "ja", "gut", "danke", "bitte", "los"),
    )
)
"""A prompt of these words alone asks for nothing new: it goes on, or hands in what was done."""
_MESSAGE_BEATS = frozenset(("voice", "handoff", "judgement", "together"))
_ROUTINE_BEATS = frozenset(("progress", "pulse", "rest"))
_LASTING_ACTIONS = frozenset(("commit", "push", "pr_open", "pr_merge", "revert"))
"""Tool actions that are remembered even if they succeeded."""
_QUIET_BEATS = frozenset(("pulse", "rest"))
_THREAD_FIELDS = ("task", "goal", "mission", "run")


class SourcedSentence(NamedTuple):
    """A sentence, and the events that it describes."""

    text: str
    events: tuple[str, ...] = ()


SummarizeEvents: TypeAlias = Callable[[Sequence[Event]], Sequence[SourcedSentence]]
"""Describes events, given in log order, in sentences; the newest come last."""


class WorkContext(NamedTuple):
    """An agent's work, from its log."""

    scope: str
    run: str | None = None
    goal: str = ""
    goal_event: str | None = None
    goal_from: str | None = None
    scene: PromptScene | None = None
    said: tuple[PublicLine, ...] = ()
    disturbances: tuple[PublicLine, ...] = ()
    recalled: tuple[PublicLine, ...] = ()
    thoughts: tuple[PrivateThought, ...] = ()
    notes: tuple[str, ...] = ()


def load_work_context(
    log: BlockingRecorder, agent: str, *, run: str | None, upto: Position | None, summarize: SummarizeEvents
) -> WorkContext:
    """What an agent did last, what its task is, and what others said to it; limited to one run if `run` is given."""
    scope = f"run:{run}" if run is not None else f"agent:{agent}"
    if not is_name(scope.partition(":")[2]):
        return WorkContext("town", notes=("this is no name that a log can hold",))
    events = _read_newest(log, scope, MAX_RECENT_EVENTS, upto)
    task = _find_open_task(log, scope, events, agent, upto)
    events_since_task = [event for event in events if task is None or (event.position or "") > (task.position or "")]
    own_events = [event for event in events_since_task if event_speaker(event) == agent and can_see(event, PUBLIC)][-MAX_SUMMARIZED_EVENTS:]
    thread = _find_thread_scope(events)
    thread_events = events if thread in (None, scope) else _read_newest(log, thread or scope, MAX_THREAD_EVENTS, upto)
    return WorkContext(
        scope=scope,
        run=run or next((event.run for event in reversed(events) if event.run is not None), None),
        goal="" if task is None else _task_text(log, task, agent),
        goal_event=None if task is None else task.id,
        goal_from=None if task is None or _is_prompt_event(task) else _task_giver(task, agent),
        scene=_build_scene(own_events, summarize),
        said=tuple(_iterate_messages(thread_events, agent, task))[-TRANSCRIPT_LINES:],
        disturbances=tuple(_iterate_interruptions(events_since_task))[-MAX_DISTURBANCES:],
        recalled=tuple(memorable_lines(events, agent)),
        thoughts=tuple(thought for event in events if (thought := private_thought(event)) is not None and thought.owner == agent),
        notes=_explain_sources(scope, len(events), task),
    )


def summarize_events(events: Sequence[Event]) -> list[SourcedSentence]:
    """The last few events, one line each: the default `SummarizeEvents`."""
    visible = [event for event in events if is_worth_telling(event)]
    return [SourcedSentence(f"{event.kind}: {event_line(event)}", (event.id or "",)) for event in visible][-MAX_SENTENCES:]


def memorable_lines(events: Iterable[Event], agent: str) -> Iterator[PublicLine]:
    """What an agent did and received, as lines that it could remember; of others in its run, their messages to all."""
    lines = (_make_line(event) for event in events if _is_memorable(event) and (_involves_agent(event, agent) or _is_message(event)))
    return (line for line in lines if line is not None)


def _involves_agent(event: Event, agent: str) -> bool:
    """Whether the agent did it, or it was done to the agent."""
    return agent in (event.actor, event.agent, event.child)


def _is_message(event: Event) -> bool:
    return find_beat(event) in _MESSAGE_BEATS


def is_worth_telling(event: Event) -> bool:
    """Heartbeats are not, nor is a tool's plain return; the agent's message at the end of its turn is."""
    if event.kind.startswith(MACHINERY_PREFIXES) or (event.kind == "tool.returned" and not event.text):
        return False
    return find_beat(event) not in _QUIET_BEATS or event.kind == "session.turn_ended"


def _is_memorable(event: Event) -> bool:
    """Of tool results, failures and lasting actions; of turns, those that ended with the agent's own message."""
    if event.kind == "tool.returned":
        return event.data.get("deed") in _LASTING_ACTIONS or find_beat(event) not in _ROUTINE_BEATS
    if event.kind == "session.turn_ended" and event.data.get("reason") == "interrupted":
        return False
    return event.kind != "tool.called" and is_worth_telling(event)


def _read_newest(
    log: BlockingRecorder, scope: str, limit: int, upto: Position | None, *, exclusive: bool = False, kinds: Sequence[str] = ()
) -> list[Event]:
    before = upto if exclusive or upto is None else position_after(upto)
    return list(log.read(scope, newest_first=True, before=before, limit=limit, kinds=kinds))[::-1]


def _find_open_task(log: BlockingRecorder, scope: str, events: Sequence[Event], agent: str, upto: Position | None) -> Event | None:
    """The agent's newest open work: what a person asked for, else the task that it claimed or was handed."""
    prompts = [event for event in _read_newest(log, scope, MAX_PROMPTS, upto, kinds=("prompt.submitted",)) if _is_request(event, agent)]
    asking = [event for event in prompts if not _is_follow_up(event)] or prompts[:1]
    for event in reversed(asking):
        if _is_open(log, event, agent, upto):
            return event
    task = _find_taken_task(log, events, agent, upto)
    if task is None and len(events) == MAX_RECENT_EVENTS:
        task = _find_taken_task(log, _read_newest(log, scope, MAX_FURTHER_EVENTS, events[0].position, exclusive=True), agent, upto)
    return task


def _find_taken_task(log: BlockingRecorder, events: Sequence[Event], agent: str, upto: Position | None) -> Event | None:
    for is_task in (_is_claim_event, lambda event: event.child == agent and find_beat(event) == "handoff"):
        taken = [event for event in events if _involves_agent(event, agent) and is_task(event) and can_see(event, PUBLIC)]
        for event in taken[: -MAX_TAKEN - 1 : -1]:
            if _request_text(event) and _is_open(log, event, agent, upto):
                return event
    return None


def _is_request(event: Event, agent: str) -> bool:
    return _involves_agent(event, agent) and _is_prompt_event(event) and can_see(event, PUBLIC) and bool(_request_text(event))


def _is_follow_up(event: Event) -> bool:
    """Whether a prompt only says to go on: `continue`, `yes, go ahead`."""
    words = _WORD.findall(_request_text(event)[:200].lower())
    return len(words) <= MAX_FOLLOW_UP_WORDS and _FOLLOW_UP_WORDS.issuperset(words)


def _is_open(log: BlockingRecorder, event: Event, agent: str, upto: Position | None) -> bool:
    """Whether the work that an event began is neither finished, given up nor taken over by another agent."""
    thread = next((f"{name}:{value}" for name in ("task", "goal") if (value := getattr(event, name)) is not None), None)
    if thread is None:
        return True
    is_open = True
    before = None if upto is None else position_after(upto)
    for later in log.read(thread, after=event.position, before=before, limit=MAX_FURTHER_EVENTS):
        beat = find_beat(later)
        if beat in CLOSING_BEATS or later.kind in ENDING_KINDS or later.kind == "work.cancelled":
            is_open = False
        elif _is_claim_event(later):
            is_open = later.agent in (None, agent)
    return is_open


def _is_prompt_event(event: Event) -> bool:
    return event.kind == "prompt.submitted" and event.data.get("correction") is not True


def _is_claim_event(event: Event) -> bool:
    return find_beat(event) == "claim" and event.kind != "prompt.submitted"


def _task_giver(event: Event, agent: str) -> str:
    """Who worded a task that no person gave: who handed it over, or the agent that claimed it."""
    return event_speaker(event) if find_beat(event) == "handoff" else agent


def _request_text(event: Event) -> str:
    """The full prompt; the event's text may be only its beginning."""
    full_prompt = event.data.get("prompt")
    return (full_prompt if isinstance(full_prompt, str) and full_prompt.strip() else event.text or "")[:MAX_TEXT_CHARS].strip()


def _task_text(log: BlockingRecorder, task: Event, agent: str) -> str:
    """The request; of a session that began with another one, also that: “now do 6 and 7” says nothing without it."""
    prompts = log.read(f"run:{task.run}", kinds=("prompt.submitted",), limit=5) if task.run and _is_prompt_event(task) else ()
    first = next((event for event in prompts if _is_request(event, agent)), task)
    if first.id == task.id:
        return _request_text(task)
    return f"{_request_text(task)}\n\nThe session began with this request: {truncate_text(_request_text(first), MAX_FIRST_CHARS)}"


def _find_thread_scope(events: Sequence[Event]) -> str | None:
    """The scope of the agent's current task, goal, mission or run."""
    for event in reversed(events):
        for name in _THREAD_FIELDS:
            if (value := getattr(event, name)) is not None:
                return f"{name}:{value}"
    return None


def _build_scene(events: Sequence[Event], summarize: SummarizeEvents) -> PromptScene | None:
    sentences = list(summarize(events))[-MAX_SENTENCES:] if events else []
    if not sentences:
        return None
    return PromptScene(
        text="\n".join(sentence.text for sentence in sentences), events=tuple(event for sentence in sentences for event in sentence.events)
    )


def _iterate_messages(events: Iterable[Event], agent: str, task: Event | None) -> Iterator[PublicLine]:
    """What others said on the agent's thread."""
    for event in events:
        is_message = _is_message(event) or _is_prompt_event(event)
        if (
            is_message
            and _message_author(event) != agent
            and (task is None or event.id != task.id)
            and (line := _make_line(event)) is not None
        ):
            yield line


def _iterate_interruptions(events: Iterable[Event]) -> Iterator[PublicLine]:
    """Where a person intervened."""
    for event in events:
        if event.kind == "user.injected" or (event.kind == "prompt.submitted" and event.data.get("correction") is True):
            line = _make_line(event)
            if line is not None:
                yield line


def _make_line(event: Event) -> PublicLine | None:
    """The line of a public event; without a text, from its payload."""
    text = event_line(event) if can_see(event, PUBLIC) else None
    if not text:
        return None
    return PublicLine(
        id=event.id or "",
        at=event_stamp(event)[0],
        turn=0,
        speaker=_message_author(event),
        kind=event.kind,
        text=_unescape_newlines(text) if event.kind == "tool.failed" else text,
        position=event.position or "",
    )


def _message_author(event: Event) -> str:
    """Who wrote the text: a returned agent's report is its own."""
    return event.child if event.kind == "agent.returned" and event.child else event_speaker(event)


def _unescape_newlines(text: str) -> str:
    """Some tools report output with line breaks as a backslash and an n."""
    return text.replace("\\r\\n", "\n").replace("\\n", "\n")


def _explain_sources(scope: str, events: int, task: Event | None) -> tuple[str, ...]:
    source_note = f"no run of a stage: the newest {events:,} events of {scope} were read"
    return (
        source_note,
        "no open task was found" if task is None else f"the task is that of {task.kind} at {task.position}",
    )
