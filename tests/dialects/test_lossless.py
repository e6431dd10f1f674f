"""Whatever becomes of an event in the log, writing it again gives good JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from fleetlore.dialects import nexus, wire
from fleetlore.dialects.base import apply_difference, compute_difference
from fleetlore.dialects.fields import EPOCH
from fleetlore.dialects.registry import NAMES, find_dialect
from fleetlore.events.envelope import Event

LINE = b'{"agent": "ada", "kind": "error", "detail": "token sk-1 is bad", "x": {"token": "sk-1"}, "metadata": {"n": 1.50, "s": "\\udc00"}}'


def error() -> tuple[Event, dict[str, Any]]:
    """An event with every kind of rest, and that rest."""
    event = nexus.DIALECT.decode(LINE)
    assert event.origin is not None
    return event, event.origin.rest


def with_rest(event: Event, rest: Any) -> Event:
    assert event.origin is not None
    return replace(event, origin=replace(event.origin, rest=rest))


def test_only_what_cannot_be_said_otherwise_is_kept() -> None:
    _, rest = error()
    assert rest == {
        "keys": ["agent", "kind", "detail", "x", "metadata"],
        "values": {"x": {"token": "sk-1"}},
        "spellings": {"/metadata/n": "1.50", "/metadata/s": '"\\udc00"'},
    }


def test_a_secret_taken_out_later_stays_out() -> None:
    event, rest = error()
    clean = with_rest(
        replace(event, text="token *** is bad", data={"n": 1.5, "s": "***"}),
        {**rest, "values": {"x": {"token": "***"}}},
    )
    assert nexus.DIALECT.encode(clean) == (
        b'{"agent": "ada", "kind": "error", "detail": "token *** is bad", "x": {"token": "***"}, "metadata": {"n": 1.50, "s": "***"}}'
    )


@pytest.mark.parametrize(
    "rest",
    [
        None,
        "***",
        7,
        [],
        {},
        {"keys": "***"},
        {"keys": [1, None, "kind", "gone"]},
        {"keys": [], "values": []},
        {"values": {"kind": None}, "inner": {"metadata": "***", "kind": {"keys": []}}},
        {"inner": {"metadata": {"keys": ["n", "m"], "values": {"m": 1}}}},
        {"spellings": "***"},
        {"spellings": {"/metadata/n": "***", "/metadata/s": "***"}},
        {"spellings": {"/metadata/n": "2.50", "/metadata/s": '"other"', "/kind": "1", "/detail": 5, "/metadata": "1"}},
        {"spellings": {"/metadata/n": '1.5, "more": 1', "/metadata/s": '"\\udc00", "more": 1'}},
    ],
)
def test_a_damaged_rest_is_left_aside(rest: Any) -> None:
    event, _ = error()
    raw = nexus.DIALECT.encode(with_rest(event, rest))
    assert raw is not None
    assert "more" not in json.loads(raw)


@pytest.mark.parametrize("at", ["", "***", "true", "NaN", "[1]", "1e400", "[" * 9999, '"5"', "9" * 5000])
def test_a_damaged_time_is_left_aside(at: str) -> None:
    event = nexus.DIALECT.decode(b'{"kind": "idle", "agent": "ada", "timestamp": 5}')
    assert event.origin is not None
    raw = nexus.DIALECT.encode(replace(event, origin=replace(event.origin, at=at)))
    assert raw == b'{"kind": "idle", "agent": "ada", "timestamp": 5.0}'


def test_half_a_surrogate_pair_in_a_native_event_is_escaped() -> None:
    for name in NAMES[:2]:
        event = Event(at=EPOCH, kind="town.mission_event" if name == "tinytown" else "fleet.idle", actor="a", text="\ud800")
        assert b"\\ud800" in (find_dialect(name).encode(event) or b"")


@pytest.mark.parametrize(
    ("written", "record", "rest"),
    [
        ({"a": 1}, {"a": 1}, None),
        ({"a": 1}, {"a": 1.0}, {"values": {"a": 1.0}}),
        ({"a": 1}, {"a": True}, {"values": {"a": True}}),
        ({"a": 0.0}, {"a": -0.0}, {"values": {"a": -0.0}}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"keys": ["b", "a"]}),
        ({"a": 1}, {}, {"keys": []}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2, "b": 1}}, {"inner": {"a": {"keys": ["c", "b"]}}}),
        ({"a": {"b": 1}}, {"a": [{"b": 1}]}, {"values": {"a": [{"b": 1}]}}),
        ({"a": [{"b": 1, "c": 2}]}, {"a": [{"c": 2, "b": 1}]}, {"values": {"a": [{"c": 2, "b": 1}]}}),
        ({}, {"keys": 1, "values": 2, "inner": 3}, {"keys": ["keys", "values", "inner"], "values": {"keys": 1, "values": 2, "inner": 3}}),
    ],
)
def test_a_difference_is_small_and_applies_again(written: dict[str, Any], record: dict[str, Any], rest: dict[str, Any] | None) -> None:
    assert compute_difference(written, record) == rest
    assert json.dumps(apply_difference(written, rest or {})) == json.dumps(record)


@pytest.mark.parametrize(
    "number", ["1e400", "-1e400", "1.50", "1E5", "-0", "0.10", "1e-400", "9" * 700, "1e16", "1e+16", "1e-05", "0.00001"]
)
@pytest.mark.parametrize("style", [wire.PYTHON, wire.COMPACT])
def test_a_number_is_written_as_it_was_spelt(number: str, style: wire.JsonStyle) -> None:
    raw = f'{{"a"{style.colon}[{number}{style.comma}{{"b/~c"{style.colon}{number}}}]}}'.encode()
    record, spellings = wire.parse_record_with_spellings(raw, style)
    assert wire.write_record(record, style, spellings) == raw
