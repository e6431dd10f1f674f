"""Records at a glance: counted like the events that they are, whatever they hold."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from fleetlore.chronicle.overview import CLOSELY
from fleetlore.events import codec
from fleetlore.events.catalog import beat_of, known_kinds
from fleetlore.events.envelope import Event, Origin
from fleetlore.events.payload import Payload
from fleetlore.log.base import StoredRecord
from fleetlore.log.reading import decode_all_stored, decode_stored
from fleetlore.projections.chronology import PartialEvent, decode_partial_events
from fleetlore.views.event_text import event_rank

BY_DATA = sorted(kind for kind, payload in known_kinds().items() if "beat_for" in vars(payload) and payload is not Payload)
GOOD = b'{"id":"00000001-0000-7000-8000-000000000000","at":"2026-11-15T20:00:00.000000Z","kind":"fleet.commit","agent":"ada","v":1}'
ODD = [
    b"no JSON",
    b"[1]",
    b'{"kind":"fleet.commit","v":99}',
    b'{"kind":"fleet.commit","of_tomorrow":1,"v":1}',
    b'{"kind":"fleet.commit","data":[1],"v":1}',
    b'{"kind":"fleet.commit","agent":7,"v":1}',
    b'{"kind":"fleet.commit","visibility":"none","v":1}',
    GOOD.replace(b'"v":1', b'"v":99'),
    GOOD.replace(b'"ada"', b"7"),
    GOOD.replace(b'"v":1', b'"data":[1],"v":1'),
    GOOD.replace(b'"v":1', b'"text":"\xff","v":1'),
    GOOD.replace(b'"v":1', b'"text":"\\q","v":1'),
    GOOD.replace(b'000000Z"', b'000000"'),
    b'{"kind":"fleet.commit","data":{"output":"\xff"},"v":1}',
    b'{"kind":"fleet.commit","data":{"output":"\\q"},"v":1}',
    b'{"kind":"fleet.commit","data":{"output":' + b"[" * 5000 + b"]" * 5000 + b'},"v":1}',
]


def stored(*raws: bytes) -> list[StoredRecord]:
    return [StoredRecord(f"{number:016d}", raw) for number, raw in enumerate(raws, 1)]


def counted(event: Event) -> dict[str, Any]:
    """What a glimpse tells of an event, its data excepted."""
    told = {name: getattr(event, name) for name in PartialEvent.__struct_fields__ if name not in ("data", "origin")}
    return told | {"rank": event_rank(event)}


@pytest.mark.parametrize("odd", ODD)
def test_what_cannot_be_read_is_what_a_whole_reading_makes_of_it(odd: bytes) -> None:
    rows = stored(GOOD, odd, GOOD)
    each = [decode_stored(row) for row in rows]
    assert decode_all_stored(rows) == each
    assert list(map(counted, decode_partial_events(rows, ()))) == list(map(counted, each))


def test_a_glimpse_has_what_orders_and_counts_an_event_and_passes_the_rest_over() -> None:
    data = {"tool": "Bash", "output": "ö" * 100, "deed": "test"}
    event = Event(
        id=GOOD[7:43].decode(),
        at=datetime(2026, 11, 15, tzinfo=UTC),
        kind="tool.returned",
        actor="mira",
        agent="ada",
        child="bo",
        run="r1",
        text="ünïcode",
        data=data,
        origin=Origin(dialect="nexus", source="a.jsonl", n=7, rest={"much": ["more"]}),
    )
    [row] = stored(codec.encode(event))
    [glimpse] = decode_partial_events([row], ())
    assert isinstance(glimpse, PartialEvent)
    assert counted(glimpse) == counted(decode_stored(row))
    assert (glimpse.data.get("deed"), glimpse.data.get("output")) == ("test", None)


def test_kinds_that_are_looked_at_closely_are_whole() -> None:
    rows = stored(GOOD.replace(b"fleet.commit", b"model.replied"))
    assert decode_partial_events(rows, CLOSELY) == [decode_stored(row) for row in rows]


@pytest.mark.parametrize("kind", [kind for kind in BY_DATA if kind not in CLOSELY])
@pytest.mark.parametrize(
    "data", [{}, {"deed": "test", "subject": "pytest: 2 failed"}, {"deed": "look"}, {"interrupted": True}, {"deed": 7}]
)
def test_a_glimpse_has_the_beat_of_its_event(kind: str, data: dict[str, Any]) -> None:
    [row] = stored(codec.encode(Event(id=GOOD[7:43].decode(), kind=kind, agent="ada", data=data)))
    assert beat_of(decode_partial_events([row], CLOSELY)[0]) == beat_of(decode_stored(row))
    assert kind.startswith("tool."), "another kind whose beat depends on its data: name it in CLOSELY"
