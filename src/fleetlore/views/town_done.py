"""The tasks that a town has completed: who depends on one of them need not wait. A digest is kept of each, for there is no end to them."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from hashlib import blake2b

from msgspec import Struct, field

MOST_NAMED = 4_000
"""So many of the newest are known by name: those that may be taken up again are among them."""
NAMED_MORE = 1_000
"""So many more may come together before the oldest names become digests."""
MOST_DIGESTS = 100_000
"""With so many of them together, those that came together before are let go."""


class Done(Struct, kw_only=True):
    """Ids of completed tasks: of the newest hundred thousand it is known for certain whether they are among them."""

    named: dict[str, None] = field(default_factory=dict)
    """The newest, oldest first."""
    digests: bytes = b""
    """Eight bytes for each that has no name here any more, in their order."""
    before: bytes = b""
    """The same of those before them."""

    def __contains__(self, id: object) -> bool:
        return id in self.named or (isinstance(id, str) and any(_holds(each, id) for each in (self.digests, self.before)))

    def add(self, id: str) -> None:
        """One more."""
        self.named[id] = None
        if len(self.named) >= MOST_NAMED + NAMED_MORE:
            self._shorten()

    def discard(self, id: str) -> None:
        """One of the newest is not completed after all."""
        self.named.pop(id, None)

    def _shorten(self) -> None:
        oldest = list(self.named)[:-MOST_NAMED]
        known = array("Q", self.digests)
        known.extend(map(_digest, oldest))
        self.digests = array("Q", sorted(known)).tobytes()
        if len(known) >= MOST_DIGESTS:
            self.before, self.digests = self.digests, b""
        self.named = dict.fromkeys(list(self.named)[-MOST_NAMED:])


def _holds(digests: bytes, id: str) -> bool:
    if not digests:
        return False
    known, digest = memoryview(digests).cast("Q"), _digest(id)
    index = bisect_left(known, digest)
    return index < len(known) and known[index] == digest


def _digest(id: str) -> int:
    return int.from_bytes(blake2b(id.encode(errors="replace"), digest_size=8).digest(), "big")
