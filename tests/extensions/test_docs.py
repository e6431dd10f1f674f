"""The code of docs/extending.md is code of the examples, and the page leads to every module of theirs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text()
SHOWN = re.findall(r"^```(?:python|toml|json)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
FOLDERS = [ROOT / "examples" / f"fleetlore-{name}" for name in ("kanban", "echo", "sprig")]
FILES = [path for folder in FOLDERS for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
CODE = [path for path in FILES if path.suffix == ".py" and path.name != "__init__.py"]


def test_there_is_code_to_look_at() -> None:
    assert len(SHOWN) > 3
    assert len(CODE) > 7


@pytest.mark.parametrize("shown", SHOWN, ids=range(len(SHOWN)))
def test_what_is_shown_is_in_an_example(shown: str) -> None:
    assert any(shown in path.read_text() for path in FILES if path.suffix in (".py", ".toml", ".jsonl"))


@pytest.mark.parametrize("path", CODE, ids=lambda path: path.name)
def test_every_module_of_the_examples_is_linked(path: Path) -> None:
    assert f"](../{path.relative_to(ROOT)})" in PAGE


def test_every_extension_point_is_mentioned() -> None:
    from fleetlore.cli.doctor import extension_points

    assert [point.group for point in extension_points()] == re.findall(r"^\| `(fleetlore\.\w+)` \|", PAGE, re.MULTILINE)
