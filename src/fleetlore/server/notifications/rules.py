"""The rules of `[[notify]]`: what each waits for, and whom it tells. docs/notifications.md tells them to people."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal, NamedTuple, TypeAlias, cast
from urllib.parse import urlsplit

from fleetlore.chronicle.arcs import HIDDEN_KINDS
from fleetlore.chronicle.vocabulary import arc_kinds
from fleetlore.documents import durations
from fleetlore.errors import ConfigError, Invalid
from fleetlore.events.catalog import is_kind_or_family
from fleetlore.events.names import is_name
from fleetlore.log.base import TOWN, check_scope
from fleetlore.settings import Notice, Settings

When = Literal["needs you", "stuck", "budget", "done", "progress"]
WHENS: tuple[When, ...] = ("needs you", "stuck", "budget", "done", "progress")
By = Literal["when", "kind", "arc"]
Format = Literal["json", "slack", "discord", "ntfy", "plain"]
FORMATS: tuple[Format, ...] = ("json", "slack", "discord", "ntfy", "plain")
PLACEHOLDERS = ("text", "rule", "when", "kind", "agent", "id", "url")

CURSORS = "notify/"
"""What the names of the rules' cursors begin with."""
LONGEST_NAME = 100
MOST_TURNS = 10_000
USUAL_TURNS = 10
USUAL_AGE = timedelta(hours=1)
OLDEST = timedelta(days=366)
OWN_FAMILY = "notify."
"""Kinds that set no rule off: a notice about a notice would never end."""

_placed = re.compile(rf"\{{(?:{'|'.join(PLACEHOLDERS)})\}}")


class Webhook(NamedTuple):
    """An address that is called. It holds secrets, and does not show them."""

    url: str
    format: Format = "json"
    secret: str | None = None
    """What bodies are signed with."""
    token: str | None = None

    @property
    def shown(self) -> str:
        """The host: all that may be told of it."""
        return urlsplit(self.url).hostname or ""

    def __repr__(self) -> str:
        return f"Webhook({self.shown!r}, {self.format!r})"


class Command(NamedTuple):
    """A program that is run. Its arguments may hold secrets, and are not shown."""

    argv: tuple[str, ...]

    @property
    def shown(self) -> str:
        """The program's name: all that may be told of it."""
        return os.path.basename(self.argv[0])

    def __repr__(self) -> str:
        return f"Command({self.shown!r})"


Target: TypeAlias = Webhook | Command


class Rule(NamedTuple):
    """One rule."""

    name: str
    by: By
    what: str
    """One of `WHENS`, a kind or a family, or a kind of arc, as `by` says."""
    target: Target
    scope: str = TOWN
    every: int = USUAL_TURNS
    """For progress: after so many turns of an agent."""
    max_age: timedelta = USUAL_AGE
    """What happened longer ago when it arrives is not told."""
    full: bool = False
    """Whether prompts and code are sent too."""
    source: str = ""
    """The file that it stands in."""

    @property
    def cursor(self) -> str:
        """The name under which the log remembers how far the rule has come."""
        return f"{CURSORS}{self.name}"

    @property
    def via(self) -> str:
        """`webhook` or `command`."""
        return "webhook" if isinstance(self.target, Webhook) else "command"

    @property
    def waits_for(self) -> str:
        """What it waits for, in words."""
        if self.what == "progress":
            return f"progress, every {self.every} turns"
        return self.what if self.by == "when" else f"{self.by} {self.what}"

    @property
    def note(self) -> str | None:
        """Why the rule cannot fire, if it cannot."""
        if self.by != "arc" or self.what not in HIDDEN_KINDS:
            return None
        return f"does not fire: the pattern {self.what} is switched off in this version, because it was wrong too often; the rule may stay"


def rules_of(settings: Settings) -> tuple[Rule, ...]:
    """The rules for the log that the settings name; `ConfigError` says which is wrong, and never tells a secret."""
    rules: dict[str, Rule] = {}
    for notice in settings.notify.value:
        rule = _rule(notice)
        if rule.name in rules:
            raise ConfigError(f"{notice.source}: notify {rule.name!r}: the name is taken; give each rule a name of its own")
        if notice.said.get("log", settings.log.value) == settings.log.value:
            rules[rule.name] = rule
    return tuple(rules.values())


def _rule(notice: Notice) -> Rule:
    said = notice.said
    name = said.get("name")
    if not isinstance(name, str) or not is_name(name) or len(name.encode()) > LONGEST_NAME:
        raise ConfigError(f'{notice.source}: notify: each rule needs a name of at most {LONGEST_NAME} bytes, as in name = "needs-me"')
    try:
        by, what = _trigger(said)
        return Rule(
            name=name,
            by=by,
            what=what,
            target=_webhook(said) if _only_one(said, "webhook", "command") == "webhook" else _command(said),
            scope=check_scope(said.get("scope", TOWN)),
            every=_turns(said),
            max_age=_age(said),
            full=said.get("full", False),
            source=notice.source,
        )
    except Invalid as error:
        raise ConfigError(f"{notice.source}: notify {name!r}: {error}") from error


def _only_one(said: Mapping[str, Any], *keys: str) -> str:
    given = [key for key in keys if key in said]
    if len(given) != 1:
        raise Invalid(f"one of {', '.join(keys)} is needed, and only one")
    return given[0]


def _trigger(said: Mapping[str, Any]) -> tuple[By, str]:
    by = cast("By", _only_one(said, "when", "kind", "arc"))
    what: str = said[by]
    known = WHENS if by == "when" else arc_kinds()
    if by != "kind" and what not in known:
        raise Invalid(f"{by}: no such thing as {what!r}; there are {', '.join(known)}")
    if by == "kind" and (not is_kind_or_family(what) or what.startswith(OWN_FAMILY)):
        raise Invalid(f"kind: {what!r} is neither a kind such as fleet.error nor a family such as town.* (and notices tell of no notices)")
    return by, what


def _turns(said: Mapping[str, Any]) -> int:
    every: int = said.get("every", USUAL_TURNS)
    if "every" in said and said.get("when") != "progress":
        raise Invalid('every: only goes with when = "progress"')
    if not 1 <= every <= MOST_TURNS:
        raise Invalid(f"every: a number of turns from 1 to {MOST_TURNS:,} is needed")
    return every


def _age(said: Mapping[str, Any]) -> timedelta:
    if "max_age" not in said:
        return USUAL_AGE
    nanoseconds = durations.parse_duration(said["max_age"])
    if not 0 < nanoseconds <= OLDEST.total_seconds() * 1e9:
        raise Invalid(f'max_age: an age of at most {OLDEST.days} days is needed, as in max_age = "1h"')
    return timedelta(microseconds=nanoseconds / 1000)


def _webhook(said: Mapping[str, Any]) -> Webhook:
    form = said.get("format", "json")
    if form not in FORMATS:
        raise Invalid(f"format: no such format: {form!r}; there are {', '.join(FORMATS)}")
    for key in ("secret", "token"):
        if not is_fit_for_a_header(said.get(key, "")):
            raise Invalid(f"{key}: only printable ASCII characters are taken; write others out")
    return Webhook(_address(said["webhook"]), form, said.get("secret"), said.get("token"))


def _address(url: str) -> str:
    """The address, if it can be called. What is wrong with it is told without it."""
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_whole = False
    if not is_whole or " " in url or not is_fit_for_a_header(url):
        raise Invalid("webhook: an address in plain ASCII is needed that begins with https:// or http:// and names a host")
    if "@" in parts.netloc:
        raise Invalid('webhook: no user name or password in the address; write token = "…", which is sent as a bearer token')
    return url


def is_fit_for_a_header(text: str) -> bool:
    """Whether text can stand in a header as it is, and can be no second one."""
    return text.isascii() and (not text or text.isprintable())


def _command(said: Mapping[str, Any]) -> Command:
    for key in ("format", "secret", "token"):
        if key in said:
            raise Invalid(f"{key}: only goes with a webhook")
    argv = tuple(said["command"])
    if not argv[0] or any("\0" in word for word in argv):
        raise Invalid('command: a program and its arguments are needed, as in command = ["notify-send", "{text}"]')
    for word in argv:
        if _placed.search(word) and (word == argv[0] or not _placed.fullmatch(word)):
            raise Invalid(f"command: {word!r}: a placeholder stands for an argument of its own, and not for the program")
    return Command(argv)
