"""The structs of a story: paragraphs of sentences, each with its source events."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, NamedTuple

from msgspec import Struct, field

from fleetlore.views.outcomes.facts import Source

MOST_EVIDENCE = 12
"""Source events of a sentence, except in full detail."""

Detail = Literal["headline", "story", "full"]


class StorySentence(Struct, kw_only=True, omit_defaults=True):
    """One sentence and the events that it rests on."""

    text: str
    evidence: list[Source] = field(default_factory=list)
    at: datetime | None = None
    """In full detail, the time of its first event."""
    thread: str | None = None
    """In full detail, the thread of its events: `task:t7`."""


class StoryParagraph(Struct, kw_only=True):
    """What one session or thread did, or what happened to tasks."""

    title: str
    session: str | None = None
    thread: str | None = None
    """`task:t7`, `goal:…`, `run:…`, `mission:…` or `agent:…` for what is no session."""
    started: datetime | None = None
    ended: datetime | None = None
    sentences: list[StorySentence] = field(default_factory=list)


class Story(Struct, kw_only=True):
    """The story of a period."""

    title: str
    since: datetime | None
    until: datetime | None
    paragraphs: list[StoryParagraph]
    bill: str
    detail: Detail = "story"


class StreamedStory(NamedTuple):
    """A story whose paragraphs are made while they are written: in full detail it may be long."""

    title: str
    since: datetime | None
    until: datetime | None
    paragraphs: Iterable[StoryParagraph]
    bill: str
    detail: Detail = "full"
