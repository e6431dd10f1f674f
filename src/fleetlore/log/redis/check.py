"""Verifies a town on a Redis server (`lore verify`): every entry against its checksum, its copies and the index of ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fleetlore.events.envelope import Event
from fleetlore.log.base import PAGE_SIZE, event_scopes
from fleetlore.log.blobs import list_cuts
from fleetlore.log.check_report import LogCheckReport, Problems, Progress, TownCheck
from fleetlore.log.redis.entry import decode_entry, decode_foreign_event, entry_data, is_entry_intact, to_position

if TYPE_CHECKING:
    from fleetlore.log.redis.log import RedisLog


def check_town(log: RedisLog, town: str, progress: Progress | None = None) -> LogCheckReport:
    """Read the whole town and compare everything that is stored twice. Others may go on writing. Changes nothing."""
    problems = Problems()
    check = _RedisTownCheck(log, town, problems)
    check.check_end()
    total, horizon = log.client.run_commands(("XLEN", log.keys.events), ("HGET", log.keys.meta, "horizon"))
    start = f"({horizon.decode()}" if horizon else "-"  # the rest was trimmed, and may be half removed
    while entries := log.client.run_commands(("XRANGE", log.keys.events, start, "+", "COUNT", PAGE_SIZE))[0]:
        check.check_entries(entries)
        start = f"({entries[-1][0].decode()}"
        if progress is not None:
            progress(min(check.events, total), total)
    return LogCheckReport(check.events, 1, problems.list_messages(), check.newer, check.without_checksum)


class _TownEntry(NamedTuple):
    """An intact event of ours in the town's stream."""

    entry: bytes
    data: bytes
    event: Event


class _RedisTownCheck(TownCheck):
    """Checks the entries of one town."""

    def __init__(self, log: RedisLog, town: str, problems: Problems) -> None:
        super().__init__(town, problems)
        self._log, self._keys = log, log.keys
        self._cut_streams: dict[str, bool] = {}

    def check_end(self) -> None:
        """Check that the stream still has the last entry that was acknowledged."""
        last, stream = self._log.client.run_commands(("HGET", self._keys.meta, "last"), ("EXISTS", self._keys.events))
        if last is None:
            return
        ends_at = b"0-0"
        if stream:
            [facts] = self._log.client.run_commands(("XINFO", "STREAM", self._keys.events))
            ends_at = facts[facts.index(b"last-generated-id") + 1]
        if to_position(ends_at) < to_position(last):
            self.add_problem(f"the stream ends at {to_position(ends_at)}, but {to_position(last)} was acknowledged")

    def check_entries(self, entries: Sequence[Any]) -> None:
        """Check a page of the town's stream."""
        events: list[_TownEntry] = []
        for entry, fields in entries:
            row = decode_entry(entry, fields)
            event = self.check_record(row.raw, row.position, is_intact=is_entry_intact(fields))
            data = entry_data(fields)
            if event is not None and decode_foreign_event(data) is None:
                events.append(_TownEntry(entry, data, event))
        if events:
            self._check_ids(events)
            self._check_copies(events)
            self._check_texts(events)

    def _check_ids(self, events: Sequence[_TownEntry]) -> None:
        [entries] = self._log.client.run_commands(("HMGET", self._keys.ids, *(str(event.id) for _, _, event in events)))
        for (entry, _, _), known in zip(events, entries, strict=True):
            if known != entry:
                self._add_if_still_there("the index of ids does not have the event here", entry)

    def _check_copies(self, events: Sequence[_TownEntry]) -> None:
        """Compare the copy in each scope's stream. One that others trimmed is no damage, but one that differs is."""
        places = [(entry, data, scope, self._keys.stream(scope)) for entry, data, event in events for scope in event_scopes(event)]
        copies = self._log.client.run_commands(*(("XRANGE", stream, entry, entry) for entry, _, _, stream in places))
        for (entry, data, scope, stream), copy in zip(places, copies, strict=True):
            if copy and entry_data(copy[0][1]) != data:
                self.add_problem(f"the copy in the scope {scope} is another", to_position(entry))
            elif not copy and not self._is_cut(stream):
                self._add_if_still_there(f"the scope {scope} does not have the event", entry)

    def _add_if_still_there(self, problem: str, entry: bytes) -> None:
        """Add a problem, unless the event was erased or trimmed meanwhile."""
        if self._log.client.run_commands(("XRANGE", self._keys.events, entry, entry))[0]:
            self.add_problem(problem, to_position(entry))

    def _is_cut(self, stream: str) -> bool:
        """Whether other programs have removed entries from a stream, as tinytown does."""
        if stream not in self._cut_streams:
            self._cut_streams[stream] = self._log.count_foreign_removals(stream) > 0
        return self._cut_streams[stream]

    def _check_texts(self, events: Sequence[_TownEntry]) -> None:
        """Check the whole texts of the events that were cut."""
        for entry, _, event in events:
            if list_cuts(event) and (packed := self._log.get_blobs(str(event.id))) is not None:
                self.check_texts(event, packed, to_position(entry))
