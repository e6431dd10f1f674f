"""The compiled part says what Python says, or nothing: it is never the one that decides."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleetlore import Event, clock, redact
from fleetlore.errors import FleetloreError
from fleetlore.events.envelope import SCOPE_FIELDS, Cut, LogPlace, Mac, Origin
from fleetlore.log import admission
from fleetlore.log.admission import MAX_STRING_BYTES, Admission, make_fast_admission
from fleetlore.log.base import Record
from fleetlore.redact import Redactor
from tests.strategies import events, json_values, names, texts

quick = pytest.importorskip("fleetlore._quick", reason="it was not compiled here: no compiler, or FLEETLORE_PURE=1")

MOMENT = datetime(2026, 11, 15, 20, 23, 12, tzinfo=UTC)
ID = "0190f3a0-0000-7000-8000-00000000000a"
CLEAN = Event(kind="tool.called", actor="ada", agent="ada", task="t7", text="make", data={"tool": "Bash", "input": {"command": "make"}})


def short_way(now: datetime = MOMENT, redactor: Redactor | None = None) -> Callable[[Event], Record | None]:
    way = make_fast_admission(redactor or Redactor(), now=lambda: now, new_id=lambda: ID)
    assert way is not None
    return way


def long_way(event: Event, now: datetime = MOMENT) -> Record | str:
    """What Python makes of it, or why it refuses."""
    try:
        record = Admission(now=lambda: now, new_id=lambda: ID).admit(event)
    except FleetloreError as error:
        return str(error)
    return replace(record, minted=event.id is None)


def as_made(event: Event) -> Event:
    """Without what only the log or an import gives."""
    return replace(event, id=None, at=None, position=None)


# --- admission


def test_what_programs_make_all_day_takes_the_short_way() -> None:
    record = short_way()(CLEAN)
    assert record == long_way(CLEAN)
    assert record is not None
    assert record.raw.startswith(b'{"id":"0190f3a0-0000-7000-8000-00000000000a","at":"2026-11-15T20:23:12.000000Z","kind":"tool.called"')


@given(events().map(as_made))
def test_any_event_comes_out_as_the_long_way_has_it_or_not_at_all(event: Event) -> None:
    record = short_way()(event)
    assert record is None or record == long_way(event)


def test_an_event_with_its_own_id_and_time_takes_the_short_way_too() -> None:
    """Goals, towns, stages and graphs stamp their events before they store them, so that a lost answer can be looked up."""
    for at in (MOMENT, MOMENT + timedelta(microseconds=120), MOMENT + timedelta(milliseconds=5)):
        event = replace(CLEAN, id="0190f3a0-0000-7000-8000-0000000000ff", at=at, actor=None)
        record = short_way()(event)
        assert record is not None
        assert record == long_way(event)
        assert not record.minted


@pytest.mark.parametrize("origin", [Origin(dialect="claude_code", source="a.jsonl", n=7), Origin(dialect="nexus")])
def test_what_is_imported_takes_the_short_way_too(origin: Origin) -> None:
    event = replace(CLEAN, id=ID, at=MOMENT, origin=origin)
    record = short_way()(event)
    assert record is not None
    assert record == long_way(event)


@given(events().map(lambda event: replace(event, position=None, mac=None, trace=None)))
def test_any_stamped_event_comes_out_as_the_long_way_has_it_or_not_at_all(event: Event) -> None:
    record = short_way()(event)
    assert record is None or record == long_way(event)


FREE = st.none() | texts(12) | st.integers() | json_values() | st.binary(max_size=4) | st.just(float("nan")) | st.tuples(st.integers())


@given(
    st.fixed_dictionaries(
        {"kind": st.sampled_from(("fleet.commit", "tool.called", "a.b", "commit", "é.b", "A.b")) | texts(8)},
        optional={name: FREE | names() for name in Event.__struct_fields__ if name not in ("kind", "id", "at", "position")},
    )
)
@example({"kind": "a.b", "agent": 'quo"te\\and\nmore'})
@example({"kind": "a.b", "agent": "ada", "v": 2**70})
@example({"kind": "a.b", "agent": "ada", "data": {"n": 2**63}})
@example({"kind": "a.b", "agent": "ada", "data": {1: "a"}})
@example({"kind": "a.b", "agent": "ada", "text": "\ud800"})
def test_whatever_is_put_into_the_fields_it_neither_fails_nor_lets_more_through(fields: dict[str, Any]) -> None:
    event = Event(**fields)
    record = short_way()(event)
    assert record is None or record == long_way(event)


@pytest.mark.parametrize(
    "changed",
    [
        {"id": ID},
        {"at": MOMENT},
        {"id": ID.upper(), "at": MOMENT},
        {"id": ID, "at": MOMENT.astimezone(timezone(timedelta(hours=1)))},
        {"id": ID, "at": MOMENT.replace(tzinfo=None)},
        {"position": "0000000000000001"},
        {"trace": f"00-{'a' * 32}-{'b' * 16}-01"},
        {"origin": Origin(dialect="x", log=LogPlace(id="l", position="1"))},
        {"origin": Origin(dialect="x", cut=(Cut(path="$.text", bytes=7, sha256="00"),))},
        {"origin": Origin(dialect="x", redacted=1)},
        {"origin": Origin(dialect="x", rest={"a": 1})},
        {"origin": Origin(dialect=None)},  # type: ignore[arg-type]
        {"origin": Origin(dialect="x", n="7")},  # type: ignore[arg-type]
        {"origin": Origin(dialect="x", n=2**70)},
        {"origin": Origin(dialect="x", source="\ud800")},
        {"origin": {"dialect": "x"}},
        {"mac": Mac(key="k", hex="00")},
        {"text": "a" * (MAX_STRING_BYTES + 1)},
        {"text": "sk-" + "ant-api03-" + "a1B2c3D4e5F6g7H8"},
        {"data": {"password": "x"}},
        {"data": {"tool": 7}},
        {"data": {"tool": "Bash", "input": {"command": ("make",)}}},
        {"cause": "not an id"},
        {"agent": "a\nb"},
        {"kind": "Tool.called"},
        {"visibility": "secret"},
        {"v": 2},
    ],
    ids=str,
)
def test_everything_unusual_is_left_to_python(changed: dict[str, Any]) -> None:
    assert short_way()(replace(CLEAN, **changed)) is None


def test_other_things_than_events_are_left_to_python_as_well() -> None:
    class MyEvent(Event, frozen=True):
        pass

    for thing in (MyEvent(kind="a.b", actor="ada"), {"kind": "a.b"}, None, "a.b"):
        assert short_way()(thing) is None  # type: ignore[arg-type]


def test_a_word_that_only_looks_revealing_is_judged_by_the_real_rules() -> None:
    event = replace(CLEAN, text="the token was counted: 7 tokens")
    assert short_way()(event) == long_way(event)


def test_deep_data_is_left_to_python_before_the_stack_ends() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert short_way()(Event(kind="a.b", actor="ada", data={"deep": deep})) is None


def test_data_that_holds_itself_is_left_to_python() -> None:
    data: dict[str, Any] = {}
    data["again"] = data
    assert short_way()(Event(kind="a.b", actor="ada", data=data)) is None


@given(st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31), timezones=st.just(UTC)))  # noqa: DTZ001 - what the strategy wants
@example(datetime(2000, 2, 29, 23, 59, 59, 999999, tzinfo=UTC))
@example(datetime(1, 1, 1, tzinfo=UTC))
def test_every_moment_is_written_as_python_writes_it(now: datetime) -> None:
    assert short_way(now)(CLEAN) == long_way(CLEAN, now)


def test_a_clock_that_is_not_in_utc_is_left_to_python() -> None:
    assert short_way(MOMENT.astimezone(timezone(timedelta(hours=5))))(CLEAN) is None


def test_patterns_of_the_users_own_are_for_python() -> None:
    assert make_fast_admission(Redactor(["make"]), now=clock.now, new_id=clock.uuid7) is None


def test_ctrl_c_is_not_taken_for_a_bad_event() -> None:
    def interrupted() -> datetime:
        raise KeyboardInterrupt

    way = make_fast_admission(Redactor(), now=interrupted, new_id=lambda: ID)
    assert way is not None
    with pytest.raises(KeyboardInterrupt):
        way(CLEAN)


def test_it_holds_on_to_nothing_that_it_was_given() -> None:
    text, data = "made for this " * 3, {"tool": "made for this " * 3}
    event, way = Event(kind="tool.called", actor="ada", text=text, data=data), short_way()
    bad = replace(event, data={"tool": text, "n": float("inf")})
    before = [sys.getrefcount(thing) for thing in (text, data, event, bad)]
    for _ in range(1000):
        way(event)
        way(bad)
    assert [sys.getrefcount(thing) for thing in (text, data, event, bad)] == before


# --- words

PIECES = (
    "token",
    "TOKEN",
    "task-",
    "sk-",
    "\nsk-",
    "x",
    " ",
    "=",
    "pass",
    "word",
    "é",
    "tok",
    "eyJ",
    "://a:b@c",
    "hf_",
    "Bearer ",
    "AKIA",
    "SG.",
    "KEY",
)
REVEALING = st.lists(st.sampled_from(PIECES), max_size=9).map("".join) | texts()


@given(REVEALING)
def test_what_is_suspected_is_the_same_with_it_and_without(text: str) -> None:
    raw = msgspec.json.encode({"text": text})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redact, "secret_word_search", lambda: None)
        slowly = Redactor().may_contain_secret(raw)
    assert Redactor().may_contain_secret(raw) == slowly


def test_an_extension_compiled_from_older_sources_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert make_fast_admission(Redactor(), now=clock.now, new_id=clock.uuid7) is not None
    monkeypatch.setattr(quick, "INTERFACE", 1)
    assert make_fast_admission(Redactor(), now=clock.now, new_id=clock.uuid7) is None


@given(st.binary(max_size=80), st.lists(st.binary(min_size=3, max_size=6).map(bytes.lower), max_size=64))
def test_words_are_found_wherever_they_stand(text: bytes, words: list[bytes]) -> None:
    assert quick.Words(tuple(words), ()).found_in(text) == any(word in text.lower() for word in words)


@pytest.mark.parametrize(
    ("text", "found"),
    [(b"sk-1", True), (b" SK-1", True), (b"task-1", False), (b"\\nsk-1", True), (b"\\u2192sk-1", True), (b"sk", False), (b"", False)],
)
def test_an_opener_counts_where_a_word_begins(text: bytes, found: bool) -> None:
    assert quick.Words((), (b"sk-",)).found_in(text) is found


@pytest.mark.parametrize("wrong", [((b"ab",), ()), (("abc",), ()), ((b"abc",) * 1025, ()), ([b"abc"], ()), ((b"abc",),)])
def test_words_that_cannot_be_looked_for_are_refused(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        quick.Words(*wrong)
    with pytest.raises(TypeError):
        quick.Words((b"abc",), ()).found_in("a text")


# --- ids


@pytest.mark.parametrize("make", [quick.uuid7, clock._Uuid7Generator()], ids=["compiled", "Python"])
def test_ids_are_version_7_and_ascend(make: Callable[[], str]) -> None:
    before = clock.now().timestamp()
    made = [make() for _ in range(10_000)]
    assert all(a < b for a, b in pairwise(made))
    assert len({text[20:] for text in made}) == len(made)
    first = UUID(made[0])
    assert (str(first), first.version, first.variant) == (made[0], 7, "specified in RFC 4122")
    assert before - 1 < (first.int >> 80) / 1000 < clock.now().timestamp() + 1


def test_where_nothing_was_compiled_python_makes_them() -> None:
    code = (
        "import sys; sys.modules['fleetlore._quick'] = None; from fleetlore import clock; print(type(clock.uuid7).__name__, clock.uuid7())"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert (said[0], UUID(said[1]).version) == ("_Uuid7Generator", 7)


def test_a_forked_child_draws_other_chances_than_its_parent() -> None:
    clock.uuid7()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, clock.uuid7().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 36).decode()[20:] != clock.uuid7()[20:]
    os.close(reading)
    os.close(writing)


# --- the envelope's fields


def test_an_event_with_a_field_that_has_no_check_is_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(admission._FAST_CHECKS, "text")
    assert short_way()(CLEAN) is None
    assert short_way()(replace(CLEAN, text=None)) is not None


@pytest.mark.parametrize(
    "checks", [{"text": "nonsense"}, {"kind": "text"}, {"data": "absent"}, dict.fromkeys(["actor", *SCOPE_FIELDS], "text")]
)
def test_an_envelope_that_makes_no_sense_is_refused(checks: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, check in checks.items():
        monkeypatch.setitem(admission._FAST_CHECKS, name, check)
    with pytest.raises(ValueError, match=r"check|envelope"):
        short_way()
