"""Importing a transcript: `python -m benchmarks.recordings [--quick]`, or `make bench`.

A generated transcript of Claude Code (two thirds of its rows are progress, as in real ones) is imported by `lore import` in a separate
process into an empty log on disk. Measured: megabytes per second of one core, peak memory at two sizes, and the same file imported by
`agent-strace`, if installed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import which
from statistics import median
from typing import NamedTuple

import msgspec
from tests.transcripts import Transcript, bash, text, tool

from benchmarks.measure import Row, print_table, progress

REPEATS = 3
MB = 1_000_000


class Run(NamedTuple):
    """What one process used."""

    cpu: float
    megabytes: float
    """Its memory at its highest."""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recordings", description="Taking in a recording.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    parser.add_argument("--dir", type=Path, help="where to put the files (else the system's place for temporary files)")
    options = parser.parse_args(argv)
    from benchmarks.foundation import real_disk  # loads the peers, which other benchmarks of recordings do without

    small, large = (1, 10) if options.quick else (5, 100)
    with tempfile.TemporaryDirectory(prefix="fleetlore-bench-", dir=real_disk(options.dir)) as name:
        folder = Path(name)
        print_table([*_sizes(folder, small, large), *_against_the_peer(folder, small)])
    return 0


def _sizes(folder: Path, small: int, large: int) -> list[Row]:
    few, many = _write(folder, small), _write(folder, large)
    ours = [_import(folder, few) for _ in range(REPEATS)]
    big = _import(folder, many)
    speed = many.stat().st_size / MB / big.cpu
    memory = median(run.megabytes for run in ours)
    return [
        Row(f"import of {large} MB", "MB a second of one core", speed, None, speed, None, 8.0, "≥"),
        Row(f"memory at {large} MB / at {small} MB", "MB", big.megabytes, memory, big.megabytes / memory),
        Row(f"memory at {large} MB", "MB", big.megabytes, None, big.megabytes, None, 200.0, "≤"),
    ]


def _against_the_peer(folder: Path, size: int) -> list[Row]:
    peer = os.environ.get("AGENT_STRACE") or which("agent-strace", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if peer is None:
        progress("agent-strace is not installed: no comparison", end=True)
        return []
    path = folder / f"{size}.jsonl"
    ours, theirs = [], []
    for round_ in range(REPEATS):
        ours.append(_import(folder, path).cpu)
        own = folder / f"strace-{round_}"
        theirs.append(
            measure_process([peer, "--trace-dir", str(own), "import", str(path)], {"HOME": str(folder), "AGENT_STRACE_TELEMETRY": "0"}).cpu
        )
    ratio = median(they / we for they, we in zip(theirs, ours, strict=True))
    what = f"import of {size} MB: CPU of agent-strace / ours"
    return [Row(what, "seconds", median(theirs), median(ours), ratio, None, 5.0, "≥")]


def _import(folder: Path, path: Path) -> Run:
    log = folder / "log.db"
    for end in ("", "-wal", "-shm"):
        Path(f"{log}{end}").unlink(missing_ok=True)
    command = [sys.executable, "-m", "fleetlore", "--log", f"sqlite:{log}", "import", "claude-code", str(path)]
    return measure_process(command, {"XDG_CACHE_HOME": str(folder / "cache"), "XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder)})


def measure_process(command: list[str], extra: dict[str, str]) -> Run:
    """One process, and what it used: measured in a child of a child, so that each has its own account."""
    script = (
        "import json, resource, subprocess, sys\n"
        "code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(json.dumps([code, used.ru_utime + used.ru_stime, used.ru_maxrss]))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, *command], env=os.environ | extra, capture_output=True, check=True)
    code, cpu, highest = msgspec.json.decode(done.stdout)
    if code:
        raise SystemExit(f"{' '.join(command)}: ended with {code}")
    return Run(cpu, highest / (1 if sys.platform == "darwin" else 1024))


def _write(folder: Path, size: int) -> Path:
    """A transcript of so many megabytes."""
    path = folder / f"{size}.jsonl"
    written = turn = 0
    with path.open("wb") as file:
        while written < size * MB:
            turn += 1
            written += sum(file.write(line + b"\n") for line in make_turn(turn).lines())
            progress(f"writing {size} MB")
    return path


def make_turn(number: int) -> Transcript:
    """One turn of twelve calls."""
    recorded, code = Transcript(), "def tide(hour):\n    return table[hour % 24]\n" * 40
    own = f"{number:06x}"
    recorded.prompt(f"Mend the tide table, part {number}", f"p{own}")
    for step in range(12):
        call = f"toolu_{own}{step:02x}"
        blocks = (
            bash(call, f"pytest tests/tide_{step}.py -q") if step % 3 else tool(call, "Edit", file_path=f"/h/{step}.py", new_string=code)
        )
        recorded.reply(f"msg_{own}{step:02x}", text("I look at the next table and mend what is wrong with it."), output=1, stop=None)
        recorded.reply(f"msg_{own}{step:02x}", blocks, output=200 + step, stop="tool_use")
        for tick in range(6):
            recorded.add("progress", data={"type": "bash_progress", "output": "…", "elapsedTimeSeconds": tick}, parentToolUseID=call)
        output = "tests/tide.py ........................ [ 34%]\n" * (step + 1) * 4 + "288 passed in 4.10s\n"
        recorded.result(call, output, toolUseResult={"stdout": output, "stderr": "", "interrupted": False})
    recorded.reply(f"msg_{own}ff", text("The table is mended."), output=12)
    for index, row in enumerate(recorded.rows):
        row["uuid"] = f"{number:08x}-0000-4000-8000-{index:012x}"
    return recorded


if __name__ == "__main__":
    sys.exit(main())
