"""Markdown: a heading a chapter, a bold label a thread, a line a sentence, arcs as quotations. Agents' words mean nothing to Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fleetlore.chronicle.closing import arc_told
from fleetlore.chronicle.formats import by_thread, paragraphs, plain
from fleetlore.chronicle.naming import AS_THEY_ARE, Naming
from fleetlore.chronicle.story import Chapter, Detail, Opening
from fleetlore.chronicle.teller import Ending

# What has a meaning wherever it stands; what would make a link by itself; what has one at the beginning of a line.
_ANYWHERE = re.compile(r"[\\`*_\[\]<>&|~$^{}]")
_LINK = re.compile(r"://|(?<=www)\.|(?<=\w)@(?=\w)", re.IGNORECASE)
_AT_START = re.compile(r"[#+=:!%-]|\d+(?=[.)])")
_COMMAND = re.compile(r"\\`(lore [a-z -]+)\\`")


def escaped(text: str) -> str:
    """The text on one line, so that it is shown as it is wherever it stands in a line."""
    line = _LINK.sub(_escape_first, _ANYWHERE.sub(r"\\\g<0>", plain(text)))
    start = _AT_START.match(line)
    if start is None:
        return line
    at = start.end() if start[0][0].isdecimal() else 0
    return f"{line[:at]}\\{line[at:]}"


def _escape_first(match: re.Match[str]) -> str:
    return f"\\{match[0]}"


def ours(text: str) -> str:
    """A paragraph of ours, in which a command is code."""
    return _COMMAND.sub(r"`\1`", escaped(text))


class Markdown:
    """For pages on a forge."""

    lists_arcs = False

    def __init__(self, *, detail: Detail, naming: Naming = AS_THEY_ARE) -> None:
        self._detail, self._naming = detail, naming

    def opening(self, opening: Opening) -> str:
        """The title and one paragraph."""
        return f"# Chronicle\n\n{escaped(opening.text)}\n"

    def chapter(self, chapter: Chapter) -> Iterator[str]:
        """The heading, then thread by thread, each with the arcs that ended in it."""
        yield f"\n## {escaped(chapter.title)}\n"
        arcs: dict[str, list[str]] = {}
        for arc in chapter.arcs:
            arcs.setdefault(arc.thread, []).append(arc_told(arc, naming=self._naming))
        if self._detail == "headline":
            yield "\n"
        for thread, sentences in by_thread(chapter.sentences):
            label = f"**{escaped(plain(self._naming.title(thread)))}**"
            if self._detail == "headline":
                yield "".join(f"- {self._named(thread, label, sentence.text)}\n" for sentence in sentences)
                continue
            yield f"\n{label}\n\n"
            if self._detail == "full":
                yield "".join(f"- {escaped(sentence.text)}\n" for sentence in sentences)
            else:
                yield "\n".join("".join(f"{escaped(sentence.text)}\n" for sentence in each) for each in paragraphs(sentences))
            for told in arcs.pop(thread, ()):
                yield f"\n> {escaped(told)}\n"

    def _named(self, thread: str, label: str, text: str) -> str:
        """A headline with its thread in front, unless it begins with it."""
        return escaped(text) if text.lower().startswith(self._naming.title(thread).lower()) else f"{label}: {escaped(text)}"

    def ending(self, ending: Ending) -> Iterator[str]:
        """The closing, and what lies before."""
        yield f"\n---\n\n{ours(ending.closing.text)}\n"
        if ending.before is not None and ending.before.text:
            yield f"\n{ours(ending.before.text)}\n"
