"""From the command line and the settings to an open log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleetlore import settings as config
from fleetlore.cli import terminal
from fleetlore.errors import Invalid, LogError
from fleetlore.log.connect import connect, resolve_sqlite_path, split_url

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable
    from typing import TypeAlias

    from fleetlore.events.envelope import Event
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.log.seal import OperatorKey
    from fleetlore.redact import Redactor
    from fleetlore.settings import Settings

    Veil: TypeAlias = Callable[[Event], Event]


def load_settings(*, log: str | None, town: str | None) -> Settings:
    """The settings as seen from the current folder; what they ignore is a warning on standard error."""
    settings = config.load(log=log, town=town)
    for warning in settings.warnings:
        terminal.warn_once(warning)
    return settings


def settings_of(args: Namespace) -> Settings:
    """The settings that hold for this command line; `--redact`, where a command has it, adds to what the files want hidden."""
    settings = load_settings(log=args.log, town=args.town)
    asked: tuple[str, ...] = getattr(args, "redact", ())
    if not asked:
        return settings
    levels = tuple(level for level in config.REDACT_LEVELS if level in (*settings.redact_levels.value, *asked))
    return settings._replace(redact_levels=config.Setting(levels, "--redact"))


def open_log(args: Namespace, *, settings: Settings | None = None, drain: bool = True) -> BlockingRecorder:
    """The log to write to, made if need be; to be used in a `with`. What hooks have left in the spool goes in first."""
    settings = settings or settings_of(args)
    if drain:
        drain_spool()
    return _open(settings)


def open_existing_log(args: Namespace, *, settings: Settings | None = None) -> BlockingRecorder:
    """The log to read from; one that is not there is an error, so that a slip of the pen is noticed."""
    settings = settings or settings_of(args)
    drain_spool()
    path = find_file(settings)
    if path is not None:
        need_file(path)
    return _open(settings)


def drain_spool(*, said: set[str] | None = None) -> None:
    """Take what hooks have left into the logs that it belongs to. A trouble there is one line on standard error, and no more.

    Whoever does it again and again hands over what was said, so that it is said once.
    """
    from fleetlore.ingest import spool

    try:
        if spool.is_spool_empty():
            return
        from fleetlore.ingest.drain import drain_into_logs

        problems = drain_into_logs(_open, on_warning=terminal.warn_once)
    except Exception as error:  # noqa: BLE001  # what hooks brought waits; the command that was asked for does not
        problems = [f"the spool could not be read: {error}"]
    said = set() if said is None else said
    for problem in problems:
        if problem not in said:
            said.add(problem)
            terminal.err(f"lore: {problem}")


def _open(settings: Settings) -> BlockingRecorder:
    return connect(settings.log.value, town=settings.town.value, redactor=redactor_of(settings), veil=veil_of(settings)).blocking()


def redactor_of(settings: Settings) -> Redactor | None:
    """What takes secrets out, with the user's own patterns; `None` for the usual one."""
    if not settings.redact_patterns.value:
        return None
    from fleetlore.redact import Redactor

    return Redactor(settings.redact_patterns.value)


def keep_to(log: BlockingRecorder, settings: Settings, *, key: OperatorKey | None = None) -> None:
    """Let go of what `[retention]` says is too old, on a sealed log with its key; a trouble there is one line on standard error."""
    if settings.keep_days.value is None:
        return
    from fleetlore import clock
    from fleetlore.ingest import retention

    kept = retention.apply_retention(log, settings, clock.now(), key=key)
    if kept.note:
        terminal.err(f"lore: {kept.note}")


def veil_of(settings: Settings) -> Veil | None:
    """What takes prompts, code, paths and names out, as far as they are not wanted; `None` if all of them are."""
    if not settings.redact_levels.value:
        return None
    from fleetlore.ingest.anonymise import make_anonymiser

    return make_anonymiser(settings.redact_levels.value)


def find_file(settings: Settings) -> str | None:
    """The file of a `sqlite:` log, there or not; `None` for any other log."""
    scheme, path, _ = split_url(settings.log.value)
    if scheme != "sqlite":
        return None
    from fleetlore.log.sqlite import file as sqlite_file

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
    return resolve_sqlite_path(split_url(settings.log.value)[1])


def need_file(path: str) -> str:
    """The path, if there is a file."""
    if not os.path.exists(path):
        raise LogError(f"{path}: there is no log yet; `lore setup`, `lore emit`, `lore import` or `lore goal run` makes one")
    return path
