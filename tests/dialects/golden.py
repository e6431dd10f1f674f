"""The golden lines: records written by hand from the documented shapes, one file a dialect."""

from __future__ import annotations

from pathlib import Path

from fleetlore.dialects.registry import NAMES

FOLDER = Path(__file__).parent / "golden"


def lines(dialect: str) -> list[bytes]:
    """Every golden record of a dialect."""
    return (FOLDER / f"{dialect}.jsonl").read_bytes().splitlines()


ALL = [(name, line) for name in NAMES for line in lines(name)]
IDS = [f"{name}-{n}" for name in NAMES for n, _ in enumerate(lines(name), 1)]
