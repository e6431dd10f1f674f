"""The story as text, Markdown, HTML or JSON, part by part. Event text is untrusted: it is escaped for the format that it is written in."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from textwrap import fill

import msgspec

from fleetlore.story.brief_formats import WIDTH, clean_text, escape_markdown, open_page
from fleetlore.story.paragraphs import Story, StoryParagraph, StorySentence, StreamedStory

AnyStory = Story | StreamedStory
Paint = Callable[[str], str]


def stream_text(story: AnyStory, *, zone: tzinfo = UTC, width: int = WIDTH, paint: Paint = str) -> Iterator[str]:
    """Plain text for a terminal; each heading ends with the short id of its session, for `lore show`."""
    yield f"{paint(clean_text(story.title))}\n\n"
    for paragraph in story.paragraphs:
        session = f"  [{paragraph.session[:8]}]" if paragraph.session else ""
        if story.detail == "headline":
            lines = [_wrap_text(clean_text(sentence.text) + session, width, hang=2) for sentence in paragraph.sentences]
            yield "\n".join(lines) + "\n"
            continue
        heading = "\n".join(map(paint, _wrap_text(clean_text(paragraph.title) + session, width).split("\n")))
        if story.detail == "full":
            lines = [
                _wrap_text(f"{_format_clock(sentence.at, zone)} {clean_text(sentence.text)}", width, "  ", 9)
                for sentence in paragraph.sentences
            ]
        else:
            lines = [_wrap_text(_join_sentences(paragraph), width, "  ")] if paragraph.sentences else []
        yield "\n".join([heading, *lines, "", ""])
    yield f"{'' if story.detail != 'headline' else chr(10)}{clean_text(story.bill)}\n"


def stream_markdown(story: AnyStory, *, zone: tzinfo = UTC) -> Iterator[str]:
    """Markdown, for a wiki page or an issue."""
    yield f"# {escape_markdown(story.title)}\n\n"
    for paragraph in story.paragraphs:
        if story.detail == "headline":
            yield "".join(f"- {escape_markdown(sentence.text)}\n" for sentence in paragraph.sentences)
        elif story.detail == "full":
            items = (f"- {_format_clock(sentence.at, zone)} {escape_markdown(sentence.text)}\n" for sentence in paragraph.sentences)
            yield f"## {escape_markdown(paragraph.title)}\n\n{''.join(items)}\n"
        else:
            yield f"**{escape_markdown(paragraph.title)}.** {escape_markdown(_join_sentences(paragraph))}\n\n"
    yield f"{'' if story.detail != 'headline' else chr(10)}{escape_markdown(story.bill)}\n"


def stream_html(story: AnyStory, *, zone: tzinfo = UTC) -> Iterator[str]:
    """One page without scripts or anything from outside; each sentence leads to the ids of its source events."""
    yield open_page(story.title)
    yield from stream_article(story, zone=zone)
    yield "</body></html>\n"


def stream_article(story: AnyStory, *, zone: tzinfo = UTC) -> Iterator[str]:
    """The story as a fragment of HTML, for a page."""
    yield f'<article class="story">\n<h1>{html.escape(clean_text(story.title))}</h1>\n'
    for paragraph in story.paragraphs:
        session, thread = html.escape(paragraph.session or ""), html.escape(clean_text(paragraph.thread or ""))
        yield f'<section data-session="{session}" data-thread="{thread}">'
        if story.detail != "headline":
            yield f"<h2>{html.escape(clean_text(paragraph.title))}</h2>"
        if story.detail == "story":
            yield "<p>" + " ".join(_render_span(sentence) for sentence in paragraph.sentences) + "</p>"
        else:
            for sentence in paragraph.sentences:
                yield f"<p>{_time_element(sentence.at, zone)}{_render_span(sentence)}</p>"
        yield _source_list(paragraph) + "</section>\n"
    yield f'<p class="bill">{html.escape(clean_text(story.bill))}</p></article>\n'


def stream_json(story: AnyStory, *, zone: tzinfo = UTC) -> Iterator[str]:
    """One JSON object with every sentence and its source events. Output that was cut off is not valid JSON."""
    del zone
    head = {"title": story.title, "since": story.since, "until": story.until, "detail": story.detail}
    yield msgspec.json.encode(head).decode()[:-1] + ',"paragraphs":['
    for number, paragraph in enumerate(story.paragraphs):
        yield ("," if number else "") + msgspec.json.encode(paragraph).decode()
    yield f'],"bill":{msgspec.json.encode(story.bill).decode()}}}\n'


STREAMS: Mapping[str, Callable[..., Iterator[str]]] = {
    "text": stream_text,
    "markdown": stream_markdown,
    "html": stream_html,
    "json": stream_json,
}
"""Formats for a file or a terminal, part by part."""

FORMATS: Mapping[str, Callable[[Story], str]] = {
    "text": lambda story: "".join(stream_text(story)),
    "markdown": lambda story: "".join(stream_markdown(story)),
    "html": lambda story: "".join(stream_article(story)),
    "json": lambda story: "".join(stream_json(story)),
}
"""Formats as one text; HTML is a fragment for a page."""

MOST_LISTED = 100
"""Source events that a page lists for a sentence; of more, the first and the last half."""


def _render_span(sentence: StorySentence) -> str:
    events = html.escape(" ".join(source.event for source in sentence.evidence))
    return f'<span data-events="{events}">{html.escape(clean_text(sentence.text))}</span>'


def _source_list(paragraph: StoryParagraph) -> str:
    """The source events of each sentence, folded away."""
    rows = []
    for number, sentence in enumerate(paragraph.sentences, 1):
        ids = [source.event for source in sentence.evidence]
        shown = ids if len(ids) <= MOST_LISTED else [*ids[: MOST_LISTED // 2], "…", *ids[-MOST_LISTED // 2 :]]
        if shown:
            rows.append(f"<br>{number}. <code>{html.escape(' '.join(shown))}</code>")
    return f"<details><summary>Source events</summary>{''.join(rows)}</details>" if rows else ""


def _time_element(at: datetime | None, zone: tzinfo) -> str:
    return "" if at is None else f'<time datetime="{at.isoformat()}">{_format_clock(at, zone)}</time>'


def _format_clock(at: datetime | None, zone: tzinfo) -> str:
    return "" if at is None else f"{at.astimezone(zone):%H:%M:%S}"


def _join_sentences(paragraph: StoryParagraph) -> str:
    return " ".join(clean_text(sentence.text) for sentence in paragraph.sentences)


def _wrap_text(text: str, width: int, indent: str = "", hang: int = 0) -> str:
    """Wrapped text; further lines are indented by `hang` more."""
    later = indent + " " * hang
    return fill(text, width, initial_indent=indent, subsequent_indent=later, break_long_words=False, break_on_hyphens=False)
