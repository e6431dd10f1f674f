"""Assigns beats that depend on earlier events of the same agent and session.

Examples: tests that pass again, repeated calls, an edit undone, a goal's turn that succeeds after a failed one. The
state is bounded and holds digests of calls, never their inputs. If nothing earlier matters, an event has the beat of
its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar
from zlib import crc32

import msgspec
from msgspec import Struct, field

from fleetlore.dialects.commands.classify import is_polling_call
from fleetlore.events.catalog import bare_beats, beat_of
from fleetlore.events.envelope import Event
from fleetlore.events.payload import Beat
from fleetlore.events.tools import CHECKING
from fleetlore.views.event_text import EventStamp, event_stamp

VERSION = 2
LOOP_CALLS = 3
"""This many equal calls in a row are a loop."""
MAX_AGENTS, MAX_PENDING_CALLS, MAX_FAILURES, MAX_EDITS = 2000, 64, 32, 64

SETBACK_REASONS = frozenset(("loop", "undone", "stuck"))

_SINGLE_ACTIONS = frozenset(("commit", "push", "pr_open", "pr_merge"))
"""Actions that are fixed by the next one of their kind, whatever its subject."""
_RECOVERY_BEATS = frozenset(("progress", "pulse"))
_TURN_FAILURE_KEY = "turn"
"""Key of the failure of a goal whose last turn failed."""
_EDIT_FIELD_PAIRS = (("old_string", "new_string"), ("old_str", "new_str"), ("oldString", "newString"))
_OLD_TEXT_FIELDS = frozenset(old for old, _ in _EDIT_FIELD_PAIRS)
_Value = TypeVar("_Value")
_encode_json = msgspec.json.Encoder().encode

BeatReason: TypeAlias = Literal["loop", "undone", "stuck", "mended", "allowed"]
"""Why a beat differs from its kind's.

`loop`: a repeated call; `undone`: an edit reversed; `stuck`: an edit that missed twice; `mended`: something that had
failed works; `allowed`: something that had been denied is allowed.
"""

PendingCall: TypeAlias = tuple[int, int, int]
"""A call without a result yet: its digest and, for an edit, digests of the edit and its reversal, else zeros."""


class RecentCalls(Struct, kw_only=True, gc=False):
    """What one agent did last in one session, as far as later beats depend on it."""

    last: EventStamp | None = None
    """Stamp of the newest event; an older one is late."""
    calls: dict[str, PendingCall] = field(default_factory=dict)
    troubles: dict[str, BeatReason] = field(default_factory=dict)
    """What failed or was denied → the reason when it works again."""
    slips: dict[str, bool] = field(default_factory=dict)
    """Edits that missed once."""
    edits: dict[int, bool] = field(default_factory=dict)
    """Digests of the edits made."""
    same: int = 0
    times: int = 0
    """Digest of the newest call, and how often it was made in a row."""


class BeatState(Struct, kw_only=True):
    """The recent calls of all agents. Serialises to JSON."""

    version: int = VERSION
    recent: dict[str, RecentCalls] = field(default_factory=dict, name="hands")
    """Session, task or goal and agent → its recent calls."""
    note: BeatReason | None = None
    """Why the newest event's beat differs from its kind's."""


def initial() -> BeatState:
    """The state before the first event."""
    return BeatState()


def classify_beat(beats: BeatState, event: Event, stamp: EventStamp | None = None) -> Beat | None:
    """Return the beat of one more event, given those before it; updates the state. Never raises.

    A late event gets the beat of its kind and changes nothing.
    """
    if beats.note is not None:
        beats.note = None
    handler = _BEAT_HANDLERS.get(event.kind)
    if handler is None:
        return beat_of(event)
    key = f"{event.run or event.task or event.goal or ''} {event.agent or event.actor}"
    recent = beats.recent.get(key)
    if stamp is None:
        stamp = event_stamp(event)
    if recent is None:
        recent = RecentCalls()
        _put_bounded(beats.recent, key, recent, MAX_AGENTS)
    elif (last := recent.last) is not None and stamp[0] <= last[0] and stamp < last:
        return beat_of(event)
    recent.last = stamp
    data = event.data
    kind_beat = beat_of(event) if "deed" in data or event.kind not in _KINDS_BY_ACTION else bare_beats[event.kind]
    reason = handler(recent, data, kind_beat)
    if reason is None:
        return kind_beat
    beats.note = reason
    return "setback" if reason in SETBACK_REASONS else "recovery"


def _on_tool_called(recent: RecentCalls, data: Mapping[str, Any], kind_beat: Beat | None) -> BeatReason | None:
    del kind_beat
    call = _make_pending_call(data)
    if isinstance(id := data.get("call_id"), str):
        calls = recent.calls
        calls[id] = call
        if len(calls) > MAX_PENDING_CALLS:
            del calls[next(iter(calls))]
    if call[0] != recent.same:
        recent.same, recent.times = call[0], 1
        return None
    return _detect_loop(recent, call[0], data)


def _make_pending_call(data: Mapping[str, Any]) -> PendingCall:
    input_ = data.get("input")
    digest = _digest_values((data.get("tool"), input_))
    return (digest, 0, 0) if not isinstance(input_, dict) or _OLD_TEXT_FIELDS.isdisjoint(input_) else (digest, *_digest_edit(input_))


def _detect_loop(recent: RecentCalls, digest: int, data: Mapping[str, Any]) -> BeatReason | None:
    """Return `loop` on the third equal call in a row, once. Polling is not a loop."""
    if digest != recent.same:
        recent.same = digest
        if recent.times != 1:
            recent.times = 1
        return None
    recent.times += 1
    return "loop" if recent.times == LOOP_CALLS and not is_polling_call(str(data.get("tool")), data.get("input")) else None


def _on_tool_returned(recent: RecentCalls, data: Mapping[str, Any], kind_beat: Beat | None) -> BeatReason | None:
    id, reason = data.get("call_id"), None
    call = recent.calls.pop(id, None) if isinstance(id, str) else None
    if call is None:
        call, reason = _take_pending_call(recent, data)
    if kind_beat == "setback":
        if (key := _action_key(data)) is not None:
            _record_failure(recent, key, call, "mended")
        return None
    found = _clear_failures(recent, _action_key(data), call) if recent.troubles or recent.slips else None
    if call is not None and call[1] and _is_edit_undone(recent, call):
        return "undone"
    return reason if found is None or kind_beat not in _RECOVERY_BEATS else found


def _on_tool_failed(recent: RecentCalls, data: Mapping[str, Any], kind_beat: Beat | None) -> BeatReason | None:
    call, reason = _take_pending_call(recent, data)
    key = _action_key(data)
    if kind_beat == "setback":
        _record_failure(recent, key, call, "mended")
        return None
    return _record_missed_edit(recent, key) or reason if key is not None and data.get("deed") == "edit" else reason


def _record_missed_edit(recent: RecentCalls, key: str) -> BeatReason | None:
    """The first edit that misses is a slip; the second in the same file is a failure."""
    if key in recent.slips:
        del recent.slips[key]
        _record_failure(recent, key, None, "mended")
        return "stuck"
    if key not in recent.troubles:
        _put_bounded(recent.slips, key, True, MAX_FAILURES)
    return None


def _on_tool_denied(recent: RecentCalls, data: Mapping[str, Any], kind_beat: Beat | None) -> BeatReason | None:
    del kind_beat
    call, _ = _take_pending_call(recent, data)
    _record_failure(recent, None, call, "allowed")
    return None


def _on_prompt(recent: RecentCalls, data: Mapping[str, Any], kind_beat: Beat | None) -> BeatReason | None:
    """A new prompt: the same call again is not a repetition."""
    del data, kind_beat
    recent.same = recent.times = 0
    return None


def _on_goal_turn(recent: RecentCalls, data: Mapping[str, Any], kind_beat: Beat | None) -> BeatReason | None:
    """A turn of a goal: one that succeeds fixes the failed ones before it."""
    del data
    if kind_beat == "setback":
        _put_bounded(recent.troubles, _TURN_FAILURE_KEY, "mended", MAX_FAILURES)
    return recent.troubles.pop(_TURN_FAILURE_KEY, None) if kind_beat in ("propose", "progress") else None


_KINDS_BY_ACTION = frozenset(("tool.called", "tool.returned"))
"""Kinds whose beat depends only on their `deed`, if they have one."""
BeatHandler: TypeAlias = Callable[[RecentCalls, Mapping[str, Any], Beat | None], BeatReason | None]
_BEAT_HANDLERS: Mapping[str, BeatHandler] = {
    "tool.called": _on_tool_called,
    "tool.returned": _on_tool_returned,
    "tool.failed": _on_tool_failed,
    "tool.denied": _on_tool_denied,
    "prompt.submitted": _on_prompt,
    "driver.attempt_completed": _on_goal_turn,
    "driver.replay_decision": _on_goal_turn,
    "driver.escalate": _on_goal_turn,
    "driver.budget_exhausted": _on_goal_turn,
}


def _take_pending_call(recent: RecentCalls, data: Mapping[str, Any]) -> tuple[PendingCall | None, BeatReason | None]:
    """Return the call that this result belongs to; if no event reported the call, the result stands for it."""
    id = data.get("call_id")
    call = recent.calls.pop(id, None) if isinstance(id, str) else None
    if call is not None or data.get("input") is None:
        return call, None
    call = _make_pending_call(data)
    return call, _detect_loop(recent, call[0], data)


def _action_key(data: Mapping[str, Any]) -> str | None:
    """Key by which a repeated action is recognised; `None` if only by its call."""
    action, subject = data.get("deed"), data.get("subject")
    if not isinstance(action, str):
        return None
    if action in _SINGLE_ACTIONS:
        return action
    if not isinstance(subject, str) or (action != "edit" and action not in CHECKING):
        return None
    return f"{action} {subject.partition(': ')[0]}"


def _record_failure(recent: RecentCalls, key: str | None, call: PendingCall | None, reason: BeatReason) -> None:
    name = key or (f"#{call[0]:x}" if call is not None else None)
    if name is not None:
        _put_bounded(recent.troubles, name, reason, MAX_FAILURES)


def _clear_failures(recent: RecentCalls, key: str | None, call: PendingCall | None) -> BeatReason | None:
    """Clear the failures that this action fixes; return the reason.

    Tests that cover more than the failed ones count too.
    """
    failures = recent.troubles
    if recent.slips and key is not None:
        recent.slips.pop(key, None)
    if not failures:
        return None
    reason = failures.pop(f"#{call[0]:x}", None) if call is not None else None
    if key is None:
        return reason
    reason = failures.pop(key, reason)
    if key.partition(" ")[0] in CHECKING:
        for narrower in [name for name in failures if name.startswith(f"{key} ")]:
            reason = failures.pop(narrower)
    return reason


def _digest_edit(input_: Mapping[str, Any]) -> tuple[int, int]:
    """Digests of an edit and of its reversal; zeros if it changes nothing."""
    digest = reversal = 0
    for old, new in _EDIT_FIELD_PAIRS:
        before, after = input_.get(old), input_.get(new)
        if isinstance(before, str) and isinstance(after, str) and before != after:
            path = input_.get("file_path") or input_.get("path") or input_.get("filePath")
            digest, reversal = _digest_values((path, (before, after))), _digest_values((path, (after, before)))
    return digest, reversal


def _is_edit_undone(recent: RecentCalls, call: PendingCall) -> bool:
    """Whether an edit reverses an earlier one."""
    _, digest, reversal = call
    if recent.edits.pop(reversal, False):
        return True
    _put_bounded(recent.edits, digest, True, MAX_EDITS)
    return False


def _digest_values(values: tuple[object, ...]) -> int:
    try:
        raw = _encode_json(values)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raw = repr([type(value).__name__ for value in values]).encode()
    return (len(raw) << 32 | crc32(raw)) & 0x7FFF_FFFF_FFFF_FFFF


_Key = TypeVar("_Key", str, int)


def _put_bounded(entries: dict[_Key, _Value], key: _Key, value: _Value, limit: int) -> None:
    """Add an entry and drop the oldest if there are too many."""
    entries[key] = value
    if len(entries) > limit:
        del entries[next(iter(entries))]
