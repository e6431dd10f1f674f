"""What a log is not to hold beside secrets: prompts, code, paths, names, any of them. docs/privacy.md tells each.

Who did what when, how long it took, how it ended and what it cost stays, and so do ids and order: the story of a veiled log
can be told. Prompts and code are withheld as they are when a log is shipped; paths and names become pseudonyms, the same for
the same, so that what belongs together still does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

from msgspec.structs import replace

from fleetlore.events.envelope import SCOPE_FIELDS, Event, Origin
from fleetlore.intake.veil_names import Names
from fleetlore.intake.veil_paths import Paths
from fleetlore.intake.withholding import withhold
from fleetlore.intake.withholding_rules import Hold
from fleetlore.intake.withholding_words import is_placeholder
from fleetlore.log.admission import OWN_DIALECT

_ROUGH = Hold(prompts=True, code=True)


class Mask(Protocol):
    """Puts pseudonyms in the place of one sort of thing, as far as one event tells of them."""

    @property
    def count(self) -> int:
        """How many were replaced."""

    def holds(self, key: str) -> bool:
        """Whether what stands under a name is such a thing."""

    def whole(self, key: str, value: str) -> str:
        """The pseudonym of one."""

    def within(self, text: str) -> str:
        """A text with those in it replaced."""

    def line(self, text: str) -> str:
        """The same for the event's line for people."""

    def scope(self, name: str, value: str) -> str:
        """The same for the envelope's actor and scopes, where most names are those of agents."""


def veiling(levels: Collection[str]) -> Callable[[Event], Event]:
    """`veil` for these levels."""
    return lambda event: veil(event, levels)


def veil(event: Event, levels: Collection[str]) -> Event:
    """The event without what the levels name: `prompts`, `code`, `paths`, `names`. Twice changes nothing more."""
    if not levels:
        return event
    hold = Hold(prompts="prompts" in levels, code="code" in levels, titles=True)
    if hold.prompts or hold.code:
        event = withhold(event, hold)
    elif event.kind == "log.rejected":
        event = withhold(event, _ROUGH)  # a line of which nobody knows what it holds
    if "paths" in levels:
        event = _masked(event, Paths(event))
    if "names" in levels:
        event = _masked(event, Names(event))
    return event


def _masked(event: Event, mask: Mask) -> Event:
    names = {name: mask.scope(name, value) for name in ("actor", *SCOPE_FIELDS) if (value := getattr(event, name)) is not None}
    text = None if event.text is None else mask.line(event.text)
    data = _walked(event.data, mask)
    origin = None if event.origin is None else _origin(event.origin, mask)
    count = mask.count + (event.origin is not None and event.origin.rest is not None)
    if not count:
        return event
    origin = origin or Origin(dialect=OWN_DIALECT)
    return replace(event, **names, text=text, data=data, origin=replace(origin, redacted=origin.redacted + count))


def _origin(origin: Origin, mask: Mask) -> Origin:
    """Without the rest of a foreign record, which may hold the same again."""
    source = origin.source and (mask.whole("source", origin.source) if mask.holds("source") else mask.within(origin.source))
    cut = tuple(replace(each, path=mask.within(each.path)) for each in origin.cut)
    return replace(origin, rest=None, source=source, id=origin.id and mask.within(origin.id), cut=cut)


def _walked(value: Any, mask: Mask) -> Any:
    if isinstance(value, str):
        return value if is_placeholder(value) else mask.within(value)
    if isinstance(value, list):
        return [_walked(item, mask) for item in value]
    if isinstance(value, dict):
        return {_key(key, mask): _under(key, item, mask) for key, item in value.items()}
    return value


def _key(key: str, mask: Mask) -> str:
    """The name of a part, which may itself be a path or an address; else it is left, whatever else it may mean."""
    return mask.within(key) if "/" in key or "@" in key or "\\" in key else key


def _under(key: str, value: Any, mask: Mask) -> Any:
    """What stands under a name."""
    if not mask.holds(key):
        return _walked(value, mask)
    if isinstance(value, str):
        return value if is_placeholder(value) or not value else mask.whole(key, value)
    if isinstance(value, list):
        return [_under(key, item, mask) for item in value]
    return _walked(value, mask)
