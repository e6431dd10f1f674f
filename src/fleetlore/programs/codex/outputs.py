"""Parses inputs and outputs of Codex's tools, in the shapes of its various versions."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from fleetlore.dialects.fields import as_exit_code, as_number, as_object, as_text
from fleetlore.programs.sessions import MAX_KEPT_BYTES

_HEADER_CHARS = 400
"""Characters in which Codex's header before a command's own output is searched."""
_OUTPUT_MARK = "Output:\n"
_HEADER_PREFIXES = ("Exit code: ", "Wall time: ", "Chunk ID: ", "Process ")
_FAILURE_PREFIXES = (
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
_REFUSAL_PREFIXES = (
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
_ABORTED_TEXT = "aborted by user"
_decode_json = msgspec.json.Decoder().decode


class CodexCallOutput(NamedTuple):
    """The output of a call."""

    words: str
    exit_code: int | None = None
    seconds: float | None = None
    success: bool | None = None
    running: bool = False
    """Whether the command still runs in the background."""
    terminal: str | None = None
    """The id of its terminal session."""

    @property
    def interrupted(self) -> bool:
        """Whether a person aborted it."""
        return _ABORTED_TEXT in self.words[:_HEADER_CHARS]

    @property
    def refused(self) -> bool:
        """Whether it was denied, not run."""
        return self.words.startswith(_REFUSAL_PREFIXES)

    @property
    def failed(self) -> bool:
        """Whether it failed."""
        if self.exit_code is not None:
            return self.exit_code != 0
        return self.success is False or self.interrupted or self.words.startswith(_FAILURE_PREFIXES)


def parse_call_input(arguments: object) -> Any:
    """The input of a call: its arguments if they are JSON; only the text if they are huge."""
    if not isinstance(arguments, str):
        return arguments
    if len(arguments) > MAX_KEPT_BYTES or not arguments.startswith(("{", "[")):
        return arguments or None
    try:
        return _decode_json(arguments.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return arguments


def parse_call_output(value: object) -> CodexCallOutput:
    """Parse the output of any version."""
    if isinstance(value, str):
        return _parse_json_output(value) if value.startswith('{"output":') else _parse_text_output(value)
    if isinstance(value, dict):
        inner = parse_call_output(next((value[key] for key in ("content", "output", "body", "text") if value.get(key) is not None), ""))
        success = value.get("success")
        return inner._replace(success=success) if isinstance(success, bool) else inner
    return _parse_text_output(extract_text(value))


def _parse_json_output(value: str) -> CodexCallOutput:
    try:
        fields = as_object(_decode_json(value.encode()))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return CodexCallOutput(value)
    about, words = as_object(fields.get("metadata")), fields.get("output")
    if not isinstance(words, str):
        return CodexCallOutput(value)
    return CodexCallOutput(words, exit_code=as_exit_code(about.get("exit_code")), seconds=_as_float(about.get("duration_seconds")))


def _parse_text_output(value: str) -> CodexCallOutput:
    """`Exit code: 1`, `Wall time: 0.3 seconds`, `Process exited with code 1` and similar lines, then the command's output."""
    head, found, _ = value[:_HEADER_CHARS].partition(_OUTPUT_MARK)
    if not value.startswith(_HEADER_PREFIXES):
        return CodexCallOutput(value)
    words = value[len(head) + len(_OUTPUT_MARK) :] if found else _strip_header_lines(value)
    if found and words.startswith("Exit code: "):
        return _parse_text_output(words)
    code, seconds, terminal = None, None, None
    for line in head.splitlines():
        if line.startswith("Exit code: "):
            code = _parse_integer(line[11:])
        elif line.startswith("Process exited with code "):
            code = _parse_integer(line[25:])
        elif line.startswith("Process running with session ID "):
            terminal = line[32:].strip()[:100]
        elif line.startswith("Wall time: "):
            seconds = _parse_decimal(line[11:].removesuffix(" seconds"))
    return CodexCallOutput(words, exit_code=code, seconds=seconds, running=terminal is not None, terminal=terminal)


def _strip_header_lines(value: str) -> str:
    line, _, rest = value.partition("\n")
    return _strip_header_lines(rest) if rest and line.startswith(_HEADER_PREFIXES) else value


def extract_text(value: object) -> str:
    """The text of a message or a result: a string, or a list of parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return as_text(value.get("text")) or (extract_text(value["content"]) if isinstance(value.get("content"), list | str) else "")
    return "\n".join(text for part in value if (text := extract_text(part))) if isinstance(value, list) else ""


def _parse_integer(text: str) -> int | None:
    digits = text.strip().removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 12 else None


def _parse_decimal(text: str) -> float | None:
    whole, _, part = text.strip().partition(".")
    return float(f"{whole}.{part or 0}") if f"{whole}{part}".isdecimal() and text.isascii() and len(text) < 20 and whole else None


def _as_float(value: object) -> float | None:
    return None if (number := as_number(value)) is None else float(number)
