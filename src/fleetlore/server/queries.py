"""Query parameters of the GET routes, as types. `parse_query` refuses anything else with a 422."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct, field
from starlette.requests import HTTPConnection

from fleetlore.server.problems import Problem
from fleetlore.views.town_state import TaskState

_SCOPE = "town, or agent:X, task:X, mission:X, goal:X, run:X, source:X; X as in the log, as it is shown, or an id's beginning."
Text = Annotated[str, Meta(max_length=500)]
Scope = Annotated[str, Meta(max_length=500, description=_SCOPE)]
Kinds = Annotated[list[Text], Meta(max_length=50)]
PositionText = Annotated[str, Meta(max_length=100, pattern="^[0-9]+$")]
"""A position in the log."""
Time = Annotated[datetime, Meta(tz=True)]
State = Literal["open", "closed", "all"]
Goals = Literal["all", "open", "over", "working", "checking", "waiting", "asking", "paused", "done", "spent", "needs you", "cancelled"]

_AS_OF = "A position, or a time such as 2026-11-15T20:00:00Z: the view as known then."
_PLACE_OR_TIME = [{"pattern": "^[0-9]+$"}, {"format": "date-time"}]


class Query(Struct, kw_only=True, forbid_unknown_fields=True):
    """No parameters."""


class AsOfQuery(Query, kw_only=True):
    """A view as of a position or time."""

    as_of: Annotated[str, Meta(max_length=100, description=_AS_OF, extra_json_schema={"anyOf": _PLACE_OR_TIME})] | None = None


class EventsQuery(AsOfQuery, kw_only=True):
    """Stored events."""

    scope: Scope = "town"
    kind: Kinds = field(default_factory=list)
    id: Annotated[list[Text], Meta(max_length=100)] = field(default_factory=list)
    after: PositionText | None = None
    before: PositionText | None = None
    since: Time | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    order: Literal["oldest", "newest"] | None = None


class ThreadsQuery(AsOfQuery, kw_only=True):
    """Threads."""

    state: State = "all"
    limit: Annotated[int, Meta(ge=1, le=5000)] = 200


class ArcsQuery(AsOfQuery, kw_only=True):
    """Arcs."""

    state: State = "all"
    kind: Kinds = field(default_factory=list)
    hidden: Annotated[
        Literal["true", "false"],
        Meta(description="Whether to list the kinds that stories and pages leave out (docs/patterns.md)."),
    ] = "true"
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200


class EvidenceQuery(Query, kw_only=True):
    """Source events."""

    id: Annotated[list[Text], Meta(min_length=1, max_length=50, description="Ids of events, as lines and sentences cite them.")]


class TimelineQuery(AsOfQuery, kw_only=True):
    """A window of time."""

    from_: Time | None = field(name="from", default=None)
    to: Time | None = None
    width: Annotated[int, Meta(ge=60, le=2000)] = 1200
    agent: list[Text] = field(default_factory=list)


class StageQuery(AsOfQuery, kw_only=True):
    """A run of a cast."""

    run: Annotated[str, Meta(max_length=500, description="Which; the newest unless told.")] | None = None
    minds: Annotated[Literal["true", "false"], Meta(description="Whether to show what they thought, too.")] = "false"


class GoalsQuery(AsOfQuery, kw_only=True):
    """Goals."""

    goal: Annotated[str, Meta(max_length=500, description="Which to show all of: its id, or how that begins.")] | None = None
    state: Annotated[Goals, Meta(description="Which to list: by their state, or those that are open, or over.")] = "all"


class TownQuery(AsOfQuery, kw_only=True):
    """A town."""

    mission: Annotated[str, Meta(max_length=500, description="Which to show all of; the board is then its own.")] | None = None
    task: Annotated[str, Meta(max_length=500, description="Which to show all of.")] | None = None
    agent: Annotated[str, Meta(max_length=500, description="Which to show all of.")] | None = None
    more: Annotated[TaskState, Meta(description="The column of the board to show more of.")] | None = None


class SearchQuery(AsOfQuery, kw_only=True):
    """Words."""

    q: Annotated[str, Meta(min_length=1, max_length=500)]
    scope: Scope = "town"
    kind: Kinds = field(default_factory=list)
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


T = TypeVar("T", bound=Query)


def parse_query(request: HTTPConnection, kind: type[T]) -> T:
    """The query parameters of a request; a `Problem` 422 for unknown, repeated or malformed ones."""
    try:
        # Strict mode: lax mode would read `null` as missing and a number as a time.
        return msgspec.convert(read_parameters(request, kind), kind)
    except msgspec.ValidationError as error:
        raise Problem(422, f"{_describe_error(error)}; known are {', '.join(_parameter_names(kind)) or 'no parameters'}") from None


def read_parameters(request: HTTPConnection, kind: type[Struct]) -> dict[str, Any]:
    """The query parameters by name, with lists, booleans and whole numbers as the type has them; a `Problem` 422 for repeated ones."""
    given: dict[str, Any] = {}
    types = _parameter_types(kind)
    for name, value in request.query_params.multi_items():
        if types.get(name) is list:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise Problem(422, f"{name}: is given twice; say it once")
        elif types.get(name) is bool and value in ("true", "false"):
            given[name] = value == "true"
        else:
            given[name] = int(value) if types.get(name) is int and _is_number(value) else value
    return given


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20  # all limits are shorter, and Python refuses to parse 5,000 digits


@cache
def _parameter_types(kind: type[Struct]) -> dict[str, Any]:
    """Parameter name → type; `list` means that it may be repeated."""
    hints = get_type_hints(kind)
    return {name: get_origin(hint) or hint for name, hint in hints.items()}


def _parameter_names(kind: type[Query]) -> tuple[str, ...]:
    return tuple(each.encode_name for each in msgspec.structs.fields(kind))


def _describe_error(error: msgspec.ValidationError) -> str:
    words, _, path = str(error).partition(" - at `$.")
    name = path.rstrip("`")
    if "matching regex" in words:  # only positions have one
        words = "not a position; take one as the API gives it"
    return f"{name}: {words}" if name else words
