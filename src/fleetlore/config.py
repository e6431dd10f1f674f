"""Settings: flags, environment, the project's file, the user's file, defaults, in that order. Standard library only."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from fleetlore.config_tables import (
    DEFAULT_LOG,
    FILE_NAME,
    HOOK_SECRETS,
    NOTIFY_KEYS,
    PRICE_KEYS,
    REDACT_LEVELS,
    SERVERS,
    Notice,
    Secret,
    anchored,
    days_in,
    is_project_log,
    read_context,
    read_expressions,
    read_graph,
    read_named_levels,
    read_notices,
    read_price,
    read_retention,
    read_secrets,
    read_ship,
    read_table,
    read_text,
    redact_levels,
    refuse_unknown,
    user_file,
)
from fleetlore.errors import ConfigError

__all__ = [
    "DEFAULT",
    "DEFAULT_LOG",
    "DEFAULT_TOWN",
    "ENVIRONMENT",
    "FILE_NAME",
    "HOOK_SECRETS",
    "NOTIFY_KEYS",
    "PRICE_KEYS",
    "REDACT_LEVELS",
    "SERVERS",
    "Notice",
    "Prices",
    "Secret",
    "Setting",
    "Settings",
    "anchored",
    "days_in",
    "is_project_log",
    "load",
    "masked",
    "project_file",
    "redact_levels",
    "user_file",
]

DEFAULT_TOWN = "default"
DEFAULT = "default"
ENVIRONMENT = "the environment"

Prices: TypeAlias = Mapping[str, Mapping[str, float]]
"""Model → what is said of it."""
_Value = TypeVar("_Value")


class Setting(NamedTuple, Generic[_Value]):
    """A value, and where it comes from: a flag, an environment variable, a file, or `default`."""

    value: _Value
    source: str


class Settings(NamedTuple):
    """Everything that can be set."""

    log: Setting[str]
    """The address of the log."""
    town: Setting[str]
    redact_patterns: Setting[tuple[str, ...]]
    """Regular expressions of further secrets; those of all files together."""
    files: tuple[str, ...]
    """The files that were read, the strongest first."""
    ship_to: Setting[str | None] = Setting(None, DEFAULT)
    """Where the log is to be shipped; `None`: nowhere."""
    ship_full: Setting[bool] = Setting(False, DEFAULT)
    """Whether prompts and code are shipped too."""
    prices: Setting[Prices] = Setting({}, DEFAULT)
    """Models whose prices are set here, each with what it costs; a project's row wins over the user's."""
    redact_levels: Setting[tuple[str, ...]] = Setting((), DEFAULT)
    """What is taken out of events beside secrets; that of all files together."""
    keep_days: Setting[int | None] = Setting(None, DEFAULT)
    """How old events may become before they are trimmed away; `None`: as old as they like."""
    notify: Setting[tuple[Notice, ...]] = Setting((), DEFAULT)
    """The rules by which people are notified; only the user's own file can set them."""
    hooks: Setting[Mapping[str, Secret]] = Setting({}, DEFAULT)
    """The secrets by which forges sign their deliveries, of `HOOK_SECRETS` those that are set; never by a project's file."""
    context: Setting[Mapping[str, Any]] = Setting({}, DEFAULT)
    """How prompts are put together, as far as it is said; of one key, the strongest file's."""
    graph: Setting[Mapping[str, Any]] = Setting({}, DEFAULT)
    """What conversational agents are run with, as far as it is said; never by a project's file."""
    warnings: tuple[str, ...] = ()
    """What a project's file says and is not used, each with the reason and what to do; for people, and safe to show."""


class _Level(NamedTuple):
    """What one place says; the strongest place that says something wins."""

    source: str
    log: str | None = None
    log_source: str = ""
    refused_log: str | None = None
    """The log of a project's file that a project may not choose."""
    town: str | None = None
    town_source: str = ""
    redact_patterns: tuple[str, ...] = ()
    ship_to: str | None = None
    ship_full: bool = False
    ship_source: str = ""
    is_project: bool = False
    prices: Prices = {}  # noqa: RUF012  # never changed
    redact_levels: tuple[str, ...] = ()
    keep_days: int | None = None
    notify: tuple[Notice, ...] = ()
    hooks: Mapping[str, Secret] = {}  # never changed
    context: Mapping[str, Any] = {}  # never changed
    graph: Mapping[str, Any] = {}  # never changed


def load(
    *, log: str | None = None, town: str | None = None, environ: Mapping[str, str] = os.environ, folder: str | None = None
) -> Settings:
    """The settings as seen from a folder (the current one), with what the flags say."""
    if town == "":
        raise ConfigError("--town: a name is needed, as in --town harbour")
    levels = [
        _Level("the command line", log=log, log_source="--log", town=town, town_source="--town"),
        _Level(
            ENVIRONMENT,
            log=_seen_from(folder, environ.get("FLEETLORE_LOG")),
            log_source="FLEETLORE_LOG",
            town=environ.get("FLEETLORE_TOWN") or None,
            town_source="FLEETLORE_TOWN",
            ship_to=environ.get("FLEETLORE_SHIP_TO") or None,
            ship_source="FLEETLORE_SHIP_TO",
            hooks={name: Secret(text) for name in HOOK_SECRETS if (text := environ.get(f"FLEETLORE_{name.upper()}"))},
        ),
    ]
    own = user_file(environ)
    project, foreign = _find_project_file(folder, own)
    files = tuple(path for path in (project, own) if path is not None and os.path.isfile(path))
    levels += [_read(path, is_user=path == own) for path in dict.fromkeys(files)]
    chosen = next((level for level in levels if level.log is not None), None)
    address = Setting(DEFAULT_LOG, DEFAULT) if chosen is None or chosen.log is None else Setting(chosen.log, chosen.log_source)
    shipping = _shipping(levels, chosen, address.value)
    return Settings(
        log=address,
        town=_town(levels, chosen),
        redact_patterns=_patterns(levels),
        files=tuple(dict.fromkeys(files)),
        ship_to=Setting(shipping.ship_to, shipping.ship_source) if shipping else Setting(None, DEFAULT),
        ship_full=Setting(shipping.ship_full, shipping.ship_source) if shipping else Setting(False, DEFAULT),
        redact_levels=_levels(levels),
        keep_days=_keeping(levels, chosen, address.value),
        prices=_prices(levels),
        notify=_rules(levels),
        hooks=_hooks(levels),
        context=_prompts(levels),
        graph=_talking(levels),
        warnings=(*(_foreign_warning(path, own) for path in foreign), *_log_warnings(levels, chosen, address.value, own)),
    )


def _log_warnings(levels: Sequence[_Level], chosen: _Level | None, log: str, own: str) -> Iterator[str]:
    """Why a project's log is not used; nothing where a flag or the environment names the log anyway, or the same log is used."""
    for level in levels:
        if level is chosen:
            return
        if level.refused_log is not None and level.refused_log != log:
            yield (
                f"{level.source}: log = {masked(level.refused_log)!r} is ignored: a project may only name a SQLite file inside its own"
                f" folder. To use it, put it into {own}, or use --log or FLEETLORE_LOG"
            )


def _foreign_warning(path: str, own: str) -> str:
    return f"{path} is ignored: it belongs to another user. If you trust it, take it over with chown, or copy its settings into {own}"


def _shipping(levels: Sequence[_Level], chosen: _Level | None, log: str) -> _Level | None:
    """What says where to. A file speaks for its own log, and for no other; the environment for any but one that a project's file names."""
    return next((level for level in levels if level.ship_to is not None and _speaks_for(level, chosen, log)), None)


def _speaks_for(level: _Level, chosen: _Level | None, log: str) -> bool:
    if level.source == ENVIRONMENT:
        return chosen is None or not chosen.is_project
    return (level.log or DEFAULT_LOG) == log


def _town(levels: Sequence[_Level], chosen: _Level | None) -> Setting[str]:
    """The strongest level's town; an address with `?town=` speaks for the level that it was given at."""
    for level in levels:
        if level.town is not None:
            return Setting(level.town, level.town_source)
        if level is chosen and (town := _town_in(level.log or "")) is not None:
            return Setting(town, f"?town= of {level.log_source}")
    return Setting(DEFAULT_TOWN, DEFAULT)


def _town_in(url: str) -> str | None:
    for part in url.partition("?")[2].split("&"):
        name, _, value = part.partition("=")
        if name == "town" and value:
            if "%" in value:
                from urllib.parse import unquote

                return unquote(value)
            return value
    return None


def _patterns(levels: Sequence[_Level]) -> Setting[tuple[str, ...]]:
    """All of them: a project adds to what its user wants hidden, and never takes from it."""
    speaking = [level for level in levels if level.redact_patterns]
    patterns = tuple(dict.fromkeys(pattern for level in speaking for pattern in level.redact_patterns))
    return Setting(patterns, ", ".join(level.source for level in speaking) or DEFAULT)


def _levels(levels: Sequence[_Level]) -> Setting[tuple[str, ...]]:
    """All of them, for the same reason."""
    speaking = [level for level in levels if level.redact_levels]
    named = {name for level in speaking for name in level.redact_levels}
    return Setting(tuple(name for name in REDACT_LEVELS if name in named), ", ".join(level.source for level in speaking) or DEFAULT)


def _keeping(levels: Sequence[_Level], chosen: _Level | None, log: str) -> Setting[int | None]:
    """How long. As with shipping, a file speaks for its own log, and for no other."""
    for level in levels:
        if level.keep_days is not None and _speaks_for(level, chosen, log):
            return Setting(level.keep_days, level.source)
    return Setting(None, DEFAULT)


def _prices(levels: Sequence[_Level]) -> Setting[Prices]:
    """Those of all files together; of one model, the strongest file's."""
    speaking = [level for level in levels if level.prices]
    prices = {model: said for level in reversed(speaking) for model, said in level.prices.items()}
    return Setting(prices, ", ".join(level.source for level in speaking) or DEFAULT)


def _rules(levels: Sequence[_Level]) -> Setting[tuple[Notice, ...]]:
    """Those of the user's file, the only one that may have any."""
    speaking = next((level for level in levels if level.notify), None)
    return Setting((), DEFAULT) if speaking is None else Setting(speaking.notify, speaking.source)


def _hooks(levels: Sequence[_Level]) -> Setting[Mapping[str, Secret]]:
    """Those of the environment and of the user's file; of one forge, the environment's."""
    speaking = [level for level in levels if level.hooks]
    secrets = {name: secret for level in reversed(speaking) for name, secret in level.hooks.items()}
    return Setting(secrets, ", ".join(level.source for level in speaking) or DEFAULT)


def _prompts(levels: Sequence[_Level]) -> Setting[Mapping[str, Any]]:
    """Those of all files together; of one key, the strongest file's."""
    speaking = [level for level in levels if level.context]
    said = {key: value for level in reversed(speaking) for key, value in level.context.items()}
    return Setting(said, ", ".join(level.source for level in speaking) or DEFAULT)


def _talking(levels: Sequence[_Level]) -> Setting[Mapping[str, Any]]:
    """What the user's file says, the only one that may say something."""
    speaking = next((level for level in levels if level.graph), None)
    return Setting({}, DEFAULT) if speaking is None else Setting(speaking.graph, speaking.source)


def project_file(folder: str | None = None, *, environ: Mapping[str, str] = os.environ) -> str | None:
    """The nearest `fleetlore.toml` at or above a folder that does not belong to another user."""
    return _find_project_file(folder, user_file(environ))[0]


def _find_project_file(folder: str | None, own: str) -> tuple[str | None, list[str]]:
    """The project's file, and the nearer ones that are ignored because they belong to another user."""
    foreign: list[str] = []
    try:
        folder = os.path.abspath(folder or os.getcwd())
    except OSError:  # the current folder was removed
        return None, foreign
    while True:
        path = os.path.join(folder, FILE_NAME)
        if os.path.isfile(path):
            if path == own or _belongs_to_user(path):
                return path, foreign
            foreign.append(path)
        above = os.path.dirname(folder)
        if above == folder:
            return None, foreign
        folder = above


def _belongs_to_user(path: str) -> bool:
    """Whether a file, and the link that leads to it, belong to the current user, as git's `safe.directory` asks of a repository.

    For root under `sudo` that is also the user who called `sudo`.
    """
    users = {os.geteuid()}
    if users == {0} and (caller := os.environ.get("SUDO_UID", "")).isdecimal():
        users.add(int(caller))
    try:
        return {os.lstat(path).st_uid, os.stat(path).st_uid} <= users
    except OSError:  # it was removed just now
        return False


def _read(path: str, *, is_user: bool) -> _Level:
    """What a file says; every key and type is checked."""
    import tomllib

    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); let yourself read it, or move it away") from error
    except (ValueError, RecursionError) as error:  # not only a TOMLDecodeError: of a number with too many digits, too
        raise ConfigError(f"{path}: not TOML: {error}; mend it, or move it away") from error
    refuse_unknown(path, content, ("log", "town", "redact", "ship", "retention", "prices", "notify", "hooks", "context", "graph"))
    redact = read_table(path, content, "redact")
    refuse_unknown(path, redact, ("patterns", "level"), under="redact.")
    log = read_text(path, content, "log")
    log = None if log is None else anchored(log, os.path.dirname(path))
    to, full = read_ship(path, content, None if is_user else log or DEFAULT_LOG)
    is_refused = log is not None and not is_user and not is_project_log(log, os.path.dirname(path))
    return _Level(
        source=path,
        log=None if is_refused else log,
        log_source=path,
        refused_log=log if is_refused else None,
        town=read_text(path, content, "town"),
        town_source=path,
        redact_patterns=read_expressions(path, redact),
        ship_to=to,
        ship_full=full,
        ship_source=path,
        is_project=not is_user,
        redact_levels=read_named_levels(path, redact),
        keep_days=read_retention(path, content, None if is_user else log or DEFAULT_LOG),
        prices={model: read_price(path, model, said) for model, said in read_table(path, content, "prices").items()},
        notify=read_notices(path, content, is_user=is_user),
        hooks=read_secrets(path, content, is_user=is_user),
        context=read_context(path, content),
        graph=read_graph(path, content, is_user=is_user),
    )


def _seen_from(folder: str | None, url: str | None) -> str | None:
    """What the environment says, which is relative to the folder that it is said in."""
    return anchored(url, folder) if url and folder is not None else url or None


def masked(url: str) -> str:
    """An address that may be shown: no user names, passwords or tokens."""
    import re

    from fleetlore.redact import Redactor

    # Up to the last @: a password that should have been escaped may hold anything.
    shown, _ = Redactor().clean(re.sub(r"^((?!sqlite:)\w+:(?://)?)[^?]*@", r"\1[redacted]@", url))
    return shown
