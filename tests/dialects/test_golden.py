"""What came in goes out again, byte for byte, and means what it should on the way."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from fleetlore.dialects import nexo, nexus, stage, tinytown
from fleetlore.dialects.registry import NAMES, find_dialect
from fleetlore.errors import Invalid
from fleetlore.events import catalog, codec
from fleetlore.events.envelope import Event
from tests.dialects import golden


def stored(event: Event) -> Event:
    """The event as a log gives it back."""
    return codec.decode_event(codec.encode_event(event))


def values_of(line: bytes) -> dict[str, Any]:
    """A record's values as Python's own parser can hold them."""
    record: dict[str, Any] = json.loads(line.replace(b"1e400", b"1e300"))
    return record


def text_of(raw: bytes | None) -> str:
    """A record's values and key order, whatever its white space."""
    assert raw is not None
    return json.dumps(json.loads(raw))


def kinds_in(name: str) -> set[str]:
    dialect = find_dialect(name)
    return {dialect.decode(line).kind for line in golden.lines(name)}


@pytest.mark.parametrize(("name", "line"), golden.ALL, ids=golden.IDS)
def test_a_record_comes_back_byte_for_byte(name: str, line: bytes) -> None:
    dialect = find_dialect(name)
    event = dialect.decode(line)
    assert dialect.encode(event) == line
    assert dialect.encode(stored(event)) == line
    assert dialect.encode(stored(event), town="elsewhere") == line


@pytest.mark.parametrize(("name", "line"), golden.ALL, ids=golden.IDS)
def test_an_event_survives_its_own_json(name: str, line: bytes) -> None:
    event = find_dialect(name).decode(line)
    assert stored(event) == event
    catalog.check_payload(event.kind, event.data)


@pytest.mark.parametrize(("name", "line"), golden.ALL, ids=golden.IDS)
def test_a_record_without_a_time_keeps_to_that_when_it_is_given_one(name: str, line: bytes) -> None:
    dialect = find_dialect(name)
    event = dialect.decode(line)
    if event.at is None:
        assert dialect.encode(replace(event, at=datetime(2026, 1, 2, tzinfo=UTC))) == line


@pytest.mark.parametrize(("name", "line"), golden.ALL, ids=golden.IDS)
def test_other_white_space_keeps_values_and_key_order(name: str, line: bytes) -> None:
    dialect = find_dialect(name)
    spread = json.dumps(values_of(line), indent=3).encode()
    assert text_of(dialect.encode(stored(dialect.decode(spread)))) == text_of(spread)


@pytest.mark.parametrize(("name", "line"), golden.ALL, ids=golden.IDS)
def test_any_other_key_order_is_kept(name: str, line: bytes) -> None:
    dialect = find_dialect(name)
    raw = json.dumps(dict(reversed(values_of(line).items()))).encode()
    assert text_of(dialect.encode(stored(dialect.decode(raw)))) == text_of(raw)


@pytest.mark.parametrize(("name", "line"), golden.ALL, ids=golden.IDS)
def test_an_event_has_all_that_a_log_asks_for(name: str, line: bytes) -> None:
    event = find_dialect(name).decode(line)
    assert event.id is not None
    assert event.actor
    assert event.origin is not None
    assert event.origin.dialect == name
    assert catalog.KIND_PATTERN.fullmatch(event.kind)


def test_every_kind_of_every_family_has_a_golden_line() -> None:
    assert kinds_in("nexus") == {f"fleet.{kind}" for kind in nexus.KINDS}
    assert kinds_in("tinytown") == {f"town.{kind}" for kind in tinytown.TYPES}
    assert kinds_in("nexo") == {f"driver.{kind}" for kind in nexo.SUBJECT_BY_KIND}
    assert kinds_in("stage") >= stage.KINDS


def test_every_foreign_kind_is_known_to_the_catalog() -> None:
    for name in ("nexus", "tinytown", "nexo"):
        assert all(catalog.find_payload(kind) for kind in kinds_in(name))
    assert all(catalog.find_payload(kind) for kind in stage.KINDS)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_record_has_the_same_id_and_another_one_has_another(name: str) -> None:
    dialect = find_dialect(name)
    first, second = golden.lines(name)[0], golden.lines(name)[2]
    assert dialect.decode(first).id == dialect.decode(first).id
    assert dialect.decode(first).id != dialect.decode(second).id


@pytest.mark.parametrize("name", ["nexus", "tinytown", "nexo"])
def test_the_same_bytes_again_in_one_input_are_another_event(name: str) -> None:
    dialect, line = find_dialect(name), golden.lines(name)[0]
    assert dialect.decode(line, nth=1).id not in (None, dialect.decode(line).id)


@pytest.mark.parametrize("name", ["stage", "cloudevents"])
def test_a_record_with_its_own_id_is_the_same_event_however_often_it_comes(name: str) -> None:
    dialect = find_dialect(name)
    for line in golden.lines(name):
        assert dialect.decode(line, nth=1).id == dialect.decode(line).id


def test_an_unknown_dialect_is_answered_with_the_known_ones() -> None:
    with pytest.raises(Invalid, match="nexus, tinytown, nexo, stage, cloudevents"):
        find_dialect("klingon")


@pytest.mark.parametrize("name", NAMES)
def test_a_dialect_is_found_by_its_name(name: str) -> None:
    assert find_dialect(name).name == name


@pytest.mark.parametrize("name", NAMES)
def test_every_dialect_is_documented(name: str) -> None:
    assert f"\n## {name}\n" in (golden.FOLDER.parents[2] / "docs" / "dialects.md").read_text()
