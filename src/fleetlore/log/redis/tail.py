"""Follows a Redis stream with blocking reads, and reports a gap when entries were removed before they were read."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from threading import Event, Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from fleetlore.log.base import PAGE_SIZE, Position, TailPage
from fleetlore.log.redis import scripts
from fleetlore.log.redis.client import ConnectionBroken, ScriptMissing
from fleetlore.log.redis.entry import MAX_POSITION, position_before, to_entry_id, to_position

if TYPE_CHECKING:
    from fleetlore.log.redis.log import RedisLog

_logger = logging.getLogger("fleetlore.log")
_FROM_THE_START = "0-0"
_MAX_BLOCK_SECONDS = 1.0
_RECONNECT_SECONDS = 0.25


class _StreamSnapshot(NamedTuple):
    """State of a stream at one moment, as returned by the `READ_STREAM` script. Empty bytes stand for a missing value."""

    entries: list[Any]
    added: int
    """How many entries were ever added to the stream."""
    length: int
    first: bytes
    """Id of the first entry."""
    last: bytes
    """Id of the last entry that was ever added."""
    horizon: bytes
    """Entries up to this id are trimmed: hidden at once, removed later."""
    cut: bytes
    """Id of the last entry of the town's stream that was trimmed; at or below the horizon."""
    erased: bytes
    """Not empty if events were ever erased from this log."""
    removed: bytes
    """How many entries Fleetlore itself removed from the stream."""
    log_id: bytes
    newest: bytes
    """Id of the last entry that Fleetlore added to the town."""

    def count_foreign_removals(self) -> int:
        """Return how many entries other programs have removed, for example with `XTRIM`."""
        missing, removed = self.added - self.length, int(self.removed)
        return missing - removed if removed <= self.added else missing  # otherwise the stream was deleted and restarted


class RedisTail:
    """Follows one stream on its own connection. If the server is unavailable, it waits and reconnects."""

    def __init__(self, log: RedisLog, stream: str, after: Position | None) -> None:
        self._log, self._stream, self._after = log, stream, after
        self._horizon = ""
        """Everything at or below this position was trimmed and is not requested."""
        self._connection = log.client.open_connection()
        self._foreign_removals = 0
        self._use_lock = Lock()
        self._close_event = Event()
        self._is_disconnected = False

    def next_page(self, timeout: float) -> TailPage:
        """Return the next records, or an empty page after `timeout`."""
        deadline = monotonic() + timeout
        with self._use_lock:
            while not self._close_event.is_set():
                self._log.client.check_open()
                try:
                    page = self._read_page()
                    if page.rows or page.gap or monotonic() >= deadline:
                        return page
                    self._wait_for_entries(deadline - monotonic())
                except ConnectionBroken as broken:
                    self._log_connection_lost(broken)
                    if self._close_event.wait(max(0.0, min(_RECONNECT_SECONDS, deadline - monotonic()))) or monotonic() >= deadline:
                        break
            if self._close_event.is_set():
                self._connection.disconnect()
        return TailPage([])

    def _read_page(self) -> TailPage:
        start = max(self._after or "", self._horizon)
        if start >= MAX_POSITION:
            return TailPage([])
        keys = self._log.keys
        call = self._log.client.make_script_command(
            scripts.READ_STREAM, [self._stream, keys.meta, keys.removed], [f"({to_entry_id(start)}" if start else "-", PAGE_SIZE]
        )
        known = self._log.known_log
        snapshot = _StreamSnapshot(*self._run_script(call))
        self._log.check_identity(snapshot.log_id, snapshot.newest, known)
        self._horizon = to_position(snapshot.horizon) if snapshot.horizon else ""
        gap = self._find_gap(snapshot)
        rows = [
            row
            for row in self._log.decode_entries(snapshot.entries, erased=bool(snapshot.erased))
            if row.position > max(self._horizon, gap or "")
        ]
        last = to_position(snapshot.entries[-1][0]) if snapshot.entries else ""
        if last > self._horizon or gap:  # if all entries are hidden by the horizon, nothing was read
            self._after = max(last, gap or "", self._after or "")
        return TailPage(rows, gap)

    def _find_gap(self, snapshot: _StreamSnapshot) -> Position | None:
        """Return the position up to which unread entries were removed, or `None`.

        The position is never too low. For the stream of a scope it may be too high.
        """
        after, known = self._after, self._foreign_removals
        self._foreign_removals = snapshot.count_foreign_removals()
        if after is None:
            return None
        trimmed = snapshot.cut if self._stream == self._log.keys.events else snapshot.horizon
        candidates = [to_position(trimmed)] if trimmed else []
        if self._foreign_removals > known:
            if not snapshot.first:
                candidates.append(to_position(snapshot.last))
            elif to_position(snapshot.first) > after:
                candidates.append(position_before(to_position(snapshot.first)))
        gap = max(candidates, default="")
        return gap if gap > after else None

    def _wait_for_entries(self, seconds: float) -> None:
        """Wait until an entry is added after the last one read, or until the time is up."""
        block_seconds = min(seconds, _MAX_BLOCK_SECONDS, self._log.client.timeout / 2)
        start = max(self._after or "", self._horizon)
        if start >= MAX_POSITION:
            self._close_event.wait(block_seconds)
            return
        start_id = to_entry_id(start) if start else _FROM_THE_START
        self._send_command([("XREAD", "COUNT", 1, "BLOCK", max(1, int(block_seconds * 1000)), "STREAMS", self._stream, start_id)])

    def _run_script(self, call: Sequence[Any]) -> Any:
        try:
            return self._send_command([call])
        except ScriptMissing:
            return self._send_command([self._log.client.to_eval_command(call)])

    def _send_command(self, commands: Sequence[Any]) -> Any:
        [answer] = self._connection.run_commands(commands)
        if self._is_disconnected:
            self._is_disconnected = False
            _logger.info("%s: connected again; following continues", self._log.client.address)
        if isinstance(answer, ScriptMissing):
            raise answer
        return self._log.client.unwrap_answer(answer)

    def _log_connection_lost(self, broken: ConnectionBroken) -> None:
        if not self._is_disconnected and not self._close_event.is_set():
            self._is_disconnected = True
            _logger.warning("%s: lost the connection (%s); following continues when the server is back", self._log.client.address, broken)

    def close(self) -> None:
        """Stop waiting and close the connection. If a thread is in `next_page`, that thread closes it."""
        self._close_event.set()
        if self._log.client.is_forked_child:
            return  # the connection belongs to the parent
        self._connection.interrupt()
        if self._use_lock.acquire(blocking=False):
            self._connection.disconnect()
            self._use_lock.release()
