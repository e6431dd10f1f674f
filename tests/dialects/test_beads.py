"""An issue tracker's audit trail: what each type of record tells, and how it is written."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleetlore.dialects.beads import DIALECT, TYPE_BY_KIND
from fleetlore.errors import DialectError
from fleetlore.events import catalog, codec
from fleetlore.events.envelope import Event, Origin
from fleetlore.events.ids import derive_id
from tests.dialects import golden
from tests.strategies import events, json_objects, names, texts

AT = datetime(2026, 2, 26, 15, 13, 23, tzinfo=UTC)
RECORD: dict[str, Any] = {
    "actor": "mayor",
    "comment": None,
    "created_at": "2026-02-26T15:13:23Z",
    "event_type": "updated",
    "id": 7,
    "issue_id": "dr-2",
    "new_value": None,
    "old_value": None,
}


def line(**changed: Any) -> bytes:
    """A record as bd exports it; objects under `old_value` and `new_value` become the strings that hold them."""
    record = {key: json.dumps(value) if isinstance(value, dict) else value for key, value in (RECORD | changed).items()}
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()


def summarise_event(**changed: Any) -> tuple[str, str | None, str | None, str | None]:
    event = DIALECT.decode(line(**changed))
    return event.kind, event.actor, event.agent, event.text


@pytest.mark.parametrize(
    ("n", "kind", "agent", "text"),
    [
        (1, "work.task_created", None, None),
        (2, "work.task_created", None, "Oil the hinges"),
        (3, "fleet.dispatch", "rig/ada", "Oil the hinges"),
        (4, "work.updated", "rig/ada", "Oil the hinges"),
        (5, "work.updated", "rig/ada", "Oil the hinges"),
        (6, "fleet.dispatch", "rig/bert", "Oil the hinges"),
        (7, "town.task_completed", "rig/bert", "Oiled: squeak < 3 dB & falling"),
        (8, "town.task_completed", "rig/cleo", "A door that closes"),
        (9, "work.reopened", "rig/bert", "Oil the hinges: it squeaks again"),
        (10, "work.updated", None, "Added label: urgent"),
        (11, "work.updated", None, "Removed label: urgent"),
        (12, "work.updated", None, None),
        (13, "work.updated", None, "Which oil?"),
        (14, "work.updated", None, None),
        (15, "work.updated", None, "Added dependency: dr-1 blocks dr-2"),
    ],
)
def test_every_type_has_its_kind(n: int, kind: str, agent: str | None, text: str | None) -> None:
    event = DIALECT.decode(golden.lines("beads")[n - 1])
    assert (event.kind, event.agent, event.text) == (kind, agent, text)


def test_a_dispatch_names_who_gave_what_to_whom() -> None:
    event = DIALECT.decode(golden.lines("beads")[2])
    assert event == Event(
        id=derive_id("beads", b"dr-2\x003"),
        at=AT,
        kind="fleet.dispatch",
        actor="mayor",
        agent="rig/ada",
        task="dr-2",
        old_state="open",
        new_state="hooked",
        text="Oil the hinges",
        data={"title": "Oil the hinges", "status": "hooked"},
        origin=event.origin,
    )
    assert event.origin is not None
    assert event.origin.id == "3"


@pytest.mark.parametrize(
    ("new", "old", "kind"),
    [
        ({"assignee": "ada", "status": "in_progress"}, {}, "fleet.dispatch"),
        ({"assignee": "ada"}, {"status": "hooked"}, "fleet.dispatch"),
        ({"assignee": "ada", "status": "open"}, {"status": "hooked"}, "work.updated"),
        ({"assignee": "ada"}, {"status": "open"}, "work.updated"),
        ({"assignee": "", "status": "open"}, {"assignee": "ada", "status": "hooked"}, "work.updated"),
        ({"assignee": "tab\tbed", "status": "hooked"}, {}, "work.updated"),
        ({"assignee": 5, "status": "hooked"}, {}, "work.updated"),
        ({"assignee": "ada", "status": ["hooked"]}, {}, "work.updated"),
        ({"status": "in_progress"}, {"assignee": "ada"}, "work.updated"),
    ],
)
def test_only_work_that_begins_for_somebody_is_a_dispatch(new: dict[str, Any], old: dict[str, Any], kind: str) -> None:
    assert summarise_event(new_value=new, old_value=old)[0] == kind


def test_a_task_that_is_taken_away_says_from_whom() -> None:
    def released(new: dict[str, Any], old: dict[str, Any]) -> object:
        raw = {"id": "1", "issue_id": "dr-2", "event_type": "updated", "actor": "mayor", "created_at": "2026-01-01T00:00:00Z"}
        values = {"new_value": json.dumps(new), "old_value": json.dumps(old)}
        return DIALECT.decode(json.dumps(raw | values).encode()).data.get("released")

    assert released({"assignee": "", "status": "open"}, {"assignee": "ada", "status": "hooked"}) == "ada"
    assert released({"assignee": "finn", "status": "open"}, {"assignee": "ada"}) is None
    assert released({"status": "open"}, {"assignee": "ada"}) is None


def test_a_close_is_by_the_assignee_else_by_the_actor() -> None:
    assert summarise_event(event_type="closed", new_value="done") == ("town.task_completed", "mayor", "mayor", "done")
    assert summarise_event(event_type="closed", new_value="Closed") == ("town.task_completed", "mayor", "mayor", None)
    assert summarise_event(event_type="closed", new_value="done", old_value={"assignee": "ada", "title": "Oil"}) == (
        "town.task_completed", "mayor", "ada", "Oil: done",
    )  # fmt: skip


def test_a_change_is_reported_by_field_before_and_after() -> None:
    change = DIALECT.decode(line(new_value={"priority": 2}, old_value={"priority": 1}))
    assert change.data == {"type": "updated", "field": "priority", "old": 1, "new": 2}
    several = DIALECT.decode(line(new_value={"notes": "x", "status": "open"}))
    assert several.data == {"type": "updated", "field": "notes, status"}
    assert (several.old_state, several.new_state) == (None, "open")
    long = DIALECT.decode(line(new_value={"notes": "x" * 5000}))
    assert long.data["new"] == "x" * 500 + "…"
    assert DIALECT.encode(long) == line(new_value={"notes": "x" * 5000})


def test_an_unknown_type_is_an_update_that_keeps_its_type() -> None:
    event = DIALECT.decode(line(event_type="migrated", comment="to Dolt"))
    assert (event.kind, event.text, event.data) == ("work.updated", "to Dolt", {"type": "migrated", "comment": "to Dolt"})


def test_an_id_follows_from_the_record_s_own_id_and_issue_not_from_the_rest() -> None:
    ids = {DIALECT.decode(line(**changed), nth=nth).id for changed, nth in (({}, 0), ({"comment": "x"}, 1), ({"id": "7"}, 0))}
    assert ids == {derive_id("beads", b"dr-2\x007")}
    others = {DIALECT.decode(line(**changed)).id for changed in ({"id": 8}, {"issue_id": "dr-3"}, {"id": None}, {"id": ""})}
    assert len(others | ids) == 5
    own = "0b7d4d0e-3f61-4f0e-9c53-5a8a3c1f2e01"
    assert DIALECT.decode(line(id=own.upper())).id == own
    assert DIALECT.encode(DIALECT.decode(line(id=own.upper()))) == line(id=own.upper())


def test_what_go_escapes_is_escaped_again() -> None:
    raw = line(comment="MARK", new_value="MARK").replace(b"MARK", b'a\\u003c\\u003e\\u0026b\\u2028\\u2029 \\" \\\\ \\t \\u001f \x7f')
    assert DIALECT.encode(DIALECT.decode(raw)) == raw
    assert DIALECT.encode(DIALECT.decode(line(comment="<&>"))) == line(comment="MARK").replace(b"MARK", b"\\u003c\\u0026\\u003e")


@pytest.mark.parametrize(
    "value", ["{", '{"a":' * 3000, "NaN", '{"title":"\\ud800"}', '{"title":1e999}', "[]", '"text"', "\x00", "9" * 9999]
)
def test_a_value_that_holds_no_object_is_a_text(value: str) -> None:
    raw = line(event_type="closed", new_value=value, old_value=value)
    event = DIALECT.decode(raw)
    assert event.data["result"] == value
    assert DIALECT.encode(codec.decode_event(codec.encode_event(event))) == raw


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"{", "not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (b"[]", "an object is needed, not an array"),
        (b"{}", "$.event_type: missing"),
        (line(event_type=None), "$.event_type: a string is needed, not null"),
        (line(issue_id=5), "$.issue_id: a string is needed, not a number"),
        (line(actor=None), "$.actor: a string is needed, not null"),
        (line(created_at="yesterday"), "$.created_at: not an RFC 3339 time: 'yesterday'"),
        (line(created_at="2026-02-26T15:13:23"), "$.created_at: not an RFC 3339 time: '2026-02-26T15:13:23'"),
        (line(id=True), "$.id: a whole number or a string is needed, not true or false"),
        (line(id=1.5), "$.id: a whole number or a string is needed, not a number"),
        (line(id=[1]), "$.id: a whole number or a string is needed, not an array"),
        (b'{"actor":"\xff"}', "not UTF-8: invalid start byte at byte 10"),
    ],
)
def test_a_malformed_line_is_refused_with_its_reason(raw: bytes, reason: str) -> None:
    with pytest.raises(DialectError) as refused:
        DIALECT.decode(raw)
    assert str(refused.value) == reason


@pytest.mark.parametrize(
    ("event", "record"),
    [
        (
            Event(kind="work.task_created", actor="ada", task="t7", data={"title": "Oil <it>", "priority": 2, "tags": ["x"]}),
            {"event_type": "created", "new_value": '{"title":"Oil \\u003cit\\u003e","priority":2}', "old_value": ""},
        ),
        (
            Event(kind="fleet.dispatch", actor="mayor", agent="ada", task="t7", text="Oil"),
            {"event_type": "status_changed", "comment": "Oil", "new_value": '{"assignee":"ada","status":"hooked"}', "old_value": ""},
        ),
        (
            Event(kind="town.task_completed", actor="mayor", agent="ada", task="t7", data={"result": "oiled"}),
            {"event_type": "closed", "new_value": "oiled", "old_value": '{"assignee":"ada"}'},
        ),
        (
            Event(kind="work.reopened", actor="mayor", agent="ada", task="t7", data={"reason": "squeaks"}),
            {"event_type": "reopened", "comment": "squeaks", "new_value": '{"status":"open"}',
             "old_value": '{"assignee":"ada","status":"closed"}'},
        ),
        (
            Event(kind="work.updated", actor="ada", task="t7", data={"field": "size", "old": 1, "new": [2]}),
            {"event_type": "updated", "new_value": '{"size":[2]}', "old_value": '{"size":1}'},
        ),
    ],
)  # fmt: skip
def test_our_own_facts_about_tasks_are_written_as_bd_would(event: Event, record: dict[str, Any]) -> None:
    own_id = "0b7d4d0e-3f61-4f0e-9c53-5a8a3c1f2e01"
    raw = DIALECT.encode(replace(event, id=own_id, at=AT))
    base = RECORD | {"actor": event.actor, "id": own_id, "issue_id": "t7"}
    assert json.loads(raw or b"") == base | record
    assert list(json.loads(raw or b"")) == sorted(base)


@pytest.mark.parametrize(
    "event",
    [
        Event(at=AT, kind="fleet.idle", actor="ada", task="t7"),
        Event(at=AT, kind="work.updated", actor="ada"),
        Event(at=AT, kind="fleet.dispatch", actor="ada", task="t7"),
        Event(kind="work.updated", actor="ada", task="t7"),
    ],
)
def test_what_is_about_no_task_of_somebody_cannot_be_said(event: Event) -> None:
    assert DIALECT.encode(event) is None


@given(event=events(), kind=st.sampled_from(sorted(TYPE_BY_KIND)), task=names(), agent=names())
def test_our_own_facts_come_back_with_the_same_meaning(event: Event, kind: str, task: str, agent: str) -> None:
    native = replace(event, kind=kind, task=task, agent=agent, data={}, origin=None)
    again = DIALECT.decode(DIALECT.encode(native) or b"")
    assert (again.id, again.at, again.kind, again.actor, again.task) == (native.id, native.at, kind, native.actor, task)
    if kind in ("fleet.dispatch", "town.task_completed", "work.reopened"):
        assert again.agent == agent


@given(event=events(), kind=st.sampled_from(sorted(TYPE_BY_KIND)), rest=json_objects(), own_id=st.none() | texts(), at=st.none() | texts())
def test_whatever_became_of_a_record_in_the_log_it_is_written_as_json(event: Event, kind: str, rest: Any, own_id: Any, at: Any) -> None:
    changed = replace(event, kind=kind, origin=Origin(dialect="beads", id=own_id, at=at, rest=rest))
    assert isinstance(json.loads(DIALECT.encode(changed) or b""), dict)


@given(
    own_type=st.sampled_from(["created", "closed", "reopened", "updated", "status_changed", "odd"]),
    old=json_objects(),
    new=json_objects() | st.fixed_dictionaries({"assignee": texts(5), "status": st.sampled_from(["hooked", "open"])}),
)
def test_values_of_any_shape_fit_their_kind_and_come_back(own_type: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    raw = line(event_type=own_type, old_value=old, new_value=new)
    event = DIALECT.decode(raw)
    catalog.check_payload(event.kind, event.data)
    assert json.loads(DIALECT.encode(codec.decode_event(codec.encode_event(event))) or b"") == json.loads(raw)
