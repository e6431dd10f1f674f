"""Matches whole words and phrases: `db` is not found in `feedback`. A `*` at the end stands for any ending."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORD = re.compile(r"\w+")


def split_words(text: str) -> list[str]:
    """The words of a text, case-folded."""
    return _WORD.findall(text.casefold())


class WordList:
    """Words and phrases to look for in a text."""

    def __init__(self, words: Iterable[str]) -> None:
        self._phrases = tuple(f" {' '.join(split_words(word))}{'' if word.endswith('*') else ' '}" for word in words)

    def is_found_in(self, text: str) -> bool:
        """Whether the text contains one of them as whole words."""
        padded = f" {' '.join(split_words(text))} "
        return any(phrase in padded for phrase in self._phrases)
