"""Checks a vocabulary (every phrase gives one clean line, whatever the event holds) and that events form an arc."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from fleetlore.events.envelope import Event
from fleetlore.story.event_values import EventValues
from fleetlore.story.phrases import parse_phrase
from fleetlore.story.vocabulary import Vocabulary, check_vocabulary_parts
from fleetlore.views.outcomes import fold
from fleetlore.views.outcomes.rules import default_rules
from fleetlore.views.patterns import fold as pattern_fold
from fleetlore.views.patterns.across_sessions import find_record_patterns
from fleetlore.views.patterns.kinds import all_kinds
from fleetlore.views.patterns.model import Finding

_HOSTILE_TEXT = "a\n# b {agent} {0} %s <b>\x1b[31m\u202e"


def check_vocabulary(words: Vocabulary) -> None:
    """Fill every template with hostile values; raises `AssertionError` if a result is incomplete or not one printable line."""
    try:
        phrases, patterns = check_vocabulary_parts(words)
    except Exception as error:
        raise AssertionError(f"the vocabulary cannot be used: {error}") from error
    for kind, groups in phrases.items():
        for template in (template for group in groups for template in group):
            _check_phrase(kind, template)
    for pattern in patterns.patterns:
        assert patterns.closed.get(pattern.kind), f"there are no words for the arc {pattern.kind!r}; put some into arcs_told"


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


def check_arc(kind: str, events: Iterable[Event]) -> Finding:
    """The pattern of this kind in the events, with the package installed; events without a time are a minute apart."""
    assert kind in all_kinds(), f"no pattern is called {kind!r}; is the package installed (pip install --editable .)? `lore doctor` says"
    start = datetime(2026, 1, 1, 9, tzinfo=UTC)
    stamped = [
        replace(event, id=event.id or f"00000000-0000-7000-8000-{number:012x}", at=event.at or start + timedelta(minutes=number))
        for number, event in enumerate(events)
    ]
    found = find_all_patterns(stamped)
    finding = next((finding for finding in found if finding.kind == kind), None)
    assert finding is not None, f"no {kind} in it; there are {[finding.kind for finding in found] or 'no patterns'}"
    return finding


def find_all_patterns(events: Iterable[Event], now: datetime | None = None) -> list[Finding]:
    """All findings in some events, of threads and of sessions, at the time `now` (default: the newest event's time)."""
    events = list(events)
    now = now or max((event.at for event in events if event.at is not None), default=datetime.min.replace(tzinfo=UTC))
    state = pattern_fold.PatternState(is_bounded=False)
    for event in events:
        pattern_fold.apply(state, event)
    records = fold.list_outcomes(fold.fold_events(events, default_rules()), now)
    return sorted([*pattern_fold.find_patterns(state, now), *find_record_patterns(records)], key=pattern_fold.sort_key)
