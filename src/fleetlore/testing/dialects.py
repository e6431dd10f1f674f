"""Checks a dialect: it loses nothing, the same record gives the same event, and malformed bytes only raise `DialectError`."""

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

_ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    1.5,
    10**30,
    "",
    "\x00",
    "\u202e",
    "x" * 300,
    "2026-01-01",
    [],
    [{}],
    {},
    {"": {"": [None]}},
)
MALFORMED_RECORDS = (b"", b"{}", b"[]", b"null", b"{", b"\xff\xfe", b'{"a": NaN}', b'{"a": 1e999}', b'{"a": "\\ud800"}', b"[" * 2000)


def check_dialect(dialect: Dialect, samples: Iterable[bytes | str]) -> list[Event]:
    """Check a dialect against sample records of its source, one each; returns their events. `AssertionError` says what failed.

    Each sample must decode, be accepted by a log and encode to the same bytes; equal bytes give equal events. Damaged samples must give
    an event or a `DialectError`. Any event must encode to a JSON object, or to nothing.
    """
    records = [sample.encode() if isinstance(sample, str) else sample for sample in samples]
    assert records, "give it a few records, as the source writes them"
    events = [_check_sample(dialect, record) for record in records]
    for record in (*MALFORMED_RECORDS, *damage_samples(records)):
        event = _read_or_refuse(dialect, record)
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
    for stored in (event, codec.decode_event(codec.encode_event(event))):
        encoded = dialect.encode(stored)
        assert encoded == raw, (
            f"{dialect.name} writes another record than it read:\n  read    {raw[:300]!r}\n  written {(encoded or b'nothing')[:300]!r}"
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


def damage_samples(samples: Sequence[bytes]) -> Iterator[bytes]:
    """Damaged samples, always the same: truncated, bytes changed, keys dropped, values of another type."""
    random = Random(1)
    for sample in samples[:50]:
        for _ in range(20):
            index = random.randrange(len(sample) + 1)
            yield sample[:index]
            yield sample[:index] + random.randbytes(2) + sample[index + 1 :]
        record = json.loads(sample)
        for key in record:
            yield json.dumps({name: value for name, value in record.items() if name != key}).encode()
            for odd in _ODD_VALUES:
                yield json.dumps(record | {key: odd}).encode()
