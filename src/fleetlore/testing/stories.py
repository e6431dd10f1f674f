"""The laws of a vocabulary: whatever an event says, its words make a sentence, always the same; and an arc is found where it should be."""

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

_HOSTILE = "a\n# b {agent} {0} %s <b>\x1b[31m\u202e"


def check_vocabulary(words: Vocabulary) -> None:
    """Hold a vocabulary to its laws. `AssertionError` says what broke."""
    try:
        checked = vocabulary.check_vocabulary(words)
    except Exception as error:
        raise AssertionError(f"the vocabulary cannot be used: {error}") from error
    for kind, groups in checked.phrases.items():
        for group in groups:
            for number in range(4 * len(group)):
                _check_said(kind, group, f"00000000-0000-7000-8000-{number:012x}")
    for pattern in checked.arcs:
        assert checked.arcs_told.get(pattern.kind), f"there are no words for the arc {pattern.kind!r}; put some into arcs_told"


def _check_said(kind: str, group: tuple[str, ...], id: str) -> None:
    event = Event(
        id=id, kind=kind, actor="ada", agent="ada", parent="mira", child="bo", task="t7", goal="g1", run="r1", mission="m1",
        old_state="one", new_state="two", text=_HOSTILE, data=dict.fromkeys(fields_of(group[0]), _HOSTILE),
    )  # fmt: skip
    told = say_by([group], event)
    assert told is not None, f"{kind}: an event that has all of {sorted(fields_of(group[0]))} cannot be told by {group[0]!r}"
    assert "\n" not in told, f"{kind}: {told!r} is no single line"
    assert "\x1b" not in told, f"{kind}: {told!r} has a control sequence in it"


def check_arc(kind: str, events: Iterable[Event]) -> Arc:
    """The arc of that kind which these events make, with the package installed; a minute passes between events that have no time."""
    assert kind in vocabulary.arc_kinds(), (
        f"no arc is called {kind!r}; is the package installed (pip install --editable .)? `lore doctor` says"
    )
    start = datetime(2026, 1, 1, 9, tzinfo=UTC)
    told = [
        replace(event, id=event.id or f"00000000-0000-7000-8000-{number:012x}", at=event.at or start + timedelta(minutes=number))
        for number, event in enumerate(events)
    ]
    found = list(arcs_of(told))
    arc = next((arc for arc in found if arc.kind == kind), None)
    assert arc is not None, f"no {kind} in it; there are {[arc.kind for arc in found] or 'no arcs'}"
    return arc
