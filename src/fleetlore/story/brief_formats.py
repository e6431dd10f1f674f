"""The brief as text, Markdown, HTML, JSON, or a short message for a chat.

Event text is untrusted and is escaped for each output format.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping
from textwrap import TextWrapper

import msgspec

from fleetlore.story.brief import Brief, BriefLine
from fleetlore.story.phrases import load_phrases

WIDTH = 100
CHAT_LINES = 4
"""Maximum number of lines per section in a chat message."""

SECTIONS = ("delivered", "committed", "in_progress", "answered", "went_wrong", "check_this", "needs_you")
ACTIONABLE = frozenset(["went_wrong", "check_this", "needs_you"])
"""Sections whose lines end with the id of their session (in plain text)."""
_markdown_special = re.compile(r"([\\`*_\[\]<>|~#])")
_control = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")


def write_text(brief: Brief) -> str:
    """Plain text for a terminal. Lines to act on end with the short id of their session, for `lore show`."""
    wrapper = TextWrapper(WIDTH, initial_indent="  - ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    lines = [brief.title, ""]
    has_ids = False
    for name, heading, items in _list_sections(brief):
        lines.append(heading)
        for item in items:
            session = f"  [{item.sessions[0][:8]}]" if name in ACTIONABLE and len(item.sessions) == 1 else ""
            has_ids = has_ids or bool(session)
            lines += wrapper.wrap(clean_text(item.text) + session)
        lines.append("")
    ids = [load_phrases("brief")["bill"]["ids"]] if has_ids else []
    return "\n".join([*lines, brief.bill.text, *ids]) + "\n"


def write_markdown(brief: Brief) -> str:
    """Markdown, for a wiki page or an issue."""
    lines = [f"# {escape_markdown(brief.title)}", ""]
    for _, heading, items in _list_sections(brief):
        lines += [f"## {heading}", "", *(f"- {escape_markdown(item.text)}" for item in items), ""]
    return "\n".join([*lines, escape_markdown(brief.bill.text)]) + "\n"


def write_html(brief: Brief) -> str:
    """A fragment of HTML; each item names its sessions and source events in data attributes."""
    parts = ['<article class="brief">', f"<h1>{html.escape(brief.title)}</h1>"]
    for name, heading, items in _list_sections(brief):
        parts.append(f'<section class="{name.replace("_", "-")}"><h2>{html.escape(heading)}</h2><ul>')
        for item in items:
            cited = {"sessions": item.sessions, "tasks": item.tasks, "events": [source.event for source in item.evidence]}
            attributes = " ".join(f'data-{key}="{html.escape(" ".join(names))}"' for key, names in cited.items())
            parts.append(f"<li {attributes}>{html.escape(clean_text(item.text))}</li>")
        parts.append("</ul></section>")
    parts.append(f'<p class="bill">{html.escape(brief.bill.text)}</p></article>')
    return "\n".join(parts) + "\n"


_STYLE = """\
body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}
h1{font-size:1.5rem}h2{font-size:1.05rem;margin:1.4rem 0 .2rem}p{margin:.2rem 0}ul{margin:.2rem 0;padding-left:1.2rem}
time{opacity:.6;margin-right:.5rem}li,p{overflow-wrap:anywhere}
details{font-size:.8rem;opacity:.75}code{overflow-wrap:anywhere}.bill{margin-top:2rem;font-weight:600}"""


def open_page(title: str) -> str:
    """The beginning of a page without scripts or anything from outside, up to its body."""
    head = '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">\n'
    return f"{head}<title>{html.escape(clean_text(title))}</title><style>{_STYLE}</style></head><body>\n"


def write_page(brief: Brief) -> str:
    """The brief as a page of HTML."""
    return f"{open_page(brief.title)}{write_html(brief)}</body></html>\n"


def write_chat(brief: Brief) -> str:
    """A short chat message with a few lines per section; sections that need a person come first."""
    lines = [f"{brief.title}: {brief.bill.text}"]
    by_name = {name: (heading, items) for name, heading, items in _list_sections(brief)}
    for name in ("needs_you", "check_this", "went_wrong", "delivered", "committed", "in_progress", "answered"):
        if name not in by_name:
            continue
        heading, items = by_name[name]
        lines.append(f"{heading}:")
        lines += [f"• {clean_text(item.text)}" for item in items[:CHAT_LINES]]
        if len(items) > CHAT_LINES:
            lines.append(f"• and {len(items) - CHAT_LINES} more")
    return "\n".join(lines) + "\n"


def write_json(brief: Brief) -> str:
    """One JSON object with every line, its sessions and its source events."""
    return msgspec.json.encode(brief).decode() + "\n"


FORMATS: Mapping[str, Callable[[Brief], str]] = {
    "text": write_text,
    "markdown": write_markdown,
    "html": write_html,
    "json": write_json,
    "chat": write_chat,
}


def _list_sections(brief: Brief) -> Iterator[tuple[str, str, list[BriefLine]]]:
    """The sections that have lines, with their headings."""
    headings = load_phrases("brief")["headings"]
    for name in SECTIONS:
        if items := getattr(brief, name):
            yield name, headings[name], items


def clean_text(text: str) -> str:
    """Remove control characters and Unicode direction marks; tabs and line breaks are kept."""
    return _control.sub("", text)


def escape_markdown(text: str) -> str:
    """Escape text so that Markdown shows it literally."""
    return _markdown_special.sub(r"\\\1", clean_text(text))
