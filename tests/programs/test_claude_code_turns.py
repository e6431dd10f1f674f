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


def read(recorded: Transcript, *, now: datetime | None = None) -> list[Event]:
    reader = RECORDING.open(None)
    return [event for line in recorded.lines() for event in reader.read(line)] + reader.end(now)


def ends(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if event.kind == ENDED]


def stop_progress(recorded: Transcript, **fields: Any) -> Row:
    data = {"type": "hook_progress", "hookEvent": "Stop", "hookName": "Stop", "command": "notify"}
    return recorded.add("progress", data=data, **fields)


def stop_summary(recorded: Transcript, errors: Iterable[str] = (), **fields: Any) -> Row:
    return recorded.add("system", subtype="stop_hook_summary", hookCount=1, hookErrors=list(errors), preventedContinuation=False, **fields)


def turn_duration(recorded: Transcript) -> Row:
    return recorded.add("system", subtype="turn_duration", durationMs=40_000)


def feedback(recorded: Transcript) -> Row:
    return recorded.add("user", isMeta=True, message={"role": "user", "content": "Stop hook feedback:\n- [check]: run the tests first"})


def answered(recorded: Transcript, n: int = 1, *, stop: str | None = None, prompt: bool = True) -> Transcript:
    """A prompt, a tool call and an answer, as rows without a stop reason."""
    if prompt:
        recorded.prompt(f"do {n}", f"p-{n}")
    recorded.reply(f"m{n}a", thinking("hm"), stop=None)
    recorded.reply(f"m{n}a", text("Let me look."), stop=None)
    recorded.reply(f"m{n}a", bash(f"t{n}", "ls"), stop=None)
    recorded.result(f"t{n}", "a.txt")
    recorded.reply(f"m{n}b", text(f"Answer {n}."), stop=stop)
    return recorded


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
    recorded = answered(Transcript())
    for mark in marks:
        mark(recorded)
    if then == "next prompt":
        recorded.prompt("and now", "p-2")
    events = read(recorded)
    [end] = ends(events)
    assert (end.text, end.cause) == ("Answer 1.", next(event.id for event in events if event.kind == "prompt.submitted"))
    assert [event.kind for event in events][-1] == (ENDED if then == "end of file" else "prompt.submitted")
    assert end.data == ({"duration_ms": 40_000} if turn_duration in marks else {})


@pytest.mark.parametrize("marks", MARKS.values(), ids=MARKS)
def test_the_stop_hook_and_the_transcript_report_the_same_end(marks: list[Callable[[Transcript], Row]]) -> None:
    recorded = answered(Transcript())
    for mark in marks:
        mark(recorded)
    record = {"hook_event_name": "Stop", "session_id": recorded.session, "prompt_id": "p-1", "last_assistant_message": "Answer 1."}
    [by_hook] = read_hook(record, id=OWN_ID, at=AT)
    assert [end.id for end in ends(read(recorded))] == [by_hook.id]


def test_the_turns_of_a_session_end_one_by_one() -> None:
    recorded = Transcript()
    for n, marks in enumerate(MARKS.values()):
        answered(recorded, n)
        for mark in marks:
            mark(recorded)
    assert [end.text for end in ends(read(recorded))] == [f"Answer {n}." for n in range(len(MARKS))]


@pytest.mark.parametrize("marked", [True, False])
def test_an_end_is_reported_after_the_answer_and_at_its_time(marked: bool) -> None:
    recorded = answered(Transcript())
    if marked:
        stop_summary(recorded)
    last = recorded.rows[-1]
    recorded.prompt("and now", "p-2")
    *_, reply, end, _ = read(recorded)
    assert (reply.kind, end.kind) == ("model.replied", ENDED)
    assert end.at is not None
    assert end.at.isoformat(timespec="milliseconds").replace("+00:00", "Z") == last["timestamp"]


def test_a_tool_call_without_a_result_leaves_the_turn_open() -> None:
    recorded = Transcript()
    recorded.prompt("go")
    recorded.reply("m1", text("Let me look."), stop=None)
    recorded.reply("m1", bash("t1", "ls"), stop=None)
    assert not ends(read(recorded))
    recorded.reply("m1", text("It runs."), stop=None)
    assert not ends(read(recorded))


@pytest.mark.parametrize("block", [thinking("hm"), text("\n\n"), bash("t9", "ls")])
def test_an_agent_that_goes_on_after_a_text_has_not_ended_its_turn(block: Row) -> None:
    recorded = answered(Transcript())
    recorded.reply("m2", block, stop=None)
    assert not ends(read(recorded))


@pytest.mark.parametrize(("stop", "is_ended"), [("end_turn", True), (None, False), ("tool_use", False)])
def test_the_answer_of_a_running_session_ends_the_turn_only_if_its_stop_reason_says_so(stop: str | None, is_ended: bool) -> None:
    """Without one, the tool call of the same message may follow in the next row."""
    recorded = answered(Transcript(), stop=stop)
    at = datetime.fromisoformat(recorded.rows[-1]["timestamp"])
    assert bool(ends(read(recorded, now=at + timedelta(seconds=20)))) is is_ended
    assert bool(ends(read(recorded, now=at + timedelta(hours=1)))) is (stop != "tool_use")


def settled(recorded: Transcript) -> list[Event]:
    reader = RECORDING.open(None)
    return [event for line in recorded.lines() for event in reader.read(line)] + reader.flush_complete()


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
    recorded = answered(Transcript(), stop=stop)
    for mark in marks:
        mark(recorded)
    events = settled(recorded)
    assert bool(ends(events)) is is_ended
    if is_ended:
        assert [event.kind for event in events[-2:]] == ["model.replied", ENDED]


@pytest.mark.parametrize("errors", [["run the tests first"], []])
def test_a_stop_hook_that_sends_the_agent_back_to_work_does_not_end_the_turn(errors: list[str]) -> None:
    recorded = answered(Transcript())
    stop_progress(recorded)
    feedback(recorded)
    recorded.add("attachment", attachment={"type": "hook_blocking_error", "hookName": "Stop", "hookEvent": "Stop"})
    stop_summary(recorded, errors)
    assert not ends(read(recorded))
    answered(recorded, 2, prompt=False)
    stop_progress(recorded)
    stop_summary(recorded)
    turn_duration(recorded)
    assert [end.text for end in ends(read(recorded))] == ["Answer 2."]


def test_a_stop_hook_that_complains_may_send_the_agent_back_so_the_next_row_decides() -> None:
    recorded = answered(Transcript())
    stop_summary(recorded, ["exit 1"])
    assert not ends(settled(recorded))
    assert len(ends(read(recorded))) == 1
    answered(recorded, 2, prompt=False)
    assert [end.text for end in ends(read(recorded))] == ["Answer 2."]


def test_newer_versions_write_stop_hooks_as_attachments() -> None:
    recorded = Transcript()
    recorded.prompt("go")
    recorded.add("attachment", attachment={"type": "hook_success", "hookName": "Stop", "hookEvent": "Stop"})
    assert len(ends(read(recorded))) == 1


def test_an_interrupted_turn_ends_once_as_interrupted() -> None:
    recorded = answered(Transcript())
    recorded.add("user", message={"role": "user", "content": [text("[Request interrupted by user]")]})
    recorded.prompt("the other one", "p-2")
    [end] = ends(read(recorded))
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
    recorded = answered(Transcript())
    recorded.add("user", message={"role": "user", "content": content})
    recorded.add(
        "assistant", message={"role": "assistant", "model": "<synthetic>", "content": [text("No response requested.")], "usage": {}}
    )
    assert [end.text for end in ends(read(recorded))] == ["Answer 1."]
    answered(recorded, 2)
    assert [end.text for end in ends(read(recorded))] == ["Answer 1.", "Answer 2."]


def test_a_command_that_the_person_runs_alone_ends_nothing() -> None:
    recorded = Transcript()
    recorded.prompt("<bash-input>ls</bash-input>", None)
    recorded.prompt("<bash-stdout>a</bash-stdout>", None)
    assert not ends(read(recorded))


@pytest.mark.parametrize("then", ["end of file", "next prompt", "duration"])
def test_an_api_error_that_nothing_follows_ends_the_turn_as_failed(then: str) -> None:
    recorded = Transcript()
    recorded.prompt("go", "p-1")
    recorded.reply("m1", text("API Error: 529 overloaded"))["isApiErrorMessage"] = True
    if then == "next prompt":
        recorded.prompt("again", "p-2")
    elif then == "duration":
        turn_duration(recorded)
    [end] = ends(read(recorded))
    assert (end.data["reason"], end.text) == ("failed", "API Error: 529 overloaded")


def test_an_api_error_that_the_agent_recovers_from_ends_nothing() -> None:
    recorded = Transcript()
    recorded.prompt("go", "p-1")
    recorded.reply("m1", text("API Error: 529 overloaded"))["isApiErrorMessage"] = True
    answered(recorded, 1, prompt=False)
    [end] = ends(read(recorded))
    assert (end.data, end.text) == ({}, "Answer 1.")


@pytest.mark.parametrize("own", [{"isSidechain": True, "agentId": "a17c0de"}, {"isSidechain": True}])
def test_rows_of_sub_agents_never_end_the_turn_of_the_session(own: Row) -> None:
    recorded = Transcript()
    recorded.prompt("go")
    recorded.reply("m1", tool("t1", "Task", description="look", prompt="Look"), stop=None)
    first = recorded.prompt("Look", None, **own, uuid="11111111-0000-4000-8000-000000000000")
    for row in (recorded.reply("h1", text("Found it.")), stop_progress(recorded), stop_summary(recorded)):
        row |= own | {"parentUuid": first["uuid"]}
    inner = {"type": "assistant", "message": {"id": "h2", "model": "m", "content": [text("Found.")], "usage": {"output_tokens": 1}}}
    recorded.add("progress", data={"type": "agent_progress", "agentId": "a17c0de", "message": inner}, parentToolUseID="t1")
    assert not ends(read(recorded))


def test_the_transcript_of_a_sub_agent_has_no_turns() -> None:
    recorded = Transcript(isSidechain=True, agentId="a17c0de")
    assert not ends(read(answered(recorded, stop="end_turn")))


def test_a_background_task_that_wakes_the_agent_makes_another_turn() -> None:
    recorded = answered(Transcript())
    words = "<task-notification>\n<task-id>b1</task-id>\n<status>completed</status>\n<summary>Built</summary>\n</task-notification>"
    recorded.add("user", message={"role": "user", "content": words})
    answered(recorded, 2, prompt=False)
    events = read(recorded)
    assert [end.text for end in ends(events)] == ["Answer 1.", "Answer 2."]
    assert len({end.id for end in ends(events)}) == 2


def test_a_prompt_that_was_typed_while_the_agent_worked_belongs_to_the_same_turn() -> None:
    recorded = answered(Transcript())
    recorded.add("attachment", attachment={"type": "queued_command", "prompt": "and the docs", "commandMode": "prompt"})
    answered(recorded, 2, prompt=False)
    assert [end.text for end in ends(read(recorded))] == ["Answer 2."]


def test_an_end_does_not_repeat_the_answer_of_the_turn_before() -> None:
    recorded = answered(Transcript())
    recorded.prompt("and now", "p-2")
    recorded.reply("m9", thinking("hm"), stop=None)
    stop_summary(recorded)
    assert [end.text for end in ends(read(recorded))] == ["Answer 1.", None]


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
    recorded = Transcript()
    write: dict[str, Callable[[int], object]] = {
        "prompt": lambda n: recorded.prompt(f"do {n}", f"p-{n}"),
        "work": lambda n: (recorded.reply(f"w{n}", text("I go on."), bash(f"t{n}", "ls"), stop=None), recorded.result(f"t{n}", "ok")),
        "answer": lambda n: recorded.reply(f"a{n}", text(f"Answer {n}."), stop=None),
        "final": lambda n: recorded.reply(f"f{n}", text(f"Answer {n}.")),
        "progress": lambda n: stop_progress(recorded),
        "summary": lambda n: stop_summary(recorded),
        "complaint": lambda n: stop_summary(recorded, ["exit 2"]),
        "duration": lambda n: turn_duration(recorded),
        "feedback": lambda n: feedback(recorded),
        "bang": lambda n: recorded.prompt("<bash-input>ls</bash-input>", None),
        "error": lambda n: recorded.reply(f"e{n}", text("API Error")).update(isApiErrorMessage=True),
        "interrupt": lambda n: recorded.add("user", message={"role": "user", "content": "[Request interrupted by user]"}),
        "helper": lambda n: recorded.reply(f"h{n}", text("Found.")).update(isSidechain=True, agentId="a17c0de"),
    }
    for n, step in enumerate(steps):
        write[step](n)
    return recorded


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


def test_a_call_that_ends_the_turn_is_its_end() -> None:
    recorded = Transcript()
    recorded.prompt("review", "p-1")
    recorded.reply("m1", text("Nothing was found."), stop="tool_use")
    recorded.reply("m1", tool("t1", "StructuredOutput", findings=[]), stop="tool_use")
    recorded.result("t1", "Structured output provided successfully", toolEndsTurn=True)
    (end,) = ends(read(recorded))
    assert end.text == "Nothing was found."


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
    recorded = session_of(step for work, answer, marks, rest in turns for step in ("prompt", *work, answer, *marks, *rest))
    lines = recorded.lines()
    reader, stored = RECORDING.open(None), list[Event]()
    for line in lines:
        stored += reader.read(line)
        if data.draw(st.booleans()):
            stored += reader.flush_complete()
            reader = RECORDING.open(reader.save())
    stored += reader.end()
    assert [end.id for end in ends(stored)] == [end.id for end in ends(read(recorded))]
    assert len(ends(stored)) == len(turns)


def test_a_text_beside_a_call_is_no_answer_before_or_after_the_result() -> None:
    recorded = Transcript()
    recorded.prompt("do it", "p-1")
    recorded.reply("m1", bash("t1", "sleep 600"), stop=None)
    recorded.reply("m1", text("I am waiting for the build."), stop=None)
    later = AT + timedelta(days=1)
    assert ends(read(recorded, now=later)) == []
    recorded.result("t1", "built")
    assert ends(read(recorded, now=later)) == []
    recorded.reply("m2", text("The build is done."), stop=None)
    assert len(ends(read(recorded, now=later))) == 1


def test_a_prompt_during_a_call_does_not_make_the_text_beside_the_call_an_answer() -> None:
    recorded = Transcript()
    recorded.prompt("do it", "p-1")
    recorded.reply("m1", bash("t1", "sleep 600"), stop=None)
    recorded.reply("m1", text("I am waiting for the build."), stop=None)
    recorded.prompt("do something else", "p-2")
    assert ends(read(recorded, now=AT + timedelta(days=1))) == []
