"""Compiles the optional accelerator `fleetlore._quick` while a wheel is built; everything works without it (docs/decisions/0011)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

QUICK, SOURCE = "fleetlore._quick", "src/fleetlore/_quick.c"


class CompiledParts(BuildHookInterface[Any]):
    """`FLEETLORE_PURE=1` skips it; so does a machine without a compiler or Python's headers, with a warning."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and put what was made into the wheel."""
        if os.environ.get("FLEETLORE_PURE"):
            return
        is_editable = version == "editable"
        folder = Path(self.root, "src" if is_editable else "build/compiled")
        try:
            made = _compile(self.root, folder)
        except Exception as error:  # noqa: BLE001 - compilers fail in their own ways, and none of them is ours
            self.app.display_warning(f"{SOURCE} is not compiled, and the log is slower for it: {error}")
            return
        if not is_editable:
            build_data["force_include"] |= {str(file): str(file.relative_to(folder)) for file in made}
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


def _compile(root: str, folder: Path) -> list[Path]:
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    os.chdir(root)
    # Without debug information, which holds absolute paths: the same sources give the same file anywhere.
    parts = [Extension(QUICK, [SOURCE], extra_compile_args=["-g0"])]
    command = build_ext(Distribution({"ext_modules": parts, "package_dir": {"": "src"}}))
    command.build_lib = str(folder)
    command.force = True
    command.ensure_finalized()
    command.run()
    return [Path(root, path) for path in command.get_outputs()]
