"""The reference is what the program itself would say today."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from fleetlore.cli.main import BEHIND, COMMANDS

FOLDER = Path(__file__).parents[1] / "docs" / "reference"


def load_maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference_maker", FOLDER / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MAKER = load_maker()


@pytest.mark.parametrize("name", MAKER.PAGES)
def test_the_reference_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == MAKER.text_of(name), f"docs/reference/{name} is stale: run `make reference`"


def test_a_note_is_about_something_that_the_program_has() -> None:
    """The notes are written by hand: one about a kind or command that is gone would be shown nowhere."""
    text = "".join((FOLDER / name).read_text(encoding="utf-8") for name in MAKER.PAGES)
    notes = [note for page, each in MAKER._NOTES.items() for note in each.values()]
    assert len(notes) > 90
    assert [note for note in notes if note not in text] == []


def test_every_command_and_verb_has_its_place() -> None:
    headings = re.findall(r"^#{3,6} `lore ([^`]+)`$", (FOLDER / "cli.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {heading.partition(" ")[0] for heading in headings} == COMMANDS.keys() | BEHIND.keys()
    assert {"goal run", "town mission start"} <= set(headings)


@pytest.mark.parametrize("name", MAKER.PAGES)
def test_every_place_that_the_reference_points_to_is_there(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    anchors = {heading.lower() for heading in re.findall(r"^#+ (\S+)$", text, re.MULTILINE)}
    for file, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", text):
        assert (FOLDER / file).exists() if file else anchor in anchors, (file, anchor)
