"""Reads rollouts of Codex: lines of `{"timestamp", "type", "payload"}`, and the flat lines of the oldest versions.

Codex writes most things two or three times: as input or output of the model (`response_item`), as an event for its screens
(`event_msg`), and as a finished item. Each becomes one event, at its first record; `docs/dialects.md` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from fleetlore.dialects.fields import EPOCH, as_count, as_name, as_object, as_text, read_time, to_snake_case
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.codex.ids import (
    NAME,
    PROGRAM,
    CallLocation,
    CodexEventContext,
    derive_codex_id,
    session_started_id,
    subagent_launched_id,
    thread_agent,
    uuid7_milliseconds,
)
from fleetlore.programs.codex.reader_state import CodexReaderState, HistoryReplay
from fleetlore.programs.codex.usage import find_model, note_response
from fleetlore.programs.sessions import bound_record, guess_task, project_name

# --- Records copied from a parent: the rollout of a sub-agent or a fork may start with a copy of its parent's history.

REPLAY_GAP_MS = 1000
"""As in `ccusage`, which found copies written within 40 ms, and first turns after 5 s or more."""


def find_parent_thread(meta: Record) -> str | None:
    """The thread that launched this one as a sub-agent."""
    spawned = find_spawn_data(meta)
    launched = bool(spawned) or meta.get("thread_source") == "subagent"
    return as_text(spawned.get("parent_thread_id")) or (as_text(meta.get("parent_thread_id")) if launched else None)


def find_spawn_data(meta: Record) -> dict[str, Any]:
    """The fields about a sub-agent's launch."""
    source = meta.get("source")
    launched = source.get("subagent") if isinstance(source, dict) else None
    return as_object(as_object(launched).get("thread_spawn"))


def make_expected_replay(meta: Record, *, ordinal: object, at: datetime | None) -> HistoryReplay | None:
    """The replay that a thread with this header may start with."""
    if as_text(meta.get("forked_from_id")) is None and find_parent_thread(meta) is None:
        return None
    if as_object(meta.get("history_base")):  # a paginated rollout names the parent's file instead of copying from it
        return None
    first, base = as_count(ordinal), as_count(meta.get("forked_from_ordinal_exclusive"))
    if first is not None and base is not None and first >= base:
        return None
    until = as_count(meta.get("subagent_history_start_ordinal"))
    born = uuid7_milliseconds(meta.get("id"))
    return HistoryReplay(until=until, born=_to_milliseconds(at) if born is None else born, last=_to_milliseconds(at))


def is_inherited_record(reader_state: CodexReaderState, record: Record, payload: Record, at: datetime | None) -> bool:
    """Whether this record repeats the parent's; the first that does not ends the replay."""
    replay = reader_state.replay
    if replay is None:
        return False
    ordinal = as_count(record.get("ordinal"))
    if replay.until is not None and ordinal is not None:
        inherited = ordinal < replay.until
    else:
        inherited = _looks_inherited(reader_state, replay, record, payload, at)
    if not inherited:
        reader_state.replay = None
        return False
    # A wrong guess only drops usage: all other copies have the ids of the originals and are stored once.
    return replay.sure or replay.until is not None or payload.get("type") == "token_count" or record.get("type") == "token_usage_record"


def _looks_inherited(reader_state: CodexReaderState, replay: HistoryReplay, record: Record, payload: Record, at: datetime | None) -> bool:
    if record.get("type") == "session_meta":
        replay.sure = replay.sure or payload.get("id") != reader_state.thread
        return True
    if reader_state.thread is not None and payload.get("thread_id") == reader_state.thread:
        return False
    turned = uuid7_milliseconds(
        payload.get("turn_id") or as_object(payload.get("internal_chat_message_metadata_passthrough")).get("turn_id")
    )
    if turned is not None and replay.born is not None:
        return turned < replay.born
    now, before = _to_milliseconds(at), replay.last
    if now is None:
        return True
    if replay.born is not None and now < replay.born - REPLAY_GAP_MS:
        replay.kept_times = replay.sure = True
        return True
    replay.last = now
    return not replay.kept_times and (before is None or now - before <= REPLAY_GAP_MS)


def _to_milliseconds(at: datetime | None) -> int | None:
    return None if at is None else int((at - EPOCH).total_seconds() * 1000)


# ---


class RolloutRow(NamedTuple):
    """One record and its context."""

    record: Record
    payload: Record
    event_context: CodexEventContext
    size: int
    key: str
    """A key for a record without an id: its time, else its place."""

    def get_text(self, key: str) -> str | None:
        """The string under a key of the payload, if not empty."""
        return as_text(self.payload.get(key))

    def find_call_location(self, reader_state: CodexReaderState) -> CallLocation:
        """The thread and the turn that it belongs to."""
        return CallLocation(
            reader_state.thread,
            self.get_text("turn_id") or as_text(as_object(self.payload.get(PASSTHROUGH_KEY)).get("turn_id")) or reader_state.turn,
        )


PASSTHROUGH_KEY = "internal_chat_message_metadata_passthrough"
"""Keys under which responses name their turn and author."""

RowHandler = Callable[[CodexReaderState, RolloutRow], list[Event]]

IGNORED_ROW_TYPES = frozenset(
    (
        "world_state",
        "inter_agent_communication",
        "inter_agent_communication_metadata",
        "dynamic_tools_updated",
        "security_risk_score",
        "realtime_item",
        "state",
        "session_state",
    )
)
"""Types of records that only repeat others."""


def make_row(reader_state: CodexReaderState, record: Record, size: int) -> RolloutRow:
    """A record with its thread, turn and time."""
    reader_state.n += 1
    payload = as_object(record.get("payload"))
    stamp = record.get("timestamp")
    at = read_time(stamp)
    event_context = CodexEventContext(at, reader_state.agent, reader_state.thread, reader_state.parent)
    return RolloutRow(
        record,
        payload,
        event_context,
        size,
        stamp if at is not None and isinstance(stamp, str) else f"{reader_state.thread}:{reader_state.n}",
    )


def read_session(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    """The header of a thread: the first is its own; later ones are its parent's, or repetitions."""
    meta = row.payload
    thread = as_name(meta.get("id")) or as_name(meta.get("session_id"))
    if reader_state.thread is not None or thread is None:
        return []
    launcher = find_parent_thread(meta)
    reader_state.thread, reader_state.agent, reader_state.parent = thread, thread_agent(thread), thread_agent(launcher)
    reader_state.branch = as_text(as_object(meta.get("git")).get("branch"))
    reader_state.provider = as_text(meta.get("model_provider"))
    reader_state.replay = make_expected_replay(meta, ordinal=row.record.get("ordinal"), at=row.event_context.at)
    event_context = row.event_context._replace(agent=reader_state.agent, run=thread, parent=reader_state.parent)
    events = [_make_start_event(reader_state, meta, event_context)]
    if launcher is not None:
        reader_state.prompt = reader_state.cause = subagent_launched_id(thread)
        events.insert(0, _make_launch_event(meta, event_context, launcher))
    return events


def _make_start_event(reader_state: CodexReaderState, meta: Record, event_context: CodexEventContext) -> Event:
    cwd, forked = as_text(meta.get("cwd")), as_text(meta.get("forked_from_id"))
    task = guess_task(reader_state.branch)
    data = {
        "source": "fork" if forked and reader_state.parent is None else "startup",
        "cwd": cwd,
        "project": project_name(cwd),
        "branch": reader_state.branch,
        "program": PROGRAM,
        "version": as_text(meta.get("cli_version")),
        "model": as_text(meta.get("model")),
        "parent_run": forked or find_parent_thread(meta),
        "originator": as_text(meta.get("originator")),
        "task_guessed": True if task else None,
    }
    at = read_time(meta.get("timestamp")) or event_context.at
    return event_context._replace(at=at, task=task).make_event(
        "session.started", session_started_id(event_context.run or ""), text=project_name(cwd), data=data
    )


def _make_launch_event(meta: Record, event_context: CodexEventContext, launcher: str) -> Event:
    spawned = find_spawn_data(meta)
    path, role = as_text(spawned.get("agent_path")), as_text(spawned.get("agent_role")) or as_text(meta.get("agent_role"))
    nickname = as_text(spawned.get("agent_nickname")) or as_text(meta.get("agent_nickname"))
    data = {"role": role, "nickname": nickname, "path": path, "depth": as_count(spawned.get("depth"))}
    by = event_context._replace(
        at=read_time(meta.get("timestamp")) or event_context.at, agent=thread_agent(launcher), run=as_name(launcher), parent=None
    )
    return by.make_event(
        "agent.launched", subagent_launched_id(event_context.run or ""), text=path or role or nickname, data=data, child=event_context.agent
    )


def read_context(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    """The model and settings of the turn that starts."""
    reader_state.model = find_model(row.payload) or reader_state.model
    reader_state.turn = row.get_text("turn_id") or reader_state.turn
    return []


def read_usage_record(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    """A response that has just arrived."""
    note_response(reader_state.meter, row.payload, row.event_context.at)
    return []


def read_unknown(reader_state: CodexReaderState, row: RolloutRow) -> list[Event]:
    """An event with all fields of a record of unknown type."""
    payload = row.payload or row.record
    return (
        [] if not payload else [make_other_event(row, as_text(payload.get("type")) or as_text(row.record.get("type")) or "record", payload)]
    )


def make_other_event(row: RolloutRow, name: str, payload: Record) -> Event:
    """An event of a kind of Codex's own."""
    words = next((text for key in ("message", "text", "reason", "status", "title", "name") if (text := as_text(payload.get(key)))), None)
    data = {key: value for key, value in bound_record(payload, row.size).items() if key != "type"}
    kind = f"{NAME}.{to_snake_case(name)}"
    return row.event_context.make_event(kind, derive_codex_id(kind, row.key, words), text=words or name, data=data, visibility="system")


def is_inherited_row(reader_state: CodexReaderState, row: RolloutRow) -> bool:
    """Whether the record repeats the history of the thread's parent."""
    return reader_state.replay is not None and is_inherited_record(reader_state, row.record, row.payload, row.event_context.at)


CONTEXT_HANDLERS: Mapping[str, RowHandler] = {
    "session_meta": read_session,
    "turn_context": read_context,
    "token_usage_record": read_usage_record,
}
