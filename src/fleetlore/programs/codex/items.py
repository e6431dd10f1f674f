"""Items of Codex: finished pieces of a turn, as its rollouts (`item_completed`, `…_end`) and its `exec --json` streams write them.

An item has more detail than a call and its output: exit code and duration of a command, files changed by a patch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fleetlore.dialects.fields import as_exit_code, as_object, as_text
from fleetlore.programs.codex.ids import as_duration_ms
from fleetlore.programs.codex.outputs import extract_text
from fleetlore.programs.sessions import UNKNOWN_NAME

MAX_PATHS = 50
_SHELL_FLAGS = ("-lc", "-c")
_FAILED_STATUSES = frozenset(("failed", "error", "errored"))
_REFUSED_STATUSES = frozenset(("declined", "denied", "rejected"))


class CompletedCall(NamedTuple):
    """A call and its outcome, from an item."""

    tool: str
    given: Any = None
    words: str = ""
    exit_code: int | None = None
    duration_ms: float | None = None
    paths: tuple[str, ...] = ()
    failed: bool = False
    refused: bool = False
    cwd: str | None = None


def parse_item_call(item_type: str, item: dict[str, Any]) -> CompletedCall | None:
    """The call in an item of this type; `None` for other items."""
    read = _PARSER_BY_ITEM_TYPE.get(item_type)
    return None if read is None else read(item)


def _parse_command_item(item: dict[str, Any]) -> CompletedCall:
    code = as_exit_code(item.get("exit_code"))
    words = next((text for key in ("aggregated_output", "formatted_output", "stdout") if (text := as_text(item.get(key)))), "")
    command = _strip_shell_wrapper(item.get("command"))
    return _apply_item_status(
        item,
        CompletedCall(
            "exec_command",
            {"cmd": command} if command else None,
            words or as_text(item.get("stderr")) or "",
            exit_code=code,
            failed=code not in (None, 0),
            cwd=(as_text(item.get("cwd")) or "").removeprefix("file://") or None,
        ),
    )


def _strip_shell_wrapper(command: object) -> object:
    """A command without the shell that Codex wraps around it."""
    if isinstance(command, list):
        return command[2] if len(command) == 3 and command[1] in _SHELL_FLAGS else command
    shell, found, line = command.partition(" -lc ") if isinstance(command, str) else ("", "", "")
    if not found or not shell.startswith("/") or " " in shell:
        return command
    inner = line[1:-1]
    quoted = len(line) > 1 and line[0] == line[-1] and line[0] in "'\"" and line[0] not in inner and "\\" not in inner
    return inner if quoted else line


def _parse_patch_item(item: dict[str, Any]) -> CompletedCall:
    words = "\n".join(text for key in ("stdout", "stderr") if (text := as_text(item.get(key))))
    changes = item.get("changes")
    given = {"changes": changes} if isinstance(changes, dict) and any(as_object(change) for change in changes.values()) else None
    return _apply_item_status(
        item, CompletedCall("apply_patch", given, words, paths=_list_changed_paths(changes), failed=item.get("success") is False)
    )


def _list_changed_paths(changes: object) -> tuple[str, ...]:
    if isinstance(changes, dict):
        found = list(changes)
    else:
        found = [as_object(change).get("path") for change in changes] if isinstance(changes, list) else []
    return tuple(path for path in found if isinstance(path, str) and path)[:MAX_PATHS]


def _parse_mcp_item(item: dict[str, Any]) -> CompletedCall:
    asked = as_object(item.get("invocation")) or item
    server, tool = as_text(asked.get("server")), as_text(asked.get("tool")) or UNKNOWN_NAME
    result, error = item.get("result"), extract_text(item.get("error")) or extract_text(as_object(item.get("error")).get("message"))
    fields = as_object(result)
    if isinstance(fields.get("Err"), str):
        error = fields["Err"]
    fields = as_object(fields.get("Ok")) or fields
    failed = bool(error) or fields.get("isError") is True or fields.get("is_error") is True
    name = f"mcp__{server}__{tool}" if server else tool
    return _apply_item_status(item, CompletedCall(name, asked.get("arguments"), error or extract_text(fields or result), failed=failed))


def _parse_search_item(item: dict[str, Any]) -> CompletedCall:
    action = as_object(item.get("action"))
    query = next((text for text in (as_text(item.get("query")), as_text(action.get("query")), as_text(action.get("url"))) if text), None)
    return _apply_item_status(item, CompletedCall("web_search", {"query": query} if query else action or None))


def _parse_plan_item(item: dict[str, Any]) -> CompletedCall:
    return CompletedCall("update_plan", {"plan": item["items"]} if isinstance(item.get("items"), list) else None)


def _parse_image_view_item(item: dict[str, Any]) -> CompletedCall:
    return CompletedCall("view_image", {"path": path} if (path := as_text(item.get("path"))) else None)


def _parse_image_generation_item(item: dict[str, Any]) -> CompletedCall:
    prompt = as_text(item.get("revised_prompt"))
    return _apply_item_status(
        item, CompletedCall("image_generation", {"prompt": prompt} if prompt else None, as_text(item.get("saved_path")) or "")
    )


def _parse_dynamic_tool_item(item: dict[str, Any]) -> CompletedCall:
    words = extract_text(item.get("content_items")) or extract_text(item.get("error"))
    return _apply_item_status(
        item, CompletedCall(as_text(item.get("tool")) or UNKNOWN_NAME, item.get("arguments"), words, failed=item.get("success") is False)
    )


def _apply_item_status(item: dict[str, Any], work: CompletedCall) -> CompletedCall:
    status = item.get("status")
    duration = as_duration_ms(item.get("duration"))
    if duration is None:
        duration = as_duration_ms(item.get("duration_ms"))
    bad, refused = (status in _FAILED_STATUSES, status in _REFUSED_STATUSES) if isinstance(status, str) else (False, False)
    return work._replace(duration_ms=duration, failed=work.failed or bad, refused=refused)


_PARSER_BY_ITEM_TYPE: Mapping[str, Callable[[dict[str, Any]], CompletedCall]] = {
    "command_execution": _parse_command_item,
    "exec_command_end": _parse_command_item,
    "file_change": _parse_patch_item,
    "patch_apply_end": _parse_patch_item,
    "mcp_tool_call": _parse_mcp_item,
    "mcp_tool_call_end": _parse_mcp_item,
    "web_search": _parse_search_item,
    "web_search_call": _parse_search_item,
    "web_search_end": _parse_search_item,
    "todo_list": _parse_plan_item,
    "image_view": _parse_image_view_item,
    "view_image_tool_call": _parse_image_view_item,
    "image_generation": _parse_image_generation_item,
    "image_generation_call": _parse_image_generation_item,
    "image_generation_end": _parse_image_generation_item,
    "dynamic_tool_call": _parse_dynamic_tool_item,
    "dynamic_tool_call_response": _parse_dynamic_tool_item,
}
