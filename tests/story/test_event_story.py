"""The story in full detail covers every event exactly once; the live story shows sentences as events arrive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC
from typing import Any

import pytest

from fleetlore import Event
from fleetlore.projections.chronology import event_order
from fleetlore.story.event_story import LiveStory, write_events
from fleetlore.story.paragraphs import StoryParagraph
from fleetlore.story.voices import load_voice
from tests.story.fleets import make_events, make_fleet_day


def write_paragraphs(events: Iterable[Event], voice: str = "plain") -> list[StoryParagraph]:
    return list(write_events(sorted(events, key=event_order), zone=UTC, voice=load_voice(voice)))


@pytest.mark.parametrize("voice", ["plain", "nexus"])
def test_every_event_is_covered_exactly_once(voice: str) -> None:
    events = make_fleet_day(1500)
    recorded = [
        source.event for paragraph in write_paragraphs(events, voice) for sentence in paragraph.sentences for source in sentence.evidence
    ]
    assert Counter(recorded) == Counter(event.id for event in events)


def test_like_events_of_a_thread_share_a_sentence_and_others_do_not() -> None:
    rows: list[tuple[str, str, dict[str, Any]]] = [("fleet.heartbeat", name, {}) for name in ("ada", "bo", "ada", "bo", "ada")]
    sentences = write_paragraphs(make_events(*rows, ("fleet.commit", "ada", {"text": "Done"}), ("fleet.heartbeat", "ada", {})))[0].sentences
    assert [len(sentence.evidence) for sentence in sentences] == [3, 2, 1, 1]
    assert sentences[0].text.endswith("(3 times until 09:05).")


def test_a_paragraph_is_an_hour() -> None:
    rows = [("fleet.commit", "ada", {"text": f"Change {number}"}) for number in range(5)]
    titles = [paragraph.title for paragraph in write_paragraphs(make_events(*rows, minutes=30))]
    assert titles == ["Monday 2026-11-16 09:00", "Monday 2026-11-16 10:00", "Monday 2026-11-16 11:00"]


def test_private_text_is_not_shown_but_the_event_is_covered() -> None:
    sentence = write_paragraphs(make_events(("agent.thought", "ada", {"text": "a secret", "visibility": "private"})))[0].sentences[0]
    assert "secret" not in sentence.text
    assert len(sentence.evidence) == 1


def test_a_live_story_shows_an_event_at_once_and_repetitions_when_it_is_quiet() -> None:
    story = LiveStory("full", None, str, UTC)
    heartbeats = make_events(*(("fleet.heartbeat", "bo", {}) for _ in range(7)))
    assert [sentence for event in heartbeats for sentence in story.add(event)] == []
    assert [len(sentence.evidence) for sentence in story.flush()] == [7]
    (commit,) = make_events(("fleet.commit", "ada", {"text": "Done"}))
    assert [sentence.text for sentence in story.add(commit)] == ['ada committed "Done".']
    assert [sentence.text for sentence in story.add(commit)] == ['ada committed "Done".']


@pytest.mark.parametrize(("detail", "shown"), [("headline", ["fleet.error"]), ("story", ["fleet.commit", "fleet.error"])])
def test_a_live_story_leaves_out_what_its_detail_says(detail: str, shown: list[str]) -> None:
    story = LiveStory(detail, None, str, UTC)  # type: ignore[arg-type]
    events = make_events(("fleet.heartbeat", "bo", {}), ("fleet.commit", "ada", {}), ("fleet.error", "ada", {}))
    recorded = [source.event for event in events for sentence in story.add(event) for source in sentence.evidence]
    assert recorded == [event.id for event in events if event.kind in shown]
