"""Reads the records of OpenAI's Codex CLI: rollouts, `exec --json` streams and hooks, one JSON object per line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec

from fleetlore.dialects.fields import as_object, read_time
from fleetlore.dialects.recording import QUIET, Recording, RecordReader, parse_record
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.codex.hooks import read_hook
from fleetlore.programs.codex.ids import NAME, CodexEventContext, derive_codex_id
from fleetlore.programs.codex.messages import end_answered_turn, flush_reply_text, flush_waiting_prompt
from fleetlore.programs.codex.reader_state import CodexReaderState
from fleetlore.programs.codex.rollout import (
    CONTEXT_HANDLERS,
    IGNORED_ROW_TYPES,
    RolloutRow,
    is_inherited_row,
    make_row,
    read_session,
    read_unknown,
)
from fleetlore.programs.codex.rollout_events import read_compaction, read_event_row, read_response_row
from fleetlore.programs.codex.stream import flush_stream, is_stream_record, read_stream_record
from fleetlore.programs.codex.usage import count_response, find_model

__all__ = ["RECORDING", "CodexTranscriptReader", "read_hook"]

_READER_BY_ROW_TYPE: Mapping[str, Callable[[CodexReaderState, RolloutRow], list[Event]]] = {
    **CONTEXT_HANDLERS,
    "event_msg": read_event_row,
    "response_item": read_response_row,
    "compacted": read_compaction,
}


class CodexTranscriptReader:
    """Reads one source with records of any of the three formats."""

    def __init__(self, reader_state: CodexReaderState) -> None:
        self._state = reader_state

    def read(self, raw: bytes) -> list[Event]:
        """The events of a record."""
        record = parse_record(raw)
        if "hook_event_name" in record:
            self._state.n += 1
            id = derive_codex_id("hook", self._state.n, raw.decode(errors="replace"))
            return read_hook(record, id=id, at=read_time(record.get("timestamp")))
        if is_stream_record(record):
            return read_stream_record(self._state, record, raw)
        return _read_row(self._state, make_row(self._state, record, len(raw)))

    def flush_complete(self) -> list[Event]:
        """Nothing: reply text waits for its usage, which comes within a second, and prompts for the event that confirms them."""
        return []

    def end(self, now: datetime | None = None) -> list[Event]:
        """The held-back reply text and prompt, and the end of a turn that no record marks."""
        reader_state = self._state
        if reader_state.chain:  # the source is an `exec --json` stream
            return flush_stream(reader_state)
        context = CodexEventContext(None, reader_state.agent, reader_state.thread, reader_state.parent)
        row = RolloutRow({}, {}, context, 0, f"{reader_state.thread}:end")  # an empty row in place of the one that never comes
        events = [*flush_waiting_prompt(reader_state, row), *flush_reply_text(reader_state, row)]
        at = reader_state.answer.at if reader_state.answer else None
        # A young answer may only announce a tool call that is still to be written.
        is_quiet = now is None or at is None or now - at >= QUIET
        return events + (end_answered_turn(reader_state, row) if is_quiet else [])

    def save(self) -> bytes:
        """The state, as JSON."""
        return msgspec.json.encode(self._state)


def _read_row(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    name = row.record.get("type")
    if "payload" not in row.record:
        return _read_flat_row(reader_state, row)
    if is_inherited_row(reader_state, row):
        return _apply_inherited_row(reader_state, row)
    if not isinstance(name, str):
        return read_unknown(reader_state, row)
    read = _READER_BY_ROW_TYPE.get(name)
    if read is not None:
        return read(reader_state, row)
    return [] if name in IGNORED_ROW_TYPES else read_unknown(reader_state, row)


def _apply_inherited_row(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    """A record copied from the parent: reported there; only the state that the thread continues with is kept."""
    if row.record.get("type") == "turn_context":
        reader_state.model = find_model(row.payload) or reader_state.model
    elif row.payload.get("type") == "token_count":
        count_response(reader_state.meter, as_object(row.payload.get("info")))
    return []


def _read_flat_row(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    """A line of the oldest format: a header without a type, then response items without an envelope."""
    record: Record = row.record
    reader_state.flat = reader_state.flat or reader_state.thread is None
    if "type" in record:
        row = row._replace(payload=record)
        return read_response_row(reader_state, row) if isinstance(record["type"], str) else read_unknown(reader_state, row)
    if isinstance(record.get("id"), str) and reader_state.thread is None:
        return read_session(reader_state, row._replace(payload=record))
    return [] if "record_type" in record else read_unknown(reader_state, row)


def _open_reader(state: bytes | None) -> RecordReader:
    return CodexTranscriptReader(CodexReaderState() if not state else msgspec.json.decode(state, type=CodexReaderState))


RECORDING = Recording(name=NAME, open=_open_reader)
"""Reads the recordings of Codex."""
