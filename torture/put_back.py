"""Old bugs, put back on purpose: does the simulation find each one?

`python -m torture.put_back [--seeds N] [NAME…]` applies one entry of `simulation/put_back.toml` at a time to a copy of the sources and
runs seeds of its scenario until one breaks a promise. Exit code 1 if a bug is not found.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from torture.mutations import ROOT, make_copy, make_environment

SEEDS = 1000


class Bug(NamedTuple):
    """A bug of the past: the scenario that reaches its code, and edits that bring it back."""

    name: str
    was: str
    scenario: str
    edits: list[dict[str, str]]


def load_bugs() -> list[Bug]:
    """The table. Raises `ValueError` for an edit that does not fit the sources exactly once."""
    table = tomllib.loads((ROOT / "simulation" / "put_back.toml").read_text())
    bugs = [Bug(name, **row) for name, row in table.items()]
    for bug in bugs:
        for edit in bug.edits:
            if (ROOT / "src" / "fleetlore" / edit["file"]).read_text().count(edit["old"]) != 1:
                raise ValueError(
                    f"{bug.name}: {edit['old']!r} must be in {edit['file']} exactly once; the code has changed, so change the table"
                )
    return bugs


def find_bug(bug: Bug, copy: Path, seeds: int) -> str | None:
    """Put a bug into the copy and run seeds; returns what the simulation says of the first that breaks a promise. The copy is restored."""
    originals = {edit["file"]: (copy / "src" / "fleetlore" / edit["file"]).read_text() for edit in bug.edits}
    try:
        for edit in bug.edits:
            path = copy / "src" / "fleetlore" / edit["file"]
            path.write_text(path.read_text().replace(edit["old"], edit["new"]))
        command = [sys.executable, "-m", "simulation", "--scenario", bug.scenario, "--seeds", str(seeds), "--stop"]
        ran = subprocess.run(command, cwd=copy, env=make_environment(copy), capture_output=True, text=True, check=False)
    finally:
        for file, text in originals.items():
            (copy / "src" / "fleetlore" / file).write_text(text)
    if ran.returncode not in (0, 1) or "seeds" not in ran.stdout:
        raise RuntimeError(f"{bug.name}: the simulation did not run\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return ran.stdout.partition("\n")[0] if ran.returncode else None


def find_bugs(names: list[str], seeds: int = SEEDS) -> int:
    """Try the named bugs, or all; print a line for each. Return the exit code."""
    bugs = [bug for bug in load_bugs() if not names or bug.name in names]
    missed = []
    with TemporaryDirectory() as folder:
        copy = make_copy(Path(folder) / "copy")
        for bug in bugs:
            found = find_bug(bug, copy, seeds)
            print(f"{'found' if found else 'MISSED':7} {bug.name}: {found or f'no promise broken in {seeds} seeds'}", flush=True)
            if found is None:
                missed.append(bug.name)
    print(f"{len(bugs) - len(missed)} of {len(bugs)} bugs found within {seeds} seeds" + (f"; not: {', '.join(missed)}" if missed else ""))
    return 1 if missed or not bugs else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m torture.put_back", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many seeds to run for each bug")
    parser.add_argument("names", nargs="*", help="only these bugs")
    options = parser.parse_args()
    sys.exit(find_bugs(options.names, options.seeds))
