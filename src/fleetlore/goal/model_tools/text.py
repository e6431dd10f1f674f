"""The result of a tool call, and helpers for its text: truncate, select lines, replace."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from fleetlore.goal.model_tools.folder import ToolError
from fleetlore.prompts.text_safety import truncate_middle


class ToolResult(Struct, frozen=True, kw_only=True):
    """The result of a tool call."""

    text: str
    failed: bool = False
    paths: tuple[str, ...] = ()
    """Files that the call changed, relative to the workspace."""
    exit_code: int | None = None

    def truncate_to(self, max_chars: int) -> ToolResult:
        """The same with at most `max_chars` of text."""
        return replace(self, text=truncate_middle(self.text, max_chars))


def is_text(content: bytes) -> bool:
    """Whether the content looks like text."""
    return b"\0" not in content[:8192]


def select_lines(content: bytes, size: int, *, first: int, count: int | None, max_chars: int) -> str:
    """Lines of a file, as many as fit into `max_chars`, with a note which they are unless it is the whole file."""
    text = content.decode("utf-8", "replace")
    lines = text.splitlines(keepends=True)
    selected = lines[first - 1 : None if count is None else first - 1 + count]
    if lines and not selected:
        raise ToolError(f"there are only {len(lines)} lines in it")
    remaining, shown = max_chars - 200, 0
    for line in selected:
        if len(line) > remaining:
            break
        remaining -= len(line)
        shown += 1
    text_shown = "".join(selected[:shown]) if shown else "".join(selected[:1])
    last = first - 1 + max(shown, min(1, len(selected)))
    if first == 1 and last == len(lines) and len(content) == size:
        return text_shown
    total = f"of {len(lines)}" if len(content) == size else f"of a file of {size:,} bytes"
    return f"{text_shown}\n[lines {first} to {last} {total}; give `from` to go on]"


def replace_once(path: str, content: bytes, old: str, new: str) -> bytes:
    """The content with `old` replaced by `new`. Bytes that are not UTF-8 stay as they are.

    Raises `ToolError` if `old` does not occur exactly once.
    """
    old_bytes, new_bytes = old.encode("utf-8", "surrogateescape"), new.encode("utf-8", "replace")
    position = content.find(old_bytes)
    if position < 0:
        hint = "; its lines end with \\r\\n" if b"\r\n" in content and "\n" in old and "\r\n" not in old else ""
        raise ToolError(f"{path}: `old` is not in the file; read the file and copy the text exactly{hint}")
    if content.find(old_bytes, position + 1) >= 0:
        raise ToolError(f"{path}: `old` occurs more than once; include more context")
    if old_bytes == new_bytes:
        raise ToolError(f"{path}: `old` and `new` are the same; nothing was changed")
    return content[:position] + new_bytes + content[position + len(old_bytes) :]
