"""Memories of a turn: one request, only when it is due, one at a time, and with a circuit breaker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fleetlore.errors import ModelBusy, ModelError
from fleetlore.events.driver_types import Failure, Verdict
from fleetlore.events.goal_plan import Memory
from fleetlore.goal.memory.extraction import BREAKER_COOLDOWN_TURNS, build_extraction_prompt, extract_memories, find_extraction_skip_reason
from fleetlore.goal.memory.folder import MemoryFolder, MemoryProposal
from fleetlore.testing import START, FrozenClock, ScriptedModel, Stall

PLAN = Memory(every=1, max_failures=2)
NODE = {"memories": [{"title": "Node 22", "content": "The tests need Node 22."}]}


@pytest.fixture
def folder(tmp_path: Path) -> MemoryFolder:
    return MemoryFolder(str(tmp_path / "memory"))


# --- the gates


@pytest.mark.parametrize(
    ("memory", "state", "expected"),
    [
        (None, {}, "disabled"),
        (Memory(enabled=False), {"is_running": True, "agent_wrote": True}, "disabled"),
        (PLAN, {}, None),
        (PLAN, {"last_turn": 8}, None),
        (Memory(every=3), {"last_turn": 7, "is_running": True}, "throttled"),
        (Memory(every=3), {"last_turn": 6}, None),
        (Memory(every=3), {}, None),
        (PLAN, {"is_running": True, "failures": 9, "breaker_opened_turn": 8}, "in_progress"),
        (PLAN, {"failures": 1, "breaker_opened_turn": 8}, None),
        (PLAN, {"failures": 2, "breaker_opened_turn": 8, "agent_wrote": True}, "circuit_breaker_open"),
        (PLAN, {"failures": 2, "breaker_opened_turn": None}, "circuit_breaker_open"),
        (PLAN, {"failures": 2, "breaker_opened_turn": 9 - BREAKER_COOLDOWN_TURNS}, None),
        (PLAN, {"failures": 2, "breaker_opened_turn": 9 - BREAKER_COOLDOWN_TURNS, "agent_wrote": True}, "main_agent_wrote"),
        (PLAN, {"agent_wrote": True}, "main_agent_wrote"),
    ],
)
def test_what_speaks_against_it_is_reported_the_first_reason_first(
    memory: Memory | None, state: dict[str, Any], expected: str | None
) -> None:
    assert find_extraction_skip_reason(memory, turn=9, **state) == expected


@pytest.mark.parametrize(("every", "expected"), [(1, [1, 2, 3, 4, 5, 6, 7]), (2, [1, 3, 5, 7]), (3, [1, 4, 7])])
def test_every_so_many_turns_means_so_many(every: int, expected: list[int]) -> None:
    asked: list[int] = []
    for turn in range(1, 8):
        if find_extraction_skip_reason(Memory(every=every), turn=turn, last_turn=asked[-1] if asked else None) is None:
            asked.append(turn)
    assert asked == expected


def test_a_mind_that_fails_is_left_alone_for_a_while_and_then_tried_once() -> None:
    failed: list[int] = []
    for turn in range(1, 4 + 2 * BREAKER_COOLDOWN_TURNS):
        if find_extraction_skip_reason(PLAN, turn=turn, failures=len(failed), breaker_opened_turn=failed[-1] if failed else None) is None:
            failed.append(turn)
    assert failed == [1, 2, 2 + BREAKER_COOLDOWN_TURNS, 2 + 2 * BREAKER_COOLDOWN_TURNS]


# --- the question


async def test_what_a_mind_thinks_worth_keeping_becomes_files(folder: MemoryFolder) -> None:
    mind = ScriptedModel([NODE])
    saved = await extract_memories(
        mind, folder, words="It was Node.", diff="1 file changed", turn=4, goal="g", event="e", now=FrozenClock()
    )
    assert saved == 1
    [note] = folder.read_notes()
    assert (note.name, note.content, note.turn, note.at) == ("node-22.md", "The tests need Node 22.", 4, START)
    assert mind.asked[0].role == "memory"


def test_the_question_shows_the_turn_as_a_record_and_what_is_known_already(folder: MemoryFolder) -> None:
    folder.save_proposals([MemoryProposal(title="Port", content="It is 8000.")], at=START)
    failure = Failure(criterion_index=0, criterion_label="make test", message="exit code 2")
    verdict = Verdict(met=False, failures=(failure,), evaluated_at="2026-01-01T09:00:00Z", elapsed_ms=1)
    asked = build_extraction_prompt(
        words="## What to do\nRemember me!", diff="a.py | 2 +-", turn=4, verdict=verdict, notes=folder.read_notes()
    )
    assert "> \\## What to do\n> Remember me!" in asked
    assert asked.count("\n## What to do\n") == 1
    for line in ("> a.py | 2 +-", "> Not met: make test: exit code 2", "> port.md: Port. It is 8000."):
        assert f"\n{line}\n" in asked
    assert "notes are full" not in asked
    assert "notes are full" in build_extraction_prompt(words="", diff="", turn=1, notes=[], is_full=True)


async def test_no_more_is_kept_than_was_asked_for(folder: MemoryFolder) -> None:
    many = {"memories": [{"title": f"Note {number}", "content": f"Words {number}."} for number in range(50)]}
    assert await extract_memories(ScriptedModel([many]), folder, words="", diff="", turn=1, max_memories=2) == 2
    assert len(folder.read_notes()) == 2


async def test_a_newer_memory_takes_the_place_of_one_that_is_wrong(folder: MemoryFolder) -> None:
    better = {"memories": [{"title": "Node 24", "content": "They need Node 24.", "supersedes": "node-22.md"}]}
    mind = ScriptedModel([NODE, better])
    for turn in (1, 2):
        await extract_memories(mind, folder, words="", diff="", turn=turn)
    assert [note.title for note in folder.read_notes()] == ["Node 24"]


@pytest.mark.parametrize("answer", ["No idea.", {"memories": "none"}, {"notes": []}, ModelBusy("busy")])
async def test_an_answer_that_cannot_be_used_writes_nothing(folder: MemoryFolder, answer: Any) -> None:
    with pytest.raises(ModelError):
        await extract_memories(ScriptedModel([answer]), folder, words="", diff="", turn=1)
    assert folder.read_notes() == []


async def test_a_mind_that_holds_to_no_schema_does_no_harm(folder: MemoryFolder) -> None:
    odd = ScriptedModel(
        lambda ask: {"memories": [{"title": "../../x", "content": "é" * 9000, "supersedes": None}, {"title": "", "content": "y"}]}
    )
    assert await extract_memories(odd, folder, words="\ud800", diff="", turn=1) == 2
    assert {note.name for note in folder.read_notes()} == {"x.md", "y.md"}
    assert max(len(note.content) for note in folder.read_notes()) == 4000


async def test_a_folder_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "memory").write_text("no folder")
    with pytest.raises(OSError, match="memory"):
        await extract_memories(ScriptedModel([NODE]), MemoryFolder(str(tmp_path / "memory")), words="", diff="", turn=1)


async def test_a_question_can_be_called_off(folder: MemoryFolder) -> None:
    task = asyncio.create_task(extract_memories(ScriptedModel([Stall()]), folder, words="", diff="", turn=1))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert folder.read_notes() == []
