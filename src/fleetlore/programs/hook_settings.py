"""Add our hooks to the settings file of a coding agent and remove them.

Other settings keep their values, order and indentation. Spacing within a line and line ends may change, and of a repeated key only the
last one is kept; uninstalling restores the original file if nothing else was changed since.

`HookFile` handles this JSON: `{"hooks": {EVENT: [{"matcher"?, "hooks": [{"type": "command", "command": …}]}]}}`. A program that keeps
its hooks in another format subclasses it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from fleetlore.documents.atomic_file import write_atomically
from fleetlore.errors import ConfigError

BACKUP_SUFFIX = ".before-fleetlore"
"""Appended to the file's name for the copy made before the first change."""

HOOK_PROGRAM = "fleetlore"
"""The name that hooks call. `lore` is short for people, and other packages install a program of that name, too."""
COMMAND_NAMES = ("lore", HOOK_PROGRAM)
"""Names under which our command is installed. Hooks of 0.1 call `lore`; they are recognised, updated and removed as well."""
RECORD, ASK_FOR_EVIDENCE, ASK_FOR_APPROVAL = "hook", "evidence", "approve-hook"
ACTIONS = (RECORD, ASK_FOR_EVIDENCE, ASK_FOR_APPROVAL)
"""Our commands that hooks call."""
_TIMEOUT_MARGIN = 30
_Settings = dict[str, Any]


class HookFile(NamedTuple):
    """One settings file, and the hooks that we want in it."""

    path: str
    program: str
    """The argument of `lore hook`."""
    events: tuple[str, ...]
    """The steps at which the program calls us."""
    action: str = RECORD
    """What our command does when it is called."""
    async_events: frozenset[str] = frozenset()
    """Steps at which the program need not wait for us; empty if it cannot."""
    timeout: int | None = None
    """Seconds that the program waits for us; its own default unless given."""
    tool_call_events: tuple[str, ...] = ()
    """The steps of every tool call, which are not in `events` because the transcript has them."""

    def recording_tool_calls(self) -> HookFile:
        """The same file, with hooks for every tool call, for sessions that keep no transcript."""
        return self._replace(events=(*self.events, *self.tool_call_events))

    def asking_for_evidence(self) -> HookFile:
        """The same file, and the hook that asks an agent for its evidence when it stops."""
        return self._replace(events=("Stop",), action=ASK_FOR_EVIDENCE)

    def asking_for_approval(self, event: str, *, wait: float) -> HookFile:
        """The same file, and the hook that asks a person for permission. It records the request, so `lore hook` is not called there."""
        return self._replace(events=(event,), action=ASK_FOR_APPROVAL, async_events=frozenset(), timeout=int(wait) + _TIMEOUT_MARGIN)

    def install(self, *, command: str) -> bool:
        """Install our command for every event. Returns whether the file was changed."""
        before = _read_file(self.path)
        settings = _parse_settings(self.path, before)
        wanted = self._find_wanted(settings)
        for event in list(_get_hooks(self, settings)):
            if event not in wanted:
                _remove_hooks(self, settings, event)
        for event in wanted:
            _add_hook(self, settings, event, command)
            if self.action == ASK_FOR_APPROVAL:  # it records the request by itself: `lore hook` would record it again
                _remove_hooks(self._replace(action=RECORD), settings, event)
        if settings == _parse_settings(self.path, before):
            return False
        if not self._has_our_hooks(_parse_settings(self.path, before)):
            _write_backup(self.path, before)
        _write_file(self.path, _encode_settings(settings, like=before))
        return True

    def uninstall(self) -> bool:
        """Remove our hooks. Returns whether there were any. A file that was not changed otherwise is restored byte for byte."""
        before = _read_file(self.path)
        settings = _parse_settings(self.path, before)
        files = [self._replace(action=action) for action in ACTIONS]
        removed = [_remove_hooks(file, settings, event) for file in files for event in list(_get_hooks(self, settings))]
        if not any(removed):
            _remove_backup(self.path)  # somebody removed the hooks by hand
            return False
        original = _read_file(f"{self.path}{BACKUP_SUFFIX}")
        if original is not None and _is_same_settings(settings, original):
            _write_file(self.path, original)
        elif settings or original is not None:
            _write_file(self.path, _encode_settings(settings, like=before))
        else:
            os.unlink(os.path.realpath(self.path))
        _remove_backup(self.path)
        return True

    def find_installed_events(self) -> frozenset[str]:
        """The events at which we are called."""
        settings = _parse_settings(self.path, _read_file(self.path))
        return frozenset(event for event in _get_hooks(self, settings) if any(_find_our_hooks(self, settings, event)))

    def find_missing_events(self) -> list[str]:
        """The events at which we should be called, and are not, or with other options than `install` writes."""
        settings = _parse_settings(self.path, _read_file(self.path))
        return [event for event in self._find_wanted(settings) if not self._is_up_to_date(settings, event)]

    def _is_up_to_date(self, settings: _Settings, event: str) -> bool:
        ours = [hook for _, hook in _find_our_hooks(self, settings, event)]
        is_async = event in self.async_events
        return bool(ours) and all(
            (hook.get("async") is True) == is_async and (self.timeout is None or hook.get("timeout") == self.timeout) for hook in ours
        )

    def _has_our_hooks(self, settings: _Settings) -> bool:
        files = [self._replace(action=action) for action in ACTIONS]
        return any(any(_find_our_hooks(file, settings, event)) for file in files for event in _get_hooks(self, settings))

    def _find_wanted(self, settings: _Settings) -> list[str]:
        """The events that need a hook of this action: the approval hook records by itself."""
        asking = self._replace(action=ASK_FOR_APPROVAL)
        return [event for event in self.events if self.action != RECORD or not any(_find_our_hooks(asking, settings, event))]

    def calls_old_name(self) -> bool:
        """Whether a hook of ours still calls `lore`, as 0.1 installed it."""
        settings = _parse_settings(self.path, _read_file(self.path))
        ours = (hook for event in _get_hooks(self, settings) for _, hook in _find_our_hooks(self, settings, event))
        return any(os.path.basename(shlex.split(hook["command"])[0]) != HOOK_PROGRAM for hook in ours)

    def are_hooks_disabled(self) -> bool:
        """Whether the file disables all hooks."""
        return _parse_settings(self.path, _read_file(self.path)).get("disableAllHooks") is True


def hook_command(executable: str, program: str, action: str = RECORD) -> str:
    """The command line of a hook; `executable` is the path or the name of our command."""
    return f"{shlex.quote(executable)} {action} {program}"


def _get_hooks(file: HookFile, settings: _Settings) -> dict[str, list[Any]]:
    """The `hooks` table, validated as far as we need it."""
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict):
        raise ConfigError(f"{file.path}: hooks: an object is needed; fix the file first, nothing was changed")
    for event, groups in hooks.items():
        if not isinstance(groups, list):
            raise ConfigError(f"{file.path}: hooks.{event}: a list is needed; fix the file first, nothing was changed")
    return hooks


def _find_our_hooks(file: HookFile, settings: _Settings, event: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each of our hooks for an event, with its group."""
    for group in _get_hooks(file, settings).get(event, []):
        for hook in group.get("hooks", []) if isinstance(group, dict) and isinstance(group.get("hooks"), list) else []:
            if isinstance(hook, dict) and is_our_hook(hook.get("command"), file.program, file.action):
                yield group, hook


def is_our_hook(command: object, program: str, action: str = RECORD) -> bool:
    """Whether a hook's command is `fleetlore hook PROGRAM` or, as in 0.1, `lore hook PROGRAM`, of any installation."""
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:  # not ours, and with an unclosed quote
        return False
    return words[1:3] == [action, program] and os.path.basename(words[0]) in COMMAND_NAMES


def _add_hook(file: HookFile, settings: _Settings, event: str, command: str) -> None:
    found = list(_find_our_hooks(file, settings, event))
    options = {"async": True if event in file.async_events else None, "timeout": file.timeout}
    if not found:
        entry = {"type": "command", "command": command} | {key: value for key, value in options.items() if value is not None}
        settings.setdefault("hooks", {}).setdefault(event, []).append({"hooks": [entry]})
        return
    ours = found[0][1]
    ours.pop("async", None)
    ours |= {"command": command} | {key: value for key, value in options.items() if value is not None}
    for group, hook in found[1:]:
        group["hooks"].remove(hook)


def _remove_hooks(file: HookFile, settings: _Settings, event: str) -> bool:
    """Remove our hooks for an event, and what is empty without them."""
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
        raise ConfigError(
            f"{path}: line {error.lineno}, column {error.colno}: {error.msg}; fix the file first, nothing was changed"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not JSON: {error}; fix the file first, nothing was changed") from error
    if not isinstance(settings, dict):
        raise ConfigError(f"{path}: a JSON object is needed; fix the file first, nothing was changed")
    return settings


def _is_same_settings(settings: _Settings, original: bytes) -> bool:
    """Whether settings equal the original, including the order of keys and ignoring empty hook tables."""
    try:
        return json.dumps(_drop_empty_hooks(settings)) == json.dumps(_drop_empty_hooks(_parse_settings("", original)))
    except ConfigError:
        return False


def _drop_empty_hooks(settings: _Settings) -> _Settings:
    hooks = settings.get("hooks", {})
    kept = {event: groups for event, groups in hooks.items() if groups} if isinstance(hooks, dict) else hooks
    return {key: kept if key == "hooks" else value for key, value in settings.items() if key != "hooks" or kept}


def _encode_settings(settings: _Settings, *, like: bytes | None) -> bytes:
    """Encode settings with the indentation of the original file."""
    text = (like or b"").decode("utf-8-sig", errors="replace")
    indent = match[1] if (match := re.search(r'\n([ \t]+)"', text)) else None if text.strip(" \n{}") else 2
    end = "" if text.strip() and not text.endswith("\n") else "\n"
    try:
        return (json.dumps(settings, indent=indent, ensure_ascii=False) + end).encode()
    except UnicodeEncodeError:  # a lone surrogate can only be written as an escape
        return (json.dumps(settings, indent=indent) + end).encode()


def _write_backup(path: str, before: bytes | None) -> None:
    """Keep a copy of the file, which has no hook of ours. An older copy is replaced: it is from before somebody removed them by hand."""
    if before is None:
        _remove_backup(path)
    else:
        _write_file(f"{path}{BACKUP_SUFFIX}", before, mode_of=path)


def _remove_backup(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(f"{path}{BACKUP_SUFFIX}")


def _write_file(path: str, content: bytes, *, mode_of: str | None = None) -> None:
    """Replace a file atomically; symbolic links and permissions are kept."""
    os.makedirs(os.path.dirname(os.path.realpath(path)), mode=0o700, exist_ok=True)
    with write_atomically(path, mode=_file_mode(mode_of or path)) as file:
        file.write(content)


def _file_mode(path: str) -> int:
    try:
        return os.stat(path).st_mode & 0o777
    except FileNotFoundError:
        return 0o600
