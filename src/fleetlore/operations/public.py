"""The functions that `fleetlore` exports for programs: sessions, costs, brief, story and prompt of a log. docs/python.md lists all.

Each takes an opened log: what `connect(url).blocking()` opens, read with the default prices and rules; or a context of
`open_context`, which follows the settings of the user and the project. Answers are the structs that CLI and HTTP show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime, tzinfo
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from fleetlore import clock
from fleetlore.errors import Invalid
from fleetlore.log.base import TOWN
from fleetlore.operations.context import OperationContext, make_store_finder
from fleetlore.operations.sources import LazyViews, OnDemandSource

if TYPE_CHECKING:
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.operations.prompts import AgentPrompt
    from fleetlore.story.brief import Brief
    from fleetlore.story.story import Story
    from fleetlore.views.costs import Costs
    from fleetlore.views.outcomes.record import Outcome

OpenedLog: TypeAlias = "BlockingRecorder | OperationContext"
Dimension: TypeAlias = Literal["agent", "day", "model", "task", "session", "project", "person"]


def list_sessions(
    log: OpenedLog,
    *,
    scope: str = TOWN,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int | None = None,
    now: datetime | None = None,
) -> list[Outcome]:
    """What happened in the sessions of a log, the newest first: `with connect(url).blocking() as log: list_sessions(log)`.

    `scope` is `town`, or a scope with a name as logged or as shown, such as `agent:ada` or `task:t7`. Sessions are those that were
    active since `since` and began before `until`.
    """
    from fleetlore.operations.sessions import ListSessions, find_sessions

    with _open_context(log, now) as context:
        return find_sessions(context, ListSessions(scope=scope, since=since, until=until, limit=limit))


class CostSummaryRow(Struct, frozen=True, kw_only=True):
    """What was spent on one agent, day, model and so on."""

    keys: dict[str, str | None]
    """Dimension → value, such as `{"person": "ada"}`; `None` where it is unknown."""
    tokens: int
    usd: float | None
    """`None` if no price is known."""
    input: int
    output: int
    cache_read: int
    cache_write: int


class CostSummary(Struct, frozen=True, kw_only=True):
    """What the models cost."""

    rows: list[CostSummaryRow]
    """Days in order, everything else by cost, the highest first."""
    total: CostSummaryRow
    unpriced: dict[str, int]
    """Models without a known price → their tokens, which are not in the dollars."""


def read_costs(
    log: OpenedLog,
    *,
    by: Dimension | Sequence[Dimension] = "day",
    since: datetime | None = None,
    until: datetime | None = None,
    zone: tzinfo = UTC,
) -> CostSummary:
    """Tokens and dollars, added up by one or two dimensions. `since` and `until` are rounded to quarter hours."""
    from fleetlore.operations.costs import ReadCosts
    from fleetlore.operations.costs import read_costs as run

    dimensions = (by,) if isinstance(by, str) else tuple(by)
    with _open_context(log) as context:
        page = run(context, ReadCosts(by=",".join(dimensions), since=since, until=until, tz=_name_zone(zone)))

    def make_row(row: dict[str, object], names: Sequence[str]) -> CostSummaryRow:
        figures = {name: row[name] for name in CostSummaryRow.__struct_fields__ if name != "keys"}
        return CostSummaryRow(keys={name: row[name] for name in names}, **figures)  # type: ignore[arg-type, misc]

    return CostSummary(rows=[make_row(row, dimensions) for row in page.by], total=make_row(page.total, ()), unpriced=page.unpriced)


def read_brief(
    log: OpenedLog,
    *,
    scope: str = TOWN,
    day: date | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    all: bool = False,
    zone: tzinfo = UTC,
    now: datetime | None = None,
) -> Brief:
    """What was delivered, what went wrong, what to check, who needs you: of a day, a period or `all`; else of the newest day."""
    from fleetlore.operations.periods import ReadBrief, make_brief

    with _open_context(log, now) as context:
        return make_brief(context, ReadBrief(scope=scope, day=day, since=since, until=until, all=all, tz=_name_zone(zone)))


def read_story(
    log: OpenedLog,
    *,
    scope: str = TOWN,
    day: date | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    all: bool = False,
    detail: Literal["headline", "story", "full"] = "story",
    zone: tzinfo = UTC,
    now: datetime | None = None,
) -> Story:
    """What happened, as a paragraph per session, task and agent, each sentence with its source events."""
    from fleetlore.operations.periods import ReadStory
    from fleetlore.operations.periods import read_story as run

    with _open_context(log, now) as context:
        wanted = ReadStory(scope=scope, day=day, since=since, until=until, all=all, detail=detail, tz=_name_zone(zone))
        return run(context, wanted).story


def render_brief(brief: Brief, format: Literal["text", "markdown", "html", "json", "chat"] = "text") -> str:
    """A brief as text, Markdown, a fragment of HTML, JSON, or a short message for a chat. Text of events is escaped."""
    from fleetlore.story.brief_formats import FORMATS

    return FORMATS[format](brief)


def render_story(story: Story, format: Literal["text", "markdown", "html", "json"] = "text") -> str:
    """A story as text, Markdown, a fragment of HTML, or JSON. Text of events is escaped."""
    from fleetlore.story.story_formats import FORMATS

    return FORMATS[format](story)


def build_prompt(
    log: OpenedLog,
    agent: str,
    *,
    role: str | None = None,
    persona: str | None = None,
    run: str | None = None,
    as_of: str | None = None,
    budget: int | None = None,
    record: bool = False,
) -> AgentPrompt:
    """The prompt that an agent would get at its next turn, in at most `budget` tokens, without private thoughts of others.

    `record` stores that the prompt was built. `UnknownName` for an agent that is not in the log, unless `persona` is given.
    """
    from fleetlore.operations.prompts import BuildPrompt
    from fleetlore.operations.prompts import build_prompt as build

    wanted = BuildPrompt(agent=agent, role=role, persona=persona, run=run, as_of=as_of, budget=budget, record=record)
    with _open_context(log) as context:
        return build(context, wanted)


@contextmanager
def _open_context(log: OpenedLog, now: datetime | None = None) -> Iterator[OperationContext]:
    """A context, as it is or for an opened log; `now` is the time that decides what is still running."""
    if isinstance(log, OperationContext):
        if now is not None:
            raise Invalid("now: a context has its own clock; set it with `open_context(now=…)`")
        yield log
        return
    from fleetlore.views.outcomes.rules import default_rules

    rules = default_rules()

    def make_costs() -> Costs:
        return rules.costs

    with ExitStack() as stack:
        yield OperationContext(
            OnDemandSource(
                log,
                LazyViews(make_costs, lambda: None),
                make_store_finder(log, stack),
                town="",
                rules=rules,
                now=clock.now if now is None else lambda: now,
            ),
            actor="",
        )


def _name_zone(zone: tzinfo) -> str:
    """The name of a time zone, as requests have it."""
    name = "UTC" if zone is UTC else getattr(zone, "key", None)
    if name is None:
        raise Invalid(f"zone: {zone!r} has no name; use UTC, or ZoneInfo('Europe/Berlin')")
    return str(name)
