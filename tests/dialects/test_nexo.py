"""The events of a goal driver."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from fleetlore.dialects.nexo import DIALECT, SUBJECT_BY_KIND, nats_subject
from fleetlore.errors import DialectError, Invalid
from fleetlore.events import catalog, codec
from fleetlore.events.envelope import Event
from tests.dialects import golden

GOAL = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"


def first(kind: str) -> Event:
    """The first golden record of a kind."""
    return next(event for line in golden.lines("nexo") if (event := DIALECT.decode(line)).kind == f"driver.{kind}")


def test_a_started_goal_carries_its_words_and_its_id() -> None:
    event = first("goal_started")
    assert (event.actor, event.goal, event.text) == ("nexo", GOAL, "Make the tests pass")
    assert event.data["goal"]["budget"]["max_wall_time"] == "4h"
    assert list(event.data) == ["goal"]


@pytest.mark.parametrize("kind", SUBJECT_BY_KIND)
def test_the_goal_is_found_wherever_it_is_nested(kind: str) -> None:
    assert first(kind).goal in (GOAL, "00000000-0000-0000-0000-000000000000")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("escalate", "x"),
        ("decision", "only looks"),
        ("replay_decision", "session invalid: retrying"),
        ("compact_requested", "keep the plan"),
        ("goal_completed", "All green."),
        ("attempt_completed", "Done."),
        ("progress", "Half way – weiter so"),
        ("extract_memories_skipped", "throttled"),
        ("compact_completed", None),
    ],
)
def test_an_event_says_in_words_what_the_record_says_in_words(kind: str, text: str | None) -> None:
    assert first(kind).text == text


def test_decisions_and_verdicts_know_their_time_and_the_others_do_not() -> None:
    assert first("decision").at == datetime(2026, 5, 4, 12, 0, 1, 123_456, tzinfo=UTC)
    assert first("acceptance").at == datetime(2026, 5, 4, 12, 0, 4, 123_456, tzinfo=UTC)
    assert first("progress").at is None


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("goal_started", "agent.driver.goal.started"),
        ("goal_completed", "agent.driver.goal.completed"),
        ("attempt_started", "agent.driver.attempt.started"),
        ("attempt_completed", "agent.driver.attempt.completed"),
        ("decision", "agent.driver.decision"),
        ("acceptance", "agent.driver.acceptance"),
        ("budget_exhausted", "agent.driver.budget.exhausted"),
        ("escalate", "agent.driver.escalate"),
        ("replay_decision", "agent.driver.replay"),
        ("compact_requested", "agent.driver.compact"),
        ("compact_completed", "agent.driver.compact.completed"),
        ("compact_summary_stored", "agent.driver.compact.summary_stored"),
        ("extract_memories_completed", "agent.driver.extract_memories.completed"),
        ("extract_memories_skipped", "agent.driver.extract_memories.skipped"),
        ("auto_dream_outcome", "agent.driver.auto_dream"),
        ("progress", "agent.driver.progress"),
    ],
)
def test_every_kind_has_its_subject(kind: str, name: str) -> None:
    assert nats_subject(first(kind)) == name


@pytest.mark.parametrize("kind", ["driver.danced", "fleet.idle", "escalate.escalate"])
def test_nothing_else_has_a_subject(kind: str) -> None:
    with pytest.raises(Invalid, match="no subject"):
        nats_subject(Event(kind=kind))


@pytest.mark.parametrize("line", [line for line in golden.lines("nexo") if b'"seq":7' not in line and b"90min" not in line])
def test_a_native_event_is_written_in_the_wire_s_own_order(line: bytes) -> None:
    event = DIALECT.decode(line)
    scrambled = replace(event, origin=None, data=_turned(event.data) | {"surprise": 1})
    assert DIALECT.encode(scrambled) == line


def _turned(value: Any) -> Any:
    """The same value with the keys of every object in reverse order, those of free-form maps excepted."""
    if isinstance(value, list):
        return [_turned(inner) for inner in value]
    if isinstance(value, dict):
        free = ("metadata", "harness_extras", "input", "args")
        return {key: inner if key in free else _turned(inner) for key, inner in reversed(value.items())}
    return value


def test_defaults_that_the_wire_always_writes_are_filled_in_for_native_events_only() -> None:
    thin = golden.lines("nexo")[-2]
    event = DIALECT.decode(thin)
    assert DIALECT.encode(event) == thin
    record = json.loads(DIALECT.encode(replace(event, origin=None)) or b"")
    assert record["usage"]["consecutive_errors"] == record["usage"]["consecutive_413"] == 0
    assert record["last_text"] is None


# --- turns


def wire(event: Event) -> dict[str, Any]:
    """The record of an event of ours."""
    record: dict[str, Any] = json.loads(DIALECT.encode(replace(event, origin=None)) or b"null")
    return record


def test_where_the_format_counts_from_nought_the_log_counts_from_one() -> None:
    started, completed = first("attempt_started"), first("attempt_completed")
    assert (started.data["turn_index"], completed.data["result"]["turn_index"]) == (1, 1)
    assert first("decision").data["decision"]["turn_index"] == 2
    assert (wire(started)["turn_index"], wire(completed)["result"]["turn_index"]) == (0, 0)
    assert wire(first("decision"))["decision"]["turn_index"] == 1


def test_decisions_inside_a_turn_are_counted_as_the_turn_is() -> None:
    events = (DIALECT.decode(line) for line in golden.lines("nexo"))
    event = next(event for event in events if event.data.get("result", {}).get("decisions_recorded"))
    result = event.data["result"]
    assert (result["turn_index"], result["decisions_recorded"][0]["turn_index"]) == (2, 2)
    assert wire(event)["result"]["decisions_recorded"][0]["turn_index"] == 1


@pytest.mark.parametrize("kind", ["replay_decision", "compact_requested", "compact_completed", "compact_summary_stored", "progress"])
def test_where_the_format_counts_from_one_nothing_is_shifted(kind: str) -> None:
    event = first(kind)
    assert event.data["turn_index"] == wire(event)["turn_index"] == json.loads(DIALECT.encode(event) or b"")["turn_index"]


LAST = 2**32 - 1
STARTED = next(line for line in golden.lines("nexo") if b'"attempt_started"' in line)
RETRIED = next(line for line in golden.lines("nexo") if b"rm -rf build" in line)


@pytest.mark.parametrize(
    "line", [STARTED.replace(b'"turn_index":0', b'"turn_index":%d'), RETRIED.replace(b'"turn_index":1', b'"turn_index":%d')]
)
@pytest.mark.parametrize("turn", [0, 1, LAST - 1, LAST])
def test_every_turn_that_the_format_can_count_comes_back_and_fits_the_log(line: bytes, turn: int) -> None:
    raw = line.replace(b"%d", str(turn).encode())
    event = DIALECT.decode(raw)
    catalog.check_payload(event.kind, event.data)
    assert DIALECT.encode(codec.decode_event(codec.encode_event(event))) == raw


@pytest.mark.parametrize(("ours", "theirs"), [(1, 0), (2, 1), (LAST, LAST - 1)])
def test_every_turn_of_ours_fits_the_format(ours: int, theirs: int) -> None:
    event = first("attempt_started")
    assert wire(replace(event, data=event.data | {"turn_index": ours}))["turn_index"] == theirs


@pytest.mark.parametrize("turn", [None, "***", True, 1.5, [1]])
def test_a_turn_that_was_damaged_since_is_left_as_it_is(turn: Any) -> None:
    event = first("attempt_started")
    assert json.loads(DIALECT.encode(replace(event, data=event.data | {"turn_index": turn})) or b"")["turn_index"] == turn


def test_money_is_reported_as_tokens_wherever_an_axis_stands() -> None:
    spent = first("budget_exhausted")
    done, ended = first("attempt_completed"), first("goal_completed")
    outcome = {"kind": "budget_exhausted", "axis": "usd"}
    assert wire(replace(spent, data=spent.data | {"axis": "usd"}))["axis"] == "tokens"
    result = done.data["result"] | {"outcome": outcome}
    assert wire(replace(done, data={"result": result}))["result"]["outcome"] == {"kind": "budget_exhausted", "axis": "tokens"}
    whole = ended.data["outcome"] | {"outcome": outcome}
    assert wire(replace(ended, data={"outcome": whole}))["outcome"]["outcome"]["axis"] == "tokens"
    assert result["outcome"]["axis"] == "usd"  # what is in the log stays as it is


def test_what_came_from_elsewhere_is_written_as_it_came() -> None:
    line = next(line for line in golden.lines("nexo") if b'"axis":"turns"' in line).replace(b'"axis":"turns"', b'"axis":"usd"')
    assert DIALECT.encode(DIALECT.decode(line)) == line


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"{}", "$.kind"),
        (b'{"kind":"danced"}', "$.kind"),
        (b'{"kind":"escalate","goal_id":"g1","reason":"x"}', "$.goal_id"),
        (b'{"kind":"escalate","goal_id":"00000000-0000-0000-0000-000000000000"}', "$"),
        (b'{"kind":"goal_started","goal":{"id":"00000000-0000-0000-0000-000000000000"}}', "$.goal"),
        (b'{"kind":"budget_exhausted","goal_id":"00000000-0000-0000-0000-000000000000","axis":"consecutive_413","usage":{}}', "$.axis"),
    ],
)
def test_a_misfit_is_refused_with_its_path(raw: bytes, path: str) -> None:
    with pytest.raises(DialectError) as refused:
        DIALECT.decode(raw)
    assert refused.value.path == path


@pytest.mark.parametrize(("kind", "data"), [("driver.escalate", {}), ("driver.danced", {}), ("fleet.idle", {})])
def test_a_native_event_that_the_driver_has_no_shape_for_cannot_be_said(kind: str, data: dict[str, Any]) -> None:
    assert DIALECT.encode(Event(kind=kind, data=data)) is None
