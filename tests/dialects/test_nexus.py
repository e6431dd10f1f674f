"""The chronicle's lines: what is read, what is refused and why, what the builders make."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from fleetlore.dialects.nexus import DIALECT, from_commit, from_gitea_issue, from_heartbeat
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event

AT = datetime(2026, 11, 15, 20, 23, 12, 250_000, tzinfo=UTC)


def test_a_line_becomes_an_action_of_the_fleet() -> None:
    event = DIALECT.decode(b'{"kind": "commit", "agent": "ada", "detail": "Oil", "timestamp": 1794774192.25, "metadata": {"sha": "0a"}}')
    assert (event.kind, event.actor, event.agent, event.text, event.data) == ("fleet.commit", "ada", "ada", "Oil", {"sha": "0a"})
    assert event.at == AT
    assert event.origin is not None
    assert (event.origin.at, event.origin.rest) == (None, None)


@pytest.mark.parametrize("spelling", ["1794774192", "1794774192.2500001", "1.7947741925e9", "1794774192.250000000000001"])
def test_a_time_that_microseconds_cannot_say_is_kept_beside(spelling: str) -> None:
    line = f'{{"kind": "idle", "agent": "ada", "detail": "", "timestamp": {spelling}, "metadata": {{}}}}'.encode()
    assert DIALECT.encode(DIALECT.decode(line)) == line


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"{", "not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (b'{"kind": "idle", "agent": "a"} {}', "not JSON: Extra data: line 1 column 32 (char 31)"),
        (b"null", "an object is needed, not null"),
        (b"[]", "an object is needed, not an array"),
        (b'"idle"', "an object is needed, not a string"),
        (b"5", "an object is needed, not a number"),
        (b"1e999", "an object is needed, not a number"),
        (b"true", "an object is needed, not true or false"),
        (b'{"kind": "idle", "agent": "\xff"}', "not UTF-8: invalid start byte at byte 27"),
        (b"[" * 100_000, "nested more than 128 deep"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, "nested more than 128 deep"),
        (b"{}", "$.kind: missing"),
        (b'{"kind": "idle"}', "$.agent: missing"),
        (b'{"agent": "ada"}', "$.kind: missing"),
        (b'{"kind": null, "agent": "ada"}', "$.kind: a string is needed, not null"),
        (b'{"kind": "", "agent": "ada"}', "$.kind: not one of the 12 kinds: ''"),
        (b'{"kind": "dance", "agent": "ada"}', "$.kind: not one of the 12 kinds: 'dance'"),
        (b'{"kind": "fleet.idle", "agent": "ada"}', "$.kind: not one of the 12 kinds: 'fleet.idle'"),
        (b'{"kind": "idle", "agent": 7}', "$.agent: a string is needed, not a number"),
        (b'{"kind": "idle", "agent": "a", "timestamp": "now"}', "$.timestamp: a number of seconds is needed, not a string"),
        (b'{"kind": "idle", "agent": "a", "timestamp": true}', "$.timestamp: a number of seconds is needed, not true or false"),
        (b'{"kind": "idle", "agent": "a", "timestamp": [1]}', "$.timestamp: a number of seconds is needed, not an array"),
        (b'{"kind": "idle", "agent": "a", "timestamp": NaN}', "$.timestamp: a finite number of seconds is needed"),
        (b'{"kind": "idle", "agent": "a", "timestamp": -Infinity}', "$.timestamp: a finite number of seconds is needed"),
        (b'{"kind": "idle", "agent": "a", "timestamp": 1e400}', "$.timestamp: a finite number of seconds is needed"),
        (b'{"kind": "idle", "agent": "a", "timestamp": null}', "$.timestamp: a finite number of seconds is needed"),
        (
            b'{"kind": "idle", "agent": "a", "timestamp": 1763236992000}',
            "$.timestamp: not in any year from 1 to 9999: 1763236992000 seconds since 1970",
        ),
        (b'{"kind": "idle", "agent": "a", "\\ud800": 1}', 'a key with half a surrogate pair: "\\ud800"'),
    ],
)
def test_a_malformed_line_is_refused_with_its_reason(line: bytes, reason: str) -> None:
    with pytest.raises(DialectError) as refused:
        DIALECT.decode(line)
    assert str(refused.value) == reason


@pytest.mark.parametrize("agent", ["", "n" * 201, "tab\tbed", "\x85", "ü" * 101])
def test_a_name_that_can_be_no_scope_is_kept_out_of_the_envelope_only(agent: str) -> None:
    line = json.dumps({"kind": "idle", "agent": agent, "detail": "", "timestamp": 1.5, "metadata": {}}).encode()
    event = DIALECT.decode(line)
    assert (event.actor, event.agent) == ("nexus", None)
    assert DIALECT.encode(event) == line


def test_a_native_action_is_written_in_the_chronicle_s_own_form() -> None:
    event = Event(at=AT, kind="fleet.milestone", actor="ada", text="a door — closed", data={"count": 100})
    assert DIALECT.encode(event) == (
        b'{"kind": "milestone", "agent": "ada", "detail": "a door \\u2014 closed", "timestamp": 1794774192.25, "metadata": {"count": 100}}'
    )


def test_an_action_that_came_by_another_dialect_is_written_like_a_native_one() -> None:
    native = Event(at=AT, kind="fleet.idle", agent="ada")
    foreign = DIALECT.decode(b'{"agent": "ada", "kind": "idle"}')
    assert foreign.origin is not None
    assert DIALECT.encode(native) == b'{"kind": "idle", "agent": "ada", "detail": "", "timestamp": 1794774192.25, "metadata": {}}'
    assert DIALECT.encode(foreign) == b'{"agent": "ada", "kind": "idle"}'


@pytest.mark.parametrize("kind", ["fleet.dance", "town.mission_event", "idle.idle", "fleet.idle.now"])
def test_what_is_no_action_of_the_fleet_cannot_be_said(kind: str) -> None:
    assert DIALECT.encode(Event(at=AT, kind=kind, actor="ada")) is None


@pytest.mark.parametrize(
    "payload",
    [{"number": 42, "title": "Fix the door"}, {"action": "opened", "number": 42, "issue": {"number": 42, "title": "Fix the door\nnow"}}],
)
def test_an_issue_given_to_an_agent_is_a_dispatch(payload: dict[str, Any]) -> None:
    event = from_gitea_issue(payload, "ada")
    assert (event.kind, event.agent, event.text, event.data) == ("fleet.dispatch", "ada", "issue #42: Fix the door", {"issue_number": 42})


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (None, "issue #?: "),
        ({}, "issue #?: "),
        ({"issue": None, "number": 3}, "issue #3: "),
        ({"number": 0, "title": None}, "issue #0: "),
        ({"title": "No number"}, "issue #?: No number"),
    ],
)
def test_a_thin_issue_payload_is_still_reported(payload: dict[str, Any] | None, text: str) -> None:
    event = from_gitea_issue(payload, None)
    assert (event.agent, event.text) == ("unknown", text)


@pytest.mark.parametrize(
    ("heartbeat", "agent", "text"),
    [
        ({"agent": "ada", "model": "m", "cycle": 3, "status": "acting"}, "ada", "cycle 3, status=acting"),
        ({"model": "m", "cycle": 3}, "m", "cycle 3, status=thinking"),
        ({"agent": None, "model": None}, "unknown", "cycle 0, status=thinking"),
        ({}, "unknown", "cycle 0, status=thinking"),
        (None, "unknown", "cycle 0, status=thinking"),
    ],
)
def test_a_heartbeat_is_by_its_agent_else_by_its_model(heartbeat: dict[str, Any] | None, agent: str, text: str) -> None:
    event = from_heartbeat(heartbeat)
    assert (event.kind, event.actor, event.text, event.data) == ("fleet.heartbeat", agent, text, heartbeat or {})
    assert event.at is None


@pytest.mark.parametrize(
    "own", [{"timestamp": 1794774192.25}, {"time": "2026-11-15T20:23:12.25Z"}, {"at": "2026-11-15T21:23:12.250+01:00"}]
)
def test_a_heartbeat_keeps_its_own_time(own: dict[str, Any]) -> None:
    assert from_heartbeat({"model": "m", **own}).at == AT


@pytest.mark.parametrize("own", [{"timestamp": True}, {"timestamp": "noon"}, {"timestamp": 1e300}, {"time": None}, {"ts": []}])
def test_a_heartbeat_with_no_time_to_read_has_none(own: dict[str, Any]) -> None:
    assert from_heartbeat(own).at is None


def test_a_heartbeat_shares_nothing_with_what_it_was_made_of() -> None:
    heartbeat = {"model": "m"}
    event = from_heartbeat(heartbeat)
    heartbeat["model"] = "other"
    assert event.data == {"model": "m"}


@pytest.mark.parametrize(
    ("commit", "text", "data"),
    [
        ({"sha": "0a1b2c3d4e5f", "message": "\nOil the hinges\n\nThey squeak."}, "Oil the hinges", {"sha": "0a1b2c3d"}),
        ({"sha": "0a1b2c3d4e5f", "commit": {"message": "Oil the hinges"}}, "Oil the hinges", {"sha": "0a1b2c3d"}),
        ({"id": "0a1b2c3d4e5f", "message": "Oil"}, "Oil", {"sha": "0a1b2c3d"}),
        ({"sha": None, "message": None, "commit": None}, None, {"sha": ""}),
        (None, None, {"sha": ""}),
    ],
)
def test_a_commit_is_reported_by_the_first_line_of_its_message(
    commit: dict[str, Any] | None, text: str | None, data: dict[str, Any]
) -> None:
    event = from_commit(commit, "ada")
    assert (event.kind, event.agent, event.text, event.data) == ("fleet.commit", "ada", text, data)
