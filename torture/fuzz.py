"""Runs every property test with thirty times the examples, above all the readers of damaged foreign bytes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).parents[1]
PLACES = (
    *("tests/fuzz", "tests/dialects", "tests/events", "tests/models", "tests/ingest", "tests/server", "tests/cli", "tests/log"),
    *(
        "tests/test_redact.py",
        "tests/test_nexus.py",
        "tests/prompts",
        "tests/kernel",
        "tests/goal",
        "tests/town",
        "tests/stage",
        "tests/graph",
        "tests/story",
        "tests/views",
        "tests/projections",
    ),
)
"""The readers first: should the time not be enough for all, it is the others that are left out."""
_counted = re.compile(r"(\d+) passed")


def fuzz(folder: Path, minutes: float) -> str:
    """All that hypothesis has a hand in, place by place, until it is done or the time is up."""
    end, held, left_out = perf_counter() + 60 * minutes, 0, list(PLACES)
    while left_out and (seconds := end - perf_counter()) > 0:
        recorded = _run(left_out[0], folder, seconds)
        if recorded is None:
            break
        held += int(counted[1]) if (counted := _counted.search(recorded)) else 0
        left_out.pop(0)
    rest = f"; no time was left for {', '.join(left_out)}" if left_out else ""
    return f"{held} properties hold with 2,000 examples where a test sets no number of its own, every reader with 100 damaged samples{rest}"


def _run(place: str, folder: Path, seconds: float) -> str | None:
    """What pytest says at the end; `None` if the time was not enough."""
    command = [sys.executable, "-m", "pytest", "-m", "hypothesis", "-n", "2", "--timeout", "0", "--basetemp", str(folder / "pytest"), place]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | {"FLEETLORE_HYPOTHESIS": "long"},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    assert done.returncode in (0, 5), f"{place}: {done.stdout[-3000:]}"  # 5: there is none
    return done.stdout
