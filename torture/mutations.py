"""Hand-made mutations of the central decisions: does a test notice each one?

`python -m torture.mutations [NAME…]` applies one edit of `mutations.toml` at a time to a copy of the sources, runs the tests that
the table names, and lists the edits that no test noticed. Exit code 1 if fewer than nine in ten are noticed.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
COPIED = ("src", "tests", "torture", "simulation", "benchmarks", "docs", "examples", "pyproject.toml", "README.md", "ARCHITECTURE.md")
COPIES = 2
LONGEST_SECONDS = 900
LEAST_NOTICED = 0.9


class Mutation(NamedTuple):
    """One edit, and the tests that should notice it."""

    name: str
    file: str
    old: str
    new: str
    tests: list[str]


def load_mutations() -> list[Mutation]:
    """The table. Raises `ValueError` for an edit that does not fit the sources exactly once."""
    tables = tomllib.loads((Path(__file__).parent / "mutations.toml").read_text())
    found: list[Mutation] = []
    for group in tables.values():
        for name, row in group["edits"].items():
            file = f"src/fleetlore/{row.get('file') or group['file']}"
            mutation = Mutation(name, file, row["old"], row["new"], row.get("tests") or group["tests"])
            if (ROOT / file).read_text().count(mutation.old) != 1:
                raise ValueError(f"{name}: {mutation.old!r} must be in {file} exactly once; the code has changed, so change the table")
            found.append(mutation)
    return found


def is_noticed(mutation: Mutation, copy: Path) -> bool:
    """Whether a test fails on the mutated copy. The copy is restored afterwards."""
    path = copy / mutation.file
    original = path.read_text()
    path.write_text(original.replace(mutation.old, mutation.new))
    try:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *mutation.tests]
        ran = subprocess.run(
            command, cwd=copy, env=make_environment(copy), capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return True  # a test that hangs is noticed, too
    finally:
        path.write_text(original)
    if ran.returncode not in (0, 1):
        raise RuntimeError(f"{mutation.name}: the tests did not run\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return ran.returncode == 1


def make_environment(copy: Path) -> dict[str, str]:
    """The environment in which Python runs the copy."""
    return {**os.environ, "PYTHONPATH": f"{copy / 'src'}:{copy}", "PYTHONDONTWRITEBYTECODE": "1", "FLEETLORE_HYPOTHESIS": "few"}


def make_copy(target: Path) -> Path:
    """Copy the sources, tests and simulation."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__", "static", "node_modules"))
        else:
            shutil.copy(source, target / name)
    return target


def run_mutations(names: list[str]) -> int:
    """Try the named mutations, or all; print a line for each. Return the exit code."""
    mutations = [mutation for mutation in load_mutations() if not names or mutation.name in names]
    survivors: list[str] = []
    with TemporaryDirectory() as folder, ThreadPoolExecutor(COPIES) as pool:
        copies: Queue[Path] = Queue()
        for number in range(COPIES):
            copies.put(make_copy(Path(folder) / str(number)))

        def try_one(mutation: Mutation) -> tuple[Mutation, bool]:
            copy = copies.get()
            try:
                return mutation, is_noticed(mutation, copy)
            finally:
                copies.put(copy)

        for mutation, noticed in pool.map(try_one, mutations):
            print(f"{'noticed' if noticed else 'SURVIVED':9} {mutation.name}", flush=True)
            if not noticed:
                survivors.append(mutation.name)
    noticed_count = len(mutations) - len(survivors)
    print(f"{noticed_count} of {len(mutations)} mutations noticed" + (f"; not: {', '.join(survivors)}" if survivors else ""))
    return 0 if mutations and noticed_count >= LEAST_NOTICED * len(mutations) else 1


if __name__ == "__main__":
    sys.exit(run_mutations(sys.argv[1:]))
