"""Programs that behave badly, to be driven: each a script of its own."""

from __future__ import annotations

import sys
from pathlib import Path


def agent(name: str, *args: str) -> tuple[str, ...]:
    """The command that runs one of them."""
    return (sys.executable, "-I", "-S", str(Path(__file__).with_name(f"{name}.py")), *args)
