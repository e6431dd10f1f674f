"""A program that ships one log into another until it is killed: `python -m tests.ingest.shipping SOURCE TARGET`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from threading import Event as Flag

from msgspec.structs import replace

from fleetlore import Event, connect
from fleetlore.events import codec
from fleetlore.ingest.ship import Shipper, ShipStatus
from fleetlore.log.admission import MAX_EVENT_BYTES, MAX_STRING_BYTES


def largest_event(id: str) -> Event:
    """An event to which not a byte can be added."""
    event = Event(id=id, at=datetime(2026, 11, 15, tzinfo=UTC), kind="fleet.commit", actor="ada", agent="ada")
    data = {f"{n:03}": "y" * (MAX_STRING_BYTES - 200) for n in range(MAX_EVENT_BYTES // MAX_STRING_BYTES)}
    event = replace(event, data=data | {"last": ""})
    return replace(event, data=data | {"last": "z" * (MAX_EVENT_BYTES - len(codec.encode_event(event)))})


def _say(standing: ShipStatus) -> None:
    sys.stdout.write(f"{standing.state} {standing.shipped}\n")
    sys.stdout.flush()


def main(source: str, target: str) -> None:
    """Ship for ever, and say how far it has come."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    Shipper(connect(source).blocking, connect(target).blocking).run(Flag(), on_progress=_say)


if __name__ == "__main__":
    main(*sys.argv[1:])
