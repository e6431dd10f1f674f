"""`lore town init`: write town and log into the fleetlore.toml of this folder."""

from __future__ import annotations

import os
import tomllib
from typing import TYPE_CHECKING

import msgspec

from fleetlore import settings as config
from fleetlore.cli import open_log, terminal
from fleetlore.cli.trust import approve_file
from fleetlore.errors import ConfigError, Invalid
from fleetlore.events.envelope import is_name
from fleetlore.operations.context import check_complete_log

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

_NEXT = (
    ("lore town spawn ada bob", "add two agents"),
    ("lore worker --concurrency 2", "run them, in another terminal or on another machine"),
    ("lore town backlog add 'Fix the failing test'", "add a task"),
    ("lore town status --watch", "watch them"),
)


def init_town(args: Namespace) -> int:
    """Write missing settings, create the log, and print next steps. On an error the file is restored."""
    path = os.path.join(os.getcwd(), config.FILE_NAME)
    text, existing = _read_file(path)
    if text is not None and not config.is_trusted(path, text.encode()):
        raise Invalid(f"{path}: you have not approved this file; read it, approve it with `lore trust`, and run this again")
    wanted = {"town": _choose_name(args, existing)} | _choose_log(args, path)
    missing = {key: value for key, value in wanted.items() if _is_missing(path, existing, key, value)}
    args.town = None  # from here on the file sets them
    args.log = None
    if missing:
        written = "".join(f"{key} = {_quote_toml(value)}\n" for key, value in missing.items()) + (text or "")
        _write_file(path, written)
        approve_file(path, written.encode())
    settings = _create_log(args, path, text)
    if args.json:
        shown = {"town": settings.town.value, "log": config.mask_url(settings.log.value), "file": path, "written": sorted(missing)}
        terminal.print_value(shown)
        return 0
    _print_summary(settings, path, missing)
    return 0


def _choose_name(args: Namespace, existing: Mapping[str, object]) -> str:
    if args.name is not None and args.town is not None and args.name != args.town:
        raise Invalid(f"two names were given, {args.name!r} and --town {args.town!r}; give one")
    name = args.name or args.town or existing.get("town") or os.path.basename(os.getcwd()) or config.DEFAULT_TOWN
    if not isinstance(name, str) or not is_name(name):
        raise Invalid(f"not a valid town name: {name!r}; use 1 to 200 bytes without control characters")
    return name


def _choose_log(args: Namespace, path: str) -> dict[str, str]:
    """The log URL to write: from `--log`, or the default log if nothing else is configured."""
    if args.log is None:
        return {"log": config.DEFAULT_LOG} if config.load_settings().log.source == config.DEFAULT else {}
    address: str = args.log
    if config.mask_url(address) != address:
        raise Invalid(f"the log URL contains a password, which must not be stored in {path}; omit --log and set FLEETLORE_LOG")
    if address.startswith("memory:"):
        raise Invalid("a town needs a stored log, not memory:; use a file (sqlite:town.db) or a server")
    folder = os.path.dirname(path)
    if not config.is_project_log(config.resolve_relative_url(address, folder), folder):
        raise Invalid(
            f"{address}: {path} may only name a SQLite file inside its own folder. Omit --log and put the URL into"
            f" {config.user_file()}, or set FLEETLORE_LOG"
        )
    return {"log": address}


def _read_file(path: str) -> tuple[str | None, Mapping[str, object]]:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        return text, tomllib.loads(text)
    except FileNotFoundError:
        return None, {}
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}; fix the file first") from error


def _is_missing(path: str, existing: Mapping[str, object], key: str, value: str) -> bool:
    if key not in existing:
        return True
    if existing[key] != value and not (key == "log" and value == config.DEFAULT_LOG):
        raise Invalid(f"{path} already has {key} = {existing[key]!r}; to use {value!r}, change it there")
    return False


def _quote_toml(text: str) -> str:
    """A TOML string; TOML accepts JSON's escapes."""
    return msgspec.json.encode(text).decode()


def _write_file(path: str, text: str) -> None:
    """Write the file atomically, with the permissions of the old one."""
    target = os.path.realpath(path)
    part = f"{target}.{os.getpid()}.part"
    mode = os.stat(target).st_mode & 0o777 if os.path.exists(target) else 0o644
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    finally:
        if os.path.exists(part):
            os.unlink(part)


def _create_log(args: Namespace, path: str, before: str | None) -> config.Settings:
    """Create the log and return the settings; on an error restore the file."""
    try:
        settings = open_log.load_settings_for(args)
        with open_log.open_log(args, settings=settings) as log:
            check_complete_log(log, settings, "a town needs")
    except BaseException:
        if before is None:
            os.unlink(path)
        else:
            _write_file(path, before)
            approve_file(path, before.encode())
        raise
    return settings


def _print_summary(settings: config.Settings, path: str, missing: Mapping[str, str]) -> None:
    shown = terminal.sanitise_text(f"The town {settings.town.value}, on {config.mask_url(settings.log.value)}")
    wrote = f"written to {path}" if missing else f"{path} already had these settings"
    terminal.print_line(f"{shown}; {terminal.sanitise_text(wrote)}.")
    for what, setting in (("town", settings.town), ("log", settings.log)):
        if setting.source not in (path, config.DEFAULT):
            terminal.print_error(f"the {what} comes from {setting.source}, which overrides that file")
    terminal.print_line("\nNext:")
    for command, what in _NEXT:
        terminal.print_line(f"  {command}\n      {what}")
