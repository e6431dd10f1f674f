"""Under which words a deed is told: by its kind, by what a tool was used for or a turn came to, and by what came before it."""

from __future__ import annotations

from functools import lru_cache

from fleetlore.chronicle.goal_keys import KINDS as OF_GOALS
from fleetlore.chronicle.goal_keys import goal_key
from fleetlore.chronicle.goal_words import failing
from fleetlore.chronicle.phrases_life import DEEDS
from fleetlore.chronicle.phrases_pursuit import PHRASES as PURSUIT
from fleetlore.chronicle.rests import TURN
from fleetlore.events.envelope import Event
from fleetlore.events.tools import CHECKING
from fleetlore.views.recent_calls import BeatReason

_BY_DEED = frozenset(key.partition("/")[0] for key in DEEDS)


def key_of(event: Event, beat: str | None, note: BeatReason | None = None) -> str:
    """The key of an event's phrases; its kind where nothing more is known."""
    kind = event.kind
    if kind not in _BY_DEED:
        if kind not in OF_GOALS:
            return kind
        return key if (key := goal_key(event, note)) in PURSUIT else kind
    if kind == "prompt.submitted":
        return "prompt.submitted/correction" if beat == "setback" else kind
    data = event.data
    if kind == TURN:
        return _found(kind, reason, None) if isinstance(reason := data.get("reason"), str) else kind
    deed = data.get("deed")
    if data.get("interrupted") is True:
        return _found(kind, "interrupted", None)
    if not isinstance(deed, str):
        return kind if note is None else _found(kind, None, note)
    if kind == "tool.returned" and beat == "setback" and deed in CHECKING:
        kind = "tool.failed"  # the tool came back, and said that tests had failed
    return _found(kind, deed, note)


@lru_cache(maxsize=1024)
def _found(kind: str, deed: str | None, note: BeatReason | None) -> str:
    """The most telling key that there are words for."""
    keys = (f"{kind}/{deed}/{note}", f"{kind}/{note}", f"{kind}/{deed}")
    return next((key for key in keys if key in DEEDS), kind)


def words_of(event: Event) -> str:
    """What is quoted of an event where several are told together: of a deed its subject, else its text. Hostile."""
    if event.kind.startswith("tool.") and isinstance(subject := event.data.get("subject"), str):
        return subject
    return event.text or ""


def say_the_same(one: Event, other: Event) -> bool:
    """Whether two events of a kind say the same: by their text, and for a deed by what it was about."""
    return one.text == other.text and (one.kind not in _BY_DEED or one.data.get("subject") == other.data.get("subject"))


def is_same_trouble(one: Event, other: Event) -> bool:
    """Whether two turns of a goal came to nothing over the same criteria, whatever was said of them."""
    return one.kind == "driver.attempt_completed" and bool(told := failing(one)) and told == failing(other)
