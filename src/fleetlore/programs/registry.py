"""Coding agents by name: the built-in ones, and those of installed packages under the entry point `fleetlore.programs`.

A package offers an instance of `programs.base.Program`. Commands, the server and the views ask here and know no agent by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from fleetlore.dialects import registry as dialects
from fleetlore.errors import BrokenExtension, Invalid
from fleetlore.plugins import ExtensionPoint
from fleetlore.programs.base import Program, ProgramHooks

if TYPE_CHECKING:
    from fleetlore.dialects.otlp.logs import ProgramTelemetry
    from fleetlore.dialects.recording import Recording
    from fleetlore.programs.hook_settings import HookFile
    from fleetlore.programs.normalised import ToolCallReader

_Part = TypeVar("_Part")

_BUILTIN = {
    "claude-code": "claude_code",
    "codex": "codex",
    "gemini-cli": "gemini_cli",
    "qwen-code": "qwen_code",
    "copilot-cli": "copilot_cli",
    "opencode": "opencode",
    "kilo": "kilo",
    "goose": "goose",
    "kimi-code": "kimi_code",
    "droid": "droid",
    "pi": "pi",
    "openhands": "openhands",
    "acp": "acp",
}
BUILTIN_NAMES = tuple(_BUILTIN)
DRIVEN_NAMES = ("claude-code", "codex", "acp")
"""Those of the built-in programs that have a harness; the others are only recorded."""
LIVE_NAMES = ("claude-code",)
"""Those of the built-in programs that keep state files of running sessions (`Program.live_folders`)."""
PROTOCOL_NAME = "acp"
"""Any agent of a protocol, which keeps no files that could be found."""
DEFAULT_NAME = BUILTIN_NAMES[0]
"""The program of goals that name none."""
AGENT_SDK_NAME = BUILTIN_NAMES[0]
"""The program whose transcripts the Agent SDK passes to a session store."""
OTHER_HARNESSES = ("command", "mind")
"""Other harnesses of goals; no program can have these names."""
_reported: set[str] = set()


def _validate_program(name: str, thing: Any) -> Program:
    if not isinstance(thing, Program):
        raise TypeError(f"an instance of fleetlore.programs.base.Program is needed, not {type(thing).__name__}")
    if missing := [each for each in ("name", "title", "command", "home") if not isinstance(getattr(thing, each, None), str)]:
        raise TypeError(f"it has no {' and no '.join(missing)}")
    if thing.name != name:
        raise ValueError(f"it is called {thing.name!r}, and its entry point {name!r}")
    re.compile(thing.side_files)
    return thing


PROGRAMS: ExtensionPoint[Program] = ExtensionPoint(
    "fleetlore.programs", _validate_program, builtin_names=(*BUILTIN_NAMES, *OTHER_HARNESSES, *dialects.NAMES, *dialects.RECORDINGS)
)


def list_names() -> list[str]:
    """Every program; nothing is loaded."""
    return [*BUILTIN_NAMES, *PROGRAMS.list_names()]


def list_recorded_names() -> list[str]:
    """The programs that keep recordings of their own; nothing is loaded."""
    return [name for name in list_names() if name != PROTOCOL_NAME]


def find_program(name: str) -> Program | None:
    """The program with that name; `BrokenExtension` if it cannot be used."""
    if name in _BUILTIN:
        return _load_builtin(name)
    return PROGRAMS.find_by_name(name)


def require_program(name: str) -> Program:
    """The program with that name; `Invalid` lists the known ones."""
    program = find_program(name)
    if program is None:
        raise Invalid(f"unknown program: {name}; choose from {', '.join(list_names())}")
    return program


@cache
def load_programs() -> Sequence[Program]:
    """Every program that can be used. A package's program that cannot is left out, with one warning."""
    return (*map(_load_builtin, BUILTIN_NAMES), *PROGRAMS.load_all())


def list_live() -> list[Program]:
    """The programs that keep state files of running sessions. The other built-in ones are not loaded: every command asks."""
    return [program for program in (*map(_load_builtin, LIVE_NAMES), *PROGRAMS.load_all()) if program.live_folders]


def _load_builtin(name: str) -> Program:
    program: Program = import_module(f"fleetlore.programs.{_BUILTIN[name]}.program").PROGRAM
    return program


# --- Parts. One that a package cannot load is reported once and left out, so that it disturbs nothing else.


def _load_part(program: Program, load: Callable[[], _Part]) -> _Part | None:
    try:
        return load()
    except Exception as error:
        if program.name in BUILTIN_NAMES:
            raise
        if program.name not in _reported:
            import logging

            _reported.add(program.name)
            logging.getLogger("fleetlore.extensions").warning("%s", BrokenExtension(program.name, "its package", _describe_error(error)))
        return None


def find_problem(program: Program) -> str | None:
    """Why some part of a program cannot be loaded; every part is."""
    loads = (program.load_recording, program.load_hooks, program.hook_file, program.load_harness, program.load_telemetry)
    for load in (*loads, program.load_tool_calls):
        try:
            load()
        except Exception as error:  # noqa: BLE001  # code of other packages may raise anything
            return f"{load.__name__}: {_describe_error(error)}"
    return None


def _describe_error(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}; update the package, or uninstall it"


def find_hooks(name: str) -> ProgramHooks | None:
    """How a program's hooks are read; `None` for a program that is not known, has no hooks, or cannot be used."""
    try:
        program = find_program(name)
    except BrokenExtension:
        return None
    return None if program is None else _load_part(program, program.load_hooks)


def list_hooked() -> list[Program]:
    """The programs that call `lore hook`."""
    return [program for program in load_programs() if _load_part(program, program.load_hooks) is not None]


def list_driven() -> list[Program]:
    """The programs that can take the turns of a goal."""
    return [program for program in load_programs() if _load_part(program, program.load_harness) is not None]


def find_hook_file(program: Program) -> HookFile | None:
    """The user's settings of a program, if they can have our hooks."""
    return _load_part(program, program.hook_file)


def list_installable() -> list[Program]:
    """The programs whose settings can have our hooks."""
    return [program for program in load_programs() if find_hook_file(program) is not None]


def load_tool_calls() -> dict[str, ToolCallReader]:
    """The readers of tool calls, by `origin.dialect`."""
    loaded = ((program.dialect, _load_part(program, program.load_tool_calls)) for program in load_programs())
    return {dialect: reader for dialect, reader in loaded if reader is not None}


# --- Recordings


def list_recordings() -> list[str]:
    """Names of all recordings: transcripts of programs, and records of other sources."""
    return [*list_names(), *dialects.RECORDINGS]


def find_recording(name: str) -> Recording:
    """The reader of a program's transcripts or of another source's records; `Invalid` lists the known ones."""
    program = find_program(name)
    if program is not None:
        return program.load_recording()
    match name:
        case "forge":
            from fleetlore.dialects.forge.webhooks import RECORDING

            return RECORDING
        case "otlp":
            from fleetlore.dialects.otlp.reader import make_recording

            return make_recording(load_telemetry())
    raise Invalid(f"unknown program: {name!r}; choose from {', '.join(list_recordings())}")


@cache
def load_telemetry() -> Sequence[ProgramTelemetry]:
    """The telemetry readers of all programs that have one."""
    return tuple(table for program in load_programs() if (table := _load_part(program, program.load_telemetry)) is not None)


@cache
def recording_dialects() -> frozenset[str]:
    """`origin.dialect` of every recording."""
    return frozenset(name.replace("-", "_") for name in list_recordings())


def may_be_program(dialect: str | None) -> bool:
    """Whether events of a dialect may come from a coding agent: one of ours, or of a package that is not installed here."""
    return dialect is not None and (dialect.replace("_", "-") in list_names() or dialect not in _other_dialects())


@cache
def _other_dialects() -> frozenset[str]:
    from fleetlore.log.admission import OWN_DIALECT

    return frozenset((OWN_DIALECT, *dialects.list_dialects(), *dialects.RECORDINGS))
