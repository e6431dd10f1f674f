"""What waiting costs: `python -m benchmarks.idle [--seconds N]`, processor time of processes that have nothing to do.

`lore up`, `lore watch` and `lore status --watch --json` run on a log with some events, and nothing happens. Each is given ten seconds to
start; then its processor time is taken over a minute.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import sleep

from benchmarks.measure import progress

MOST_SHARE = 0.01
"""Of one processor."""
START_SECONDS = 10.0
_LORE = str(Path(sys.executable).parent / "lore")
_COMMANDS = {
    "lore up": ("up", "--port", "0"),
    "lore watch": ("watch", "claude-code"),
    "lore status --watch": ("status", "--watch", "--json"),
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.idle", description="What waiting costs.")
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="fleetlore-bench-") as name:
        environ = {key: value for key, value in os.environ.items() if not key.startswith(("FLEETLORE_", "XDG_"))} | {"HOME": name}
        Path(name, ".claude", "projects").mkdir(parents=True)
        for n in range(20):
            subprocess.run([_LORE, "emit", "fleet.commit", "--agent", f"agent-{n}"], env=environ, check=True, stdout=subprocess.DEVNULL)
        started = {
            what: subprocess.Popen([_LORE, *words], env=environ, cwd=name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for what, words in _COMMANDS.items()
        }
        try:
            sleep(START_SECONDS)
            before = {what: _processor_seconds(process.pid) for what, process in started.items()}
            progress(f"waiting for {options.seconds:g} s")
            sleep(options.seconds)
            used = {what: _processor_seconds(process.pid) - before[what] for what, process in started.items()}
        finally:
            for process in started.values():
                process.terminate()
            for process in started.values():
                process.wait()
    print(f"\nprocessor time over {options.seconds:g} s in which nothing happens (at most {MOST_SHARE:.0%} of a processor)")
    for what, seconds in used.items():
        share = seconds / options.seconds
        print(f"  {what:<22} {seconds * 1e3:7.0f} ms  {share:6.2%}  {'ok' if share <= MOST_SHARE else 'MISSED'}")
    return 0


def _processor_seconds(pid: int) -> float:
    """Of a process and its threads (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
