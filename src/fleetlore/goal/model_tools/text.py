"""What tools tell: text, cut where it is too long, and said where; pieces of it put in the place of others."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from fleetlore.goal.model_tools.folder import ToolError


class ToolResult(Struct, frozen=True, kw_only=True):
    """What came of a tool's use."""

    text: str
    failed: bool = False
    paths: tuple[str, ...] = ()
    """Files that it changed, from the workspace on."""
    exit_code: int | None = None

    def truncate_to(self, most: int) -> ToolResult:
        """The same, no longer than that."""
        return replace(self, text=truncate_middle(self.text, most))


def truncate_middle(text: str, most: int) -> str:
    """The beginning and the end of a text, and how much of it was left out in between; whatever cannot be encoded is replaced."""
    text = text.encode("utf-8", "replace").decode("utf-8", "replace")
    if len(text) <= most:
        return text
    note = f"\n… {len(text) - most:,} characters left out …\n"
    room = max(0, most - len(note))
    return text[: room - room // 2] + note + text[len(text) - room // 2 :]


def is_text(content: bytes) -> bool:
    """Whether people would read it."""
    return b"\0" not in content[:8192]


def select_lines(content: bytes, size: int, *, first: int, count: int | None, most: int) -> str:
    """Some lines of a file, as many as there is room for, and which they are, if not all."""
    text = content.decode("utf-8", "replace")
    lines = text.splitlines(keepends=True)
    wanted = lines[first - 1 : None if count is None else first - 1 + count]
    if lines and not wanted:
        raise ToolError(f"there are only {len(lines)} lines in it")
    room, shown = most - 200, 0
    for line in wanted:
        if len(line) > room:
            break
        room -= len(line)
        shown += 1
    told = "".join(wanted[:shown]) if shown else "".join(wanted[:1])
    last = first - 1 + max(shown, min(1, len(wanted)))
    if first == 1 and last == len(lines) and len(content) == size:
        return told
    known = f"of {len(lines)}" if len(content) == size else f"of a file of {size:,} bytes"
    return f"{told}\n[lines {first} to {last} {known}; give `from` to go on]"


def replace_once(path: str, content: bytes, old: str, new: str) -> bytes:
    """The file with one in the place of the other; what is no UTF-8 in it stays as it is."""
    was, becomes = old.encode("utf-8", "surrogateescape"), new.encode("utf-8", "replace")
    place = content.find(was)
    if place < 0:
        hint = "; its lines end with \\r\\n" if b"\r\n" in content and "\n" in old and "\r\n" not in old else ""
        raise ToolError(f"{path}: `old` is not in it; read the file, and give it exactly as it stands there{hint}")
    if content.find(was, place + 1) >= 0:
        raise ToolError(f"{path}: `old` is in it more than once; give more of what stands around it")
    if was == becomes:
        raise ToolError(f"{path}: `old` and `new` are the same; nothing was changed")
    return content[:place] + becomes + content[place + len(was) :]
