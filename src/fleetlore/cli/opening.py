"""From the command line and the settings to an open log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleetlore import config
from fleetlore.errors import Invalid, LogError
from fleetlore.log.connect import connect, file_of, split

if TYPE_CHECKING:
    from argparse import Namespace

    from fleetlore.config import Settings
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.redact import Redactor


def settings_of(args: Namespace) -> Settings:
    """The settings that hold for this command line."""
    return config.load(log=args.log, town=args.town)


def open_log(args: Namespace, *, settings: Settings | None = None) -> BlockingRecorder:
    """The log to write to, made if need be; to be used in a `with`."""
    settings = settings or settings_of(args)
    return connect(settings.log.value, town=settings.town.value, redactor=redactor_of(settings)).blocking()


def open_existing_log(args: Namespace, *, settings: Settings | None = None) -> BlockingRecorder:
    """The log to read from; one that is not there is an error, so that a slip of the pen is noticed."""
    settings = settings or settings_of(args)
    path = find_file(settings)
    if path is not None:
        need_file(path)
    return open_log(args, settings=settings)


def redactor_of(settings: Settings) -> Redactor | None:
    """What takes secrets out, with the user's own patterns; `None` for the usual one."""
    if not settings.redact_patterns.value:
        return None
    from fleetlore.redact import Redactor

    return Redactor(settings.redact_patterns.value)


def find_file(settings: Settings) -> str | None:
    """The file of a `sqlite:` log, there or not; `None` for any other log."""
    scheme, path, _ = split(settings.log.value)
    if scheme != "sqlite":
        return None
    from fleetlore.log import sqlite_file

    return os.path.expanduser(path) if path else sqlite_file.default_path()


def is_server(url: str) -> bool:
    """Whether an address means a server."""
    return url.partition(":")[0] in config.SERVERS


def log_file(args: Namespace) -> str:
    """The file of the log, for commands that only make sense for one; the folder of the user's own log is made."""
    settings = settings_of(args)
    if find_file(settings) is None:
        shown = config.masked(settings.log.value)
        copy = "`lore ship --from … --to sqlite:FILE --full --once` copies any log"
        raise Invalid(f"{shown} is no file; this works on sqlite: logs only ({copy})")
    return file_of(split(settings.log.value)[1])


def need_file(path: str) -> str:
    """The path, if there is a file."""
    if not os.path.exists(path):
        raise LogError(f"{path}: there is no log yet; `lore emit`, `lore import` or `lore demo` makes one")
    return path
