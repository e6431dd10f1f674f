"""Compiles the modules in which a telling spends its time, by mypyc. Nobody needs it: the `.py` files are the truth (docs/decisions/0010).

`python -m build_tools.compiled_story` compiles them in place, which a source file that is changed afterwards does not notice;
`python -m build_tools.compiled_story --clean` takes them away again.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from setuptools import Extension

SOURCES = Path("src")
MODULES = (
    "fleetlore.chronicle.grammar",
    "fleetlore.chronicle.matcher",
    "fleetlore.chronicle.narrate",
    "fleetlore.chronicle.overview",
    "fleetlore.chronicle.phrasing",
    "fleetlore.chronicle.sift",
    "fleetlore.chronicle.signs",
    "fleetlore.chronicle.spread",
    "fleetlore.chronicle.telling_deeds",
    "fleetlore.chronicle.work",
    "fleetlore.views.beats",
    "fleetlore.views.reading",
    "fleetlore.views.threads",
)
"""None of them defines a Struct: mypyc cannot compile one."""
GROUP = "fleetlore._story"
"""They are one library, so that they call each other as C does; this is the beginning of its name."""


def compiled_modules() -> list[Extension]:
    """What a build in the project's root adds: nothing where `FLEETLORE_PURE` says so, or where there is no mypyc."""
    if os.environ.get("FLEETLORE_PURE"):
        return []
    try:
        from mypyc.build import mypycify
    except ImportError:
        return []
    try:
        return mypycify([str(source_of(module)) for module in MODULES], opt_level="1", debug_level="0", group_name=GROUP)
    except SystemExit as error:
        raise RuntimeError("mypyc does not compile the story; what it says stands above") from error


def source_of(module: str) -> Path:
    """Where a module stands."""
    return SOURCES.joinpath(*module.split(".")).with_suffix(".py")


def compiled_files(root: Path) -> list[Path]:
    """What there is of them, compiled, in a source tree."""
    stems = [source_of(module).with_suffix("") for module in (*MODULES, f"{GROUP}__mypyc")]
    return [file for stem in stems for ending in ("so", "pyd") for file in (root / stem.parent).glob(f"{stem.name}.*{ending}")]


def main(argv: list[str]) -> int:
    """Compile in place, or take away what was compiled."""
    for file in compiled_files(Path()):
        file.unlink()
    if argv == ["--clean"]:
        return 0
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    command = build_ext(Distribution({"ext_modules": compiled_modules(), "package_dir": {"": str(SOURCES)}}))
    command.inplace = True
    command.ensure_finalized()
    command.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
