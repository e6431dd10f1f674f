"""Whether a path or an address lies where a rule says, however it is spelt."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_LONGEST = 4096
_ODD_IN_URLS = re.compile(r"[\x00-\x20\\\x7f-\U0010ffff]")


class Place:
    """A workspace, from which the patterns of paths are seen."""

    def __init__(self, workspace: str) -> None:
        self._lexical, self._real = os.path.abspath(workspace), os.path.realpath(workspace)

    def is_surely_in(self, path: str, pattern: str) -> bool:
        """Whether a path matches as it is written, and where its links lead."""
        return _is_plain(path) and self._at(path, pattern, links=False) and self._at(path, pattern, links=True)

    def may_be_in(self, path: str, pattern: str) -> bool:
        """Whether a path matches as it is written, or where its links lead, in whatever case."""
        if not _is_plain(path):
            return True
        return any(self._at(path, pattern, links=links, is_lenient=True) for links in (False, True))

    def _at(self, path: str, pattern: str, *, links: bool, is_lenient: bool = False) -> bool:
        base = self._real if links else self._lexical
        full = os.path.join(base, os.path.expanduser(path))
        found = os.path.realpath(full) if links else os.path.normpath(full)
        fixed, rest = _fixed(pattern)
        wanted = os.path.normpath(os.path.join(base, os.path.expanduser(fixed)))
        if not is_lenient:  # the pattern's own folder is not followed: it may have become a link since
            return _matches(found, wanted, rest)
        return any(_matches(found.casefold(), each.casefold(), rest.casefold()) for each in (wanted, os.path.realpath(wanted)))


def _is_plain(path: str) -> bool:
    """Whether a path can be one: not too long, no control characters, and it can be written down."""
    return len(path) <= _LONGEST and (path.isprintable() or not any(char < " " or "\ud800" <= char <= "\udfff" for char in path))


def _fixed(pattern: str) -> tuple[str, str]:
    """The folder that a pattern begins with, and what comes from the first wildcard's segment on."""
    segments = pattern.split("/")
    at = next((n for n, segment in enumerate(segments) if "*" in segment or "?" in segment), len(segments))
    beginning = "/".join(segments[:at]) or ("/" if at and pattern.startswith("/") else "")
    return beginning or ".", "/".join(segments[at:])


def _matches(path: str, folder: str, rest: str) -> bool:
    if not rest:
        return path == folder
    if path == folder:
        return rest == "**"
    begin = folder if folder.endswith("/") else f"{folder}/"
    return path.startswith(begin) and _glob(rest).fullmatch(path[len(begin) :]) is not None


@lru_cache(maxsize=1024)
def _glob(pattern: str) -> re.Pattern[str]:
    """`**` crosses folders, `*` and `?` do not."""
    made = ""
    for piece in re.split(r"(\*\*/|\*\*|\*|\?)", re.sub(r"(\*\*/)+", "**/", pattern)):
        made += {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece, re.escape(piece))
    return re.compile(made, re.DOTALL)


def host_of(url: Any) -> str | None:
    """The host of a web address; `None` where programs might not agree which it is."""
    if not isinstance(url, str) or _ODD_IN_URLS.search(url):
        return None
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or "@" in parts.netloc or not _HOST.fullmatch(host):
        return None
    return host


def matches_host(host: str, wanted: str) -> bool:
    """`example.com` is that host; `*.example.com` every one below it."""
    wanted = wanted.strip().lower()
    return host.endswith(wanted[1:]) if wanted.startswith("*.") else host == wanted
