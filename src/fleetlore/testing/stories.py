"""Checks a vocabulary (every phrase gives one clean line, whatever the event holds) and that events form an arc."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from fleetlore.chronicle import vocabulary
from fleetlore.chronicle.arcs import Arc
from fleetlore.chronicle.teller import arcs_of
from fleetlore.chronicle.vocabulary import Vocabulary
from fleetlore.events.envelope import Event
from fleetlore.story.event_values import EventValues
from fleetlore.story.phrases import parse_phrase
from fleetlore.story.vocabulary import check_phrases

_HOSTILE_TEXT = "a\n# b {agent} {0} %s <b>\x1b[31m\u202e"


def check_vocabulary(words: Vocabulary) -> None:
    """Check a vocabulary with hostile values in every template. `AssertionError` says what failed."""
    try:
        checked = vocabulary.check_vocabulary(words)
    except Exception as error:
        raise AssertionError(f"the vocabulary cannot be used: {error}") from error
    for kind, groups in check_phrases(words).items():
        for template in (template for group in groups for template in group):
            _check_phrase(kind, template)
    for pattern in checked.arcs:
        assert checked.arcs_told.get(pattern.kind), f"there are no words for the arc {pattern.kind!r}; put some into arcs_told"


def _check_phrase(kind: str, template: str) -> None:
    phrase = parse_phrase(template)
    fields = {name.partition(":")[0] for name in phrase.placeholders()}
    event = Event(
        id="00000000-0000-7000-8000-000000000000", kind=kind, actor="mira", agent="ada", parent="mira", child="bo", task="t7", goal="g1",
        run="r1", mission="m1", old_state="one", new_state="two", text=_HOSTILE_TEXT, data=dict.fromkeys(fields, _HOSTILE_TEXT),
    )  # fmt: skip
    sentence, is_complete = phrase.fill(EventValues(event).get)
    assert is_complete, f"{kind}: an event that has all of {sorted(fields)} cannot be described by {template!r}"
    assert sentence.isprintable(), f"{kind}: {sentence!r} has a line break or a control character in it"


def check_arc(kind: str, events: Iterable[Event]) -> Arc:
    """The arc of this kind that the events form, with the package installed; events without a time are a minute apart."""
    assert kind in vocabulary.arc_kinds(), (
        f"no arc is called {kind!r}; is the package installed (pip install --editable .)? `lore doctor` says"
    )
    start = datetime(2026, 1, 1, 9, tzinfo=UTC)
    stamped = [
        replace(event, id=event.id or f"00000000-0000-7000-8000-{number:012x}", at=event.at or start + timedelta(minutes=number))
        for number, event in enumerate(events)
    ]
    arcs = list(arcs_of(stamped))
    arc = next((arc for arc in arcs if arc.kind == kind), None)
    assert arc is not None, f"no {kind} in it; there are {[arc.kind for arc in arcs] or 'no arcs'}"
    return arc
