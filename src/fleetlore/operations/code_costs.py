"""What commits and files cost: each reply counts for the commit that comes next in its session, or for the files edited in its turn.

What cannot be attributed is under `None`: replies after the last commit, sessions without one, turns without an edit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import groupby

from fleetlore.events.envelope import Event
from fleetlore.log.base import TOWN
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections import file_calls
from fleetlore.views.cost_sums import CodeDimension
from fleetlore.views.costs import CostAmount
from fleetlore.views.outcomes.record import Outcome

SHA = 10
_SHARED = ("input", "output", "cache_read", "cache_write", "cache_write_1h", "pico", "unpriced")

Price = Callable[[Event], CostAmount]


def sum_by_code(
    log: BlockingRecorder, dimension: CodeDimension, outcomes: list[Outcome], price: Price, total: CostAmount, *, scope: str = TOWN
) -> dict[str | None, CostAmount]:
    """Costs by commit or file. What is missing to the total cannot be attributed."""
    sums: dict[str | None, CostAmount] = defaultdict(CostAmount)
    for outcome in outcomes:
        if scope not in (TOWN, f"run:{outcome.session}") or not (outcome.files or outcome.delivered.commits):
            continue
        for key, amount in (_cost_commits if dimension == "commit" else _cost_files)(log, outcome, price):
            sums[key].add(amount)
    rest = CostAmount()
    for name in (*_SHARED, "priced"):
        known = sum(getattr(amount, name) for amount in sums.values())
        setattr(rest, name, max(0, getattr(total, name) - known))
    if rest.tokens or rest.pico:
        sums[None] = rest
    return dict(sums)


def _cost_commits(log: BlockingRecorder, outcome: Outcome, price: Price) -> Iterator[tuple[str, CostAmount]]:
    made = {source.event: commit for commit in outcome.delivered.commits for source in commit.evidence[:1]}
    waiting = CostAmount()
    for event in log.read(f"run:{outcome.session}", kinds=("model.replied", "tool.called")):
        if event.kind == "model.replied":
            _add_reply(waiting, event, price)
        elif (commit := made.get(event.id or "")) is not None:
            yield f"{commit.sha[:SHA]} {commit.subject}".strip(), waiting
            waiting = CostAmount()


def _cost_files(log: BlockingRecorder, outcome: Outcome, price: Price) -> Iterator[tuple[str, CostAmount]]:
    """Each turn is divided among the files edited in it, by the number of edits."""
    turn = 0

    def find_turn(event: Event) -> int:
        nonlocal turn
        turn += event.kind == "prompt.submitted"
        return turn

    events = log.read(f"run:{outcome.session}", kinds=("model.replied", "tool.called", "prompt.submitted"))
    for _, group in groupby(events, find_turn):
        spent, edits = CostAmount(), Counter[str]()
        for event in group:
            if event.kind == "model.replied":
                _add_reply(spent, event, price)
            elif event.kind == "tool.called":
                edits.update(_list_edited_files(event, outcome.folder))
        left = edits.total()
        for path, count in sorted(edits.items()):
            share = CostAmount(priced=spent.priced)
            for name in _SHARED:
                part = getattr(spent, name) * count // left
                setattr(share, name, part)
                setattr(spent, name, getattr(spent, name) - part)
            spent.priced, left = 0, left - count
            yield path, share


def _list_edited_files(call: Event, folder: str) -> Iterator[str]:
    given = file_calls.read_call(call)
    paths = [path for path, _, _ in given.edits]
    if given.kind == "command":
        paths = [write.path for write in file_calls.list_shell_writes(given.command)]
    yield from (path.removeprefix(f"{folder.rstrip('/')}/") for path in paths)


def _add_reply(amount: CostAmount, event: Event, price: Price) -> None:
    if event.data.get("partial") is not True:  # a complete one comes, or the rest says that it cost something
        amount.add(price(event))
