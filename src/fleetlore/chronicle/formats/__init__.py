"""How a telling is written down: text, Markdown, HTML, JSON. Each gives parts as the chapters come. Nothing hostile gets through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from fleetlore.chronicle.narrate import PAUSE
from fleetlore.chronicle.story import Sentence

NAMES = ("text", "markdown", "html", "json")
SCENE, MOST_SENTENCES = 4, 8
"""A paragraph of so many sentences ends where work is taken up anew, and one of so many ends in any case."""


def plain(text: str) -> str:
    """The text on one line, single blanks between its words, without a character that is not seen: no control, no turn of direction."""
    if text.isprintable() and "  " not in text and text == text.strip():
        return text
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def by_thread(sentences: Sequence[Sentence]) -> Iterator[tuple[str, list[Sentence]]]:
    """The sentences of a chapter, thread by thread, each with the thread's key."""
    for thread, group in groupby(sentences, key=attrgetter("thread")):
        yield thread, list(group)


def paragraphs(sentences: Sequence[Sentence]) -> Iterator[list[Sentence]]:
    """The sentences of a thread as they can be read: cut after a pause, where work is taken up anew, and before a paragraph is too long."""
    paragraph: list[Sentence] = []
    for sentence in sentences:
        if paragraph and _turns(paragraph, sentence):
            yield paragraph
            paragraph = []
        paragraph.append(sentence)
    if paragraph:
        yield paragraph


def _turns(paragraph: Sequence[Sentence], sentence: Sentence) -> bool:
    length = len(paragraph)
    return length >= MOST_SENTENCES or (length >= SCENE and sentence.beat == "claim") or sentence.at - paragraph[-1].at > PAUSE
