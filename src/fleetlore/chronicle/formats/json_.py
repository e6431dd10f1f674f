"""JSON, written as a stream: whatever is cut off is no JSON, whatever ends is valid. The shape is in docs/chronicle.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from fleetlore.chronicle.arcs import Arc
from fleetlore.chronicle.formats import plain
from fleetlore.chronicle.story import Chapter, Opening, Sentence
from fleetlore.chronicle.teller import Ending

_encoder = msgspec.json.Encoder()


class Json:
    """For programs: every sentence with all of its evidence."""

    lists_arcs = True

    def __init__(self) -> None:
        self._is_first = True

    def opening(self, opening: Opening) -> str:
        """The opening, and the beginning of the chapters."""
        return f'{{"opening":{encoded(opening)},"chapters":['

    def chapter(self, chapter: Chapter) -> Iterator[str]:
        """One chapter."""
        yield f'{"" if self._is_first else ","}\n{{"title":{encoded(plain(chapter.title))},"sentences":['
        self._is_first = False
        for index, sentence in enumerate(chapter.sentences):
            yield f"{',' if index else ''}\n{encoded(sentence_object(sentence))}"
        yield "]}"

    def ending(self, ending: Ending) -> Iterator[str]:
        """The arcs, the numbers, the closing."""
        yield '],\n"arcs":['
        for index, arc in enumerate(ending.arcs):
            yield f"{',' if index else ''}\n{encoded(arc_object(arc))}"
        closing: dict[str, Any] = {"text": plain(ending.closing.text), "open_threads": ending.closing.open_threads}
        if ending.before is not None:
            closing["before"] = {"events": ending.before.events, "since": ending.before.since}
        yield f'],\n"summary":{encoded(ending.summary)},\n"closing":{encoded(closing)}}}\n'


def sentence_object(sentence: Sentence) -> dict[str, Any]:
    """A sentence as programs are given it."""
    return {"text": plain(sentence.text), "thread": sentence.thread, "evidence": sentence.evidence}


def arc_object(arc: Arc) -> dict[str, Any]:
    """An arc as programs are given it."""
    return {name: getattr(arc, name) for name in ("kind", "thread", "agents", "state", "first", "last", "evidence")}


def encoded(value: Any) -> str:
    """Any plain value as JSON, halves of characters too."""
    try:
        return _encoder.encode(value).decode()
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value))
