"""When things happened, in a bounded number of buckets. Folded in any order: the same events give the same picture."""

from __future__ import annotations

from datetime import datetime, timedelta

from fleetlore.events.catalog import beat_of
from fleetlore.events.envelope import Event
from fleetlore.views.activity import BEAT_FAMILIES, find_beat_family
from fleetlore.views.event_text import EPOCH, event_stamp

MOST_BUCKETS = 96
# 0001-01-01 and 9999-12-31 in seconds: where the calendar ends.
_FIRST, _LAST = -62_135_596_800, 253_402_300_799


class Timeline:
    """Counts events by time and family. A bucket is as many seconds long as a power of two says, the least that suffices."""

    def __init__(self) -> None:
        self.seconds = 1
        self.buckets: dict[int, list[int]] = {}
        self._low = self._high = 0

    def see(self, event: Event) -> None:
        """One more event."""
        at = event_stamp(event)[0] - EPOCH
        index = (at.days * 86400 + at.seconds) // self.seconds
        if not self.buckets:
            self._low = self._high = index
        elif index < self._low or index > self._high:
            index = self._widen(index)
        bucket = self.buckets.get(index)
        if bucket is None:
            bucket = self.buckets[index] = [0] * len(BEAT_FAMILIES)
        bucket[find_beat_family(beat_of(event))] += 1

    def _widen(self, index: int) -> int:
        """Make room for a bucket; answers where it is now."""
        self._low, self._high = min(self._low, index), max(self._high, index)
        while self._high - self._low >= MOST_BUCKETS:
            self.seconds *= 2
            self._low, self._high, index = self._low // 2, self._high // 2, index // 2
            halved: dict[int, list[int]] = {}
            for place, counts in self.buckets.items():
                bucket = halved.setdefault(place // 2, [0] * len(BEAT_FAMILIES))
                for family, count in enumerate(counts):
                    bucket[family] += count
            self.buckets = halved
        return index

    def columns(self) -> list[list[int]]:
        """The buckets from the first to the last, empty ones among them."""
        return [self.buckets.get(index, [0] * len(BEAT_FAMILIES)) for index in range(self._low, self._high + 1)] if self.buckets else []

    def length(self) -> timedelta:
        """How long one bucket is."""
        return timedelta(seconds=self.seconds)

    def start(self) -> datetime:
        """When the first bucket begins."""
        return _moment(self._low * self.seconds)

    def end(self) -> datetime:
        """When the last bucket is over."""
        return _moment((self._high + 1) * self.seconds)


def _moment(seconds: int) -> datetime:
    return EPOCH + timedelta(seconds=min(max(seconds, _FIRST), _LAST))
