"""Who works in a folder."""

from __future__ import annotations

import pytest

from fleetlore.views.folders import find_person


@pytest.mark.parametrize(
    ("account", "folder", "person"),
    [
        ("mira", "/home/mira/shop", "mira"),
        ("Mira S.", "/home/mira/shop", "Mira S."),
        ("root", "/Users/soph/work/cli", "soph"),
        ("mira", "/workspace", "mira"),
        ("root", "/workspace", ""),
        ("runner", "/home/runner/work/shop", ""),
        ("", r"C:\Users\ada\shop", "ada"),
    ],
)
def test_an_account_that_many_share_is_no_person(account: str, folder: str, person: str) -> None:
    assert find_person(account, folder) == person
