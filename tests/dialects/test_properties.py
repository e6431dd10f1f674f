"""Any bytes are an event or refused; any event that a dialect can say comes back with the same meaning."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleetlore.dialects import nexus, tinytown
from fleetlore.dialects.base import Dialect
from fleetlore.dialects.cloudevents import make_kind_from_type
from fleetlore.dialects.registry import NAMES, find_dialect
from fleetlore.dialects.tinytown import derive_town_uuid
from fleetlore.errors import DialectError
from fleetlore.events import catalog, codec
from fleetlore.events.envelope import Event
from tests.dialects import golden
from tests.strategies import events, json_objects, json_values, names, texts

every_dialect = pytest.mark.parametrize("dialect", [find_dialect(name) for name in NAMES], ids=NAMES)


ODD = st.text(max_size=5) | st.sampled_from(
    ["\ud800", "x" * 300, "", "2026-06-01T10:00:00Z", "0b7d4d0e-3f61-4f0e-9c53-5a8a3c1f2e01", 10**700]
)
WILD = json_values() | ODD | st.dictionaries(texts(3), ODD, max_size=2)
"""JSON values with what parsers stumble over: half surrogate pairs, huge numbers, tempting texts."""
EXTRA = st.dictionaries(texts(6), WILD, max_size=2)


@st.composite
def bent_records(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """A golden record with keys dropped, added, replaced and shuffled."""
    record: dict[str, Any] = json.loads(draw(st.sampled_from(golden.lines(name))))
    keys = st.sampled_from(["nothing", "nothing else", *record])
    record.pop(draw(keys), None)
    if (key := draw(keys)) in record:
        record[key] = draw(WILD)
    record |= draw(EXTRA)
    order = sorted(record) if draw(st.booleans()) else list(record)
    return {key: record[key] for key in order}


def decode_or_refuse(dialect: Dialect, raw: bytes) -> Event | None:
    """The event, or `None` for one that is refused as it should be; any other exception is a failure."""
    refused: DialectError | None = None
    try:
        return dialect.decode(raw)
    except DialectError as error:
        refused = error
    assert refused.path.startswith("$")
    assert refused.reason
    return None


def as_the_source_writes(dialect: Dialect, record: dict[str, Any]) -> bytes:
    if dialect.name == "nexus":
        return json.dumps(record).encode()
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    if dialect.name == "beads":  # as Go does
        text = "".join(f"\\u{ord(character):04x}" if character in "<>&\u2028\u2029" else character for character in text)
    return text.encode("utf-8", "backslashreplace")


@every_dialect
@given(raw=st.binary(max_size=100) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_arbitrary_bytes_are_an_event_or_refused(dialect: Dialect, raw: bytes) -> None:
    decode_or_refuse(dialect, raw)


@every_dialect
@given(record=json_objects() | st.dictionaries(st.sampled_from(["kind", "type", "id", "agent", "data", "payload"]), WILD))
def test_arbitrary_objects_are_an_event_or_refused(dialect: Dialect, record: dict[str, Any]) -> None:
    decode_or_refuse(dialect, as_the_source_writes(dialect, record))


@every_dialect
@given(data=st.data())
def test_damaged_lines_are_an_event_or_refused(dialect: Dialect, data: st.DataObject) -> None:
    line = data.draw(st.sampled_from(golden.lines(dialect.name)))
    start = data.draw(st.integers(0, len(line)))
    damaged = line[:start] + data.draw(st.binary(max_size=3)) + line[start + data.draw(st.integers(0, 3)) :]
    event = decode_or_refuse(dialect, damaged)
    if event is not None:
        assert isinstance(json.loads(dialect.encode(event) or b""), dict)


@every_dialect
@given(data=st.data())
def test_whatever_is_read_is_written_again_byte_for_byte(dialect: Dialect, data: st.DataObject) -> None:
    raw = as_the_source_writes(dialect, data.draw(bent_records(dialect.name)))
    event = decode_or_refuse(dialect, raw)
    if event is not None:
        assert dialect.encode(event) == raw
        assert dialect.encode(codec.decode_event(codec.encode_event(event))) == raw


@every_dialect
@given(data=st.data())
def test_other_formatting_keeps_values_and_key_order(dialect: Dialect, data: st.DataObject) -> None:
    record = data.draw(bent_records(dialect.name))
    event = decode_or_refuse(dialect, json.dumps(record, indent=1).encode())
    if event is not None:
        assert json.dumps(json.loads(dialect.encode(event) or b"")) == json.dumps(record)


@every_dialect
@given(event=events())
def test_any_event_whatever_its_origin_is_written_as_json_or_not_at_all(dialect: Dialect, event: Event) -> None:
    raw = dialect.encode(event)
    assert raw is None or isinstance(json.loads(raw), dict)


@given(event=events(), kind=st.sampled_from(sorted(nexus.KINDS)))
def test_a_native_action_of_the_fleet_comes_back_with_the_same_meaning(event: Event, kind: str) -> None:
    native = replace(event, kind=f"fleet.{kind}", origin=None)
    again = nexus.DIALECT.decode(nexus.DIALECT.encode(native) or b"")
    assert (again.kind, again.agent, again.text) == (native.kind, native.agent or native.actor, native.text or None)
    assert again.data == native.data
    assert native.at is not None
    assert again.at is not None
    # Seconds since 1970 have no room for microseconds in far centuries.
    assert abs((again.at - native.at).total_seconds()) < 1e-4


@given(event=events(), kind=st.sampled_from(sorted(tinytown.TYPES)), town=names())
def test_a_native_event_of_a_town_comes_back_with_the_same_meaning(event: Event, kind: str, town: str) -> None:
    native = replace(event, kind=f"town.{kind}", origin=None, data={"scope": "fence", "spawn_mode": "resumed"})
    again = tinytown.DIALECT.decode(tinytown.DIALECT.encode(native, town=town) or b"")
    for field in ("kind", "at", "old_state", "new_state", "data"):
        assert getattr(again, field) == getattr(native, field)
    assert again.text == (native.text or None)
    for scope in ("agent", "parent", "child", "task", "mission"):
        name = getattr(native, scope)
        assert getattr(again, scope) == (name and derive_town_uuid(town, name))


@given(event=events(), town=texts(20))
def test_any_event_comes_back_from_its_cloudevent_as_it_was(event: Event, town: str) -> None:
    assume(event.origin is None or event.origin.dialect != "cloudevents")
    raw = find_dialect("cloudevents").encode(event, town=town)
    assert raw is not None
    again = find_dialect("cloudevents").decode(raw)
    assert again == event
    assert codec.encode_event(again) == codec.encode_event(event)


@given(st.text(min_size=1))
def test_any_type_makes_a_kind(own_type: str) -> None:
    kind = make_kind_from_type(own_type)
    assert catalog.KIND_PATTERN.fullmatch(kind)
    assert len(kind) <= catalog.LONGEST_KIND
