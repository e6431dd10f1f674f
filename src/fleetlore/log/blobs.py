"""Whole texts: strings of events that admission cut, kept with the event that they belong to.

A backend stores one value per event, packed by `pack_texts`, with the event or before it, and deletes it with the event. It is
addressed by the event's id and the digest in its `origin.cut`, so no event can name the text of another. Recorders read it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from fleetlore.errors import Damaged
from fleetlore.events import codec
from fleetlore.events.envelope import Cut, Event

MAX_TEXT_BYTES = 8 << 20
MAX_EVENT_BYTES = 16 << 20
"""Of all whole texts of one event; those that do not fit are only cut."""
_SPEED_LEVEL = 1
_OWN_DIALECT = "fleetlore"
_MAX_PACKED_BYTES = MAX_EVENT_BYTES + (64 << 10)
_decode = msgspec.msgpack.Decoder(dict[bytes, str]).decode


def select_texts(texts: Iterable[bytes]) -> dict[bytes, str]:
    """The texts to keep, by digest: those that are short enough, in order, as long as there is room."""
    selected: dict[bytes, str] = {}
    room = MAX_EVENT_BYTES
    for text in texts:
        digest = sha256(text).digest()
        if digest not in selected and len(text) <= min(MAX_TEXT_BYTES, room):
            selected[digest] = text.decode()
            room -= len(text)
    return selected


def pack_texts(texts: Iterable[bytes]) -> bytes:
    """The value to store for an event; empty if no text is kept."""
    selected = select_texts(texts)
    return zlib.compress(msgspec.msgpack.encode(selected), _SPEED_LEVEL) if selected else b""


def unpack_texts(packed: bytes) -> dict[str, str]:
    """The texts of an event, by digest as in `origin.cut`. Raises `Damaged` if the value is not what was stored."""
    try:
        inflate = zlib.decompressobj()
        raw = inflate.decompress(packed, _MAX_PACKED_BYTES)
        if not inflate.eof:
            raise Damaged("the whole text of an event is cut off, or longer than any text that is kept")
        texts = {digest.hex(): text for digest, text in _decode(raw).items()}
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Damaged(f"the whole text of an event cannot be read ({error})") from error
    if any(sha256(text.encode()).hexdigest() != digest for digest, text in texts.items()):
        raise Damaged("the whole text of an event is not what was stored")
    return texts


def list_cuts(event: Event) -> tuple[Cut, ...]:
    """What was cut from an event."""
    return () if event.origin is None else event.origin.cut


def restore_event(event: Event, texts: Mapping[str, str]) -> Event:
    """The event with its whole texts. What is not kept stays cut, and in `origin.cut`."""
    whole = {cut.path: texts[cut.sha256] for cut in list_cuts(event) if cut.sha256 in texts}
    if not whole:
        return event
    record = codec.to_builtins(event)
    restored: set[str] = set()
    record = {key: _restore_value(value, f"$.{key}", whole, restored) for key, value in record.items()}
    origin = record["origin"]
    if rest := [cut for cut in origin.pop("cut") if cut["path"] not in restored]:
        origin["cut"] = rest
    if origin == {"dialect": _OWN_DIALECT}:  # admission added it to note the cut
        del record["origin"]
    return msgspec.structs.replace(codec.from_builtins(record), position=event.position)


def _restore_value(value: Any, path: str, whole: Mapping[str, str], restored: set[str]) -> Any:
    """Walk as `admission` does when it cuts: a path may be ambiguous to parse, because keys may contain dots."""
    if isinstance(value, str):
        text = whole.get(path)
        if text is None or not text.startswith(value):
            return value
        restored.add(path)
        return text
    if isinstance(value, dict):
        return {key: _restore_value(item, f"{path}.{key}", whole, restored) for key, item in value.items()}
    if isinstance(value, list):
        return [_restore_value(item, f"{path}[{index}]", whole, restored) for index, item in enumerate(value)]
    return value
