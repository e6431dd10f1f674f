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
        self._listener = hear
        self.restart()
        self.has_emitted = False
        """Whether anything was heard: from then on, nothing may be asked for again."""
        self.listener_error: BaseException | None = None
        """What the hearer raised."""

    def restart(self) -> None:
        """The first attempt, or one after others of which nothing was heard."""
        self._partial_tag, self._tag_depth, self._pending_blanks = "", 0, list[str]()

    def feed(self, text: str) -> None:
        """The next piece."""
        text = self._partial_tag + text
        maybe = _MAYBE_TAG.search(text)
        end = maybe.start() if maybe else len(text)
        self._partial_tag = text[end:]
        self._emit_text(self._strip_reasoning(text[:end]))

    def flush(self) -> None:
        """There is no more; what looked like the beginning of a tag was none."""
        self._emit_text(self._strip_reasoning(self._partial_tag))
        self._partial_tag = ""

    def _strip_reasoning(self, text: str) -> str:
        """The text without tags, and without what stands in them."""
        kept, start = [], 0
        for tag in REASONING_TAG.finditer(text):
            if not self._tag_depth:
                kept.append(text[start : tag.start()])
            self._tag_depth = max(0, self._tag_depth - 1) if tag["end"] else self._tag_depth + 1
            start = tag.end()
        if not self._tag_depth:
            kept.append(text[start:])
        return "".join(kept)

    def _emit_text(self, words: str) -> None:
        """Blanks wait for the next word: they may be the last."""
        said = words.rstrip()
        if said:
            said = "".join((*self._pending_blanks, said))
            self._pending_blanks.clear()
            self._call_listener(said if self.has_emitted else said.lstrip())
        self._pending_blanks.append(words[len(words.rstrip()) :])

    def _call_listener(self, words: str) -> None:
        self.has_emitted = True
        try:
            self._listener(words)
        except BaseException as error:
            self.listener_error = error
            raise
