"""Costs: the tokens that models read and wrote, and the dollars for them, by whom, for what and when. docs/costs.md tells the rules.

What replies have in common is one cell: agent, run, model, task and quarter of an hour, from which the days of any time zone can
be made. What binds a run to a task, a project or a person may come before its replies or after them: `costs_sums` looks it up.

Tasks and sessions come and go for as long as there is a log, so the newest alone are told apart; of older ones the cells of an agent, a
model, a project and a person are one. Who needs every one of them folds `Costs.whole`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import cache, cached_property
from hashlib import blake2b
from operator import attrgetter
from typing import Any, TypeAlias

from msgspec import Struct, field

from fleetlore.events.envelope import Event
from fleetlore.views.event_text import EventStamp, event_stamp
from fleetlore.views.prices import PICO, Prices, TokenCounts

VERSION = 4
"""Raised with every change of the state's shape or rules: a checkpoint of another version is thrown away."""
PRINTED_SOURCE = "exec"
"""The `source` of a reply that Codex printed: its totals a turn, of which its recording tells each answer."""
MAX_WHOLE_REPLIES = 512
"""So many whole replies are remembered, for a part of one that comes late: no importer stores such a part, but logs that are merged may."""

MAX_HELD_ENTRIES = 5000
"""So many sessions, their cells and what they were bound to are held one by one."""
PRUNED_EVERY = 500
"""So many more than that may come together before the longest silent sessions go into `older`."""

SLOT_SECONDS = 900
"""Seconds. Every time zone is some quarters of an hour away from the others."""
MAX_REPLY_TOKENS = 1_000_000_000
"""Of one reply: more is a slip of whoever wrote it."""
MAX_REPLY_USD = 1_000_000
UNKNOWN_MODEL = "unknown"
"""The model of replies that name none."""

StampedText: TypeAlias = tuple[EventStamp, str]
"""What was said, and when: the newest holds, and between equals the text decides, so that the order of arrival does not matter."""


class CostAmount(Struct, kw_only=True, array_like=True, gc=False):
    """Tokens and money."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    """Of those written to a cache."""
    pico: int = 0
    """Dollars, in `prices.PICO` parts: whole numbers, so that the order of adding does not matter."""
    priced: int = 0
    """Replies whose price is known."""
    unpriced: int = 0
    """Tokens of those whose price is not."""

    @property
    def tokens(self) -> int:
        """All of them."""
        return self.input + self.output + self.cache_read + self.cache_write

    @property
    def usd(self) -> float | None:
        """Dollars; `None` where there are tokens and no price for any of them."""
        return None if self.unpriced and not self.priced else self.pico / PICO

    def add(self, other: CostAmount) -> None:
        """Take another in."""
        self.input += other.input
        self.output += other.output
        self.cache_read += other.cache_read
        self.cache_write += other.cache_write
        self.cache_write_1h += other.cache_write_1h
        self.pico += other.pico
        self.priced += other.priced
        self.unpriced += other.unpriced


class CostCell(Struct, kw_only=True, array_like=True, gc=False):
    """What the replies of an agent by a model, in one run, task and quarter of an hour, come to."""

    slot: int
    agent: str
    model: str
    task: str | None = None
    """That which the replies name themselves."""
    amount: CostAmount = field(default_factory=CostAmount)

    @property
    def key(self) -> str:
        """By which it is found again in its run."""
        return f"{self.slot}\x1f{self.agent}\x1f{self.model}\x1f{self.task or ''}"


class RunCosts(Struct, kw_only=True, omit_defaults=True):
    """One session: what was said of it, and its cells."""

    project: StampedText | None = None
    branch: StampedText | None = None
    person: StampedText | None = None
    first: StampedText | None = None
    """The first task that it was bound to: what came before belongs to it."""
    bound: dict[int, StampedText] = field(default_factory=dict)
    """Quarter of an hour → the last task that it was bound to in it."""
    cells: dict[str, CostCell] = field(default_factory=dict)
    printed: dict[str, CostCell] = field(default_factory=dict)
    """What a program printed of itself while it also kept a recording: counted only where nobody has taken that in."""

    @property
    def size(self) -> int:
        """How much there is to hold."""
        return 1 + len(self.bound) + len(self.cells) + len(self.printed)

    @property
    def counted(self) -> dict[str, CostCell]:
        """The cells that count."""
        return self.cells or self.printed


class PartialReply(Struct, kw_only=True, gc=False):
    """A reply whose source ended before it did; counted until the whole one comes."""

    stamp: EventStamp
    run: str
    cell: CostCell

    @property
    def rank(self) -> tuple[Any, ...]:
        """Of several, the one that knows most is counted."""
        amount = self.cell.amount
        return amount.output, amount.tokens, self.stamp, self.cell.key, amount.pico, self.run


class Spending(Struct, kw_only=True):
    """All costs of a town. Encodes to JSON and back."""

    version: int = VERSION
    begins: str | None = None
    """Position of the first event."""
    runs: dict[str, RunCosts] = field(default_factory=dict)
    """The longest silent first. The run without a name holds what names none."""
    fresh: int = 0
    """How much has come to the runs since they were last looked through."""
    older: dict[str, RunCosts] = field(default_factory=dict)
    """Project and person → what their older sessions come to, without task and session."""
    agents: dict[str, CostAmount] = field(default_factory=dict)
    """What the cells of all runs come to, by agent: whoever shows the fleet asks again and again. What was printed is not in it."""
    open: dict[str, PartialReply] = field(default_factory=dict)
    """Message and request → the reply of which only a part is known."""
    wholes: dict[str, None] = field(default_factory=dict)
    """The newest replies that are whole, each by a digest."""
    trimmed: CostAmount = field(default_factory=CostAmount)
    """What was spent in the part of the log that was trimmed away, if it was trimmed before this began."""

    @property
    def is_settled(self) -> bool:
        """Whether no later reply can take the place of what was counted."""
        return not self.open and not any(run.printed for run in self.runs.values())


class Costs:
    """The fold, with the prices that it counts with."""

    VERSION = VERSION
    HEEDS_BEATS = False

    def __init__(self, prices: Prices | None = None, *, most_held: int | None = MAX_HELD_ENTRIES) -> None:
        self.prices = prices or Prices()
        self.name = f"costs-{self.prices.key}" if most_held is not None else f"costs-whole-{self.prices.key}"
        """Of its checkpoints: other prices, other costs."""
        self._max_held_entries = most_held

    @cached_property
    def unpruned(self) -> Costs:
        """The same fold with every task and session, however many there were: it grows with them."""
        return self if self._max_held_entries is None else Costs(self.prices, most_held=None)

    def initial(self) -> Spending:
        """Nothing was spent yet."""
        return Spending()

    def apply(self, spending: Spending, event: Event) -> Spending:
        """The costs after one more event. Never raises. Consumes them: go on with those that are returned."""
        if spending.begins is None:
            spending.begins = event.position or ""
        if event.task is not None and event.run is not None:
            _bind_run_to_task(spending, event)
        kind = event.kind
        if kind == "model.replied":
            self._count_reply(spending, event)
        elif kind == "session.started" and event.run is not None:
            _describe_run(_touch_run(spending, event.run), event)
        elif kind == "log.trimmed":
            _count_trimmed(spending, event)
        if spending.fresh > PRUNED_EVERY and self._max_held_entries is not None:
            _prune_runs(spending, self._max_held_entries)
        return spending

    def remove_superseded(self, spending: Spending, event: Event) -> None:
        """Take out what a later reply, which is not counted here, counts itself: parts of it, and what was printed of its run."""
        _close_partial_reply(spending, {_reply_key(event), event.id})
        run = spending.runs.get(event.run or "")
        if run is not None and event.data.get("source") != PRINTED_SOURCE and any(_parse_counts(event.data)):
            run.printed.clear()

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
            is_printed = data.get("source") == PRINTED_SOURCE
            cells = _touch_run(spending, run).printed if is_printed else _touch_run(spending, run).cells
            if _merge_cell(cells, cell):
                spending.fresh += 1
            if not is_printed:
                spending.agents.setdefault(cell.agent, CostAmount()).add(cell.amount)

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
    """Nothing was spent yet."""
    return Spending()


def apply(spending: Spending, event: Event) -> Spending:
    """The costs after one more event, by the table of prices as it is. Never raises."""
    return _default_costs().apply(spending, event)


def slot_number(at: datetime) -> int:
    """The quarter of an hour of a moment."""
    return int(at.timestamp() // SLOT_SECONDS)


# --- what is read off an event; its data may be anything


def _touch_run(spending: Spending, name: str) -> RunCosts:
    """A run of which something is told: behind all others."""
    run = spending.runs.pop(name, None)
    if run is None:
        run = RunCosts()
        spending.fresh += 1
    spending.runs[name] = run
    return run


def _bind_run_to_task(spending: Spending, event: Event) -> None:
    run, stamp = _touch_run(spending, event.run or ""), event_stamp(event)
    said = stamp, event.task or ""
    if run.first is None or said < run.first:
        run.first = said
    slot = slot_number(stamp[0])
    held = run.bound.get(slot)
    if held is None or said > held:
        run.bound[slot] = said
    if held is None:
        spending.fresh += 1


def _describe_run(run: RunCosts, event: Event) -> None:
    stamp = event_stamp(event)
    for name in ("project", "branch", "person"):
        held, value = getattr(run, name), event.data.get(name)
        if isinstance(value, str) and value and (held is None or (stamp, value) > held):
            setattr(run, name, (stamp, value))


def _merge_cell(cells: dict[str, CostCell], cell: CostCell) -> bool:
    """Add a cell to others; whether it is a new one."""
    held = cells.setdefault(cell.key, cell)
    if held is not cell:
        held.amount.add(cell.amount)
    return held is cell


# --- what is not held one by one any more


def _prune_runs(spending: Spending, most: int) -> None:
    """Put the longest silent runs, and the oldest cells of those that are very long, into `older`."""
    spending.fresh = 0
    held = 0
    for run in spending.runs.values():
        if run.size > most // 2:
            _truncate_run(spending, run, most // 4)
        held += run.size
    for name in list(spending.runs) if held > most else ():
        run = spending.runs.pop(name)
        _move_to_older(spending, run, run.counted.values(), is_printed=not run.cells)
        held -= run.size
        if held <= most:
            break


def _truncate_run(spending: Spending, run: RunCosts, most: int) -> None:
    """Keep the newest quarters of an hour of a run, and what it was bound to in them and last before them."""
    if run.cells:
        run.printed.clear()
    cells, slots = sorted(run.counted.values(), key=attrgetter("slot")), sorted(run.bound)
    since = max((each for newest in ([cell.slot for cell in cells], slots) for each in newest[-most:][:1]), default=0)
    surplus = len(cells) - most
    old = [cell for number, cell in enumerate(cells) if number < surplus or cell.slot < since]
    counted = run.counted
    for cell in old:
        del counted[cell.key]
    _move_to_older(spending, run, old, is_printed=counted is run.printed)
    for slot in [slot for slot in slots if slot < since][:-1]:
        del run.bound[slot]


def _move_to_older(spending: Spending, run: RunCosts, cells: Iterable[CostCell], *, is_printed: bool) -> None:
    """Add cells of a run to those of which task and session are not told."""
    key = "\x1f".join("" if said is None else said[1] for said in (run.project, run.person))
    older = spending.older.setdefault(key, RunCosts(project=run.project, person=run.person))
    for cell in cells:
        cell.task = None
        if is_printed:
            spending.agents.setdefault(cell.agent, CostAmount()).add(cell.amount)
        _merge_cell(older.cells, cell)


def _count_trimmed(spending: Spending, event: Event) -> None:
    """What was cut off before this fold began is known from the cut alone; what it has folded itself, it has counted."""
    before = event.data.get("before")
    is_own = event.origin is None or event.origin.log is None  # a log that was shipped here tells of its own trimming, too
    if not is_own or not isinstance(before, str) or not spending.begins or spending.begins < before:
        return
    usd = _parse_usd(event.data.get("usd"), most=MAX_REPLY_TOKENS)
    amount = CostAmount(**_parse_counts(event.data, most=MAX_REPLY_TOKENS**2)._asdict(), pico=usd or 0, priced=0 if usd is None else 1)
    amount.unpriced = amount.tokens if usd is None else 0
    spending.trimmed.add(amount)


def _close_partial_reply(spending: Spending, keys: set[str | None]) -> None:
    """A whole reply has come: parts of it count no longer, be they there or still on their way."""
    for key in filter(None, keys):
        spending.open.pop(key, None)
        spending.wholes[_digest_key(key)] = None
        if len(spending.wholes) > MAX_WHOLE_REPLIES:
            del spending.wholes[next(iter(spending.wholes))]


def _digest_key(key: str) -> str:
    return blake2b(key.encode(errors="replace"), digest_size=8).hexdigest()


def _reply_key(event: Event) -> str | None:
    """By which a part of a reply and the whole of it know each other: message and request, else the id of the whole."""
    message, request = event.data.get("message_id"), event.data.get("request_id")
    if isinstance(message, str) and message:
        return f"{message}\x1f{request if isinstance(request, str) else ''}"
    whole = event.data.get("whole")
    return whole if isinstance(whole, str) and whole else event.id


def _model_name(data: dict[str, Any]) -> str:
    model = data.get("model")
    name = model[:200].replace("\x1f", " ") if isinstance(model, str) and model else UNKNOWN_MODEL
    return f"{name}-fast" if data.get("speed") == "fast" and not name.endswith("-fast") else name


def _parse_counts(data: dict[str, Any], most: int = MAX_REPLY_TOKENS) -> TokenCounts:
    get = data.get
    hour = _parse_count(get("cache_write_1h"), most)
    return TokenCounts(
        _parse_count(get("input"), most),
        _parse_count(get("output"), most),
        _parse_count(get("cache_read"), most),
        max(_parse_count(get("cache_write"), most), hour),
        hour,
    )


def _parse_count(value: object, most: int) -> int:
    return value if type(value) is int and 0 < value <= most else 0


def _parse_usd(value: object, most: int = MAX_REPLY_USD) -> int | None:
    """Dollars in parts, if that is what it is."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= most:
        return None
    return round(value * PICO)
