"""Settings: flags, environment, the project's file, the user's file, defaults, in that order. Standard library only."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from fleetlore.errors import ConfigError

# --- What the tables of a settings file may say: every key and type is checked, and what a project's file may not say is refused.

FILE_NAME = "fleetlore.toml"
DEFAULT_LOG = "sqlite:"

SERVERS = ("redis", "rediss", "unix", "nats", "tls")
"""The schemes of addresses that mean a server."""

REDACT_LEVELS = ("prompts", "code", "paths", "names")
"""What can be taken out of events beside secrets, which always are."""

_DAYS_BY_UNIT = {"d": 1, "w": 7, "y": 365}

PRICE_KEYS = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
"""What can be said of a model, in US dollars for a million tokens."""

MAX_PRICE_USD = 100_000

_NOTIFY_TEXT_KEYS = ("name", "when", "kind", "arc", "scope", "log", "max_age", "webhook", "format", "secret", "token")

NOTIFY_KEYS = (*_NOTIFY_TEXT_KEYS, "every", "full", "command")
"""What can be said of a rule; `server/notify_rules.py` tells what it means."""

CONTEXT_NAMES = {"tokenizer": "estimate", "nearness": "words"}
CONTEXT_NUMBERS = {"budget": 1_000_000_000, "relevance": 1000, "recency": 1000, "importance": 1000, "decay": 1000}
"""What `[context]` can say by a name and by a number, and how high that may go; `context/` and `state/` tell what it means."""

GRAPH_TEXTS = {"default": "seven", "folder": "~/graphs", "proxy_header": "X-Remote-User"}
GRAPH_TABLES = {"minds": 'strong = "openai:MODEL"', "databases": 'shop = "sqlite:shop.db"'}
"""What `[graph]` can say by a text and by a table of texts; `graph/settings.py` tells what it means."""

HOOK_SECRETS = ("github_secret", "gitea_secret", "forgejo_secret")
"""What `[hooks]` can say, and the environment as FLEETLORE_GITHUB_SECRET and so on."""


class Secret:
    """A text that shows itself to nobody who does not ask for it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return "Secret(…)"

    def reveal(self) -> str:
        """The text."""
        return self._text


class Notice(NamedTuple):
    """What one `[[notify]]` says, its types checked. It may hold secrets, and does not show them."""

    source: str
    said: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"Notice({self.source!r}, {self.said.get('name')!r})"


def read_ship(path: str, content: Mapping[str, Any], project_log: str | None) -> tuple[str | None, bool]:
    """What `[ship]` says. A project's file comes with a repository that others wrote: it may ship the project's own log, never more."""
    ship = read_table(path, content, "ship")
    reject_unknown_keys(path, ship, ("to", "full"), under="ship.")
    to, full = ship.get("to"), ship.get("full", False)
    if not isinstance(full, bool):
        raise ConfigError(f"{path}: ship.full: true or false is needed")
    if to is None:
        if ship:
            raise ConfigError(f'{path}: ship.to: it is not said where to, as in to = "nats://team:4222"')
        return None, False
    if not isinstance(to, str) or ":" not in to:
        raise ConfigError(f'{path}: ship.to: the address of a log is needed, as in to = "nats://team:4222"')
    if project_log is not None:
        _check_project_ship(path, project_log, to, full)
    return resolve_relative_url(to, os.path.dirname(path)), full


def _check_project_ship(path: str, log: str, to: str, full: bool) -> None:
    if full:
        raise ConfigError(f"{path}: ship.full: a project cannot ask for prompts and code; say `lore ship --full` yourself")
    folder = os.path.dirname(path)
    if not _is_file_inside(log, folder):
        raise ConfigError(f'{path}: [ship] in a project\'s file is for a log inside the project, as log = "sqlite:fleet.db" beside it is')
    if to.partition(":")[0] not in SERVERS and not _is_file_inside(resolve_relative_url(to, folder), folder):
        raise ConfigError(
            f"{path}: ship.to: a project's log goes to a server, or to a file inside the project; say `lore ship --to` yourself"
        )


def is_project_log(url: str, folder: str) -> bool:
    """Whether the `log` of a project's file is used: a SQLite file inside the project, or `sqlite:`, the user's own log."""
    scheme, _, rest = url.partition(":")
    is_own_log = scheme == "sqlite" and rest.partition("?")[0] in ("", "//")
    return is_own_log or _is_file_inside(url, folder)


def _is_file_inside(url: str, folder: str) -> bool:
    """Whether an address means a file in a folder, after `..` and symbolic links are resolved. It is read as `log/connect.py` does."""
    from urllib.parse import unquote

    scheme, _, rest = url.partition(":")
    file = os.path.expanduser(unquote(rest.partition("?")[0].removeprefix("//")))
    if scheme != "sqlite" or not file:
        return False
    inside = os.path.join(os.path.realpath(folder), "")
    try:
        real = os.path.realpath(file)
        # SQLite writes to these files beside the database, and follows links there, too.
        return all(os.path.realpath(real + suffix).startswith(inside) for suffix in ("", "-wal", "-shm", "-journal"))
    except ValueError:  # a path that no system has, such as one with a null byte
        return False


def read_redact_levels(path: str, table: Mapping[str, Any]) -> tuple[str, ...]:
    """What `redact.level` says: a word, or several."""
    named = table.get("level", [])
    words = [named] if isinstance(named, str) else named
    try:
        if isinstance(words, list) and all(isinstance(word, str) for word in words):
            return redact_levels(words)
        raise ValueError("a word or a list of words is needed")
    except ValueError as error:
        raise ConfigError(f'{path}: redact.level: {error}, as in level = ["prompts", "paths"]') from error


def redact_levels(words: Sequence[str]) -> tuple[str, ...]:
    """The levels that some words name, in their order: `secrets` adds nothing, `all` means every one. `ValueError` for any other."""
    for word in words:
        if word not in (*REDACT_LEVELS, "secrets", "all"):
            raise ValueError(f"no such level: {word!r}; known are secrets, {', '.join(REDACT_LEVELS)} and all")
    return tuple(name for name in REDACT_LEVELS if name in words or "all" in words)


def read_retention(path: str, content: Mapping[str, Any], project_log: str | None) -> int | None:
    """What `[retention]` says. A project's file may have the project's own log forget, never another."""
    table = read_table(path, content, "retention")
    reject_unknown_keys(path, table, ("keep",), under="retention.")
    if not table:
        return None
    keep = table["keep"]
    days = days_in(keep) if isinstance(keep, str) else None
    if days is None:
        raise ConfigError(f'{path}: retention.keep: an age of at least a day is needed, as in keep = "90d", "12w" or "1y"')
    if project_log is not None and not _is_file_inside(project_log, os.path.dirname(path)):
        raise ConfigError(
            f'{path}: [retention] in a project\'s file is for a log inside the project, as log = "sqlite:fleet.db" beside it is'
        )
    return days


def days_in(text: str) -> int | None:
    """The days in `90d`, `12w` or `1y`; `None` for anything else, and for none at all."""
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdigit() and len(number) <= 5 and unit in _DAYS_BY_UNIT):
        return None
    return int(number) * _DAYS_BY_UNIT[unit] or None


def read_price(path: str, model: str, said: Any) -> Mapping[str, float]:
    """What `[prices."model"]` says."""
    where = f'prices."{model}"'
    if not isinstance(said, dict):
        raise ConfigError(f"{path}: {where}: a table is needed, as in [{where}] with input = 5.0 and output = 25.0")
    reject_unknown_keys(path, said, PRICE_KEYS, under=f"{where}.")
    for key in ("input", "output"):
        if key not in said:
            raise ConfigError(f"{path}: {where}.{key}: is missing; say what a million tokens cost, as in {key} = 5.0")
    for key, value in said.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MAX_PRICE_USD:
            raise ConfigError(f"{path}: {where}.{key}: US dollars for a million tokens are needed, from 0 to {MAX_PRICE_USD:,}")
    return {key: float(value) for key, value in said.items()}


def read_hook_secrets(path: str, content: Mapping[str, Any], *, is_user: bool) -> Mapping[str, Secret]:
    """What `[hooks]` says. Whoever knows a secret can write to the log: a project's file, which others wrote, may not set one."""
    table = read_table(path, content, "hooks")
    reject_unknown_keys(path, table, HOOK_SECRETS, under="hooks.")
    if table and not is_user:
        raise ConfigError(f"{path}: [hooks]: secrets do not belong into a project's file; write them into {user_file()}")
    for name, value in table.items():
        if not isinstance(value, str) or not value:  # and is not told: it may be a secret
            raise ConfigError(f"{path}: hooks.{name}: a string is needed, the one that the forge was given as its secret")
    return {name: Secret(value) for name, value in table.items()}


def read_context(path: str, content: Mapping[str, Any]) -> Mapping[str, Any]:
    """What `[context]` says; which tokenizers and nearnesses there are is known to `prompts/tokens.py` and `prompts/embeddings.py`."""
    table = read_table(path, content, "context")
    reject_unknown_keys(path, table, (*CONTEXT_NAMES, *CONTEXT_NUMBERS), under="context.")
    for key, value in table.items():
        if key in CONTEXT_NAMES:
            if not isinstance(value, str) or not value:
                raise ConfigError(f'{path}: context.{key}: a name is needed, as in {key} = "{CONTEXT_NAMES[key]}"')
            continue
        kinds = int if key == "budget" else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not 0 <= value <= CONTEXT_NUMBERS[key]:
            need = "a number of tokens" if key == "budget" else "a number"
            raise ConfigError(f"{path}: context.{key}: {need} is needed, from 0 to {CONTEXT_NUMBERS[key]:,}")
    return dict(table)


def read_graph(path: str, content: Mapping[str, Any], *, is_user: bool) -> Mapping[str, Any]:
    """What `[graph]` says. It names whom agents call and what they read: a project's file, which others wrote, may not."""
    table = read_table(path, content, "graph")
    reject_unknown_keys(path, table, (*GRAPH_TEXTS, *GRAPH_TABLES), under="graph.")
    if table and not is_user:
        raise ConfigError(f"{path}: [graph]: a project cannot say whom agents call and what they read; write it into {user_file()}")
    for key, value in table.items():
        if key in GRAPH_TEXTS and (not isinstance(value, str) or not value):
            raise ConfigError(f'{path}: graph.{key}: a string is needed, as in {key} = "{GRAPH_TEXTS[key]}"')
        if key in GRAPH_TABLES and not (isinstance(value, dict) and all(isinstance(each, str) and each for each in value.values())):
            raise ConfigError(f"{path}: graph.{key}: names with their addresses are needed, as in {GRAPH_TABLES[key]} under [graph.{key}]")
    return _resolve_graph_paths(table, os.path.dirname(path))


def _resolve_graph_paths(table: Mapping[str, Any], folder: str) -> Mapping[str, Any]:
    said = dict(table)
    if "folder" in said:
        said["folder"] = os.path.join(folder, os.path.expanduser(said["folder"]))
    if "databases" in said:
        said["databases"] = {name: resolve_relative_url(address, folder) for name, address in said["databases"].items()}
    return said


def read_notify_rules(path: str, content: Mapping[str, Any], *, is_user: bool) -> tuple[Notice, ...]:
    """What each `[[notify]]` says. A project's file comes with a repository that others wrote: it may neither run nor call anything."""
    tables = content.get("notify", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{path}: notify: tables are needed, each under a [[notify]] of its own")
    if tables and not is_user:
        raise ConfigError(f"{path}: [[notify]]: a project cannot have commands run or addresses called; write its rules into {user_file()}")
    for number, table in enumerate(tables, 1):
        where = f"notify {number}"
        reject_unknown_keys(path, table, NOTIFY_KEYS, under="notify.")
        for key, value in table.items():
            if (need := _find_type_error(key, value)) is not None:
                raise ConfigError(f"{path}: {where}: {key}: {need}")
    return tuple(Notice(path, _resolve_notify_log(table, path)) for table in tables)


def _find_type_error(key: str, value: Any) -> str | None:
    """What is needed instead of a value; the value itself may be a secret, and is not told."""
    if key == "every":
        return None if isinstance(value, int) and not isinstance(value, bool) else "a number is needed, as in every = 10"
    if key == "full":
        return None if isinstance(value, bool) else "true or false is needed"
    if key == "command":
        is_list = isinstance(value, list) and bool(value) and all(isinstance(word, str) for word in value)
        return None if is_list else 'a list of words is needed, as in command = ["notify-send", "{text}"]'
    return None if isinstance(value, str) and value else "a string is needed"


def _resolve_notify_log(table: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    return table if "log" not in table else {**table, "log": resolve_relative_url(table["log"], os.path.dirname(path))}


def reject_unknown_keys(path: str, table: Mapping[str, Any], known: Sequence[str], *, under: str = "") -> None:
    """Nothing is said that means nothing."""
    for key in table:
        if key not in known:
            raise ConfigError(f"{path}: no such setting: {under}{key}; known are {', '.join(under + name for name in known)}")


def read_text(path: str, table: Mapping[str, Any], key: str) -> str | None:
    """A text, if it is said."""
    value = table.get(key)
    if value is None or (isinstance(value, str) and value):
        return value
    raise ConfigError(f'{path}: {key}: a string is needed, as in {key} = "{"sqlite:fleet.db" if key == "log" else "harbour"}"')


def read_table(path: str, content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A table; an empty one if it is not there."""
    value = content.get(key, {})
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: {key}: a table is needed, as in [{key}]")
    return value


def read_redact_patterns(path: str, table: Mapping[str, Any]) -> tuple[str, ...]:
    """What `redact.patterns` says."""
    patterns = table.get("patterns", [])
    if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
        raise ConfigError(f"{path}: redact.patterns: a list of strings is needed, as in patterns = ['EMP-[0-9]{{6}}']")
    if patterns:
        from fleetlore.user_patterns import patterns_of

        if (problem := patterns_of(tuple(patterns)).find_problem()) is not None:
            raise ConfigError(f"{path}: redact.patterns: {problem[0]!r} {problem[1]}")
    return tuple(patterns)


def resolve_relative_url(url: str, folder: str) -> str:
    """The address with a relative path of `sqlite:` made absolute: a file's paths are relative to the file."""
    scheme, _, rest = url.partition(":")
    path, mark, options = rest.partition("?")
    path = path.removeprefix("//")
    if scheme != "sqlite" or not path or path.startswith(("/", "~")):
        return url
    # The folder's own name may hold what means something in an address.
    safe = folder.replace("%", "%25").replace("?", "%3F")
    return f"sqlite:{os.path.join(safe, path)}{mark}{options}"


def user_file(environ: Mapping[str, str] = os.environ) -> str:
    """Where the user's own settings are, or would be."""
    home = environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "fleetlore", FILE_NAME)


# ---

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
    "days_in",
    "is_project_log",
    "load",
    "masked",
    "project_file",
    "redact_levels",
    "resolve_relative_url",
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


class _SettingsLayer(NamedTuple):
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
        _SettingsLayer("the command line", log=log, log_source="--log", town=town, town_source="--town"),
        _SettingsLayer(
            ENVIRONMENT,
            log=_resolve_environment_url(folder, environ.get("FLEETLORE_LOG")),
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
    levels += [_read_settings_file(path, is_user=path == own) for path in dict.fromkeys(files)]
    chosen = next((level for level in levels if level.log is not None), None)
    address = Setting(DEFAULT_LOG, DEFAULT) if chosen is None or chosen.log is None else Setting(chosen.log, chosen.log_source)
    shipping = _find_shipping_layer(levels, chosen, address.value)
    return Settings(
        log=address,
        town=_find_town(levels, chosen),
        redact_patterns=_merge_redact_patterns(levels),
        files=tuple(dict.fromkeys(files)),
        ship_to=Setting(shipping.ship_to, shipping.ship_source) if shipping else Setting(None, DEFAULT),
        ship_full=Setting(shipping.ship_full, shipping.ship_source) if shipping else Setting(False, DEFAULT),
        redact_levels=_merge_redact_levels(levels),
        keep_days=_find_retention(levels, chosen, address.value),
        prices=_merge_prices(levels),
        notify=_find_notify_rules(levels),
        hooks=_merge_hook_secrets(levels),
        context=_merge_context(levels),
        graph=_find_graph_settings(levels),
        warnings=(*(_foreign_warning(path, own) for path in foreign), *_log_warnings(levels, chosen, address.value, own)),
    )


def _log_warnings(levels: Sequence[_SettingsLayer], chosen: _SettingsLayer | None, log: str, own: str) -> Iterator[str]:
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


def _find_shipping_layer(levels: Sequence[_SettingsLayer], chosen: _SettingsLayer | None, log: str) -> _SettingsLayer | None:
    """What says where to. A file speaks for its own log, and for no other; the environment for any but one that a project's file names."""
    return next((level for level in levels if level.ship_to is not None and _applies_to_log(level, chosen, log)), None)


def _applies_to_log(level: _SettingsLayer, chosen: _SettingsLayer | None, log: str) -> bool:
    if level.source == ENVIRONMENT:
        return chosen is None or not chosen.is_project
    return (level.log or DEFAULT_LOG) == log


def _find_town(levels: Sequence[_SettingsLayer], chosen: _SettingsLayer | None) -> Setting[str]:
    """The strongest level's town; an address with `?town=` speaks for the level that it was given at."""
    for level in levels:
        if level.town is not None:
            return Setting(level.town, level.town_source)
        if level is chosen and (town := _parse_town_option(level.log or "")) is not None:
            return Setting(town, f"?town= of {level.log_source}")
    return Setting(DEFAULT_TOWN, DEFAULT)


def _parse_town_option(url: str) -> str | None:
    for part in url.partition("?")[2].split("&"):
        name, _, value = part.partition("=")
        if name == "town" and value:
            if "%" in value:
                from urllib.parse import unquote

                return unquote(value)
            return value
    return None


def _merge_redact_patterns(levels: Sequence[_SettingsLayer]) -> Setting[tuple[str, ...]]:
    """All of them: a project adds to what its user wants hidden, and never takes from it."""
    speaking = [level for level in levels if level.redact_patterns]
    patterns = tuple(dict.fromkeys(pattern for level in speaking for pattern in level.redact_patterns))
    return Setting(patterns, ", ".join(level.source for level in speaking) or DEFAULT)


def _merge_redact_levels(levels: Sequence[_SettingsLayer]) -> Setting[tuple[str, ...]]:
    """All of them, for the same reason."""
    speaking = [level for level in levels if level.redact_levels]
    named = {name for level in speaking for name in level.redact_levels}
    return Setting(tuple(name for name in REDACT_LEVELS if name in named), ", ".join(level.source for level in speaking) or DEFAULT)


def _find_retention(levels: Sequence[_SettingsLayer], chosen: _SettingsLayer | None, log: str) -> Setting[int | None]:
    """How long. As with shipping, a file speaks for its own log, and for no other."""
    for level in levels:
        if level.keep_days is not None and _applies_to_log(level, chosen, log):
            return Setting(level.keep_days, level.source)
    return Setting(None, DEFAULT)


def _merge_prices(levels: Sequence[_SettingsLayer]) -> Setting[Prices]:
    """Those of all files together; of one model, the strongest file's."""
    speaking = [level for level in levels if level.prices]
    prices = {model: said for level in reversed(speaking) for model, said in level.prices.items()}
    return Setting(prices, ", ".join(level.source for level in speaking) or DEFAULT)


def _find_notify_rules(levels: Sequence[_SettingsLayer]) -> Setting[tuple[Notice, ...]]:
    """Those of the user's file, the only one that may have any."""
    speaking = next((level for level in levels if level.notify), None)
    return Setting((), DEFAULT) if speaking is None else Setting(speaking.notify, speaking.source)


def _merge_hook_secrets(levels: Sequence[_SettingsLayer]) -> Setting[Mapping[str, Secret]]:
    """Those of the environment and of the user's file; of one forge, the environment's."""
    speaking = [level for level in levels if level.hooks]
    secrets = {name: secret for level in reversed(speaking) for name, secret in level.hooks.items()}
    return Setting(secrets, ", ".join(level.source for level in speaking) or DEFAULT)


def _merge_context(levels: Sequence[_SettingsLayer]) -> Setting[Mapping[str, Any]]:
    """Those of all files together; of one key, the strongest file's."""
    speaking = [level for level in levels if level.context]
    said = {key: value for level in reversed(speaking) for key, value in level.context.items()}
    return Setting(said, ", ".join(level.source for level in speaking) or DEFAULT)


def _find_graph_settings(levels: Sequence[_SettingsLayer]) -> Setting[Mapping[str, Any]]:
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


def _read_settings_file(path: str, *, is_user: bool) -> _SettingsLayer:
    """What a file says; every key and type is checked."""
    import tomllib

    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); let yourself read it, or move it away") from error
    except (ValueError, RecursionError) as error:  # not only a TOMLDecodeError: of a number with too many digits, too
        raise ConfigError(f"{path}: not TOML: {error}; mend it, or move it away") from error
    reject_unknown_keys(path, content, ("log", "town", "redact", "ship", "retention", "prices", "notify", "hooks", "context", "graph"))
    redact = read_table(path, content, "redact")
    reject_unknown_keys(path, redact, ("patterns", "level"), under="redact.")
    log = read_text(path, content, "log")
    log = None if log is None else resolve_relative_url(log, os.path.dirname(path))
    to, full = read_ship(path, content, None if is_user else log or DEFAULT_LOG)
    is_refused = log is not None and not is_user and not is_project_log(log, os.path.dirname(path))
    return _SettingsLayer(
        source=path,
        log=None if is_refused else log,
        log_source=path,
        refused_log=log if is_refused else None,
        town=read_text(path, content, "town"),
        town_source=path,
        redact_patterns=read_redact_patterns(path, redact),
        ship_to=to,
        ship_full=full,
        ship_source=path,
        is_project=not is_user,
        redact_levels=read_redact_levels(path, redact),
        keep_days=read_retention(path, content, None if is_user else log or DEFAULT_LOG),
        prices={model: read_price(path, model, said) for model, said in read_table(path, content, "prices").items()},
        notify=read_notify_rules(path, content, is_user=is_user),
        hooks=read_hook_secrets(path, content, is_user=is_user),
        context=read_context(path, content),
        graph=read_graph(path, content, is_user=is_user),
    )


def _resolve_environment_url(folder: str | None, url: str | None) -> str | None:
    """What the environment says, which is relative to the folder that it is said in."""
    return resolve_relative_url(url, folder) if url and folder is not None else url or None


def masked(url: str) -> str:
    """An address that may be shown: no user names, passwords or tokens."""
    import re

    from fleetlore.redact import Redactor

    # Up to the last @: a password that should have been escaped may hold anything.
    shown, _ = Redactor().redact_value(re.sub(r"^((?!sqlite:)\w+:(?://)?)[^?]*@", r"\1[redacted]@", url))
    return shown
