"""More than twenty prompts, each reviewed once; review them again when they change."""

from __future__ import annotations

import re

import pytest

from tests.prompts.prompts import FOLDER, PROMPTS, made


@pytest.mark.parametrize("name", PROMPTS)
def test_the_prompt_is_the_one_that_was_read(name: str) -> None:
    assert made(name) == (FOLDER / f"{name}.txt").read_text(), "run `python -m tests.prompts.prompts`, and read what it wrote"


def test_no_file_is_left_over_and_there_are_twenty_at_least() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(PROMPTS)
    assert len(PROMPTS) >= 20


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_is_well_set(name: str) -> None:
    text = (FOLDER / f"{name}.txt").read_text()
    assert "\n\n\n" not in text
    assert not re.search(r"[ \t]$", text, re.MULTILINE)
    assert not re.search(r"\b(\w+) \1\b", text), "a doubled word"
    assert ".." not in text
    assert len(headings := re.findall(r"^## .+$", text, re.MULTILINE)) == len(set(headings))
