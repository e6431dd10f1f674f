"""Paths as pseudonyms: `path-` and a hash of eight digits, with the file's extension, the same for the same path."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from typing import Any

from fleetlore.events.envelope import Event
from fleetlore.intake.veil_known import Known
from fleetlore.intake.withholding_words import is_placeholder

_PSEUDONYM = re.compile(r"path-[0-9a-f]{8}(?:\.\w+)?")
_BARE = re.compile(r"(?<![\w/.@-])[\w-][\w.-]*\.[A-Za-z]\w{0,7}(?![\w/@-])")
_FILE = re.compile(
    r"(?<![\w/.@-])[\w-][\w.-]*\.(?:py|pyi|js|mjs|cjs|jsx|ts|mts|tsx|vue|svelte|html?|css|scss|json|jsonl|ya?ml|toml|ini|cfg|conf|lock|md|mdx|rst"
    r"|txt|csv|tsv|sql|db|sh|bash|zsh|fish|ps1|bat|go|rs|rb|java|kts?|scala|swift|cs|cpp|cc|hpp|php|pl|lua|exs?|erl|hs|mli?|clj|dart|zig|proto"
    r"|graphql|tf|xml|svg|png|jpe?g|gif|pdf|ipynb|log|diff|patch|env|pem|key)(?![\w/@(-]|\.\w)"
)
"""The name of a file, by the extensions that nothing else has."""
_PRODUCTS = frozenset({"node.js", "next.js", "vue.js", "nuxt.js", "three.js", "express.js", "d3.js", "asp.net"})
_LINES = frozenset({"subject", "pattern", "glob"})
"""In what a tool did, these may name a file without its folder, as its line does."""
_EXTENSION = re.compile(r"\.[A-Za-z]\w{0,7}")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_PATH_WORDS = frozenset({"path", "paths", "file", "files", "filename", "filenames", "dir", "directory", "folder", "folders", "cwd"})
_PATH_WORDS_ALONE = frozenset({"project", "root", "workspace", "worktree", "repo", "repository", "workdir"})
_LEAST_KNOWN = 4
"""The name of a file that is shorter may be found in a line by chance."""

_STOP = r"\s\"'`<>|:;,()\[\]{}=*?!"
_FOUND = re.compile(
    r"(?P<web>\b(?!file:)[a-z][a-z0-9+.-]*://[^\s\"'<>]+)"
    r"|(?P<quote>[\"'`])(?P<quoted>(?:~|\.{0,2}/)[^\"'`\n]*/[^\"'`\n]*)(?P=quote)"
    r"|file://[^\s\"'<>]+"
    rf"|(?<![\w/.~])(?:~[\w.-]*|\.{{1,2}}|\$\w+|\$\{{\w+\}})?/(?:[^{_STOP}]|\([\w.-]+\)|\[[\w.-]+\])+"
    r"|(?<!\w)[A-Za-z]:\\[^\s\"'<>|]+"
    r"|(?<![\w/.@-])(?P<near>[\w.@+-]+(?:/(?:[\w.@+-]|\\?\([\w.-]+\\?\)|\\?\[[\w.-]+\\?\])+)+/?)"
)


class Paths:
    """What one event tells of files and folders."""

    def __init__(self, event: Event) -> None:
        self._count = 0
        self._names = frozenset(name for name in (event.actor, event.agent, event.parent, event.child, event.run, event.task) if name)
        self._is_tool = event.kind.startswith(("tool.", "process."))
        self._known = Known(_known_in(event.data))

    @property
    def count(self) -> int:
        """How many were replaced."""
        return self._count + self._known.count

    def holds(self, key: str) -> bool:
        """Whether a name says that it holds a path."""
        return _holds(key) or (self._is_tool and key in _LINES)

    def whole(self, key: str, value: str) -> str:
        """A path; under `source`, which may name anything, only what looks like one."""
        if key in _LINES:
            return self.line(value)
        if _PSEUDONYM.fullmatch(value) or (key == "source" and not _looks_like_file(value)):
            return value
        self._count += 1
        return _pseudonym(value)

    def within(self, text: str) -> str:
        """A text whose paths are replaced: those by form, and those that this event names elsewhere."""
        text = self._known.replace(text)
        text = _FOUND.sub(self._replace, text) if "/" in text or "\\" in text else text
        return _FILE.sub(self._replace_bare, text) if "." in text else text

    def line(self, text: str) -> str:
        """The event's line; that of a tool may name a file without its folder, and the event say no more of it."""
        text = self.within(text)
        return _BARE.sub(self._replace_bare, text) if self._is_tool else text

    def scope(self, name: str, value: str) -> str:
        """A scope that is named after a file or a folder."""
        if not value.startswith(("/", "~/", "./", "../")) and value[1:3] != ":\\":
            return value
        self._count += 1
        return _pseudonym(value)

    def _replace_bare(self, match: re.Match[str]) -> str:
        if _PSEUDONYM.fullmatch(match[0]) or match[0].lower() in _PRODUCTS:
            return match[0]
        self._count += 1
        return _pseudonym(match[0])

    def _replace(self, match: re.Match[str]) -> str:
        if match["web"] or (match["near"] and not self._is_path(match["near"])):
            return match[0]
        self._count += 1
        if match["quote"]:
            return f"{match['quote']}{_pseudonym(match['quoted'])}{match['quote']}"
        path = match[0].rstrip(".")
        return _pseudonym(path) + match[0][len(path) :]

    def _is_path(self, text: str) -> bool:
        """Whether words with a slash between them are a path: more than one slash, a file's extension, or a tool's; no name, no date."""
        if text in self._names or not any(map(str.isalpha, text)):
            return False
        return self._is_tool or text.count("/") > 1 or _extension(text.rstrip(".")) != ""


def _known_in(data: Any) -> dict[str, str]:
    """The paths that stand under names of paths, and the names of their files, each with its pseudonym."""
    known: dict[str, str] = {}
    for path in _paths_in(data):
        known[path] = known[path.rstrip("/")] = _pseudonym(path)
        name = re.split(r"[/\\]", path.rstrip("/\\"))[-1]
        if len(name) >= _LEAST_KNOWN:
            known.setdefault(name, _pseudonym(path))
    known.pop("", None)
    return known


def _paths_in(value: Any, *, is_path: bool = False) -> Iterator[str]:
    if isinstance(value, str):
        if is_path and value and not is_placeholder(value) and not _PSEUDONYM.fullmatch(value):
            yield value
    elif isinstance(value, list):
        for item in value:
            yield from _paths_in(item, is_path=is_path)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _paths_in(item, is_path=_holds(key) and key != "source")


@lru_cache(maxsize=4096)
def _holds(key: str) -> bool:
    if key == "source" or key.lower() in _PATH_WORDS_ALONE:
        return True
    words = [word.lower() for word in _WORD.findall(key)]
    return bool(words) and words[-1] in _PATH_WORDS


def _looks_like_file(text: str) -> bool:
    return "/" in text or "\\" in text or _extension(text) != ""


@lru_cache(maxsize=8192)
def _pseudonym(path: str) -> str:
    plain = path.removeprefix("file://").rstrip("/") or path
    return f"path-{sha256(plain.encode(errors='replace')).hexdigest()[:8]}{_extension(plain)}"


def _extension(path: str) -> str:
    dot = path.rfind(".")
    return path[dot:] if dot > 0 and _EXTENSION.fullmatch(path, dot) else ""
