"""An event is the same after a trip through its JSON, and nothing but an event comes out of other bytes."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleetlore.errors import InvalidEvent
from fleetlore.events import catalog, codec
from fleetlore.events.envelope import Event
from tests.strategies import events

SAMPLE = Event(id="01890000-0000-7000-8000-000000000000", at=datetime(2026, 11, 15, 20, 23, 12, tzinfo=UTC), kind="x.happened", actor="ada")
FIELDS = [name for name in Event.__struct_fields__ if name != "position"]


@given(events())
@example(SAMPLE)
def test_an_event_comes_back_as_it_was(event: Event) -> None:
    assert codec.decode_event(codec.encode_event(event)) == event
    assert codec.from_builtins(codec.to_builtins(event)) == event


@given(events())
@example(SAMPLE)
def test_the_canonical_json_is_stable(event: Event) -> None:
    raw = codec.encode_event(event)
    assert codec.encode_event(codec.decode_event(raw)) == raw


@given(events())
@example(SAMPLE)
def test_fields_stand_in_order_and_time_has_six_digits(event: Event) -> None:
    record: dict[str, Any] = json.loads(codec.encode_event(event))
    assert list(record) == sorted(record, key=FIELDS.index)
    assert event.at is not None
    assert record["at"] == event.at.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def test_absent_fields_are_omitted() -> None:
    assert codec.encode_event(SAMPLE) == (
        b'{"id":"01890000-0000-7000-8000-000000000000","at":"2026-11-15T20:23:12.000000Z","kind":"x.happened","actor":"ada","v":1}'
    )


@given(st.binary(max_size=200))
@example(b"null")
@example(b"[]")
@example(b'{"kind":1}')
@example(b'{"kind":"a.b","data":[]}')
@example(b'{"kind":"a.b","surprise":1}')
@example(b'{"kind":"a.b","at":"yesterday"}')
@example(b'{"v":1e400}')
@example(b'{"data":' + b"[" * 100_000)
@example(b'{"kind":"\xff.b"}')
def test_other_bytes_are_refused_with_one_error(raw: bytes) -> None:
    with pytest.raises(InvalidEvent):
        codec.decode_event(raw)


@given(events(), st.data())
def test_a_damaged_record_is_an_event_or_refused(event: Event, data: st.DataObject) -> None:
    raw = codec.encode_event(event)
    start = data.draw(st.integers(0, len(raw)))
    damaged = raw[:start] + data.draw(st.binary(max_size=4)) + raw[start + data.draw(st.integers(0, 4)) :]
    with suppress(InvalidEvent):
        codec.decode_event(damaged)


def test_an_older_record_is_lifted_to_the_present_version() -> None:
    def from_version_0(record: dict[str, Any]) -> dict[str, Any]:
        return {"actor": record.pop("who"), **record}

    old = b'{"kind":"x.happened","who":"ada","v":0}'
    assert codec.decode_event(old, upcasters={0: from_version_0}) == Event(kind="x.happened", actor="ada")
    with pytest.raises(InvalidEvent) as refused:
        codec.decode_event(old)
    assert refused.value.path == "$.v"


@pytest.mark.parametrize("version", [2, 999, -1, "1", None, 1.5])
def test_a_version_from_the_future_is_refused_with_its_path(version: object) -> None:
    with pytest.raises(InvalidEvent) as refused:
        codec.decode_event(json.dumps({"kind": "x.happened", "v": version}))
    assert refused.value.path == "$.v"


@pytest.mark.parametrize("position", ["00000000000000000001", 7, None, {}, [1], True])
def test_a_position_is_ignored_on_input_and_never_written(position: object) -> None:
    event = codec.decode_event(json.dumps({"kind": "x.happened", "position": position}))
    assert event == Event(kind="x.happened")
    assert b"position" not in codec.encode_event(Event(kind="x.happened", position="00000000000000000001"))


def test_programs_are_given_the_position_last() -> None:
    raw = codec.encode_with_position(Event(kind="x.happened", position="00000000000000000001"))
    assert raw == b'{"kind":"x.happened","v":1,"position":"00000000000000000001"}'


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b'{"kind":"a.b","data":[]}', "$.data"),
        (b'{"kind":"a.b","visibility":"secret"}', "$.visibility"),
        (b'{"kind":"a.b","origin":{"dialect":"nexus","n":"one"}}', "$.origin.n"),
        (b'{"actor":"ada"}', "$"),
    ],
)
def test_a_misfit_of_the_envelope_is_named_by_its_path(raw: bytes, path: str) -> None:
    with pytest.raises(InvalidEvent) as refused:
        codec.decode_event(raw)
    assert refused.value.path == path


@pytest.mark.parametrize(
    ("kind", "data", "path"),
    [
        ("tool.called", {}, "$.data"),
        ("tool.called", {"tool": 7}, "$.data.tool"),
        ("model.replied", {"usd": "much"}, "$.data.usd"),
        ("run.started", {"turn": "first"}, "$.data.turn"),
        ("driver.escalate", {"goal_id": "g1", "reason": "x"}, "$.data.goal_id"),
    ],
)
def test_a_misfit_payload_is_refused_with_its_path(kind: str, data: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidEvent) as refused:
        catalog.check_payload(kind, data)
    assert refused.value.path == path
    assert kind in refused.value.reason


@given(events())
def test_every_valid_event_has_fitting_data(event: Event) -> None:
    catalog.check_payload(event.kind, event.data)
