"""Streams a model's prose to a listener while it arrives: the same text that the reply will have, each piece once."""

from __future__ import annotations

import re
from collections.abc import Callable

from fleetlore.models.parse_json import REASONING_TAG, REASONING_TAGS

_MAYBE_TAG = re.compile(rf"<(?:/?[a-z]{{0,12}}|/?(?:{REASONING_TAGS})\s[^<>]{{0,80}})\Z", re.IGNORECASE)
"""Text that may become a tag with the next piece."""


class TextStream:
    """Passes on the text without reasoning, and without blanks at either end.

    If an endpoint leaves out the tag that opens its reasoning, the reasoning is passed on: only the closing tag shows
    what it was.
    """

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self.restart()
        self.has_emitted = False
        """Whether any text was passed on; after that, the request must not be retried."""
        self.listener_error: BaseException | None = None
        """The exception that the listener raised."""

    def restart(self) -> None:
        """Start an attempt. Only allowed as long as nothing was passed on."""
        self._partial_tag, self._tag_depth, self._pending_blanks = "", 0, list[str]()

    def feed(self, text: str) -> None:
        """Add the next piece."""
        text = self._partial_tag + text
        partial_tag = _MAYBE_TAG.search(text)
        end = partial_tag.start() if partial_tag else len(text)
        self._partial_tag = text[end:]
        self._emit_text(self._strip_reasoning(text[:end]))

    def flush(self) -> None:
        """End of the answer: what looked like the beginning of a tag is text."""
        self._emit_text(self._strip_reasoning(self._partial_tag))
        self._partial_tag = ""

    def _strip_reasoning(self, text: str) -> str:
        kept, start = [], 0
        for tag in REASONING_TAG.finditer(text):
            if not self._tag_depth:
                kept.append(text[start : tag.start()])
            self._tag_depth = max(0, self._tag_depth - 1) if tag["end"] else self._tag_depth + 1
            start = tag.end()
        if not self._tag_depth:
            kept.append(text[start:])
        return "".join(kept)

    def _emit_text(self, text: str) -> None:
        """Blanks wait for the next word, as they may be the end of the answer."""
        emitted = text.rstrip()
        if emitted:
            emitted = "".join((*self._pending_blanks, emitted))
            self._pending_blanks.clear()
            self._call_listener(emitted if self.has_emitted else emitted.lstrip())
        self._pending_blanks.append(text[len(text.rstrip()) :])

    def _call_listener(self, text: str) -> None:
        self.has_emitted = True
        try:
            self._on_text(text)
        except BaseException as error:
            self.listener_error = error
            raise
