"""Packages as an installer would leave them in a folder, without an installer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def put(folder: Path, name: str, points: Mapping[str, Mapping[str, str]], *, version: str = "1.0", **modules: str) -> None:
    """A package with these entry points, by group, and these modules, by name."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    groups = (f"[{group}]\n" + "\n".join(f"{key} = {value}" for key, value in table.items()) for group, table in points.items())
    (info / "entry_points.txt").write_text("\n\n".join(groups) + "\n")
    for module, code in modules.items():
        (folder / f"{module}.py").write_text(code)
