"""What a hook costs: `python -m benchmarks.hook [--quick]`, or `make bench`.

What is compared: the whole process of `lore hook claude-code` with a bare `python -c pass` (time), once for a call without a
secret in it and once with one; and its CPU with that of `agent-strace hook`, which records the same calls of Claude Code.
Why it is fair: all run from compiled bytecode, get the same payload on standard input, redact secrets, keep their files on
the same disk, and take turns. The peer is left out, with a note, where it is not installed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from shutil import which
from statistics import median

from benchmarks import processes
from benchmarks.measure import Row, middle_half, paired, print_table, progress

MOST_OF_BARE = 2.0
MOST_OF_PEER = 1 / 5

_LORE = Path(sys.executable).parent / "fleetlore"
_CALL: dict[str, object] = {
    "session_id": "0f5e0000-0000-4000-8000-000000000001",
    "transcript_path": "/home/ada/.claude/projects/-home-ada-shop/0f5e0000-0000-4000-8000-000000000001.jsonl",
    "cwd": "/home/ada/shop",
    "prompt_id": "0f5e0000-0000-4000-8000-000000000002",
    "permission_mode": "default",
    "effort": {"level": "high"},
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "python -m pytest tests/test_parser.py -q", "description": "Run the parser's tests"},
    "tool_use_id": "toolu_0001",
}
_WITH_SECRET: dict[str, object] = _CALL | {
    "tool_input": {"command": "curl -H 'Authorization: Bearer abcdefghij0123456789' https://shop.test"}
}


def main(argv: list[str] | None = None) -> int:
    options = _parse(argv)
    rounds = 15 if options.quick else 60
    processes.compile_everything()
    with tempfile.TemporaryDirectory(prefix="fleetlore-bench-") as name:
        rows = _rows(Path(name), rounds, _peer(options.peer))
    print(f"\nPython {platform.python_version()}, {rounds} rounds; whole processes")
    print_table(rows)
    if options.json is not None:
        options.json.write_text(json.dumps([row.as_dict() for row in rows], indent=1, ensure_ascii=False) + "\n")
    return 0


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hook", description="What a hook costs.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--peer", metavar="FILE", help="where `agent-strace` is (else beside this Python, else on PATH)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there as well")
    return parser.parse_args(argv)


def _peer(given: str | None) -> str | None:
    found = given or which("agent-strace", path=sysconfig.get_path("scripts")) or which("agent-strace")
    if found is None:
        progress("agent-strace is not installed: its lane is left out (pip install agent-strace)", end=True)
    return found


def _rows(folder: Path, rounds: int, peer: str | None) -> list[Row]:
    ours = [str(_LORE), "hook", "claude-code"]
    bare = [sys.executable, "-c", "pass"]
    rows = [
        _timed("lore hook / python -c pass", folder, ours, bare, _CALL, rounds),
        _timed("lore hook with a secret in it / python -c pass", folder, ours, bare, _WITH_SECRET, rounds),
    ]
    if peer is not None:
        _run([peer, "telemetry", "disable"], folder, {})
        _run([peer, "hook", "session-start"], folder, _CALL | {"hook_event_name": "SessionStart", "source": "startup"})
        rows.append(_cpu("lore hook / agent-strace hook, CPU", folder, ours, [peer, "hook", "pre-tool"], rounds))
    return rows


def _timed(what: str, folder: Path, ours: list[str], bare: list[str], call: Mapping[str, object], rounds: int) -> Row:
    lanes = [partial(_run, command, folder, call) for command in (ours, bare)]
    for lane in lanes * 2:
        lane()
    mine, theirs = paired(lanes[0], lanes[1], rounds=rounds)
    return _row(what, mine, theirs, MOST_OF_BARE)


def _cpu(what: str, folder: Path, ours: list[str], peer: list[str], rounds: int) -> Row:
    """Processor seconds of each, alternating."""
    used: tuple[list[float], list[float]] = ([], [])
    lanes = [_metered(partial(_run, command, folder, _CALL), found) for command, found in zip((ours, peer), used, strict=True)]
    paired(lanes[0], lanes[1], rounds=rounds)
    return _row(what, *used, MOST_OF_PEER)


def _metered(run: Callable[[], None], found: list[float]) -> Callable[[], None]:
    def metered() -> None:
        before = getrusage(RUSAGE_CHILDREN)
        run()
        after = getrusage(RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    return metered


def _row(what: str, mine: list[float], theirs: list[float], target: float) -> Row:
    ratios = [a / b for a, b in zip(mine, theirs, strict=True)]
    return Row(what, "ms", median(mine) * 1e3, median(theirs) * 1e3, median(ratios), middle_half(ratios), target, "≤")


def _run(command: list[str], folder: Path, call: Mapping[str, object]) -> None:
    hidden = ("FLEETLORE_", "XDG_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)} | {"HOME": str(folder)}
    subprocess.run(command, cwd=folder, env=environment, input=json.dumps(call).encode(), check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main())
