"""People, machines, mail addresses and branches as pseudonyms: `person-`, `host-`, `mail-`, `branch-` and a hash of eight digits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from typing import Any

from fleetlore.events.envelope import Event
from fleetlore.intake.veil_known import Known
from fleetlore.intake.withholding_words import is_placeholder

_SORTS = {
    "host": "host", "hostname": "host", "machine": "host", "computer": "host",
    "branch": "branch", "gitbranch": "branch", "ref": "branch",
    "email": "mail", "mail": "mail",
    "person": "person", "user": "person", "username": "person", "login": "person", "author": "person", "committer": "person",
    "owner": "person", "fullname": "person", "displayname": "person", "pusher": "person", "operator": "person",
}  # fmt: skip
"""What stands under a name, by the name without capitals, hyphens and underscores."""

_ANYBODYS = frozenset(
    {"user", "human", "you", "me", "root", "unknown", "anonymous", "system", "lore", "fleetlore", "localhost"}
    | {"main", "master", "trunk", "develop", "dev", "head", "refs/heads/main", "refs/heads/master"}
)
"""Names that tell nothing of anybody."""

_PEOPLES_DIALECTS = frozenset({"git", "forge"})
"""Where the agents are people, as the authors of commits are."""

_PSEUDONYM = re.compile(r"(?:person|host|mail|branch)-[0-9a-f]{8}")
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_HOME = re.compile(
    r"(/home/|/Users/|\\Users\\|(?<![\w.])-(?:home|Users)-)((?<=-)(?:person-[0-9a-f]{8}|[^-/\\\s\"'<>]+)|(?<!-)[^/\\\s\"'<>]+)"
)
"""A person's folder, also as programs make one name of a path: `-home-ann-shop`."""
_LISTED = re.compile(r"^([dlcbps-][rwxsStT-]{9}[.+@]? +\d+ )( *)(\S+)( +)(\S+)(?= )", re.MULTILINE)
"""A line of `ls -l`: who owns a file, and which group."""
_LEAST_KNOWN = 3
"""What is shorter may be found in a line by chance."""


class Names:
    """What one event tells of people and machines."""

    def __init__(self, event: Event) -> None:
        self._count = 0
        self._agents = frozenset(name for name in (event.agent, event.parent, event.child) if name)
        self._dialect = event.origin.dialect if event.origin is not None else ""
        self._owner = _owner_of(event)
        branch = event.data.get("branch")
        self._branch = branch if isinstance(branch, str) and _is_telling(branch) and not is_placeholder(branch) else None
        self._known = Known(self._know(event))

    @property
    def count(self) -> int:
        """How many were replaced."""
        return self._count + self._known.count

    def _know(self, event: Event) -> dict[str, str]:
        """The names that stand under names for names, and in the envelope, each with its pseudonym."""
        # A branch of one word would be found in every other sentence.
        names = [(sort, value) for sort, value in _names_in(event.data) if len(value) >= _LEAST_KNOWN]
        known = {value: _pseudonym(sort, value) for sort, value in names if sort != "branch" or not value.isalpha()}
        for name in ("actor", "agent", "parent", "child"):
            value = getattr(event, name)
            if value is not None and len(value) >= _LEAST_KNOWN and self._is_person(name, value):
                known.setdefault(value, _pseudonym("person", value))
        return known

    def holds(self, key: str) -> bool:
        """Whether a name says that it holds one of a person or a machine."""
        return _sort(key) is not None

    def whole(self, key: str, value: str) -> str:
        """A name, unless it is anybody's or an agent's."""
        if not _is_telling(value) or value in self._agents - self._people():
            return value
        self._count += 1
        return _pseudonym(_sort(key) or "person", value)

    def within(self, text: str) -> str:
        """A text without mail addresses, home folders, and the names that this event tells elsewhere."""
        if "@" in text:
            text = _MAIL.sub(self._replace_mail, text)
        text = self._known.replace(text)
        if self._owner is not None and f"/{self._owner}/" in text:
            text = text.replace(f"/{self._owner}/", f"/{self._owned()}/")
        if "rw" in text:
            text = _LISTED.sub(self._replace_listed, text)
        return _HOME.sub(self._replace_home, text) if "home" in text or "Users" in text else text

    def line(self, text: str) -> str:
        """The event's line is a text like any other; where a forge's names a branch, that may be any word."""
        text = self.within(text)
        if self._dialect != "forge" or self._branch is None:
            return text
        self._count += self._branch in text
        return re.sub(rf"\b{re.escape(self._branch)}\b", _pseudonym("branch", self._branch), text)

    def scope(self, name: str, value: str) -> str:
        """Who did it, where that is a person; other scopes keep their names, but for mail addresses."""
        if name in ("actor", "agent", "parent", "child") and self._is_person(name, value):
            self._count += 1
            return _pseudonym("person", value)
        if name == "mission" and self._owner is not None:
            return f"{self._owned()}/{value.partition('/')[2]}"
        return _MAIL.sub(self._replace_mail, value) if "@" in value else value

    def _is_person(self, name: str, value: str) -> bool:
        if not _is_telling(value) or value == self._dialect or value.endswith("[bot]"):
            return False
        return self._dialect in _PEOPLES_DIALECTS or (name == "actor" and value not in self._agents)

    def _owned(self) -> str:
        self._count += 1
        return _pseudonym("person", self._owner or "")

    def _replace_listed(self, match: re.Match[str]) -> str:
        owner, group = (self._known_as(name) for name in (match[3], match[5]))
        return f"{match[1]}{match[2]}{owner}{match[4]}{group}"

    def _known_as(self, name: str) -> str:
        if not _is_telling(name) or name.isdigit():
            return name
        self._count += 1
        return _pseudonym("person", name)

    def _people(self) -> frozenset[str]:
        return self._agents if self._dialect in _PEOPLES_DIALECTS else frozenset()

    def _replace_mail(self, match: re.Match[str]) -> str:
        self._count += 1
        return _pseudonym("mail", match[0])

    def _replace_home(self, match: re.Match[str]) -> str:
        if not _is_telling(match[2]):
            return match[0]
        self._count += 1
        return match[1] + _pseudonym("person", match[2])


def _owner_of(event: Event) -> str | None:
    """Whose a forge's repository is: `ann/shop` names a person."""
    owner, slash, _ = (event.mission or "").partition("/")
    is_forge = event.origin is not None and event.origin.dialect == "forge"
    return owner if is_forge and slash and _is_telling(owner) else None


def _names_in(value: Any, sort: str | None = None) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if sort is not None and not is_placeholder(value) and _is_telling(value):
            yield sort, value
    elif isinstance(value, list):
        for item in value:
            yield from _names_in(item, sort)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _names_in(item, _sort(key))


@lru_cache(maxsize=4096)
def _sort(key: str) -> str | None:
    return _SORTS.get(key.lower().replace("_", "").replace("-", ""))


def _is_telling(value: str) -> bool:
    return bool(value) and value.casefold() not in _ANYBODYS and _PSEUDONYM.fullmatch(value) is None


@lru_cache(maxsize=8192)
def _pseudonym(sort: str, value: str) -> str:
    return f"{sort}-{sha256(value.casefold().encode(errors='replace')).hexdigest()[:8]}"
