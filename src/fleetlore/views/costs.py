"""The costs view: tokens and dollars by agent, run, model, task and time. docs/costs.md describes the rules.

Replies with the same agent, run, model, task and quarter of an hour share one cell; the days of any time zone can be
computed from these. A run may be bound to a task, project or person before or after its replies: `cost_sums` resolves
that.

The number of tasks and sessions is unbounded, so only the newest are kept apart; older ones are merged by model, project,
person and, if it has a name of its own, agent. What is older than a month is merged by day. `Costs.unpruned` keeps all of
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import cache, cached_property
from hashlib import blake2b
from itertools import islice
from operator import attrgetter
from typing import Any, TypeAlias

from msgspec import Struct, field

from fleetlore.events.envelope import Event
from fleetlore.programs.registry import list_names
from fleetlore.views.event_text import EventStamp, event_stamp
from fleetlore.views.folders import find_main_folder, find_person
from fleetlore.views.names import is_generated_name
from fleetlore.views.prices import PICO, Prices, TokenCounts

VERSION = 7
"""Increased with every change of the state or its rules; checkpoints of other versions are dropped."""
PRINTED_SOURCES = ("exec", "metrics")  # no set: a stored source may be anything, even what has no hash
"""The `source` of totals that a program printed per turn or sent as metrics; its recording has each reply."""
REPORTED_SOURCE = "telemetry"
"""The `source` of single replies that a program sent as telemetry; its recording has the same replies."""
MAX_WHOLE_REPLIES = 512
"""Complete replies remembered, for parts of them that come late. Importers store no such part, but merged logs may."""

MAX_HELD_ENTRIES = 5000
"""Sessions, cells and bindings kept individually."""
PRUNED_EVERY = 500
"""This many more may accumulate before the sessions that were silent longest move to `older`."""

MAX_LIMITS = 20
"""Rate limits kept, and read from one reply."""
SLOT_SECONDS = 900
"""Time zones differ by multiples of a quarter of an hour."""
SLOTS_PER_DAY = 96
MERGED_AFTER_DAYS = 35
"""Older sessions are kept by the day in UTC when they are this much older than the newest one: budgets ask for a month."""
MAX_AGENT_SUMS = 2000
"""Agents whose sums are kept, the most recently active ones."""
MAX_REPLY_TOKENS = 1_000_000_000
"""Per reply: more is an error in the source."""
MAX_REPLY_USD = 1_000_000
UNKNOWN_MODEL = "unknown"
"""The model of replies that name none."""

StampedText: TypeAlias = tuple[EventStamp, str]
"""A text and its stamp. The newest wins; the text breaks ties, so that the order of arrival does not matter."""


class CostAmount(Struct, kw_only=True, array_like=True, gc=False):
    """Tokens and money."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    """Part of `cache_write`."""
    pico: int = 0
    """Dollars in units of 1/`prices.PICO`: integers, so that the order of adding does not matter."""
    priced: int = 0
    """Replies with a known price."""
    unpriced: int = 0
    """Tokens of replies without one."""

    @property
    def tokens(self) -> int:
        """All tokens."""
        return self.input + self.output + self.cache_read + self.cache_write

    @property
    def usd(self) -> float | None:
        """Dollars; `None` if there are tokens and none of them has a price."""
        return None if self.unpriced and not self.priced else self.pico / PICO

    def add(self, other: CostAmount) -> None:
        """Add another amount to this one."""
        self.input += other.input
        self.output += other.output
        self.cache_read += other.cache_read
        self.cache_write += other.cache_write
        self.cache_write_1h += other.cache_write_1h
        self.pico += other.pico
        self.priced += other.priced
        self.unpriced += other.unpriced


class CostCell(Struct, kw_only=True, array_like=True, gc=False):
    """The costs of an agent's replies by one model in one run, task and quarter of an hour."""

    slot: int
    agent: str
    model: str
    task: str | None = None
    """The task that the replies name themselves."""
    amount: CostAmount = field(default_factory=CostAmount)

    @property
    def key(self) -> str:
        """Key in its run."""
        return f"{self.slot}\x1f{self.agent}\x1f{self.model}\x1f{self.task or ''}"


class RunCosts(Struct, kw_only=True, omit_defaults=True):
    """One session: its context and its cells."""

    project: StampedText | None = None
    branch: StampedText | None = None
    person: StampedText | None = None
    pull_request: StampedText | None = None
    """The newest pull request that it opened or that it was linked to."""
    first: StampedText | None = None
    """The first task it was bound to; earlier replies belong to it."""
    bound: dict[int, StampedText] = field(default_factory=dict)
    """Slot → the last task it was bound to in that slot."""
    cells: dict[str, CostCell] = field(default_factory=dict)
    printed: dict[str, CostCell] = field(default_factory=dict)
    """What a program printed while it also wrote a recording: counted only if the recording was not imported."""
    reported: dict[str, CostCell] = field(default_factory=dict)
    """What a program sent as telemetry: counted instead of what it printed, and only if the recording was not imported."""

    @property
    def size(self) -> int:
        """Number of entries held."""
        return 1 + len(self.bound) + len(self.cells) + len(self.printed) + len(self.reported)

    @property
    def counted(self) -> dict[str, CostCell]:
        """The cells that count."""
        return self.cells or self.reported or self.printed

    def cells_by_source(self, source: object) -> dict[str, CostCell]:
        """The cells to which a reply of this source is added."""
        return self.reported if source == REPORTED_SOURCE else self.printed if source in PRINTED_SOURCES else self.cells


class PartialReply(Struct, kw_only=True, gc=False):
    """A reply whose source ended before it was complete; counted until the complete one comes."""

    stamp: EventStamp
    run: str
    cell: CostCell

    @property
    def rank(self) -> tuple[Any, ...]:
        """Of several partial replies, the one with the highest rank is counted."""
        amount = self.cell.amount
        return amount.output, amount.tokens, self.stamp, self.cell.key, amount.pico, self.run


class PlanLimit(Struct, kw_only=True, omit_defaults=True):
    """How much of a plan's limit is used, as a program reported it."""

    provider: str
    window_minutes: int
    """The length of its window: 300 for five hours, 10,080 for a week."""
    used_percent: float
    at: datetime
    """When it was reported."""
    resets_at: datetime | None = None


class Spending(Struct, kw_only=True):
    """All costs of a town. Serialises to JSON."""

    version: int = VERSION
    begins: str | None = None
    """Position of the first event."""
    runs: dict[str, RunCosts] = field(default_factory=dict)
    """The run that was silent longest comes first. Events without a run are under the empty name."""
    fresh: int = 0
    """Number of entries added since the last pruning."""
    older: dict[str, RunCosts] = field(default_factory=dict)
    """Project and person → costs of their older sessions, without task and session."""
    agents: dict[str, CostAmount] = field(default_factory=dict)
    """Sums by agent over the cells of all runs, without printed ones: the fleet pages ask for them often. The newest are last."""
    open: dict[str, PartialReply] = field(default_factory=dict)
    """Message and request → the partial reply."""
    wholes: dict[str, None] = field(default_factory=dict)
    """Digests of the newest complete replies."""
    limits: dict[str, PlanLimit] = field(default_factory=dict)
    """Provider and length of the window → its newest state."""
    trimmed: CostAmount = field(default_factory=CostAmount)
    """Costs of the trimmed part of the log, if it was trimmed before this fold began."""

    @property
    def is_settled(self) -> bool:
        """Whether no later reply can replace what was counted."""
        return not self.open and not any(run.printed or run.reported for run in self.runs.values())


class Costs:
    """The costs fold with a price table."""

    VERSION = VERSION
    HEEDS_BEATS = False

    def __init__(self, prices: Prices | None = None, *, most_held: int | None = MAX_HELD_ENTRIES) -> None:
        self.prices = prices or Prices()
        self.name = f"costs-{self.prices.key}" if most_held is not None else f"costs-whole-{self.prices.key}"
        """Name of its checkpoints; it depends on the prices."""
        self._max_held_entries = most_held

    @cached_property
    def unpruned(self) -> Costs:
        """The same fold with every task and session kept; it grows with them."""
        return self if self._max_held_entries is None else Costs(self.prices, most_held=None)

    def initial(self) -> Spending:
        """The state before the first event."""
        return Spending()

    def apply(self, spending: Spending, event: Event) -> Spending:
        """Return the costs after one more event; modifies the given ones. Never raises."""
        if spending.begins is None:
            spending.begins = event.position or ""
        if event.task is not None and event.run is not None:
            _bind_run_to_task(spending, event)
        kind = event.kind
        if kind == "model.replied":
            self._count_reply(spending, event)
            _note_limits(spending, event)
        elif event.run is not None and (kind == "fleet.pr_open" or kind.endswith(".pr_link")):
            _bind_run_to_pull_request(_touch_run(spending, event.run), event)
        elif kind == "session.started" and event.run is not None:
            _describe_run(_touch_run(spending, event.run), event)
        elif kind == "log.trimmed":
            _count_trimmed(spending, event)
        if spending.fresh > PRUNED_EVERY and self._max_held_entries is not None:
            _prune_runs(spending, self._max_held_entries)
        return spending

    def remove_superseded(self, spending: Spending, event: Event) -> None:
        """Remove what a later reply, not counted here, replaces: its parts, and printed totals of its run."""
        _close_partial_reply(spending, {_reply_key(event), event.id})
        run = spending.runs.get(event.run or "")
        source = event.data.get("source")
        if run is not None and source not in PRINTED_SOURCES and any(_parse_counts(event.data)):
            run.printed.clear()
            if source != REPORTED_SOURCE:
                run.reported.clear()

    def _count_reply(self, spending: Spending, event: Event) -> None:
        data, run = event.data, event.run or ""
        stamp = event_stamp(event)
        cell = CostCell(slot=slot_number(stamp[0]), agent=event.agent or event.actor or "", model=_model_name(data), task=event.task)
        cell.amount = self._price_reply(data, cell.model, stamp[0])
        key = _reply_key(event)
        if key is not None and data.get("partial") is True:
            if _digest_key(key) in spending.wholes:
                return
            part = PartialReply(stamp=stamp, run=run, cell=cell)
            known = spending.open.get(key)
            if known is None or known.rank < part.rank:
                spending.open[key] = part
            return
        _close_partial_reply(spending, {key, event.id})
        if cell.amount.tokens or cell.amount.priced:
            costs = _touch_run(spending, run)
            cells = costs.cells_by_source(data.get("source"))
            if _merge_cell(cells, cell):
                spending.fresh += 1
            if cells is costs.cells:
                _add_to_agent(spending, cell)

    def price_reply(self, event: Event) -> CostAmount:
        """Tokens and money of one `model.replied`. Whether a complete reply replaces a partial one is for the caller to know."""
        return self._price_reply(event.data, _model_name(event.data), event_stamp(event)[0])

    def _price_reply(self, data: dict[str, Any], model: str, at: datetime) -> CostAmount:
        counts = _parse_counts(data)
        input, output, cache_read, cache_write, hour = counts
        amount = CostAmount(input=input, output=output, cache_read=cache_read, cache_write=cache_write, cache_write_1h=hour)
        usd = _parse_usd(data.get("usd"))
        if usd is None and amount.tokens and (price := self.prices.find_price(model, at.date().isoformat())) is not None:
            usd = price.compute_cost(counts)
        if usd is None:
            amount.unpriced = amount.tokens
        else:
            amount.pico, amount.priced = usd, 1
        return amount


@cache
def _default_costs() -> Costs:
    return Costs()


def initial() -> Spending:
    """The state before the first event."""
    return Spending()


def apply(spending: Spending, event: Event) -> Spending:
    """Return the costs after one more event, with the built-in prices. Never raises."""
    return _default_costs().apply(spending, event)


def slot_number(at: datetime) -> int:
    """The quarter of an hour of a time."""
    return int(at.timestamp() // SLOT_SECONDS)


# --- parsing events, whose data may be anything


def _touch_run(spending: Spending, name: str) -> RunCosts:
    """Return the run and move it to the end, as the most recent."""
    run = spending.runs.pop(name, None)
    if run is None:
        run = RunCosts()
        spending.fresh += 1
    spending.runs[name] = run
    return run


def _bind_run_to_task(spending: Spending, event: Event) -> None:
    run, stamp = _touch_run(spending, event.run or ""), event_stamp(event)
    binding = stamp, event.task or ""
    if run.first is None or binding < run.first:
        run.first = binding
    slot = slot_number(stamp[0])
    existing = run.bound.get(slot)
    if existing is None or binding > existing:
        run.bound[slot] = binding
    if existing is None:
        spending.fresh += 1


def _describe_run(run: RunCosts, event: Event) -> None:
    stamp, folder = event_stamp(event), event.data.get("cwd")
    known = dict(event.data)
    if isinstance(folder, str):
        known["project"] = find_main_folder(folder) or known.get("project")
        account = known.get("person")
        known["person"] = find_person(account if isinstance(account, str) else "", folder)
    for name in ("project", "branch", "person"):
        existing, value = getattr(run, name), known.get(name)
        if isinstance(value, str) and value and (existing is None or (stamp, value) > existing):
            setattr(run, name, (stamp, value))


def _bind_run_to_pull_request(run: RunCosts, event: Event) -> None:
    number, repository = (event.data.get(key) for key in ("number", "repository"))
    number, repository = number or event.data.get("prNumber"), repository or event.data.get("prRepository")
    if isinstance(number, int | str) and not isinstance(number, bool) and number:
        stamped = event_stamp(event), f"{repository if isinstance(repository, str) else ''}#{number}"[:200]
        run.pull_request = stamped if run.pull_request is None else max(run.pull_request, stamped)


def _note_limits(spending: Spending, event: Event) -> None:
    """Keep the newest state of each limit that a reply reports."""
    limits, at = event.data.get("limits"), event_stamp(event)[0]
    for limit in limits[:MAX_LIMITS] if isinstance(limits, list) else ():
        if not isinstance(limit, dict):
            continue
        minutes, used, resets = limit.get("window_minutes"), limit.get("used_percent"), limit.get("resets_at")
        if isinstance(minutes, bool) or not isinstance(minutes, int) or isinstance(used, bool) or not isinstance(used, int | float):
            continue
        provider = event.data.get("provider")
        program = (event.agent or "").partition("/")[0]
        provider = provider[:100] if isinstance(provider, str) else program if program in list_names() else ""
        known = spending.limits.get(key := f"{provider}/{minutes}")
        if (known is None or at >= known.at) and (known is not None or len(spending.limits) < MAX_LIMITS):
            resets_at = _parse_time(resets)
            spending.limits[key] = PlanLimit(
                provider=provider, window_minutes=minutes, used_percent=min(max(float(used), 0.0), 100.0), at=at, resets_at=resets_at
            )


def _parse_time(value: object) -> datetime | None:
    try:
        parsed = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return parsed if parsed is not None and parsed.tzinfo is not None else None


def _merge_cell(cells: dict[str, CostCell], cell: CostCell) -> bool:
    """Merge a cell into others; return whether it is new."""
    existing = cells.setdefault(cell.key, cell)
    if existing is not cell:
        existing.amount.add(cell.amount)
    return existing is cell


# --- pruning


def _prune_runs(spending: Spending, limit: int) -> None:
    """Move the runs that were silent longest, and the oldest cells of very long ones, to `older`."""
    spending.fresh = 0
    total = 0
    for run in spending.runs.values():
        if run.size > limit // 2:
            _truncate_run(spending, run, limit // 4)
        total += run.size
    for name in list(spending.runs) if total > limit else ():
        run = spending.runs.pop(name)
        _move_to_older(spending, run, run.counted.values(), is_printed=not run.cells)
        total -= run.size
        if total <= limit:
            break
    _merge_old_days(spending)
    for agent in list(islice(spending.agents, max(0, len(spending.agents) - MAX_AGENT_SUMS))):
        del spending.agents[agent]


def _truncate_run(spending: Spending, run: RunCosts, limit: int) -> None:
    """Keep the newest slots of a run, with its bindings in them and the last one before."""
    if run.cells:
        run.reported.clear()
    if run.cells or run.reported:
        run.printed.clear()
    cells, slots = sorted(run.counted.values(), key=attrgetter("slot")), sorted(run.bound)
    since = max((slot for newest in ([cell.slot for cell in cells], slots) for slot in newest[-limit:][:1]), default=0)
    surplus = len(cells) - limit
    old = [cell for number, cell in enumerate(cells) if number < surplus or cell.slot < since]
    counted = run.counted
    for cell in old:
        del counted[cell.key]
    _move_to_older(spending, run, old, is_printed=counted is not run.cells)
    for slot in [slot for slot in slots if slot < since][:-1]:
        del run.bound[slot]


def _move_to_older(spending: Spending, run: RunCosts, cells: Iterable[CostCell], *, is_printed: bool) -> None:
    """Add cells to those without task and session."""
    key = "\x1f".join("" if stamped is None else stamped[1] for stamped in (run.project, run.person))
    older = spending.older.setdefault(key, RunCosts(project=run.project, person=run.person))
    for cell in cells:
        cell.task = None
        if is_printed:
            _add_to_agent(spending, cell)
        if is_generated_name(cell.agent):  # an agent of one session: there are as many as sessions
            cell.agent = ""
        _merge_cell(older.cells, cell)


def _add_to_agent(spending: Spending, cell: CostCell) -> None:
    amount = spending.agents.pop(cell.agent, None) or CostAmount()
    amount.add(cell.amount)
    spending.agents[cell.agent] = amount


def _merge_old_days(spending: Spending) -> None:
    """Merge the quarters of an hour of days that are long past."""
    newest = max((cell.slot for run in spending.older.values() for cell in run.cells.values()), default=0)
    until = newest - MERGED_AFTER_DAYS * SLOTS_PER_DAY
    for run in spending.older.values():
        for cell in [cell for cell in run.cells.values() if cell.slot < until and cell.slot % SLOTS_PER_DAY]:
            del run.cells[cell.key]
            cell.slot -= cell.slot % SLOTS_PER_DAY
            _merge_cell(run.cells, cell)


def _count_trimmed(spending: Spending, event: Event) -> None:
    """Count what was trimmed before this fold began; what the fold has seen itself is counted already."""
    before = event.data.get("before")
    is_own = event.origin is None or event.origin.log is None  # a log that was shipped here reports its own trimming too
    if not is_own or not isinstance(before, str) or not spending.begins or spending.begins < before:
        return
    usd = _parse_usd(event.data.get("usd"), limit=MAX_REPLY_TOKENS)
    amount = CostAmount(**_parse_counts(event.data, limit=MAX_REPLY_TOKENS**2)._asdict(), pico=usd or 0, priced=0 if usd is None else 1)
    amount.unpriced = amount.tokens if usd is None else 0
    spending.trimmed.add(amount)


def _close_partial_reply(spending: Spending, keys: set[str | None]) -> None:
    """Drop the partial replies of a complete one, and ignore those that come later."""
    for key in filter(None, keys):
        spending.open.pop(key, None)
        spending.wholes[_digest_key(key)] = None
        if len(spending.wholes) > MAX_WHOLE_REPLIES:
            del spending.wholes[next(iter(spending.wholes))]


def _digest_key(key: str) -> str:
    return blake2b(key.encode(errors="replace"), digest_size=8).hexdigest()


def _reply_key(event: Event) -> str | None:
    """Key shared by a partial reply and its complete one: message and request, else the id of the complete one."""
    message, request = event.data.get("message_id"), event.data.get("request_id")
    if isinstance(message, str) and message:
        return f"{message}\x1f{request if isinstance(request, str) else ''}"
    whole = event.data.get("whole")
    return whole if isinstance(whole, str) and whole else event.id


def _model_name(data: dict[str, Any]) -> str:
    model = data.get("model")
    name = model[:200].replace("\x1f", " ") if isinstance(model, str) and model else UNKNOWN_MODEL
    return f"{name}-fast" if data.get("speed") == "fast" and not name.endswith("-fast") else name


def _parse_counts(data: dict[str, Any], limit: int = MAX_REPLY_TOKENS) -> TokenCounts:
    get = data.get
    hour = _parse_count(get("cache_write_1h"), limit)
    return TokenCounts(
        _parse_count(get("input"), limit),
        _parse_count(get("output"), limit),
        _parse_count(get("cache_read"), limit),
        max(_parse_count(get("cache_write"), limit), hour),
        hour,
    )


def _parse_count(value: object, limit: int) -> int:
    return value if type(value) is int and 0 < value <= limit else 0


def _parse_usd(value: object, limit: int = MAX_REPLY_USD) -> int | None:
    """Parse an amount in dollars to units; `None` if it is invalid."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= limit:
        return None
    return round(value * PICO)
