"""Files taken in together, in the order of their times."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from fleetlore import Event, connect
from fleetlore.dialects.registry import find_dialect
from fleetlore.events.envelope import Origin
from fleetlore.ingest import files, lines
from fleetlore.ingest.batch_writer import BatchWriter, ImportItem, ImportTally
from fleetlore.ingest.files import open_sources, read_sources
from fleetlore.log.admission import Admission
from fleetlore.log.recorder import BlockingRecorder

NEXUS = find_dialect("nexus")


def record(text: str, at: float | None) -> str:
    times = {} if at is None else {"timestamp": at}
    return json.dumps({"kind": "commit", "agent": "ada", "detail": text} | times | {"metadata": {}})


def write(path: Path, *records: tuple[str, float | None]) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(record(text, at) + "\n" for text, at in records))
    return str(path)


def items(*paths: str, **options: Any) -> list[ImportItem]:
    with open_sources(paths) as sources:
        return list(read_sources(sources, NEXUS, **options))


def logged(*paths: str) -> list[tuple[str | None, float]]:
    return [(event.text, event.at.timestamp()) for item in items(*paths) for event in item.events if event.at is not None]


@pytest.fixture
def log() -> Iterator[BlockingRecorder]:
    with connect("memory:").blocking() as log:
        yield log


def test_the_order_of_the_arguments_changes_nothing(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, *((f"{name}{at}", at) for at in (1, 4, 2, 9))) for name in ("a/x", "b/x", "y")]
    orders = {tuple(logged(*order)) for order in permutations(paths)}
    assert len(orders) == 1


def test_lines_of_one_file_keep_their_order_though_their_times_do_not(tmp_path: Path) -> None:
    path = write(tmp_path / "x", ("1", 50), ("2", 10), ("3", 60))
    other = write(tmp_path / "y", ("4", 55))
    assert [text for text, _ in logged(path, other)] == ["1", "2", "4", "3"]


def test_a_record_without_a_time_takes_that_of_the_one_before_it(tmp_path: Path) -> None:
    assert logged(write(tmp_path / "x", ("1", 10), ("2", None), ("3", 20))) == [("1", 10), ("2", 10), ("3", 20)]


def test_else_that_of_the_next(tmp_path: Path) -> None:
    assert logged(write(tmp_path / "x", ("1", None), ("2", None), ("3", 20))) == [("1", 20), ("2", 20), ("3", 20)]


def test_else_that_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "x", ("1", None), ("2", None))
    os.utime(path, (77, 77))
    assert logged(path) == [("1", 77), ("2", 77)]


def test_only_so_much_is_held_back_for_a_first_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_HELD", 100)
    path = write(tmp_path / "x", *((str(n), None) for n in range(5)), ("last", 20))
    os.utime(path, (77, 77))
    assert logged(path) == [*((str(n), 77) for n in range(5)), ("last", 20)]


def test_a_bad_line_stands_where_its_neighbours_stand(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(f"{record('1', 10)}\nbad\n{record('2', 30)}\n")
    other = write(tmp_path / "y", ("3", 20))
    kinds = [(item.events[0].kind, item.rejected is not None) for item in items(str(path), other)]
    assert kinds == [("fleet.commit", False), ("log.rejected", True), ("fleet.commit", False), ("fleet.commit", False)]


def test_identical_lines_of_one_file_are_events_of_their_own_but_a_copy_of_the_file_is_not(tmp_path: Path, log: BlockingRecorder) -> None:
    same = (("x", 1.0),) * 3
    paths = [write(tmp_path / "a" / "x", *same), write(tmp_path / "b" / "y", *same)]
    deposit = BatchWriter(log, dialect="nexus", admission=Admission())
    deposit.write_all(items(*paths))
    assert deposit.tally == ImportTally(recorded=3, already_there=3)


def test_what_was_read_is_reported_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "CHUNK", 50)
    path = write(tmp_path / "x", *((str(n), n) for n in range(10)))
    sizes: list[int] = []
    items(path, on_read=sizes.append)
    assert sum(sizes) == os.path.getsize(path)
    assert len(sizes) > 1


def test_files_are_read_only_as_far_as_the_merge_needs_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "CHUNK", 1000)
    paths = [write(tmp_path / name, *((str(n), n) for n in range(1000))) for name in ("x", "y")]
    read = 0

    def count(size: int) -> None:
        nonlocal read
        read += size

    with open_sources(paths) as sources:
        stream = read_sources(sources, NEXUS, on_read=count)
        for _ in range(10):
            next(stream)
        assert read < 5000


def test_a_line_that_is_too_long_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 200)
    path = write(tmp_path / "x", ("x" * 300, 1.0), ("y", 2.0))
    long, short = items(path)
    assert long.rejected is not None
    assert long.events[0].data["bytes"] > 300
    assert short.rejected is None


def test_an_event_that_the_log_refuses_is_rejected_alone(log: BlockingRecorder) -> None:
    good, bad = (ImportItem(lines.SourceLine("x", n, b"%d" % n, 0, 1), (_event(n),)) for n in (1, 2))
    bad = bad._replace(events=(Event(id=bad.events[0].id, at=bad.newest_time, kind="tool.called", actor="ada"),))
    logged: list[int] = []
    deposit = BatchWriter(log, dialect="nexus", admission=Admission(), on_rejected=lambda line, reason: logged.append(line.n))
    deposit.write_batch([good, bad])
    assert deposit.tally == ImportTally(recorded=1, rejected=1)
    assert logged == [2]
    assert [event.kind for event in log.read()] == ["fleet.commit", "log.rejected"]


def _event(n: int) -> Event:
    at = datetime(2026, 11, 15, tzinfo=UTC)
    return Event(id=f"00000000-0000-8000-8000-00000000000{n}", at=at, kind="fleet.commit", actor="ada", origin=Origin(dialect="nexus"))


def test_an_event_of_ours_that_travelled_as_a_cloudevent_comes_back_as_it_was(tmp_path: Path) -> None:
    cloudevents = find_dialect("cloudevents")
    event = _event(1)
    raw = cloudevents.encode(event)
    assert raw is not None
    (tmp_path / "x").write_bytes(raw)
    with open_sources([str(tmp_path / "x")]) as sources:
        [item] = read_sources(sources, cloudevents)
    assert item.events == (event,)
