"""Whether a worker is dead: its heartbeat must have stopped, and a second sign that does not depend on the first must say so, too."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from msgspec import Struct

from fleetlore.kernel.lease import is_dead
from fleetlore.log.coordination import Lease, Shared
from fleetlore.views.town_state import Town

BEATS_MISSED = 2.5
"""Renewals that a live worker cannot well miss."""
RENEWALS = 4
"""A lease is renewed so often in its time."""
LONGEST_SILENCE = 20.0
"""Seconds without a word on the log that are a sign, once the lease has ended."""


class Signs(Struct, frozen=True, kw_only=True):
    """What speaks for the death of whoever holds a lease."""

    lease: str
    heartbeat: str = ""
    second: str = ""

    @property
    def is_dead(self) -> bool:
        """Two signs, and not one less."""
        return bool(self.heartbeat and self.second)

    def __str__(self) -> str:
        return "; ".join(filter(None, (self.heartbeat, self.second)))


def lease_name(worker: str) -> str:
    """What a worker's lease is called in `log/coordination.py`."""
    return f"worker:{worker}"


def lease_text(lease: Lease) -> str:
    """A worker's lease as events name it: who, and the how-manieth taking."""
    return f"{lease.name.removeprefix('worker:')}@{lease.epoch}"


def look(shared: Shared, town: Town, now: datetime, *, silence: float = LONGEST_SILENCE) -> Iterator[Signs]:
    """Everybody who runs agents, and the signs that there are. Blocks."""
    for text, agents in list(town.holdings.items()):
        heard = max((seen for name in agents if (seen := town.agents[name].seen_at) is not None), default=None)
        yield signs(shared, text, heard, now, silence=silence)


def signs(shared: Shared, text: str, heard: datetime | None, now: datetime, *, silence: float = LONGEST_SILENCE) -> Signs:
    """The signs for one worker's lease. Blocks."""
    worker, _, epoch = text.rpartition("@")
    held = shared.holder_of(lease_name(worker))
    if held is None or str(held.epoch) != epoch:
        if held is not None or is_dead(worker):
            second = "its process is gone" if held is None else "it was started anew"
        else:
            second = _silence(heard, now, timedelta(seconds=silence))
        return Signs(lease=text, heartbeat="its lease has ended", second=second)
    renewed = held.until - timedelta(seconds=held.seconds)
    if now - renewed > timedelta(seconds=BEATS_MISSED * held.seconds / RENEWALS):
        gone = "its process is gone" if is_dead(held.holder) else ""
        return Signs(lease=text, heartbeat="its heartbeat has stopped", second=gone)
    return Signs(lease=text)


def _silence(heard: datetime | None, now: datetime, longest: timedelta) -> str:
    if heard is None or heard - now > longest:  # who tells the time can be wrong, or lie: what is yet to come is no sign of life
        return "nothing was heard of it"
    return "" if now - heard <= longest else f"nothing was heard of it for {(now - heard).total_seconds():.0f} s"
