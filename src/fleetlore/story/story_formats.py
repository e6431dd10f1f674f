"""The story as text, Markdown, HTML or JSON. Event text is untrusted: it is escaped for the format that it is written in."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from textwrap import fill

import msgspec

from fleetlore.story.brief_formats import WIDTH, clean_text, escape_markdown
from fleetlore.story.story import Story, StoryParagraph


def write_text(story: Story) -> str:
    """Plain text for a terminal; each heading ends with the short id of its session, for `lore show`."""
    parts = [story.title, ""]
    for paragraph in story.paragraphs:
        session = f"  [{paragraph.session[:8]}]" if paragraph.session else ""
        parts += [_wrap(clean_text(paragraph.title) + session), _wrap(_join(paragraph), "  "), ""]
    return "\n".join([*parts, story.bill]) + "\n"


def write_markdown(story: Story) -> str:
    """Markdown, for a wiki page or an issue."""
    parts = [f"# {escape_markdown(story.title)}", ""]
    for paragraph in story.paragraphs:
        parts += [f"**{escape_markdown(paragraph.title)}.** {escape_markdown(_join(paragraph))}", ""]
    return "\n".join([*parts, escape_markdown(story.bill)]) + "\n"


def write_html(story: Story) -> str:
    """A fragment of HTML; each sentence names its source events in a data attribute."""
    parts = ['<article class="story">', f"<h1>{html.escape(story.title)}</h1>"]
    for paragraph in story.paragraphs:
        session = html.escape(paragraph.session or "")
        parts.append(f'<section data-session="{session}"><h2>{html.escape(clean_text(paragraph.title))}</h2><p>')
        for sentence in paragraph.sentences:
            events = html.escape(" ".join(source.event for source in sentence.evidence))
            parts.append(f'<span data-events="{events}">{html.escape(clean_text(sentence.text))}</span>')
        parts.append("</p></section>")
    parts.append(f'<p class="bill">{html.escape(story.bill)}</p></article>')
    return "\n".join(parts) + "\n"


def write_json(story: Story) -> str:
    """One JSON object with every sentence and its source events."""
    return msgspec.json.encode(story).decode() + "\n"


FORMATS: Mapping[str, Callable[[Story], str]] = {"text": write_text, "markdown": write_markdown, "html": write_html, "json": write_json}


def _join(paragraph: StoryParagraph) -> str:
    return " ".join(clean_text(sentence.text) for sentence in paragraph.sentences)


def _wrap(text: str, indent: str = "") -> str:
    return fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
