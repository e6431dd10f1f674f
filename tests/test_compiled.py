"""What can be compiled of a telling: that it can be, that nobody needs it, and that nobody tests what was compiled of other sources."""

from __future__ import annotations

from importlib import import_module
from inspect import getmembers, isclass
from pathlib import Path

import pytest
from build_tools.compiled_story import GROUP, MODULES, compiled_files, compiled_modules, source_of
from msgspec import Struct

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", MODULES)
def test_a_module_that_can_be_compiled_defines_no_struct(name: str) -> None:
    module = import_module(name)
    assert [found for _, found in getmembers(module, isclass) if issubclass(found, Struct) and found.__module__ == name] == []


def test_nothing_is_compiled_where_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETLORE_PURE", "1")
    assert compiled_modules() == []


def test_what_is_compiled_here_is_as_new_as_its_source() -> None:
    compiled = compiled_files(ROOT)
    newest = max((ROOT / source_of(module)).stat().st_mtime for module in MODULES)
    stale = [str(file.relative_to(ROOT)) for file in compiled if file.stat().st_mtime < newest]
    assert stale == [], "compiled of older sources: run `make compiled`, or `make pure`"
    assert len(compiled) in (0, len(MODULES) + 1)  # one more, which they share


def test_compiled_files_are_found_by_their_names(tmp_path: Path) -> None:
    made = [tmp_path / source_of(name).with_suffix(".cpython-311-darwin.so") for name in (MODULES[0], f"{GROUP}__mypyc")]
    for file in made:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    assert sorted(compiled_files(tmp_path)) == sorted(made)
