"""Checks a vocabulary (every phrase gives one clean line, whatever the event holds) and that events form an arc."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from fleetlore.chronicle import vocabulary
from fleetlore.chronicle.arcs import Arc
from fleetlore.chronicle.phrasing import say_by
from fleetlore.chronicle.teller import arcs_of
from fleetlore.chronicle.vocabulary import Vocabulary, fields_of
from fleetlore.events.envelope import Event

_HOSTILE_TEXT = "a\n# b {agent} {0} %s <b>\x1b[31m\u202e"


def check_vocabulary(words: Vocabulary) -> None:
    """Check a vocabulary with hostile values in every template. `AssertionError` says what failed."""
    try:
        checked = vocabulary.check_vocabulary(words)
    except Exception as error:
        raise AssertionError(f"the vocabulary cannot be used: {error}") from error
    for kind, groups in checked.phrases.items():
        for group in groups:
            for number in range(4 * len(group)):
                _check_phrase(kind, group, f"00000000-0000-7000-8000-{number:012x}")
    for pattern in checked.arcs:
        assert checked.arcs_told.get(pattern.kind), f"there are no words for the arc {pattern.kind!r}; put some into arcs_told"


def _check_phrase(kind: str, group: tuple[str, ...], id: str) -> None:
    event = Event(
        id=id, kind=kind, actor="ada", agent="ada", parent="mira", child="bo", task="t7", goal="g1", run="r1", mission="m1",
        old_state="one", new_state="two", text=_HOSTILE_TEXT, data=dict.fromkeys(fields_of(group[0]), _HOSTILE_TEXT),
    )  # fmt: skip
    sentence = say_by([group], event)
    assert sentence is not None, f"{kind}: an event that has all of {sorted(fields_of(group[0]))} cannot be told by {group[0]!r}"
    assert "\n" not in sentence, f"{kind}: {sentence!r} is no single line"
    assert "\x1b" not in sentence, f"{kind}: {sentence!r} has a control sequence in it"


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
