"""Damages log files at random, and compares what `lore verify` and `lore salvage` make of it with what was written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from shutil import copyfile
from typing import NamedTuple

from fleetlore import Event, connect
from fleetlore.errors import LogError
from fleetlore.log.sqlite.maintenance import check_log
from fleetlore.log.sqlite.salvage import _PageFile, _read_rows, salvage_log

WAYS = ("flip a bit", "write noise over a page", "zero a page", "cut the file off")
PAGE = 4096


class Original(NamedTuple):
    """A log before the damage: each event as bytes, and the page that it lies on."""

    path: Path
    records: dict[int, bytes]
    pages: dict[int, int]


class Finding(NamedTuple):
    """What came of one damage."""

    way: str
    noticed: bool
    harmless: bool
    """Nothing is read differently: the damage hit unused bytes."""
    undamaged: int
    saved: int
    wrong: int
    """Events that were saved, and are not what was written."""


def write_log(path: Path, count: int) -> Original:
    """A log with many events, closed."""
    with connect(f"sqlite:{path}?sync=off").blocking() as log:
        log.append_all(
            Event(kind=f"x.k{n % 7}", agent=f"a{n % 20}", task=f"t{n // 50}", text=f"step {n}", data={"n": n, "pad": "p" * (n % 200)})
            for n in range(count)
        )
    records, pages = dict[int, bytes](), dict[int, int]()
    file = _PageFile(str(path))
    for number in range(1, file.count + 1):
        for seq, values in _read_rows(file, number):
            if len(values) == 7 and isinstance(raw := values[5], bytes):
                records[seq], pages[seq] = raw, number
    file.close()
    assert len(records) == count
    return Original(path, records, pages)


def damage_file(path: Path, way: str, rng: Random) -> set[int]:
    """Damage a file behind its first page; return the numbers of the pages that are not as they were."""
    content = bytearray(path.read_bytes())
    count = len(content) // PAGE
    page = rng.randrange(1, count)
    damaged = {page + 1}
    match way:
        case "flip a bit":
            at = page * PAGE + rng.randrange(PAGE)
            content[at] ^= 1 << rng.randrange(8)
        case "write noise over a page":
            content[page * PAGE : (page + 1) * PAGE] = rng.randbytes(PAGE)
        case "zero a page":
            content[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
        case _:
            end = rng.randrange(PAGE, len(content))
            del content[end:]
            damaged = set(range(end // PAGE + 1, count + 1))
    path.write_bytes(content)
    return damaged


def try_damage(original: Original, way: str, rng: Random, folder: Path) -> Finding:
    """Damage a copy, verify it and salvage it."""
    copy, saved = folder / "damaged.db", folder / "saved.db"
    copyfile(original.path, copy)
    saved.unlink(missing_ok=True)
    pages = damage_file(copy, way, rng)
    try:
        noticed = bool(check_log(str(copy)).problems)
    except LogError:
        noticed = True
    salvage_log(str(copy), str(saved))
    assert check_log(str(saved)).problems == []
    result = read_records(saved)
    undamaged = {seq for seq, page in original.pages.items() if page not in pages}
    return Finding(
        way,
        noticed,
        not noticed and read_records(copy) == original.records,
        undamaged=len(undamaged),
        saved=len(undamaged & result.keys()),
        wrong=sum(original.records.get(seq) != raw for seq, raw in result.items()),
    )


def read_records(path: Path) -> dict[int, bytes]:
    from fleetlore.events import codec

    with connect(f"sqlite:{path}").blocking() as log:
        return {int(event.position or 0): codec.encode_event(event) for event in log.read()}


def assert_survived(findings: Sequence[Finding]) -> None:
    """Every damage that changes anything was noticed; what was not hit was saved, unchanged."""
    assert not [found for found in findings if not (found.noticed or found.harmless)]
    assert not [found for found in findings if found.wrong]
    assert not [found for found in findings if found.saved < 0.99 * found.undamaged]
