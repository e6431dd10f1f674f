"""HTML: one page that needs nothing else. Each sentence leads to the events that prove it; arcs stand in the margin.

No script, nothing from outside; the page's own policy forbids both. Agents' words are text and never markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from html import escape

from fleetlore.chronicle.arcs import Arc
from fleetlore.chronicle.closing import arc_told
from fleetlore.chronicle.formats import by_thread, paragraphs, plain
from fleetlore.chronicle.formats.picture import drawn
from fleetlore.chronicle.formats.style import CSS
from fleetlore.chronicle.naming import AS_THEY_ARE, Naming
from fleetlore.chronicle.story import Chapter, Detail, Opening, Sentence
from fleetlore.chronicle.teller import Ending
from fleetlore.chronicle.timeline import Timeline

MOST_IDS = 100
"""So many ids of one sentence are listed; a longer run shows its first and its last."""


class Html:
    """For browsers, on a phone as on a desk."""

    lists_arcs = False

    def __init__(self, *, detail: Detail, zone: tzinfo, timeline: Timeline, naming: Naming = AS_THEY_ARE) -> None:
        self._detail, self._zone, self._timeline, self._naming = detail, zone, timeline, naming

    def opening(self, opening: Opening) -> str:
        """The page's head, the first paragraph, the picture of when things happened."""
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
            '<meta name="referrer" content="no-referrer">\n<meta name="color-scheme" content="light dark">\n'
            f"<title>Chronicle</title>\n<style>\n{CSS}</style>\n</head>\n<body>\n<main>\n"
            f'<header>\n<h1>Chronicle</h1>\n<p class="lead">{said(opening.text)}</p>\n{drawn(self._timeline, self._zone)}</header>\n'
        )

    def chapter(self, chapter: Chapter) -> Iterator[str]:
        """One section, an article a thread."""
        yield f"<section>\n<h2>{said(chapter.title)}</h2>\n"
        arcs: dict[str, list[Arc]] = {}
        for arc in chapter.arcs:
            arcs.setdefault(arc.thread, []).append(arc)
        for thread, sentences in by_thread(chapter.sentences):
            yield self._thread(thread, sentences, arcs.pop(thread, []))
        yield "</section>\n"

    def _thread(self, thread: str, sentences: Sequence[Sentence], arcs: Sequence[Arc]) -> str:
        if self._detail == "full":
            told = '<ul class="prose">\n' + "".join(f"<li>{_link(sentence)}</li>\n" for sentence in sentences) + "</ul>\n"
        else:
            told = '<div class="prose">\n' + "".join(map(_paragraph, paragraphs(sentences))) + "</div>\n"
        notes = "".join(f'<aside class="{_word(arc.kind)}">{_arc(arc, self._naming)}</aside>\n' for arc in arcs)
        margin = f'<div class="margin">\n{notes}</div>\n' if notes else ""
        return f"<article>\n<h3>{said(plain(self._naming.title(thread)))}</h3>\n{told}{margin}{self._evidence(sentences)}</article>\n"

    def _evidence(self, sentences: Sequence[Sentence]) -> str:
        count = sum(len(sentence.evidence) for sentence in sentences)
        rows = "".join(self._proof(sentence) for sentence in sentences)
        return f"<details>\n<summary>{count:,} {'event' if count == 1 else 'events'}</summary>\n<ol>\n{rows}</ol>\n</details>\n"

    def _proof(self, sentence: Sentence) -> str:
        what = " · ".join(filter(None, (sentence.beat, plain(sentence.agent))))
        return f"<li>{self._moment(sentence.at)} {said(what)} {_ids(sentence.evidence)}</li>\n"

    def _moment(self, at: datetime) -> str:
        local = at.astimezone(self._zone)
        return f'<time datetime="{local.isoformat(timespec="seconds")}">{local:%H:%M:%S}</time>'

    def ending(self, ending: Ending) -> Iterator[str]:
        """The closing, what lies before, and the end of the page."""
        yield f"<footer>\n<p>{said(ending.closing.text)}</p>\n"
        if ending.before is not None and ending.before.text:
            yield f"<p>{said(ending.before.text)}</p>\n"
        yield "</footer>\n</main>\n</body>\n</html>\n"


def said(text: str) -> str:
    """Anybody's words as text of a page."""
    return escape(plain(text))


def _paragraph(sentences: Sequence[Sentence]) -> str:
    return "<p>" + "\n".join(map(_link, sentences)) + "</p>\n"


def _link(sentence: Sentence) -> str:
    count = f' <span class="n">×{len(sentence.evidence):,}</span>' if len(sentence.evidence) > 1 else ""
    return f'<a class="s {_word(sentence.beat)}" href="#e-{_id(sentence.evidence[0])}">{said(sentence.text)}</a>{count}'


def _arc(arc: Arc, naming: Naming) -> str:
    ends = f'<a href="#e-{_id(arc.first)}">first</a> · <a href="#e-{_id(arc.last)}">last</a>'
    return f"<b>{said(arc.kind.replace('_', ' '))}</b> {said(arc_told(arc, naming=naming))} <small>{ends} of {arc.count:,}</small>"


def _ids(evidence: Sequence[str]) -> str:
    if len(evidence) <= MOST_IDS:
        return " ".join(map(_code, evidence))
    half = MOST_IDS // 2
    more = f"<i>… {len(evidence) - MOST_IDS:,} more; the JSON format names them all …</i>"
    return " ".join((*map(_code, evidence[:half]), more, *map(_code, evidence[-half:])))


def _code(id: str) -> str:
    return f'<code id="e-{_id(id)}">{said(id)}</code>'


def _id(id: str) -> str:
    return escape(plain(id).replace(" ", "-"))


def _word(word: str) -> str:
    """A beat or a kind of arc as the name of a class."""
    return "".join(character if character.isascii() and character.isalnum() else "-" for character in word) or "other"
