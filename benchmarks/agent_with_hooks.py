"""What recording costs a coding agent: `python -m benchmarks.agent_with_hooks [--claude FILE] [--rounds N]`.

What is compared: `claude -p` with 20 tool calls against a stub of its model on loopback, with our hooks installed and without: the time
that the program says its turn took, and the CPU time of its process with all that it starts, also what outlives it. Both take turns, each
in a home of its own. Needs Linux and Claude Code; it is left out of `make bench` where there is none.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from shutil import which
from statistics import median
from threading import Thread
from time import monotonic, perf_counter, sleep

from tests.model_stub import Api

from benchmarks.measure import Row, middle_half, print_table, progress

CALLS = 20
MOST = 1.15
MOST_SECONDS = 300.0
"""For one turn; then the program hangs."""
HOOK_SECONDS = 12.0
"""A hook exits after 10 seconds in any case."""
_SET_CHILD_SUBREAPER = 36
_LORE = Path(sys.executable).parent / "fleetlore"
_QUIET = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "IS_SANDBOX")
_OFFLINE = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1,localhost"}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agent_with_hooks", description="What recording costs a coding agent.")
    parser.add_argument("--claude", metavar="FILE", default=which("claude"), help="Claude Code (else `claude` on PATH)")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    if options.claude is None:
        progress("Claude Code is not installed: nothing is measured", end=True)
        return 0
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)
    with tempfile.TemporaryDirectory(prefix="fleetlore-bench-") as name:
        with_hooks, without = Path(name, "with"), Path(name, "without")
        for home in (with_hooks, without):
            (home / "work").mkdir(parents=True)
        subprocess.run([_LORE, "install", "claude-code"], env=_environment(with_hooks, 0), check=True, stdout=subprocess.DEVNULL)
        pairs = []
        for n in range(options.rounds + 1):
            lanes = [with_hooks, without] if n % 2 else [without, with_hooks]
            took = {home: _run(options.claude, home) for home in lanes}
            if n:  # the first round warms up
                pairs.append((took[with_hooks], took[without]))
            progress(f"round {n} of {options.rounds}")
    print(f"\n{CALLS} tool calls of claude -p, {options.rounds} interleaved rounds")
    print_table([_make_row(name, [(mine[n], theirs[n]) for mine, theirs in pairs]) for n, name in enumerate(("time", "CPU time"))])
    return 0


def _make_row(name: str, pairs: list[tuple[float, float]]) -> Row:
    ratios = [mine / theirs for mine, theirs in pairs]
    mine, theirs = (median(each) * 1e3 for each in zip(*pairs, strict=True))
    return Row(f"{name} with hooks / without", "ms", mine, theirs, median(ratios), middle_half(ratios), MOST, "≤")


def _environment(home: Path, port: int) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "ANTHROPIC", "FLEETLORE_", "XDG_"))}
    model = {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}", "ANTHROPIC_API_KEY": "dummy", "HOME": str(home)}
    return kept | dict.fromkeys(_QUIET, "1") | _OFFLINE | model


def _run(claude: str, home: Path) -> tuple[float, float]:
    """Seconds that the program says its turn took, and seconds of CPU of all processes."""
    steps = [{"name": "Bash", "input": {"command": f"echo {n}", "description": "count"}} for n in range(CALLS)]
    with Api(steps) as api:
        Thread(target=api.serve_forever, daemon=True).start()
        command = [claude, "-p", "Count", "--dangerously-skip-permissions", "--output-format", "json"]
        began, used = perf_counter(), _read_cpu()
        environ = _environment(home, api.server_port)
        done = subprocess.run(command, cwd=home / "work", env=environ, check=False, capture_output=True, timeout=MOST_SECONDS)
        took = perf_counter() - began
        if done.returncode != 0 or not done.stdout.lstrip().startswith(b"{"):
            raise SystemExit(f"claude -p failed ({done.returncode}): {(done.stderr or done.stdout).decode(errors='replace')[-2000:]}")
        _reap_orphans()
        used = _read_cpu() - used
        api.shutdown()
    return float(json.loads(done.stdout).get("duration_ms", took * 1e3)) / 1e3, used


def _reap_orphans() -> None:
    """Wait for hooks in the background: they become children of this process when the program ends. What goes on for longer is no hook."""
    deadline = monotonic() + HOOK_SECONDS
    with suppress(ChildProcessError):
        while monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                sleep(0.005)


def _read_cpu() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
