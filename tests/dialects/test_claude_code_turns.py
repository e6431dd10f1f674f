"""Every turn in a Claude Code transcript ends exactly once, whichever rows mark its end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore.events.envelope import Event
from fleetlore.programs.claude_code.hooks import read_hook
from fleetlore.programs.claude_code.transcript import RECORDING
from tests.transcripts import Row, Transcript, bash, text, thinking, tool

AT = datetime(2026, 11, 10, 9, 0, tzinfo=UTC)
OWN_ID = "0b7d4d0e-3f61-4f0e-9c53-5a8a3c1f2e01"
ENDED = "session.turn_ended"


def read(told: Transcript, *, now: datetime | None = None) -> list[Event]:
    reader = RECORDING.open(None)
    return [event for line in told.lines() for event in reader.read(line)] + reader.end(now)


def ends(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if event.kind == ENDED]


def stop_progress(told: Transcript, **fields: Any) -> Row:
    data = {"type": "hook_progress", "hookEvent": "Stop", "hookName": "Stop", "command": "notify"}
    return told.add("progress", data=data, **fields)


def stop_summary(told: Transcript, errors: Iterable[str] = (), **fields: Any) -> Row:
    return told.add("system", subtype="stop_hook_summary", hookCount=1, hookErrors=list(errors), preventedContinuation=False, **fields)


def turn_duration(told: Transcript) -> Row:
    return told.add("system", subtype="turn_duration", durationMs=40_000)


def feedback(told: Transcript) -> Row:
    return told.add("user", isMeta=True, message={"role": "user", "content": "Stop hook feedback:\n- [check]: run the tests first"})


def answered(told: Transcript, n: int = 1, *, stop: str | None = None, prompt: bool = True) -> Transcript:
    """A prompt, a tool call and an answer, as rows without a stop reason."""
    if prompt:
        told.prompt(f"do {n}", f"p-{n}")
    told.reply(f"m{n}a", thinking("hm"), stop=None)
    told.reply(f"m{n}a", text("Let me look."), stop=None)
    told.reply(f"m{n}a", bash(f"t{n}", "ls"), stop=None)
    told.result(f"t{n}", "a.txt")
    told.reply(f"m{n}b", text(f"Answer {n}."), stop=stop)
    return told


MARKS: dict[str, list[Callable[[Transcript], Row]]] = {
    "none": [],
    "progress": [stop_progress],
    "two hooks": [stop_progress, stop_progress],
    "summary": [stop_progress, stop_summary],
    "summary alone": [stop_summary],
    "duration": [turn_duration],
    "all": [stop_progress, stop_summary, turn_duration],
}


@pytest.mark.parametrize("marks", MARKS.values(), ids=MARKS)
@pytest.mark.parametrize("then", ["end of file", "next prompt"])
def test_a_turn_ends_once_whichever_marks_it_has(marks: list[Callable[[Transcript], Row]], then: str) -> None:
    told = answered(Transcript())
    for mark in marks:
        mark(told)
    if then == "next prompt":
        told.prompt("and now", "p-2")
    events = read(told)
    [end] = ends(events)
    assert (end.text, end.cause) == ("Answer 1.", next(event.id for event in events if event.kind == "prompt.submitted"))
    assert [event.kind for event in events][-1] == (ENDED if then == "end of file" else "prompt.submitted")
    assert end.data == ({"duration_ms": 40_000} if turn_duration in marks else {})


@pytest.mark.parametrize("marks", MARKS.values(), ids=MARKS)
def test_the_stop_hook_and_the_transcript_report_the_same_end(marks: list[Callable[[Transcript], Row]]) -> None:
    told = answered(Transcript())
    for mark in marks:
        mark(told)
    record = {"hook_event_name": "Stop", "session_id": told.session, "prompt_id": "p-1", "last_assistant_message": "Answer 1."}
    [by_hook] = read_hook(record, id=OWN_ID, at=AT)
    assert [end.id for end in ends(read(told))] == [by_hook.id]


def test_the_turns_of_a_session_end_one_by_one() -> None:
    told = Transcript()
    for n, marks in enumerate(MARKS.values()):
        answered(told, n)
        for mark in marks:
            mark(told)
    assert [end.text for end in ends(read(told))] == [f"Answer {n}." for n in range(len(MARKS))]


@pytest.mark.parametrize("marked", [True, False])
def test_an_end_is_reported_after_the_answer_and_at_its_time(marked: bool) -> None:
    told = answered(Transcript())
    if marked:
        stop_summary(told)
    last = told.rows[-1]
    told.prompt("and now", "p-2")
    *_, reply, end, _ = read(told)
    assert (reply.kind, end.kind) == ("model.replied", ENDED)
    assert end.at is not None
    assert end.at.isoformat(timespec="milliseconds").replace("+00:00", "Z") == last["timestamp"]


def test_a_tool_call_without_a_result_leaves_the_turn_open() -> None:
    told = Transcript()
    told.prompt("go")
    told.reply("m1", text("Let me look."), stop=None)
    told.reply("m1", bash("t1", "ls"), stop=None)
    assert not ends(read(told))
    told.reply("m1", text("It runs."), stop=None)
    assert not ends(read(told))


@pytest.mark.parametrize("block", [thinking("hm"), text("\n\n"), bash("t9", "ls")])
def test_an_agent_that_goes_on_after_a_text_has_not_ended_its_turn(block: Row) -> None:
    told = answered(Transcript())
    told.reply("m2", block, stop=None)
    assert not ends(read(told))


@pytest.mark.parametrize(("stop", "is_ended"), [("end_turn", True), (None, False), ("tool_use", False)])
def test_the_answer_of_a_running_session_ends_the_turn_only_if_its_stop_reason_says_so(stop: str | None, is_ended: bool) -> None:
    """Without one, the tool call of the same message may follow in the next row."""
    told = answered(Transcript(), stop=stop)
    at = datetime.fromisoformat(told.rows[-1]["timestamp"])
    assert bool(ends(read(told, now=at + timedelta(seconds=20)))) is is_ended
    assert bool(ends(read(told, now=at + timedelta(hours=1)))) is (stop != "tool_use")


def settled(told: Transcript) -> list[Event]:
    reader = RECORDING.open(None)
    return [event for line in told.lines() for event in reader.read(line)] + reader.flush_complete()


@pytest.mark.parametrize(
    ("stop", "marks", "is_ended"),
    [
        (None, [], False),
        ("end_turn", [], True),
        (None, [stop_progress], False),
        ("end_turn", [stop_progress], False),
        (None, [stop_progress, stop_summary], True),
    ],
)
def test_a_growing_transcript_ends_a_turn_when_it_is_certain(
    stop: str | None, marks: list[Callable[[Transcript], Row]], is_ended: bool
) -> None:
    told = answered(Transcript(), stop=stop)
    for mark in marks:
        mark(told)
    events = settled(told)
    assert bool(ends(events)) is is_ended
    if is_ended:
        assert [event.kind for event in events[-2:]] == ["model.replied", ENDED]


@pytest.mark.parametrize("errors", [["run the tests first"], []])
def test_a_stop_hook_that_sends_the_agent_back_to_work_does_not_end_the_turn(errors: list[str]) -> None:
    told = answered(Transcript())
    stop_progress(told)
    feedback(told)
    told.add("attachment", attachment={"type": "hook_blocking_error", "hookName": "Stop", "hookEvent": "Stop"})
    stop_summary(told, errors)
    assert not ends(read(told))
    answered(told, 2, prompt=False)
    stop_progress(told)
    stop_summary(told)
    turn_duration(told)
    assert [end.text for end in ends(read(told))] == ["Answer 2."]


def test_a_stop_hook_that_complains_may_send_the_agent_back_so_the_next_row_decides() -> None:
    told = answered(Transcript())
    stop_summary(told, ["exit 1"])
    assert not ends(settled(told))
    assert len(ends(read(told))) == 1
    answered(told, 2, prompt=False)
    assert [end.text for end in ends(read(told))] == ["Answer 2."]


def test_newer_versions_write_stop_hooks_as_attachments() -> None:
    told = Transcript()
    told.prompt("go")
    told.add("attachment", attachment={"type": "hook_success", "hookName": "Stop", "hookEvent": "Stop"})
    assert len(ends(read(told))) == 1


def test_an_interrupted_turn_ends_once_as_interrupted() -> None:
    told = answered(Transcript())
    told.add("user", message={"role": "user", "content": [text("[Request interrupted by user]")]})
    told.prompt("the other one", "p-2")
    [end] = ends(read(told))
    assert end.data["reason"] == "interrupted"


@pytest.mark.parametrize(
    "content",
    [
        "<command-name>/exit</command-name>\n<command-message>exit</command-message>\n<command-args></command-args>",
        "<local-command-stdout>Bye!</local-command-stdout>",
        "<bash-input>git status</bash-input>",
        "<bash-stdout>clean</bash-stdout><bash-stderr></bash-stderr>",
    ],
)
def test_local_commands_are_no_turns(content: str) -> None:
    told = answered(Transcript())
    told.add("user", message={"role": "user", "content": content})
    told.add("assistant", message={"role": "assistant", "model": "<synthetic>", "content": [text("No response requested.")], "usage": {}})
    assert [end.text for end in ends(read(told))] == ["Answer 1."]
    answered(told, 2)
    assert [end.text for end in ends(read(told))] == ["Answer 1.", "Answer 2."]


def test_a_command_that_the_person_runs_alone_ends_nothing() -> None:
    told = Transcript()
    told.prompt("<bash-input>ls</bash-input>", None)
    told.prompt("<bash-stdout>a</bash-stdout>", None)
    assert not ends(read(told))


@pytest.mark.parametrize("then", ["end of file", "next prompt", "duration"])
def test_an_api_error_that_nothing_follows_ends_the_turn_as_failed(then: str) -> None:
    told = Transcript()
    told.prompt("go", "p-1")
    told.reply("m1", text("API Error: 529 overloaded"))["isApiErrorMessage"] = True
    if then == "next prompt":
        told.prompt("again", "p-2")
    elif then == "duration":
        turn_duration(told)
    [end] = ends(read(told))
    assert (end.data["reason"], end.text) == ("failed", "API Error: 529 overloaded")


def test_an_api_error_that_the_agent_recovers_from_ends_nothing() -> None:
    told = Transcript()
    told.prompt("go", "p-1")
    told.reply("m1", text("API Error: 529 overloaded"))["isApiErrorMessage"] = True
    answered(told, 1, prompt=False)
    [end] = ends(read(told))
    assert (end.data, end.text) == ({}, "Answer 1.")


@pytest.mark.parametrize("own", [{"isSidechain": True, "agentId": "a17c0de"}, {"isSidechain": True}])
def test_rows_of_sub_agents_never_end_the_turn_of_the_session(own: Row) -> None:
    told = Transcript()
    told.prompt("go")
    told.reply("m1", tool("t1", "Task", description="look", prompt="Look"), stop=None)
    first = told.prompt("Look", None, **own, uuid="11111111-0000-4000-8000-000000000000")
    for row in (told.reply("h1", text("Found it.")), stop_progress(told), stop_summary(told)):
        row |= own | {"parentUuid": first["uuid"]}
    inner = {"type": "assistant", "message": {"id": "h2", "model": "m", "content": [text("Found.")], "usage": {"output_tokens": 1}}}
    told.add("progress", data={"type": "agent_progress", "agentId": "a17c0de", "message": inner}, parentToolUseID="t1")
    assert not ends(read(told))


def test_the_transcript_of_a_sub_agent_has_no_turns() -> None:
    told = Transcript(isSidechain=True, agentId="a17c0de")
    assert not ends(read(answered(told, stop="end_turn")))


def test_a_background_task_that_wakes_the_agent_makes_another_turn() -> None:
    told = answered(Transcript())
    words = "<task-notification>\n<task-id>b1</task-id>\n<status>completed</status>\n<summary>Built</summary>\n</task-notification>"
    told.add("user", message={"role": "user", "content": words})
    answered(told, 2, prompt=False)
    events = read(told)
    assert [end.text for end in ends(events)] == ["Answer 1.", "Answer 2."]
    assert len({end.id for end in ends(events)}) == 2


def test_a_prompt_that_was_typed_while_the_agent_worked_belongs_to_the_same_turn() -> None:
    told = answered(Transcript())
    told.add("attachment", attachment={"type": "queued_command", "prompt": "and the docs", "commandMode": "prompt"})
    answered(told, 2, prompt=False)
    assert [end.text for end in ends(read(told))] == ["Answer 2."]


def test_an_end_does_not_repeat_the_answer_of_the_turn_before() -> None:
    told = answered(Transcript())
    told.prompt("and now", "p-2")
    told.reply("m9", thinking("hm"), stop=None)
    stop_summary(told)
    assert [end.text for end in ends(read(told))] == ["Answer 1.", None]


def test_what_the_program_prints_ends_with_its_result_and_not_before() -> None:
    common: Row = {"session_id": "0b5e1111-aaaa-4bbb-8ccc-0123456789ab", "parent_tool_use_id": None}
    message: Row = {"id": "m1", "role": "assistant", "model": "m", "content": [text("Done.")], "stop_reason": None, "usage": {}}
    rows = [common | {"type": "assistant", "uuid": "u1", "message": message}]
    reader = RECORDING.open(None)
    events = [event for row in rows for event in reader.read(json.dumps(row).encode())]
    assert not ends([*events, *reader.flush_complete(), *reader.end()])


_STEPS = [
    "prompt",
    "work",
    "answer",
    "final",
    "progress",
    "summary",
    "complaint",
    "duration",
    "feedback",
    "bang",
    "error",
    "interrupt",
    "helper",
]
_steps = st.lists(st.sampled_from(_STEPS), max_size=25)


def session_of(steps: Iterable[str]) -> Transcript:
    """Any sequence of rows, as far as Claude Code would write it: hooks run when the agent has answered."""
    told = Transcript()
    write: dict[str, Callable[[int], object]] = {
        "prompt": lambda n: told.prompt(f"do {n}", f"p-{n}"),
        "work": lambda n: (told.reply(f"w{n}", text("I go on."), bash(f"t{n}", "ls"), stop=None), told.result(f"t{n}", "ok")),
        "answer": lambda n: told.reply(f"a{n}", text(f"Answer {n}."), stop=None),
        "final": lambda n: told.reply(f"f{n}", text(f"Answer {n}.")),
        "progress": lambda n: stop_progress(told),
        "summary": lambda n: stop_summary(told),
        "complaint": lambda n: stop_summary(told, ["exit 2"]),
        "duration": lambda n: turn_duration(told),
        "feedback": lambda n: feedback(told),
        "bang": lambda n: told.prompt("<bash-input>ls</bash-input>", None),
        "error": lambda n: told.reply(f"e{n}", text("API Error")).update(isApiErrorMessage=True),
        "interrupt": lambda n: told.add("user", message={"role": "user", "content": "[Request interrupted by user]"}),
        "helper": lambda n: told.reply(f"h{n}", text("Found.")).update(isSidechain=True, agentId="a17c0de"),
    }
    for n, step in enumerate(steps):
        write[step](n)
    return told


@given(_steps, st.data())
def test_a_transcript_read_in_pieces_gives_the_same_events(steps: list[str], data: st.DataObject) -> None:
    lines = session_of(steps).lines()
    reader = RECORDING.open(None)
    whole = [event for line in lines for event in reader.read(line)] + reader.end()
    cut = data.draw(st.integers(0, len(lines)))
    first = RECORDING.open(None)
    events = [event for line in lines[:cut] for event in first.read(line)]
    second = RECORDING.open(first.save())
    assert events + [event for line in lines[cut:] for event in second.read(line)] + second.end() == whole


@given(_steps, st.data())
def test_no_end_is_stored_twice_however_often_a_growing_transcript_is_read(steps: list[str], data: st.DataObject) -> None:
    """Each round stores what is settled; the last one finds the file at rest. Ids tell what is stored already."""
    lines = session_of(steps).lines()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(lines)), max_size=4)))
    reader, stored = RECORDING.open(None), list[Event]()
    for start, stop in zip([0, *cuts], [*cuts, len(lines)], strict=True):
        stored += [event for line in lines[start:stop] for event in reader.read(line)]
        stored += reader.flush_complete()
        reader = RECORDING.open(reader.save())
    stored += reader.end()
    ids = [event.id for event in ends(stored)]
    assert len(set(ids)) == len(ids)
    starts = [event for event in stored if event.kind in ("prompt.submitted", ENDED)]
    for before, after in pairwise(starts):
        if before.kind == after.kind == ENDED:
            between = stored[stored.index(before) + 1 : stored.index(after)]
            assert between, "two ends of one turn, with nothing in between"


_turns = st.lists(
    st.tuples(
        st.lists(st.just("work"), max_size=2),
        st.sampled_from(["answer", "final"]),
        st.sampled_from(
            [["progress"], ["progress", "summary"], ["summary", "duration"], ["progress", "summary", "duration"], ["duration"], []]
        ),
        st.lists(st.sampled_from(["bang", "helper"]), max_size=1),
    ),
    max_size=4,
)


@given(_turns, st.data())
def test_a_growing_transcript_gives_the_same_ends_as_the_finished_one(
    turns: list[tuple[list[str], str, list[str], list[str]]], data: st.DataObject
) -> None:
    told = session_of(step for work, answer, marks, rest in turns for step in ("prompt", *work, answer, *marks, *rest))
    lines = told.lines()
    reader, stored = RECORDING.open(None), list[Event]()
    for line in lines:
        stored += reader.read(line)
        if data.draw(st.booleans()):
            stored += reader.flush_complete()
            reader = RECORDING.open(reader.save())
    stored += reader.end()
    assert [end.id for end in ends(stored)] == [end.id for end in ends(read(told))]
    assert len(ends(stored)) == len(turns)
