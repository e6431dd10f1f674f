"""What takes whole processes: the start-up cost of `lore emit`, and how fast a follower elsewhere wakes.

`lore emit` is compared with a Python that only imports `sqlite3` and `json`: the least that any script which
stores a JSON event would load. Both run from compiled bytecode, in an empty folder, without our settings.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from random import Random
from time import monotonic_ns, sleep

import msgspec

import fleetlore
from benchmarks.measure import paired
from benchmarks.ours import url_of
from fleetlore import Event, connect

ROOT = Path(__file__).resolve().parent.parent
_LORE = Path(sys.executable).parent / "lore"


def compile_everything() -> None:
    """Write the bytecode of all that is installed: a first start would otherwise pay for it, or every start where it may not be kept."""
    places = [sysconfig.get_path("purelib"), str(Path(fleetlore.__file__).parent)]
    subprocess.run([sys.executable, "-m", "compileall", "-q", *places], check=False, stdout=subprocess.DEVNULL)


def emit_times(folder: Path, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of `lore emit` and of the bare Python, alternating."""
    emit = [
        str(_LORE),
        "emit",
        "fleet.commit",
        "--agent",
        "ada",
        "--task",
        "t7",
        "--text",
        "parser fixed",
        "--log",
        url_of(folder / "emit.db"),
    ]
    bare = [sys.executable, "-c", "import sqlite3, json"]
    for command in (emit, bare) * 2:
        _run(command, folder)
    return paired(lambda: _run(emit, folder), lambda: _run(bare, folder), rounds=rounds)


def _run(command: list[str], folder: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FLEETLORE_")} | {"HOME": str(folder)}
    subprocess.run(command, cwd=folder, env=environment, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def follow_delays(url: str, count: int, scope: str = "town") -> list[float]:
    """Microseconds from the call of `append`, the commit included, to the follower of a scope in another process."""
    rng = Random(7)
    with connect(url).blocking() as log:
        log.append([_sign()])
        command = [sys.executable, "-m", "benchmarks.follower", url, str(count), scope]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "waiting\n"
            log.append([_sign()])
            assert child.stdout.readline() == "ready\n"
            for _ in range(count):
                # Not in step with the follower's polling.
                sleep(rng.uniform(0.005, 0.015))
                log.append([_sign()])
            return msgspec.json.decode(child.stdout.readline(), type=list[float])


def _sign() -> Event:
    return Event(kind="fleet.heartbeat", agent="probe", data={"sent": monotonic_ns()})
