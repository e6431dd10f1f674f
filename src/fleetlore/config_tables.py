"""What the tables of a settings file may say: every key and type is checked, and what a project's file may not say is refused."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fleetlore.errors import ConfigError

FILE_NAME = "fleetlore.toml"
DEFAULT_LOG = "sqlite:"

SERVERS = ("redis", "rediss", "unix", "nats", "tls")
"""The schemes of addresses that mean a server."""

REDACT_LEVELS = ("prompts", "code", "paths", "names")
"""What can be taken out of events beside secrets, which always are."""

_DAYS = {"d": 1, "w": 7, "y": 365}

PRICE_KEYS = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
"""What can be said of a model, in US dollars for a million tokens."""

DEAREST = 100_000

_TEXTS = ("name", "when", "kind", "arc", "scope", "log", "max_age", "webhook", "format", "secret", "token")

NOTIFY_KEYS = (*_TEXTS, "every", "full", "command")
"""What can be said of a rule; `server/notify_rules.py` tells what it means."""

CONTEXT_NAMES = {"tokenizer": "estimate", "nearness": "words"}
CONTEXT_NUMBERS = {"budget": 1_000_000_000, "relevance": 1000, "recency": 1000, "importance": 1000, "decay": 1000}
"""What `[context]` can say by a name and by a number, and how high that may go; `context/` and `state/` tell what it means."""

GRAPH_TEXTS = {"default": "seven", "folder": "~/graphs", "proxy_header": "X-Remote-User"}
GRAPH_TABLES = {"minds": 'strong = "openai:MODEL"', "databases": 'shop = "sqlite:shop.db"'}
"""What `[graph]` can say by a text and by a table of texts; `runtime/graph/settings.py` tells what it means."""

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
    refuse_unknown(path, ship, ("to", "full"), under="ship.")
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
    return anchored(to, os.path.dirname(path)), full


def _check_project_ship(path: str, log: str, to: str, full: bool) -> None:
    if full:
        raise ConfigError(f"{path}: ship.full: a project cannot ask for prompts and code; say `lore ship --full` yourself")
    folder = os.path.dirname(path)
    if not _is_file_inside(log, folder):
        raise ConfigError(f'{path}: [ship] in a project\'s file is for a log inside the project, as log = "sqlite:fleet.db" beside it is')
    if to.partition(":")[0] not in SERVERS and not _is_file_inside(anchored(to, folder), folder):
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


def read_named_levels(path: str, table: Mapping[str, Any]) -> tuple[str, ...]:
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
    refuse_unknown(path, table, ("keep",), under="retention.")
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
    if not (number.isascii() and number.isdigit() and len(number) <= 5 and unit in _DAYS):
        return None
    return int(number) * _DAYS[unit] or None


def read_price(path: str, model: str, said: Any) -> Mapping[str, float]:
    """What `[prices."model"]` says."""
    where = f'prices."{model}"'
    if not isinstance(said, dict):
        raise ConfigError(f"{path}: {where}: a table is needed, as in [{where}] with input = 5.0 and output = 25.0")
    refuse_unknown(path, said, PRICE_KEYS, under=f"{where}.")
    for key in ("input", "output"):
        if key not in said:
            raise ConfigError(f"{path}: {where}.{key}: is missing; say what a million tokens cost, as in {key} = 5.0")
    for key, value in said.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= DEAREST:
            raise ConfigError(f"{path}: {where}.{key}: US dollars for a million tokens are needed, from 0 to {DEAREST:,}")
    return {key: float(value) for key, value in said.items()}


def read_secrets(path: str, content: Mapping[str, Any], *, is_user: bool) -> Mapping[str, Secret]:
    """What `[hooks]` says. Whoever knows a secret can write to the log: a project's file, which others wrote, may not set one."""
    table = read_table(path, content, "hooks")
    refuse_unknown(path, table, HOOK_SECRETS, under="hooks.")
    if table and not is_user:
        raise ConfigError(f"{path}: [hooks]: secrets do not belong into a project's file; write them into {user_file()}")
    for name, value in table.items():
        if not isinstance(value, str) or not value:  # and is not told: it may be a secret
            raise ConfigError(f"{path}: hooks.{name}: a string is needed, the one that the forge was given as its secret")
    return {name: Secret(value) for name, value in table.items()}


def read_context(path: str, content: Mapping[str, Any]) -> Mapping[str, Any]:
    """What `[context]` says; which tokenizers and nearnesses there are is known to `context/tokens.py` and `state/embeddings.py`."""
    table = read_table(path, content, "context")
    refuse_unknown(path, table, (*CONTEXT_NAMES, *CONTEXT_NUMBERS), under="context.")
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
    refuse_unknown(path, table, (*GRAPH_TEXTS, *GRAPH_TABLES), under="graph.")
    if table and not is_user:
        raise ConfigError(f"{path}: [graph]: a project cannot say whom agents call and what they read; write it into {user_file()}")
    for key, value in table.items():
        if key in GRAPH_TEXTS and (not isinstance(value, str) or not value):
            raise ConfigError(f'{path}: graph.{key}: a string is needed, as in {key} = "{GRAPH_TEXTS[key]}"')
        if key in GRAPH_TABLES and not (isinstance(value, dict) and all(isinstance(each, str) and each for each in value.values())):
            raise ConfigError(f"{path}: graph.{key}: names with their addresses are needed, as in {GRAPH_TABLES[key]} under [graph.{key}]")
    return _from_its_folder(table, os.path.dirname(path))


def _from_its_folder(table: Mapping[str, Any], folder: str) -> Mapping[str, Any]:
    said = dict(table)
    if "folder" in said:
        said["folder"] = os.path.join(folder, os.path.expanduser(said["folder"]))
    if "databases" in said:
        said["databases"] = {name: anchored(address, folder) for name, address in said["databases"].items()}
    return said


def read_notices(path: str, content: Mapping[str, Any], *, is_user: bool) -> tuple[Notice, ...]:
    """What each `[[notify]]` says. A project's file comes with a repository that others wrote: it may neither run nor call anything."""
    tables = content.get("notify", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{path}: notify: tables are needed, each under a [[notify]] of its own")
    if tables and not is_user:
        raise ConfigError(f"{path}: [[notify]]: a project cannot have commands run or addresses called; write its rules into {user_file()}")
    for number, table in enumerate(tables, 1):
        where = f"notify {number}"
        refuse_unknown(path, table, NOTIFY_KEYS, under="notify.")
        for key, value in table.items():
            if (need := _misfit(key, value)) is not None:
                raise ConfigError(f"{path}: {where}: {key}: {need}")
    return tuple(Notice(path, _with_its_log(table, path)) for table in tables)


def _misfit(key: str, value: Any) -> str | None:
    """What is needed instead of a value; the value itself may be a secret, and is not told."""
    if key == "every":
        return None if isinstance(value, int) and not isinstance(value, bool) else "a number is needed, as in every = 10"
    if key == "full":
        return None if isinstance(value, bool) else "true or false is needed"
    if key == "command":
        is_list = isinstance(value, list) and bool(value) and all(isinstance(word, str) for word in value)
        return None if is_list else 'a list of words is needed, as in command = ["notify-send", "{text}"]'
    return None if isinstance(value, str) and value else "a string is needed"


def _with_its_log(table: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    return table if "log" not in table else {**table, "log": anchored(table["log"], os.path.dirname(path))}


def refuse_unknown(path: str, table: Mapping[str, Any], known: Sequence[str], *, under: str = "") -> None:
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


def read_expressions(path: str, table: Mapping[str, Any]) -> tuple[str, ...]:
    """What `redact.patterns` says."""
    patterns = table.get("patterns", [])
    if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
        raise ConfigError(f"{path}: redact.patterns: a list of strings is needed, as in patterns = ['EMP-[0-9]{{6}}']")
    if patterns:
        from fleetlore.user_patterns import patterns_of

        if (problem := patterns_of(tuple(patterns)).find_problem()) is not None:
            raise ConfigError(f"{path}: redact.patterns: {problem[0]!r} {problem[1]}")
    return tuple(patterns)


def anchored(url: str, folder: str) -> str:
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
