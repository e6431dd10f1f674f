"""What the models cost: tokens and dollars by one or two dimensions such as agent, day or model, of everything, a scope or a period."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast, get_args

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from fleetlore.errors import Invalid
from fleetlore.log.base import TOWN
from fleetlore.operations.code_costs import sum_by_code
from fleetlore.operations.context import OperationContext
from fleetlore.operations.reading import AsOfRequest, Head, Text, Time, parse_time_zone
from fleetlore.operations.sources import resolve_scope
from fleetlore.projections.outcomes import OutcomeQuery
from fleetlore.projections.runner import Runner, make_view
from fleetlore.views import names as names_view
from fleetlore.views.cost_sums import (
    CODE_DIMENSIONS,
    RUN_DIMENSIONS,
    TIME_DIMENSIONS,
    CodeDimension,
    CostDimension,
    CostFilter,
    CostLine,
    find_unpriced_models,
    iterate_older_lines,
    restrict_spending,
    sum_by,
    sum_by_dimensions,
    sum_total,
)
from fleetlore.views.costs import MAX_HELD_ENTRIES, CostAmount, Costs, PlanLimit, Spending, slot_number

if TYPE_CHECKING:
    from fleetlore.settings import Settings

MOST_NAMED = 300
"""Sessions whose names are looked up."""
MOST_READ_RUNS = 1000
"""Sessions that are read one by one; for more, all of the log is folded."""
MAX_WHOLE_RUN = MAX_HELD_ENTRIES // 4
"""A run with more entries may have been truncated."""

_FIGURES = ("input", "output", "cache_read", "cache_write", "tokens", "usd")


class ReadCosts(AsOfRequest, kw_only=True):
    """Which costs, and by what they are added up."""

    by: Annotated[
        str,
        Meta(
            max_length=40,
            description="day, week, month, agent, model, task, session, project, person, pull_request; two (day,model); commit, file",
        ),
    ] = "day"
    since: Time | None = None
    until: Time | None = None
    tz: Text = "UTC"


class CostBudget(Struct, kw_only=True):
    """A budget of yours, and how much of it is spent."""

    period: Literal["day", "week", "month"]
    since: date
    limit_usd: float
    used_usd: float
    expected_usd: float
    """At the end of the period, if it goes on like this."""


class CostsPage(Head, kw_only=True):
    """Costs, added up."""

    total: dict[str, Any]
    by: list[dict[str, Any]]
    unpriced: dict[str, int]
    prices: str
    limits: list[PlanLimit] = field(default_factory=list)
    """How much of your plans' limits is used, as programs reported it."""
    budgets: list[CostBudget] = field(default_factory=list)
    """Budgets of the settings, always of the current day, week or month."""
    older: dict[str, Any] | None = None
    """By agent, task or session: the sum of older ones, which are not kept one by one. It is included in the row without a name."""


def read_costs(context: OperationContext, request: ReadCosts) -> CostsPage:
    """Costs by dimension. `since` and `until` are rounded to quarter hours, on which days begin in every time zone."""
    if request.by in CODE_DIMENSIONS:
        return _read_code_costs(context, request)
    dimensions, zone = _parse_dimensions(request.by), parse_time_zone(request.tz)
    where = _time_filter(request.since, request.until)
    with context.source.snapshot(context.source.resolve_position(request.as_of), ("costs", "names")) as snapshot:
        spending: Spending = snapshot.states["costs"]
        sums = sum_by_dimensions(spending, dimensions, zone=zone, where=where)
        if where is None and (spending.trimmed.tokens or spending.trimmed.priced):
            sums.setdefault((None,) * len(dimensions), CostAmount()).add(spending.trimmed)
        total = CostAmount()
        for amount in sums.values():
            total.add(amount)
        display_names = names_view.all_display_names(snapshot.states["names"]) if "agent" in dimensions else {}
        page = CostsPage(
            **snapshot.head_fields(),
            total=_amount_fields(total),
            by=[
                _cost_row(dimensions, keys, amount, display_names)
                for keys, amount in _sort_rows(sums, by_day=dimensions[0] in TIME_DIMENSIONS)
            ],
            unpriced=find_unpriced_models(spending, where),
            prices=context.source.costs_fold.prices.date,
            limits=sorted(spending.limits.values(), key=lambda limit: (limit.provider, limit.window_minutes)),
            budgets=measure_budgets(spending, context.source.settings, snapshot.now, zone),
            older=_sum_older(spending, dimensions, where),
        )
    if "session" in dimensions:
        _add_session_names(context, page.by)
    return page


def _read_code_costs(context: OperationContext, request: ReadCosts) -> CostsPage:
    if request.as_of is not None:
        raise Invalid("costs by commit and file are known for now only; leave out as_of")
    report = report_costs(context, request)
    with context.source.snapshot(None, ("costs",)) as snapshot:
        head = snapshot.head_fields()
    rows = [{report.dimension: row.key} | _amount_fields(row.amount) for row in report.rows]
    return CostsPage(**head, total=_amount_fields(report.total), by=rows, unpriced=report.unpriced, prices=report.prices)


def _sum_by_code(context: OperationContext, dimension: CodeDimension, request: ReadCosts, scope: str) -> CostReport:
    if request.since is not None or not scope.startswith(("town", "run:")):
        raise Invalid(f"costs by {dimension} are of everything or of one session; leave out the period, and give no scope but run:SESSION")
    spending, where = _select_spending(context, request, "session", scope)
    total, fold = sum_total(spending, where), context.source.costs_fold
    sums = sum_by_code(context.log, dimension, context.source.find_outcomes(OutcomeQuery()), fold.price_reply, total, scope=scope)
    rows = sorted(sums.items(), key=lambda row: (row[1].pico, row[1].tokens), reverse=True)
    settings = context.source.settings
    own = 0 if settings is None else len(settings.prices.value)
    listed = [CostReportRow(key, None, amount) for key, amount in rows]
    return CostReport(dimension, listed, total, find_unpriced_models(spending, where), fold.prices.date, own, scope != TOWN)


def _add_session_names(context: OperationContext, rows: list[dict[str, Any]]) -> None:
    names = _find_session_names(context, [row["session"] for row in rows])
    for row in rows:
        row["name"] = names.get(row["session"], row["session"])


def _find_session_names(context: OperationContext, runs: Sequence[str | None]) -> dict[str, str]:
    """The names of the first sessions, which cost most; others keep their ids."""
    wanted = frozenset(run for run in runs[:MOST_NAMED] if run)
    return {outcome.session: outcome.name for outcome in context.source.find_outcomes(OutcomeQuery(runs=wanted))} if wanted else {}


def sum_since(spending: Spending, period: str, now: datetime, zone: tzinfo) -> float:
    """Dollars spent since the beginning of the current day, week or month."""
    return sum_total(spending, _time_filter(_bounds_of_period(period, now.astimezone(zone))[0], None)).usd or 0.0


def measure_budgets(spending: Spending, settings: Settings | None, now: datetime, zone: tzinfo) -> list[CostBudget]:
    """How much of each budget is spent in the current day, week and month."""
    found = []
    limits = {} if settings is None else settings.cost_budgets.value
    for period, limit in limits.items():
        since, until = _bounds_of_period(period, now.astimezone(zone))
        used = sum_since(spending, period, now, zone)
        passed = max((now - since) / (until - since), 0.01)
        found.append(
            CostBudget(
                period=cast("Literal['day', 'week', 'month']", period),
                since=since.date(),
                limit_usd=limit,
                used_usd=used,
                expected_usd=used / passed,
            )
        )
    return found


def _bounds_of_period(period: str, now: datetime) -> tuple[datetime, datetime]:
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "day":
        return day, day + timedelta(days=1)
    if period == "week":
        monday = day - timedelta(days=day.weekday())
        return monday, monday + timedelta(days=7)
    first = day.replace(day=1)
    return first, (first + timedelta(days=32)).replace(day=1)


# --- for terminals: of a scope, and to the second


class CostReportRow(NamedTuple):
    """Costs of one agent, day and so on, with its display name."""

    key: str | None
    name: str | None
    amount: CostAmount


class CostReport(NamedTuple):
    """Costs of a scope and a period by one dimension."""

    dimension: CostDimension | CodeDimension
    rows: list[CostReportRow]
    total: CostAmount
    unpriced: dict[str, int]
    prices: str
    """The date of the price table."""
    own: int = 0
    """Number of models with prices set by the user."""
    is_part: bool = False
    """Whether only a scope or a period was asked for."""


def report_costs(context: OperationContext, request: ReadCosts, scope: str = TOWN) -> CostReport:
    """Costs by one dimension, of a scope and a period to the second.

    Facts about a run come from the whole log, its replies only from the period and the scope.
    """
    for code in CODE_DIMENSIONS:
        if request.by == code:
            return _sum_by_code(context, code, request, resolve_scope(context.source, scope))
    [dimension], zone = _parse_dimensions(request.by), parse_time_zone(request.tz)
    spending, where = _select_spending(context, request, dimension, resolve_scope(context.source, scope))
    sums = sorted(sum_by(spending, dimension, zone=zone, where=where).items(), key=lambda row: row[0] or "")
    if dimension not in TIME_DIMENSIONS:
        sums.sort(key=lambda row: (row[1].pico, row[1].tokens), reverse=True)
    names: dict[str, str] = {}
    if dimension == "agent":
        with context.source.open_view("names") as (known, _):
            names = names_view.all_display_names(known)
    elif dimension == "session":
        names = _find_session_names(context, [key for key, _ in sums])
    rows = [CostReportRow(key, names.get(key or ""), amount) for key, amount in sums]
    settings, is_part = context.source.settings, scope != TOWN or request.since is not None
    return CostReport(
        dimension,
        rows,
        sum_total(spending, where),
        find_unpriced_models(spending, where),
        context.source.costs_fold.prices.date,
        0 if settings is None else len(settings.prices.value),
        is_part,
    )


def _select_spending(
    context: OperationContext, request: ReadCosts, dimension: CostDimension, scope: str
) -> tuple[Spending, CostFilter | None]:
    with context.source.open_view("costs") as (spending, _):
        pass
    kind, _, name = scope.partition(":")
    # A filter of the sums, because most replies do not name their task.
    where: CostFilter | None = (lambda line: line.task == name) if kind == "task" else None
    replies = TOWN if where is not None else scope
    unpruned = context.source.costs_fold.unpruned
    if replies == TOWN and request.since is None:
        if spending.older and (dimension in RUN_DIMENSIONS or where is not None):
            spending = _fold_unpruned(context, unpruned)  # the pruned view has details of the newest sessions only
        return spending, where
    part = unpruned.initial()
    for event in context.log.read(replies, kinds=("model.replied",), since=request.since):
        if request.until is None or (event.at is not None and event.at < request.until):
            part = unpruned.apply(part, event)
    if spending.older:
        spending = _complete_runs(context, unpruned, spending, part)
    return restrict_spending(spending, part), where


def _complete_runs(context: OperationContext, unpruned: Costs, spending: Spending, part: Spending) -> Spending:
    """The costs with all that is known about the runs of a part: those that the pruned view does not hold whole are read again."""
    named = {*part.runs, *(reply.run for reply in part.open.values())}
    missing = [name for name in named if (run := spending.runs.get(name)) is None or run.size > MAX_WHOLE_RUN]
    if len(missing) > MOST_READ_RUNS or "" in missing:
        return _fold_unpruned(context, unpruned)
    found = unpruned.initial()
    for name in missing:
        for event in context.log.read(f"run:{name}"):
            found = unpruned.apply(found, event)
    return replace(spending, runs=spending.runs | found.runs)


def _fold_unpruned(context: OperationContext, unpruned: Costs) -> Spending:
    """All tasks and sessions. It grows as the log does: one checkpoint of it is kept, and none to look back from."""
    runner = Runner(context.log, make_view(unpruned, unpruned.name), context.source.find_store())
    with context.source.show_progress() as show:
        spending: Spending = runner.catch_up(show).state
    runner.keep_newest_checkpoint()
    return spending


# --- parts


def _parse_dimensions(text: str) -> tuple[CostDimension, ...]:
    known = get_args(CostDimension)
    dimensions = tuple(text.split(","))
    if not set(dimensions) <= set(known) or len(set(dimensions)) != len(dimensions) or len(dimensions) > 2:
        raise Invalid(f"by: {text!r} is not one of {', '.join(known)}, nor two of them as in day,model; nor commit or file")
    return cast("tuple[CostDimension, ...]", dimensions)


def _sum_older(spending: Spending, dimensions: Sequence[CostDimension], where: CostFilter | None) -> dict[str, Any] | None:
    """The sum of older costs, which are no longer kept by agent, task and session, if one of those is asked for."""
    asked = set(RUN_DIMENSIONS) & set(dimensions)
    if asked == {"agent"}:  # an older line is still under its agent if that one has a name of its own
        lines = [line for line in iterate_older_lines(spending) if not line.cell.agent]
    else:
        lines = list(iterate_older_lines(spending)) if asked else []
    lines = [line for line in lines if where is None or where(line)]
    total = CostAmount()
    for line in lines:
        total.add(line.cell.amount)
    return _amount_fields(total) if lines else None


def _time_filter(since: datetime | None, until: datetime | None) -> CostFilter | None:
    if since is None and until is None:
        return None
    first = None if since is None else slot_number(since)
    end = None if until is None else slot_number(until)

    def where(line: CostLine) -> bool:
        slot = line.cell.slot
        return (first is None or slot >= first) and (end is None or slot < end)

    return where


def _sort_rows(sums: dict[tuple[str | None, ...], CostAmount], *, by_day: bool) -> list[tuple[tuple[str | None, ...], CostAmount]]:
    """Days in order, everything else by cost, highest first."""
    rows = sorted(sums.items(), key=lambda row: [key or "" for key in row[0]])
    if not by_day:
        rows.sort(key=lambda row: (row[1].pico, row[1].tokens), reverse=True)
    return rows


def _cost_row(
    dimensions: Sequence[CostDimension], keys: tuple[str | None, ...], amount: CostAmount, display_names: dict[str, str]
) -> dict[str, Any]:
    row: dict[str, Any] = dict(zip(dimensions, keys, strict=True))
    if "agent" in row:
        row["name"] = display_names.get(row["agent"] or "", row["agent"])
    return row | _amount_fields(amount)


def _amount_fields(amount: CostAmount) -> dict[str, Any]:
    return {name: getattr(amount, name) for name in _FIGURES}
