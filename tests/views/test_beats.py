"""Beats that come of what was before: recoveries, loops, edits taken back. What arcs are made of in a transcript."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from fleetlore.dialects.commands.classify import classify_tool_call
from fleetlore.events.envelope import Event
from fleetlore.views import beats
from fleetlore.views.beats import MAX_AGENTS, MAX_EDITS, MAX_FAILURES, MAX_PENDING_CALLS, BeatState

START = datetime(2026, 11, 15, 9, tzinfo=UTC)


class BeatReader:
    """A working agent: each call is two events; returns the beats of both."""

    def __init__(self, agent: str = "ada", beats_before: BeatState | None = None) -> None:
        self.agent = agent
        self.beats = beats.initial() if beats_before is None else beats_before
        self.seconds = 0

    def record(self, kind: str, *, at: int | None = None, **data: Any) -> str | None:
        self.seconds += 1
        moment = START + timedelta(seconds=self.seconds if at is None else at)
        event = Event(id=f"{self.agent}{self.seconds}", at=moment, kind=kind, agent=self.agent, run="s1", data=data)
        return beats.classify_beat(self.beats, event)

    def use(
        self, tool: str, given: object, output: str = "", *, failed: bool = False, denied: bool = False
    ) -> tuple[str | None, str | None]:
        action, id = classify_tool_call(tool, given, output, failed=failed), f"c{self.seconds}"
        called = self.record("tool.called", tool=tool, call_id=id, input=given, deed=action.name)
        kind = "tool.denied" if denied else "tool.failed" if failed else "tool.returned"
        about: dict[str, Any] = {} if denied else {"subject": action.subject}
        return called, self.record(kind, tool=tool, call_id=id, deed=action.name, **about)

    def bash(self, command: str, output: str = "", *, failed: bool = False) -> str | None:
        return self.use("Bash", {"command": command}, output, failed=failed)[1]


def edit(old: str, new: str, path: str = "/src/a.py") -> dict[str, str]:
    return {"file_path": path, "old_string": old, "new_string": new}


def test_tests_that_pass_after_they_failed_are_a_recovery_and_then_progress() -> None:
    ada = BeatReader()
    assert ada.bash("pytest tests/log", "2 failed, 3 passed in 1.20s", failed=True) == "setback"
    assert ada.use("Edit", edit("a", "b"))[1] == "progress"
    assert ada.bash("pytest tests/log -q", "5 passed in 1.20s") == "recovery"
    assert ada.beats.note == "mended"
    assert ada.bash("pytest tests/log -q", "5 passed in 1.20s") == "progress"
    assert ada.beats.note is None


def test_failures_count_although_a_pipe_hid_them() -> None:
    ada = BeatReader()
    assert ada.bash("mix test 2>&1 | tail -5", "12 tests, 2 failures") == "setback"
    assert ada.bash("mix test 2>&1 | tail -20", "12 tests, 0 failures") == "recovery"


def test_a_broader_pass_fixes_and_a_narrower_one_does_not() -> None:
    ada = BeatReader()
    ada.bash("pytest tests/a", failed=True)
    ada.bash("pytest tests/b", failed=True)
    assert ada.bash("pytest") == "recovery"
    assert ada.bash("pytest tests/a") == "progress"
    ada.bash("pytest", failed=True)
    assert ada.bash("pytest tests/a") == "progress"
    assert ada.bash("pytest") == "recovery"


def test_one_kind_of_check_does_not_fix_another() -> None:
    ada = BeatReader()
    ada.bash("mypy src", failed=True)
    assert ada.bash("pytest") == "progress"
    assert ada.bash("mypy src") == "recovery"


def test_a_commit_that_a_hook_refused_is_fixed_by_the_next_one() -> None:
    ada = BeatReader()
    assert ada.bash("git commit -m one", failed=True) == "setback"
    assert ada.bash("mix format") == "pulse"
    assert ada.bash("git commit -m two", "[main 0a1b2c3] two") == "recovery"


def test_any_command_that_works_at_a_later_try_is_a_recovery() -> None:
    ada = BeatReader()
    assert ada.bash("./deploy.sh staging", failed=True) == "setback"
    assert ada.bash("./deploy.sh production") == "pulse"
    assert ada.bash("./deploy.sh staging") == "recovery"


def test_a_pull_request_that_opens_at_a_later_try_stays_a_proposal() -> None:
    ada = BeatReader()
    ada.bash("gh pr create --fill", failed=True)
    assert ada.bash("gh pr create --fill") == "propose"


def test_what_one_agent_broke_another_does_not_fix_here() -> None:
    ada = BeatReader()
    ada.bash("pytest", failed=True)
    bo = BeatReader("bo", ada.beats)
    assert bo.bash("pytest") == "progress"


def test_the_third_call_alike_in_a_row_is_a_loop_and_is_reported_once() -> None:
    ada = BeatReader()
    found = [ada.use("Read", {"file_path": "/a"})[0] for _ in range(5)]
    assert found == ["pulse", "pulse", "setback", "pulse", "pulse"]


def test_another_call_or_a_prompt_between_breaks_a_loop() -> None:
    ada = BeatReader()
    for _ in range(3):
        assert ada.use("Read", {"file_path": "/a"})[0] == "pulse"
        assert ada.use("Read", {"file_path": "/b"})[0] == "pulse"
    for _ in range(4):
        assert ada.use("Read", {"file_path": "/a"})[0] == "pulse"
        ada.record("prompt.submitted", prompt="Look again")


@pytest.mark.parametrize(("tool", "given"), [("BashOutput", {"bash_id": "b1"}), ("Bash", {"command": "sleep 30 && cat log"}), ("wait", {})])
def test_who_waits_may_ask_as_often_as_need_be(tool: str, given: dict[str, str]) -> None:
    ada = BeatReader()
    assert {ada.use(tool, given)[0] for _ in range(6)} == {"pulse"}


def test_a_loop_is_found_where_only_outcomes_are_reported() -> None:
    ada = BeatReader()
    found = [ada.record("tool.returned", tool="Read", input={"file_path": "/a"}, deed="look") for _ in range(4)]
    assert found == ["pulse", "pulse", "setback", "pulse"]
    assert ada.beats.note is None


def test_an_edit_that_puts_back_the_old_text_is_a_setback() -> None:
    ada = BeatReader()
    assert ada.use("Edit", edit("one", "two"))[1] == "progress"
    assert ada.use("Edit", edit("two", "one", "/src/other.py"))[1] == "progress"
    assert ada.use("Edit", edit("two", "one"))[1] == "setback"
    assert ada.beats.note == "undone"
    assert ada.use("Edit", edit("one", "two"))[1] == "progress"


def test_an_edit_that_failed_is_not_one_to_take_back() -> None:
    ada = BeatReader()
    ada.use("Edit", edit("one", "two"), failed=True)
    assert ada.use("Edit", edit("two", "one"))[1] == "progress"


def test_an_edit_that_misses_once_is_a_slip_and_twice_is_a_setback() -> None:
    ada = BeatReader()
    assert ada.use("Edit", edit("one", "two"), failed=True)[1] == "pulse"
    assert ada.use("Edit", edit("One", "two"))[1] == "progress"
    assert ada.use("Edit", edit("one", "two"), failed=True)[1] == "pulse"
    assert ada.use("Edit", edit("one ", "two"), failed=True)[1] == "setback"
    assert ada.beats.note == "stuck"
    assert ada.use("Edit", edit("One", "two", "/src/other.py"))[1] == "progress"
    assert ada.use("Edit", edit("One", "two"))[1] == "recovery"


def test_a_denied_call_that_is_let_later_is_a_recovery() -> None:
    ada = BeatReader()
    push = {"command": "git push origin main"}
    assert ada.use("Bash", push, denied=True)[1] == "setback"
    assert ada.use("Bash", {"command": "git status"})[1] == "pulse"
    assert ada.use("Bash", push)[1] == "recovery"
    assert ada.beats.note == "allowed"


def test_a_late_event_has_the_beat_of_its_kind_and_changes_nothing() -> None:
    ada = BeatReader()
    ada.bash("pytest", failed=True)
    before = msgspec.json.encode(ada.beats)
    assert ada.record("tool.returned", at=0, tool="Bash", deed="test", subject="pytest") == "progress"
    assert msgspec.json.encode(ada.beats) == before


def test_the_state_goes_to_json_and_back_and_goes_on() -> None:
    ada = BeatReader()
    ada.bash("pytest", failed=True)
    ada.use("Edit", edit("one", "two"))
    ada.beats = msgspec.json.decode(msgspec.json.encode(ada.beats), type=BeatState)
    assert ada.bash("pytest") == "recovery"
    assert ada.use("Edit", edit("two", "one"))[1] == "setback"


def test_no_input_is_kept() -> None:
    ada = BeatReader()
    ada.record("tool.called", tool="Bash", call_id="c", input={"command": "echo hunter2"})
    ada.record("tool.called", tool="Edit", call_id="d", input=edit("hunter2", "hunter3"))
    assert b"hunter" not in msgspec.json.encode(ada.beats)


def test_memory_is_bounded() -> None:
    ada = BeatReader()
    for n in range(300):
        ada.record("tool.called", tool="Bash", call_id=f"open{n}", input={"command": f"./x {n}"})
        ada.bash(f"./try {n}", failed=True)
        ada.use("Edit", edit(f"{n}", f"{n} and more"))
    hand = next(iter(ada.beats.recent.values()))
    assert len(hand.calls) in (MAX_PENDING_CALLS - 1, MAX_PENDING_CALLS)
    assert len(hand.troubles) == MAX_FAILURES
    assert len(hand.edits) == MAX_EDITS
    for n in range(MAX_AGENTS + 10):
        BeatReader(f"agent{n}", ada.beats).record("tool.called", tool="Bash")
    assert len(ada.beats.recent) == MAX_AGENTS


@pytest.mark.parametrize("kind", ["tool.called", "tool.returned", "tool.failed", "tool.denied", "prompt.submitted", "no.such"])
@pytest.mark.parametrize("odd", [None, 7, [], ["x"], {"a": []}, object(), "\ud800", b"x"])
def test_nothing_in_the_data_can_break_it(kind: str, odd: object) -> None:
    ada = BeatReader()
    for _ in range(3):
        ada.record(kind, tool=odd, call_id=odd, input=odd, deed=odd, subject=odd, output=odd, correction=odd, interrupted=odd)
        ada.record(kind, tool=odd, call_id="c", input={"old_string": odd, "new_string": odd, "command": odd}, deed="test", subject=odd)
        ada.record(kind)
    assert beats.classify_beat(ada.beats, Event(kind=kind)) is None or kind != "no.such"


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("tool.returned", {"deed": "commit"}, "progress"),
        ("tool.returned", {"deed": "pr_open"}, "propose"),
        ("tool.returned", {"deed": "pr_merge"}, "deliver"),
        ("tool.returned", {"deed": "revert"}, "setback"),
        ("tool.returned", {"deed": "look"}, "pulse"),
        ("tool.returned", {"deed": "something new"}, "progress"),
        ("tool.returned", {}, "progress"),
        ("tool.returned", {"deed": "test", "subject": "pytest: 2 failed"}, "setback"),
        ("tool.returned", {"deed": "check", "subject": "mypy src: 1 error"}, "setback"),
        ("tool.returned", {"deed": "commit", "subject": "Tell which tests failed"}, "progress"),
        ("tool.failed", {"deed": "run"}, "setback"),
        ("tool.failed", {}, "setback"),
        ("tool.failed", {"deed": "edit"}, "pulse"),
        ("tool.failed", {"deed": "look", "exit_code": 1}, "pulse"),
        ("tool.failed", {"deed": "test", "interrupted": True}, "pulse"),
        ("tool.denied", {"deed": "push"}, "setback"),
        ("prompt.submitted", {"correction": True}, "setback"),
        ("prompt.submitted", {}, "claim"),
        ("session.compacted", {}, "pulse"),
    ],
)
def test_what_an_action_stands_for_by_itself(kind: str, data: dict[str, Any], expected: str) -> None:
    assert BeatReader().record(kind, **data) == expected
