"""Beats that a deed has only because of what came before it: tests that pass again, a call made over and over, an edit taken back, a turn
of a goal that goes well after one that did not.

One fold per agent and session, with little memory: digests of calls, never their inputs. Where nothing came before that matters, a deed
has the beat of its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar
from zlib import crc32

import msgspec

from fleetlore.dialects.commands.classify import is_polling_call
from fleetlore.events.catalog import bare_beats, beat_of
from fleetlore.events.envelope import Event
from fleetlore.events.payload import Beat
from fleetlore.events.tools import CHECKING
from fleetlore.views.event_text import EventStamp, event_stamp
from fleetlore.views.recent_calls import VERSION as VERSION
from fleetlore.views.recent_calls import BeatReason, BeatState, PendingCall, RecentCalls

LOOP_CALLS = 3
"""So many times the same call in a row, with no other between, are a loop."""
MAX_AGENTS, MAX_PENDING_CALLS, MAX_FAILURES, MAX_EDITS = 2000, 64, 32, 64

SETBACK_REASONS = frozenset(("loop", "undone", "stuck"))

_SINGLE_ACTIONS = frozenset(("commit", "push", "pr_open", "pr_merge"))
"""Deeds that are mended by the next of their kind, whatever it says."""
_RECOVERY_BEATS = frozenset(("progress", "pulse"))
_TURN_FAILURE_KEY = "turn"
"""The trouble of a goal whose last turn did not go well."""
_EDIT_FIELD_PAIRS = (("old_string", "new_string"), ("old_str", "new_str"), ("oldString", "newString"))
_OLD_TEXT_FIELDS = frozenset(old for old, _ in _EDIT_FIELD_PAIRS)
_Value = TypeVar("_Value")
_encode_json = msgspec.json.Encoder().encode


def initial() -> BeatState:
    """Nothing has been done yet."""
    return BeatState()


def classify_beat(beats: BeatState, event: Event, stamp: EventStamp | None = None) -> Beat | None:
    """The beat of one more event, given those before it. Never raises. A late one has its kind's, and changes nothing."""
    if beats.note is not None:
        beats.note = None
    act = _BEAT_HANDLERS.get(event.kind)
    if act is None:
        return beat_of(event)
    key = f"{event.run or event.task or event.goal or ''} {event.agent or event.actor}"
    hand = beats.hands.get(key)
    if stamp is None:
        stamp = event_stamp(event)
    if hand is None:
        hand = RecentCalls()
        _put_bounded(beats.hands, key, hand, MAX_AGENTS)
    elif (last := hand.last) is not None and stamp[0] <= last[0] and stamp < last:
        return beat_of(event)
    hand.last = stamp
    data = event.data
    own = beat_of(event) if "deed" in data or event.kind not in _KINDS_BY_ACTION else bare_beats[event.kind]
    note = act(hand, data, own)
    if note is None:
        return own
    beats.note = note
    return "setback" if note in SETBACK_REASONS else "recovery"


def _on_tool_called(hand: RecentCalls, data: Mapping[str, Any], own: Beat | None) -> BeatReason | None:
    del own
    call = _make_pending_call(data)
    if isinstance(id := data.get("call_id"), str):
        calls = hand.calls
        calls[id] = call
        if len(calls) > MAX_PENDING_CALLS:
            del calls[next(iter(calls))]
    if call[0] != hand.same:
        hand.same, hand.times = call[0], 1
        return None
    return _detect_loop(hand, call[0], data)


def _make_pending_call(data: Mapping[str, Any]) -> PendingCall:
    given = data.get("input")
    digest = _digest_values((data.get("tool"), given))
    return (digest, 0, 0) if not isinstance(given, dict) or _OLD_TEXT_FIELDS.isdisjoint(given) else (digest, *_digest_edit(given))


def _detect_loop(hand: RecentCalls, digest: int, data: Mapping[str, Any]) -> BeatReason | None:
    """A loop, where this is the third call alike in a row. It is told once; asking how far something is may go on for ever."""
    if digest != hand.same:
        hand.same = digest
        if hand.times != 1:
            hand.times = 1
        return None
    hand.times += 1
    return "loop" if hand.times == LOOP_CALLS and not is_polling_call(str(data.get("tool")), data.get("input")) else None


def _on_tool_returned(hand: RecentCalls, data: Mapping[str, Any], own: Beat | None) -> BeatReason | None:
    id, note = data.get("call_id"), None
    call = hand.calls.pop(id, None) if isinstance(id, str) else None
    if call is None:
        call, note = _take_pending_call(hand, data)
    if own == "setback":
        if (key := _action_key(data)) is not None:
            _record_failure(hand, key, call, "mended")
        return None
    found = _clear_failures(hand, _action_key(data), call) if hand.troubles or hand.slips else None
    if call is not None and call[1] and _is_edit_undone(hand, call):
        return "undone"
    return note if found is None or own not in _RECOVERY_BEATS else found


def _on_tool_failed(hand: RecentCalls, data: Mapping[str, Any], own: Beat | None) -> BeatReason | None:
    call, note = _take_pending_call(hand, data)
    key = _action_key(data)
    if own == "setback":
        _record_failure(hand, key, call, "mended")
        return None
    return _record_missed_edit(hand, key) or note if key is not None and data.get("deed") == "edit" else note


def _record_missed_edit(hand: RecentCalls, key: str) -> BeatReason | None:
    """An edit that missed: the first one is a slip, the second in the same file is trouble."""
    if key in hand.slips:
        del hand.slips[key]
        _record_failure(hand, key, None, "mended")
        return "stuck"
    if key not in hand.troubles:
        _put_bounded(hand.slips, key, True, MAX_FAILURES)
    return None


def _on_tool_denied(hand: RecentCalls, data: Mapping[str, Any], own: Beat | None) -> BeatReason | None:
    del own
    call, _ = _take_pending_call(hand, data)
    _record_failure(hand, None, call, "allowed")
    return None


def _on_prompt(hand: RecentCalls, data: Mapping[str, Any], own: Beat | None) -> BeatReason | None:
    """A person spoke: what is done now is done anew."""
    del data, own
    hand.same = hand.times = 0
    return None


def _on_goal_turn(hand: RecentCalls, data: Mapping[str, Any], own: Beat | None) -> BeatReason | None:
    """A turn of a goal: one that goes well mends what the ones before it left."""
    del data
    if own == "setback":
        _put_bounded(hand.troubles, _TURN_FAILURE_KEY, "mended", MAX_FAILURES)
    return hand.troubles.pop(_TURN_FAILURE_KEY, None) if own in ("propose", "progress") else None


_KINDS_BY_ACTION = frozenset(("tool.called", "tool.returned"))
"""Kinds whose beat depends on the deed alone, if there is one."""
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


def _take_pending_call(hand: RecentCalls, data: Mapping[str, Any]) -> tuple[PendingCall | None, BeatReason | None]:
    """The call that this came of; where no event told of the call, the outcome stands for it."""
    id = data.get("call_id")
    call = hand.calls.pop(id, None) if isinstance(id, str) else None
    if call is not None or data.get("input") is None:
        return call, None
    call = _make_pending_call(data)
    return call, _detect_loop(hand, call[0], data)


def _action_key(data: Mapping[str, Any]) -> str | None:
    """By what a deed is known when it is done another time; `None`: only by its call."""
    deed, subject = data.get("deed"), data.get("subject")
    if not isinstance(deed, str):
        return None
    if deed in _SINGLE_ACTIONS:
        return deed
    if not isinstance(subject, str) or (deed != "edit" and deed not in CHECKING):
        return None
    return f"{deed} {subject.partition(': ')[0]}"


def _record_failure(hand: RecentCalls, key: str | None, call: PendingCall | None, note: BeatReason) -> None:
    name = key or (f"#{call[0]:x}" if call is not None else None)
    if name is not None:
        _put_bounded(hand.troubles, name, note, MAX_FAILURES)


def _clear_failures(hand: RecentCalls, key: str | None, call: PendingCall | None) -> BeatReason | None:
    """What is out of the way now. Tests that cover more than those that had failed count as well."""
    troubles = hand.troubles
    if hand.slips and key is not None:
        hand.slips.pop(key, None)
    if not troubles:
        return None
    found = troubles.pop(f"#{call[0]:x}", None) if call is not None else None
    if key is None:
        return found
    found = troubles.pop(key, found)
    if key.partition(" ")[0] in CHECKING:
        for narrower in [name for name in troubles if name.startswith(f"{key} ")]:
            found = troubles.pop(narrower)
    return found


def _digest_edit(given: Mapping[str, Any]) -> tuple[int, int]:
    """The digests of an edit, and of what would undo it; none where it changes nothing."""
    forth = back = 0
    for old, new in _EDIT_FIELD_PAIRS:
        before, after = given.get(old), given.get(new)
        if isinstance(before, str) and isinstance(after, str) and before != after:
            path = given.get("file_path") or given.get("path") or given.get("filePath")
            forth, back = _digest_values((path, (before, after))), _digest_values((path, (after, before)))
    return forth, back


def _is_edit_undone(hand: RecentCalls, call: PendingCall) -> bool:
    """Whether an edit puts back what an earlier one had changed."""
    _, forth, back = call
    if hand.edits.pop(back, False):
        return True
    _put_bounded(hand.edits, forth, True, MAX_EDITS)
    return False


def _digest_values(things: tuple[object, ...]) -> int:
    try:
        raw = _encode_json(things)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raw = repr([type(thing).__name__ for thing in things]).encode()
    return (len(raw) << 32 | crc32(raw)) & 0x7FFF_FFFF_FFFF_FFFF


_Key = TypeVar("_Key", str, int)


def _put_bounded(kept: dict[_Key, _Value], key: _Key, value: _Value, most: int) -> None:
    """One more, and the oldest is let go if there are too many."""
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]
