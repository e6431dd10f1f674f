"""Prose that is heard while it comes: the same words that the reply will hold, in pieces, each once."""

from __future__ import annotations

import re
from collections.abc import Callable

from fleetlore.models.parse_json import REASONING_TAG, REASONING_TAGS

_MAYBE_TAG = re.compile(rf"<(?:/?[a-z]{{0,12}}|/?(?:{REASONING_TAGS})\s[^<>]{{0,80}})\Z", re.IGNORECASE)
"""What may become a tag with the next piece."""


class TextStream:
    """Hands on what a model says. Thoughts are not speech, nor are blanks at either end.

    Where an endpoint leaves out the tag that opens its reasoning, the reasoning is heard: only its end tells that it was none.
    """

    def __init__(self, hear: Callable[[str], None]) -> None:
        self._hear = hear
        self.restart()
        self.begun = False
        """Whether anything was heard: from then on, nothing may be asked for again."""
        self.failed: BaseException | None = None
        """What the hearer raised."""

    def restart(self) -> None:
        """The first attempt, or one after others of which nothing was heard."""
        self._held, self._depth, self._blanks = "", 0, list[str]()

    def take(self, text: str) -> None:
        """The next piece."""
        text = self._held + text
        maybe = _MAYBE_TAG.search(text)
        end = maybe.start() if maybe else len(text)
        self._held = text[end:]
        self._say(self._spoken(text[:end]))

    def end(self) -> None:
        """There is no more; what looked like the beginning of a tag was none."""
        self._say(self._spoken(self._held))
        self._held = ""

    def _spoken(self, text: str) -> str:
        """The text without tags, and without what stands in them."""
        kept, start = [], 0
        for tag in REASONING_TAG.finditer(text):
            if not self._depth:
                kept.append(text[start : tag.start()])
            self._depth = max(0, self._depth - 1) if tag["end"] else self._depth + 1
            start = tag.end()
        if not self._depth:
            kept.append(text[start:])
        return "".join(kept)

    def _say(self, words: str) -> None:
        """Blanks wait for the next word: they may be the last."""
        said = words.rstrip()
        if said:
            said = "".join((*self._blanks, said))
            self._blanks.clear()
            self._tell(said if self.begun else said.lstrip())
        self._blanks.append(words[len(words.rstrip()) :])

    def _tell(self, words: str) -> None:
        self.begun = True
        try:
            self._hear(words)
        except BaseException as error:
            self.failed = error
            raise
