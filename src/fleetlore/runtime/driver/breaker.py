"""When to stop trying what fails again and again, and when to try it once more; pure."""

from __future__ import annotations


def is_open(*, failures: int, most: int, turn: int, opened: int | None, rest: int) -> bool:
    """Whether it is not to be tried at this turn.

    It opens after `most` failures in a row. `opened` is the turn of the newest of them: after `rest` turns more, one try is let
    through; should that fail too, its turn is the newest, and the rest begins again. `None`: it opens now.
    """
    if failures < most:
        return False
    return opened is None or turn - opened < max(1, rest)
