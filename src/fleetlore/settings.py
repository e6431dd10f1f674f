"""Settings: one struct, `Settings`, in which each field says its key, default, merge rule, who may set it, and its help.

`load_settings` reads them from flags, the environment, the project's file and the user's file, the strongest first. `lore config` and
the table in docs/reference/settings.md are made from the struct. To add a setting, add a field and its reader. Standard library only,
because `lore hook` loads this module.
"""

# No `from __future__ import annotations`: `SPECS` is taken from the annotations of `Settings`.

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Generic, NamedTuple, TypeAlias, TypeVar

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
    "SINK_TARGETS",
    "SPECS",
    "Prices",
    "Secret",
    "Setting",
    "SettingSpec",
    "Settings",
    "SettingsTable",
    "days_in",
    "is_project_log",
    "load_settings",
    "mask_url",
    "project_file",
    "redact_levels",
    "resolve_relative_url",
    "user_file",
]

FILE_NAME = "fleetlore.toml"
DEFAULT_LOG = "sqlite:"
DEFAULT_TOWN = "default"
DEFAULT = "default"
COMMAND_LINE = "the command line"
ENVIRONMENT = "the environment"

SERVERS = ("redis", "rediss", "unix", "nats", "tls")
"""The schemes of addresses that mean a server."""

REDACT_LEVELS = ("prompts", "code", "paths", "names")
"""What can be taken out of events beside secrets, which always are."""

PRICE_KEYS = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
"""The prices of a model, in US dollars for a million tokens."""

MAX_PRICE_USD = 100_000

_NOTIFY_TEXT_KEYS = (
    "name",
    "when",
    "kind",
    "arc",
    "scope",
    "log",
    "max_age",
    "approve_token",
    "approve_url",
    "webhook",
    "format",
    "secret",
    "token",
    "brief",
    "zone",
    "brief_format",
)

NOTIFY_KEYS = (*_NOTIFY_TEXT_KEYS, "every", "full", "command", "desktop")
"""The keys of a notification rule; `server/notifications/rules.py` has their meaning."""

SINK_TARGETS = {
    "nats": "nats://127.0.0.1:4222",
    "webhook": "https://example.org/driver",
    "jsonl": "driver.jsonl",
    "otlp": "http://127.0.0.1:4318",
}
SINK_KEYS = ("name", *SINK_TARGETS, "prefix", "secret")
"""The keys of a sink; the targets with an example each. `operations/sinks.py` has their meaning."""

CONTEXT_NAMES = {"tokenizer": "estimate", "nearness": "words"}
CONTEXT_NUMBERS = {"budget": 1_000_000_000, "relevance": 1000, "recency": 1000, "importance": 1000, "decay": 1000}
"""The keys of `[context]` that hold a name, with an example, and those that hold a number, with the highest that is accepted."""

GRAPH_TEXTS = {"default": "seven", "folder": "~/graphs", "proxy_header": "X-Remote-User"}
GRAPH_TABLES = {"minds": 'strong = "openai:MODEL"', "databases": 'shop = "sqlite:shop.db"', "jwt": 'keys = "jwks.json"'}
"""The keys of `[graph]` that hold a text and those that hold a table of texts, with examples."""
GRAPH_NUMBERS = {"turn_seconds": 86_400}
"""Those that hold a number, with the highest that is accepted."""
JWT_KEYS = ("header", "keys", "issuer", "audience", "claim")

HOOK_SECRETS = ("github_secret", "gitea_secret", "forgejo_secret")
"""The keys of `[hooks]`; in the environment FLEETLORE_GITHUB_SECRET and so on."""

_DAYS_BY_UNIT = {"d": 1, "w": 7, "y": 365}

Prices: TypeAlias = Mapping[str, Mapping[str, float]]
"""Model → its prices."""

_Value = TypeVar("_Value")


class Secret:
    """A text that is not shown by `repr`."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return "Secret(…)"

    def reveal(self) -> str:
        """The text."""
        return self._text


class SettingsTable(NamedTuple):
    """One `[[notify]]` or `[[sink]]` table, its types checked. It may hold secrets, so `repr` shows only its name."""

    source: str
    values: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"SettingsTable({self.source!r}, {self.values.get('name')!r})"


class Setting(NamedTuple, Generic[_Value]):
    """A value, and where it comes from: a flag, an environment variable, a file, or `default`."""

    value: _Value
    source: str


class SettingsLayer:
    """The settings of one place: the command line, the environment or a file."""

    def __init__(self, source: str, *, is_project: bool = False) -> None:
        self.source, self.is_project = source, is_project
        self.values: dict[str, Setting[Any]] = {}
        """By the name of the field."""
        self.ignored: list[str] = []
        """What of a project file does not count, as it is not approved."""
        self.refused_log: str | None = None
        """The same for its log."""
        self.problem: str = ""
        """Why a project file that is not approved cannot be parsed; then nothing of it counts."""
        self.is_approved = True

    def disregard(self) -> None:
        """Let the log of an unapproved file not count either."""
        if "log" in self.values:
            self.refused_log = self.values.pop("log").value

    def applies_to_log(self, chosen: "SettingsLayer | None") -> bool:
        """Whether its `[ship]` and `[retention]` are for the log in use, which the layer `chosen` names (`None`: the default log).

        Those of a file are for the log of that file. Those of the environment are for any log but one that a project's file names.
        """
        if self.source == ENVIRONMENT:
            return chosen is None or not chosen.is_project
        return self.log_address == (DEFAULT_LOG if chosen is None else chosen.log_address)

    @property
    def log_address(self) -> str:
        """The log that it names, or the default one."""
        log: str = self.values["log"].value if "log" in self.values else DEFAULT_LOG
        return log


# --- Merge rules: what holds if several places set a setting. The docstrings are shown in docs/reference/settings.md.

MergeRule: TypeAlias = Callable[[str, Sequence[SettingsLayer], SettingsLayer | None], Setting[Any] | None]
"""Field, layers (the strongest first) and the layer that names the log → what holds; `None` for the default."""


def take_strongest(name: str, layers: Sequence[SettingsLayer], chosen: SettingsLayer | None) -> Setting[Any] | None:
    """the strongest place wins"""
    return next((layer.values[name] for layer in layers if name in layer.values), None)


def take_town(name: str, layers: Sequence[SettingsLayer], chosen: SettingsLayer | None) -> Setting[Any] | None:
    """the strongest place wins; `?town=` in an address counts for the place of the address"""
    for layer in layers:
        if name in layer.values:
            return layer.values[name]
        if layer is chosen and (town := _parse_town_option(layer.values["log"].value)) is not None:
            return Setting(town, f"?town= of {layer.values['log'].source}")
    return None


def take_for_own_log(name: str, layers: Sequence[SettingsLayer], chosen: SettingsLayer | None) -> Setting[Any] | None:
    """the strongest place wins; a file counts only for its own log"""
    return take_strongest(name, [layer for layer in layers if layer.applies_to_log(chosen)], chosen)


def take_false(name: str, layers: Sequence[SettingsLayer], chosen: SettingsLayer | None) -> Setting[Any] | None:
    """`false` in any place wins"""
    found = [layer.values[name] for layer in layers if name in layer.values]
    return next((each for each in found if each.value is False), next(iter(found), None))


def add_up(name: str, layers: Sequence[SettingsLayer], chosen: SettingsLayer | None) -> Setting[Any] | None:
    """all places add up"""
    found = [layer.values[name] for layer in layers if name in layer.values]
    return Setting(tuple(dict.fromkeys(item for each in found for item in each.value)), _join_sources(found)) if found else None


def add_up_by_name(name: str, layers: Sequence[SettingsLayer], chosen: SettingsLayer | None) -> Setting[Any] | None:
    """all places add up; of one name the strongest wins"""
    found = [layer.values[name] for layer in layers if name in layer.values]
    merged = {key: value for each in reversed(found) for key, value in each.value.items()}
    return Setting(merged, _join_sources(found)) if found else None


def _join_sources(settings: Sequence[Setting[Any]]) -> str:
    return ", ".join(each.source for each in settings)


def _parse_town_option(url: str) -> str | None:
    for part in url.partition("?")[2].split("&"):
        name, _, value = part.partition("=")
        if name == "town" and value:
            if "%" in value:
                from urllib.parse import unquote

                return unquote(value)
            return value
    return None


# --- Readers: the value that a file's content has for a setting, its type checked; `None` if it is not set.

Content: TypeAlias = Mapping[str, Any]


def _reader_of_text(key: str, example: str) -> Callable[[str, Content], str | None]:
    def read_text(path: str, content: Content) -> str | None:
        value = content.get(key)
        if value is None or (isinstance(value, str) and value):
            return value
        raise ConfigError(f'{path}: {key}: a string is needed, as in {key} = "{example}"')

    return read_text


def _read_log(path: str, content: Content) -> str | None:
    log = _reader_of_text("log", "sqlite:fleet.db")(path, content)
    return None if log is None else resolve_relative_url(log, os.path.dirname(path))


def _read_redact_patterns(path: str, content: Content) -> tuple[str, ...] | None:
    patterns = _read_table(path, content, "redact").get("patterns", [])
    if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
        raise ConfigError(f"{path}: redact.patterns: a list of strings is needed, as in patterns = ['EMP-[0-9]{{6}}']")
    if not patterns:
        return None
    from fleetlore.user_patterns import compile_user_patterns

    if (problem := compile_user_patterns(tuple(patterns)).find_problem()) is not None:
        raise ConfigError(f"{path}: redact.patterns: {problem[0]!r} {problem[1]}")
    return tuple(patterns)


def _read_redact_levels(path: str, content: Content) -> tuple[str, ...] | None:
    written = _read_table(path, content, "redact").get("level", [])
    words = [written] if isinstance(written, str) else written
    try:
        if isinstance(words, list) and all(isinstance(word, str) for word in words):
            return redact_levels(words) or None
        raise ValueError("a word or a list of words is needed")
    except ValueError as error:
        raise ConfigError(f'{path}: redact.level: {error}, as in level = ["prompts", "paths"]') from error


def redact_levels(words: Sequence[str]) -> tuple[str, ...]:
    """The levels that some words name, in their order: `secrets` adds nothing, `all` means every one. `ValueError` for any other."""
    for word in words:
        if word not in (*REDACT_LEVELS, "secrets", "all"):
            raise ValueError(f"unknown level: {word!r}; choose from secrets, {', '.join(REDACT_LEVELS)} and all")
    return tuple(name for name in REDACT_LEVELS if name in words or "all" in words)


def _add_up_levels(name: str, layers: Sequence[SettingsLayer], chosen: SettingsLayer | None) -> Setting[Any] | None:
    found = add_up(name, layers, chosen)
    return None if found is None else Setting(redact_levels(found.value), found.source)


_add_up_levels.__doc__ = add_up.__doc__


def _read_retention(path: str, content: Content) -> int | None:
    table = _read_table(path, content, "retention")
    if not table:
        return None
    keep = table.get("keep")
    if keep is None:
        return None
    days = days_in(keep) if isinstance(keep, str) else None
    if days is None:
        raise ConfigError(f'{path}: retention.keep: an age of at least a day is needed, as in keep = "90d", "12w" or "1y"')
    return days


def _read_whole_texts(path: str, content: Content) -> bool | None:
    value = _read_table(path, content, "retention").get("whole_texts")
    if value is not None and not isinstance(value, bool):
        raise ConfigError(f"{path}: retention.whole_texts: true or false is needed")
    return value


def days_in(text: str) -> int | None:
    """The days in `90d`, `12w` or `1y`; `None` for anything else, and for none at all."""
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdigit() and len(number) <= 5 and unit in _DAYS_BY_UNIT):
        return None
    return int(number) * _DAYS_BY_UNIT[unit] or None


def _read_ship_to(path: str, content: Content) -> str | None:
    ship = _read_table(path, content, "ship")
    to = ship.get("to")
    if to is None and ship:
        raise ConfigError(f'{path}: ship.to: the target is missing; write it as in to = "nats://team:4222"')
    if to is None:
        return None
    if not isinstance(to, str) or ":" not in to:
        raise ConfigError(f'{path}: ship.to: the address of a log is needed, as in to = "nats://team:4222"')
    return resolve_relative_url(to, os.path.dirname(path))


def _read_ship_full(path: str, content: Content) -> bool | None:
    """Set wherever `ship.to` is set, so that both come from the same place."""
    ship = _read_table(path, content, "ship")
    full = ship.get("full", False)
    if not isinstance(full, bool):
        raise ConfigError(f"{path}: ship.full: true or false is needed")
    return full if ship else None


def _read_prices(path: str, content: Content) -> Prices | None:
    return {model: _read_price(path, model, table) for model, table in _read_table(path, content, "prices").items()} or None


BUDGET_PERIODS = ("day", "week", "month")


def _read_cost_budgets(path: str, content: Content) -> Mapping[str, float] | None:
    table = _read_table(path, content, "budget")
    _reject_unknown_keys(path, table, BUDGET_PERIODS, under="budget.")
    for period, usd in table.items():
        if isinstance(usd, bool) or not isinstance(usd, int | float) or not 0 < usd < 1e9:
            raise ConfigError(f"{path}: budget.{period}: dollars are needed, as in {period} = 20")
    return {period: float(usd) for period, usd in table.items()} or None


def _read_flag_rules(path: str, content: Content) -> tuple[str, ...] | None:
    table = _read_table(path, content, "flags")
    _reject_unknown_keys(path, table, ("rules",), under="flags.")
    written = table.get("rules", [])
    files = [written] if isinstance(written, str) else written
    if not isinstance(files, list) or not all(isinstance(file, str) and file for file in files):
        raise ConfigError(f'{path}: flags.rules: a file or a list of files is needed, as in rules = "my-flags.toml"')
    return tuple(os.path.join(os.path.dirname(path), os.path.expanduser(file)) for file in files) or None


def _read_price(path: str, model: str, table: Any) -> Mapping[str, float]:
    where = f'prices."{model}"'
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: {where}: a table is needed, as in [{where}] with input = 5.0 and output = 25.0")
    _reject_unknown_keys(path, table, PRICE_KEYS, under=f"{where}.")
    for key in ("input", "output"):
        if key not in table:
            raise ConfigError(f"{path}: {where}.{key}: is missing; set the price of a million tokens, as in {key} = 5.0")
    for key, value in table.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MAX_PRICE_USD:
            raise ConfigError(f"{path}: {where}.{key}: US dollars for a million tokens are needed, from 0 to {MAX_PRICE_USD:,}")
    return {key: float(value) for key, value in table.items()}


def _read_hook_secrets(path: str, content: Content) -> Mapping[str, Secret] | None:
    table = _read_table(path, content, "hooks")
    _reject_unknown_keys(path, table, HOOK_SECRETS, under="hooks.")
    for name, value in table.items():
        if not isinstance(value, str) or not value:  # not shown: it may be a secret
            raise ConfigError(f"{path}: hooks.{name}: a string is needed, the one that the forge was given as its secret")
    return {name: Secret(value) for name, value in table.items()} or None


def _hook_secrets_in_environment(environ: Mapping[str, str]) -> Mapping[str, Secret] | None:
    return {name: Secret(text) for name in HOOK_SECRETS if (text := environ.get(f"FLEETLORE_{name.upper()}"))} or None


def _read_context(path: str, content: Content) -> Mapping[str, Any] | None:
    """Which tokenizers and nearnesses there are is known to `prompts/build.py` and `prompts/embeddings.py`."""
    table = _read_table(path, content, "context")
    _reject_unknown_keys(path, table, (*CONTEXT_NAMES, *CONTEXT_NUMBERS), under="context.")
    for key, value in table.items():
        if key in CONTEXT_NAMES:
            if not isinstance(value, str) or not value:
                raise ConfigError(f'{path}: context.{key}: a name is needed, as in {key} = "{CONTEXT_NAMES[key]}"')
            continue
        kinds = int if key == "budget" else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not 0 <= value <= CONTEXT_NUMBERS[key]:
            need = "a number of tokens" if key == "budget" else "a number"
            raise ConfigError(f"{path}: context.{key}: {need} is needed, from 0 to {CONTEXT_NUMBERS[key]:,}")
    return dict(table) or None


def _read_graph(path: str, content: Content) -> Mapping[str, Any] | None:
    table = dict(_read_table(path, content, "graph"))
    _reject_unknown_keys(path, table, (*GRAPH_TEXTS, *GRAPH_TABLES, *GRAPH_NUMBERS), under="graph.")
    for key, value in table.items():
        if key in GRAPH_NUMBERS and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= GRAPH_NUMBERS[key]):
            raise ConfigError(f"{path}: graph.{key}: a number is needed, from 0 to {GRAPH_NUMBERS[key]:,}")
        if key in GRAPH_TEXTS and (not isinstance(value, str) or not value):
            raise ConfigError(f'{path}: graph.{key}: a string is needed, as in {key} = "{GRAPH_TEXTS[key]}"')
        if key in GRAPH_TABLES and not (isinstance(value, dict) and all(isinstance(each, str) and each for each in value.values())):
            raise ConfigError(f"{path}: graph.{key}: names with their addresses are needed, as in {GRAPH_TABLES[key]} under [graph.{key}]")
    folder = os.path.dirname(path)
    if "folder" in table:
        table["folder"] = os.path.join(folder, os.path.expanduser(table["folder"]))
    if "jwt" in table:
        _reject_unknown_keys(path, table["jwt"], JWT_KEYS, under="graph.jwt.")
        if missing := [key for key in ("keys", "issuer", "audience") if key not in table["jwt"]]:
            raise ConfigError(f"{path}: graph.jwt.{missing[0]} is missing; a token is accepted only with keys, issuer and audience")
        table["jwt"] = table["jwt"] | {"keys": os.path.join(folder, os.path.expanduser(table["jwt"]["keys"]))}
    if "databases" in table:
        table["databases"] = {name: resolve_relative_url(address, folder) for name, address in table["databases"].items()}
    return table or None


def _read_notify_rules(path: str, content: Content) -> tuple[SettingsTable, ...] | None:
    tables = content.get("notify", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{path}: notify: tables are needed, each under a [[notify]] of its own")
    for number, table in enumerate(tables, 1):
        _reject_unknown_keys(path, table, NOTIFY_KEYS, under="notify.")
        for key, value in table.items():
            if (need := _find_notify_type_error(key, value)) is not None:
                raise ConfigError(f"{path}: notify {number}: {key}: {need}")
    folder = os.path.dirname(path)
    resolved = [{**table, "log": resolve_relative_url(table["log"], folder)} if "log" in table else table for table in tables]
    return tuple(SettingsTable(path, table) for table in resolved) or None


def _find_notify_type_error(key: str, value: Any) -> str | None:
    """What is needed instead of a value. The value itself may be a secret, and is not shown."""
    if key == "every":
        return None if isinstance(value, int) and not isinstance(value, bool) else "a number is needed, as in every = 10"
    if key in ("full", "desktop"):
        return None if isinstance(value, bool) else "true or false is needed"
    if key == "command":
        is_list = isinstance(value, list) and bool(value) and all(isinstance(word, str) for word in value)
        return None if is_list else 'a list of words is needed, as in command = ["notify-send", "{text}"]'
    return None if isinstance(value, str) and value else "a string is needed"


def _read_sinks(path: str, content: Content) -> tuple[SettingsTable, ...] | None:
    tables = content.get("sink", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{path}: sink: tables are needed, each under a [[sink]] of its own")
    for number, table in enumerate(tables, 1):
        _reject_unknown_keys(path, table, SINK_KEYS, under="sink.")
        for key, value in table.items():
            if not isinstance(value, str) or not value:  # not shown: it may be a secret
                raise ConfigError(f"{path}: sink {number}: {key}: a string is needed")
        targets = [key for key in SINK_TARGETS if key in table]
        if len(targets) != 1 or not table.get("name", "").replace("-", "").replace("_", "").isalnum():
            example = " or ".join(f'{key} = "{value}"' for key, value in SINK_TARGETS.items())
            raise ConfigError(f'{path}: sink {number}: name = "team" (letters, digits, - and _) and one target are needed: {example}')
    if len({table["name"] for table in tables}) < len(tables):
        raise ConfigError(f"{path}: sink: two sinks have the same name; each needs one of its own")
    folder = os.path.dirname(path)
    resolved = [
        {**table, "jsonl": os.path.join(folder, os.path.expanduser(table["jsonl"]))} if "jsonl" in table else table for table in tables
    ]
    return tuple(SettingsTable(path, table) for table in resolved) or None


def _read_table(path: str, content: Content, key: str) -> Mapping[str, Any]:
    """A table; an empty one if it is not there."""
    value = content.get(key, {})
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: {key}: a table is needed, as in [{key}]")
    return value


def _reject_unknown_keys(path: str, table: Mapping[str, Any], known: Sequence[str], *, under: str = "") -> None:
    for key in table:
        if key not in known:
            from difflib import get_close_matches

            near = get_close_matches(key, known, n=1)
            hint = f"; did you mean {under}{near[0]}?" if near else ""
            raise ConfigError(f"{path}: unknown setting: {under}{key}{hint}; choose from {', '.join(under + name for name in known)}")


# --- Project files. They come with a repository that others wrote, so they count only after the user has approved their content.


def trust_folder(environ: Mapping[str, str] = os.environ) -> str:
    """The folder with one file for each approved content of a project file."""
    return os.path.join(os.path.dirname(user_file(environ)), "trusted")


def trust_digest(path: str, content: bytes) -> str:
    """Name of the approval of a project file: it holds for this content at this place only."""
    from hashlib import sha256

    return sha256(os.fsencode(trusted_path(path)) + b"\0" + content).hexdigest()


def trusted_path(path: str) -> str:
    """The place that an approval is for: a link to an approved file is another place, from which relative paths lead elsewhere."""
    return os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(path))), os.path.basename(path))


def is_trusted(path: str, content: bytes, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the user approved this content of a project file with `lore trust`."""
    approval = os.path.join(trust_folder(environ), trust_digest(path, content))
    return os.path.isfile(approval) and _belongs_to_user(approval)


def is_project_log(url: str, folder: str) -> bool:
    """Whether the `log` of a project file counts without approval: a SQLite file inside the project, or `sqlite:`, the user's own log.

    A file that is there must be a regular file of the user (a pipe would block, another user's file would be read by that user), in a
    folder of the user in which nobody else can put one.
    """
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
        return all(
            os.path.realpath(real + suffix).startswith(inside) and _is_safe_place(real + suffix)
            for suffix in ("", "-wal", "-shm", "-journal")
        )
    except ValueError:  # a path that no system has, such as one with a null byte
        return False


def _is_safe_place(path: str) -> bool:
    """Whether a path is a regular file of the user, or free in a folder that only the user and their group can write to."""
    try:
        place = path if os.path.lexists(path) else os.path.dirname(path)
        status = os.stat(place)
    except OSError:  # there is no such folder: every command there would fail
        return False
    kind = stat.S_ISREG if place == path else stat.S_ISDIR
    is_shared = place != path and status.st_mode & stat.S_IWOTH
    return kind(status.st_mode) and not is_shared and _belongs_to_user(place)


# --- How `lore config` shows a value: as text, and as a plain value for JSON.


def _show_count(value: Sequence[Any] | Mapping[str, Any]) -> str:
    return f"{len(value)} of your own"


def _show_graph(value: Mapping[str, Any]) -> str:
    return ", ".join(_mask_graph(value)) or "default"


def _mask_graph(value: Mapping[str, Any]) -> dict[str, Any]:
    """Addresses of databases may hold a password."""
    return {
        key: {name: mask_url(address) for name, address in part.items()} if key in GRAPH_TABLES else part for key, part in value.items()
    }


def _show_age(days: int | None) -> str:
    return "all, for ever" if days is None else f"{days:,} {'day' if days == 1 else 'days'}"


def _keep_value(value: Any) -> Any:
    return value


class SettingSpec:
    """All about one setting but its default value."""

    def __init__(
        self,
        key: str,
        help: str,
        *,
        read: Callable[[str, Content], Any],
        default: str,
        merge: MergeRule = take_strongest,
        flag: str = "",
        environment: str = "",
        read_environment: Callable[[Mapping[str, str]], Any] | None = None,
        show: Callable[[Any], str] = str,
        to_json: Callable[[Any], Any] = _keep_value,
        parts: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        self.key, self.help, self.read, self.merge = key, help, read, merge
        self.flag, self.environment, self.read_environment = flag, environment, read_environment
        self.default = default
        """The default as the docs show it."""
        self.show, self.to_json = show, to_json
        self.parts = parts or {}
        """The keys of a table, each with its help and its default."""

    @property
    def table(self) -> str:
        """The top-level key that it is under."""
        return self.key.partition(".")[0]

    def read_variables(self, environ: Mapping[str, str]) -> Any:
        """The value in the environment; `None` if there is none."""
        if self.read_environment is not None:
            return self.read_environment(environ)
        return environ.get(self.environment) or None if self.environment else None


class Settings(NamedTuple):
    """Every setting, with where its value comes from."""

    log: Annotated[
        Setting[str],
        SettingSpec(
            "log",
            "address of the log. A relative path in a file is relative to that file; in a flag or the environment to the current folder",
            read=_read_log,
            default="`sqlite:`",
            flag="--log",
            environment="FLEETLORE_LOG",
            show=lambda value: mask_url(value),
            to_json=lambda value: mask_url(value),
        ),
    ] = Setting(DEFAULT_LOG, DEFAULT)
    town: Annotated[
        Setting[str],
        SettingSpec(
            "town",
            "the town in it",
            read=_reader_of_text("town", "harbour"),
            default="`default`",
            merge=take_town,
            flag="--town",
            environment="FLEETLORE_TOWN",
        ),
    ] = Setting(DEFAULT_TOWN, DEFAULT)
    redact_patterns: Annotated[
        Setting[tuple[str, ...]],
        SettingSpec(
            "redact.patterns",
            "regular expressions of further secrets, taken out of events before they reach any disk."
            " A project cannot switch off what its user wants hidden",
            read=_read_redact_patterns,
            default="none",
            merge=add_up,
            show=_show_count,
        ),
    ] = Setting((), DEFAULT)
    redact_levels: Annotated[
        Setting[tuple[str, ...]],
        SettingSpec(
            "redact.level",
            "what is taken out beside secrets: `prompts`, `code`, `paths`, `names`, several in a list, or `all` ([privacy.md](privacy.md))",
            read=_read_redact_levels,
            default="`secrets`",
            merge=_add_up_levels,
            flag="--redact",
            show=lambda value: ", ".join(("secrets", *value)),
            to_json=lambda value: ("secrets", *value),
        ),
    ] = Setting((), DEFAULT)
    keep_days: Annotated[
        Setting[int | None],
        SettingSpec(
            "retention.keep",
            "how old events may become before they are trimmed: `90d`, `12w`, `1y`",
            read=_read_retention,
            default="for ever",
            merge=take_for_own_log,
            show=_show_age,
            to_json=lambda value: value and f"{value}d",
        ),
    ] = Setting(None, DEFAULT)
    whole_texts: Annotated[
        Setting[bool],
        SettingSpec(
            "retention.whole_texts",
            "whether texts over 16 KiB, which are cut in the event, are kept whole beside it ([events.md](events.md#long-texts))",
            read=_read_whole_texts,
            default="`true`",
            merge=take_false,
            show=lambda value: str(value).lower(),
        ),
    ] = Setting(True, DEFAULT)
    ship_to: Annotated[
        Setting[str | None],
        SettingSpec(
            "ship.to",
            "where the log is [shipped](configuration.md#shipping). A relative path is relative to the file",
            read=_read_ship_to,
            default="nowhere",
            merge=take_for_own_log,
            flag="--to",
            environment="FLEETLORE_SHIP_TO",
            show=lambda value: mask_url(value or "nowhere"),
            to_json=lambda value: value and mask_url(value),
        ),
    ] = Setting(None, DEFAULT)
    ship_full: Annotated[
        Setting[bool],
        SettingSpec(
            "ship.full",
            "whether prompts, code and private thoughts are shipped too",
            read=_read_ship_full,
            default="`false`",
            merge=take_for_own_log,
            flag="--full",
            show=lambda value: str(value).lower(),
        ),
    ] = Setting(False, DEFAULT)
    prices: Annotated[
        Setting[Prices],
        SettingSpec(
            "prices",
            "prices of a model, for [`lore costs`](costs.md)",
            read=_read_prices,
            default="none",
            merge=add_up_by_name,
            show=_show_count,
            parts={
                '"MODEL"': (
                    "[prices](configuration.md#prices) of a model, for [`lore costs`](costs.md)",
                    "the table that comes with Fleetlore",
                )
            },
        ),
    ] = Setting({}, DEFAULT)
    cost_budgets: Annotated[
        Setting[Mapping[str, float]],
        SettingSpec(
            "budget",
            "dollars that you want to spend at most in a `day`, `week` or `month`; pages, `lore costs` and `lore statusline` compare",
            read=_read_cost_budgets,
            default="none",
            merge=add_up_by_name,
            show=lambda value: ", ".join(f"${usd:g} a {period}" for period, usd in value.items()) or "none",
            parts={period: (f"dollars that you want to spend at most in a {period}", "none") for period in BUDGET_PERIODS},
        ),
    ] = Setting({}, DEFAULT)
    flag_rules: Annotated[
        Setting[tuple[str, ...]],
        SettingSpec(
            "flags.rules",
            "files with [your own rules for risk flags](outcomes.md#your-own-rules). A relative path is relative to the file",
            read=_read_flag_rules,
            default="none",
            merge=add_up,
            show=lambda value: ", ".join(value) or "none",
        ),
    ] = Setting((), DEFAULT)
    notify: Annotated[
        Setting[tuple[SettingsTable, ...]],
        SettingSpec(
            "notify",
            "rules by which you are notified, each a `[[notify]]` table: [notifications.md](notifications.md)",
            read=_read_notify_rules,
            default="none",
            show=lambda value: f"{_show_count(value)}; `lore notify list` shows them",
            to_json=lambda value: [table.values.get("name") for table in value],
        ),
    ] = Setting((), DEFAULT)
    sinks: Annotated[
        Setting[tuple[SettingsTable, ...]],
        SettingSpec(
            "sink",
            "where the driver events of goals are published, each a `[[sink]]` table: [goals.md](goals.md#sinks)",
            read=_read_sinks,
            default="none",
            show=lambda value: ", ".join(table.values["name"] for table in value) or "none",
            to_json=lambda value: [table.values["name"] for table in value],
        ),
    ] = Setting((), DEFAULT)
    hooks: Annotated[
        Setting[Mapping[str, Secret]],
        SettingSpec(
            "hooks",
            "the secrets by which forges sign their deliveries",
            read=_read_hook_secrets,
            default="none",
            merge=add_up_by_name,
            read_environment=_hook_secrets_in_environment,
            show=lambda value: ", ".join(value) or "no secrets",
            to_json=lambda value: dict.fromkeys(value, "[redacted]"),
            parts={
                "github_secret": (
                    "the secret by which [GitHub](ingest.md#forges) signs its deliveries; or `FLEETLORE_GITHUB_SECRET`. Never shown",
                    "none: a token is needed",
                ),
                "gitea_secret": ("the same for Gitea; or `FLEETLORE_GITEA_SECRET`", "none"),
                "forgejo_secret": ("the same for Forgejo; or `FLEETLORE_FORGEJO_SECRET`", "none"),
            },
        ),
    ] = Setting({}, DEFAULT)
    context: Annotated[
        Setting[Mapping[str, Any]],
        SettingSpec(
            "context",
            "how [prompts](context.md) are built",
            read=_read_context,
            default="none",
            merge=add_up_by_name,
            show=lambda value: ", ".join(f"{key} {part}" for key, part in value.items()) or "default",
            parts={
                "tokenizer": ("how tokens are counted in [prompts](context.md)", "`estimate`"),
                "nearness": ("how it is measured how near a memory is to the question", "`words`"),
                "budget": ("the most tokens of a prompt", "4000"),
                "relevance": ("weight of the nearness of a memory", "0.3"),
                "recency": ("weight of its recency", "0.4"),
                "importance": ("weight of the importance of its kind", "0.3"),
                "decay": ("how fast recency falls with each turn", "0.1"),
            },
        ),
    ] = Setting({}, DEFAULT)
    graph: Annotated[
        Setting[Mapping[str, Any]],
        SettingSpec(
            "graph",
            "what conversational agents run with",
            read=_read_graph,
            default="none",
            show=_show_graph,
            to_json=_mask_graph,
            parts={
                "default": ("the graph that a new conversation begins with", "`seven`"),
                "folder": ("a folder with graphs of your own", "none"),
                "proxy_header": (
                    "the header in which a proxy that you trust names its user ([graph.md](graph.md#who-is-who))",
                    "none",
                ),
                "turn_seconds": ("seconds after which a turn is stopped; 0 for no limit", "300"),
                "jwt.KEY": (
                    "users by a signed token of their identity provider: `keys` (a JWKS file), `issuer`, `audience`, `header`, `claim` "
                    "([graph.md](graph.md#who-is-who))",
                    "none",
                ),
                "minds.PROFILE": ("the [model](models.md) that answers, by profile: `default`, `quick`, `strong`", "a script"),
                "databases.NAME": (
                    "a database that [`query_db`](graph.md#read-a-database) may read. A relative path is relative to the file",
                    "none",
                ),
            },
        ),
    ] = Setting({}, DEFAULT)
    files: tuple[str, ...] = ()
    """The files that were read, the strongest first."""
    warnings: tuple[str, ...] = ()
    """What of a project's files is not used, each with the reason and what to do; safe to show."""


SPECS: Mapping[str, SettingSpec] = {
    name: annotation.__metadata__[0] for name, annotation in Settings.__annotations__.items() if hasattr(annotation, "__metadata__")
}
"""Field of `Settings` → all about it."""

_TOP_LEVEL_KEYS = tuple(dict.fromkeys(spec.table for spec in SPECS.values()))


# --- Loading


def load_settings(
    *, log: str | None = None, town: str | None = None, environ: Mapping[str, str] = os.environ, folder: str | None = None
) -> Settings:
    """The settings as seen from a folder (the current one), with the values of the flags. `ConfigError` names the file and the setting."""
    if town == "":
        raise ConfigError("--town: a name is needed, as in --town harbour")
    own = user_file(environ)
    project, foreign = _find_project_file(folder, own)
    files = tuple(dict.fromkeys(path for path in (project, own) if path is not None and os.path.isfile(path)))
    of_files = [_read_settings_file(path, is_user=path == own, environ=environ) for path in files]
    if project is not None and project != own and not of_files[0].is_approved and (above := _find_approved_above(project, own, environ)):
        # A file that came with a dependency does not switch off what the user approved for the whole project.
        of_files[0].disregard()
        of_files.insert(1, _read_settings_file(above, is_user=False, environ=environ))
        files = (project, above, *files[1:])
    layers = [_layer_of_flags({"log": log, "town": town}), _layer_of_environment(environ, folder), *of_files]
    chosen = next((layer for layer in layers if "log" in layer.values), None)
    merged = {name: found for name, spec in SPECS.items() if (found := spec.merge(name, layers, chosen)) is not None}
    warnings = (*(_foreign_warning(path, own) for path in foreign), *_untrusted_warnings(layers, chosen))
    return Settings(**merged, files=files, warnings=warnings)


def _layer_of_flags(values: Mapping[str, Any]) -> SettingsLayer:
    layer = SettingsLayer(COMMAND_LINE)
    layer.values = {name: Setting(value, SPECS[name].flag) for name, value in values.items() if value is not None}
    return layer


def _layer_of_environment(environ: Mapping[str, str], folder: str | None) -> SettingsLayer:
    layer = SettingsLayer(ENVIRONMENT)
    for name, spec in SPECS.items():
        if (value := spec.read_variables(environ)) is not None:
            layer.values[name] = Setting(value, ENVIRONMENT if spec.read_environment else spec.environment)
    if "ship_to" in layer.values:
        layer.values["ship_full"] = Setting(False, layer.values["ship_to"].source)
    if "log" in layer.values and folder is not None:  # relative to the folder in which the environment is set
        log = layer.values["log"]
        layer.values["log"] = Setting(resolve_relative_url(log.value, folder), log.source)
    return layer


def _read_settings_file(path: str, *, is_user: bool, environ: Mapping[str, str]) -> SettingsLayer:
    """The settings of a file; every key and type is checked. Of an unapproved project file only a log inside the project counts."""
    try:
        with open(path, "rb") as file:
            written = file.read() if is_user else file.read(MAX_PROJECT_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); let yourself read it, or move it away") from error
    if not is_user and not is_trusted(path, written, environ):
        return _read_untrusted_file(path, written)
    content = _parse_content(path, written)
    _reject_unknown_keys(path, content, _TOP_LEVEL_KEYS)
    layer = SettingsLayer(path, is_project=not is_user)
    for name, spec in SPECS.items():
        if "." in spec.key:
            known = [each.key.partition(".")[2] for each in SPECS.values() if each.table == spec.table]
            _reject_unknown_keys(path, _read_table(path, content, spec.table), known, under=f"{spec.table}.")
        if (value := spec.read(path, content)) is not None:
            layer.values[name] = Setting(value, path)
    return layer


def _read_untrusted_file(path: str, written: bytes) -> SettingsLayer:
    """What counts of a project file without approval. Its mistakes are no errors: it is a stranger's file."""
    layer = SettingsLayer(path, is_project=True)
    layer.is_approved = False
    if len(written) > _MAX_UNAPPROVED_BYTES:
        layer.ignored = ["everything (it is too large)"]
        return layer
    try:
        content = _parse_content(path, written)
        log = _read_log(path, content)
    except ConfigError as error:
        layer.problem = str(error).removeprefix(f"{path}: ").removesuffix(f"; {_FIX_FILE}")
        return layer
    if log is not None and is_project_log(log, os.path.dirname(path)):
        layer.values["log"] = Setting(log, path)
    elif log is not None:
        layer.refused_log = log
    layer.ignored += [key[:40] for key in content if key != "log"][:_MAX_IGNORED]
    return layer


_MAX_IGNORED = 10
_MAX_UNAPPROVED_BYTES = 16 * 1024
"""TOML can be written so that reading it takes the square of its size: 4 s of CPU for 60 KB."""
MAX_PROJECT_BYTES = 1024 * 1024
"""What is read of a project file; a larger one cannot be approved."""
_FIX_FILE = "fix it, or move it away"


def _parse_content(path: str, written: bytes) -> Content:
    import tomllib

    try:
        return tomllib.loads(written.decode())
    except (ValueError, RecursionError) as error:  # not only a TOMLDecodeError: of a number with too many digits, too
        raise ConfigError(f"{path}: not TOML: {error}; {_FIX_FILE}") from error


def _untrusted_warnings(layers: Sequence[SettingsLayer], chosen: SettingsLayer | None) -> Iterator[str]:
    """What of project files is ignored, and how to approve it. A log is not named where a stronger place names one, or the same is used."""
    log, is_chosen = DEFAULT_LOG if chosen is None else chosen.values["log"].value, False
    for layer in layers:
        is_chosen = is_chosen or layer is chosen
        refused = layer.refused_log
        logs = [] if refused is None or is_chosen or refused == log else [f"log = {mask_url(refused)!r}"]
        if layer.problem:
            yield _on_one_line(f"{layer.source}: the whole file is ignored: {layer.problem}. Fix it, then approve it with `lore trust`")
        elif names := ", ".join([*logs, *layer.ignored]):
            approve = "Read it, then approve it with `lore trust`"
            yield _on_one_line(f"{layer.source}: ignored, because you have not approved this file: {names}. {approve}")


def _on_one_line(text: str) -> str:
    """The text without line breaks and control characters: keys and names of folders are a stranger's."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "�" for letter in text)


def _foreign_warning(path: str, own: str) -> str:
    path = _on_one_line(path)
    return f"{path} is ignored: it belongs to another user. If you trust it, take it over with chown, or copy its settings into {own}"


# --- Finding files


def user_file(environ: Mapping[str, str] = os.environ) -> str:
    """Where the user's own settings are, or would be."""
    home = environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "fleetlore", FILE_NAME)


def project_file(folder: str | None = None, *, environ: Mapping[str, str] = os.environ) -> str | None:
    """The nearest `fleetlore.toml` at or above a folder that does not belong to another user."""
    return _find_project_file(folder, user_file(environ))[0]


def _find_approved_above(project: str, own: str, environ: Mapping[str, str]) -> str | None:
    """The nearest approved project file in the folders above that of an unapproved one."""
    while (folder := os.path.dirname(os.path.dirname(project))) != os.path.dirname(project):
        found = _find_project_file(folder, own)[0]
        if found is None or found == own:
            return None
        try:
            with open(found, "rb") as file:
                written = file.read(MAX_PROJECT_BYTES + 1)
        except OSError:
            return None
        if is_trusted(found, written, environ):
            return found
        project = found
    return None


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


# --- Addresses


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


def mask_url(url: str) -> str:
    """An address that may be shown: no user names, passwords or tokens."""
    import re

    from fleetlore.redact import Redactor

    # Up to the last @: a password that should have been escaped may hold anything.
    shown, _ = Redactor().redact_value(re.sub(r"^((?!sqlite:)\w+:(?://)?)[^?]*@", r"\1[redacted]@", url))
    return shown
