"""Whether a worker is dead: its heartbeat must have stopped, and a second sign that does not depend on the first must say so, too."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from msgspec import Struct

from fleetlore.kernel.lease import is_dead
from fleetlore.log.coordination import Coordination, Lease
from fleetlore.views.town_state import TownState

MAX_MISSED_RENEWALS = 2.5
"""Renewals that a live worker cannot well miss."""
RENEWALS_PER_LEASE = 4
"""A lease is renewed so often in its time."""
MAX_SILENCE_SECONDS = 20.0
"""Seconds without a word on the log that are a sign, once the lease has ended."""


class LivenessEvidence(Struct, frozen=True, kw_only=True):
    """What speaks for the death of whoever holds a lease."""

    lease: str
    heartbeat: str = ""
    second_sign: str = ""

    @property
    def is_dead(self) -> bool:
        """Two signs, and not one less."""
        return bool(self.heartbeat and self.second_sign)

    def __str__(self) -> str:
        return "; ".join(filter(None, (self.heartbeat, self.second_sign)))


def lease_name(worker: str) -> str:
    """What a worker's lease is called in `log/coordination.py`."""
    return f"worker:{worker}"


def format_worker_lease(lease: Lease) -> str:
    """A worker's lease as events name it: who, and the how-manieth taking."""
    return f"{lease.name.removeprefix('worker:')}@{lease.epoch}"


def check_workers(
    shared: Coordination, town: TownState, now: datetime, *, silence: float = MAX_SILENCE_SECONDS
) -> Iterator[LivenessEvidence]:
    """Everybody who runs agents, and the signs that there are. Blocks."""
    for text, agents in list(town.holdings.items()):
        heard = max((seen for name in agents if (seen := town.agents[name].seen_at) is not None), default=None)
        yield check_worker(shared, text, heard, now, silence=silence)


def check_worker(
    shared: Coordination, text: str, heard: datetime | None, now: datetime, *, silence: float = MAX_SILENCE_SECONDS
) -> LivenessEvidence:
    """The signs for one worker's lease. Blocks."""
    worker, _, epoch = text.rpartition("@")
    held = shared.find_lease(lease_name(worker))
    if held is None or str(held.epoch) != epoch:
        if held is not None or is_dead(worker):
            second = "its process is gone" if held is None else "it was started anew"
        else:
            second = _describe_silence(heard, now, timedelta(seconds=silence))
        return LivenessEvidence(lease=text, heartbeat="its lease has ended", second_sign=second)
    renewed = held.until - timedelta(seconds=held.seconds)
    if now - renewed > timedelta(seconds=MAX_MISSED_RENEWALS * held.seconds / RENEWALS_PER_LEASE):
        gone = "its process is gone" if is_dead(held.holder) else ""
        return LivenessEvidence(lease=text, heartbeat="its heartbeat has stopped", second_sign=gone)
    return LivenessEvidence(lease=text)


def _describe_silence(heard: datetime | None, now: datetime, longest: timedelta) -> str:
    if heard is None or heard - now > longest:  # who tells the time can be wrong, or lie: what is yet to come is no sign of life
        return "nothing was heard of it"
    return "" if now - heard <= longest else f"nothing was heard of it for {(now - heard).total_seconds():.0f} s"
