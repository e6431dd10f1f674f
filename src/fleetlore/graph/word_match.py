"""Words that decide, matched as words: `db` is not found in `feedback`."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORD = re.compile(r"\w+")


def split_words(text: str) -> list[str]:
    """The words of a text, in lower case."""
    return _WORD.findall(text.casefold())


class WordList:
    """Words and phrases to be found in a text."""

    def __init__(self, words: Iterable[str]) -> None:
        self._phrases = tuple(f" {' '.join(split_words(word))} " for word in words)

    def is_found_in(self, text: str) -> bool:
        """Whether one of them is there, whole."""
        said = f" {' '.join(split_words(text))} "
        return any(phrase in said for phrase in self._phrases)
