"""The transcript reader and the harness, held to Fleetlore's laws."""

import asyncio
import os
from pathlib import Path

from fleetlore.testing import check_harness, check_program
from fleetlore_sprig.harness import SprigHarness
from fleetlore_sprig.program import PROGRAM

HERE = Path(__file__).parent
SESSION = (HERE / "session.jsonl").read_bytes().splitlines()


def test_the_transcript_is_read_whole_or_in_pieces_and_never_falls_over() -> None:
    events = check_program(PROGRAM, SESSION)
    assert [event.kind for event in events[:4]] == ["session.started", "prompt.submitted", "tool.called", "tool.failed"]
    assert events[3].cause == events[2].id


def test_tools_are_commands_and_edits() -> None:
    read = PROGRAM.load_tool_calls().read_input
    assert read("sh", {"line": "make"}) is not None
    assert read("save", {"path": "a.py", "text": ""}) is not None
    assert read("dance", {}) is None


def test_the_harness_ends_every_turn(tmp_path: Path) -> None:
    environ = {**os.environ, "SPRIG_HOME": str(tmp_path / "sprig")}
    harness = SprigHarness((str(HERE / "sprig"),), environ)
    ended = asyncio.run(check_harness(harness, str(tmp_path)))
    assert (ended.how, ended.words, ended.tokens) == ("finished", "I wrote hello.txt, and the tests pass.", 134)


def test_a_program_that_is_missing_is_a_turn_that_was_not_started(tmp_path: Path) -> None:
    harness = SprigHarness(("no-such-sprig",), dict(os.environ))
    assert asyncio.run(check_harness(harness, str(tmp_path))).how == "not_started"
