"""Which records of a rollout are a parent's: the rollout of a sub-agent or a fork may begin with a copy of the history that it inherits.

Newer programs state where the copy ends, or refer to it. Elsewhere three signs tell: a turn's id holds the time when it began; copies
may bear times from before the thread; and a copy is written in one go, while a turn of one's own begins after a pause.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fleetlore.dialects.codex_marks import birth_of
from fleetlore.dialects.codex_mind import Mind, Replay
from fleetlore.dialects.fields import EPOCH, as_count, as_object, as_text
from fleetlore.dialects.wire import Record

PAUSE_MS = 1000
"""As `ccusage` has it, which found copies written within 40 ms and first turns after 5 s and more."""


def parent_of(meta: Record) -> str | None:
    """The thread that launched this one as a sub-agent."""
    spawned = spawn_of(meta)
    launched = bool(spawned) or meta.get("thread_source") == "subagent"
    return as_text(spawned.get("parent_thread_id")) or (as_text(meta.get("parent_thread_id")) if launched else None)


def spawn_of(meta: Record) -> dict[str, Any]:
    """What is said of a sub-agent's launch."""
    source = meta.get("source")
    launched = source.get("subagent") if isinstance(source, dict) else None
    return as_object(as_object(launched).get("thread_spawn"))


def expect_replay(meta: Record, *, ordinal: object, at: datetime | None) -> Replay | None:
    """The replay that a thread with this header may begin with."""
    if as_text(meta.get("forked_from_id")) is None and parent_of(meta) is None:
        return None
    first, base = as_count(ordinal), as_count(meta.get("forked_from_ordinal_exclusive"))
    if first is not None and base is not None and first >= base:
        return None
    until = as_count(meta.get("subagent_history_start_ordinal"))
    born = birth_of(meta.get("id"))
    return Replay(until=until, born=_millis(at) if born is None else born, last=_millis(at))


def is_inherited(mind: Mind, record: Record, payload: Record, at: datetime | None) -> bool:
    """Whether this record repeats the parent's; the first that does not ends the replay."""
    replay = mind.replay
    if replay is None:
        return False
    ordinal = as_count(record.get("ordinal"))
    if replay.until is not None and ordinal is not None:
        inherited = ordinal < replay.until
    else:
        inherited = _looks_inherited(mind, replay, record, payload, at)
    if not inherited:
        mind.replay = None
        return False
    # A doubtful copy costs nothing but its usage: what else it repeats has the ids of the originals.
    return replay.sure or replay.until is not None or payload.get("type") == "token_count" or record.get("type") == "token_usage_record"


def _looks_inherited(mind: Mind, replay: Replay, record: Record, payload: Record, at: datetime | None) -> bool:
    if record.get("type") == "session_meta":
        replay.sure = replay.sure or payload.get("id") != mind.thread
        return True
    if mind.thread is not None and payload.get("thread_id") == mind.thread:
        return False
    turned = birth_of(payload.get("turn_id") or as_object(payload.get("internal_chat_message_metadata_passthrough")).get("turn_id"))
    if turned is not None and replay.born is not None:
        return turned < replay.born
    now, before = _millis(at), replay.last
    if now is None:
        return True
    if replay.born is not None and now < replay.born - PAUSE_MS:
        replay.kept_times = replay.sure = True
        return True
    replay.last = now
    return not replay.kept_times and (before is None or now - before <= PAUSE_MS)


def _millis(at: datetime | None) -> int | None:
    return None if at is None else int((at - EPOCH).total_seconds() * 1000)
