"""The sixteen events of a driver, byte for byte in the nexo format, all from goals that really ran."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetlore import connect
from fleetlore.dialects.nexo import DIALECT, SUBJECT_BY_KIND
from fleetlore.events.goal_plan import Compaction, Memory, Permissions
from fleetlore.goal.memory.folder import MemoryFolder
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.models.scripted import ScriptedModel
from fleetlore.programs.harness import TurnProgress, TurnRequest, TurnResult, Watch
from tests.goal.scripted import GOAL, Clock, ScriptedTurn, done, goal, make_driver

GOLDEN = Path(__file__).parent / "golden" / "wire.jsonl"


@pytest.fixture
def log() -> Iterator[BlockingRecorder]:
    with connect("memory:").blocking() as log:
        yield log


def ids() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"01a1e397-0000-7000-8000-{number:012x}"


def without_times(line: bytes) -> bytes:
    """Durations differ from run to run; that they are written as durations does not."""
    for name in (b"wall_time", b"elapsed"):
        line = re.sub(rb'"%s":"([0-9]+(h|m|s|ms) ?)+"' % name, b'"%s":"1m 2s"' % name, line)
    line = re.sub(rb'"decided_at":"2026-11-16T09:0[0-9]:[0-9]{2}Z"', b'"decided_at":"2026-11-16T09:00:12Z"', line)
    return re.sub(rb'"duration_ms":[0-9]+', b'"duration_ms":51', line)


async def test_every_one_of_the_sixteen_is_reported_and_written_as_the_format_wants_it(log: BlockingRecorder, tmp_path: Path) -> None:
    """One long goal: a retry, a denied tool, a compaction, a lost session, memories, and in the end a budget; a second one escalates."""

    async def ask(order: TurnRequest, watch: Watch) -> TurnResult:
        await setup.resources.tool_gate.permit("Bash", {"command": "curl example.org"})
        await watch(TurnProgress(session=order.new_session))
        return done("It is done.", context=90_000)

    moves: list[ScriptedTurn] = [
        ask,
        done("The parser is half done."),
        TurnResult(how="failed", error="No conversation found with session ID: 7", tokens=1),
        done(),
    ]
    memories = {"memory": {"memories": [{"title": "Tests", "content": "make test runs them."}]}}
    new = ids()
    setup = make_driver(
        log,
        moves,
        met=[False],
        clock=Clock(),
        new_id=lambda: next(new),
        memory=MemoryFolder(str(tmp_path / "ada")),
        thinker=ScriptedModel(memories),
        holder="here:1",
    )
    plan = goal(
        budget={"max_turns": 3},
        progress_every=2,
        permissions=Permissions(deny=("Bash",)),
        compaction=Compaction(context_window=100_000, min_turns_between=1),
        memory=Memory(every=2),
    )
    await setup.driver.start(plan)
    await setup.driver.run_goal()
    second = make_driver(
        log, [TurnResult(how="failed", error="Invalid API key", tokens=1)], id=GOAL[:-1] + "3", new_id=lambda: next(new), holder="here:1"
    )
    await second.driver.start(goal(id=GOAL[:-1] + "3"))
    await second.driver.run_goal()

    first: dict[str, bytes] = {}
    for event in log.read(kinds=["driver.*"]):
        first.setdefault(event.kind, DIALECT.encode(event) or b"")
    assert {kind.removeprefix("driver.") for kind in first} == set(SUBJECT_BY_KIND)
    lines = b"".join(without_times(first[f"driver.{kind}"]) + b"\n" for kind in SUBJECT_BY_KIND)
    if "FLEETLORE_WRITE_GOLDEN" in os.environ:
        GOLDEN.write_bytes(lines)
    assert lines == GOLDEN.read_bytes()
