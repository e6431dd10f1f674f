"""Goals in every state, recorded by the real driver with scripted agents, for tests of pages and API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from msgspec.structs import replace

from fleetlore import Event, connect
from fleetlore.events.driver_types import Failure, FileMatches, Goal, LlmJudge, ShellCommand, Verdict
from fleetlore.goal import commands
from fleetlore.programs.harness import TurnProgress, TurnRequest, TurnResult, Watch
from tests.goal.scripted import DriverSetup, FakeChecker, FakeCheckResult, ScriptedTurn, done, goal, make_driver

CRITERIA = (
    ShellCommand(command="make test"),
    FileMatches(path="CHANGELOG.md", regex="^## 2\\.4"),
    LlmJudge(criterion_text="The parser's error messages say what to do next."),
)
EVIDENCE = (
    (
        "exit 2, and 0 was expected",
        "tests/test_parser.py::test_empty_line FAILED\nE   ParseError: line 3: unexpected end\n2 failed, 41 passed in 3.2s",
    ),
    ("no line matches", "## 2.3\n\n- Reads empty lines.\n"),
    ("two messages only name the error", "`unexpected token` and `bad indent` say nothing about what to write instead."),
)
Until: TypeAlias = Callable[[Event], bool]


class Asking:
    """A turn in which the agent wants to use a tool, and somebody must say yes."""

    def __init__(self, tool: str, input: Any) -> None:
        self.tool, self.input = tool, input


Moves: TypeAlias = "Sequence[ScriptedTurn | Asking]"


def id_of(number: int) -> str:
    """Of the nth goal."""
    return f"{number:08x}-7d1c-4b3a-8c3e-2f1d5a6b7c8d"


def made(number: int, description: str, *, budget: dict[str, Any] | None = None, **plan: Any) -> Goal:
    """A goal with three criteria."""
    wanted = {"max_tokens": 400_000, "max_turns": 12} | (budget or {})
    return replace(goal(budget=wanted, id=id_of(number), **({"max_usd": 5.0} | plan)), description=description, acceptance=CRITERIA)


class Checks(FakeChecker):
    """What each check finds wrong, by the numbers of the criteria; the last one goes on."""

    def __init__(self, wrong: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self._wrong, self._count = wrong, 0

    async def check(self, goal: Goal, workspace: Any, **more: Any) -> FakeCheckResult:
        wrong = self._wrong[min(self._count, len(self._wrong) - 1)]
        self._count += 1
        failures = tuple(
            Failure(criterion_index=n, criterion_label=f"criterion {n}", message=EVIDENCE[n][0], evidence=EVIDENCE[n][1]) for n in wrong
        )
        return FakeCheckResult(Verdict(met=not failures, failures=failures, evaluated_at="2026-11-16T09:00:00Z", elapsed_ms=840))


def clock_from(start: datetime, step: float) -> Callable[[], datetime]:
    """Time that goes on whenever somebody looks."""
    moment = start

    def now() -> datetime:
        nonlocal moment
        moment += timedelta(seconds=step)
        return moment

    return now


def pursued(
    goal: Goal,
    moves: Moves,
    *,
    wrong: Sequence[Sequence[int]] = ((),),
    until: Until | None = None,
    before: Sequence[Event] = (),
    above: Sequence[Event] = (),
    start: datetime | None = None,
    step: float = 4.0,
    **more: Any,
) -> list[Event]:
    """The events of a goal that is led to its end, or whose driver dies with the first event that `until` fits."""
    run = _run(goal, moves, Checks(wrong), until, (above, before), clock_from(start or datetime.now(UTC) - timedelta(hours=1), step), more)
    with ThreadPoolExecutor(1) as thread:  # a browser that is driven from this thread keeps a loop in it
        events = thread.submit(asyncio.run, run).result()
    cut = next((n + 1 for n, event in enumerate(events) if until is not None and until(event)), len(events))
    return [replace(event, position=None) for event in events[:cut]]


async def _run(
    goal: Goal,
    moves: Moves,
    checks: Checks,
    until: Until | None,
    others: tuple[Sequence[Event], Sequence[Event]],
    now: Callable[[], datetime],
    more: dict[str, Any],
) -> list[Event]:
    with connect("memory:").blocking() as log:

        async def watch(event: Event) -> None:
            if until is not None and until(event):
                pursuing.cancel()

        led = make_driver(log, [_bound(move, lambda: led) for move in moves], clock=now, id=goal.id, watch=watch, **more)
        led.resources.verifiers = checks
        log.append_all(others[0])
        await led.driver.start(goal)
        log.append_all(others[1])
        pursuing = asyncio.ensure_future(led.driver.run_goal())
        with suppress(asyncio.CancelledError):
            await pursuing
        return list(log.read(f"goal:{goal.id}"))


def _bound(move: ScriptedTurn | Asking, led: Callable[[], DriverSetup]) -> ScriptedTurn:
    """A move that asks for permission finds whom to ask."""
    if not isinstance(move, Asking):
        return move

    async def turn(order: TurnRequest, watch: Watch) -> TurnResult:
        await watch(TurnProgress(session=order.session or order.new_session, tokens=800, usd=0.02))
        await led().resources.tool_gate.permit(move.tool, move.input)
        return done()

    return turn


def is_kind(kind: str, nth: int = 1) -> Until:
    """The nth event of a kind."""
    seen: list[str] = []

    def fits(event: Event) -> bool:
        if event.kind == kind and event.id not in seen:
            seen.append(event.id or "")
        return event.kind == kind and seen.index(event.id or "") == nth - 1

    return fits


def words(text: str, tokens: int, usd: float) -> TurnResult:
    """A turn that ends with these words."""
    return done(text, tokens=tokens, usd=usd)


TURNS = (
    words("I read the parser and its tests. Two tests fail on an empty line; I mended the reader first.", 38_200, 0.31),
    words("Empty lines are read now. The changelog still lacks its entry, and two messages say too little.", 61_400, 0.52),
    words("All three are done: tests are green, the changelog has 2.4, and every message says what to write instead.", 22_900, 0.19),
)


def finished(number: int = 1, **more: Any) -> list[Event]:
    """Done in its third turn."""
    return pursued(made(number, "Mend the parser: empty lines, and messages that help"), TURNS, wrong=((0, 1, 2), (1, 2), ()), **more)


def asking(number: int = 2, **more: Any) -> list[Event]:
    """Waits in its second turn for a person to allow a command."""
    plan: dict[str, Any] = {"harness": "mind", "agent": "bram", "permissions": {"patience": 3600}}
    moves = (TURNS[0], Asking("Bash", {"command": "git push --force origin release/2.4", "description": "Publish the rebased branch"}))
    made_ = made(number, "Bring release/2.4 up to date with main, and publish it", **plan)
    return pursued(made_, moves, wrong=((0,),), until=is_kind("approval.requested"), **more)


def stopped(number: int = 3, **more: Any) -> list[Event]:
    """Needs a person: its key is not valid."""
    error = 'API Error: 401 {"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}'
    return pursued(
        made(number, "Translate the handbook into Frisian", agent="cleo"), [TurnResult(how="failed", error=error, tokens=120)], **more
    )


def spent(number: int = 4, **more: Any) -> list[Event]:
    """Out of turns, with one criterion left."""
    goal_ = made(number, "Halve the start-up time", budget={"max_turns": 3}, agent="dora")
    return pursued(goal_, TURNS, wrong=((0, 1), (0, 1), (0,)), **more)


def working(number: int = 5, **more: Any) -> list[Event]:
    """In its third turn, or its driver died there; a person has said something for the next one."""
    goal_ = made(number, "Write the migration guide for version 3", agent="emil", parent=more.pop("parent", None))
    events = pursued(goal_, TURNS, wrong=((0, 1, 2), (0, 2)), until=is_kind("driver.attempt_started", 3), **more)
    return [
        *events,
        commands.make_control_event(goal_.id, "say", by="grace", value="Leave the old names in an appendix.", now=_after(events)),
    ]


def paused(number: int = 6, **more: Any) -> list[Event]:
    """Paused before its first turn."""
    goal_ = made(number, "Sort the photographs by who is on them", agent="fern")
    pause = commands.make_control_event(
        goal_.id, "pause", by="grace", reason="The disk is full", now=lambda: datetime.now(UTC) - timedelta(minutes=50)
    )
    return pursued(goal_, TURNS, wrong=((0,),), until=is_kind("goal.waiting"), before=[pause], **more)


def _after(events: Sequence[Event]) -> Callable[[], datetime]:
    newest = max(event.at for event in events if event.at is not None)
    return lambda: newest + timedelta(seconds=2)


def all_sorts() -> list[Event]:
    """A goal in each state that matters."""
    now = datetime.now(UTC)
    made_ = (
        finished(start=now - timedelta(hours=3), step=40),
        asking(start=now - timedelta(minutes=6)),
        stopped(start=now - timedelta(hours=5)),
        spent(start=now - timedelta(hours=2), step=25),
        working(start=now - timedelta(minutes=12), step=12),
        paused(start=now - timedelta(minutes=55)),
    )
    return [event for events in made_ for event in events]
