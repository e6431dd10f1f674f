"""A small picture of when things happened: piled bars, drawn in SVG that stands in the page."""

from __future__ import annotations

from datetime import datetime, tzinfo
from html import escape

from fleetlore.chronicle.grammar import plural, span
from fleetlore.chronicle.narrate import EARLIEST, LATEST, day_name
from fleetlore.chronicle.timeline import Timeline
from fleetlore.views.activity import BEAT_FAMILIES

HEIGHT, STEP, BAR = 60, 8, 7
NAMES = {"work": "work", "done": "done and mended", "trouble": "trouble", "talk": "words and verdicts", "quiet": "signs of life"}


def drawn(timeline: Timeline, zone: tzinfo) -> str:
    """The picture with its legend; nothing where nothing happened."""
    columns = timeline.columns()
    if not columns:
        return ""
    tallest = max(sum(column) for column in columns)
    bars = "".join(_bar(index, column, tallest) for index, column in enumerate(columns))
    width = len(columns) * STEP
    title = (
        f"{plural(sum(map(sum, columns)), 'event').capitalize()} over time; one bar is {span(timeline.length())}, the tallest {tallest:,}"
    )
    return (
        f'<figure>\n<svg viewBox="0 0 {width} {HEIGHT}" preserveAspectRatio="none" role="img" aria-labelledby="when">\n'
        f'<title id="when">{escape(title)}</title>\n{bars}</svg>\n'
        f"<figcaption><span>{_moment(timeline.start(), zone)}</span><span>{_moment(timeline.end(), zone)}</span>"
        f'<span class="keys">{_legend(columns)}</span></figcaption>\n</figure>\n'
    )


def _bar(index: int, column: list[int], tallest: int) -> str:
    parts, floor = "", HEIGHT * 100
    for family, count in zip(BEAT_FAMILIES, column, strict=True):
        if not count:
            continue
        # In hundredths, and by whole numbers: the same bytes on every machine.
        height = max(100, count * HEIGHT * 100 // tallest)
        floor -= height
        parts += f'<rect class="f-{family}" x="{index * STEP}" y="{_units(max(0, floor))}" width="{BAR}" height="{_units(height)}"/>\n'
    return parts


def _units(hundredths: int) -> str:
    return f"{hundredths // 100}.{hundredths % 100:02d}"


def _legend(columns: list[list[int]]) -> str:
    there = [family for place, family in enumerate(BEAT_FAMILIES) if any(column[place] for column in columns)]
    return " ".join(f'<span class="key f-{family}">{NAMES[family]}</span>' for family in there)


def _moment(at: datetime, zone: tzinfo) -> str:
    local = min(max(at, EARLIEST), LATEST).astimezone(zone)
    return f"{day_name(local.date())}, {local:%H:%M}"
