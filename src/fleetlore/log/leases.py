"""A lease: an exclusive right that expires, and its epochs.

Every acquisition has an epoch (fencing token) that only grows. The holder passes the epoch on, and whatever it acts on rejects
an epoch lower than it has seen, so a holder that was suspended past its expiry does no harm. `coordination.py` grants leases.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec import Struct

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Lease(Struct, frozen=True, kw_only=True):
    """One acquisition of a lease."""

    name: str
    holder: str
    epoch: int
    """Higher than every earlier epoch of this name on this log, forever; renewing keeps it."""
    until: datetime
    """Expiry unless renewed. A hint: the store decides by its own clock."""
    seconds: float
    """The requested duration."""


def next_epoch(last: int, now: int) -> int:
    """Return the epoch after `last` at time `now` (microseconds).

    It is at least the time, so epochs keep growing even if the last one was lost: after restoring a backup, or when a
    server lost its last second of writes.
    """
    return max(last + 1, now)


def seconds_to_microseconds(seconds: float) -> int:
    """Convert a lease duration to microseconds."""
    return timedelta(seconds=seconds) // _MICROSECOND


def make_lease(name: str, holder: str, epoch: int, until: int, seconds: float) -> Lease:
    """Build a lease from its stored values."""
    return Lease(name=name, holder=holder, epoch=epoch, until=_EPOCH + until * _MICROSECOND, seconds=seconds)
