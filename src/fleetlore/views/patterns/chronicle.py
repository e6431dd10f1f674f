"""The five arcs of a nexus chronicle, by the rules of that format (docs/ancestors.md): the work decides, not the agent.

An event belongs to the task that it names, else to the one that its agent was given last. An event without either may belong to
any task: it counts for each of them, and all such events make up one thread. A thread has at most one arc.
A collaboration that names no task joins all agents of the chronicle, on any task.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct, field

from fleetlore.dialects.nexus import KIND_PREFIX, NAME, find_reference
from fleetlore.events.envelope import Event
from fleetlore.views.event_text import event_rank, event_stamp
from fleetlore.views.patterns.model import MOST_EVIDENCE, Finding

SHARED_THREAD = "fleet:chronicle"
"""The thread of events that name no task."""
ARC_KINDS = ("struggle_and_recovery", "abandon_then_retry", "solo_sprint", "fleet_convergence", "silent_grind")
"""The order of precedence."""
MOST_STEPS, MOST_TASKS = 400, 1000
_QUIET = frozenset(("heartbeat", "idle"))
_SPRINT = frozenset(("dispatch", "commit", "pr_open", "pr_merge"))
_DRAMA = frozenset(("error", "abandon", "recovery", "collab"))


class ChronicleStep(Struct, frozen=True, array_like=True, gc=False):
    """One event of a chronicle."""

    at: datetime
    place: tuple[str, int, str]
    """Orders events of the same time."""
    id: str
    kind: str
    who: str


class Chronicle(Struct):
    """The steps of each task, and which task each agent has."""

    threads: dict[str, list[ChronicleStep]] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=dict)
    """Agent → the task of its last dispatch."""
    pull_requests: dict[str, str] = field(default_factory=dict)
    """Number of a pull request → the task that it was opened for."""


def is_chronicle(event: Event) -> bool:
    """Whether an event comes from a nexus chronicle."""
    return event.origin is not None and event.origin.dialect == NAME and event.kind.startswith(KIND_PREFIX) and event.id is not None


def add_event(chronicle: Chronicle, event: Event, *, is_bounded: bool = True) -> str:
    """Add an event of a chronicle; returns its thread."""
    kind, who = event.kind.removeprefix(KIND_PREFIX), event.agent or event.actor or ""
    thread = _find_thread(chronicle, event, kind, who)
    steps = chronicle.threads.setdefault(thread, [])
    (_, source, line), tie_breaker = event_rank(event)
    step = ChronicleStep(event_stamp(event)[0], (source, line, tie_breaker), event.id or "", kind, who)
    if is_bounded and kind in _QUIET and any(known.who == who for known in steps):
        return thread  # one sign of life says that the agent is there
    steps.append(step)
    if len(steps) > 1 and steps[-2].at > step.at:
        steps.sort(key=_step_order)
    if is_bounded:
        del steps[:-MOST_STEPS]
        for names in (chronicle.threads, chronicle.given, chronicle.pull_requests):
            if len(names) > MOST_TASKS:
                del names[next(iter(names))]
    return thread


def _find_thread(chronicle: Chronicle, event: Event, kind: str, who: str) -> str:
    named = event.task or find_reference(event.data, event.text)
    given = chronicle.given.get(who)
    if given is not None and named != given and kind != "dispatch" and "issue_number" not in event.data:
        # What an agent does belongs to the issue that it was given; another number is that of its pull request.
        if named is not None and kind == "pr_open":
            chronicle.pull_requests[named] = given
        if named is None and kind == "collab":
            return SHARED_THREAD
        named = given if named is None or kind in ("commit", "push", "pr_open", "pr_merge") else named
    if named is None:
        return SHARED_THREAD
    task = chronicle.pull_requests.get(named, named)
    if kind == "dispatch":
        chronicle.given[who] = task
    elif kind in ("abandon", "pr_merge"):
        chronicle.given.pop(who, None)
    return f"task:{task}"


def _step_order(step: ChronicleStep) -> tuple[datetime, tuple[str, int, str]]:
    return step.at, step.place


def find_arcs(chronicle: Chronicle, among: Collection[str] | None = None) -> list[Finding]:
    """At most one arc per thread, by precedence and then the newest first; `among`: ids of the events that count."""
    found: dict[tuple[str, ...], Finding] = {}
    for thread in (*chronicle.threads, SHARED_THREAD):
        for finding in find_arcs_of_thread(chronicle, thread, among):
            found.setdefault((finding.kind, *finding.evidence), finding)
    return sorted(found.values(), key=lambda one: (ARC_KINDS.index(one.kind), -one.last_at.timestamp(), one.thread))


def find_arcs_of_thread(chronicle: Chronicle, thread: str, among: Collection[str] | None = None) -> Iterator[Finding]:
    """The arc of a task together with the events that name no task."""
    own, shared = (chronicle.threads.get(key, []) for key in (thread, SHARED_THREAD))
    steps = _select_steps((*own, *shared), among)
    for finding in _find_arc(thread, steps):
        if not any(step.id in finding.evidence for step in own):
            finding.thread = SHARED_THREAD
        yield finding
    if thread == SHARED_THREAD and any(step.kind == "collab" for step in steps):
        yield from _find_convergence(thread, _select_steps((step for each in chronicle.threads.values() for step in each), among))


def _select_steps(steps: Iterable[ChronicleStep], among: Collection[str] | None) -> list[ChronicleStep]:
    selected = {step.id: step for step in steps if among is None or step.id in among}
    return sorted(selected.values(), key=_step_order)


def _find_arc(thread: str, steps: Sequence[ChronicleStep]) -> Iterator[Finding]:
    """The first arc that the steps make, in the order of `ARC_KINDS`."""
    kinds = {step.kind for step in steps}
    working = list(dict.fromkeys(step.who for step in steps if step.kind not in _QUIET))
    if pair := _find_pair(steps, "error", "recovery"):
        yield _make_finding("struggle_and_recovery", thread, pair)
    elif pair := _find_pair(steps, "abandon", "dispatch"):
        yield _make_finding("abandon_then_retry", thread, pair)
    elif kinds >= _SPRINT and len(working) == 1:
        yield _make_finding("solo_sprint", thread, [step for step in steps if step.kind in _SPRINT])
    elif convergence := _find_convergence(thread, steps):
        yield from convergence
    elif "commit" in kinds and kinds.isdisjoint(_DRAMA):
        yield _make_finding("silent_grind", thread, [step for step in steps if step.kind not in _QUIET])


def _find_convergence(thread: str, steps: Sequence[ChronicleStep]) -> list[Finding]:
    """More than one agent and a collaboration: the first step of each agent, and the collaborations."""
    firsts, collabs = {step.who: step for step in reversed(steps)}, [step for step in steps if step.kind == "collab"]
    if not collabs or len(firsts) < 2:
        return []
    return [_make_finding("fleet_convergence", thread, _select_steps((*firsts.values(), *collabs), None))]


def _find_pair(steps: Sequence[ChronicleStep], first: str, second: str) -> list[ChronicleStep]:
    """The first step of a kind, and the next one of another kind."""
    begun: ChronicleStep | None = None
    for step in steps:
        if begun is None and step.kind == first:
            begun = step
        elif begun is not None and step.kind == second:
            return [begun, step]
    return []


def _make_finding(kind: str, thread: str, steps: Sequence[ChronicleStep]) -> Finding:
    shown = steps if len(steps) <= MOST_EVIDENCE else (*steps[: MOST_EVIDENCE // 2], *steps[-MOST_EVIDENCE // 2 :])
    return Finding(
        kind=kind,
        thread=thread,
        agents=list(dict.fromkeys(step.who for step in steps)),
        state="closed",
        first=steps[0].id,
        last=steps[-1].id,
        evidence=[step.id for step in shown],
        count=len(steps),
        first_at=steps[0].at,
        last_at=steps[-1].at,
    )
