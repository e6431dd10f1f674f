"""What tools of Codex were given and what they gave back, in the many shapes that its versions write."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from fleetlore.dialects.fields import as_number, as_object, as_text
from fleetlore.programs.codex.ids import as_code
from fleetlore.programs.sessions import MOST_KEPT

_HEAD = 400
"""What the program says before a command's own output stands in so many characters."""
_OUTPUT = "Output:\n"
_HEADS = ("Exit code: ", "Wall time: ", "Chunk ID: ", "Process ")
_FAILURES = (
    "unsupported call",
    "unsupported custom tool call",
    "apply_patch verification failed",
    "apply_patch handler received",
    "failed to parse function arguments",
    "failed in sandbox",
    "execution error",
    "exec_command failed",
    "write_stdin failed",
    "tool call error",
    "Script failed",
    "error: ",
    "Error: ",
    "err: ",
)
_REFUSALS = (
    "exec command rejected by user",
    "patch rejected by user",
    "rejected by user",
    "user rejected",
    "user cancelled MCP tool call",
    "command rejected",
    "patch rejected",
    "approval denied",
    "This action was rejected",
)
_ABORTED = "aborted by user"
_decode = msgspec.json.Decoder().decode


class Output(NamedTuple):
    """What came back of a call."""

    words: str
    exit_code: int | None = None
    seconds: float | None = None
    success: bool | None = None
    running: bool = False
    """True where a command goes on in the background."""

    @property
    def interrupted(self) -> bool:
        """Whether a person broke it off."""
        return _ABORTED in self.words[:_HEAD]

    @property
    def refused(self) -> bool:
        """Whether it was not even tried."""
        return self.words.startswith(_REFUSALS)

    @property
    def failed(self) -> bool:
        """Whether it did not do what it was to do."""
        if self.exit_code is not None:
            return self.exit_code != 0
        return self.success is False or self.interrupted or self.words.startswith(_FAILURES)


def read_input(arguments: object) -> Any:
    """The input of a call: its arguments, where they are JSON, and of what is huge only the text."""
    if not isinstance(arguments, str):
        return arguments
    if len(arguments) > MOST_KEPT or not arguments.startswith(("{", "[")):
        return arguments or None
    try:
        return _decode(arguments.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return arguments


def read_output(value: object) -> Output:
    """An output as any version has written it."""
    if isinstance(value, str):
        return _read_json(value) if value.startswith('{"output":') else _read_text(value)
    if isinstance(value, dict):
        inner = read_output(next((value[key] for key in ("content", "output", "body", "text") if value.get(key) is not None), ""))
        success = value.get("success")
        return inner._replace(success=success) if isinstance(success, bool) else inner
    return _read_text(text_in(value))


def _read_json(value: str) -> Output:
    try:
        told = as_object(_decode(value.encode()))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return Output(value)
    about, words = as_object(told.get("metadata")), told.get("output")
    if not isinstance(words, str):
        return Output(value)
    return Output(words, exit_code=as_code(about.get("exit_code")), seconds=_number(about.get("duration_seconds")))


def _read_text(value: str) -> Output:
    """`Exit code: 1`, `Wall time: 0.3 seconds`, `Process exited with code 1` and the like, then what the command wrote."""
    head, found, _ = value[:_HEAD].partition(_OUTPUT)
    if not value.startswith(_HEADS):
        return Output(value)
    words = value[len(head) + len(_OUTPUT) :] if found else _without_heads(value)
    if found and words.startswith("Exit code: "):
        return _read_text(words)
    code, seconds, running = None, None, False
    for line in head.splitlines():
        if line.startswith("Exit code: "):
            code = _whole(line[11:])
        elif line.startswith("Process exited with code "):
            code = _whole(line[25:])
        elif line.startswith("Process running with session ID "):
            running = True
        elif line.startswith("Wall time: "):
            seconds = _decimal(line[11:].removesuffix(" seconds"))
    return Output(words, exit_code=code, seconds=seconds, running=running)


def _without_heads(value: str) -> str:
    line, _, rest = value.partition("\n")
    return _without_heads(rest) if rest and line.startswith(_HEADS) else value


def text_in(value: object) -> str:
    """The words of a message or a result: a string, or parts of which some have text."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return as_text(value.get("text")) or (text_in(value["content"]) if isinstance(value.get("content"), list | str) else "")
    return "\n".join(text for part in value if (text := text_in(part))) if isinstance(value, list) else ""


def _whole(text: str) -> int | None:
    digits = text.strip().removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 12 else None


def _decimal(text: str) -> float | None:
    whole, _, part = text.strip().partition(".")
    return float(f"{whole}.{part or 0}") if f"{whole}{part}".isdecimal() and text.isascii() and len(text) < 20 and whole else None


def _number(value: object) -> float | None:
    return None if (number := as_number(value)) is None else float(number)
