"""The modules in which a telling spends its time, compiled by mypyc for a wheel.

Nobody needs it: the `.py` files are the truth (docs/decisions/0010).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from setuptools import Extension

MODULES = (
    "chronicle/grammar",
    "chronicle/matcher",
    "chronicle/narrate",
    "chronicle/overview",
    "chronicle/phrasing",
    "chronicle/rests",
    "chronicle/sift",
    "chronicle/signs",
    "chronicle/spread",
    "chronicle/telling_deeds",
    "chronicle/work",
    "views/beats",
    "views/reading",
    "views/threads",
)
"""None of them defines a Struct: mypyc cannot compile one."""
GROUP = "fleetlore._story"
"""They are one library, so that they call each other as C does; this is the beginning of its name."""


def compiled_modules() -> list[Extension]:
    """What a build in the project's root adds; nothing where there is no mypyc."""
    try:
        from mypyc.build import mypycify
    except ImportError:
        return []
    sources = [str(Path("src/fleetlore", f"{module}.py")) for module in MODULES]
    try:
        return mypycify(sources, opt_level="1", debug_level="0", group_name=GROUP)
    except SystemExit as error:
        raise RuntimeError("mypyc does not compile the story; what it says stands above") from error
