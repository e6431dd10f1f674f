"""Following a stream: woken by the server, and told when entries were cut before they were read."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from threading import Event, Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from fleetlore.log.base import PAGE, Page, Position
from fleetlore.log.redis_client import Broken, Refusal
from fleetlore.log.redis_entry import just_before, read, to_entry, to_position

if TYPE_CHECKING:
    from fleetlore.log.redis import RedisLog

_logger = logging.getLogger("fleetlore.log")
_FROM_THE_START = "0-0"
_LONGEST_BLOCK = 1.0
_PAUSE = 0.25
_KICK = 0.005


class RedisTail:
    """Waits on a connection of its own. A server that is gone for a while is waited for."""

    def __init__(self, log: RedisLog, stream: str, after: Position | None) -> None:
        self._log, self._stream, self._after = log, stream, after
        self._line = log.client.line()
        self._cut_by_others = 0
        self._in_use = Lock()
        self._ended = Event()
        self._lost = False

    def next(self, timeout: float) -> Page:
        """The next records."""
        deadline = monotonic() + timeout
        with self._in_use:
            while not self._ended.is_set():
                self._log.client.check_open()
                try:
                    page = self._page()
                    if page.rows or page.gap or monotonic() >= deadline:
                        return page
                    self._wait(deadline - monotonic())
                except Broken as broken:
                    self._say_lost(broken)
                    if self._ended.wait(max(0.0, min(_PAUSE, deadline - monotonic()))) or monotonic() >= deadline:
                        break
        return Page([])

    def _page(self) -> Page:
        keys = self._log.keys
        start = f"({to_entry(self._after)}" if self._after is not None else "-"
        commands = (
            ("MULTI",),
            ("XRANGE", self._stream, start, "+", "COUNT", PAGE),
            ("XINFO", "STREAM", self._stream),
            ("HGET", keys.meta, "horizon"),
            ("HGET", keys.removed, self._stream),
            ("EXEC",),
        )
        snapshot = self._log.client.accepted(self._ask(commands)[-1])
        entries, stream, horizon, removed = snapshot
        rows = [read(entry, fields) for entry, fields in self._log.client.accepted(entries)]
        cut = max(self._cut_at(horizon), self._cut_unseen(stream, int(removed or 0)))
        gap = None
        if self._after is not None and cut > self._after:
            gap = cut
        rows = [row for row in rows if row.position > cut]
        if rows or gap:
            self._after = rows[-1].position if rows else gap
        return Page(rows, gap)

    @staticmethod
    def _cut_at(horizon: bytes | None) -> Position:
        return to_position(horizon) if horizon else ""

    def _cut_unseen(self, stream: Any, removed: int) -> Position:
        """Up to where others have cut entries that we had not read, as a MAXLEN of theirs does; never too low."""
        if isinstance(stream, Refusal):
            return ""
        facts = dict(zip(stream[::2], stream[1::2], strict=True))
        gone = facts[b"entries-added"] - facts[b"length"] - removed
        known, self._cut_by_others = self._cut_by_others, gone
        if self._after is None or gone <= known:
            return ""
        first = facts[b"first-entry"]
        if first is None:
            return to_position(facts[b"last-generated-id"])
        return just_before(to_position(first[0])) if to_position(first[0]) > self._after else ""

    def _wait(self, seconds: float) -> None:
        """Until something is added behind what we have read, or the time is over."""
        longest = min(seconds, _LONGEST_BLOCK, self._log.client.timeout / 2)
        start = to_entry(self._after) if self._after is not None else _FROM_THE_START
        self._ask([("XREAD", "COUNT", 1, "BLOCK", max(1, int(longest * 1000)), "STREAMS", self._stream, start)])

    def _ask(self, commands: Sequence[Any]) -> list[Any]:
        answers = self._line.ask(commands)
        if self._lost:
            self._lost = False
            _logger.info("%s: the server is back; following goes on", self._log.client.address)
        return answers

    def _say_lost(self, broken: Broken) -> None:
        if not self._lost and not self._ended.is_set():
            self._lost = True
            _logger.warning("%s: the connection is lost (%s); following goes on when the server is back", self._log.client.address, broken)

    def close(self) -> None:
        """Stop waiting, and let the connection go."""
        self._ended.set()
        self._line.interrupt()
        while not self._in_use.acquire(timeout=_KICK):
            self._line.interrupt()  # it was not waiting yet
        try:
            self._line.hang_up()
        finally:
            self._in_use.release()
