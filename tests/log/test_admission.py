"""What an event passes before it is stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given

from fleetlore import Event
from fleetlore.errors import InvalidEvent, TooLarge
from fleetlore.events import codec
from fleetlore.events.envelope import Origin
from fleetlore.log.admission import MAX_STRING_BYTES, Admission
from fleetlore.log.base import event_scopes
from tests.strategies import events

MOMENT = datetime(2026, 11, 15, 20, 23, 12, tzinfo=UTC)


def admit(**fields: Any) -> Event:
    record = Admission().admit(Event(**({"kind": "fleet.commit", "actor": "ada"} | fields)))
    event = codec.decode_event(record.raw)
    assert (record.id, record.at, record.kind, record.scopes) == (event.id, event.at, event.kind, event_scopes(event))
    return event


def test_clock_and_ids_come_in_through_the_door() -> None:
    admission = Admission(now=lambda: MOMENT, new_id=lambda: "0190f3a0-0000-7000-8000-000000000001")
    record = admission.admit(Event(kind="fleet.idle", agent="ada"))
    assert record.raw == (
        b'{"id":"0190f3a0-0000-7000-8000-000000000001","at":"2026-11-15T20:23:12.000000Z",'
        b'"kind":"fleet.idle","actor":"ada","agent":"ada","v":1}'
    )


def test_times_are_kept_in_utc() -> None:
    assert admit(at=MOMENT.astimezone(timezone(timedelta(hours=5)))).at == MOMENT


def test_ids_are_kept_in_canonical_form() -> None:
    assert admit(id="{0190F3A0-0000-7000-8000-00000000000A}").id == "0190f3a0-0000-7000-8000-00000000000a"


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"kind": "commit"}, "$.kind"),
        ({"kind": "Fleet.commit"}, "$.kind"),
        ({"kind": "fleet..commit"}, "$.kind"),
        ({"kind": "a." + "b" * 99}, "$.kind"),
        ({"kind": 7}, "$.kind"),
        ({"actor": None}, "$.actor"),
        ({"actor": ""}, "$.actor"),
        ({"agent": "a\nb"}, "$.agent"),
        ({"task": "é" * 101}, "$.task"),
        ({"task": 42}, "$.task"),
        ({"id": "42"}, "$.id"),
        ({"id": 42}, "$.id"),
        ({"at": datetime(2026, 11, 15)}, "$.at"),  # noqa: DTZ001 - that is the mistake
        ({"at": "yesterday"}, "$.at"),
        ({"cause": "the other one"}, "$.cause"),
        ({"trace": "00-abc"}, "$.trace"),
        ({"visibility": "secret"}, "$.visibility"),
        ({"data": [1]}, "$.data"),
        ({"kind": "tool.called", "data": {}}, "$.data"),
        ({"kind": "tool.called", "data": {"tool": 5}}, "$.data.tool"),
        ({"data": {"x": object()}}, "$"),
        ({"text": "\ud800"}, "$"),
        ({"v": 2}, "$.v"),
    ],
)
def test_what_breaks_a_rule_is_refused_with_its_place(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidEvent) as caught:
        admit(**fields)
    assert caught.value.path == path


def test_unknown_kinds_pass_through() -> None:
    assert admit(kind="acme.rocket.launched", data={"stage": 2}).data == {"stage": 2}


def test_foreign_writers_fill_fleet_and_town_data_as_they_like() -> None:
    assert admit(kind="fleet.dispatch", data={"issue_number": "forty-two"}).data == {"issue_number": "forty-two"}
    assert admit(kind="town.task_assigned", data={"scope": 5}).data == {"scope": 5}


def test_a_long_string_is_cut_and_the_cut_is_reported() -> None:
    long = "ü" * 20_000
    event = admit(text="short", data={"log": [{"out": long}], "other": "kept"})
    [cut] = event.origin.cut if event.origin else ()
    assert (cut.path, cut.bytes, cut.sha256) == ("$.data.log[0].out", 40_000, sha256(long.encode()).hexdigest())
    kept = event.data["log"][0]["out"]
    assert len(kept.encode()) == MAX_STRING_BYTES
    assert long.startswith(kept)
    assert event.data["other"] == "kept"


def test_a_string_is_never_cut_in_the_middle_of_a_character() -> None:
    for start in ("", "x", "xx"):  # one of them ends a character exactly at the limit, the others do not
        kept = admit(text=start + "€" * 10_000).text or ""
        assert kept == start + "€" * (len(kept) - len(start))


def test_an_event_that_is_too_large_all_the_same_is_refused() -> None:
    with pytest.raises(TooLarge) as caught:
        admit(data={str(n): "x" * 1000 for n in range(300)})
    assert caught.value.size > caught.value.limit == 256 * 1024


def test_secrets_are_out_before_anything_is_stored_and_counted() -> None:
    event = admit(text="login with password=hunter22", task="fix", data={"api_key": "abc"})
    assert event.text == "login with password=[redacted]"
    assert event.data == {"api_key": "[redacted]"}
    assert event.origin == Origin(dialect="fleetlore", redacted=2)


def test_a_secret_at_the_edge_of_a_cut_is_out_as_well() -> None:
    secret = "sk-" + "ant-api03-" + "a1B2c3D4e5F6" * 3
    event = admit(text="x" * (MAX_STRING_BYTES - 10) + " " + secret + "y" * 5000)
    assert "sk-ant" not in (event.text or "")


def test_redaction_adds_to_what_the_origin_says() -> None:
    origin = Origin(dialect="nexus", n=7, redacted=1, rest={"values": {"note": "token=abcdefgh"}})
    event = admit(origin=origin)
    assert event.origin == Origin(dialect="nexus", n=7, redacted=2, rest={"values": {"note": "token=[redacted]"}})


@given(events())
def test_any_valid_event_is_admitted_and_reads_back_as_it_was_stored(event: Event) -> None:
    record = Admission().admit(event)
    assert codec.encode_event(codec.decode_event(record.raw)) == record.raw


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "agent.spoke", "data": {"secret": "the harbour"}},
        {"kind": "judge.verdict", "data": {"reveal": [{"agent": "ada", "secret": "the harbour", "role": "spy"}]}},
        {"kind": "clue.found", "data": {"secret": "the harbour"}, "origin": Origin(dialect="stage")},
    ],
)
def test_what_a_player_hides_is_no_password(fields: dict[str, Any]) -> None:
    event = admit(**fields)
    assert event.data == fields["data"]
    assert event.origin is None or event.origin.redacted == 0


def test_a_key_that_a_player_hides_is_masked_like_any_other() -> None:
    event = admit(kind="agent.spoke", data={"secret": "it is sk-abcdefghijklmnopqrstuvwx", "password": "the harbour"})
    assert event.data == {"secret": "it is [redacted]", "password": "[redacted]"}
