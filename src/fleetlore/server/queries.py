"""Query parameters of the GET routes, as types. `parse_query` refuses anything else with a 422."""

from __future__ import annotations

from datetime import date, datetime, tzinfo
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, get_origin, get_type_hints
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta, Struct, field
from starlette.requests import HTTPConnection

from fleetlore.errors import Invalid
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


class CostsQuery(AsOfQuery, kw_only=True):
    """Costs."""

    by: Annotated[
        str, Meta(max_length=40, description="day, agent, model, task, session, project or person; or two of them: day,model")
    ] = "day"
    since: Time | None = None
    until: Time | None = None
    tz: Text = "UTC"


class SessionsQuery(AsOfQuery, kw_only=True):
    """Sessions."""

    scope: Scope = "town"
    since: Annotated[Time, Meta(description="Sessions that were active then or later.")] | None = None
    until: Annotated[Time, Meta(description="Sessions that began before.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class PeriodQuery(AsOfQuery, kw_only=True):
    """A period; without one, the newest day with sessions."""

    scope: Scope = "town"
    agent: Annotated[str, Meta(max_length=500, description="The same as scope=agent:X; not together with scope.")] | None = None
    day: Annotated[date, Meta(description="One day of the time zone, such as 2026-11-15.")] | None = None
    since: Annotated[Time, Meta(description="From then on; not together with day.")] | None = None
    until: Annotated[Time, Meta(description="Before then; only together with since.")] | None = None
    tz: Text = "UTC"


class BriefQuery(PeriodQuery, kw_only=True):
    """The brief of a period."""

    format: Annotated[Literal["json", "text", "markdown", "html", "chat"], Meta(description="JSON, or the same as text.")] = "json"


class StoryQuery(PeriodQuery, kw_only=True):
    """The story of a period."""

    detail: Annotated[
        Literal["headline", "story", "full"], Meta(description="headline: only what came of each session. full: as story, for now.")
    ] = "story"
    limit: Annotated[int, Meta(ge=1, le=5000, description="At most so many paragraphs, the newest.")] = 1500
    format: Annotated[Literal["json", "text", "markdown", "html"], Meta(description="JSON, or the same as text.")] = "json"


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
    given: dict[str, Any] = {}
    types = _parameter_types(kind)
    for name, value in request.query_params.multi_items():
        if types.get(name) is list:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise Problem(422, f"{name}: is given twice; say it once")
        else:
            given[name] = int(value) if types.get(name) is int and _is_number(value) else value
    try:
        # Strict mode: lax mode would read `null` as missing and a number as a time.
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise Problem(422, f"{_describe_error(error)}; known are {', '.join(_parameter_names(kind)) or 'no parameters'}") from None


def parse_time_zone(name: str) -> tzinfo:
    """The time zone with this IANA name; `Invalid` if there is none."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, RecursionError) as error:
        raise Invalid(f"tz: no such time zone: {name!r}; say UTC, or a name such as Europe/Berlin") from error


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20  # all limits are shorter, and Python refuses to parse 5,000 digits


@cache
def _parameter_types(kind: type[Query]) -> dict[str, Any]:
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
