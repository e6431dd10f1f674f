"""A bug of the past, put back on purpose, breaks a promise within a few seeds. `python -m torture.put_back` tries all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from torture.mutations import make_copy
from torture.put_back import find_bug, load_bugs


def test_every_bug_fits_the_sources() -> None:
    assert len(load_bugs()) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["expired_lease_renewed", "reviewers_get_ordinary_work"])
def test_a_bug_that_is_put_back_is_found(tmp_path: Path, name: str) -> None:
    [bug] = [bug for bug in load_bugs() if bug.name == name]
    copy = make_copy(tmp_path / "copy")
    assert find_bug(bug, copy, seeds=60) is not None
