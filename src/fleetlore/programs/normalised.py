"""The shape of a normalised tool call."""

from __future__ import annotations

from typing import Literal, NamedTuple

CallKind = Literal["command", "edit", "read", "search", "other"]


class CallInput(NamedTuple):
    """What a call does, read from its input."""

    kind: CallKind
    command: str = ""
    description: str = ""
    cwd: str = ""
    background: bool = False
    """The call returns while its command goes on."""
    polls: str = ""
    """The id of the background command whose output the call asks for."""
    paths: tuple[str, ...] = ()
    edits: tuple[tuple[str, str | None, str], ...] = ()
    """Path, old text (`None`: the file is written whole) and new text."""


OutputState = Literal["completed", "running", "unknown"]


class CallOutput(NamedTuple):
    """What the result says beside its text."""

    state: OutputState = "completed"
    task: str | None = None
    """The id under which a command goes on in the background, or whose output this is."""
    exit_code: int | None = None
    text: str | None = None
    """The output itself, where the program wraps it."""
