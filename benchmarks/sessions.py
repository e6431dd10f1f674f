"""What happened in sessions: `python -m benchmarks.sessions [--quick] [--events N] [--megabytes N]`, or `make bench`.

Folding: recordings are imported, and the first `lore sessions --all`, which folds all of them, is compared with `lore tell --all`.
Answering: two logs have the same sessions in the last days and differ in what is older. `lore sessions`, `lore brief` and
`lore story --since 1h` must take the same time on both, and little memory; `lore up` at most twice the memory. Every command runs in a
process of its own.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from statistics import median
from time import sleep
from typing import Any

from benchmarks.measure import Row, print_table, progress
from benchmarks.recordings import MB, Run, make_turn, measure_process
from fleetlore import Event, connect

REPEATS = 5
FEW = 30_000
BATCH = 500
CALLS = 26
"""Of each session; it has about sixty events."""
TURNS = 20
"""Of each recording."""
NEWEST = "the newest session"
QUESTIONS = (("sessions",), ("brief",), ("story", "--since", "1h"), ("status",), ("costs",), ("find", "total"), ("show", NEWEST))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sessions", description="What happened in sessions.")
    parser.add_argument("--quick", action="store_true", help="300,000 events and 20 MB")
    parser.add_argument("--events", type=int, help="of the long log (3,000,000)")
    parser.add_argument("--few", type=int, default=FEW, help="events of the short log (30,000)")
    parser.add_argument("--only-answers", action="store_true", help="do not measure folding")
    parser.add_argument("--only-server", action="store_true", help="measure only the memory of `lore up`, once it has caught up")
    parser.add_argument("--megabytes", type=int, help="of recordings to fold (350)")
    parser.add_argument("--dir", type=Path, help="where to put the files (else the system's place for temporary files)")
    options = parser.parse_args(argv)
    events = options.events or (300_000 if options.quick else 3_000_000)
    megabytes = options.megabytes or (20 if options.quick else 350)
    with tempfile.TemporaryDirectory(prefix="fleetlore-bench-", dir=options.dir) as name:
        folding = [] if options.only_answers or options.only_server else _fold(Path(name), megabytes)
        logs = {count: _fill(Path(name), count) for count in (options.few, events)}
        answers = [] if options.only_server else _ask(Path(name), logs)
        print_table([*folding, *answers, *_serve(Path(name), logs)])
    return 0


# --- folding


def _fold(folder: Path, megabytes: int) -> list[Row]:
    recordings, size, count = folder / "recordings", 0, 0
    recordings.mkdir()
    while size < megabytes * MB:
        count += 1
        path = recordings / f"{count:08x}-0000-4000-8000-000000000000.jsonl"
        size += path.write_bytes(
            b"".join(line + b"\n" for turn in range(TURNS) for line in _rename(make_turn(count * TURNS + turn), path.stem))
        )
        progress(f"writing {megabytes} MB")
    log = folder / "folding.db"
    imported = _lore(folder, log, "import", "claude-code", str(recordings))
    folded = _lore(folder, log, "sessions", "--all", "--json")
    result = _lore(folder, log, "tell", "--all")
    return [
        Row(
            f"folding {megabytes} MB: lore sessions / lore tell",
            "CPU seconds",
            folded.cpu,
            result.cpu,
            folded.cpu / result.cpu,
            None,
            1.3,
            "≤",
        ),
        Row(f"folding {megabytes} MB / importing it", "CPU seconds", folded.cpu, imported.cpu, folded.cpu / imported.cpu),
    ]


def _rename(turn: Any, session: str) -> list[bytes]:
    for row in turn.rows:
        row["sessionId"] = session
    lines: list[bytes] = turn.lines()
    return lines


# --- answering


def _ask(folder: Path, logs: dict[int, Path]) -> list[Row]:
    short, events = logs
    rows = []
    for question in QUESTIONS:
        words = {count: [_newest_session(count) if word == NEWEST else word for word in question] for count in logs}
        for count, log in logs.items():
            first = _lore(folder, log, *words[count])  # everything is folded once
            progress(f"lore {' '.join(question)}, first time, {count:,} events: {first.cpu:.1f} s of CPU", end=True)
        few, many = list[Run](), list[Run]()
        for _ in range(REPEATS):
            few.append(_lore(folder, logs[short], *words[short]))
            many.append(_lore(folder, logs[events], *words[events]))
        ratio = median(big.cpu / small.cpu for big, small in zip(many, few, strict=True))
        what, memory = f"lore {' '.join(question)}", max(run.megabytes for run in many)
        times = median(run.cpu for run in many), median(run.cpu for run in few)
        rows.append(Row(f"{what}: {events:,} events / {short:,}", "CPU seconds", *times, ratio, None, 1.5, "≤"))
        rows.append(Row(f"{what}: memory at {events:,} events", "MB", memory, None, memory, None, 150.0, "≤"))
    return rows


def _serve(folder: Path, logs: dict[int, Path]) -> list[Row]:
    """The most memory of `lore up`, which folds the log for the first time, until its views have caught up."""
    from benchmarks.control_room import open_server  # needs the packages of `make bench`; tests import this module without them

    memory = {}
    for count, log in logs.items():
        with open_server(folder, log) as server:
            server.get("events?limit=100")
            progress(f"lore up, {count:,} events: the first page after {server.age:.1f} s", end=True)
            while not server.meta()["caught_up"]:
                sleep(1)
            memory[count] = server.read_memory()
            progress(f"lore up, {count:,} events: caught up after {server.age:.0f} s, {memory[count]:.0f} MB", end=True)
    short, events = logs
    what = f"lore up: memory at {events:,} events / {short:,}"
    return [Row(what, "MB", memory[events], memory[short], memory[events] / memory[short], None, 2.0, "≤")]


def _fill(folder: Path, count: int) -> Path:
    """A log of so many events: a session every hour, the newest one now."""
    path, result = folder / f"{count}.db", _sessions(count)
    with connect(f"sqlite:{path}").blocking() as log:
        while batch := list(islice(result, BATCH)):
            log.append(batch)
            progress(f"writing {count:,} events")
    return path


def _count_sessions(events: int) -> int:
    return events // len(list(_session(0, datetime.now(UTC))))


def _newest_session(events: int) -> str:
    return f"{_count_sessions(events) - 1:08x}"


def _sessions(count: int) -> Iterator[Event]:
    many = _count_sessions(count)
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=many, minutes=-30)
    for number in range(many):
        yield from _session(number, start + timedelta(hours=number))


def _session(number: int, start: datetime) -> Iterator[Event]:
    run = f"{number:08x}-0000-4000-8000-000000000000"
    who: dict[str, Any] = {"agent": f"claude-code/{number:08x}", "run": run}
    seconds = 0

    def event(kind: str, text: str | None = None, **fields: Any) -> Event:
        nonlocal seconds
        seconds += 5
        return Event(kind=kind, at=start + timedelta(seconds=seconds), text=text, **who, **fields)

    where = {"program": "claude-code", "cwd": "/home/mira/src/shop", "project": "shop", "branch": "main"}
    yield event("session.started", "shop", data=where)
    yield event("prompt.submitted", "Round the total", data={"prompt": f"Round the total of order {number} to cents."})
    for step in range(CALLS):
        own = f"{number:08x}-0000-7000-8000-{step:012x}"
        edit: dict[str, Any] = {
            "tool": "Edit",
            "input": {"file_path": f"/home/mira/src/shop/cart_{step}.py", "old_string": "a", "new_string": "b"},
        }
        test: dict[str, Any] = {"tool": "Bash", "input": {"command": "pytest -q"}}
        given = (test if step % 4 == 3 else edit) | {"call_id": own}
        yield event("tool.called", given["tool"], id=own, data=given)
        yield event("tool.returned", cause=own, data={"tool": given["tool"], "call_id": own, "output": "== 12 passed in 3s =="})
        if step % 5 == 4:
            yield event("model.replied", data={"model": "claude-opus-4-8", "input": 900, "output": 200, "said": "The next file."})
    words = "The total is rounded to cents. All tests pass."
    yield event("model.replied", words, data={"model": "claude-opus-4-8", "input": 900, "output": 60, "said": words})
    yield event("session.turn_ended", words)


def _lore(folder: Path, log: Path, *words: str) -> Run:
    places = {"XDG_CACHE_HOME": str(folder / "cache"), "XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder)}
    return measure_process([sys.executable, "-m", "fleetlore", "--log", f"sqlite:{log}", *words], places)


if __name__ == "__main__":
    sys.exit(main())
