"""Hypothesis strategies for events, shared by every test that wants an arbitrary valid one.

Each is made once: hypothesis looks through a new one before it draws from it, which takes longer than the drawing.
"""

from __future__ import annotations

from datetime import UTC
from functools import cache
from typing import Any

from hypothesis import strategies as st

from fleetlore.events import catalog
from fleetlore.events.envelope import Cut, Event, LogPlace, Mac, Origin

FITTING: dict[str, dict[str, Any]] = {
    "session.waiting": {"why": "permission"},
    "tool.called": {"tool": "Bash", "input": {"command": "make"}},
    "model.replied": {"model": "m", "input": 3, "output": 4, "usd": 0.01},
    "work.lease_taken": {"epoch": 1},
    "log.rejected": {"reason": "not JSON", "n": 7},
    "driver.escalate": {"goal_id": "00000000-0000-4000-8000-000000000000", "reason": "stuck"},
}
"""Kinds that refuse a misfit, each with data that fits."""


@cache
def texts(max_size: int = 60) -> st.SearchStrategy[str]:
    """Any text that UTF-8 can hold, control characters and right-to-left marks included."""
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=max_size)


@cache
def names() -> st.SearchStrategy[str]:
    """Values of a scope: 1 to 200 bytes, no control characters."""
    return st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=50)


@cache
def uuids() -> st.SearchStrategy[str]:
    """UUIDs of any version, in canonical form."""
    return st.uuids().map(str)


@cache
def json_values() -> st.SearchStrategy[Any]:
    """Any JSON value, nested a little."""
    leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts(20)
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(8), inner, max_size=3), max_leaves=8)


@cache
def json_objects() -> st.SearchStrategy[dict[str, Any]]:
    """Any JSON object."""
    return st.dictionaries(texts(8), json_values(), max_size=4)


@cache
def free_kinds() -> st.SearchStrategy[str]:
    """Kinds whose data is free: unknown ones, and those of foreign writers."""
    lenient = [kind for kind, payload in catalog.known_kinds().items() if payload.lenient]
    unknown = st.from_regex(r"[a-z][a-z0-9_]{0,9}(\.[a-z][a-z0-9_]{0,9}){1,3}", fullmatch=True).filter(
        lambda kind: catalog.find_payload(kind) is None
    )
    return st.sampled_from(lenient) | unknown


@cache
def kinds_with_data() -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    """A kind and data that fits it."""
    return st.tuples(free_kinds(), json_objects()) | st.sampled_from(list(FITTING.items()))


@cache
def origins() -> st.SearchStrategy[Origin]:
    """Where a foreign record came from."""
    cuts = st.builds(Cut, path=texts(20), bytes=st.integers(0, 2**40), sha256=st.binary(min_size=32, max_size=32).map(bytes.hex))
    return st.builds(
        Origin,
        dialect=st.sampled_from(["nexus", "tinytown", "nexo", "stage", "cloudevents"]),
        source=st.none() | texts(),
        n=st.none() | st.integers(0, 2**60),
        id=st.none() | texts(),
        at=st.none() | texts(40),
        rest=json_values(),
        cut=st.lists(cuts, max_size=2).map(tuple),
        redacted=st.integers(0, 9),
        log=st.none() | st.builds(LogPlace, id=uuids(), position=st.from_regex(r"[0-9]{20}", fullmatch=True)),
    )


@cache
def events() -> st.SearchStrategy[Event]:
    """Any valid event as the recorder would store it: with id, time and actor, every other field there or not."""
    fields: dict[str, st.SearchStrategy[Any]] = {
        "id": uuids(),
        "at": st.datetimes(timezones=st.just(UTC)),
        "actor": names(),
        "visibility": st.sampled_from(["public", "private", "system"]),
    }
    optional: dict[str, st.SearchStrategy[Any]] = {
        **dict.fromkeys(("agent", "parent", "child", "task", "mission", "goal", "run", "old_state", "new_state"), names()),
        "cause": uuids(),
        "trace": st.from_regex(r"00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]", fullmatch=True),
        "text": texts(),
        "origin": origins(),
        "mac": st.builds(Mac, key=names(), hex=st.binary(min_size=32, max_size=32).map(bytes.hex)),
    }
    return st.builds(_event, kinds_with_data(), st.fixed_dictionaries(fields, optional=optional))


def _event(kind_with_data: tuple[str, dict[str, Any]], fields: dict[str, Any]) -> Event:
    kind, data = kind_with_data
    return Event(kind=kind, data=data, **fields)
