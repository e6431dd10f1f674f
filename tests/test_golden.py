"""Help texts, HTTP API, MCP tools and payload schemas change only on purpose: `python -m tests.golden.make` writes the files again."""

from __future__ import annotations

import pytest

from tests.golden import make


@pytest.mark.parametrize("name", make.FILES)
def test_what_others_rely_on_is_unchanged(name: str) -> None:
    assert make.FILES[name]() == (make.FOLDER / name).read_text(encoding="utf-8")
