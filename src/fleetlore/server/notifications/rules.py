"""Parses the `[[notify]]` rules: what triggers each, and where it sends. docs/notifications.md describes them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal, NamedTuple, TypeAlias, cast
from urllib.parse import urlsplit

from fleetlore.documents import durations
from fleetlore.errors import ConfigError, Invalid
from fleetlore.events.catalog import is_kind_or_family
from fleetlore.events.names import is_name
from fleetlore.log.base import TOWN, check_scope
from fleetlore.server.notifications.schedule import Schedule, parse_schedule
from fleetlore.settings import Notice, Settings
from fleetlore.views.patterns.kinds import GONE_KINDS, all_kinds, is_shown

When = Literal["needs you", "finished", "failed", "looping", "stuck", "budget", "done", "progress"]
WHENS: tuple[When, ...] = ("needs you", "finished", "failed", "looping", "stuck", "budget", "done", "progress")
By = Literal["when", "kind", "arc", "brief"]
Format = Literal["json", "slack", "discord", "ntfy", "plain"]
FORMATS: tuple[Format, ...] = ("json", "slack", "discord", "ntfy", "plain")
BRIEF_FORMATS = ("chat", "text", "markdown")
PLACEHOLDERS = ("text", "rule", "when", "kind", "agent", "id", "url")

CURSORS = "notify/"
"""Prefix of the names of the rules' cursors."""
LONGEST_NAME = 100
MOST_TURNS = 10_000
USUAL_TURNS = 10
USUAL_AGE = timedelta(hours=1)
LATEST_BRIEF = timedelta(hours=6)
"""A brief that is later than this, because nothing ran when it was due, is not sent any more."""
OLDEST = timedelta(days=366)
DESKTOP_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "linux": ("notify-send", "--app-name=Fleetlore", "Fleetlore", "{text}"),
    "darwin": ("osascript", "-e", 'on run argv\ndisplay notification (item 1 of argv) with title "Fleetlore"\nend run', "{text}"),
}
"""Platform → the command that shows a notification on the desktop."""
OWN_FAMILY = "notify."
"""Kinds that trigger no rule: notifications about notifications would never end."""

_placed = re.compile(rf"\{{(?:{'|'.join(PLACEHOLDERS)})\}}")


class Webhook(NamedTuple):
    """An address to call. Contains secrets, which are never shown."""

    url: str
    format: Format = "json"
    secret: str | None = None
    """Key for signing bodies."""
    token: str | None = None
    approve_url: str | None = None
    """The address of the control room, as the phone reaches it: requests then have buttons."""
    approve_token: str | None = None
    """A token with the scope approve, which the buttons send."""

    @property
    def shown(self) -> str:
        """The host, the only part that may be shown."""
        return urlsplit(self.url).hostname or ""

    def __repr__(self) -> str:
        return f"Webhook({self.shown!r}, {self.format!r})"


class CommandTarget(NamedTuple):
    """A program to run. Its arguments may contain secrets and are not shown."""

    argv: tuple[str, ...]

    @property
    def shown(self) -> str:
        """The program's name, the only part that may be shown."""
        return os.path.basename(self.argv[0])

    def __repr__(self) -> str:
        return f"CommandTarget({self.shown!r})"


Target: TypeAlias = Webhook | CommandTarget


class Rule(NamedTuple):
    """One rule."""

    name: str
    by: By
    what: str
    """One of `WHENS`, a kind or family, a kind of pattern, or the schedule of a brief, depending on `by`."""
    target: Target
    scope: str = TOWN
    every: int = USUAL_TURNS
    """For progress: after this many turns of an agent."""
    max_age: timedelta = USUAL_AGE
    """Older occasions are not sent."""
    full: bool = False
    """Whether prompts and code are sent too."""
    schedule: Schedule | None = None
    """When a brief is sent."""
    brief_format: str = "chat"
    source: str = ""
    """The file that defines it."""

    @property
    def cursor(self) -> str:
        """Name of the rule's cursor in the log."""
        return f"{CURSORS}{self.name}"

    @property
    def via(self) -> str:
        """`webhook` or `command`."""
        return "webhook" if isinstance(self.target, Webhook) else "command"

    @property
    def waits_for(self) -> str:
        """What triggers it, in words."""
        if self.what == "progress":
            return f"progress, every {self.every} turns"
        if self.schedule is not None:
            return f"brief {self.what} ({self.schedule.zone.key})"
        return self.what if self.by == "when" else f"{self.by} {self.what}"

    @property
    def note(self) -> str | None:
        """Why the rule cannot fire, if it cannot."""
        if self.by != "arc" or is_shown(self.what):
            return None
        if self.what in GONE_KINDS:
            return f"does not fire: the pattern {self.what} was removed in 0.2 (docs/patterns.md); delete the rule"
        return f"does not fire: the pattern {self.what} is wrong too often to be sent; `lore arcs` lists it"


def rules_of(settings: Settings) -> tuple[Rule, ...]:
    """The rules for the log that the settings name; raises `ConfigError`, which never contains a secret."""
    rules: dict[str, Rule] = {}
    for notice in settings.notify.value:
        rule = _parse_rule(notice)
        if rule.name in rules:
            raise ConfigError(f"{notice.source}: notify {rule.name!r}: the name is taken; give each rule a name of its own")
        if notice.said.get("log", settings.log.value) == settings.log.value:
            rules[rule.name] = rule
    return tuple(rules.values())


def _parse_rule(notice: Notice) -> Rule:
    table = notice.said
    name = table.get("name")
    if not isinstance(name, str) or not is_name(name) or len(name.encode()) > LONGEST_NAME:
        raise ConfigError(f'{notice.source}: notify: each rule needs a name of at most {LONGEST_NAME} bytes, as in name = "needs-me"')
    try:
        by, what = _parse_trigger(table)
        return Rule(
            name=name,
            by=by,
            what=what,
            target=_parse_target(table),
            scope=check_scope(table.get("scope", TOWN)),
            every=_parse_turns(table),
            max_age=_parse_max_age(table),
            full=table.get("full", False),
            schedule=_parse_schedule(table),
            brief_format=_brief_format(table),
            source=notice.source,
        )
    except Invalid as error:
        raise ConfigError(f"{notice.source}: notify {name!r}: {error}") from error


def _only_one(table: Mapping[str, Any], *keys: str) -> str:
    given = [key for key in keys if key in table]
    if len(given) != 1:
        raise Invalid(f"one of {', '.join(keys)} is needed, and only one")
    return given[0]


def _parse_trigger(table: Mapping[str, Any]) -> tuple[By, str]:
    by = cast("By", _only_one(table, "when", "kind", "arc", "brief"))
    what: str = table[by]
    if by == "brief":
        return by, " ".join(what.lower().split())
    known = WHENS if by == "when" else tuple(all_kinds())
    if by != "kind" and what not in known and not (by == "arc" and what in GONE_KINDS):
        raise Invalid(f"{by}: unknown value {what!r}; choose from {', '.join(known)}")
    if by == "kind" and (not is_kind_or_family(what) or what.startswith(OWN_FAMILY)):
        raise Invalid(f"kind: {what!r} is neither a kind such as fleet.error nor a family such as town.* (of notifications none are sent)")
    return by, what


def _parse_schedule(table: Mapping[str, Any]) -> Schedule | None:
    if "brief" in table:
        if "full" in table:
            raise Invalid("full: does not go with brief; a brief never has private events in it")
        return parse_schedule(table["brief"], table.get("zone", "UTC"))
    for key in ("zone", "brief_format"):
        if key in table:
            raise Invalid(f'{key}: only goes with a brief, as in brief = "daily 08:30"')
    return None


def _brief_format(table: Mapping[str, Any]) -> str:
    form: str = table.get("brief_format", "chat")
    if form not in BRIEF_FORMATS:
        raise Invalid(f"brief_format: unknown format: {form!r}; choose from {', '.join(BRIEF_FORMATS)}")
    return form


def _parse_turns(table: Mapping[str, Any]) -> int:
    every: int = table.get("every", USUAL_TURNS)
    if "every" in table and table.get("when") != "progress":
        raise Invalid('every: only goes with when = "progress"')
    if not 1 <= every <= MOST_TURNS:
        raise Invalid(f"every: a number of turns from 1 to {MOST_TURNS:,} is needed")
    return every


def _parse_max_age(table: Mapping[str, Any]) -> timedelta:
    if "max_age" not in table:
        return LATEST_BRIEF if "brief" in table else USUAL_AGE
    nanoseconds = durations.parse_duration(table["max_age"])
    if not 0 < nanoseconds <= OLDEST.total_seconds() * 1e9:
        raise Invalid(f'max_age: an age of at most {OLDEST.days} days is needed, as in max_age = "1h"')
    return timedelta(microseconds=nanoseconds / 1000)


def _parse_target(table: Mapping[str, Any]) -> Target:
    match _only_one(table, "webhook", "command", "desktop"):
        case "webhook":
            return _parse_webhook(table)
        case "command":
            return _parse_command(table)
    if table["desktop"] is not True:
        raise Invalid("desktop: only true is taken; remove the rule to turn it off")
    return _parse_command({**table, "command": DESKTOP_COMMANDS.get(sys.platform, DESKTOP_COMMANDS["linux"])})


def _parse_webhook(table: Mapping[str, Any]) -> Webhook:
    form = table.get("format", "json")
    if form not in FORMATS:
        raise Invalid(f"format: unknown format: {form!r}; choose from {', '.join(FORMATS)}")
    for key in ("secret", "token", "approve_token"):
        if not is_fit_for_a_header(table.get(key, "")):
            raise Invalid(f"{key}: only printable ASCII characters are taken; write others out")
    approve_url, approve_token = table.get("approve_url"), table.get("approve_token")
    if (approve_url is None) != (approve_token is None) or (approve_url is not None and form != "ntfy"):
        raise Invalid('approve_url and approve_token go together, and only with format = "ntfy"')
    return Webhook(
        _check_address(table["webhook"]),
        form,
        table.get("secret"),
        table.get("token"),
        None if approve_url is None else _check_address(approve_url),
        approve_token,
    )


def _check_address(url: str) -> str:
    """Validate the address; error messages do not contain it."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or " " in url or not is_fit_for_a_header(url):
        raise Invalid("webhook: an address in plain ASCII is needed that begins with https:// or http:// and names a host")
    if "@" in parts.netloc:
        raise Invalid('webhook: no user name or password in the address; write token = "…", which is sent as a bearer token')
    return url


def is_fit_for_a_header(text: str) -> bool:
    """Whether text can be used in a header and cannot inject another one."""
    return text.isascii() and (not text or text.isprintable())


def _parse_command(table: Mapping[str, Any]) -> CommandTarget:
    for key in ("format", "secret", "token"):
        if key in table:
            raise Invalid(f"{key}: only goes with a webhook")
    argv = tuple(table["command"])
    if not argv[0] or any("\0" in word for word in argv):
        raise Invalid('command: a program and its arguments are needed, as in command = ["notify-send", "{text}"]')
    for word in argv:
        if _placed.search(word) and (word == argv[0] or not _placed.fullmatch(word)):
            raise Invalid(f"command: {word!r}: a placeholder stands for an argument of its own, and not for the program")
    return CommandTarget(argv)
