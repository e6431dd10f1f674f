"""The tools that a model can use in a workspace: their schemas, and how they run.

| tool | what it does |
|---|---|
| `read` | read a file, or some of its lines |
| `write` | write a whole file, and create missing folders |
| `edit` | replace a piece of text that occurs exactly once in a file |
| `list` | list a folder |
| `search` | find lines by text or regular expression |
| `shell` | run a command with `sh`, with a time limit |

No result is longer than `MAX_RESULT_CHARS`; a note says what was left out. Called by `model_harness.py`.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from fleetlore.goal.model_tools.commands import ToolPrograms
from fleetlore.goal.model_tools.folder import ConfinedFolder, ToolError
from fleetlore.goal.model_tools.text import ToolResult, is_text, replace_once, select_lines
from fleetlore.models.base import JsonSchema
from fleetlore.models.json_schema import first_error
from fleetlore.prompts.text_safety import truncate_middle
from fleetlore.tasks import run_uncancelled

MAX_RESULT_CHARS = 16_384
"""Longest text that a tool returns to the model."""
_MAX_FILE_BYTES = 4 * 1024 * 1024
_MAX_ENTRIES, _MAX_DEPTH = 500, 5
_SKIPPED_FOLDERS = frozenset((".git", "node_modules", "__pycache__", ".venv"))

_T = TypeVar("_T")
_PATH = {"type": "string", "minLength": 1}
_COUNT = {"type": "integer", "minimum": 1}


class WorkspaceTool(Struct, frozen=True, kw_only=True):
    """The description of a tool for the model."""

    name: str
    purpose: str
    properties: Mapping[str, JsonSchema]
    required: tuple[str, ...] = ()
    has_effect: bool = False
    """Whether it may change something outside the log."""

    @property
    def schema(self) -> JsonSchema:
        """JSON schema of its arguments."""
        return {"type": "object", "properties": dict(self.properties), "required": list(self.required), "additionalProperties": False}


TOOLS: Mapping[str, WorkspaceTool] = {
    tool.name: tool
    for tool in (
        WorkspaceTool(
            name="read",
            purpose="read a file as text; `from` (first line, starting at 1) and `lines` read a part of it",
            properties={"path": _PATH, "from": _COUNT, "lines": _COUNT},
            required=("path",),
        ),
        WorkspaceTool(
            name="write",
            purpose="write a whole file; missing folders are created",
            properties={"path": _PATH, "content": {"type": "string"}},
            required=("path", "content"),
            has_effect=True,
        ),
        WorkspaceTool(
            name="edit",
            purpose="replace `old` by `new`; `old` must occur exactly once in the file, so include enough context",
            properties={"path": _PATH, "old": {"type": "string", "minLength": 1}, "new": {"type": "string"}},
            required=("path", "old", "new"),
            has_effect=True,
        ),
        WorkspaceTool(
            name="list",
            purpose=f"list a folder; `depth` up to {_MAX_DEPTH} includes subfolders",
            properties={"path": _PATH, "depth": {**_COUNT, "maximum": _MAX_DEPTH}},
        ),
        WorkspaceTool(
            name="search",
            purpose="find lines that contain `text` or match the regular expression `regex`; `glob` selects files, as in *.py",
            properties={"text": _PATH, "regex": _PATH, "path": _PATH, "glob": _PATH},
        ),
        WorkspaceTool(
            name="shell",
            purpose="run a command with sh in the workspace; the timeout is `seconds` (default 120), and all its processes end with it",
            properties={"command": _PATH, "seconds": {**_COUNT, "maximum": 3600}},
            required=("command",),
            has_effect=True,
        ),
    )
}


def find_call_error(name: str, args: Mapping[str, Any]) -> str | None:
    """What is wrong with a call, as a message to the model; `None` if it is valid."""
    if name not in TOOLS:
        return f"unknown tool {name!r}; choose from {', '.join(TOOLS)}"
    if error := first_error(args, TOOLS[name].schema):
        return f"the arguments of {name} are wrong: {error}"
    return "search wants either `text` or `regex`" if name == "search" and ("text" in args) == ("regex" in args) else None


_ToolFunction: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[ToolResult]]


class WorkspaceToolRunner:
    """Runs the tools in one workspace. One call at a time; cancelling a call stops what it does."""

    def __init__(self, workspace: str, programs: ToolPrograms) -> None:
        self._folder, self._programs = ConfinedFolder(workspace), programs
        self._functions: Mapping[str, _ToolFunction] = {
            "read": self._run_read,
            "write": self._run_write,
            "edit": self._run_edit,
            "list": self._run_list,
            "search": self._run_search,
            "shell": self._run_shell,
        }

    async def call_tool(self, name: str, args: Mapping[str, Any]) -> ToolResult:
        """Run a tool. A failure is returned as a result with `failed`."""
        if call_error := find_call_error(name, args):
            return ToolResult(text=call_error, failed=True)
        try:
            result = await self._functions[name](args)
        except ToolError as error:
            result = ToolResult(text=str(error), failed=True)
        return result.truncate_to(MAX_RESULT_CHARS)

    async def _run_read(self, args: Mapping[str, Any]) -> ToolResult:
        content, size = await run_in_thread(partial(self._folder.read, args["path"], _MAX_FILE_BYTES))
        if not is_text(content):
            raise ToolError(f"{args['path']}: is no text ({size} bytes)")
        return ToolResult(text=select_lines(content, size, first=args.get("from", 1), count=args.get("lines"), max_chars=MAX_RESULT_CHARS))

    async def _run_write(self, args: Mapping[str, Any]) -> ToolResult:
        content = args["content"].encode("utf-8", "replace")
        path = await run_in_thread(partial(self._folder.write, args["path"], content))
        return ToolResult(text=f"{path}: written, {len(content)} bytes", paths=(path,))

    async def _run_edit(self, args: Mapping[str, Any]) -> ToolResult:
        path = await run_in_thread(partial(self._edit_file, args["path"], args["old"], args["new"]))
        return ToolResult(text=f"{path}: changed", paths=(path,))

    def _edit_file(self, path: str, old: str, new: str) -> str:
        content, size = self._folder.read(path, _MAX_FILE_BYTES)
        if size > _MAX_FILE_BYTES:
            raise ToolError(f"{path}: is too large to edit ({size} bytes); use the shell")
        return self._folder.write(path, replace_once(path, content, old, new))

    async def _run_list(self, args: Mapping[str, Any]) -> ToolResult:
        return ToolResult(text=await run_in_thread(partial(self._list_folder, args.get("path", "."), args.get("depth", 1))))

    def _list_folder(self, path: str, depth: int) -> str:
        entries: list[str] = []
        with self._folder.open_folder(path) as folder:
            _collect_entries(folder, "", depth, entries)
        note = [f"… and more than these {_MAX_ENTRIES}; list a folder in it"] if len(entries) > _MAX_ENTRIES else []
        return "\n".join(entries[:_MAX_ENTRIES] + note) or "nothing is in it"

    async def _run_search(self, args: Mapping[str, Any]) -> ToolResult:
        steps = await run_in_thread(partial(self._folder.resolve_path, args.get("path", ".")))
        return await self._programs.run_search(steps, args.get("text", args.get("regex", "")), fixed="text" in args, glob=args.get("glob"))

    async def _run_shell(self, args: Mapping[str, Any]) -> ToolResult:
        return await self._programs.run_shell(args["command"], seconds=args.get("seconds"))


def _collect_entries(folder: int, prefix: str, depth: int, entries: list[str]) -> None:
    for name in sorted(os.listdir(folder)):
        if len(entries) > _MAX_ENTRIES:
            return
        shown = f"{prefix}{truncate_middle(name, 255)}"
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        except OSError:
            continue
        entries.append(shown + ("/" if stat.S_ISDIR(mode) else "@" if stat.S_ISLNK(mode) else ""))
        if stat.S_ISDIR(mode) and depth > 1 and name not in _SKIPPED_FOLDERS:
            try:
                subfolder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            except OSError:
                continue
            try:
                _collect_entries(subfolder, f"{shown}/", depth - 1, entries)
            finally:
                os.close(subfolder)


async def run_in_thread(work: Callable[[], _T]) -> _T:
    """Run a blocking function in a thread. On cancellation, wait for it: nothing is written after the caller was cancelled."""
    return await run_uncancelled(asyncio.to_thread(work))
