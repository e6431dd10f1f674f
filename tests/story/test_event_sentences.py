"""What is said of each event: one sentence, the same for the same events."""

from __future__ import annotations

from fleetlore.events.catalog import known_kinds
from fleetlore.events.envelope import Event
from fleetlore.story.event_sentences import EventDescriber
from fleetlore.story.voices import load_voice


def test_every_known_kind_has_a_phrase_that_needs_no_data() -> None:
    plain = load_voice("plain")
    for kind in known_kinds():
        assert kind in plain.phrases
        assert not EventDescriber().describe(Event(kind=kind, actor="ada")).startswith("Event ")
