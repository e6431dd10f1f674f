"""The types of normalised tool calls, and of the functions that normalise them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

CallKind = Literal["command", "edit", "read", "search", "other"]


class PlanStep(NamedTuple):
    """A step of the agent's own plan, such as an item of a todo list, as a call leaves it."""

    key: str
    """The step's id in its list; its text where the program gives none."""
    text: str = ""
    """Empty in a call that only changes the step's state."""
    is_done: bool = False


class CallInput(NamedTuple):
    """What a call does, read from its input."""

    kind: CallKind
    command: str = ""
    description: str = ""
    cwd: str = ""
    background: bool = False
    """Whether the call returns while its command still runs."""
    polls: str = ""
    """The id of the background command whose output the call asks for."""
    paths: tuple[str, ...] = ()
    edits: tuple[tuple[str, str | None, str], ...] = ()
    """Path, old text (`None`: the file is written whole) and new text."""
    unsandboxed: bool = False
    """Whether the command asks to run outside of the program's sandbox, without asking the person."""
    unchecked_agent: str = ""
    """The agent that the call starts without permission checks."""
    plan: tuple[PlanStep, ...] = ()
    """The steps of the agent's plan that the call adds or changes."""


OutputState = Literal["completed", "running", "unknown"]


class CallOutput(NamedTuple):
    """What the result says beside its text."""

    state: OutputState = "completed"
    task: str | None = None
    """The id of a background command, running or whose output this is."""
    exit_code: int | None = None
    text: str | None = None
    """The command's own output, if the program wraps it."""
    plan: tuple[PlanStep, ...] = ()
    """The steps of the agent's plan that the result names."""


class ToolCallReader(NamedTuple):
    """How the tool calls of one coding agent are normalised. Nothing here raises, whatever was stored."""

    read_input: Callable[[str, object], CallInput | None]
    """The normalised call, from the tool's name and input; `None` for a tool that is not the agent's own."""
    read_output: Callable[[CallInput, str, Mapping[str, Any]], CallOutput] = lambda given, output, data: CallOutput()
    """The state of a background command, from the output and the event's data."""
    notifications: frozenset[str] = frozenset()
    """The kinds of events that say that a background command has ended."""
    read_notification: Callable[[Mapping[str, Any]], tuple[str, bool, int | None] | None] = lambda data: None
    """From such an event: the command's id, whether it failed, and its exit code."""
    find_output_file: Callable[[CallInput], str] = lambda given: ""
    """The id of the background command whose output file a call reads; empty if it reads none."""
    is_success_implied: bool = False
    """Whether a command whose call did not fail has exit code 0."""
    question_tools: frozenset[str] = frozenset()
    """Tools that ask the person; their input has a list `questions` of objects with a `question`."""
    plan_tools: frozenset[str] = frozenset()
    """Tools that show the person a plan for approval."""
