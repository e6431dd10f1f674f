"""Several records decoded at once are what each of them is alone, whatever they hold."""

from __future__ import annotations

import pytest

from fleetlore.log.base import StoredRecord
from fleetlore.log.reading import decode_all_stored, decode_stored

GOOD = b'{"id":"00000001-0000-7000-8000-000000000000","at":"2026-11-15T20:00:00.000000Z","kind":"fleet.commit","agent":"ada","v":1}'
ODD = [
    b"no JSON",
    b"[1]",
    b'{"kind":"fleet.commit","v":99}',
    b'{"kind":"fleet.commit","of_tomorrow":1,"v":1}',
    b'{"kind":"fleet.commit","data":[1],"v":1}',
    b'{"kind":"fleet.commit","agent":7,"v":1}',
    b'{"kind":"fleet.commit","visibility":"none","v":1}',
    GOOD.replace(b'"v":1', b'"v":99'),
    GOOD.replace(b'"ada"', b"7"),
    GOOD.replace(b'"v":1', b'"data":[1],"v":1'),
    GOOD.replace(b'"v":1', b'"text":"\xff","v":1'),
    GOOD.replace(b'"v":1', b'"text":"\\q","v":1'),
    GOOD.replace(b'000000Z"', b'000000"'),
    b'{"kind":"fleet.commit","data":{"output":"\xff"},"v":1}',
    b'{"kind":"fleet.commit","data":{"output":"\\q"},"v":1}',
    b'{"kind":"fleet.commit","data":{"output":' + b"[" * 5000 + b"]" * 5000 + b'},"v":1}',
]


def stored(*raws: bytes) -> list[StoredRecord]:
    return [StoredRecord(f"{number:016d}", raw) for number, raw in enumerate(raws, 1)]


@pytest.mark.parametrize("odd", ODD)
def test_a_record_that_cannot_be_read_does_not_change_the_others(odd: bytes) -> None:
    rows = stored(GOOD, odd, GOOD)
    assert decode_all_stored(rows) == [decode_stored(row) for row in rows]
