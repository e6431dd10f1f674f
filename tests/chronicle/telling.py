"""A telling of events at hand, in any format, without a log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

from fleetlore import Event
from fleetlore.chronicle.formats.html import Html
from fleetlore.chronicle.formats.json_ import Json
from fleetlore.chronicle.formats.markdown import Markdown
from fleetlore.chronicle.formats.text import Text
from fleetlore.chronicle.narrate import Narrator, Telling
from fleetlore.chronicle.overview import Overview
from fleetlore.chronicle.story import Chapter, Detail
from fleetlore.chronicle.teller import Before, Format, Tale, tell
from fleetlore.chronicle.timeline import Timeline
from fleetlore.views.event_text import event_stamp

DETAILS: tuple[Detail, ...] = ("headline", "story", "full")
FORMATS = ("text", "markdown", "html", "json")


def in_order(events: Sequence[Event]) -> list[Event]:
    return sorted(events, key=lambda event: (event_stamp(event), event.id or ""))


def told(
    events: Sequence[Event],
    name: str = "text",
    detail: Detail = "story",
    *,
    zone: tzinfo = UTC,
    now: datetime | None = None,
    width: int | None = None,
    before: Before | None = None,
) -> str:
    """The whole telling of events."""
    overview, timeline = Overview(), Timeline()
    for event in events:
        overview.see(event)
        timeline.see(event)
    forms: dict[str, Format] = {
        "text": Text(detail=detail, width=width),
        "markdown": Markdown(detail=detail),
        "html": Html(detail=detail, zone=zone, timeline=timeline),
        "json": Json(),
    }
    return "".join(tell(Tale(overview, in_order(events), before=before), Telling(detail, zone, now), forms[name]))


def told_json(events: Sequence[Event], detail: Detail = "story", **options: Any) -> Any:
    return json.loads(told(events, "json", detail, **options))


def chapters(events: Sequence[Event], detail: Detail = "story", **options: Any) -> list[Chapter]:
    return list(Narrator(Telling(detail=detail, **options)).chapters(in_order(events)))


def texts(events: Sequence[Event], detail: Detail = "story", **options: Any) -> list[str]:
    """Every sentence of the chapters."""
    return [sentence.text for chapter in chapters(events, detail, **options) for sentence in chapter.sentences]
