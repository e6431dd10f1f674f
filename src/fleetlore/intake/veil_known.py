"""Words that one event is known to hold, and what is put in their place wherever else it says them."""

from __future__ import annotations

import re
from collections.abc import Mapping


class Known:
    """Replaces words that stand by themselves, not in the middle of others or of a longer path, by pseudonyms."""

    def __init__(self, words: Mapping[str, str]) -> None:
        self._words = [(word, words[word]) for word in sorted(words, key=len, reverse=True)]
        self.count = 0

    def replace(self, text: str) -> str:
        """The text with each of them replaced, the longest first."""
        for word, other in self._words:
            if word in text:
                text, found = re.subn(rf"(?<![\w/@-]){re.escape(word)}(?![\w/\\@-])", other, text)
                self.count += found
        return text
