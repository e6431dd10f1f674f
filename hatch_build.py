"""Compiles what can be compiled while a wheel is built; everything works without it (docs/decisions/0010 and 0011)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

if TYPE_CHECKING:
    from setuptools import Extension

QUICK, SOURCE = "fleetlore._quick", "src/fleetlore/_quick.c"


class CompiledParts(BuildHookInterface[Any]):
    """`FLEETLORE_PURE=1` leaves them out; a machine without a compiler or Python's headers does, too, and is told so.

    An editable installation gets `fleetlore._quick` alone, beside its source. A wheel also gets the modules that tell a story, where mypyc
    is at hand: as it is for `make wheel`, and not for an installation from source, which would wait a minute for it.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and put what was made into the wheel."""
        if os.environ.get("FLEETLORE_PURE"):
            return
        is_editable = version == "editable"
        folder = Path(self.root, "src" if is_editable else "build/compiled")
        try:
            made = _compile(self.root, folder, with_story=not is_editable)
        except Exception as error:  # noqa: BLE001 - compilers fail in their own ways, and none of them is ours
            self.app.display_warning(f"{SOURCE} is not compiled, and the log is slower for it: {error}")
            return
        if not is_editable:
            build_data["force_include"] |= {str(file): str(file.relative_to(folder)) for file in made}
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


def _compile(root: str, folder: Path, *, with_story: bool) -> list[Path]:
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    os.chdir(root)
    parts = [Extension(QUICK, [SOURCE]), *(_story(root) if with_story else ())]
    command = build_ext(Distribution({"ext_modules": parts, "package_dir": {"": "src"}}))
    command.build_lib = str(folder)
    command.force = True
    command.ensure_finalized()
    command.run()
    return [Path(root, path) for path in command.get_outputs()]


def _story(root: str) -> list[Extension]:
    sys.path.insert(0, root)
    try:
        from build_tools.compiled_story import compiled_modules
    except ImportError:  # a copy without the tools
        return []
    return compiled_modules()
