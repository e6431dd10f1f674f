"""What the source events of a line or sentence show.

A tool call is shown as a whole: the command with its output, or the edit as a diff, whichever of its two events is cited.
Everything in it is untrusted text. Private events are not shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from difflib import unified_diff
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from fleetlore.events.envelope import Event
from fleetlore.events.visibility import READER, can_see
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.operations.context import OperationContext
from fleetlore.operations.reading import Text
from fleetlore.operations.request import Request
from fleetlore.programs.normalised import CallInput
from fleetlore.programs.tool_calls import normalise_input
from fleetlore.views.event_text import event_line
from fleetlore.views.outcomes.facts import CallState, Source, ToolCall
from fleetlore.views.outcomes.output_text import read_output
from fleetlore.views.session_status import EPOCH

RESULTS = ("tool.returned", "tool.failed", "tool.denied")
LOOK_AHEAD = 500
"""Results after a call among which its own is looked for. Agents run a few calls at a time."""
LONGEST_TEXT = 16_000
LONGEST_DIFF = 16_000
MOST_DIFF_LINES = 1000
"""Of each side: the time to compare grows with the square."""
MOST_EDITS = 20
_TEXT_KEYS = ("prompt", "said", "result", "answer", "reason", "error", "notes", "body", "message")
"""Where events keep their full text; `text` is a short form of it."""


class ReadEvidence(Request, kw_only=True):
    """Source events."""

    id: Annotated[list[Text], Meta(min_length=1, max_length=50, description="Ids of events, as lines and sentences cite them.")]


class FileDiff(Struct, kw_only=True):
    """One edit of one file."""

    path: str
    diff: str
    """The lines of a unified diff, without its header. Untrusted text."""
    is_new: bool
    """Whether the file was written whole."""
    is_cut: bool


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
    full = next((value for key in _TEXT_KEYS if isinstance(value := event.data.get(key), str) and value.strip()), "")
    text = max(full, event.text or "", key=len) or event_line(event) or ""
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
        first = cause if cause is not None and cause.kind == "tool.called" and can_see(cause, READER) else event
    first, result = log.restore_whole(first), None if result is None else log.restore_whole(result)
    tool = first.data.get("tool")
    tool = tool if isinstance(tool, str) else ""
    given = first.data.get("input")
    if given is None and result is not None:
        given = result.data.get("input")
    call = normalise_input(first.origin.dialect if first.origin is not None else None, tool, given)
    state = _read_state(result)
    output = "" if result is None else _read_text(result.data)
    shown = read_output(_make_call(first, call, tool, state, result, output))
    cwd = first.data.get("cwd")
    edits = [_make_diff(*edit) for edit in call.edits[:MOST_EDITS]]
    return EvidenceItem(
        **_name_event(first),
        what=call.kind,
        text="" if call.command or edits else first.text or "",
        tool=tool,
        command=call.command,
        description=call.description,
        folder=call.cwd or (cwd if isinstance(cwd, str) else ""),
        paths=list(call.paths[:MOST_EDITS]),
        edits=edits,
        state=state,
        exit_code=shown.exit_code if call.kind == "command" else None,
        output=shown.text.strip("\n"),
        is_cut=len(shown.text) < len(output.strip("\n")) - LONGEST_TEXT // 10,
    )


def _find_result(log: BlockingRecorder, called: Event) -> Event | None:
    scope = f"run:{called.run}" if called.run else f"agent:{called.agent}" if called.agent else "town"
    later = log.read(scope, after=called.position, kinds=RESULTS, limit=LOOK_AHEAD)
    return next((event for event in later if event.cause == called.id), None)


def _read_state(result: Event | None) -> CallState:
    if result is None:
        return "unknown"
    if result.kind == "tool.failed":
        return "interrupted" if result.data.get("interrupted") is True else "failed"
    return "denied" if result.kind == "tool.denied" else "ok"


def _read_text(data: Mapping[str, Any]) -> str:
    """The output of a result. Of a long one the event has the beginning and the end, and the log perhaps the whole."""
    output = next((value for key in ("output", "error", "reason") if isinstance(value := data.get(key), str) and value), "")
    end = data.get("output_end")
    return f"{output}\n[…]\n{end}" if isinstance(end, str) and not output.endswith(end) else output


def _make_call(event: Event, call: CallInput, tool: str, state: CallState, result: Event | None, output: str) -> ToolCall:
    code = None if result is None else result.data.get("exit_code")
    return ToolCall(
        step=0,
        turn=0,
        at=event.at or EPOCH,
        source=Source(event.id or "", ""),
        kind=call.kind,
        tool=tool,
        state=state,
        command=call.command,
        exit_code=code if isinstance(code, int) and not isinstance(code, bool) else None,
        output=output,
    )


def _make_diff(path: str, old: str | None, new: str) -> FileDiff:
    """A unified diff without its header; a file that was written whole is all additions; `@@` is between two places."""
    before, after = (old or "").splitlines(), new.splitlines()
    is_long = max(len(before), len(after)) > MOST_DIFF_LINES
    lines = list(unified_diff(before[:MOST_DIFF_LINES], after[:MOST_DIFF_LINES], lineterm="", n=3))[3:]
    # An edit is recorded without its place in the file, so the numbers of a hunk would mislead.
    diff = "\n".join("@@" if line.startswith("@@") else line for line in lines)
    return FileDiff(path=path, diff=diff[:LONGEST_DIFF], is_new=old is None, is_cut=is_long or len(diff) > LONGEST_DIFF)


def _name_event(event: Event) -> dict[str, Any]:
    return {
        "id": event.id or "",
        "kind": event.kind,
        "at": event.at,
        "agent": event.agent or event.actor,
        "session": event.run,
        "task": event.task,
    }
