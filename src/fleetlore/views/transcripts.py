"""The transcript of a session: rows of a conversation, made from its events.

A tool call and its result are one row. A reply stands before the calls that it makes. All texts are untrusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct, field

from fleetlore.events.envelope import Event
from fleetlore.views.costs import CostAmount
from fleetlore.views.described_calls import MOST_EDITS, RESULTS, FileDiff, describe_call, find_text
from fleetlore.views.event_text import event_line
from fleetlore.views.outcomes.facts import CallState

LONGEST_TEXT = 12_000
LONGEST_OUTPUT = 4_000
"""Of an output in a row; `/api/evidence` has more of it."""
LONGEST_DIFF = 8_000

RowKind = Literal["prompt", "answer", "thinking", "command", "edit", "read", "search", "other", "launch", "return", "waiting", "note"]
PriceReply = Callable[[Event], CostAmount]
_HIDDEN = frozenset(("session.turn_ended", "agent.named"))
"""Their text is in another row."""
_ROW_KINDS: Mapping[str, RowKind] = {
    "prompt.submitted": "prompt",
    "model.replied": "answer",
    "agent.thought": "thinking",
    "agent.launched": "launch",
    "agent.returned": "return",
    "session.waiting": "waiting",
}


class TranscriptRow(Struct, kw_only=True, omit_defaults=True):
    """One row of a transcript. Fields without a value are left out."""

    id: str
    """The event's; of a call, that of the call."""
    kind: RowKind
    position: str = ""
    at: datetime | None = None
    agent: str = ""
    """The sub-agent that the row belongs to; empty for the session's own agent."""
    text: str = ""
    event: str = ""
    """The kind of the event, of a note."""
    tool: str = ""
    command: str = ""
    description: str = ""
    paths: list[str] = field(default_factory=list)
    edits: list[FileDiff] = field(default_factory=list)
    state: CallState = "unknown"
    exit_code: int | None = None
    output: str = ""
    result: str = ""
    """The id of the event with the call's result."""
    seconds: float | None = None
    """How long the call took."""
    is_cut: bool = False
    """Whether text or output are longer than what is here."""
    child: str = ""
    """The sub-agent that was launched, or that returned."""
    model: str = ""
    tokens: int = 0
    usd: float | None = None


def make_rows(
    events: Iterable[Event], results: Mapping[str, Event], *, own_agent: str, price: PriceReply, restore: Callable[[Event], Event]
) -> list[TranscriptRow]:
    """Rows of events in their order. `results` has the result of each call, by the id of the call; results among `events` are skipped."""
    rows: list[TranscriptRow] = []
    carried = CostAmount()
    for event in events:
        if event.kind in RESULTS and event.cause in results:
            continue
        if event.kind == "model.replied" and not find_text(event):
            carried.add(price(event))
            _add_cost(rows, carried)
            continue
        if event.kind in _HIDDEN:
            continue
        row = make_row(restore(event), results.get(event.id or ""), own_agent=own_agent, restore=restore)
        if event.kind == "model.replied":
            row.model = _as_text(event.data.get("model"))
            carried.add(price(event))
            rows.insert(_find_place(rows, row, results), row)
            _add_cost([row], carried)
        else:
            rows.append(row)
            _add_cost(rows, carried)
    return rows


def _add_cost(rows: Sequence[TranscriptRow], amount: CostAmount) -> None:
    """Add a cost to the newest row, and forget it; it stays if there is no row yet."""
    if not rows or not (amount.tokens or amount.priced):
        return
    row = rows[-1]
    row.tokens += amount.tokens
    if amount.usd is not None:
        row.usd = (row.usd or 0.0) + amount.usd
    for name in amount.__struct_fields__:
        setattr(amount, name, 0)


def _find_place(rows: Sequence[TranscriptRow], reply: TranscriptRow, results: Mapping[str, Event]) -> int:
    """Where a reply belongs: before the calls that it makes. They are stored first, and have no result at its time."""
    place = len(rows)
    for index in range(len(rows) - 1, -1, -1):
        row = rows[index]
        if row.agent != reply.agent:
            continue
        result = results.get(row.id)
        is_open = result is None or (result.position or "") > reply.position
        if not row.tool or not is_open:
            break
        place = index
    return place


def make_row(event: Event, result: Event | None, *, own_agent: str, restore: Callable[[Event], Event]) -> TranscriptRow:
    """One row: an event, with the result if it is a call."""
    row = TranscriptRow(
        id=event.id or "",
        kind=_ROW_KINDS.get(event.kind, "note"),
        position=event.position or "",
        at=event.at,
        agent="" if event.agent in (None, own_agent) else event.agent or "",
        child=event.child or "",
    )
    if event.kind.startswith("tool."):
        _fill_call(row, event, event if event.kind in RESULTS else None if result is None else restore(result))
        return row
    text = find_text(event) or event_line(event) or ""
    row.text, row.is_cut = text[:LONGEST_TEXT], len(text) > LONGEST_TEXT
    if row.kind == "note":
        row.event = event.kind
    if row.kind in ("launch", "return"):
        row.description = _as_text(event.data.get("role"))
    return row


def _fill_call(row: TranscriptRow, called: Event, result: Event | None) -> None:
    """Fill a row with a tool call and its result."""
    described = describe_call(called, result)
    call = described.input
    row.kind, row.tool, row.command, row.description = call.kind, described.tool, call.command, call.description
    row.paths, row.edits = list(call.paths[:MOST_EDITS]), described.make_diffs(LONGEST_DIFF)
    if not (row.command or row.edits):
        row.text = (called.text or "")[:LONGEST_TEXT]
    if result is None:
        return
    row.state, row.result, row.exit_code = described.state, result.id or "", described.exit_code
    if called.at is not None and result.at is not None and result is not called:
        row.seconds = max(0.0, round((result.at - called.at).total_seconds(), 3))
    output = described.output
    row.is_cut = len(output) > LONGEST_OUTPUT
    # The end of an output mostly says what came of it.
    row.output = f"{output[: LONGEST_OUTPUT // 4]}\n[…]\n{output[-LONGEST_OUTPUT * 3 // 4 :]}" if row.is_cut else output


def has_words(row: TranscriptRow, words: Sequence[str]) -> bool:
    """Whether a row has all the words, in any case."""
    parts = [row.text, row.command, row.description, row.output, row.tool, *row.paths, *(edit.diff for edit in row.edits)]
    whole = "\n".join(parts).casefold()
    return all(word in whole for word in words)


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else ""
