"""Stories of events in every format and detail, without a log on disk."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from fleetlore import Event
from fleetlore.projections.chronology import event_order
from fleetlore.story.event_story import write_events
from fleetlore.story.paragraphs import StreamedStory
from fleetlore.story.story import make_story
from fleetlore.story.story_formats import STREAMS
from fleetlore.story.threads import ThreadBook
from fleetlore.views import task_outcomes
from fleetlore.views.outcomes import fold
from fleetlore.views.outcomes.rules import default_rules
from fleetlore.views.task_outcomes import make_task_outcome

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def render_story(events: Sequence[Event], format: str = "text", detail: Literal["headline", "story", "full"] = "story") -> str:
    """The story of these events as text."""
    if detail == "full":
        paragraphs = write_events(sorted(events, key=event_order), zone=UTC)
        return "".join(STREAMS[format](StreamedStory("Everything", None, None, paragraphs, "")))
    sessions = fold.list_outcomes(fold.fold_events(events, default_rules()), NOW)
    states: dict[str, task_outcomes.TaskState] = {}
    book = ThreadBook((one.session for one in sessions), UTC)
    for event in events:
        book.add(event)
        if event.task is not None and event.kind in task_outcomes.KINDS:
            task_outcomes.apply(states.setdefault(event.task, task_outcomes.begin_task(event.task)), event)
    tasks = [made for state in states.values() if (made := make_task_outcome(state)) is not None]
    return "".join(STREAMS[format](make_story(sessions, tasks, since=None, until=None, zone=UTC, book=book, detail=detail)))
