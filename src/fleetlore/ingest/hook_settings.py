"""Hooks in a program's own settings file: ours put in and taken out, everything else left as it stands.

Claude Code and Codex write them alike: `{"hooks": {EVENT: [{"matcher"?, "hooks": [{"type": "command", "command": …}]}]}}`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

from fleetlore.errors import ConfigError
from fleetlore.ingest.atomic_file import write_atomically

BACKUP_SUFFIX = ".before-fleetlore"
"""What the file's copy from before the first change is called, behind the file's own name."""

HOOK_PROGRAM = "fleetlore"
"""The name that hooks call. `lore` is short for people, and other packages install a program of that name, too."""
COMMAND_NAMES = ("lore", HOOK_PROGRAM)
"""Names under which our command is installed. Hooks of 0.1 call `lore`; they are recognised, updated and removed as well."""
_Settings = dict[str, Any]


class HookFile(NamedTuple):
    """One file with hooks, and what we want in it."""

    path: str
    program: str
    """As `lore hook` is told it."""
    events: tuple[str, ...]
    """The steps at which we want to be called."""


def hook_command(executable: str, program: str) -> str:
    """The command line of a hook; `executable` is the path or the name of our command."""
    return f"{shlex.quote(executable)} hook {program}"


def install_hooks(file: HookFile, *, command: str) -> bool:
    """Have a command of ours called at every event; answers whether anything had to be changed."""
    before = _read_file(file.path)
    settings = _parse_settings(file.path, before)
    for event in list(_get_hooks(file, settings)):
        if event not in file.events:
            _remove_hooks(file, settings, event)
    for event in file.events:
        _add_hook(file, settings, event, command)
    if settings == _parse_settings(file.path, before):
        return False
    _write_backup(file.path, before)
    _write_file(file.path, _encode_settings(settings, like=before))
    return True


def uninstall_hooks(file: HookFile) -> bool:
    """Take out ours and only ours; answers whether there was anything. What was not changed since is as it was, to the byte."""
    before = _read_file(file.path)
    settings = _parse_settings(file.path, before)
    removed = [_remove_hooks(file, settings, event) for event in list(_get_hooks(file, settings))]
    if not any(removed):
        return False
    original = _read_file(f"{file.path}{BACKUP_SUFFIX}")
    if original is not None and _is_same_settings(settings, original):
        _write_file(file.path, original)
    elif settings or original is not None:
        _write_file(file.path, _encode_settings(settings, like=before))
    else:
        os.unlink(os.path.realpath(file.path))
    if original is not None:
        os.unlink(f"{file.path}{BACKUP_SUFFIX}")
    return True


def installed_events(file: HookFile) -> frozenset[str]:
    """The events at which we are called."""
    settings = _parse_settings(file.path, _read_file(file.path))
    return frozenset(event for event in _get_hooks(file, settings) if any(_find_our_hooks(file, settings, event)))


def calls_old_name(file: HookFile) -> bool:
    """Whether a hook of ours still calls `lore`, as 0.1 installed it."""
    settings = _parse_settings(file.path, _read_file(file.path))
    ours = (hook for event in _get_hooks(file, settings) for _, hook in _find_our_hooks(file, settings, event))
    return any(os.path.basename(shlex.split(hook["command"])[0]) != HOOK_PROGRAM for hook in ours)


def are_hooks_disabled(file: HookFile) -> bool:
    """Whether the file says that no hook is to run."""
    return _parse_settings(file.path, _read_file(file.path)).get("disableAllHooks") is True


def _get_hooks(file: HookFile, settings: _Settings) -> dict[str, list[Any]]:
    """The table of hooks, checked as far as we need it."""
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict):
        raise ConfigError(f"{file.path}: hooks: an object is needed; mend it, nothing was changed")
    for event, groups in hooks.items():
        if not isinstance(groups, list):
            raise ConfigError(f"{file.path}: hooks.{event}: a list is needed; mend it, nothing was changed")
    return hooks


def _find_our_hooks(file: HookFile, settings: _Settings, event: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each hook of ours at an event, with the group that it stands in."""
    for group in _get_hooks(file, settings).get(event, []):
        for hook in group.get("hooks", []) if isinstance(group, dict) and isinstance(group.get("hooks"), list) else []:
            if isinstance(hook, dict) and is_our_hook(hook.get("command"), file.program):
                yield group, hook


def is_our_hook(command: object, program: str) -> bool:
    """Whether a hook's command is `fleetlore hook PROGRAM` or, as in 0.1, `lore hook PROGRAM`, of any installation."""
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:  # somebody else's, and unfinished
        return False
    return words[1:3] == ["hook", program] and os.path.basename(words[0]) in COMMAND_NAMES


def _add_hook(file: HookFile, settings: _Settings, event: str, command: str) -> None:
    found = list(_find_our_hooks(file, settings, event))
    if not found:
        hooks = settings.setdefault("hooks", {})
        hooks.setdefault(event, []).append({"hooks": [{"type": "command", "command": command}]})
        return
    found[0][1]["command"] = command
    for group, hook in found[1:]:
        group["hooks"].remove(hook)


def _remove_hooks(file: HookFile, settings: _Settings, event: str) -> bool:
    """Take ours out of an event, and what is empty without it."""
    found = list(_find_our_hooks(file, settings, event))
    hooks = _get_hooks(file, settings)
    for group, hook in found:
        group["hooks"].remove(hook)
        if not group["hooks"]:
            hooks[event].remove(group)
    if found and not hooks[event]:
        del hooks[event]
    if found and not hooks:
        del settings["hooks"]
    return bool(found)


def _read_file(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _parse_settings(path: str, raw: bytes | None) -> _Settings:
    if raw is None or not raw.strip():
        return {}
    try:
        settings = json.loads(raw.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}: line {error.lineno}, column {error.colno}: {error.msg}; mend it, nothing was changed") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not JSON: {error}; mend it, nothing was changed") from error
    if not isinstance(settings, dict):
        raise ConfigError(f"{path}: a JSON object is needed; mend it, nothing was changed")
    return settings


def _is_same_settings(settings: _Settings, original: bytes) -> bool:
    """Whether settings are those of the original, in the same order, too, whatever empty places for hooks either has."""
    try:
        return json.dumps(_drop_empty_hooks(settings)) == json.dumps(_drop_empty_hooks(_parse_settings("", original)))
    except ConfigError:
        return False


def _drop_empty_hooks(settings: _Settings) -> _Settings:
    hooks = settings.get("hooks", {})
    kept = {event: groups for event, groups in hooks.items() if groups} if isinstance(hooks, dict) else hooks
    return {key: kept if key == "hooks" else value for key, value in settings.items() if key != "hooks" or kept}


def _encode_settings(settings: _Settings, *, like: bytes | None) -> bytes:
    """The settings as text, indented as the file was."""
    text = (like or b"").decode("utf-8-sig", errors="replace")
    indent = match[1] if (match := re.search(r'\n([ \t]+)"', text)) else None if text.strip(" \n{}") else 2
    end = "" if text.strip() and not text.endswith("\n") else "\n"
    try:
        return (json.dumps(settings, indent=indent, ensure_ascii=False) + end).encode()
    except UnicodeEncodeError:  # half a character, which only an escape can stand for
        return (json.dumps(settings, indent=indent) + end).encode()


def _write_backup(path: str, before: bytes | None) -> None:
    """Keep the file as it was before us, once."""
    backup = f"{path}{BACKUP_SUFFIX}"
    if before is not None and not os.path.exists(backup):
        _write_file(backup, before, mode_of=path)


def _write_file(path: str, content: bytes, *, mode_of: str | None = None) -> None:
    """Write a file whole or not at all; a link stays a link, and who could read it still can."""
    os.makedirs(os.path.dirname(os.path.realpath(path)), mode=0o700, exist_ok=True)
    with write_atomically(path, mode=_file_mode(mode_of or path)) as file:
        file.write(content)


def _file_mode(path: str) -> int:
    try:
        return os.stat(path).st_mode & 0o777
    except FileNotFoundError:
        return 0o600
