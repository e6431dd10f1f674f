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

from fleetlore.dialects.commands.classify import is_polling
from fleetlore.events.catalog import bare_beats, beat_of
from fleetlore.events.envelope import Event
from fleetlore.events.payload import Beat
from fleetlore.events.tools import CHECKING
from fleetlore.views.event_text import Stamp, stamp_of
from fleetlore.views.recent_calls import VERSION as VERSION
from fleetlore.views.recent_calls import Beats, Call, Hand, Note

LOOP = 3
"""So many times the same call in a row, with no other between, are a loop."""
MOST_HANDS, MOST_CALLS, MOST_TROUBLES, MOST_EDITS = 2000, 64, 32, 64

SETBACKS = frozenset(("loop", "undone", "stuck"))

_ONCE = frozenset(("commit", "push", "pr_open", "pr_merge"))
"""Deeds that are mended by the next of their kind, whatever it says."""
_MENDS = frozenset(("progress", "pulse"))
_TURN = "turn"
"""The trouble of a goal whose last turn did not go well."""
_OLD_AND_NEW = (("old_string", "new_string"), ("old_str", "new_str"), ("oldString", "newString"))
_OLD = frozenset(old for old, _ in _OLD_AND_NEW)
_Value = TypeVar("_Value")
_encode = msgspec.json.Encoder().encode


def initial() -> Beats:
    """Nothing has been done yet."""
    return Beats()


def beat(beats: Beats, event: Event, stamp: Stamp | None = None) -> Beat | None:
    """The beat of one more event, given those before it. Never raises. A late one has its kind's, and changes nothing."""
    if beats.note is not None:
        beats.note = None
    act = _ACTS.get(event.kind)
    if act is None:
        return beat_of(event)
    key = f"{event.run or event.task or event.goal or ''} {event.agent or event.actor}"
    hand = beats.hands.get(key)
    if stamp is None:
        stamp = stamp_of(event)
    if hand is None:
        hand = Hand()
        _keep(beats.hands, key, hand, MOST_HANDS)
    elif (last := hand.last) is not None and stamp[0] <= last[0] and stamp < last:
        return beat_of(event)
    hand.last = stamp
    data = event.data
    own = beat_of(event) if "deed" in data or event.kind not in _BY_DEED else bare_beats[event.kind]
    note = act(hand, data, own)
    if note is None:
        return own
    beats.note = note
    return "setback" if note in SETBACKS else "recovery"


def _called(hand: Hand, data: Mapping[str, Any], own: Beat | None) -> Note | None:
    del own
    call = _call(data)
    if isinstance(id := data.get("call_id"), str):
        calls = hand.calls
        calls[id] = call
        if len(calls) > MOST_CALLS:
            del calls[next(iter(calls))]
    if call[0] != hand.same:
        hand.same, hand.times = call[0], 1
        return None
    return _repeated(hand, call[0], data)


def _call(data: Mapping[str, Any]) -> Call:
    given = data.get("input")
    digest = _digest((data.get("tool"), given))
    return (digest, 0, 0) if not isinstance(given, dict) or _OLD.isdisjoint(given) else (digest, *_edit(given))


def _repeated(hand: Hand, digest: int, data: Mapping[str, Any]) -> Note | None:
    """A loop, where this is the third call alike in a row. It is told once; asking how far something is may go on for ever."""
    if digest != hand.same:
        hand.same = digest
        if hand.times != 1:
            hand.times = 1
        return None
    hand.times += 1
    return "loop" if hand.times == LOOP and not is_polling(str(data.get("tool")), data.get("input")) else None


def _returned(hand: Hand, data: Mapping[str, Any], own: Beat | None) -> Note | None:
    id, note = data.get("call_id"), None
    call = hand.calls.pop(id, None) if isinstance(id, str) else None
    if call is None:
        call, note = _call_of(hand, data)
    if own == "setback":
        if (key := _key_of(data)) is not None:
            _trouble(hand, key, call, "mended")
        return None
    found = _solved(hand, _key_of(data), call) if hand.troubles or hand.slips else None
    if call is not None and call[1] and _undoes(hand, call):
        return "undone"
    return note if found is None or own not in _MENDS else found


def _failed(hand: Hand, data: Mapping[str, Any], own: Beat | None) -> Note | None:
    call, note = _call_of(hand, data)
    key = _key_of(data)
    if own == "setback":
        _trouble(hand, key, call, "mended")
        return None
    return _missed(hand, key) or note if key is not None and data.get("deed") == "edit" else note


def _missed(hand: Hand, key: str) -> Note | None:
    """An edit that missed: the first one is a slip, the second in the same file is trouble."""
    if key in hand.slips:
        del hand.slips[key]
        _trouble(hand, key, None, "mended")
        return "stuck"
    if key not in hand.troubles:
        _keep(hand.slips, key, True, MOST_TROUBLES)
    return None


def _denied(hand: Hand, data: Mapping[str, Any], own: Beat | None) -> Note | None:
    del own
    call, _ = _call_of(hand, data)
    _trouble(hand, None, call, "allowed")
    return None


def _prompted(hand: Hand, data: Mapping[str, Any], own: Beat | None) -> Note | None:
    """A person spoke: what is done now is done anew."""
    del data, own
    hand.same = hand.times = 0
    return None


def _turned(hand: Hand, data: Mapping[str, Any], own: Beat | None) -> Note | None:
    """A turn of a goal: one that goes well mends what the ones before it left."""
    del data
    if own == "setback":
        _keep(hand.troubles, _TURN, "mended", MOST_TROUBLES)
    return hand.troubles.pop(_TURN, None) if own in ("propose", "progress") else None


_BY_DEED = frozenset(("tool.called", "tool.returned"))
"""Kinds whose beat depends on the deed alone, if there is one."""
Act: TypeAlias = Callable[[Hand, Mapping[str, Any], Beat | None], Note | None]
_ACTS: Mapping[str, Act] = {
    "tool.called": _called,
    "tool.returned": _returned,
    "tool.failed": _failed,
    "tool.denied": _denied,
    "prompt.submitted": _prompted,
    "driver.attempt_completed": _turned,
    "driver.replay_decision": _turned,
    "driver.escalate": _turned,
    "driver.budget_exhausted": _turned,
}


def _call_of(hand: Hand, data: Mapping[str, Any]) -> tuple[Call | None, Note | None]:
    """The call that this came of; where no event told of the call, the outcome stands for it."""
    id = data.get("call_id")
    call = hand.calls.pop(id, None) if isinstance(id, str) else None
    if call is not None or data.get("input") is None:
        return call, None
    call = _call(data)
    return call, _repeated(hand, call[0], data)


def _key_of(data: Mapping[str, Any]) -> str | None:
    """By what a deed is known when it is done another time; `None`: only by its call."""
    deed, subject = data.get("deed"), data.get("subject")
    if not isinstance(deed, str):
        return None
    if deed in _ONCE:
        return deed
    if not isinstance(subject, str) or (deed != "edit" and deed not in CHECKING):
        return None
    return f"{deed} {subject.partition(': ')[0]}"


def _trouble(hand: Hand, key: str | None, call: Call | None, note: Note) -> None:
    name = key or (f"#{call[0]:x}" if call is not None else None)
    if name is not None:
        _keep(hand.troubles, name, note, MOST_TROUBLES)


def _solved(hand: Hand, key: str | None, call: Call | None) -> Note | None:
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


def _edit(given: Mapping[str, Any]) -> tuple[int, int]:
    """The digests of an edit, and of what would undo it; none where it changes nothing."""
    forth = back = 0
    for old, new in _OLD_AND_NEW:
        before, after = given.get(old), given.get(new)
        if isinstance(before, str) and isinstance(after, str) and before != after:
            path = given.get("file_path") or given.get("path") or given.get("filePath")
            forth, back = _digest((path, (before, after))), _digest((path, (after, before)))
    return forth, back


def _undoes(hand: Hand, call: Call) -> bool:
    """Whether an edit puts back what an earlier one had changed."""
    _, forth, back = call
    if hand.edits.pop(back, False):
        return True
    _keep(hand.edits, forth, True, MOST_EDITS)
    return False


def _digest(things: tuple[object, ...]) -> int:
    try:
        raw = _encode(things)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raw = repr([type(thing).__name__ for thing in things]).encode()
    return (len(raw) << 32 | crc32(raw)) & 0x7FFF_FFFF_FFFF_FFFF


_Key = TypeVar("_Key", str, int)


def _keep(kept: dict[_Key, _Value], key: _Key, value: _Value, most: int) -> None:
    """One more, and the oldest is let go if there are too many."""
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]
