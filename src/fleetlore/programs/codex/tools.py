"""Tool calls of Codex and what came of them, told alike by rollouts, streams and hooks."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from fleetlore.dialects.commands.classify import Deed, command_of, deed_of, flags_of
from fleetlore.dialects.commands.flags import shown_flags
from fleetlore.dialects.fields import as_object
from fleetlore.events.envelope import Event
from fleetlore.programs.codex.ids import Place, called_id, outcome_id
from fleetlore.programs.codex.items import Work
from fleetlore.programs.codex.outputs import Output
from fleetlore.programs.sessions import LONGEST_TEXT, MOST_KEPT, Scene, shorten

CODE = "exec"
"""The tool that runs a program of the model's own, which calls other tools in its turn: those tell the deeds."""
_SAYS_WHAT = ("task_name", "message", "prompt", "path", "query", "url", "pattern", "chars", "explanation", "code", "target")
_BEGINS_PATCH = "*** Begin Patch\n"


class Key(NamedTuple):
    """Which call it is: ids are taken from here."""

    called: str
    outcome: str
    call: str | None = None
    """The program's own id of it."""


def key_of(place: Place, call: str) -> Key:
    """The key of a call that has an id."""
    return Key(called_id(place, call), outcome_id(place, call), call)


def what_of(tool: str, given: object) -> str:
    """A call in one line: the tool, and what it was asked to do."""
    command = command_of(given) if isinstance(given, dict) else None
    if isinstance(command, list):
        command = command[-1] if command[1:2] in (["-lc"], ["-c"]) else " ".join(command)
    told = as_object(given)
    words = shorten(command) or next((line for key in _SAYS_WHAT if (line := shorten(told.get(key)))), None)
    if words is None and isinstance(given, str):
        words = shorten(given[:2000].removeprefix(_BEGINS_PATCH).removeprefix("*** "))
    flags = shown_flags(flags_of(tool, given), words or "")
    return f"{tool}: {words[: LONGEST_TEXT - len(tool) - 2 - len(flags)]}{flags}" if words else f"{tool}{flags}"


def tell_call(scene: Scene, key: Key, tool: str, given: object, *, cwd: str | None = None, cause: str | None = None) -> Event:
    """A tool was called."""
    data = {"tool": tool, "call_id": key.call, "input": _fitting(given) or None, "cwd": cwd, "deed": _deed_of(tool, given).name}
    data |= {"flags": flags_of(tool, given) or None}
    return scene.tell("tool.called", key.called, text=what_of(tool, given), data=data, cause=cause)


def tell_outcome(scene: Scene, key: Key, tool: str, given: object, output: Output, work: Work | None = None) -> Event:
    """What came of a call: its output, and what an item told of it before."""
    code = output.exit_code if work is None or work.exit_code is None else work.exit_code
    duration = None if output.seconds is None else output.seconds * 1000
    if work is not None and work.duration_ms is not None:
        duration = work.duration_ms
    data: dict[str, Any] = {"tool": tool, "call_id": key.call, "flags": flags_of(tool, given) or None}
    if output.refused or (work is not None and work.refused):
        data |= {"reason": output.words or None, "deed": _deed_of(tool, given).name}
        return scene.tell("tool.denied", key.outcome, text=what_of(tool, given), data=data, cause=key.called)
    failed = output._replace(exit_code=code).failed or (work is not None and work.failed)
    deed = _deed_of(tool, given, output.words, failed=failed)
    data |= {"exit_code": code, "duration_ms": duration, "deed": deed.name, "subject": deed.subject}
    if failed:
        data |= {"output" if code is not None else "error": output.words or None, "interrupted": output.interrupted or None}
        why = shorten(output.words) or (f"exit code {code}" if code is not None else "failed")
        return scene.tell("tool.failed", key.outcome, text=f"{what_of(tool, given)}: {why}", data=data, cause=key.called)
    paths = list((work.paths if work else ()) or deed.paths)
    data |= {"output": output.words or None, "paths": paths or None, "running": output.running or None}
    return scene.tell("tool.returned", key.outcome, text=what_of(tool, given), data=data, cause=key.called)


def tell_work(scene: Scene, key: Key, work: Work, *, cause: str | None) -> list[Event]:
    """A call and its outcome, where an item alone tells them."""
    given = work.given if work.given is not None or not work.paths else {"changes": dict.fromkeys(work.paths, "")}
    called = tell_call(scene, key, work.tool, given, cwd=work.cwd, cause=cause)
    return [called, tell_outcome(scene, key, work.tool, given, Output(work.words), work)]


def _deed_of(tool: str, given: object, output: object = None, *, failed: bool = False) -> Deed:
    return Deed(None) if tool == CODE else deed_of(tool, given, output, failed=failed)


def _fitting(given: object) -> object:
    """An input as it is, or as text that a log may cut, where it is huge."""
    if not isinstance(given, dict | list):
        return given
    raw = msgspec.json.encode(given)
    return given if len(raw) <= MOST_KEPT else raw.decode()
