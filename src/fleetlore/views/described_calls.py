"""A tool call as readers see it: the command with its output, or the edit as a diff. All texts are untrusted."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import unified_diff
from typing import Any, NamedTuple

from msgspec import Struct

from fleetlore.events.envelope import Event
from fleetlore.programs.normalised import CallInput
from fleetlore.programs.tool_calls import normalise_input
from fleetlore.views.outcomes.facts import CallState, Source, ToolCall
from fleetlore.views.outcomes.output_text import read_output
from fleetlore.views.session_status import EPOCH

CALL = "tool.called"
RESULTS = ("tool.returned", "tool.failed", "tool.denied")
MOST_EDITS = 20
"""Edits and paths of one call."""
MOST_DIFF_LINES = 1000
"""Of each side: the time to compare grows with the square."""
_LONGEST_NOTES = 1600
"""Characters that programs add to an output, such as a header; more are missing from a long output, whose middle is left out."""
_TEXT_KEYS = ("prompt", "said", "thought", "result", "answer", "summary", "reason", "error", "notes", "body", "message")
"""Where events keep their full text; `text` is a short form of it."""


class FileDiff(Struct, kw_only=True):
    """One edit of one file."""

    path: str
    diff: str
    """The lines of a unified diff, without its header; `@@` is between two places. Untrusted text."""
    is_new: bool
    """Whether the file was written whole."""
    is_cut: bool


class DescribedCall(NamedTuple):
    """A tool call with its result."""

    input: CallInput
    tool: str
    state: CallState
    exit_code: int | None
    """Of a command."""
    output: str
    """What was printed, without what the program adds to it."""
    is_output_cut: bool
    """Whether the middle of a long output is left out."""

    def make_diffs(self, longest: int) -> list[FileDiff]:
        """The edits of the call as diffs, each cut after so many characters."""
        return [make_file_diff(*edit, longest=longest) for edit in self.input.edits[:MOST_EDITS]]


def describe_call(called: Event, result: Event | None) -> DescribedCall:
    """Read a call from its event and that of its result, which may be the same."""
    tool = called.data.get("tool")
    tool = tool if isinstance(tool, str) else ""
    given = called.data.get("input")
    if given is None and result is not None:
        given = result.data.get("input")
    call = normalise_input(called.origin.dialect if called.origin is not None else None, tool, given)
    if result is None:
        return DescribedCall(call, tool, "unknown", None, "", False)
    state, whole, code = read_call_state(result), _read_output_text(result.data), result.data.get("exit_code")
    shown = read_output(
        ToolCall(
            step=0,
            turn=0,
            at=called.at or EPOCH,
            source=Source(called.id or "", ""),
            kind=call.kind,
            tool=tool,
            state=state,
            command=call.command,
            exit_code=code if isinstance(code, int) and not isinstance(code, bool) else None,
            output=whole,
        )
    )
    output = shown.text.strip("\n")
    is_cut = len(shown.text) < len(whole.strip("\n")) - _LONGEST_NOTES
    return DescribedCall(call, tool, state, shown.exit_code if call.kind == "command" else None, output, is_cut)


def read_call_state(result: Event) -> CallState:
    """How a call ended."""
    if result.kind == "tool.failed":
        return "interrupted" if result.data.get("interrupted") is True else "failed"
    return "denied" if result.kind == "tool.denied" else "ok"


def make_file_diff(path: str, old: str | None, new: str, *, longest: int) -> FileDiff:
    """An edit as a diff; a file that was written whole is all additions."""
    before, after = (old or "").splitlines(), new.splitlines()
    is_long = max(len(before), len(after)) > MOST_DIFF_LINES
    lines = list(unified_diff(before[:MOST_DIFF_LINES], after[:MOST_DIFF_LINES], lineterm="", n=3))[3:]
    # An edit is recorded without its place in the file, so the numbers of a hunk would mislead.
    diff = "\n".join("@@" if line.startswith("@@") else line for line in lines)
    return FileDiff(path=path, diff=diff[:longest], is_new=old is None, is_cut=is_long or len(diff) > longest)


def find_text(event: Event) -> str:
    """The whole text of an event that is no call."""
    full = next((value for key in _TEXT_KEYS if isinstance(value := event.data.get(key), str) and value.strip()), "")
    return max(full, event.text or "", key=len)


def _read_output_text(data: Mapping[str, Any]) -> str:
    """The output of a result. Of a long one the event has the beginning and the end, and the log perhaps the whole."""
    output = next((value for key in ("output", "error", "reason") if isinstance(value := data.get(key), str) and value), "")
    end = data.get("output_end")
    return f"{output}\n[…]\n{end}" if isinstance(end, str) and not output.endswith(end) else output
