"""Items of Codex: finished pieces of a turn, as its rollouts (`item_completed`, `…_end`) and its `exec --json` streams write them.

An item tells richly what a call and its output tell plainly: how a command ended and how long it took, which files a patch changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fleetlore.dialects.fields import as_object, as_text
from fleetlore.programs.codex.ids import as_code, as_duration
from fleetlore.programs.codex.outputs import text_in
from fleetlore.programs.sessions import UNKNOWN

MOST_PATHS = 50
_BY_SHELL = ("-lc", "-c")
_BAD = frozenset(("failed", "error", "errored"))
_REFUSED = frozenset(("declined", "denied", "rejected"))


class Work(NamedTuple):
    """A call and what came of it, as an item tells them."""

    tool: str
    given: Any = None
    words: str = ""
    exit_code: int | None = None
    duration_ms: float | None = None
    paths: tuple[str, ...] = ()
    failed: bool = False
    refused: bool = False
    cwd: str | None = None


def work_in(item_type: str, item: dict[str, Any]) -> Work | None:
    """The work that an item of this type tells of; `None` where it tells of something else."""
    read = _READERS.get(item_type)
    return None if read is None else read(item)


def _command(item: dict[str, Any]) -> Work:
    code = as_code(item.get("exit_code"))
    words = next((text for key in ("aggregated_output", "formatted_output", "stdout") if (text := as_text(item.get(key)))), "")
    command = _unwrapped(item.get("command"))
    return _judged(
        item,
        Work(
            "exec_command",
            {"cmd": command} if command else None,
            words or as_text(item.get("stderr")) or "",
            exit_code=code,
            failed=code not in (None, 0),
            cwd=(as_text(item.get("cwd")) or "").removeprefix("file://") or None,
        ),
    )


def _unwrapped(command: object) -> object:
    """A command without the shell that the program runs it by."""
    if isinstance(command, list):
        return command[2] if len(command) == 3 and command[1] in _BY_SHELL else command
    shell, found, line = command.partition(" -lc ") if isinstance(command, str) else ("", "", "")
    if not found or not shell.startswith("/") or " " in shell:
        return command
    inner = line[1:-1]
    quoted = len(line) > 1 and line[0] == line[-1] and line[0] in "'\"" and line[0] not in inner and "\\" not in inner
    return inner if quoted else line


def _patch(item: dict[str, Any]) -> Work:
    words = "\n".join(text for key in ("stdout", "stderr") if (text := as_text(item.get(key))))
    return _judged(item, Work("apply_patch", None, words, paths=_paths_in(item.get("changes")), failed=item.get("success") is False))


def _paths_in(changes: object) -> tuple[str, ...]:
    if isinstance(changes, dict):
        found = list(changes)
    else:
        found = [as_object(change).get("path") for change in changes] if isinstance(changes, list) else []
    return tuple(path for path in found if isinstance(path, str) and path)[:MOST_PATHS]


def _mcp(item: dict[str, Any]) -> Work:
    asked = as_object(item.get("invocation")) or item
    server, tool = as_text(asked.get("server")), as_text(asked.get("tool")) or UNKNOWN
    result, error = item.get("result"), text_in(item.get("error")) or text_in(as_object(item.get("error")).get("message"))
    told = as_object(result)
    if isinstance(told.get("Err"), str):
        error = told["Err"]
    told = as_object(told.get("Ok")) or told
    failed = bool(error) or told.get("isError") is True or told.get("is_error") is True
    name = f"mcp__{server}__{tool}" if server else tool
    return _judged(item, Work(name, asked.get("arguments"), error or text_in(told or result), failed=failed))


def _search(item: dict[str, Any]) -> Work:
    action = as_object(item.get("action"))
    query = next((text for text in (as_text(item.get("query")), as_text(action.get("query")), as_text(action.get("url"))) if text), None)
    return _judged(item, Work("web_search", {"query": query} if query else action or None))


def _plan(item: dict[str, Any]) -> Work:
    return Work("update_plan", {"plan": item["items"]} if isinstance(item.get("items"), list) else None)


def _picture(item: dict[str, Any]) -> Work:
    return Work("view_image", {"path": path} if (path := as_text(item.get("path"))) else None)


def _drawn(item: dict[str, Any]) -> Work:
    prompt = as_text(item.get("revised_prompt"))
    return _judged(item, Work("image_generation", {"prompt": prompt} if prompt else None, as_text(item.get("saved_path")) or ""))


def _dynamic(item: dict[str, Any]) -> Work:
    words = text_in(item.get("content_items")) or text_in(item.get("error"))
    return _judged(item, Work(as_text(item.get("tool")) or UNKNOWN, item.get("arguments"), words, failed=item.get("success") is False))


def _judged(item: dict[str, Any], work: Work) -> Work:
    status = item.get("status")
    duration = as_duration(item.get("duration"))
    if duration is None:
        duration = as_duration(item.get("duration_ms"))
    bad, refused = (status in _BAD, status in _REFUSED) if isinstance(status, str) else (False, False)
    return work._replace(duration_ms=duration, failed=work.failed or bad, refused=refused)


_READERS: Mapping[str, Callable[[dict[str, Any]], Work]] = {
    "command_execution": _command,
    "exec_command_end": _command,
    "file_change": _patch,
    "patch_apply_end": _patch,
    "mcp_tool_call": _mcp,
    "mcp_tool_call_end": _mcp,
    "web_search": _search,
    "web_search_call": _search,
    "web_search_end": _search,
    "todo_list": _plan,
    "image_view": _picture,
    "view_image_tool_call": _picture,
    "image_generation": _drawn,
    "image_generation_call": _drawn,
    "image_generation_end": _drawn,
    "dynamic_tool_call": _dynamic,
    "dynamic_tool_call_response": _dynamic,
}
