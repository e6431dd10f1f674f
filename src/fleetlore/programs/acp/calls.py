"""Tool calls of the Agent Client Protocol. An agent says of what kind a call is; its tools have names of their own."""

from __future__ import annotations

import shlex
from typing import Any, NamedTuple

from fleetlore.dialects.fields import as_exit_code, as_object, as_text
from fleetlore.dialects.wire import Record
from fleetlore.programs.tool_tables import make_tool_call_reader

_TOOL_BY_KIND = {"execute": "bash", "edit": "edit", "delete": "delete", "move": "move", "read": "read", "search": "grep", "fetch": "fetch"}
_RULE_BY_TOOL = {"bash": "Bash", "edit": "Edit", "delete": "Edit", "move": "Edit", "read": "Read", "grep": "Grep", "fetch": "WebFetch"}
_MAX_LOCATIONS = 50

TOOL_CALLS = make_tool_call_reader(
    {"bash": "command", "edit": "edit", "delete": "edit", "move": "edit", "read": "read", "fetch": "read", "grep": "search"}
)


class NamedCall(NamedTuple):
    """A call with the names that the other programs use."""

    tool: str
    input: dict[str, Any]


class GateQuestion(NamedTuple):
    """A question to the gate of a goal, with the tool names of its rules."""

    tool: str
    input: dict[str, Any]


def describe_call(call: Record) -> NamedCall:
    """The tool and its input: the agent's own, with the command, path and edits under the usual names."""
    kind, title = as_text(call.get("kind")) or "other", as_text(call.get("title")) or ""
    tool = _TOOL_BY_KIND.get(kind) or as_text(call.get("name")) or title.partition(" ")[0][:100] or kind
    given = dict(as_object(call.get("rawInput")))
    paths, edits = find_paths(call), _find_edits(call)
    if tool == "bash":
        command = given.get("command") or given.get("cmd")
        given["command"] = shlex.join(map(str, command)) if isinstance(command, list) else as_text(command) or title.strip("`")
    if paths and not any(key in given for key in ("path", "file_path", "filePath", "absolute_path")):
        given["path"] = paths[0]
    if edits and "edits" not in given:
        given["edits"] = edits
    if not given and title:
        given["description"] = title
    return NamedCall(tool, given)


def make_gate_questions(call: Record) -> list[GateQuestion]:
    """What to ask the gate about a call; one question for each file that it changes or reads. All must be allowed."""
    tool, given = describe_call(call)
    rule = _RULE_BY_TOOL.get(tool, tool)
    if rule in ("Edit", "Read") and (paths := find_paths(call)):
        return [GateQuestion(rule, given | {"file_path": path}) for path in paths]
    if rule in ("Edit", "Read"):
        return [GateQuestion(rule, given | {"file_path": given.get("file_path") or given.get("path") or ""})]
    return [GateQuestion(rule, given)]


def find_paths(call: Record) -> list[str]:
    """The files that a call names, as its places or its diffs."""
    found = [as_text(as_object(each).get("path")) for key in ("locations", "content") for each in _as_list(call.get(key))]
    return list(dict.fromkeys(path for path in found if path))[:_MAX_LOCATIONS]


def find_output(call: Record) -> str:
    """The text of a call's result."""
    contents = [as_object(as_object(each).get("content")) for each in _as_list(call.get("content"))]
    words = [text for each in contents if (text := as_text(each.get("text")))]
    raw = call.get("rawOutput")
    fields = as_object(raw)
    return "\n".join(words) or (
        raw if isinstance(raw, str) else next((t for k in ("output", "stdout", "error") if (t := as_text(fields.get(k)))), "")
    )


def find_exit_code(call: Record) -> int | None:
    """The exit code of a command, if the agent reports it."""
    fields = as_object(call.get("rawOutput"))
    return as_exit_code(next((fields[key] for key in ("exitCode", "exit_code") if key in fields), None))


def _find_edits(call: Record) -> list[dict[str, Any]]:
    diffs = [each for each in map(as_object, _as_list(call.get("content"))) if each.get("type") == "diff"]
    return [{"oldText": each.get("oldText"), "newText": each.get("newText")} for each in diffs]


def _as_list(value: object) -> list[Any]:
    return value[:_MAX_LOCATIONS] if isinstance(value, list) else []
