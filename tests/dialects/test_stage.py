"""The ledger of a cast."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from fleetlore.dialects.stage import DIALECT
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event
from tests.dialects import golden

LINES = golden.lines("stage")


def of_kind(kind: str) -> Event:
    return next(event for line in LINES if (event := DIALECT.decode(line)).kind == kind)


def test_a_spoken_line_is_text_of_its_speaker_in_its_run() -> None:
    event = of_kind("agent.spoke")
    assert (event.id, event.actor, event.agent, event.run) == ("0b7d4d0e-3f61-4f0e-9c53-5a8a3c1f2e03", "fern", "fern", "run-1")
    assert (event.text, event.visibility) == ("Who was here?", "public")
    assert event.at == datetime(2026, 6, 1, 10, 0, 1, 500_000, tzinfo=UTC)
    assert event.data == {"thought": "I was", "mood": "lying", "turn": 1, "session": "s1", "model_profile": "fast", "model_id": "m-small"}
    assert event.origin is not None
    assert (event.origin.id, event.origin.at, event.origin.rest) == (None, None, None)


def test_a_thought_is_private_and_its_thinker_s() -> None:
    event = of_kind("agent.thought")
    assert (event.agent, event.visibility) == ("moss", "private")


@pytest.mark.parametrize("kind", ["run.started", "world.observed", "judge.verdict", "user.injected", "clue.found"])
def test_what_nobody_of_the_cast_said_names_an_actor_only(kind: str) -> None:
    event = of_kind(kind)
    assert event.agent is None
    assert event.actor


def test_an_id_that_is_no_uuid_is_kept_beside_and_is_the_run_s_own() -> None:
    line = next(line for line in LINES if b"EVT-7" in line)
    event = DIALECT.decode(line)
    assert event.origin is not None
    assert event.origin.id == "EVT-7"
    assert event.id != DIALECT.decode(line.replace(b'"run_id":""', b'"run_id":"r"')).id


def test_a_uuid_in_capitals_is_the_same_event() -> None:
    line = next(line for line in LINES if b"0B7D" in line)
    assert DIALECT.decode(line).id == "0b7d4d0e-3f61-4f0e-9c53-5a8a3c1f2e0c"


def test_a_native_event_of_the_family_is_written_in_full() -> None:
    event = replace(of_kind("agent.spoke"), origin=None, run=None, data={"mood": "calm"}, at=datetime(2026, 6, 1, tzinfo=UTC))
    assert DIALECT.encode(event) == (
        b'{"id":"0b7d4d0e-3f61-4f0e-9c53-5a8a3c1f2e03","run_id":"","turn":0,"kind":"agent.spoke","actor":"fern",'
        b'"payload":{"text":"Who was here?","mood":"calm"},"created_at":"2026-06-01T00:00:00Z","schema_version":1,'
        b'"session_id":null,"model_profile":null,"model_id":null}'
    )


def test_another_s_kind_cannot_be_said_unless_it_came_from_a_stage() -> None:
    event = of_kind("clue.found")
    assert DIALECT.encode(event) is not None
    assert DIALECT.encode(replace(event, origin=None)) is None
    assert DIALECT.encode(Event(kind="agent.spoke", actor="fern")) is None


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        (b'"kind":"agent.spoke"', b'"kind":"spoke"', "$.kind"),
        (b'"kind":"agent.spoke"', b'"kind":"Agent.Spoke"', "$.kind"),
        (b'"id":"0b7d', b'"xd":"0b7d', "$.id"),
        (b'"run_id":"run-1"', b'"run_id":null', "$.run_id"),
        (b'"actor":"fern"', b'"actor":1', "$.actor"),
        (b'"payload":{', b'"x":{', "$.payload"),
        (b'"payload":{', b'"payload":[],"x":{', "$.payload"),
        (b'"mood":"lying"', b'"mood":7', "$.payload.mood"),
        (b'"created_at":"2026', b'"created_at":"26', "$.created_at"),
    ],
)
def test_what_is_no_event_of_a_ledger_is_refused_with_its_path(old: bytes, new: bytes, path: str) -> None:
    line = next(line for line in LINES if b'"agent.spoke"' in line)
    assert old in line
    with pytest.raises(DialectError) as refused:
        DIALECT.decode(line.replace(old, new, 1))
    assert refused.value.path == path
