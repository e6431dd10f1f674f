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
from fleetlore.events.envelope import is_name
from fleetlore.log.base import TOWN, check_scope
from fleetlore.server.notifications.schedule import Schedule, parse_schedule
from fleetlore.settings import Settings, SettingsTable
from fleetlore.views.patterns.kinds import GONE_KINDS, all_kinds, is_shown

Situation = Literal["needs you", "finished", "failed", "looping", "stuck", "budget", "done", "progress"]
SITUATIONS: tuple[Situation, ...] = ("needs you", "finished", "failed", "looping", "stuck", "budget", "done", "progress")
TriggerType = Literal["when", "kind", "arc", "brief"]
"""The key of a rule that says what triggers it: a situation, an event kind, a pattern (older word: arc), or the schedule of a brief."""
Format = Literal["json", "slack", "discord", "ntfy", "plain"]
FORMATS: tuple[Format, ...] = ("json", "slack", "discord", "ntfy", "plain")
BRIEF_FORMATS = ("chat", "text", "markdown")
PLACEHOLDERS = ("text", "rule", "when", "kind", "agent", "id", "url")

CURSORS = "notify/"
"""Prefix of the names of the rules' cursors."""
MAX_NAME_BYTES = 100
DEFAULT_TURNS, MAX_TURNS = 10, 10_000
"""How often progress is reported."""
DEFAULT_AGE, MAX_AGE = timedelta(hours=1), timedelta(days=366)
"""How old an event may be that triggers a rule."""
MAX_BRIEF_DELAY = timedelta(hours=6)
"""A brief that is later than this, because nothing ran when it was due, is not sent any more."""
DESKTOP_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "linux": ("notify-send", "--app-name=Fleetlore", "Fleetlore", "{text}"),
    "darwin": ("osascript", "-e", 'on run argv\ndisplay notification (item 1 of argv) with title "Fleetlore"\nend run', "{text}"),
}
"""Platform → the command that shows a notification on the desktop."""
OWN_FAMILY = "notify."
"""Kinds that trigger no rule: notifications about notifications would never end."""

_placeholder = re.compile(rf"\{{(?:{'|'.join(PLACEHOLDERS)})\}}")


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
    by: TriggerType
    what: str
    """What triggers it, depending on `by`: one of `SITUATIONS`, a kind or family of events, a pattern, or a schedule."""
    target: Target
    scope: str = TOWN
    every: int = DEFAULT_TURNS
    """For progress: after this many turns of an agent."""
    max_age: timedelta = DEFAULT_AGE
    """Nothing older is sent."""
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
    def trigger(self) -> str:
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


def parse_rules(settings: Settings) -> tuple[Rule, ...]:
    """The rules for the log that the settings name; raises `ConfigError`, which never contains a secret."""
    rules: dict[str, Rule] = {}
    for table in settings.notify.value:
        rule = _parse_rule(table)
        if rule.name in rules:
            raise ConfigError(f"{table.source}: notify {rule.name!r}: another rule has this name; give each rule its own name")
        if table.values.get("log", settings.log.value) == settings.log.value:
            rules[rule.name] = rule
    return tuple(rules.values())


def _parse_rule(settings_table: SettingsTable) -> Rule:
    source, table = settings_table
    name = table.get("name")
    if not isinstance(name, str) or not is_name(name) or len(name.encode()) > MAX_NAME_BYTES:
        raise ConfigError(f'{source}: notify: each rule needs a name of at most {MAX_NAME_BYTES} bytes, as in name = "needs-me"')
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
            brief_format=_parse_brief_format(table),
            source=source,
        )
    except Invalid as error:
        raise ConfigError(f"{source}: notify {name!r}: {error}") from error


def _find_only_key(table: Mapping[str, Any], *keys: str) -> str:
    given = [key for key in keys if key in table]
    if len(given) != 1:
        found = f"it has {' and '.join(given)}" if given else "it has none"
        raise Invalid(f"write exactly one of {', '.join(keys)}; {found}")
    return given[0]


def _parse_trigger(table: Mapping[str, Any]) -> tuple[TriggerType, str]:
    by = cast("TriggerType", _find_only_key(table, "when", "kind", "arc", "brief"))
    what: str = table[by]
    match by:
        case "brief":
            return by, " ".join(what.lower().split())
        case "when" if what not in SITUATIONS:
            raise Invalid(f"when: unknown value {what!r}; choose from {', '.join(SITUATIONS)}")
        case "arc" if what not in all_kinds() and what not in GONE_KINDS:
            raise Invalid(f"arc: unknown value {what!r}; choose from {', '.join(all_kinds())}")
        case "kind" if what.startswith(OWN_FAMILY):
            raise Invalid(f"kind: {what!r}: notifications cannot trigger notifications; choose another kind")
        case "kind" if not is_kind_or_family(what):
            raise Invalid(f"kind: {what!r} is not an event kind; write a kind such as fleet.error, or a family such as town.*")
    return by, what


def _parse_schedule(table: Mapping[str, Any]) -> Schedule | None:
    if "brief" in table:
        if "full" in table:
            raise Invalid("full: remove it, or brief; a brief never contains private events")
        return parse_schedule(table["brief"], table.get("zone", "UTC"))
    for key in ("zone", "brief_format"):
        if key in table:
            raise Invalid(f'{key}: only goes with a brief, as in brief = "daily 08:30"')
    return None


def _parse_brief_format(table: Mapping[str, Any]) -> str:
    form: str = table.get("brief_format", "chat")
    if form not in BRIEF_FORMATS:
        raise Invalid(f"brief_format: unknown format: {form!r}; choose from {', '.join(BRIEF_FORMATS)}")
    return form


def _parse_turns(table: Mapping[str, Any]) -> int:
    every: int = table.get("every", DEFAULT_TURNS)
    if "every" in table and table.get("when") != "progress":
        raise Invalid('every: only goes with when = "progress"')
    if not 1 <= every <= MAX_TURNS:
        raise Invalid(f"every: {every} is out of range; write a number of turns from 1 to {MAX_TURNS:,}")
    return every


def _parse_max_age(table: Mapping[str, Any]) -> timedelta:
    if "max_age" not in table:
        return MAX_BRIEF_DELAY if "brief" in table else DEFAULT_AGE
    nanoseconds = durations.parse_duration(table["max_age"])
    if not 0 < nanoseconds <= MAX_AGE.total_seconds() * 1e9:
        raise Invalid(f'max_age: {table["max_age"]} is out of range; write at most {MAX_AGE.days} days, as in max_age = "1h"')
    return timedelta(microseconds=nanoseconds / 1000)


def _parse_target(table: Mapping[str, Any]) -> Target:
    match _find_only_key(table, "webhook", "command", "desktop"):
        case "webhook":
            return _parse_webhook(table)
        case "command":
            return _parse_command(table)
    if table["desktop"] is not True:
        raise Invalid("desktop: write true, or remove the rule to turn it off")
    return _parse_command({**table, "command": DESKTOP_COMMANDS.get(sys.platform, DESKTOP_COMMANDS["linux"])})


def _parse_webhook(table: Mapping[str, Any]) -> Webhook:
    form = table.get("format", "json")
    if form not in FORMATS:
        raise Invalid(f"format: unknown format: {form!r}; choose from {', '.join(FORMATS)}")
    for key in ("secret", "token", "approve_token"):
        if not is_fit_for_a_header(table.get(key, "")):
            raise Invalid(f"{key}: contains characters that cannot be sent in a header; use printable ASCII only")
    approve_url, approve_token = table.get("approve_url"), table.get("approve_token")
    if (approve_url is None) != (approve_token is None) or (approve_url is not None and form != "ntfy"):
        raise Invalid('approve_url and approve_token: set both or neither, and only with format = "ntfy"')
    return Webhook(
        _check_address("webhook", table["webhook"]),
        form,
        table.get("secret"),
        table.get("token"),
        None if approve_url is None else _check_address("approve_url", approve_url),
        approve_token,
    )


def _check_address(key: str, url: str) -> str:
    """Validate the address; error messages do not contain it, because it may be a secret."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or " " in url or not is_fit_for_a_header(url):
        raise Invalid(f"{key}: is not a valid address; write https://HOST/PATH or http://HOST/PATH, in ASCII and without spaces")
    if "@" in parts.netloc:
        raise Invalid(f'{key}: contains a user name or password; write token = "…" instead, which is sent as a bearer token')
    return url


def is_fit_for_a_header(text: str) -> bool:
    """Whether text can be used in a header and cannot inject another one."""
    return text.isascii() and (not text or text.isprintable())


def _parse_command(table: Mapping[str, Any]) -> CommandTarget:
    for key in ("format", "secret", "token"):
        if key in table:
            raise Invalid(f"{key}: only goes with a webhook; remove it")
    argv = tuple(table["command"])
    if not argv[0] or any("\0" in word for word in argv):
        raise Invalid('command: is not a program with arguments; write a list, as in command = ["notify-send", "{text}"]')
    for word in argv:
        if _placeholder.search(word) and (word == argv[0] or not _placeholder.fullmatch(word)):
            raise Invalid(f"command: {word!r}: a placeholder must be a whole argument, not the program; write it separately")
    return CommandTarget(argv)
