"""Compiles `fleetlore._quick` while a wheel is built, where that can be done; everything works without it (docs/decisions/0011)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULE = "fleetlore._quick"
SOURCE = "src/fleetlore/_quick.c"


class CompiledPart(BuildHookInterface[Any]):
    """`FLEETLORE_PURE=1` leaves it out; a machine without a compiler or Python's headers does, too, and is told so."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile into the source tree, where an editable installation finds it, and put it into the wheel."""
        if os.environ.get("FLEETLORE_PURE"):
            return
        try:
            [made] = _compile(self.root)
        except Exception as error:  # noqa: BLE001 - compilers fail in their own ways, and none of them is ours
            self.app.display_warning(f"{SOURCE} is not compiled, and the log is slower for it: {error}")
            return
        build_data["artifacts"].append(f"/src/fleetlore/{made.name}")  # whatever git ignores
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


def _compile(root: str) -> list[Path]:
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    os.chdir(root)
    command = build_ext(Distribution({"ext_modules": [Extension(MODULE, [SOURCE])], "package_dir": {"": "src"}}))
    command.inplace = True
    command.force = True
    command.ensure_finalized()
    command.run()
    return [Path(root, path) for path in command.get_outputs()]
