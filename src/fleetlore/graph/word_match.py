"""Words that decide, matched as words: `db` is not found in `feedback`."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """The words of a text, in lower case."""
    return _WORD.findall(text.casefold())


class WordList:
    """Words and phrases to be found in a text."""

    def __init__(self, words: Iterable[str]) -> None:
        self._phrases = tuple(f" {' '.join(words_of(word))} " for word in words)

    def found_in(self, text: str) -> bool:
        """Whether one of them is there, whole."""
        said = f" {' '.join(words_of(text))} "
        return any(phrase in said for phrase in self._phrases)
