"""Codex's rollouts: each action becomes one event, with its actor and its cause."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore.errors import DialectError
from fleetlore.log.admission import Admission
from fleetlore.programs.codex.transcript import RECORDING
from tests.programs.rollouts import (
    CALL,
    CHILD,
    CHILDS_TURN,
    FIELDS,
    START,
    THREAD,
    TURN,
    WORDS,
    Row,
    asked,
    call,
    context,
    ended,
    event,
    kinds,
    lines,
    meta,
    of_kind,
    one,
    read,
    response,
    result,
    row,
    said,
    stamp,
    tokens,
    usage,
)
from tests.strategies import json_objects, json_values

AGENT = "codex/aaaa0001"
HELPER = "codex/bbbb0002"
OWN_ID = "0b7d4d0e-3f61-4f0e-9c53-5a8a3c1f2e01"


def turn() -> list[Row | list[Row]]:
    """A turn with one command that fails."""
    return [
        meta(git={"branch": "feat/ABC-7-door"}),
        context(1),
        asked(1, "Mend the door"),
        event(2, "agent_reasoning", text="**Looking around**"),
        response(2, "reasoning", summary=[{"type": "summary_text", "text": "**Looking around**"}], encrypted_content="gAAAA"),
        call(3, "pytest -q"),
        result(5, ended(1, "1 failed\n")),
        tokens(5, usage(1000, 400, 50, 10), usage(1000, 400, 50, 10)),
        said(7, "It fails.\nLet me see."),
        tokens(7, usage(1200, 1000, 20), usage(2200, 1400, 70, 10)),
        event(8, "task_complete", turn_id=TURN, last_agent_message="It fails.\nLet me see.", duration_ms=7000),
    ]


# --- a rollout


def test_a_turn_is_reported_from_prompt_to_end_each_thing_once() -> None:
    assert kinds(read(turn())) == [
        "session.started",
        "prompt.submitted",
        "agent.thought",
        "tool.called",
        "tool.failed",
        "model.replied",
        "model.replied",
        "session.turn_ended",
    ]


def test_a_thread_is_an_agent_by_the_end_of_its_id_for_the_beginning_is_a_clock() -> None:
    twins = [THREAD, THREAD.replace("aaaa0001", "aaaa0009")]
    assert [one(read([meta(id=twin)]), "session.started").agent for twin in twins] == [AGENT, "codex/aaaa0009"]


def test_a_session_shows_where_it_works_and_on_what() -> None:
    started = one(read(turn()), "session.started")
    assert started.run == THREAD
    assert started.task == "ABC-7"
    assert started.data["task_guessed"] is True
    expected = {"source": "startup", "cwd": "/home/ann/shop", "project": "shop", "branch": "feat/ABC-7-door", "program": "codex"}
    assert expected.items() <= started.data.items()


def test_causes_lead_from_the_prompt_to_the_reply() -> None:
    events = read(turn())
    prompt, called, failed = one(events, "prompt.submitted"), one(events, "tool.called"), one(events, "tool.failed")
    first, second = of_kind(events, "model.replied")
    assert (called.cause, failed.cause, first.cause, second.cause) == (prompt.id, called.id, prompt.id, failed.id)


def test_a_failing_command_says_how_it_ended() -> None:
    failed = one(read(turn()), "tool.failed")
    assert failed.data["exit_code"] == 1
    assert failed.data["duration_ms"] == 250
    assert failed.data["output"] == "1 failed\n"
    assert failed.data["deed"] == "test"


def test_tokens_leave_the_cache_out_of_the_input_and_reasoning_in_the_output() -> None:
    first, second = of_kind(read(turn()), "model.replied")
    assert {"model": "gpt-5.5", "provider": "openai", "input": 600, "cache_read": 400, "output": 50}.items() <= first.data.items()
    assert second.data["said"] == "It fails.\nLet me see."
    assert second.text == "It fails."


def test_a_thought_is_private() -> None:
    assert one(read(turn()), "agent.thought").visibility == "private"


@pytest.mark.parametrize(
    "words",
    [
        "<environment_context>\n  <cwd>/home/ann</cwd>\n</environment_context>",
        "<user_instructions>\nBe kind.\n</user_instructions>",
        "# AGENTS.md instructions for /home/ann\n\nBe kind.",
        "<turn_aborted>\nThe user interrupted.\n</turn_aborted>",
    ],
)
def test_what_the_program_says_in_a_persons_name_is_no_prompt(words: str) -> None:
    content = [{"type": "input_text", "text": words}]
    assert kinds(read([meta(), response(1, "message", role="user", content=content), said(2, "Hello")])) == [
        "session.started",
        "model.replied",
        "session.turn_ended",
    ]


def test_an_event_that_says_it_is_no_persons_is_no_prompt() -> None:
    events = read(
        [
            meta(),
            event(1, "user_message", message="Be kind.", kind="user_instructions"),
            event(2, "user_message", message="Go", kind="plain"),
        ]
    )
    assert one(events, "prompt.submitted").text == "Go"


def test_a_prompt_that_no_event_confirms_is_reported_when_it_is_answered() -> None:
    content = [{"type": "input_text", "text": "Hello there"}]
    events = read([meta(), response(1, "message", role="user", content=content), call(3, "ls")])
    assert kinds(events) == ["session.started", "prompt.submitted", "tool.called"]
    assert events[1].at == read([meta(1)])[0].at


def test_a_prompt_from_an_editor_is_shown_without_what_the_editor_adds() -> None:
    words = "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nFix #12 please"
    prompt = one(read([meta(), asked(1, words)]), "prompt.submitted")
    assert (prompt.text, prompt.task, prompt.data["prompt"]) == ("Fix #12 please", "#12", words)


def test_the_same_prompt_in_two_turns_is_reported_twice() -> None:
    turns = [[event(at, "task_started", turn_id=TURN.replace("0003", f"000{at}")), *asked(at, "continue")] for at in (1, 2)]
    prompts = of_kind(read([meta(), *turns]), "prompt.submitted")
    assert len({prompt.id for prompt in prompts}) == 2


def test_a_prompt_after_an_interruption_corrects() -> None:
    events = read([meta(), asked(1, "Go"), event(2, "turn_aborted", reason="interrupted"), asked(3, "The other door")])
    assert one(events, "session.turn_ended").data["reason"] == "interrupted"
    assert [prompt.data.get("correction") for prompt in of_kind(events, "prompt.submitted")] == [None, True]


@pytest.mark.parametrize(
    ("output", "kind", "code"),
    [
        (json.dumps({"output": "fine", "metadata": {"exit_code": 0, "duration_seconds": 0.5}}), "tool.returned", 0),
        (json.dumps({"output": "oh", "metadata": {"exit_code": 2, "duration_seconds": 0.5}}), "tool.failed", 2),
        ("Exit code: 0\nWall time: 1 seconds\nOutput:\nfine", "tool.returned", 0),
        ("Wall time: 0.0 seconds\nOutput:\nExit code: 7\nWall time: 0 seconds\nOutput:\nno", "tool.failed", 7),
        ({"content": "fine", "success": True}, "tool.returned", None),
        ({"content": "no", "success": False}, "tool.failed", None),
        ([{"type": "input_text", "text": "fine"}, {"type": "input_image", "image_url": "data:"}], "tool.returned", None),
        ("unsupported call: door", "tool.failed", None),
        ("apply_patch verification failed: no such file", "tool.failed", None),
        ("exec command rejected by user", "tool.denied", None),
        (None, "tool.returned", None),
    ],
)
def test_outputs_of_every_version_report_how_it_went(output: Any, kind: str, code: int | None) -> None:
    outcome = read([meta(), call(1, "make"), result(2, output)])[-1]
    assert (outcome.kind, outcome.data.get("exit_code")) == (kind, code)


def test_a_command_that_is_broken_off_is_interrupted() -> None:
    failed = one(read([meta(), call(1, "sleep 20"), result(4, "Wall time: 2.9 seconds\naborted by user")]), "tool.failed")
    assert failed.data["interrupted"] is True
    assert failed.data["error"] == "aborted by user"


def item(seconds: float, **fields: Any) -> Row:
    return event(seconds, "item_completed", thread_id=THREAD, turn_id=TURN, item=fields)


def test_an_item_adds_to_the_result_of_its_call_and_is_not_reported_beside_it() -> None:
    changes = {"/home/ann/shop/door.py": {"type": "add", "content": "x"}}
    patch = "*** Begin Patch\n*** Add File: door.py\n+x\n*** End Patch"
    done = item(2, type="FileChange", id=CALL, changes=changes, status="completed", stdout="Success", stderr="")
    events = read(
        [
            meta(),
            response(1, "custom_tool_call", name="apply_patch", input=patch, call_id=CALL),
            done,
            response(2, "custom_tool_call_output", call_id=CALL, output="Success"),
        ]
    )
    assert kinds(events) == ["session.started", "tool.called", "tool.returned"]
    assert events[-1].data["paths"] == ["/home/ann/shop/door.py"]
    assert events[-1].data["deed"] == "edit"


def test_work_that_only_an_item_shows_is_reported_whole() -> None:
    done = item(
        2,
        type="CommandExecution",
        id=f"exec-{OWN_ID}",
        command=["/bin/bash", "-lc", "make"],
        status="failed",
        exit_code=2,
        aggregated_output="oh",
        duration={"secs": 1, "nanos": 500000000},
    )
    called, failed = read([meta(), done])[1:]
    assert (called.kind, called.data["input"]) == ("tool.called", {"cmd": "make"})
    assert (failed.kind, failed.cause, failed.data["exit_code"], failed.data["duration_ms"]) == ("tool.failed", called.id, 2, 1500)


@pytest.mark.parametrize("name", ["exec_command_begin", "exec_command_end", "exec_command_output_delta"])
def test_events_about_a_call_do_not_report_it_again(name: str) -> None:
    twice = event(2, name, call_id=CALL, command=["bash", "-lc", "make"], exit_code=0, stdout="fine", chunk="")
    assert kinds(read([meta(), call(1, "make"), twice, result(3, ended(0, "fine")), twice])) == [
        "session.started",
        "tool.called",
        "tool.returned",
    ]


def test_a_command_that_goes_on_in_the_background_is_reported_when_it_ends() -> None:
    running = "Chunk ID: a\nWall time: 0.3 seconds\nProcess running with session ID 5522\nOriginal token count: 0\nOutput:\n"
    done = item(
        9, type="CommandExecution", id=CALL, command=["bash", "-lc", "make"], status="failed", exit_code=4, aggregated_output="late"
    )
    events = read([meta(), call(1, "make"), result(2, running), done, done])
    assert kinds(events) == ["session.started", "tool.called", "tool.returned", "process.finished"]
    assert (events[-1].data["exit_code"], events[-1].cause) == (4, events[-2].id)


def test_a_search_is_reported_once_with_or_without_an_id() -> None:
    action = {"type": "search", "query": "doors"}
    old = [event(1, "web_search_end", call_id="ws_1", query="doors"), response(1, "web_search_call", status="completed", action=action)]
    new = [
        item(1, type="WebSearch", id="ws_1", query="doors", action=action),
        response(1, "web_search_call", id="ws_1", status="completed", action=action),
    ]
    for rows in (old, new):
        assert kinds(read([meta(), rows])) == ["session.started", "tool.called", "tool.returned"]


def test_the_ids_of_calls_that_a_provider_only_counts_hold_within_their_thread() -> None:
    mine = read([meta(), call(1, "make", id="call_1")])[-1]
    other = read([meta(id=CHILD), call(1, "make", id="call_1")])[-1]
    assert mine.id != other.id
    assert read([meta(), call(1, "make")])[-1].id == read([meta(id=CHILD), call(1, "make")])[-1].id


def test_a_compaction_is_reported_with_its_summary() -> None:
    full = tokens(1, usage(1000, 0, 10), usage(1000, 0, 10))
    compacted = row(
        2,
        "compacted",
        message="Here is the summary, use the information in this summary to assist with your own analysis:\nThe door is blue.",
        replacement_history=[{"type": "message"}] * 3,
    )
    events = read([meta(), full, compacted, event(2, "context_compacted")])
    assert kinds(events) == ["session.started", "model.replied", "session.compacted"]
    assert events[-1].data == {"summary": "The door is blue.", "before_tokens": 1010}


def test_a_turn_that_fails_shows_the_error_once() -> None:
    error = {"message": "no luck", "codex_error_info": "other"}
    events = read([meta(), asked(1, "Go"), event(2, "error", **error), event(2, "task_complete", turn_id=TURN, error=error)])
    assert kinds(events) == ["session.started", "prompt.submitted", "model.failed", "session.turn_ended"]
    assert events[-1].data["reason"] == "failed"


def test_an_approval_is_waited_for() -> None:
    waiting = one(read([meta(), call(1, "make"), event(2, "exec_approval_request", call_id=CALL, command=["make"])]), "session.waiting")
    assert waiting.data == {"why": "permission", "tool": "exec_command", "call_id": CALL}


def test_what_nobody_knows_is_kept_under_its_own_name() -> None:
    events = read(
        [meta(), event(1, "doorBellRang", message="ring", times=3), row(2, "weather_report", sky="blue"), response(3, "smell", of="roses")]
    )
    assert kinds(events[1:]) == ["codex.door_bell_rang", "codex.weather_report", "codex.smell"]
    assert [one.visibility for one in events[1:]] == ["system"] * 3
    assert events[1].data == {"message": "ring", "times": 3}


def test_a_title_names_the_agent() -> None:
    assert one(read([meta(), event(1, "thread_name_updated", thread_name="Doors")]), "agent.named").data == {"title": "Doors"}


def test_the_oldest_rollouts_have_no_envelopes() -> None:
    message = {"type": "message", "content": [{"type": "input_text", "text": "Go"}]}
    flat: list[Row | list[Row]] = [
        {"id": THREAD, "timestamp": stamp(0), "instructions": None, "git": {"branch": "main"}},
        {"record_type": "state"},
        {**message, "role": "user", "content": [{"type": "input_text", "text": "<environment_context>\n</environment_context>"}]},
        {**message, "role": "user"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]},
        {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": CALL},
        {"type": "function_call_output", "call_id": CALL, "output": '{"output":"a","metadata":{"exit_code":0}}'},
        {**message, "role": "assistant", "content": [{"type": "output_text", "text": "Done"}]},
    ]
    assert kinds(read(flat)) == [
        "session.started",
        "prompt.submitted",
        "agent.thought",
        "tool.called",
        "tool.returned",
        "model.replied",
        "session.turn_ended",
    ]


# --- where a turn ends


def test_turns_of_older_rollouts_end_with_the_answer() -> None:
    rows: list[Row | list[Row]] = [
        meta(),
        asked(1, "Mend the door"),
        said(2, "Let me look."),
        call(3, "ls"),
        result(4, ended(0, "door")),
        said(5, "The door is mended."),
        tokens(5, usage(1000, 0, 50), usage(1000, 0, 50)),
        response(5, "reasoning", summary=[], encrypted_content="gAAAA"),
        asked(9, "And the window"),
        said(11, "It is whole."),
    ]
    events = read(rows)
    first, second = of_kind(events, "session.turn_ended")
    assert (first.text, second.text) == ("The door is mended.", "It is whole.")
    assert first.cause == of_kind(events, "prompt.submitted")[0].id
    assert kinds(events)[kinds(events).index("session.turn_ended") + 1] == "prompt.submitted"
    assert [end.at for end in (first, second)] == [START + timedelta(seconds=5), START + timedelta(seconds=11)]


@pytest.mark.parametrize("last", [call(3, "ls"), event(3, "turn_aborted", reason="interrupted"), event(3, "task_started", turn_id=TURN)])
def test_a_rollout_that_stops_elsewhere_has_no_answer_at_its_end(last: Row) -> None:
    events = read([meta(), asked(1, "Mend the door"), said(2, "Let me look."), last])
    assert [end.data.get("reason") for end in of_kind(events, "session.turn_ended")] == (
        ["interrupted"] if last["payload"]["type"] == "turn_aborted" else []
    )


@pytest.mark.parametrize("name", ["task_complete", "turn_complete"])
def test_a_turn_that_a_record_ends_does_not_end_with_its_answer_too(name: str) -> None:
    events = read([meta(), asked(1, "Go"), said(2, "Done."), event(3, name, turn_id=TURN), asked(9, "Again"), said(10, "Done.")])
    assert len(of_kind(events, "session.turn_ended")) == 1


def test_an_answer_of_a_rollout_that_may_still_grow_ends_the_turn_only_after_a_while() -> None:
    reader = RECORDING.open(None)
    for raw in lines([meta(), *asked(1, "Go"), *said(2, "Let me look.")]):
        reader.read(raw)
    saved = reader.save()
    assert "session.turn_ended" not in kinds(RECORDING.open(saved).end(START + timedelta(seconds=9)))
    assert "session.turn_ended" in kinds(RECORDING.open(saved).end(START + timedelta(hours=1)))


@given(cut=st.integers(0, 20))
def test_an_older_rollout_read_in_two_halves_ends_the_same_turns(cut: int) -> None:
    parts = [[meta()], asked(1, "Go"), said(2, "First."), asked(5, "On"), [call(6, "ls"), result(7, "ok")], said(8, "Second.")]
    rows = [record for part in parts for record in part]
    raw, reader = lines(rows), RECORDING.open(None)
    events = [recorded for line in raw[:cut] for recorded in reader.read(line)]
    reader = RECORDING.open(reader.save())
    assert events + [recorded for line in raw[cut:] for recorded in reader.read(line)] + reader.end() == read([rows])
    assert len(of_kind(read([rows]), "session.turn_ended")) == 2


# --- sub-agents and forks


def spawned(**more: Any) -> Row:
    """The header of a sub-agent."""
    header = meta(100, id=CHILD, parent_thread_id=THREAD, forked_from_id=THREAD, **more)
    spawn = {"parent_thread_id": THREAD, "depth": 1, "agent_path": "/root/helper", "agent_role": "worker"}
    header["payload"]["source"] = {"subagent": {"thread_spawn": spawn}}
    return header


def own_turn(seconds: float) -> list[Row]:
    """What the sub-agent itself does."""
    begun = event(seconds, "task_started", turn_id=CHILDS_TURN)
    return [begun, *asked(seconds, "Oil the hinges"), *said(seconds + 9, "Oiled"), tokens(seconds + 9, usage(90, 0, 9), usage(1090, 0, 59))]


def copied(seconds: float) -> list[Row]:
    """The parent's history, written again."""
    begun = event(seconds, "task_started", turn_id=TURN)
    return [meta(seconds), begun, *asked(seconds, "Mend"), call(seconds, "ls"), tokens(seconds, usage(1000, 0, 50), usage(1000, 0, 50))]


def numbered(rows: list[Row]) -> list[Row]:
    return [{**record, "ordinal": place} for place, record in enumerate(rows)]


@pytest.mark.parametrize(
    "rows",
    [
        numbered([spawned(subagent_history_start_ordinal=7), *copied(100), *own_turn(100)]),
        [spawned(), *copied(100), *own_turn(100)],
        [spawned(), *copied(10), *own_turn(100)],
        [spawned(), *own_turn(100)],
    ],
    ids=["the end is stated", "the turn tells", "the times are kept", "nothing is copied"],
)
def test_a_sub_agent_does_not_report_its_parents_history_again(rows: list[Row]) -> None:
    events = read(rows)
    assert kinds(events) == ["agent.launched", "session.started", "prompt.submitted", "model.replied"]
    assert [events[2].text, events[3].data["said"], events[3].data["input"]] == ["Oil the hinges", "Oiled", 90]


def test_a_sub_agent_is_launched_by_its_parent_and_prompted_by_it() -> None:
    launched, started, prompt, _ = read([spawned(), *own_turn(100)])
    assert (launched.agent, launched.child, launched.run, launched.data["role"]) == (AGENT, HELPER, THREAD, "worker")
    assert (started.agent, started.parent, started.run, started.data["parent_run"]) == (HELPER, AGENT, CHILD, THREAD)
    assert (prompt.actor, prompt.cause) == (AGENT, launched.id)


def test_parent_and_sub_agent_report_one_launch() -> None:
    activity = {"type": "SubAgentActivity", "agent_thread_id": CHILD, "agent_path": "/root/helper"}
    begun, over = item(2, **activity, id=CALL, kind="started"), item(9, **activity, id="over", kind="completed")
    events = read([meta(), response(1, "function_call", name="spawn_agent", arguments="{}", call_id=CALL), begun, over])
    launched, returned = one(events, "agent.launched"), one(events, "agent.returned")
    assert launched.id == read([spawned()])[0].id
    assert launched.cause == one(events, "tool.called").id
    assert (returned.child, returned.data["status"]) == (HELPER, "completed")


def test_a_task_that_one_agent_gives_another_is_its_prompt() -> None:
    head = "Message Type: NEW_TASK\nTask name: /root/helper\nSender: /root\nPayload:\n"
    message = {"author": "/root", "recipient": "/root/helper"}
    for payload, words in (
        ([{"type": "input_text", "text": f"{head}Oil it"}], "Oil it"),
        ([{"type": "input_text", "text": head}], "/root/helper"),
    ):
        prompt = one(read([spawned(), response(200, "agent_message", **message, content=payload)]), "prompt.submitted")
        assert (prompt.actor, prompt.text) == (AGENT, words)


def test_an_older_parent_learns_of_a_return_in_a_message() -> None:
    words = f'<subagent_notification>\n{{"agent_path":"{CHILD}","status":{{"completed":"Oiled"}}}}\n</subagent_notification>'
    events = read([meta(), response(1, "message", role="user", content=[{"type": "input_text", "text": words}])])
    returned = one(events, "agent.returned")
    assert (returned.child, returned.data) == (HELPER, {"status": "completed", "result": "Oiled"})


def test_a_fork_shows_what_it_was_forked_from_and_only_its_own() -> None:
    copies = [*copied(100)[1:4], tokens(100, usage(1000, 0, 50), usage(1000, 0, 50))]
    events = read([meta(100, id=CHILD, forked_from_id=THREAD), meta(100), copies, asked(160, "Another way"), said(170, "Yes")])
    assert kinds(events) == ["session.started", "prompt.submitted", "model.replied", "session.turn_ended"]
    assert {"source": "fork", "parent_run": THREAD}.items() <= events[0].data.items()


def test_a_fork_that_refers_to_its_history_copies_nothing() -> None:
    header = {**meta(100, id=CHILD, forked_from_id=THREAD, forked_from_ordinal_exclusive=68), "ordinal": 68}
    assert kinds(read([header, {**asked(100, "Go")[1], "ordinal": 69}])) == ["session.started", "prompt.submitted"]


# --- whatever comes


@given(cut=st.integers(0, 40))
def test_a_source_read_in_two_halves_shows_the_same(cut: int) -> None:
    rows = [record for part in [*turn(), *own_turn(30)] for record in (part if isinstance(part, list) else [part])]
    raw, reader = lines(rows), RECORDING.open(None)
    events = [recorded for line in raw[:cut] for recorded in reader.read(line)]
    reader = RECORDING.open(reader.save())
    assert events + [recorded for line in raw[cut:] for recorded in reader.read(line)] + reader.end() == read(rows)


def test_a_finished_thread_is_soon_forgotten() -> None:
    reader, size = RECORDING.open(None), 0
    for n in range(300):
        rows = [
            *asked(n, f"Door {n}"),
            call(n, "x" * 5000, id=f"call_{n:030}"),
            result(n, "y" * 5000, id=f"call_{n:030}"),
            *said(n, "z" * 5000),
        ]
        for raw in lines([*rows, tokens(n, None, usage(n + 1, 0, n + 1))]):
            reader.read(raw)
        size = max(size, len(reader.save()))
    assert size < 8192


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b"7", b'"x"', b"null", b"\xff\xfe"])
def test_what_is_no_object_is_refused(raw: bytes) -> None:
    with pytest.raises(DialectError):
        RECORDING.open(None).read(raw)


NAMES, KEYS = st.sampled_from(WORDS.split()), st.sampled_from(FIELDS.split())
VALUES = st.recursive(
    json_values()
    | NAMES
    | st.sampled_from([THREAD, CHILD, TURN, CALL, stamp(1), "9" * 20, 10**700, float("inf"), "\ud83d", -1, "x" * 70000, "\x00"]),
    lambda inner: st.dictionaries(KEYS, inner, max_size=6) | st.lists(inner, max_size=3),
    max_leaves=20,
)


@given(st.lists(st.dictionaries(KEYS, VALUES, max_size=6) | json_objects(), max_size=6))
def test_any_objects_are_read_and_what_they_report_fits_into_a_log(records: list[Row]) -> None:
    reader, admission = RECORDING.open(None), Admission()
    for raw in lines(records):
        for recorded in reader.read(raw):
            admission.admit(recorded)
        reader = RECORDING.open(reader.save())
    for recorded in [*reader.flush_complete(), *reader.end()]:
        admission.admit(recorded)


@given(place=st.integers(0, 10**6), key=KEYS, value=VALUES)
def test_a_rollout_with_one_thing_bent_is_read(place: int, key: str, value: Any) -> None:
    rows = [record for part in turn() for record in (part if isinstance(part, list) else [part])]
    bent = rows[place % len(rows)]
    target = bent["payload"] if place % 2 else bent
    target[key] = value
    for recorded in read(rows):
        assert recorded.id is not None
        Admission().admit(recorded)


def test_huge_records_from_the_future_still_fit_into_a_log() -> None:
    huge = {f"field {n}": ["\x01" * 1000] * 50 if n % 2 else "\x01" * 50000 for n in range(40)}
    for recorded in read(
        [meta(), event(1, "novelty", **huge), response(2, "function_call", name="x", arguments=json.dumps(huge), call_id=CALL)]
    ):
        Admission().admit(recorded)


def test_a_paginated_fork_names_its_parents_file_and_copies_nothing() -> None:
    parent = "019a0000-0000-7000-8000-00000000aaaa"
    header = meta(0, forked_from_id=parent, history_mode="paginated", history_base={"thread_id": parent, "end_ordinal_exclusive": 9})
    events = read([header, asked(0.1, "Go on"), tokens(0.2, usage(100, 0, 10), usage(900, 0, 90))])
    assert one(events, "session.started").data["parent_run"] == parent
    assert one(events, "model.replied").data["input"] == 100


def test_rate_limits_are_reported_when_another_tenth_is_used() -> None:
    def limited(seconds: float, percent: float) -> Row:
        limits = {"primary": {"used_percent": percent, "window_minutes": 300, "resets_at": 1_785_274_415}, "plan_type": "pro"}
        return event(seconds, "token_count", info=None, rate_limits=limits)

    events = read([meta(), *(limited(second, percent) for second, percent in enumerate([41.0, 42.0, 49.9, 50.0, 3.0]))])
    reports = of_kind(events, "codex.rate_limits")
    assert [report.text for report in reports] == [f"Used {share} % of the 5-hour limit" for share in (41, 50, 3)]
    assert reports[0].data["plan"] == "pro"
