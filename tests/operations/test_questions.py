"""What a person sees of the message that asks."""

from __future__ import annotations

import pytest

from fleetlore.operations.sessions import MAX_CHOICES, outline_question

LONG = "\n\n".join(["Some ways:", *(f"## Way {n}\n\nIt is like this." for n in range(20)), "Which one?"])


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("Shall I push?", "Shall I push?"),
        ("It works.\n\nShall I push?", "Shall I push?"),
        ("Two ways:\n\n**Option 1: a token**\n\n1. Make it\n\n**Option 2: an app**\n\nThe app is safer. Which one?",
         "- Option 1: a token\n- Option 2: an app\n\nThe app is safer. Which one?"),
        ("Two ways:\n1. Keep it\n2. Drop it\n\nWhich one?", "- 1. Keep it\n- 2. Drop it\n\nWhich one?"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_choices_and_the_paragraph_that_asks(message: str, shown: str) -> None:
    assert outline_question(message) == shown


def test_of_many_choices_the_last_are_shown() -> None:
    assert outline_question(LONG).splitlines()[:2] == [f"- Way {20 - MAX_CHOICES}", f"- Way {21 - MAX_CHOICES}"]
