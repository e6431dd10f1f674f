"""What the source events of a line or sentence show.

A tool call is shown as a whole: the command with its output, or the edit as a diff, whichever of its two events is cited.
Everything in it is untrusted text. Private events are not shown.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from fleetlore.events.envelope import Event
from fleetlore.events.visibility import READER, can_see
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.operations.context import OperationContext
from fleetlore.operations.reading import Text
from fleetlore.operations.request import Request
from fleetlore.views.described_calls import CALL, MOST_EDITS, RESULTS, FileDiff, describe_call, find_text
from fleetlore.views.event_text import event_line
from fleetlore.views.outcomes.facts import CallState

LOOK_AHEAD = 500
"""Results after a call among which its own is looked for. Agents run a few calls at a time."""
LONGEST_TEXT = 16_000
LONGEST_DIFF = 16_000


class ReadEvidence(Request, kw_only=True):
    """Source events."""

    id: Annotated[list[Text], Meta(min_length=1, max_length=50, description="Ids of events, as lines and sentences cite them.")]


class EvidenceItem(Struct, kw_only=True):
    """What one source event shows. All texts are untrusted."""

    id: str
    kind: str
    at: datetime | None
    agent: str | None
    session: str | None
    task: str | None
    what: Literal["command", "edit", "read", "search", "other", "text"]
    text: str
    """What was said, or what the event's own text says."""
    tool: str = ""
    command: str = ""
    description: str = ""
    folder: str = ""
    paths: list[str] = field(default_factory=list)
    edits: list[FileDiff] = field(default_factory=list)
    state: CallState = "unknown"
    exit_code: int | None = None
    output: str = ""
    is_cut: bool = False
    """Whether the text or the output is longer than what is shown."""


class Evidence(Struct, kw_only=True):
    """What source events show, in the order of the request."""

    items: list[EvidenceItem]
    missing: list[str]
    """Ids that the log does not have: they were trimmed or erased."""
    hidden: int
    """How many of the events are private and not shown."""


def read_evidence(context: OperationContext, request: ReadEvidence) -> Evidence:
    """What the events with these ids show, in this order; a call that is cited twice is shown once."""
    log, wanted = context.log, list(dict.fromkeys(request.id))
    found = {event.id: event for event in log.get(wanted)}
    items: dict[str, EvidenceItem] = {}
    hidden = 0
    for id in wanted:
        event = found.get(id)
        if event is None:
            continue
        if not can_see(event, READER):
            hidden += 1
            continue
        item = _describe_call(log, event) if event.kind.startswith("tool.") else _describe_text(log.restore_whole(event))
        items.setdefault(item.id, item)
    return Evidence(items=list(items.values()), missing=[id for id in wanted if id not in found], hidden=hidden)


def _describe_text(event: Event) -> EvidenceItem:
    """An event that is no tool call: what was said in it."""
    text = find_text(event) or event_line(event) or ""
    return EvidenceItem(**_name_event(event), what="text", text=text[:LONGEST_TEXT], is_cut=len(text) > LONGEST_TEXT)


def _describe_call(log: BlockingRecorder, event: Event) -> EvidenceItem:
    """A tool call with its result, from either of the two events."""
    first: Event = event
    result: Event | None = event
    if event.kind not in RESULTS:
        result = _find_result(log, event)
        result = result if result is not None and can_see(result, READER) else None
    elif event.cause:
        cause = next(iter(log.get([event.cause])), None)
        first = cause if cause is not None and cause.kind == CALL and can_see(cause, READER) else event
    first, result = log.restore_whole(first), None if result is None else log.restore_whole(result)
    described = describe_call(first, result)
    call, cwd = described.input, first.data.get("cwd")
    edits = described.make_diffs(LONGEST_DIFF)
    return EvidenceItem(
        **_name_event(first),
        what=call.kind,
        text="" if call.command or edits else first.text or "",
        tool=described.tool,
        command=call.command,
        description=call.description,
        folder=call.cwd or (cwd if isinstance(cwd, str) else ""),
        paths=list(call.paths[:MOST_EDITS]),
        edits=edits,
        state=described.state,
        exit_code=described.exit_code,
        output=described.output,
        is_cut=described.is_output_cut,
    )


def _find_result(log: BlockingRecorder, called: Event) -> Event | None:
    scope = f"run:{called.run}" if called.run else f"agent:{called.agent}" if called.agent else "town"
    later = log.read(scope, after=called.position, kinds=RESULTS, limit=LOOK_AHEAD)
    return next((event for event in later if event.cause == called.id), None)


def _name_event(event: Event) -> dict[str, Any]:
    return {
        "id": event.id or "",
        "kind": event.kind,
        "at": event.at,
        "agent": event.agent or event.actor,
        "session": event.run,
        "task": event.task,
    }
