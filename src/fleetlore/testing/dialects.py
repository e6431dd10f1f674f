"""The laws of a dialect: nothing is lost, the same record is the same event, and no bytes bring it down."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

from fleetlore.dialects.base import Dialect
from fleetlore.errors import DialectError, FleetloreError
from fleetlore.events import codec
from fleetlore.events.catalog import known_kinds
from fleetlore.events.envelope import Event
from fleetlore.log.admission import Admission

_ODD: tuple[Any, ...] = (None, True, -1, 1.5, 10**30, "", "\x00", "\u202e", "x" * 300, "2026-01-01", [], [{}], {}, {"": {"": [None]}})
ODD_BYTES = (b"", b"{}", b"[]", b"null", b"{", b"\xff\xfe", b'{"a": NaN}', b'{"a": 1e999}', b'{"a": "\\ud800"}', b"[" * 2000)


def check_dialect(dialect: Dialect, samples: Iterable[bytes | str]) -> list[Event]:
    """Hold a dialect to its laws, with records as its source writes them, one each; answers their events. `AssertionError` says what broke.

    Each sample is read, can be stored, and is written again byte for byte; the same bytes are the same event. What is cut, bent or no
    record at all is an event or a `DialectError`, nothing else. Any event there is gets written as a JSON object, or not at all.
    """
    raws = [sample.encode() if isinstance(sample, str) else sample for sample in samples]
    assert raws, "give it a few records, as the source writes them"
    events = [_check_sample(dialect, raw) for raw in raws]
    for raw in (*ODD_BYTES, *bend_samples(raws)):
        event = _read_or_refuse(dialect, raw)
        if event is not None:
            _check_written(dialect, event)
    for kind in (*known_kinds(), "nobody.knows"):
        _check_written(
            dialect, Event(id="00000000-0000-7000-8000-000000000001", at=datetime(2026, 1, 1, tzinfo=UTC), kind=kind, actor="ada")
        )
    return events


def _check_sample(dialect: Dialect, raw: bytes) -> Event:
    try:
        event = dialect.decode(raw)
    except DialectError as error:
        raise AssertionError(f"{dialect.name} refuses a sample ({error}): {raw[:200]!r}") from error
    assert dialect.decode(raw) == event, f"{dialect.name} makes two different events of the same bytes: {raw[:200]!r}"
    assert event.id, "the event has no id: leave it out in `read`, and one is derived"
    for kept in (event, codec.decode(codec.encode(event))):
        again = dialect.encode(kept)
        assert again == raw, (
            f"{dialect.name} writes another record than it read:\n  read    {raw[:300]!r}\n  written {(again or b'nothing')[:300]!r}"
        )
    try:
        Admission().admit(event)
    except FleetloreError as error:
        raise AssertionError(f"no log would take the event of {raw[:200]!r}: {error}") from error
    return event


def _read_or_refuse(dialect: Dialect, raw: bytes) -> Event | None:
    try:
        return dialect.decode(raw)
    except DialectError:
        return None
    except Exception as error:
        raise AssertionError(f"{dialect.name} raises {type(error).__name__} ({error}), not DialectError, on {raw[:200]!r}") from error


def _check_written(dialect: Dialect, event: Event) -> None:
    try:
        raw = dialect.encode(event)
    except Exception as error:
        raise AssertionError(f"{dialect.name} raises {type(error).__name__} ({error}) when it writes {event.kind}") from error
    assert raw is None or isinstance(json.loads(raw), dict), f"{dialect.name} writes {event.kind} as no JSON object: {raw[:200]!r}"


def bend_samples(raws: Sequence[bytes]) -> Iterator[bytes]:
    """Samples with something wrong, always the same: cut off, a byte changed, a key dropped, a value of another kind."""
    chance = Random(1)
    for raw in raws[:50]:
        for _ in range(20):
            place = chance.randrange(len(raw) + 1)
            yield raw[:place]
            yield raw[:place] + chance.randbytes(2) + raw[place + 1 :]
        record = json.loads(raw)
        for key in record:
            yield json.dumps({name: value for name, value in record.items() if name != key}).encode()
            for odd in _ODD:
                yield json.dumps(record | {key: odd}).encode()
