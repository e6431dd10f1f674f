"""What read operations share: fields of their requests, time zones, and the head of their responses."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

from msgspec import Meta, Struct

from fleetlore.errors import Invalid
from fleetlore.log.base import TOWN
from fleetlore.operations.request import Request
from fleetlore.operations.sources import resolve_scope

if TYPE_CHECKING:
    from fleetlore.log.base import Position
    from fleetlore.operations.context import OperationContext

_SCOPE = "town, or agent:X, task:X, mission:X, goal:X, run:X, source:X; X is a name as lore prints it, or the first characters of an id."
_AS_OF = "A position, or a time such as 2026-11-15T20:00:00Z: the view as known then."
_PLACE_OR_TIME = [{"pattern": "^[0-9]+$"}, {"format": "date-time"}]
Text = Annotated[str, Meta(max_length=500)]
Scope = Annotated[str, Meta(max_length=500, description=_SCOPE)]
Kinds = Annotated[list[Text], Meta(max_length=50)]
PositionText = Annotated[str, Meta(max_length=100, pattern="^[0-9]+$")]
"""A position in the log."""
Time = Annotated[datetime, Meta(tz=True)]
AsOf = Annotated[str, Meta(max_length=100, description=_AS_OF, extra_json_schema={"anyOf": _PLACE_OR_TIME})]


class AsOfRequest(Request, kw_only=True):
    """Something as of a position or time."""

    as_of: AsOf | None = None


class Head(Struct, kw_only=True):
    """Fields with which every view begins."""

    as_of: str | None
    """The position that it shows; `null` for an empty log."""
    at: datetime | None
    """The newest event time up to there."""
    live: bool
    """Whether it shows the current state, not a past one."""
    caught_up: bool
    """Whether it includes the whole log: after a start the log is still being read."""


def read_head(context: OperationContext, position: Position | None) -> dict[str, Any]:
    """The fields of `Head`."""
    with context.source.snapshot(position, ("calendar",)) as snapshot:
        return snapshot.head_fields()


def choose_scope(context: OperationContext, scope: str, agent: str | None = None) -> str:
    """The scope of the log that is meant, by names as logged or as shown; an error with suggestions if there is none."""
    if agent is not None and scope != TOWN:
        raise Invalid("say agent or scope, not both")
    return resolve_scope(context.source, scope if agent is None else f"agent:{agent}")


def parse_time_zone(name: str) -> tzinfo:
    """The time zone with this IANA name; `Invalid` if there is none."""
    try:
        return UTC if name.upper() == "UTC" else ZoneInfo(name)
    except (KeyError, ValueError, OSError, RecursionError) as error:
        raise Invalid(f"tz: unknown time zone: {name!r}; use UTC, or a name such as Europe/Berlin") from error
