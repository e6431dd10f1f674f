"""The transcript of a session: rows of a conversation, made from its events.

A tool call and its result are one row. A reply stands before the calls that it makes. All texts are untrusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from difflib import unified_diff
from typing import Any, Literal

from msgspec import Struct, field

from fleetlore.events.envelope import Event
from fleetlore.programs.tool_calls import normalise_input
from fleetlore.views.costs import CostAmount
from fleetlore.views.event_text import event_line
from fleetlore.views.outcomes.facts import CallState, Source, ToolCall
from fleetlore.views.outcomes.output_text import read_output
from fleetlore.views.session_status import EPOCH

CALL = "tool.called"
RESULTS = ("tool.returned", "tool.failed", "tool.denied")
LONGEST_TEXT = 12_000
LONGEST_OUTPUT = 4_000
"""Of an output in a row; `/api/evidence` has more of it."""
LONGEST_DIFF = 8_000
MOST_DIFF_LINES = 1000
"""Of each side: the time to compare grows with the square."""
MOST_EDITS = 20

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
_TEXT_KEYS = ("prompt", "said", "thought", "result", "answer", "summary", "reason", "error", "notes", "body", "message")
"""Where events keep their full text; `text` is a short form of it."""


class TranscriptEdit(Struct, kw_only=True, omit_defaults=True):
    """One edit of one file."""

    path: str
    diff: str
    """The lines of a unified diff, without its header; `@@` is between two places."""
    is_new: bool = False
    """Whether the file was written whole."""
    is_cut: bool = False


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
    edits: list[TranscriptEdit] = field(default_factory=list)
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
        if event.kind == "model.replied" and not _find_text(event):
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
        describe_call(row, event, event if event.kind in RESULTS else None if result is None else restore(result))
        return row
    text = _find_text(event) or event_line(event) or ""
    row.text, row.is_cut = text[:LONGEST_TEXT], len(text) > LONGEST_TEXT
    if row.kind == "note":
        row.event = event.kind
    if row.kind in ("launch", "return"):
        row.description = _as_text(event.data.get("role"))
    return row


def _find_text(event: Event) -> str:
    """The whole text of an event."""
    full = next((value for key in _TEXT_KEYS if isinstance(value := event.data.get(key), str) and value.strip()), "")
    return max(full, event.text or "", key=len)


def describe_call(row: TranscriptRow, called: Event, result: Event | None) -> None:
    """Fill a row with a tool call and its result."""
    tool = _as_text(called.data.get("tool"))
    given = called.data.get("input")
    if given is None and result is not None:
        given = result.data.get("input")
    call = normalise_input(called.origin.dialect if called.origin is not None else None, tool, given)
    row.kind, row.tool, row.command, row.description = call.kind, tool, call.command, call.description
    row.paths = list(call.paths[:MOST_EDITS])
    row.edits = [make_file_edit(*edit) for edit in call.edits[:MOST_EDITS]]
    if not (row.command or row.edits):
        row.text = (called.text or "")[:LONGEST_TEXT]
    if result is None:
        return
    row.state, row.result = read_call_state(result), result.id or ""
    if called.at is not None and result.at is not None and result is not called:
        row.seconds = max(0.0, round((result.at - called.at).total_seconds(), 3))
    whole = _read_output_text(result.data)
    code = result.data.get("exit_code")
    shown = read_output(
        ToolCall(
            step=0,
            turn=0,
            at=called.at or EPOCH,
            source=Source(called.id or "", ""),
            kind=call.kind,
            tool=tool,
            state=row.state,
            command=call.command,
            exit_code=code if isinstance(code, int) and not isinstance(code, bool) else None,
            output=whole,
        )
    )
    row.exit_code = shown.exit_code if call.kind == "command" else None
    output = shown.text.strip("\n")
    row.is_cut = len(output) > LONGEST_OUTPUT
    # The end of an output mostly says what came of it.
    row.output = f"{output[: LONGEST_OUTPUT // 4]}\n[…]\n{output[-LONGEST_OUTPUT * 3 // 4 :]}" if row.is_cut else output


def read_call_state(result: Event) -> CallState:
    """How a call ended."""
    if result.kind == "tool.failed":
        return "interrupted" if result.data.get("interrupted") is True else "failed"
    return "denied" if result.kind == "tool.denied" else "ok"


def _read_output_text(data: Mapping[str, Any]) -> str:
    output = next((value for key in ("output", "error", "reason") if isinstance(value := data.get(key), str) and value), "")
    end = data.get("output_end")
    return f"{output}\n[…]\n{end}" if isinstance(end, str) and not output.endswith(end) else output


def make_file_edit(path: str, old: str | None, new: str) -> TranscriptEdit:
    """An edit as a diff; a file that was written whole is all additions."""
    before, after = (old or "").splitlines(), new.splitlines()
    is_long = max(len(before), len(after)) > MOST_DIFF_LINES
    lines = list(unified_diff(before[:MOST_DIFF_LINES], after[:MOST_DIFF_LINES], lineterm="", n=3))[3:]
    # An edit is recorded without its place in the file, so the numbers of a hunk would mislead.
    diff = "\n".join("@@" if line.startswith("@@") else line for line in lines)
    return TranscriptEdit(path=path, diff=diff[:LONGEST_DIFF], is_new=old is None, is_cut=is_long or len(diff) > LONGEST_DIFF)


def has_words(row: TranscriptRow, words: Sequence[str]) -> bool:
    """Whether a row has all the words, in any case."""
    parts = [row.text, row.command, row.description, row.output, row.tool, *row.paths, *(edit.diff for edit in row.edits)]
    whole = "\n".join(parts).casefold()
    return all(word in whole for word in words)


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else ""
