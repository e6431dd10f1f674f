"""Opens the log that command line and settings name, and drains the spool of hooks first."""

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

    Anonymiser: TypeAlias = Callable[[Event], Event]


def load_settings(*, log: str | None, town: str | None) -> Settings:
    """The settings for the current folder; warnings go to standard error."""
    settings = config.load_settings(log=log, town=town)
    for warning in settings.warnings:
        terminal.warn_once(warning)
    return settings


def load_settings_for(args: Namespace) -> Settings:
    """The settings for this command line; `--redact` adds to the levels of the settings files."""
    settings = load_settings(log=args.log, town=args.town)
    requested: tuple[str, ...] = getattr(args, "redact", ())
    if not requested:
        return settings
    levels = tuple(level for level in config.REDACT_LEVELS if level in (*settings.redact_levels.value, *requested))
    return settings._replace(redact_levels=config.Setting(levels, "--redact"))


def open_log(args: Namespace, *, settings: Settings | None = None, drain: bool = True) -> BlockingRecorder:
    """Open the log for writing, created if it does not exist. Drains the spool first."""
    settings = settings or load_settings_for(args)
    if drain:
        drain_spool()
    return connect_log(settings)


def open_existing_log(args: Namespace, *, settings: Settings | None = None) -> BlockingRecorder:
    """Open the log for reading; `LogError` if the file does not exist, so that a typing error is noticed."""
    settings = settings or load_settings_for(args)
    drain_spool()
    path = find_file(settings)
    if path is not None:
        require_log_file(path)
    return connect_log(settings)


def drain_spool(*, said: set[str] | None = None) -> None:
    """Import what hooks left in the spool. Errors are printed and do not stop the command.

    Callers that drain repeatedly pass the same set, so that each error is printed once.
    """
    from fleetlore.ingest import open_transcripts, spool

    try:
        if has_live_sessions():
            from fleetlore.ingest.live_status import spool_changes

            spool_changes()
        open_transcripts.spool_grown_transcripts()
        if spool.is_spool_empty():
            return
        from fleetlore.ingest.drain import drain_into_logs

        problems = drain_into_logs(connect_log, on_warning=terminal.warn_once)
    except Exception as error:  # noqa: BLE001  # the spool can wait, the command cannot
        problems = [f"the spool could not be read: {error}"]
    said = set() if said is None else said
    for problem in problems:
        if problem not in said:
            said.add(problem)
            terminal.print_error(f"lore: {problem}")


def has_live_sessions() -> bool:
    """Whether a coding agent keeps state files of running sessions, or did when it was last looked at; cheap."""
    from fleetlore.ingest import spool
    from fleetlore.programs import registry

    folders = (os.path.join(program.find_home(), name) for program in registry.list_live() for name in program.live_folders)
    return os.path.exists(os.path.join(os.path.dirname(spool.spool_folder()), "live.json")) or any(map(os.path.isdir, folders))


def connect_log(settings: Settings) -> BlockingRecorder:
    """Open the log that settings name, and leave the spool alone."""
    return connect(
        settings.log.value,
        town=settings.town.value,
        redactor=make_redactor(settings),
        anonymise=load_anonymiser(settings),
        keeps_whole_texts=settings.whole_texts.value,
    ).blocking()


def make_redactor(settings: Settings) -> Redactor | None:
    """The redactor with the user's patterns; `None` for the default one."""
    if not settings.redact_patterns.value:
        return None
    from fleetlore.redact import Redactor

    return Redactor(settings.redact_patterns.value)


def apply_retention(log: BlockingRecorder, settings: Settings, *, key: OperatorKey | None = None) -> None:
    """Delete events that are older than `[retention]` allows. Needs the key on a sealed log; problems are printed."""
    if settings.keep_days.value is None:
        return
    from fleetlore import clock
    from fleetlore.ingest import retention

    kept = retention.apply_retention(log, settings, clock.now(), key=key)
    if kept.note:
        terminal.print_error(f"lore: {kept.note}")


def load_anonymiser(settings: Settings) -> Anonymiser | None:
    """The anonymiser for the redact levels (prompts, code, paths, names); `None` if there are none."""
    if not settings.redact_levels.value:
        return None
    from fleetlore.ingest.anonymise import make_anonymiser

    return make_anonymiser(settings.redact_levels.value)


def find_file(settings: Settings) -> str | None:
    """The path of a `sqlite:` log, which may not exist; `None` for other logs."""
    scheme, path, _ = split_url(settings.log.value)
    if scheme != "sqlite":
        return None
    from fleetlore.log.sqlite import file as sqlite_file

    return os.path.expanduser(path) if path else sqlite_file.default_path()


def is_server(url: str) -> bool:
    """Whether a log URL names a server."""
    return url.partition(":")[0] in config.SERVERS


def log_file(args: Namespace) -> str:
    """The path of the log, for commands that need a file; `Invalid` for other logs. Creates the folder of the default log."""
    settings = load_settings_for(args)
    if find_file(settings) is None:
        shown = config.mask_url(settings.log.value)
        copy = "`lore ship --from … --to sqlite:FILE --full --once` copies any log"
        raise Invalid(f"{shown} is no file; this works on sqlite: logs only ({copy})")
    return resolve_sqlite_path(split_url(settings.log.value)[1])


def require_log_file(path: str) -> str:
    """The path, if the file exists; else `LogError`."""
    if not os.path.exists(path):
        raise LogError(f"{path}: there is no log yet; `lore setup`, `lore emit`, `lore import` or `lore goal run` makes one")
    return path
