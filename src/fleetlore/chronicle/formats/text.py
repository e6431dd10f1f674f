"""Plain text: a title a chapter, a paragraph a thread. Wrapped if there is a width, else a paragraph is one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from textwrap import TextWrapper

from fleetlore.chronicle.formats import by_thread, paragraphs, plain
from fleetlore.chronicle.naming import AS_THEY_ARE, Naming
from fleetlore.chronicle.story import Chapter, Detail, Opening, Sentence
from fleetlore.chronicle.teller import Ending

Paint = Callable[[str], str]
INDENT = "  "


def unpainted(text: str) -> str:
    """As it is."""
    return text


class Text:
    """For terminals, pipes and mails."""

    lists_arcs = False

    def __init__(
        self,
        *,
        detail: Detail,
        width: int | None = None,
        title: Paint = unpainted,
        name: Paint = unpainted,
        naming: Naming = AS_THEY_ARE,
    ) -> None:
        self._detail, self._width, self._naming = detail, width, naming
        self._title, self._name = title, name

    def opening(self, opening: Opening) -> str:
        """One paragraph."""
        return self._wrapped(plain(opening.text))

    def chapter(self, chapter: Chapter) -> Iterator[str]:
        """The title, then thread by thread."""
        title = plain(chapter.title)
        yield f"\n{self._title(title)}\n"
        if self._detail == "headline":
            yield "\n"
        for thread, sentences in by_thread(chapter.sentences):
            yield self._thread(plain(self._naming.title(thread)), sentences)

    def _thread(self, label: str, sentences: Sequence[Sentence]) -> str:
        if self._detail == "headline":
            text = _said(sentences)
            if text[: len(label)].lower() == label.lower():  # the sentence names its thread itself
                return self._wrapped(text, then=INDENT).replace(text[: len(label)], self._name(text[: len(label)]), 1)
            lines = self._wrapped(f"{label}: {text}", then=INDENT)
            return lines.replace(label, self._name(label), 1)
        if self._detail == "full":
            told = "".join(self._wrapped(plain(sentence.text), first=INDENT, then=INDENT * 2) for sentence in sentences)
        else:
            told = "\n".join(self._wrapped(_said(paragraph), first=INDENT, then=INDENT) for paragraph in paragraphs(sentences))
        return f"\n{self._name(label)}\n{told}"

    def ending(self, ending: Ending) -> Iterator[str]:
        """The closing, and what lies before."""
        yield "\n" + self._wrapped(plain(ending.closing.text))
        if ending.before is not None and ending.before.text:
            yield "\n" + self._wrapped(plain(ending.before.text))

    def _wrapped(self, text: str, *, first: str = "", then: str = "") -> str:
        if self._width is None:
            return f"{first}{text}\n"
        wrapper = TextWrapper(self._width, initial_indent=first, subsequent_indent=then, break_long_words=False, break_on_hyphens=False)
        return "".join(f"{line}\n" for line in wrapper.wrap(text))


def _said(sentences: Sequence[Sentence]) -> str:
    return " ".join([plain(sentence.text) for sentence in sentences])
