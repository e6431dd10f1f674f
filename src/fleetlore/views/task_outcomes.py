"""Outcomes of tasks: of issue trackers, forges and the town. A task can be closed by work, without a change, or as not wanted.

A task that is given out again after it was taken away or reported is a retry. The fold keeps the newest facts of each task;
`make_task_outcome` says what they come to in a period.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Literal, NamedTuple

from msgspec import Struct, field

from fleetlore.events.envelope import Event
from fleetlore.events.visibility import READER, can_see
from fleetlore.views.event_text import EPOCH, event_rank
from fleetlore.views.outcomes.facts import RiskFlag, Source
from fleetlore.views.outcomes.words import first_sentence, shorten_text

VERSION = 7
"""Raised with every change of the state's shape or rules: stored states of another version are folded again."""
MOST_STEPS = 60
LONGEST_TITLE = 200
LONGEST_REASON = 300
LONGEST_SHOWN = 120
"""A reason up to here is shown whole."""
FIRST_WORDS = 5
MOST_EVIDENCE = 5
MOST_NOTES = 3
MOST_GIVEN = 12

TaskResult = Literal["closed", "merged", "no_change", "dropped", "not_merged", "failed", "reopened", "open"]
TaskStepKind = Literal[
    "given",
    "released",
    "started",
    "noted",
    "reported",
    "closed",
    "merged",
    "dropped",
    "not_merged",
    "failed",
    "reopened",
    "check_failed",
    "check_passed",
]


class TaskStep(Struct, frozen=True):
    """One thing that happened to a task."""

    at: datetime
    kind: TaskStepKind
    source: Source
    agent: str = ""
    text: str = ""
    place: tuple[str, int, str] = ("", 0, "")
    """Source, line and tie-breaker: orders steps of the same time, whichever was imported first."""


class TaskState(Struct, kw_only=True):
    """What is known of one task."""

    task: str
    title: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    steps: list[TaskStep] = field(default_factory=list)


class TaskOutcome(Struct, kw_only=True):
    """What a period did to one task."""

    task: str
    title: str
    result: TaskResult
    reason: str
    """The words of the one who closed it."""
    agent: str
    """To whom it was given last; of a pull request, its author. Who closes a task need not have worked on it."""
    agents: list[str]
    """Everybody to whom it was given in the period."""
    given: int
    """How often it was given to somebody in the period."""
    reported: int
    """How often a worker reported it as done in the period."""
    released: int = 0
    """How often it was taken away or let go without being closed."""
    notes: list[str] = field(default_factory=list)
    """The newest notes of workers, the last one last."""
    failed_check: str
    """A check of its pull request that failed and did not pass again."""
    at: datetime
    """When it was closed or reopened, else when somebody last did something about it."""
    flags: list[RiskFlag] = field(default_factory=list)
    """`repeated_work` if it was given out again after it was done, and done again."""
    evidence: list[Source] = field(default_factory=list)


def name_task(event: Event) -> str | None:
    """The task of an event. The number of a forge's issue says nothing without its repository: `acme/shop#7`."""
    mission = event.mission or ""
    return f"{mission}{event.task}" if event.task is not None and event.task.startswith("#") and "/" in mission else event.task


def begin_task(task: str) -> TaskState:
    """A task of which nothing is known yet."""
    return TaskState(task=task)


def apply(state: TaskState, event: Event) -> TaskState:
    """The task after one more of its events. Changes the state in place; never raises."""
    read = _READERS.get(event.kind)
    if read is None or not can_see(event, READER):
        return state
    at = event.at or state.ended
    if at is None:
        return state
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    title = event.data.get("title")
    if isinstance(title, str) and title.strip():
        state.title = shorten_text(title[: 2 * LONGEST_TITLE], LONGEST_TITLE)
    step = read(event)
    state.started = at if state.started is None else min(state.started, at)
    state.ended = at if state.ended is None else max(state.ended, at)
    if step is not None:
        kind, agent, text = step
        (_, origin, line), tie_breaker = event_rank(event)
        source = Source(event.id or "", event.id or "")
        found = TaskStep(at, kind, source, agent[:200], text[:LONGEST_REASON], (origin, line, tie_breaker))
        state.steps.append(found)
        if len(state.steps) > 1 and state.steps[-2].at >= at:
            state.steps.sort(key=lambda one: (one.at, one.place))
        del state.steps[: max(0, len(state.steps) - MOST_STEPS)]
    return state


class _Read(NamedTuple):
    kind: TaskStepKind
    agent: str = ""
    text: str = ""


def _as_string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _read_given(event: Event) -> _Read | None:
    return _Read("given", event.agent or event.child or "") if event.agent or event.child else None


def _read_completed(event: Event) -> _Read:
    return _Read("closed", event.agent or event.actor or "", _as_string(event.data.get("result")))


def _read_updated(event: Event) -> _Read | None:
    """A note of a worker, or a task that is taken away; other changes say nothing about the outcome."""
    if released := _as_string(event.data.get("released")):
        return _Read("released", released)
    note = _as_string(event.data.get("new")) if event.data.get("field") == "notes" else ""
    if not note.strip():
        return None
    return _Read("reported" if _DONE_NOTE.match(note) else "noted", event.actor or "", note)


def _read_abandoned(event: Event) -> _Read | None:
    """A pull request that was closed without a merge; an agent that lets its task go has not closed it."""
    return _Read("not_merged" if "number" in event.data else "released", event.agent or "")


def _read_check(event: Event) -> _Read | None:
    check = _as_string(event.data.get("check"))
    return _Read("check_passed" if event.kind == "forge.check_succeeded" else "check_failed", event.agent or "", check) if check else None


_DONE_NOTE = re.compile(r"(?i)\W*(?:implement(?:ed|ation complete)|fixed|done|completed?|shipped)\b")
_READERS: Mapping[str, Callable[[Event], _Read | None]] = {
    "work.task_created": lambda event: None,
    "fleet.dispatch": _read_given,
    "town.task_assigned": _read_given,
    "work.started": lambda event: _Read("started", event.agent or ""),
    "work.updated": _read_updated,
    "town.task_completed": _read_completed,
    "town.task_failed": lambda event: _Read("failed", event.agent or event.actor or "", _as_string(event.data.get("error"))),
    "work.cancelled": lambda event: _Read("dropped", event.agent or "", _as_string(event.data.get("reason"))),
    "work.reopened": lambda event: _Read("reopened", event.agent or "", _as_string(event.data.get("reason"))),
    "fleet.pr_open": lambda event: None,
    "fleet.pr_merge": lambda event: _Read("merged", event.agent or "", ""),
    "fleet.abandon": _read_abandoned,
    "work.lease_lost": lambda event: _Read("released", event.agent or ""),
    "fleet.error": _read_check,
    "forge.check_succeeded": _read_check,
}
KINDS = frozenset(_READERS)
"""The kinds of events that say something about a task."""


def make_task_outcome(
    state: TaskState, since: datetime | None = None, until: datetime | None = None, *, is_wanted: bool = False
) -> TaskOutcome | None:
    """What happened to the task in the period; `None` if nothing that counts, unless the task itself `is_wanted`."""
    steps = [step for step in state.steps if (since is None or step.at >= since) and (until is None or step.at < until)]
    if not steps and not (is_wanted and state.started is not None):
        return None
    ends = [step for step in steps if step.kind in _ENDS]
    last = _choose_end(ends)
    given = [step for step in steps if step.kind == "given"]
    before = [step for step in state.steps if step.kind in ("given", "started") and (last is None or step.at <= last.at)]
    checks = {step.text: step for step in steps if step.kind in ("check_failed", "check_passed")}
    failing = [step for step in checks.values() if step.kind == "check_failed"]
    cited = [step.source for step in (*given[-MOST_GIVEN:], *failing[-1:], *ends[-1:])]
    return TaskOutcome(
        task=state.task,
        title=state.title,
        result="open" if last is None else classify_ending(last),
        reason=_shorten_reason(last.text) if last is not None else "",
        agent=before[-1].agent if before else last.agent if last is not None and last.kind != "closed" else "",
        agents=list(dict.fromkeys(step.agent for step in given)),
        given=len(given),
        reported=sum(step.kind == "reported" for step in steps),
        released=sum(step.kind == "released" for step in steps),
        notes=[shorten_text(step.text) for step in steps if step.kind in ("reported", "noted")][-MOST_NOTES:],
        failed_check=failing[-1].text if failing and (last is None or last.kind != "merged") else "",
        at=last.at if last is not None else steps[-1].at if steps else state.ended or EPOCH,
        flags=_find_repeated_work(state.steps, steps[-1].at if steps else EPOCH),
        evidence=cited,
    )


def _shorten_reason(text: str) -> str:
    """The reason on one line; of a long one the first sentence, with a mark that it goes on."""
    whole, first = " ".join(text.split()), first_sentence(text)
    if len(whole) <= LONGEST_SHOWN or not first:
        return whole
    return first if first.endswith("…") or whole.rstrip(". ").endswith(first.rstrip(". ")) else f"{first.rstrip('.')}…"


def _find_repeated_work(steps: Sequence[TaskStep], until: datetime) -> list[RiskFlag]:
    """The task was done, given out again and done again, by the end of the period."""
    done: list[TaskStep] = []
    is_out = True
    for step in steps:
        if step.at > until:
            break
        if step.kind in ("given", "started", "reopened"):
            is_out = True
        elif is_out and (step.kind in ("reported", "merged") or classify_ending(step) == "closed"):
            done.append(step)
            is_out = False
    if len(done) < 2:
        return []
    evidence = [step.source for step in done[-MOST_EVIDENCE:]]
    return [RiskFlag(flag="repeated_work", what=f"done {len(done)} times", executed=True, evidence=evidence)]


_ENDS = frozenset(["closed", "merged", "dropped", "not_merged", "failed", "reopened"])


def _choose_end(ends: Sequence[TaskStep]) -> TaskStep | None:
    """The last end; of closings in a row, the last one that gives a reason."""
    if not ends or ends[-1].kind != "closed":
        return ends[-1] if ends else None
    row: list[TaskStep] = []
    for step in reversed(ends):
        if step.kind != "closed":
            break
        row.append(step)
    return next((step for step in row if step.text), row[0])


class _Ending(NamedTuple):
    result: TaskResult
    start: re.Pattern[str] | None
    anywhere: re.Pattern[str] | None


@cache
def _load_endings() -> tuple[_Ending, ...]:
    text = resources.files(__package__).joinpath("task_endings.toml").read_text("utf-8")

    def compile_rule(rule: Mapping[str, str], key: str) -> re.Pattern[str] | None:
        return re.compile(rule[key], re.IGNORECASE) if key in rule else None

    return tuple(
        _Ending(rule["result"], compile_rule(rule, "start"), compile_rule(rule, "anywhere")) for rule in tomllib.loads(text)["ending"]
    )


def classify_ending(step: TaskStep) -> TaskResult:
    """What an end means, by its kind and the reason that is given."""
    match step.kind:
        case "merged" | "dropped" | "not_merged" | "failed" | "reopened":
            return step.kind
        case "closed":
            text = " ".join(step.text[:LONGEST_REASON].split())
            start = " ".join(re.split(r"[\s/]+", text)[:FIRST_WORDS])
            for rule in _load_endings():
                if (rule.start is not None and rule.start.search(start)) or (rule.anywhere is not None and rule.anywhere.search(text)):
                    return rule.result
            return "closed"
    return "open"
