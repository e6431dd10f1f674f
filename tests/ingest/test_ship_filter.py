"""What stays at home when a log is shipped."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import inspect

from fleetlore import Event
from fleetlore.events import catalog
from fleetlore.events.envelope import Cut, Origin
from fleetlore.ingest.ship_filter import LONGEST, withhold_private
from tests.strategies import events, json_objects, json_values, texts

SECRET = "the quick brown fox\nprint('it is code')"


FORMS = (
    "00000000-0000-4000-8000-000000000000",
    "1h 30m",
    "1h" + " " * LONGEST + "30m",
    "2026-11-15T20:00:00Z",
    f"2026-11-15T20:00:00.{'1' * LONGEST}Z",
)
"""Values of every form that a pattern of the payloads asks for, long ones among them."""


def values_of_type(kind: inspect.Type) -> st.SearchStrategy[Any]:
    """Any JSON value that fits a type of the payloads."""
    match kind:
        case inspect.StructType():
            return _struct(kind)
        case inspect.IntType():
            return st.integers(kind.ge or 0, kind.le or 2**40)
        case inspect.StrType(pattern=str(pattern)):
            return st.sampled_from([form for form in FORMS if re.match(pattern, form)])
        case inspect.LiteralType():
            return st.sampled_from(kind.values)
        case inspect.UnionType():
            return st.one_of([values_of_type(one) for one in kind.types])
        case inspect.VarTupleType() | inspect.ListType():
            return st.lists(values_of_type(kind.item_type), max_size=3)
        case inspect.DictType():
            return st.dictionaries(texts(8), values_of_type(kind.value_type), max_size=3)
        case _:
            return _PLAIN[type(kind)]


@cache
def words() -> st.SearchStrategy[str]:
    return texts(30) | st.just(SECRET) | st.just("x" * (LONGEST + 1))


_PLAIN: dict[type[inspect.Type], st.SearchStrategy[Any]] = {
    inspect.StrType: words(),
    inspect.FloatType: st.floats(allow_nan=False, allow_infinity=False),
    inspect.BoolType: st.booleans(),
    inspect.NoneType: st.none(),
    inspect.AnyType: json_values() | words() | st.dictionaries(st.sampled_from(["path", "file_path", "prompt", "x"]), words(), max_size=3),
}


def _struct(kind: inspect.StructType) -> st.SearchStrategy[Any]:
    tag = {kind.tag_field: st.just(kind.tag)} if kind.tag_field is not None else {}
    needed = {field.encode_name: values_of_type(field.type) for field in kind.fields if field.required}
    optional = {field.encode_name: values_of_type(field.type) for field in kind.fields if not field.required}
    return st.fixed_dictionaries({**tag, **needed}, optional=optional)


@cache
def event_of(kind: str) -> st.SearchStrategy[Event]:
    payload = catalog.known_kinds()[kind]
    info = inspect.type_info(payload)
    # Beside what it knows, a kind may hold anything.
    beside = json_objects().map(lambda more: {key: value for key, value in more.items() if key not in payload.__struct_fields__})
    data = st.tuples(beside, values_of_type(info)).map(lambda parts: parts[0] | parts[1])
    origin = st.none() | st.builds(Origin, dialect=st.just("nexo"), rest=json_values())
    return st.builds(
        Event, kind=st.just(kind), actor=st.just("ada"), text=st.none() | words(), data=data, origin=origin,
        visibility=st.sampled_from(["public", "private", "system"]),
    )  # fmt: skip


# Shrinking the nested shapes of `driver.*` takes minutes, and their failures are read as easily as they come.
@settings(
    max_examples=15, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate), suppress_health_check=[HealthCheck.too_slow]
)
@pytest.mark.parametrize("kind", catalog.known_kinds())
@given(data=st.data())
def test_what_is_left_fits_its_kind_and_withholding_again_changes_nothing(kind: str, data: st.DataObject) -> None:
    event = data.draw(event_of(kind))
    catalog.check_payload(kind, event.data)
    once = withhold_private(event)
    catalog.check_payload(kind, once.data)
    assert withhold_private(once) == once
    assert SECRET not in str(once.data)
    assert "x" * (LONGEST + 1) not in str(once.data)


@given(event=events())
def test_everything_but_words_stays_as_it_was(event: Event) -> None:
    once = withhold_private(event)
    assert withhold_private(once) == once
    wordy = {"text", "data", "origin", "old_state", "new_state"}
    same = [name for name in Event.__struct_fields__ if name not in wordy]
    assert [getattr(once, name) for name in same] == [getattr(event, name) for name in same]
    if once.origin is not None and event.origin is not None:
        assert once.origin.rest is None
        assert [getattr(once.origin, name) for name in ("dialect", "n", "log")] == [
            getattr(event.origin, name) for name in ("dialect", "n", "log")
        ]


GOAL = "00000000-0000-4000-8000-000000000000"
USAGE = {"turns": 1, "wall_time": "1s", "tokens": 5, "consecutive_denies": 0}
FAILURE = {"criterion_index": 0, "criterion_label": "tests", "message": "exit 1", "evidence": "assert f(1) == 2"}
VERDICT = {"met": False, "failures": [FAILURE], "evaluated_at": "2026-11-15T20:00:00Z", "elapsed_ms": 3}
DECISION = {
    "id": GOAL, "goal_id": GOAL, "turn_index": 1, "tool": "Edit", "input": {"file_path": "a.py", "new_string": "x = 1"},
    "choice": {"kind": "allow"}, "rationale": "the test wants x", "decided_at": "2026-11-15T20:00:00Z",
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "data", "left"),
    [
        ("prompt.submitted", {"prompt": "fix it", "images": 2}, {"prompt": "[withheld: 6 bytes]", "images": 2}),
        ("agent.launched", {"prompt": "look", "role": "scout"}, {"prompt": "[withheld: 4 bytes]", "role": "scout"}),
        ("agent.returned", {"result": {"a": 1}, "tokens": 9}, {"result": "[withheld: 7 bytes]", "tokens": 9}),
        ("session.compacted", {"summary": "we did", "before_tokens": 9}, {"summary": "[withheld: 6 bytes]", "before_tokens": 9}),
        (
            "tool.called",
            {"tool": "Edit", "call_id": "c1", "input": {"file_path": "/a/b.py", "old_string": "x", "new_string": "y"}, "cwd": "/a"},
            {"tool": "Edit", "call_id": "c1", "input": {"file_path": "/a/b.py", "withheld": "[withheld: 35 bytes]"}, "cwd": "/a"},
        ),
        ("tool.called", {"tool": "Read", "input": {"file_path": "a.py"}}, {"tool": "Read", "input": {"file_path": "a.py"}}),
        (
            "tool.returned",
            {"tool": "Bash", "output": "1 passed", "exit_code": 0, "paths": ["a.py"], "duration_ms": 5},
            {"tool": "Bash", "output": "[withheld: 8 bytes]", "exit_code": 0, "paths": ["a.py"], "duration_ms": 5},
        ),
        ("tool.failed", {"tool": "Bash", "error": "no x in y"}, {"tool": "Bash", "error": "[withheld: 9 bytes]"}),
        ("process.started", {"command": ["sh", "-c", "x"], "pid": 7}, {"command": "[withheld: 15 bytes]", "pid": 7}),
        ("audit.mismatch", {"missing": [{"a": 1}, "b"]}, {"missing": [{"withheld": "[withheld: 7 bytes]"}, "[withheld: 1 byte]"]}),
        ("ui.controls", {"controls": [{"x": 1}], "state": {}}, {"controls": [{"withheld": "[withheld: 7 bytes]"}], "state": {}}),
        ("control.requested", {"action": "raise", "value": 50}, {"action": "raise", "value": 50}),
        ("control.requested", {"action": "say", "value": "go on"}, {"action": "say", "value": "[withheld: 5 bytes]"}),
        ("model.replied", {"model": "m", "input": 3, "output": 4}, {"model": "m", "input": 3, "output": 4}),
        ("agent.spoke", {"thought": "a lie", "mood": "sly"}, {"thought": "[withheld: 5 bytes]", "mood": "sly"}),
        ("log.rejected", {"reason": "not JSON", "sample": "{x"}, {"reason": "[withheld: 8 bytes]", "sample": "[withheld: 2 bytes]"}),
        ("node.failed", {"node": "n", "error": "no x in y"}, {"node": "n", "error": "[withheld: 9 bytes]"}),
        ("model.failed", {"model": "m", "error": "no x", "status": 500}, {"model": "m", "error": "[withheld: 4 bytes]", "status": 500}),
        ("session.started", {"extra": {"prompt": "up", "n": 1}}, {"extra": {"prompt": "[withheld: 2 bytes]", "n": 1}}),
        ("session.started", {"source": "resume", "title": "fix it"}, {"source": "resume", "title": "fix it"}),
        (
            "tool.called",
            {"tool": "Bash", "hook": {"input": {"a": 1}, "output": "x", "id": "h-1"}},
            {"tool": "Bash", "hook": {"input": "[withheld: 7 bytes]", "output": "[withheld: 1 byte]", "id": "h-1"}},
        ),
        (
            "tool.called",
            {"tool": "Read", "input": {"path": "please fix it", "file": "/a b/c d", "file_path": "my notes.md", "cwd": "/go on and on"}},
            {"tool": "Read", "input": {"file": "/a b/c d", "file_path": "my notes.md", "withheld": "[withheld: 46 bytes]"}},
        ),
        (
            "run.started",
            {"cast": {"ada": {"model": "m-1", "prompt": "be"}, "bob": "m-2"}},
            {"cast": {"ada": {"model": "m-1", "prompt": "[withheld: 2 bytes]"}, "bob": "m-2"}},
        ),
        ("judge.verdict", {"reveal": [{"thought": "lie", "n": 1}]}, {"reveal": [{"thought": "[withheld: 3 bytes]", "n": 1}]}),
        (
            "work.updated",
            {"field": "state", "old": {"content": "x"}, "new": "to do"},
            {"field": "state", "old": {"content": "[withheld: 1 byte]"}, "new": "[withheld: 5 bytes]"},
        ),
        ("fleet.commit", {"sha": "0a1b", "diff": "+x", "n": 1}, {"sha": "0a1b", "diff": "[withheld: 2 bytes]", "n": 1}),
        ("town.task_completed", {"result": "done so"}, {"result": "[withheld: 7 bytes]"}),
        ("acme.rocket", {"stage": "one", "log": "a\nb"}, {"stage": "one", "log": "[withheld: 3 bytes]"}),
        ("acme.rocket", {"deep": [{"prompt": "up", "n": 1}]}, {"deep": [{"prompt": "[withheld: 2 bytes]", "n": 1}]}),
        ("acme.rocket", {"y" * 201: 1}, {"[withheld: 201 bytes]": 1}),
        (
            "driver.decision",
            {"decision": DECISION},
            {"decision": DECISION | {
                "input": {"file_path": "a.py", "withheld": "[withheld: 22 bytes]"}, "rationale": "[withheld: 16 bytes]"}},
        ),
        (
            "driver.acceptance",
            {"goal_id": GOAL, "verdict": VERDICT},
            {"goal_id": GOAL, "verdict": VERDICT | {
                "failures": [FAILURE | {"message": "[withheld: 6 bytes]", "evidence": "[withheld: 16 bytes]"}]}},
        ),
        (
            "driver.progress",
            {"goal_id": GOAL, "turn_index": 1, "usage": USAGE, "last_text": "I see"},
            {"goal_id": GOAL, "turn_index": 1, "usage": USAGE, "last_text": "[withheld: 5 bytes]"},
        ),
    ],
)  # fmt: skip
def test_prompts_and_code_stay_and_the_action_goes(kind: str, data: dict[str, Any], left: dict[str, Any]) -> None:
    assert withhold_private(Event(kind=kind, actor="ada", data=data)).data == left


@pytest.mark.parametrize(
    "kind", ["prompt.submitted", "agent.thought", "agent.reflected", "user.injected", "model.replied", "session.turn_ended", "log.rejected"]
)
def test_a_text_that_is_itself_the_prompt_or_the_thought_stays(kind: str) -> None:
    assert withhold_private(Event(kind=kind, actor="ada", text="fix the parser")).text == "[withheld: 14 bytes]"


def test_why_a_tool_was_denied_stays() -> None:
    denied = DECISION | {"choice": {"kind": "deny", "message": "not rm"}}
    left = withhold_private(Event(kind="driver.decision", actor="ada", data={"decision": denied}))
    assert left.data["decision"]["choice"] == {"kind": "deny", "message": "[withheld: 6 bytes]"}


@pytest.mark.parametrize(
    "name",
    [
        "prompt", "Prompt", "userPrompt", "user_prompt", "tool-responses", "old_string", "toolUseResult", "lastAssistantMessage",
        "cmd", "argv", "queries", "replies", "patches", "params", "args", "stackTrace", "rawPayload", "reasoning_content", "file_text",
        "systemprompt", "SQL",
    ],
)  # fmt: skip
def test_a_name_shows_by_any_of_its_words_that_it_holds_words(name: str) -> None:
    left = withhold_private(Event(kind="acme.rocket", actor="ada", data={"deep": [{name: "x"}], name: {"y": 1}}))
    assert left.data == {"deep": [{name: "[withheld: 1 byte]"}], name: "[withheld: 7 bytes]"}
    assert withhold_private(Event(kind="acme.rocket", actor="ada", data={name: 7})).data == {name: 7}


@pytest.mark.parametrize(
    "value",
    [
        "ada", "feature/parser", "/home/ada/a.py", "~/x", "0a1b2c", "2026-11-15T20:00:00+01:00", "2026-11-15 20:00:00", "https://acme.org/x/7",
        "ada@acme.org", "c++", "50%", "#42", "-1.5", "", "Jürgen", "01a1e1b1-9c69-7ea7-8a38-44a289080fac",
    ],
)  # fmt: skip
def test_in_data_that_nobody_has_described_names_go(value: str) -> None:
    event = Event(kind="acme.rocket", actor="ada", data={"a": value, "b": [value], value: True})
    assert withhold_private(event) is event


@pytest.mark.parametrize(
    "value",
    [
        "fix it", "a\tb", "print('x')", "x=1", "fix%20it%20now", "fix+it+now", "https://acme.org/?q=fix", '{"prompt":1}', "x" * 65,
        "a/" * 101,
        "修复解析器", "x\u2028y", "a;b", "$HOME",
    ],
)  # fmt: skip
def test_in_data_that_nobody_has_described_words_stay(value: str) -> None:
    left = withhold_private(Event(kind="acme.rocket", actor="ada", data={"a": value, "b": [value], value: True}))
    assert value not in str(left.data)
    assert set(left.data) - {"a", "b"} == {left.data["a"]}
    nested = withhold_private(Event(kind="session.started", actor="ada", data={"beside": {"deep": value}}))
    assert nested.data == {"beside": {"deep": left.data["a"]}}


def test_a_private_event_keeps_its_words_to_itself() -> None:
    left = withhold_private(Event(kind="acme.dreamt", actor="ada", text="of sheep", visibility="private", data={"of": "sheep", "n": 3}))
    assert (left.text, left.data) == ("[withheld: 8 bytes]", {"withheld": "[withheld: 20 bytes]"})


def test_a_private_event_of_a_known_kind_keeps_names_states_and_reasons_too() -> None:
    left = withhold_private(
        Event(
            kind="tool.called", actor="ada", visibility="private", old_state="calm", new_state="sly",
            data={"tool": "Bash", "input": {"path": "a.py"}, "turn": 3, "mood": "sly"},
        )
    )  # fmt: skip
    assert left.data == {
        "tool": "[withheld: 4 bytes]",
        "input": {"withheld": "[withheld: 15 bytes]"},
        "turn": 3,
        "withheld": "[withheld: 14 bytes]",
    }
    assert (left.old_state, left.new_state) == ("[withheld: 4 bytes]", "[withheld: 3 bytes]")


@pytest.mark.parametrize(
    "text",
    [
        "make test",
        "make te…",
        "`make test`",
        "make  test",
        "make lint",
        "Bash: make test",
        "MAKE TEST",
        "runs make test && make lint",
        "m…",
    ],
)
def test_a_line_that_repeats_what_stays_is_left_out(text: str) -> None:
    data = {"tool": "Bash", "input": {"command": "make test\nmake lint"}}
    assert withhold_private(Event(kind="tool.called", actor="ada", text=text, data=data)).text is None


def test_the_line_for_people_goes_unless_it_quotes_what_stays() -> None:
    data = {"tool": "Bash", "input": {"command": "make test\nmake lint"}}
    assert withhold_private(Event(kind="tool.called", actor="ada", text="runs the tests", data=data)).text == "runs the tests"
    described = Event(kind="fleet.commit", actor="ada", text="the parser reads", data={"detail": "the parser reads"})
    assert withhold_private(described).text == "the parser reads"


def test_the_foreign_rest_goes_with_the_words_and_all_is_counted() -> None:
    event = Event(
        kind="prompt.submitted", actor="ada", text="fix", data={"prompt": "fix"}, origin=Origin(dialect="x", rest={"p": "fix"}, redacted=1)
    )
    assert withhold_private(event).origin == Origin(dialect="x", redacted=4)
    harmless = Event(kind="fleet.idle", actor="ada", origin=Origin(dialect="x", rest={"cycle": 3}))
    assert withhold_private(harmless).origin == Origin(dialect="x", redacted=1)


def test_an_origin_keeps_where_it_was_found_and_no_words() -> None:
    cuts = (Cut(path="$.data.a[0].b", bytes=1, sha256="0"), Cut(path="$.data.fix it", bytes=1, sha256="0"))
    named = Origin(dialect="x", source="/var/log/x.jsonl", n=3, id="7", at="2026-11-15 20:00:00", cut=cuts[:1])
    event = Event(kind="fleet.idle", actor="ada", origin=named)
    assert withhold_private(event) is event
    worded = Origin(dialect="x", source="fix it", n=3, id="fix it", at="one fine day", cut=cuts)
    left = withhold_private(Event(kind="fleet.idle", actor="ada", origin=worded)).origin
    assert left is not None
    assert (left.source, left.id, left.at, left.n) == ("[withheld: 6 bytes]", "[withheld: 6 bytes]", "[withheld: 12 bytes]", 3)
    assert [cut.path for cut in left.cut] == ["$.data.a[0].b", "[withheld: 13 bytes]"]
    assert left.redacted == 4
