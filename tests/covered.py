"""How much of each room the tests have walked through: `make coverage` prints the table, and fails where a room is below the mark."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, NamedTuple

MARK = 90.0
"""Per cent of the branches of a room, and of its statements and branches taken together."""
MODULE = ".py"
"""A module that stands alone has so few branches that a share of them says little: only both together are asked of it."""


class Walked(NamedTuple):
    """What there is in a room, and what of it was seen."""

    statements: int = 0
    seen: int = 0
    branches: int = 0
    taken: int = 0

    def with_module(self, summary: Mapping[str, Any]) -> Walked:
        """The same with one module more."""
        counts = (summary[name] for name in ("num_statements", "covered_lines", "num_branches", "covered_branches"))
        return Walked(*(before + more for before, more in zip(self, counts, strict=True)))

    @property
    def ways(self) -> float:
        """Of branches alone."""
        return _percent(self.taken, self.branches)

    @property
    def percent(self) -> float:
        """Of statements and branches together."""
        return _percent(self.seen + self.taken, self.statements + self.branches)


def room_of(path: str) -> str:
    """`runtime/driver` of `src/fleetlore/goal/gate/client.py`; a module that stands alone is its own room."""
    parts = PurePath(path).parts
    parts = parts[parts.index("fleetlore") + 1 :]
    return parts[0]


def is_low(room: str, walked: Walked) -> bool:
    """Whether too little of it was seen."""
    return walked.percent < MARK or (walked.ways < MARK and not room.endswith(MODULE))


def main() -> int:
    """Read what `coverage combine` has left."""
    recorded = subprocess.run([sys.executable, "-m", "coverage", "json", "-q", "-o", "-"], capture_output=True, check=True).stdout
    rooms: dict[str, Walked] = defaultdict(Walked)
    for path, module in json.loads(recorded)["files"].items():
        rooms[room_of(path)] = rooms[room_of(path)].with_module(module["summary"])
    sys.stdout.write(f"{'room':<20}{'statements':>12}{'seen':>8}{'branches':>10}{'taken':>8}{'together':>10}\n")
    for name, walked in sorted(rooms.items()):
        lines, ways = _percent(walked.seen, walked.statements), walked.ways
        low = "  below the mark" if is_low(name, walked) else ""
        sys.stdout.write(
            f"{name:<20}{walked.statements:>12,}{lines:>7.1f}%{walked.branches:>10,}{ways:>7.1f}%{walked.percent:>9.1f}%{low}\n"
        )
    return 1 if any(is_low(name, walked) for name, walked in rooms.items()) else 0


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 100.0


if __name__ == "__main__":
    raise SystemExit(main())
