"""Transcripts of Claude Code become events once, in order, with causes, and with each reply's final usage."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event
from fleetlore.log.admission import Admission
from fleetlore.programs.claude_code.transcript import RECORDING
from fleetlore.views import costs
from fleetlore.views.cost_sums import sum_total
from tests.growing import grows_in_proportion
from tests.transcripts import START, Row, Transcript, a_day, bash, text, thinking, tool


def read(rows: Iterable[Row] | Transcript, *, end: bool = True) -> list[Event]:
    reader = RECORDING.open(None)
    lines = rows.lines() if isinstance(rows, Transcript) else [json.dumps(row).encode() for row in rows]
    events = [event for line in lines for event in reader.read(line)]
    return events + (reader.end() if end else reader.flush_complete())


def kinds(events: Iterable[Event]) -> list[str]:
    return [event.kind for event in events]


def the(events: Iterable[Event], kind: str) -> Event:
    [event] = [event for event in events if event.kind == kind]
    return event


@pytest.mark.parametrize("kind", ["api-request-blob", "some-new-cache"])
def test_what_the_program_keeps_of_its_requests_is_no_prompt(kind: str) -> None:
    recorded = Transcript()
    recorded.prompt("Make a note")
    kept = {
        "type": kind,
        "sessionId": "s",
        "hash": "0a1b",
        "message": {"role": "user", "content": [{"type": "text", "text": "Make a note"}]},
    }
    assert kinds(read([*recorded.rows, kept])).count("prompt.submitted") == 1


def test_a_session_is_reported_from_its_start_to_the_end_of_its_turn() -> None:
    events = read(a_day())
    assert kinds(events) == [
        "session.started",
        "prompt.submitted",
        "tool.called",
        "model.replied",
        "tool.failed",
        "tool.called",
        "model.replied",
        "tool.returned",
        "tool.called",
        "model.replied",
        "tool.returned",
        "tool.called",
        "model.replied",
        "tool.returned",
        "model.replied",
        "session.turn_ended",
    ]
    assert {event.agent for event in events} == {"claude-code/0b5e1111"}
    assert {event.run for event in events} == {"0b5e1111-aaaa-4bbb-8ccc-0123456789ab"}


def test_a_session_says_where_it_is() -> None:
    start = the(read(a_day()), "session.started")
    assert (start.data["project"], start.data["branch"], start.data["cwd"]) == ("harbour", "main", "/home/ada/harbour")


def test_prompt_call_outcome_and_reply_are_linked_by_cause() -> None:
    events = read(a_day())
    prompt = the(events, "prompt.submitted")
    call, failed = (next(event for event in events if event.kind == kind) for kind in ("tool.called", "tool.failed"))
    replies = [event for event in events if event.kind == "model.replied"]
    assert call.cause == prompt.id
    assert failed.cause == call.id
    assert [reply.cause for reply in replies[:2]] == [prompt.id, failed.id]


def test_an_answer_is_reported_once_with_its_final_usage_however_many_rows_repeat_it() -> None:
    recorded = Transcript()
    recorded.prompt("go")
    for output, block in ((1, thinking("hm")), (1, text("First.")), (7, text("Second.")), (41, bash("t1", "ls"))):
        recorded.reply("m1", block, output=output, stop=None)
    recorded.result("t1", "a.txt")
    recorded.reply("m2", text("Done."), output=5)
    first, second = (event for event in read(recorded) if event.kind == "model.replied")
    assert (first.data["output"], first.data["said"]) == (41, "First.\nSecond.")
    assert (first.data["input"], first.data["cache_read"], first.data["cache_write"], first.data["cache_write_1h"]) == (3, 1000, 50, 30)
    assert second.data["output"] == 5


def test_a_transcript_that_ends_in_the_middle_of_an_answer_says_that_it_is_only_a_part() -> None:
    recorded = Transcript()
    recorded.prompt("go")
    recorded.reply("m1", text("First."), output=1, stop=None)
    part = the(read(recorded), "model.replied")
    recorded.reply("m1", text("Second."), output=9, stop="end_turn")
    whole = the(read(recorded), "model.replied")
    assert part.data["partial"]
    assert part.data["whole"] == whole.id != part.id
    assert "partial" not in whole.data


def test_of_a_transcript_that_may_grow_only_what_is_whole_is_reported() -> None:
    recorded = Transcript()
    recorded.prompt("go")
    recorded.reply("m1", text("First."), output=1, stop=None)
    assert "model.replied" not in kinds(read(recorded, end=False))
    recorded.reply("m1", text("Second."), output=9, stop="end_turn")
    assert the(read(recorded, end=False), "model.replied").data["output"] == 9


def test_what_the_program_says_for_itself_costs_nothing() -> None:
    recorded = Transcript()
    recorded.prompt("go")
    row = recorded.reply("m1", text("No response requested."))
    row["message"]["model"] = "<synthetic>"
    assert "model.replied" not in kinds(read(recorded))


def test_a_fork_repeats_its_parent_s_rows_and_shows_nothing_twice() -> None:
    parent = a_day()
    fork = Transcript("ffff2222-aaaa-4bbb-8ccc-0123456789ab")
    fork.rows = [row | {"sessionId": fork.session} for row in parent.rows]
    fork.prompt("and now the other table", "p-9")
    ids = {event.id for event in read(parent)}
    new = [event for event in read(fork) if event.id not in ids]
    assert kinds(new) == ["session.started", "prompt.submitted"]


def test_a_fork_that_names_its_parent_shows_the_parent_s_rows_as_the_parent_s() -> None:
    parent = a_day()
    fork = [row | {"sessionId": "ffff2222", "forkedFrom": {"sessionId": parent.session, "messageUuid": row["uuid"]}} for row in parent.rows]
    assert {event.run for event in read(fork) if event.kind != "session.started"} == {parent.session}


def test_no_id_depends_on_the_session_but_that_of_its_start() -> None:
    mine, other = a_day(), a_day()
    other.rows = [row | {"sessionId": "another"} for row in other.rows]
    differing = [one.kind for one, two in zip(read(mine), read(other), strict=True) if one.id != two.id]
    assert differing == ["session.started"]


def test_reading_on_from_what_was_saved_gives_the_same_events() -> None:
    lines = a_day().lines()
    whole = read(a_day())
    for cut in range(len(lines)):
        first = RECORDING.open(None)
        events = [event for line in lines[:cut] for event in first.read(line)]
        second = RECORDING.open(first.save())
        events += [event for line in lines[cut:] for event in second.read(line)] + second.end()
        assert events == whole


def test_a_call_that_a_person_refused_is_denied_with_what_the_person_said() -> None:
    recorded = Transcript()
    recorded.prompt("go")
    recorded.reply("m1", bash("t1", "rm -r build"), stop="tool_use")
    words = "The user doesn't want to proceed with this tool use. The tool use was rejected. To proceed, the user said:\nnot the build"
    recorded.result("t1", words, error=True)
    recorded.add("user", message={"role": "user", "content": [text("[Request interrupted by user for tool use]")]})
    events = read(recorded)
    denied = the(events, "tool.denied")
    assert (denied.data["by"], denied.data["reason"]) == ("user", "not the build")
    assert the(events, "session.turn_ended").data["reason"] == "interrupted"


def test_a_running_tool_that_a_person_stopped_has_failed_and_was_not_denied() -> None:
    recorded = Transcript()
    recorded.prompt("go")
    recorded.reply("m1", bash("t1", "sleep 300"), stop="tool_use")
    recorded.result("t1", "The user doesn't want to proceed with this tool use. The tool use was rejected", error=True)
    interruption = [text("[Request interrupted by user for tool use]")]
    recorded.add("user", message={"role": "user", "content": interruption}, interruptedMessageId="m1")
    assert the(read(recorded), "tool.failed").data["interrupted"] is True


def test_the_first_prompt_after_an_interruption_is_a_correction() -> None:
    recorded = Transcript()
    recorded.prompt("go")
    recorded.add("user", message={"role": "user", "content": [text("[Request interrupted by user]")]})
    recorded.prompt("use the other file", "p-2")
    assert [event.data.get("correction") for event in read(recorded) if event.kind == "prompt.submitted"] == [None, True]


def test_thoughts_are_private() -> None:
    recorded = Transcript()
    recorded.prompt("go")
    recorded.reply("m1", thinking("Should I?"), thinking("  "), text("I do."))
    thought = the(read(recorded), "agent.thought")
    assert (thought.visibility, thought.text) == ("private", "Should I?")


def test_a_compaction_is_reported_with_its_summary() -> None:
    recorded = Transcript()
    recorded.prompt("go")
    recorded.add(
        "system", subtype="compact_boundary", content="Conversation compacted", compactMetadata={"trigger": "auto", "preTokens": 150_000}
    )
    recorded.prompt("This session is being continued …", isCompactSummary=True, isVisibleInTranscriptOnly=True)
    compaction = the(read(recorded), "session.compacted")
    assert compaction.data == {"trigger": "auto", "before_tokens": 150_000, "summary": "This session is being continued …"}


@pytest.mark.parametrize(
    "content",
    [
        "<local-command-stdout>ok</local-command-stdout>",
        "<command-name>/clear</command-name>\n<command-args></command-args>",
        "<system-reminder>be brief</system-reminder>",
        [{"type": "text", "text": "<system-reminder>be brief</system-reminder>"}],
        "",
        None,
    ],
)
def test_what_no_person_wrote_is_no_prompt(content: Any) -> None:
    recorded = Transcript()
    recorded.add("user", message={"role": "user", "content": content})
    assert kinds(read(recorded)) == ["session.started"]


def test_a_slash_command_is_a_prompt_as_it_was_typed() -> None:
    recorded = Transcript()
    recorded.prompt(
        "<command-message>ship</command-message>\n<command-name>/ship</command-name>\n<command-args>the tide table</command-args>"
    )
    recorded.prompt("Everything that /ship stands for …", isMeta=True)
    assert the(read(recorded), "prompt.submitted").text == "/ship the tide table"


def test_the_first_prompt_after_clear_is_not_the_last_one_before_it() -> None:
    # Claude Code repeats the id of the last prompt, which belongs to the session before.
    before, after = Transcript(), Transcript(sessionId="after-clear")
    before.prompt("c", prompt="p1")
    after.prompt("<command-name>/clear</command-name>\n<command-args></command-args>", prompt="p1")
    after.prompt("<command-name>/write-docs</command-name>", prompt="p1")
    ids = [the(read(told), "prompt.submitted").id for told in (before, after)]
    assert ids[0] != ids[1]


def test_a_task_is_guessed_from_the_prompt_or_the_branch_and_marked_as_guessed() -> None:
    by_prompt = the(read(a_day()), "prompt.submitted")
    assert (by_prompt.task, by_prompt.data["task_guessed"]) == ("#42", True)
    recorded = Transcript(gitBranch="fix/issue-7-tides")
    recorded.prompt("go on")
    assert the(read(recorded), "prompt.submitted").task == "#7"
    recorded = Transcript(gitBranch="harbour-4te")
    recorded.prompt("Work on bead harbour-4te.")
    assert the(read(recorded), "prompt.submitted").task == "harbour-4te"
    assert the(read([Transcript().prompt("go on")]), "prompt.submitted").task is None


def test_a_helper_has_its_own_name_and_its_launcher_for_parent() -> None:
    helper = Transcript(isSidechain=True, agentId="a17c0de")
    helper.prompt("Find the tide tables")
    helper.reply("h1", bash("th1", "ls"), stop="tool_use")
    helper.result("th1", "tide.txt")
    meta = {"agentType": "Explore", "description": "Look for tables", "toolUseId": "t9", "spawnDepth": 1}
    events = read([meta, *helper.rows])
    launch = the(events, "agent.launched")
    assert (launch.agent, launch.child, launch.data["role"], launch.text) == (
        "claude-code/0b5e1111",
        "a17c0de",
        "Explore",
        "Look for tables",
    )
    call = the(events, "tool.called")
    assert (call.agent, call.parent, call.run, call.cause) == ("a17c0de", "claude-code/0b5e1111", helper.session, launch.id)
    assert "session.started" not in kinds(events)


def test_the_result_of_the_launching_tool_binds_a_helper_to_its_launcher() -> None:
    recorded = Transcript()
    recorded.prompt("go")
    recorded.reply("m1", tool("t1", "Agent", description="look", prompt="Look", subagent_type="Explore"), stop="tool_use")
    result = {"status": "completed", "agentId": "a17c0de", "agentType": "Explore", "content": [text("Found it.")], "totalTokens": 137}
    recorded.result("t1", [text("Found it.")], toolUseResult=result)
    returned = the(read(recorded), "agent.returned")
    assert (returned.agent, returned.child, returned.text, returned.data["tokens"]) == ("claude-code/0b5e1111", "a17c0de", "Found it.", 137)


def test_a_helper_in_the_background_is_launched_at_once_and_comes_back_by_a_notification() -> None:
    recorded = Transcript()
    recorded.prompt("go")
    recorded.reply("m1", tool("t1", "Agent", description="look", prompt="Look"), stop="tool_use")
    recorded.result("t1", "Async agent launched", toolUseResult={"status": "async_launched", "agentId": "a17c0de", "description": "look"})
    notice = (
        "<task-notification>\n<task-id>a17c0de</task-id>\n<status>completed</status>\n<summary>Found it</summary>\n</task-notification>"
    )
    recorded.add("user", message={"role": "user", "content": notice})
    events = read(recorded)
    assert (the(events, "agent.launched").data["background"], the(events, "agent.returned").text) == (True, "Found it")


NOTICE = "<task-notification>\n"


@pytest.mark.parametrize(
    ("opening", "repeated", "size"),
    [
        (NOTICE, "<summary>", 8_000),
        (f"{NOTICE}<summary>", " ", 100),
        (f"{NOTICE}<status>", " ", 100),
        (f"{NOTICE}<status>", "a ", 8_000),
        (f"{NOTICE}<task-id>", " ", 8_000),
        ("<command-name>", " ", 4_000),
        ("<command-name>/ship</command-name>", "<command-args>", 8_000),
    ],
)
def test_tags_that_are_never_closed_take_time_in_proportion_to_the_text(opening: str, repeated: str, size: int) -> None:
    def read_row(content: str) -> None:
        recorded = Transcript()
        recorded.add("user", message={"role": "user", "content": content})
        read(recorded)

    assert grows_in_proportion(read_row, lambda size: f"{opening}{repeated * (size // len(repeated))}x", size)


@pytest.mark.parametrize("inside", ["Found it", "  Found\n it  ", "", "a <b> c"])
def test_a_notification_is_read_without_the_blanks_around_its_words(inside: str) -> None:
    recorded = Transcript()
    notice = f"{NOTICE}<task-id> x1 </task-id><status>\n done </status><summary>{inside}</summary>\n</task-notification>"
    recorded.add("user", message={"role": "user", "content": notice})
    data = the(read(recorded), "claude_code.task_notification").data
    assert (data["task_id"], data["status"], data.get("summary", "")) == ("x1", "done", inside.strip())


def test_rows_of_a_helper_that_an_older_program_repeats_in_the_session_are_the_helper_s_and_cost_less_than_its_own_transcript() -> None:
    recorded = Transcript()
    recorded.prompt("go")
    recorded.reply("m1", tool("t1", "Task", description="look", prompt="Look", subagent_type="Plan"), stop="tool_use")
    usage = {"input_tokens": 5, "output_tokens": 5}
    for inner in (
        {"type": "user", "message": {"role": "user", "content": [text("Look")]}},
        {"type": "assistant", "message": {"id": "h1", "model": "claude-haiku-4-5", "content": [bash("th1", "ls")], "usage": usage}},
    ):
        recorded.add("progress", data={"type": "agent_progress", "agentId": "a17c0de", "message": inner}, parentToolUseID="t1")
    events = read(recorded)
    assert (the(events, "agent.launched").child, the(events, "agent.launched").data["role"]) == ("a17c0de", "Plan")
    assert [event.agent for event in events if event.kind == "tool.called"] == ["claude-code/0b5e1111", "a17c0de"]
    own, nested = (event for event in events if event.kind == "model.replied")
    assert ("partial" in own.data, nested.data["partial"], nested.agent, nested.data["output"]) == (False, True, "a17c0de", 5)


def test_titles_name_the_agent() -> None:
    recorded = Transcript()
    recorded.prompt("go")
    recorded.add("ai-title", aiTitle="Tides")
    recorded.add("custom-title", customTitle="The tide job")
    assert [event.data for event in read(recorded) if event.kind == "agent.named"] == [{"title": "Tides"}, {"name": "The tide job"}]


def test_a_row_from_the_future_is_kept_under_its_own_name() -> None:
    recorded = Transcript()
    recorded.prompt("go")
    recorded.add("quantum-leap", content="It leapt.", qubits=3)
    recorded.add("system", subtype="weatherReport", content="Rain.")
    leap, weather = read(recorded)[-2:]
    assert (leap.kind, leap.text, leap.data["qubits"]) == ("claude_code.quantum_leap", "It leapt.", 3)
    assert (weather.kind, weather.text) == ("claude_code.weather_report", "Rain.")


def test_an_error_of_the_api_is_a_model_that_failed() -> None:
    recorded = Transcript()
    recorded.prompt("go")
    row = recorded.reply("m1", text("API Error: 529 overloaded"))
    row["isApiErrorMessage"] = True
    assert the(read(recorded), "model.failed").data["error"] == "API Error: 529 overloaded"


@pytest.mark.parametrize("line", [b"", b"[]", b"7", b"{", b"\xff", b'{"type":"user"', b"[" * 100_000])
def test_what_is_no_object_is_refused_and_the_next_row_is_read(line: bytes) -> None:
    reader = RECORDING.open(None)
    with pytest.raises(DialectError):
        reader.read(line)
    assert reader.read(a_day().lines()[1])


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(["user", "tool_result", "text"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
_types = st.sampled_from(["user", "assistant", "system", "progress", "summary", "custom-title", "result", "attachment", "future"])
_keys = st.sampled_from(
    [
        "message",
        "uuid",
        "sessionId",
        "agentId",
        "isSidechain",
        "timestamp",
        "toolUseResult",
        "data",
        "subtype",
        "promptId",
        "cwd",
        "requestId",
    ]
)


@given(st.lists(st.builds(lambda kind, fields: {"type": kind} | fields, _types, st.dictionaries(_keys, _values, max_size=6)), max_size=4))
def test_whatever_a_row_holds_the_reader_goes_on_and_the_log_takes_its_events(rows: list[Row]) -> None:
    admission = Admission()
    for event in read(rows):
        admission.admit(event)


_mutations = st.lists(
    st.tuples(st.integers(0, 14), st.sampled_from(["message", "type", "uuid", "timestamp", "toolUseResult"]), _values), max_size=4
)


@given(_mutations)
def test_damaged_rows_of_a_real_session_never_stop_the_reader(mutations: list[tuple[int, str, Any]]) -> None:
    rows = a_day().rows
    for index, key, value in mutations:
        rows[index % len(rows)][key] = value
    admission = Admission()
    for event in read(rows):
        admission.admit(event)


def test_half_a_letter_and_a_number_without_end_lose_no_row() -> None:
    line = a_day().lines()[1].replace(b"tide table", b"tide \\ud83d table").replace(b'"isSidechain"', b'"huge": 1e999, "isSidechain"')
    [_, prompt] = RECORDING.open(None).read(line)
    assert prompt.text == "Mend the tide \ufffd table, issue #42"


def test_of_rows_that_disagree_on_an_answer_s_usage_the_one_that_knows_most_counts() -> None:
    recorded = Transcript()
    recorded.prompt("go")
    recorded.reply("m1", output=50, stop=None)
    recorded.reply("m1", output=8, stop="end_turn")
    reply = the(read(recorded), "model.replied")
    assert (reply.data["output"], reply.data["stop_reason"]) == (50, "end_turn")


def test_dollars_that_only_one_of_two_equal_rows_states_are_kept() -> None:
    for first in (True, False):
        recorded = Transcript()
        recorded.reply("m1")["costUSD"] = 0.5 if first else None
        recorded.reply("m1")["costUSD"] = None if first else 0.5
        assert the(read(recorded), "model.replied").data["usd"] == 0.5


@pytest.mark.parametrize(
    ("stated", "short", "long", "written", "kept_for_an_hour"),
    [
        (50, 20, 30, 50, 30),
        (50, 0, 0, 50, None),
        (50, 0, 30, 50, 30),
        (50, 10, 20, 50, 20),
        (0, 20, 30, 50, 30),
        (None, 20, 30, 50, 30),
        (20, 20, 30, 50, 30),
        (0, 0, 0, 0, None),
        (None, 0, 0, 0, None),
        (50, None, None, 50, None),
    ],
)
def test_cache_writes_count_the_larger_of_the_total_and_the_split_by_age(
    stated: int | None, short: int | None, long: int | None, written: int, kept_for_an_hour: int | None
) -> None:
    recorded = Transcript()
    by_age = {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long}
    recorded.reply("m1")["message"]["usage"] |= {"cache_creation_input_tokens": stated, "cache_creation": by_age}
    data = the(read(recorded), "model.replied").data
    assert (data["cache_write"], data.get("cache_write_1h")) == (written, kept_for_an_hour)


@pytest.mark.parametrize("by_age", [None, "nonsense", [1]])
def test_cache_writes_without_a_split_by_age_count_their_total(by_age: object) -> None:
    recorded = Transcript()
    recorded.reply("m1")["message"]["usage"] |= {"cache_creation_input_tokens": 50, "cache_creation": by_age}
    data = the(read(recorded), "model.replied").data
    assert (data["cache_write"], data.get("cache_write_1h")) == (50, None)


def test_cache_writes_outside_the_split_are_priced_as_five_minute_writes_and_only_once() -> None:
    recorded = Transcript()
    zeros = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}
    for _ in range(3):  # the rows of one answer repeat its usage
        recorded.reply("m1")["message"]["usage"] = {
            "input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 1_000_000, "cache_creation": zeros}  # fmt: skip
    spending = costs.initial()
    for event in read(recorded):
        spending = costs.apply(spending, event)
    amount = sum_total(spending)
    assert (amount.cache_write, amount.usd) == (1_000_000, 6.25)


def test_a_late_row_that_adds_the_split_by_age_counts_no_cache_write_twice() -> None:
    recorded = Transcript()
    ages = {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 30}
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 50}
    recorded.reply("m1")["message"]["usage"] = usage | {"output_tokens": 20, "cache_creation": dict.fromkeys(ages, 0)}
    recorded.reply("m2")["message"]["usage"] = {"input_tokens": 0, "output_tokens": 1}
    recorded.reply("m1")["message"]["usage"] = usage | {"output_tokens": 40, "cache_creation": ages}
    spending = costs.initial()
    for event in read(recorded):
        spending = costs.apply(spending, event)
    amount = sum_total(spending)
    assert (amount.input, amount.output, amount.cache_write) == (3, 41, 50)


def test_rows_without_any_id_are_not_taken_for_one_another() -> None:
    recorded = Transcript()
    for n in (5, 7):
        row = recorded.reply("m1", output=n)
        row["uuid"] = row["requestId"] = row["message"]["id"] = None
        recorded.add("assistant", message={"content": f"API Error {n}"}, isApiErrorMessage=True)["uuid"] = None
        recorded.add("system", subtype="turn_duration", durationMs=n)["uuid"] = None
    events = read(recorded)
    assert [event.data["output"] for event in events if event.kind == "model.replied"] == [5, 7]
    assert len({event.id for event in events if event.kind in ("model.failed", "session.turn_ended")}) == 4


def test_everything_typed_behind_a_bang_is_a_prompt_though_all_of_it_bears_the_id_of_the_prompt_before() -> None:
    recorded = Transcript()
    recorded.prompt("go", "p-1")
    recorded.add("system", subtype="turn_duration", durationMs=1)
    for command in ("ls", "pwd"):
        recorded.prompt(f"<bash-input>{command}</bash-input>", "p-1")
        recorded.prompt("<bash-stdout>…</bash-stdout>", "p-1")
        recorded.add("system", subtype="turn_duration", durationMs=2)
    events = read(recorded)
    assert [event.text for event in events if event.kind == "prompt.submitted"] == ["go", "!ls", "!pwd"]
    assert len({event.id for event in events}) == len(events)
    assert [event.data["duration_ms"] for event in events if event.kind == "session.turn_ended"] == [1, 2, 2]
    assert len({event.id for event in [*events, *read([*recorded.rows, *recorded.rows])]}) == len(events)


def test_what_is_typed_while_the_agent_works_is_a_prompt_in_the_same_turn() -> None:
    recorded = Transcript()
    recorded.prompt("go", "p-1")
    queued = {"type": "queued_command", "prompt": "no, the other table", "commandMode": "prompt", "origin": {"kind": "human"}}
    row = recorded.add("attachment", attachment=queued)
    recorded.reply("m1", bash("t1", "ls"), stop="tool_use")
    recorded.add("system", subtype="turn_duration", durationMs=1)
    events = read(recorded)
    prompts = [event for event in events if event.kind == "prompt.submitted"]
    assert [(event.text, event.data["prompt_id"]) for event in prompts] == [("go", "p-1"), ("no, the other table", row["uuid"])]
    assert the(events, "tool.called").cause == prompts[1].id
    without = [each for each in recorded.rows if each is not row]
    assert the(events, "session.turn_ended").id == the(read(without), "session.turn_ended").id


def queue(recorded: Transcript, operation: str, content: str | None = None) -> None:
    recorded.add("queue-operation", operation=operation, **({} if content is None else {"content": content}))


def queued_prompts(recorded: Transcript) -> list[str | None]:
    return [event.text for event in read(recorded) if event.kind == "prompt.submitted"]


def test_a_prompt_that_only_the_queue_shows_is_reported_when_the_agent_goes_on() -> None:
    recorded = Transcript()
    recorded.prompt("go", "p-1")
    recorded.reply("m1", bash("t1", "ls"), stop="tool_use")
    queue(recorded, "enqueue", "no, the other table")
    queue(recorded, "remove")
    recorded.result("t1", "a.txt")
    recorded.reply("m2", text("The other one."))
    events = read(recorded)
    kinds = [event.kind for event in events]
    assert queued_prompts(recorded) == ["go", "no, the other table"]
    assert kinds.index("tool.returned") < len(kinds) - kinds[::-1].index("prompt.submitted") - 1
    assert len({event.id for event in events}) == len(events)


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param([("enqueue", "and the docs")], id="still waits"),
        pytest.param([("enqueue", "and the docs"), ("popAll", "and the docs")], id="taken back"),
        pytest.param([("enqueue", "/mcp"), ("remove", None)], id="a command of the program"),
        pytest.param([("remove", None), ("dequeue", None), ("enqueue", None)], id="without a text"),
    ],
)
def test_what_never_reached_the_agent_is_no_prompt(operations: list[tuple[str, str | None]]) -> None:
    recorded = Transcript()
    recorded.prompt("go", "p-1")
    for operation, content in operations:
        queue(recorded, operation, content)
    recorded.reply("m1", text("Done."))
    assert queued_prompts(recorded) == ["go"]


def test_a_queued_prompt_is_reported_once_and_by_its_own_row() -> None:
    recorded = Transcript()
    recorded.prompt("go", "p-1")
    for content in ("first", "second", "third"):
        queue(recorded, "enqueue", content)
    queue(recorded, "remove", "second")
    row = recorded.add("attachment", attachment={"type": "queued_command", "prompt": "second", "commandMode": "prompt"})
    recorded.reply("m1", bash("t1", "ls"), stop="tool_use")
    recorded.result("t1", "a.txt")
    queue(recorded, "remove")
    recorded.reply("m2", text("Fine."))
    recorded.add("attachment", attachment={"type": "queued_command", "prompt": "first", "commandMode": "prompt"})
    queue(recorded, "dequeue")
    recorded.prompt("third", "p-2")
    recorded.reply("m3", text("Done."))
    prompts = [event for event in read(recorded) if event.kind == "prompt.submitted"]
    assert [event.text for event in prompts] == ["go", "second", "first", "third"]
    assert prompts[1].data["prompt_id"] == row["uuid"]


def test_a_helper_in_the_background_returns_also_when_that_is_received_in_the_middle_of_a_turn() -> None:
    recorded = Transcript()
    recorded.prompt("go")
    recorded.reply("m1", tool("t1", "Agent", description="look", prompt="Look", run_in_background=True), stop="tool_use")
    recorded.result("t1", "launched", toolUseResult={"status": "async_launched", "agentId": "a17c0de", "prompt": "Look"})
    words = (
        "<task-notification>\n<task-id>a17c0de</task-id>\n<status>completed</status>\n<summary>Found it.</summary>\n</task-notification>"
    )
    recorded.add("attachment", attachment={"type": "queued_command", "prompt": words, "commandMode": "task-notification"})
    returned = the(read(recorded), "agent.returned")
    assert (returned.child, returned.text) == ("a17c0de", "Found it.")


def test_other_attachments_are_folded() -> None:
    recorded = Transcript()
    recorded.prompt("go")
    before = read(recorded)
    recorded.add("attachment", attachment={"type": "skill_listing", "content": "…"})
    recorded.add("attachment", attachment=None)
    assert read(recorded) == before


def test_results_that_come_side_by_side_in_an_old_side_chain_belong_to_one_helper() -> None:
    recorded = Transcript(isSidechain=True)
    first = recorded.prompt("look", None)
    call = recorded.reply("m1", bash("t1", "ls"), bash("t2", "pwd"), stop="tool_use")
    call |= {"uuid": "11111111", "parentUuid": first["uuid"]}
    for name in ("t1", "t2"):
        recorded.result(name, "ok", uuid=f"{name}-22222", parentUuid="11111111")
    helpers = {event.agent for event in read(recorded) if event.kind.startswith("tool.")}
    assert helpers == {f"claude-code/{first['uuid'][:8]}"}


def test_a_row_whose_type_was_renamed_is_kept_and_a_message_under_it_is_still_read() -> None:
    recorded = Transcript()
    recorded.reply("m1", text("Done."), output=9)["type"] = "assistant-2"
    recorded.rows.append({"kind": "verdict", "text": "good", "sessionId": recorded.session})
    events = read(recorded)
    assert the(events, "model.replied").data["output"] == 9
    assert the(events, "claude_code.unknown").data == {"kind": "verdict", "text": "good"}


def test_a_compaction_that_the_file_breaks_off_at_is_reported_once_when_the_rest_has_come() -> None:
    recorded = Transcript()
    recorded.prompt("go")
    recorded.add("system", subtype="compact_boundary", compactMetadata={"trigger": "auto"})
    half = the(read(recorded), "session.compacted")
    recorded.prompt("In short: …", "p-2", isCompactSummary=True)
    assert the(read(recorded), "session.compacted").id == half.id


def test_a_fork_began_when_it_began_and_not_when_its_parent_did() -> None:
    parent = a_day()
    origin = {"sessionId": parent.session, "messageUuid": "u"}
    fork = Transcript("ffff2222-aaaa-4bbb-8ccc-0123456789ab", at=START + timedelta(hours=1))
    fork.rows = [row | {"sessionId": fork.session, "forkedFrom": origin} for row in parent.rows]
    began = fork.prompt("and now the other table", "p-9")
    start = the((event for event in read(fork) if event.run == fork.session), "session.started")
    assert start.at is not None
    assert start.at.isoformat(timespec="milliseconds").replace("+00:00", "Z") == began["timestamp"]


def test_parts_of_a_message_whose_type_is_no_word_are_passed_over() -> None:
    recorded = Transcript()
    recorded.prompt("go")
    recorded.add("user", message={"role": "user", "content": [{"type": ["tool_result"]}, {"type": "text", "text": "and on"}]})
    recorded.add("assistant", message={"role": "assistant", "content": [{"type": {}}]})
    assert [event.text for event in read(recorded) if event.kind == "prompt.submitted"] == ["go", "and on"]


def test_a_helper_that_launched_another_is_known_by_the_words_in_which_that_came_back() -> None:
    recorded = Transcript(agentId="a1", isSidechain=True)
    recorded.prompt("look")
    recorded.reply("m1", tool("t1", "Agent", description="deeper", prompt="Look deeper"), stop="tool_use")
    usage = "<usage>subagent_tokens: 201\ntool_uses: 1\nduration_ms: 452</usage>"
    words = f"agentId: a2 (use SendMessage with to: 'a2' to continue this agent)\n{usage}"
    recorded.result("t1", [text("Found.\nagentId: none of yours"), text(words)])
    returned = the(read(recorded), "agent.returned")
    assert (returned.agent, returned.child, returned.data["call_id"]) == ("a1", "a2", "t1")
    assert (returned.data["tokens"], returned.data["tool_calls"], returned.data["duration_ms"]) == (201, 1, 452)


def test_a_helper_s_own_helper_in_the_background_is_launched_by_it() -> None:
    recorded = Transcript(agentId="a1", isSidechain=True)
    recorded.prompt("look")
    recorded.reply("m1", tool("t1", "Agent", description="deeper", prompt="Look deeper", run_in_background=True), stop="tool_use")
    recorded.result("t1", [text("Async agent launched successfully.\nagentId: a2 (internal ID)\nThe agent is working in the background.")])
    launched = [event for event in read(recorded) if event.kind == "agent.launched"]
    assert [(event.agent, event.child) for event in launched][1:] == [("a1", "a2")]


def test_the_beginning_of_a_summary_is_no_title() -> None:
    recorded = Transcript()
    recorded.prompt("go")
    recorded.add("custom-title", customTitle="This session is being continued from a previous conversation that ran out of context.")
    assert "agent.named" not in kinds(read(recorded))


def printed() -> list[Row]:
    """What the program prints of a session in which a helper was launched; the same as `written` in other words."""
    common: Row = {"session_id": "0b5e1111-aaaa-4bbb-8ccc-0123456789ab", "parent_tool_use_id": None}
    launch = tool("t1", "Agent", description="look", prompt="Look")

    def answer(message: str, block: Row, **fields: Any) -> Row:
        usage = {"input_tokens": 3, "output_tokens": 1}
        inner = {"id": message, "role": "assistant", "model": "m", "content": [block], "stop_reason": None, "usage": usage}
        return common | {"type": "assistant", "uuid": f"u-{message}", "request_id": f"req-{message}", "message": inner} | fields

    def user(block: Row, **fields: Any) -> Row:
        return common | {"type": "user", "uuid": f"u-{block}", "message": {"role": "user", "content": [block]}} | fields

    return [
        common | {"type": "system", "subtype": "init", "uuid": "u0", "cwd": "/home/ada/harbour"},
        answer("m1", launch),
        common
        | {"type": "system", "subtype": "task_started", "uuid": "u1", "task_id": "a1", "tool_use_id": "t1", "task_type": "local_agent"},
        user(text("Look"), parent_tool_use_id="t1"),
        common | {"type": "system", "subtype": "task_progress", "uuid": "u2", "task_id": "a1"},
        answer("m2", bash("t2", "ls"), parent_tool_use_id="t1"),
        user({"type": "tool_result", "tool_use_id": "t2", "content": "ok"}, parent_tool_use_id="t1"),
        user({"type": "tool_result", "tool_use_id": "t1", "content": "Found."}, tool_use_result={"status": "completed", "agentId": "a1"}),
        answer("m3", text("Done.")),
        common | {"type": "result", "subtype": "success", "uuid": "u3", "duration_ms": 7, "result": "Done."},
    ]


def test_what_the_program_prints_is_reported_as_its_transcript_would_and_its_usage_only_until_that_comes() -> None:
    events = read(printed())
    assert {(event.kind, event.agent, event.child) for event in events if event.kind.startswith(("agent.", "tool.called"))} == {
        ("tool.called", "claude-code/0b5e1111", None),
        ("agent.launched", "claude-code/0b5e1111", "a1"),
        ("tool.called", "a1", None),
        ("agent.returned", "claude-code/0b5e1111", "a1"),
    }
    assert "prompt.submitted" not in kinds(events)
    replies = [event for event in events if event.kind == "model.replied"]
    written = Transcript()
    for n in (1, 2, 3):
        written.reply(f"m{n}", request=f"req-m{n}")
    assert {event.data["whole"] for event in replies} == {event.id for event in read(written) if event.kind == "model.replied"}


def test_a_row_from_the_future_that_is_too_large_is_kept_in_part() -> None:
    recorded = Transcript()
    recorded.add("quantum-leap", content="It leapt.", bulk=[{"n": n} for n in range(40_000)])
    leap = read(recorded)[-1]
    Admission().admit(leap)
    assert (leap.text, "bulk" in leap.data) == ("It leapt.", False)


def test_who_sums_a_session_up_is_the_session_itself() -> None:
    compactor = Transcript(isSidechain=True, agentId="acompact-946d2b")
    compactor.prompt("Your task is to create a detailed summary of the conversation so far …")
    compactor.reply("m1", text("It went well."), output=700)
    [reply] = read(compactor)
    assert (reply.kind, reply.agent, reply.parent, reply.data["output"]) == ("model.replied", "claude-code/0b5e1111", None, 700)


def test_an_answer_whose_content_is_plain_words_keeps_them() -> None:
    recorded = Transcript()
    row = recorded.reply("m1")
    row["message"]["content"] = "All done."
    assert the(read(recorded), "model.replied").data["said"] == "All done."


def test_a_prompt_of_plain_words_in_a_list_or_of_a_document_alone_is_a_prompt() -> None:
    recorded = Transcript()
    recorded.add("user", message={"role": "user", "content": ["Mend it"]})
    recorded.add("user", message={"role": "user", "content": [{"type": "document", "source": {}}]})
    assert [event.data.get("prompt") for event in read(recorded) if event.kind == "prompt.submitted"] == ["Mend it", ""]


def test_tools_that_run_at_the_providers_have_an_outcome_too() -> None:
    recorded = Transcript()
    calls = [{"type": "server_tool_use", "id": f"srv{n}", "name": "web_fetch", "input": {"url": "u"}} for n in range(2)]
    found = {"type": "web_fetch_tool_result", "tool_use_id": "srv0", "content": {"type": "web_fetch_result", "content": "page"}}
    error = {"type": "web_fetch_tool_result_error", "error_code": "url_not_accessible"}
    lost = {"type": "web_fetch_tool_result", "tool_use_id": "srv1", "content": error}
    recorded.reply("m1", *calls, found, lost)
    events = read(recorded)
    assert the(events, "tool.returned").data["output"] == "page"
    assert the(events, "tool.failed").data["error"] == "url_not_accessible"


def test_a_block_from_the_future_is_kept() -> None:
    recorded = Transcript()
    recorded.reply("m1", {"type": "hologramBlock", "beam": 3}, text("Done."))
    kept = the(read(recorded), "claude_code.hologram_block")
    assert (kept.data["beam"], kept.visibility) == (3, "system")


def test_the_role_of_a_helper_is_what_its_launcher_asked_for_where_the_result_does_not_say() -> None:
    recorded = Transcript()
    recorded.reply("m1", tool("t1", "Task", subagent_type="Explore", prompt="Look"), stop="tool_use")
    recorded.result("t1", [text("Found.")], toolUseResult={"status": "completed", "agentId": "a17c0de", "content": [text("Found.")]})
    assert the(read(recorded), "agent.returned").data["role"] == "Explore"


@pytest.mark.parametrize("between", ["result", "answer"])
def test_an_answer_that_goes_on_behind_others_is_counted_with_its_final_usage(between: str) -> None:
    recorded = Transcript()
    recorded.reply("m1", bash("t1", "ls"), output=1, stop="tool_use")
    if between == "result":
        recorded.result("t1", "a")
    else:
        recorded.reply("m2", text("In between."), output=5)
    recorded.reply("m1", text("Done."), output=50)
    recorded.reply("m1", text("Done."), output=50)
    answers = [event for event in read(recorded) if event.kind == "model.replied" and event.data["message_id"] == "m1"]
    assert sum(answer.data["output"] for answer in answers) == 50
    assert sum(answer.data.get("input", 0) for answer in answers) == 3
    assert answers[-1].data["said"] == "Done."


def test_a_pull_request_is_linked_once_however_often_it_is_repeated() -> None:
    session = Transcript()
    session.prompt("Open a pull request")
    for _ in range(3):
        session.add("pr-link", prNumber=7, prUrl="https://forge.example/ada/shop/pull/7", prRepository="ada/shop")
    links = [event for event in read(session) if event.kind == "claude_code.pr_link"]
    assert {link.id for link in links} == {links[0].id}
    assert (links[0].text, links[0].data["number"]) == ("Pull request #7 of ada/shop", 7)
