"""Anonymises events before they are stored: removes prompts and code, replaces paths and names with pseudonyms.

Who did what and when, durations, results, costs, ids and order are kept, so a story can still be written from an
anonymised log. Prompts and code are withheld by the ship filter; the same path or name always gets the same
pseudonym. docs/privacy.md describes the levels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any, Protocol

from msgspec.structs import replace

from fleetlore.events.envelope import SCOPE_FIELDS, Event, Origin
from fleetlore.ingest.ship_filter import withhold_private
from fleetlore.ingest.ship_filter_rules import WithholdPolicy
from fleetlore.ingest.ship_filter_words import is_placeholder
from fleetlore.log.admission import OWN_DIALECT

# --- Replace words that one event is known to contain.


class WordReplacer:
    """Replaces whole words by pseudonyms; a match inside a longer word or path is left alone."""

    def __init__(self, words: Mapping[str, str]) -> None:
        self._words = [(word, words[word]) for word in sorted(words, key=len, reverse=True)]
        self.count = 0

    def replace_words(self, text: str) -> str:
        """Return the text with every known word replaced, longest word first."""
        for word, other in self._words:
            if word in text:
                text, found = re.subn(rf"(?<![\w/@-]){re.escape(word)}(?![\w/\\@-])", other, text)
                self.count += found
        return text


# --- Names: people, machines, mail addresses and branches become `person-`, `host-`, `mail-`, `branch-` and 8 hex
# digits.

_NAME_SORT_BY_KEY = {
    "host": "host", "hostname": "host", "machine": "host", "computer": "host",
    "branch": "branch", "gitbranch": "branch", "ref": "branch",
    "email": "mail", "mail": "mail",
    "person": "person", "user": "person", "username": "person", "login": "person", "author": "person", "committer": "person",
    "owner": "person", "fullname": "person", "displayname": "person", "pusher": "person", "operator": "person",
}  # fmt: skip
"""What a field holds, by its key in lower case without hyphens and underscores."""

_GENERIC_NAMES = frozenset(
    {"user", "human", "you", "me", "root", "unknown", "anonymous", "system", "lore", "fleetlore", "localhost"}
    | {"main", "master", "trunk", "develop", "dev", "head", "refs/heads/main", "refs/heads/master"}
)
"""Names that identify nobody."""

_HUMAN_DIALECTS = frozenset({"git", "forge"})
"""Dialects in which agents are people, for example the authors of commits."""

_NAME_PSEUDONYM = re.compile(r"(?:person|host|mail|branch)-[0-9a-f]{8}")
_MAIL_ADDRESS = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_HOME_FOLDER = re.compile(
    r"(/home/|/Users/|\\Users\\|(?<![\w.])-(?:home|Users)-)((?<=-)(?:person-[0-9a-f]{8}|[^-/\\\s\"'<>]+)|(?<!-)[^/\\\s\"'<>]+)"
)
"""A person's home folder, also in a path flattened to one name: `-home-ann-shop`."""
_LS_LINE = re.compile(r"^([dlcbps-][rwxsStT-]{9}[.+@]? +\d+ )( *)(\S+)( +)(\S+)(?= )", re.MULTILINE)
"""A line of `ls -l`, with the owner and group of a file."""
_MIN_NAME_CHARS = 3
"""A shorter name could match in a text by chance."""


class NameMask:
    """Masks the people and machines named in one event."""

    def __init__(self, event: Event) -> None:
        self._count = 0
        self._agents = frozenset(name for name in (event.agent, event.parent, event.child) if name)
        self._dialect = event.origin.dialect if event.origin is not None else ""
        self._owner = _repository_owner(event)
        branch = event.data.get("branch")
        self._branch = branch if isinstance(branch, str) and _is_identifying(branch) and not is_placeholder(branch) else None
        self._known = WordReplacer(self._collect_known_names(event))

    @property
    def count(self) -> int:
        """Number of replacements so far."""
        return self._count + self._known.count

    def _collect_known_names(self, event: Event) -> dict[str, str]:
        """Map the names in name fields and in the envelope to their pseudonyms."""
        # A branch with a one-word name would match in ordinary sentences.
        names = [(sort, value) for sort, value in _iterate_names(event.data) if len(value) >= _MIN_NAME_CHARS]
        known = {value: _name_pseudonym(sort, value) for sort, value in names if sort != "branch" or not value.isalpha()}
        for name in ("actor", "agent", "parent", "child"):
            value = getattr(event, name)
            if value is not None and len(value) >= _MIN_NAME_CHARS and self._is_person(name, value):
                known.setdefault(value, _name_pseudonym("person", value))
        return known

    def is_masked_key(self, key: str) -> bool:
        """Whether a field with this key holds the name of a person or a machine."""
        return _name_sort(key) is not None

    def mask_value(self, key: str, value: str) -> str:
        """Return the pseudonym of a name; generic names and names of agents are kept."""
        if not _is_identifying(value) or value in self._agents - self._human_agents():
            return value
        self._count += 1
        return _name_pseudonym(_name_sort(key) or "person", value)

    def mask_text(self, text: str) -> str:
        """Replace mail addresses, home folders, and names that occur elsewhere in this event."""
        if "@" in text:
            text = _MAIL_ADDRESS.sub(self._replace_mail, text)
        text = self._known.replace_words(text)
        if self._owner is not None and f"/{self._owner}/" in text:
            text = text.replace(f"/{self._owner}/", f"/{self._replace_owner()}/")
        if "rw" in text:
            text = _LS_LINE.sub(self._replace_ls_owner, text)
        return _HOME_FOLDER.sub(self._replace_home, text) if "home" in text or "Users" in text else text

    def mask_line(self, text: str) -> str:
        """Mask the event's text. In a forge event the branch is replaced too, even if it is an ordinary word."""
        text = self.mask_text(text)
        if self._dialect != "forge" or self._branch is None:
            return text
        self._count += self._branch in text
        return re.sub(rf"\b{re.escape(self._branch)}\b", _name_pseudonym("branch", self._branch), text)

    def mask_scope(self, name: str, value: str) -> str:
        """Mask the actor and agents if they are people; in other scopes only mail addresses are replaced."""
        if name in ("actor", "agent", "parent", "child") and self._is_person(name, value):
            self._count += 1
            return _name_pseudonym("person", value)
        if name == "mission" and self._owner is not None:
            return f"{self._replace_owner()}/{value.partition('/')[2]}"
        return _MAIL_ADDRESS.sub(self._replace_mail, value) if "@" in value else value

    def _is_person(self, name: str, value: str) -> bool:
        if not _is_identifying(value) or value == self._dialect or value.endswith("[bot]"):
            return False
        return self._dialect in _HUMAN_DIALECTS or (name == "actor" and value not in self._agents)

    def _replace_owner(self) -> str:
        self._count += 1
        return _name_pseudonym("person", self._owner or "")

    def _replace_ls_owner(self, match: re.Match[str]) -> str:
        owner, group = (self._replace_person(name) for name in (match[3], match[5]))
        return f"{match[1]}{match[2]}{owner}{match[4]}{group}"

    def _replace_person(self, name: str) -> str:
        if not _is_identifying(name) or name.isdigit():
            return name
        self._count += 1
        return _name_pseudonym("person", name)

    def _human_agents(self) -> frozenset[str]:
        return self._agents if self._dialect in _HUMAN_DIALECTS else frozenset()

    def _replace_mail(self, match: re.Match[str]) -> str:
        self._count += 1
        return _name_pseudonym("mail", match[0])

    def _replace_home(self, match: re.Match[str]) -> str:
        if not _is_identifying(match[2]):
            return match[0]
        self._count += 1
        return match[1] + _name_pseudonym("person", match[2])


def _repository_owner(event: Event) -> str | None:
    """The owner in the name of a forge's repository: `ann` in `ann/shop`."""
    owner, slash, _ = (event.mission or "").partition("/")
    is_forge = event.origin is not None and event.origin.dialect == "forge"
    return owner if is_forge and slash and _is_identifying(owner) else None


def _iterate_names(value: Any, sort: str | None = None) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if sort is not None and not is_placeholder(value) and _is_identifying(value):
            yield sort, value
    elif isinstance(value, list):
        for item in value:
            yield from _iterate_names(item, sort)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _iterate_names(item, _name_sort(key))


@lru_cache(maxsize=4096)
def _name_sort(key: str) -> str | None:
    return _NAME_SORT_BY_KEY.get(key.lower().replace("_", "").replace("-", ""))


def _is_identifying(value: str) -> bool:
    return bool(value) and value.casefold() not in _GENERIC_NAMES and _NAME_PSEUDONYM.fullmatch(value) is None


@lru_cache(maxsize=8192)
def _name_pseudonym(sort: str, value: str) -> str:
    return f"{sort}-{sha256(value.casefold().encode(errors='replace')).hexdigest()[:8]}"


# --- Paths become `path-`, 8 hex digits and the file's extension; the same path gets the same pseudonym.

_PATH_PSEUDONYM = re.compile(r"path-[0-9a-f]{8}(?:\.\w+)?")
_BARE_FILE_NAME = re.compile(r"(?<![\w/.@-])[\w-][\w.-]*\.[A-Za-z]\w{0,7}(?![\w/@-])")
_KNOWN_FILE_NAME = re.compile(
    r"(?<![\w/.@-])[\w-][\w.-]*\.(?:py|pyi|js|mjs|cjs|jsx|ts|mts|tsx|vue|svelte|html?|css|scss|json|jsonl|ya?ml|toml|ini|cfg|conf|lock|md|mdx|rst"
    r"|txt|csv|tsv|sql|db|sh|bash|zsh|fish|ps1|bat|go|rs|rb|java|kts?|scala|swift|cs|cpp|cc|hpp|php|pl|lua|exs?|erl|hs|mli?|clj|dart|zig|proto"
    r"|graphql|tf|xml|svg|png|jpe?g|gif|pdf|ipynb|log|diff|patch|env|pem|key)(?![\w/@(-]|\.\w)"
)
"""A file name, recognised by an extension that has no other meaning."""
_PRODUCT_NAMES = frozenset({"node.js", "next.js", "vue.js", "nuxt.js", "three.js", "express.js", "d3.js", "asp.net"})
_FILE_LINE_KEYS = frozenset({"subject", "pattern", "glob"})
"""In tool events these fields may name a file without its folder."""
_EXTENSION = re.compile(r"\.[A-Za-z]\w{0,7}")
_KEY_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_PATH_WORDS = frozenset({"path", "paths", "file", "files", "filename", "filenames", "dir", "directory", "folder", "folders", "cwd"})
_PATH_WORDS_ALONE = frozenset({"project", "root", "workspace", "worktree", "repo", "repository", "workdir"})
_MIN_FILE_NAME_CHARS = 4
"""A shorter file name could match in a text by chance."""

_PATH_STOP_CHARS = r"\s\"'`<>|:;,()\[\]{}=*?!"
_PATH_PATTERN = re.compile(
    r"(?P<web>\b(?!file:)[a-z][a-z0-9+.-]{0,40}://[^\s\"'<>]+)"
    r"|(?P<quote>[\"'`])(?P<quoted>(?:~|\.{0,2}/)[^\"'`\n]*/[^\"'`\n]*)(?P=quote)"
    r"|file://[^\s\"'<>]+"
    rf"|(?<![\w/.~])(?:~[\w.-]*|\.{{1,2}}|\$\w+|\$\{{\w+\}})?/(?:[^{_PATH_STOP_CHARS}]|\([\w.-]+\)|\[[\w.-]+\])+"
    r"|(?<!\w)[A-Za-z]:\\[^\s\"'<>|]+"
    r"|(?<![\w/.@-])(?P<near>[\w.@+-]+(?:/(?:[\w.@+-]|\\?\([\w.-]+\\?\)|\\?\[[\w.-]+\\?\])+)+/?)"
)


class PathMask:
    """Masks the files and folders named in one event."""

    def __init__(self, event: Event) -> None:
        self._count = 0
        self._names = frozenset(name for name in (event.actor, event.agent, event.parent, event.child, event.run, event.task) if name)
        self._is_tool = event.kind.startswith(("tool.", "process."))
        self._known = WordReplacer(_known_paths(event.data))

    @property
    def count(self) -> int:
        """Number of replacements so far."""
        return self._count + self._known.count

    def is_masked_key(self, key: str) -> bool:
        """Whether a field with this key holds a path."""
        return _is_path_key(key) or (self._is_tool and key in _FILE_LINE_KEYS)

    def mask_value(self, key: str, value: str) -> str:
        """Return the pseudonym of a path; a `source` field is masked only if it looks like a path."""
        if key in _FILE_LINE_KEYS:
            return self.mask_line(value)
        if _PATH_PSEUDONYM.fullmatch(value) or (key == "source" and not _looks_like_file(value)):
            return value
        self._count += 1
        return _path_pseudonym(value)

    def mask_text(self, text: str) -> str:
        """Replace everything that looks like a path, and paths that occur elsewhere in this event."""
        text = self._known.replace_words(text)
        text = _PATH_PATTERN.sub(self._replace_match, text) if "/" in text or "\\" in text else text
        return _KNOWN_FILE_NAME.sub(self._replace_bare, text) if "." in text else text

    def mask_line(self, text: str) -> str:
        """Mask the event's text. In a tool event, file names without a folder are replaced too."""
        text = self.mask_text(text)
        return _BARE_FILE_NAME.sub(self._replace_bare, text) if self._is_tool else text

    def mask_scope(self, name: str, value: str) -> str:
        """Mask a scope that is named after a file or a folder."""
        if not value.startswith(("/", "~/", "./", "../")) and value[1:3] != ":\\":
            return value
        self._count += 1
        return _path_pseudonym(value)

    def _replace_bare(self, match: re.Match[str]) -> str:
        if _PATH_PSEUDONYM.fullmatch(match[0]) or match[0].lower() in _PRODUCT_NAMES:
            return match[0]
        self._count += 1
        return _path_pseudonym(match[0])

    def _replace_match(self, match: re.Match[str]) -> str:
        if match["web"] or (match["near"] and not self._is_path(match["near"])):
            return match[0]
        self._count += 1
        if match["quote"]:
            return f"{match['quote']}{_path_pseudonym(match['quoted'])}{match['quote']}"
        path = match[0].rstrip(".")
        return _path_pseudonym(path) + match[0][len(path) :]

    def _is_path(self, text: str) -> bool:
        """Whether words separated by slashes are a path.

        Needs two slashes, an extension, or a tool event. Names of agents and dates are not paths.
        """
        if text in self._names or not any(map(str.isalpha, text)):
            return False
        return self._is_tool or text.count("/") > 1 or _file_extension(text.rstrip(".")) != ""


def _known_paths(data: Any) -> dict[str, str]:
    """Map the paths in path fields, and their file names, to pseudonyms."""
    known: dict[str, str] = {}
    for path in _iterate_paths(data):
        known[path] = known[path.rstrip("/")] = _path_pseudonym(path)
        name = re.split(r"[/\\]", path.rstrip("/\\"))[-1]
        if len(name) >= _MIN_FILE_NAME_CHARS:
            known.setdefault(name, _path_pseudonym(path))
    known.pop("", None)
    return known


def _iterate_paths(value: Any, *, is_path: bool = False) -> Iterator[str]:
    if isinstance(value, str):
        if is_path and value and not is_placeholder(value) and not _PATH_PSEUDONYM.fullmatch(value):
            yield value
    elif isinstance(value, list):
        for item in value:
            yield from _iterate_paths(item, is_path=is_path)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _iterate_paths(item, is_path=_is_path_key(key) and key != "source")


@lru_cache(maxsize=4096)
def _is_path_key(key: str) -> bool:
    if key == "source" or key.lower() in _PATH_WORDS_ALONE:
        return True
    words = [word.lower() for word in _KEY_WORD.findall(key)]
    return bool(words) and words[-1] in _PATH_WORDS


def _looks_like_file(text: str) -> bool:
    return "/" in text or "\\" in text or _file_extension(text) != ""


@lru_cache(maxsize=8192)
def _path_pseudonym(path: str) -> str:
    plain = path.removeprefix("file://").rstrip("/") or path
    return f"path-{sha256(plain.encode(errors='replace')).hexdigest()[:8]}{_file_extension(plain)}"


def _file_extension(path: str) -> str:
    dot = path.rfind(".")
    return path[dot:] if dot > 0 and _EXTENSION.fullmatch(path, dot) else ""


# --- Anonymise a whole event.

_ALL_HELD = WithholdPolicy(prompts=True, code=True)


class AnonymiseMask(Protocol):
    """Replaces one sort of value in one event by pseudonyms."""

    @property
    def count(self) -> int:
        """Number of replacements so far."""

    def is_masked_key(self, key: str) -> bool:
        """Whether a field with this key holds such a value."""

    def mask_value(self, key: str, value: str) -> str:
        """Return the pseudonym of a value."""

    def mask_text(self, text: str) -> str:
        """Replace such values inside a text."""

    def mask_line(self, text: str) -> str:
        """Replace such values in the event's text."""

    def mask_scope(self, name: str, value: str) -> str:
        """Replace such values in the actor and the scopes, which mostly name agents."""


def make_anonymiser(levels: Collection[str]) -> Callable[[Event], Event]:
    """Return a function that applies `anonymise_event` with these levels."""
    return lambda event: anonymise_event(event, levels)


def anonymise_event(event: Event, levels: Collection[str]) -> Event:
    """Return the event without what the levels name: `prompts`, `code`, `paths`, `names`. Idempotent."""
    if not levels:
        return event
    policy = WithholdPolicy(prompts="prompts" in levels, code="code" in levels, titles=True)
    if policy.prompts or policy.code:
        event = withhold_private(event, policy)
    elif event.kind == "log.rejected":
        event = withhold_private(event, _ALL_HELD)  # nobody knows what a rejected line contains
    if "paths" in levels:
        event = _apply_mask(event, PathMask(event))
    if "names" in levels:
        event = _apply_mask(event, NameMask(event))
    return event


def _apply_mask(event: Event, mask: AnonymiseMask) -> Event:
    names = {name: mask.mask_scope(name, value) for name in ("actor", *SCOPE_FIELDS) if (value := getattr(event, name)) is not None}
    text = None if event.text is None else mask.mask_line(event.text)
    data = _mask_value(event.data, mask)
    origin = None if event.origin is None else _mask_origin(event.origin, mask)
    count = mask.count + (event.origin is not None and event.origin.rest is not None)
    if not count:
        return event
    origin = origin or Origin(dialect=OWN_DIALECT)
    return replace(event, **names, text=text, data=data, origin=replace(origin, redacted=origin.redacted + count))


def _mask_origin(origin: Origin, mask: AnonymiseMask) -> Origin:
    """Mask the origin and drop `rest`, which may repeat masked values."""
    source = origin.source and (mask.mask_value("source", origin.source) if mask.is_masked_key("source") else mask.mask_text(origin.source))
    cut = tuple(replace(each, path=mask.mask_text(each.path)) for each in origin.cut)
    return replace(origin, rest=None, source=source, id=origin.id and mask.mask_text(origin.id), cut=cut)


def _mask_value(value: Any, mask: AnonymiseMask) -> Any:
    if isinstance(value, str):
        return value if is_placeholder(value) else mask.mask_text(value)
    if isinstance(value, list):
        return [_mask_value(item, mask) for item in value]
    if isinstance(value, dict):
        return {_mask_key(key, mask): _mask_under_key(key, item, mask) for key, item in value.items()}
    return value


def _mask_key(key: str, mask: AnonymiseMask) -> str:
    """Mask a key that may itself be a path or an address; other keys are kept."""
    return mask.mask_text(key) if "/" in key or "@" in key or "\\" in key else key


def _mask_under_key(key: str, value: Any, mask: AnonymiseMask) -> Any:
    if not mask.is_masked_key(key):
        return _mask_value(value, mask)
    if isinstance(value, str):
        return value if is_placeholder(value) or not value else mask.mask_value(key, value)
    if isinstance(value, list):
        return [_mask_under_key(key, item, mask) for item in value]
    return _mask_value(value, mask)
