"""A parsed webhook delivery of a code forge (GitHub, GitLab, Gitea, …), and helpers that build events and their ids from it.

Forges may send the same delivery again under a new delivery id, and may report one action through several hooks. An event id
is therefore derived from what happened (repository, object, action, time), so that duplicates get the same id.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fleetlore.dialects.fields import as_name, as_object, as_text, first_line, read_seconds, read_time
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event, Origin, Visibility
from fleetlore.events.ids import derive_id

NAME = "forge"

MAX_LINE_CHARS = 300
MAX_TEXT_CHARS = 2000
MAX_LABELS = 20
_MAX_INTEGER = 2**53
_TIME_KEYS = ("updated_at", "submitted_at", "created_at", "starred_at", "completed_at", "published_at")
_OBJECT_KEYS = (
    "review",
    "comment",
    "issue",
    "pull_request",
    "release",
    "check_run",
    "check_suite",
    "workflow_job",
    "workflow_run",
    "deployment_status",
    "deployment",
    "milestone",
    "forkee",
)
"""Payload keys of the object that a delivery is about, most specific first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeDelivery:
    """A parsed delivery."""

    event: str
    """The forge's name for the event: `issues`, `push`, …"""
    action: str | None
    payload: Record
    forge: str | None
    delivery_id: str | None
    raw: bytes
    """The payload as canonical bytes, the same however it was received."""

    @property
    def repository(self) -> str | None:
        """`owner/name`."""
        return as_name(as_object(self.payload.get("repository")).get("full_name"))

    @property
    def sender(self) -> str | None:
        """The login of the user who triggered it."""
        return get_login(self.payload.get("sender"))

    def derive_event_id(self, *parts: object) -> str:
        """Derive an event id from the repository and these parts; if one of them is `None`, from the delivery id or the payload."""
        if self.repository is None or any(part is None for part in parts):
            return derive_id(NAME, b"delivery\0" + self.delivery_id.encode()) if self.delivery_id else derive_id(NAME, self.raw)
        return derive_id(NAME, "\0".join(map(str, (self.repository, *parts))).encode())

    def make_event(
        self,
        kind: str,
        id: str,
        *,
        at: datetime | None,
        text: object = None,
        data: Record | None = None,
        agent: str | None = None,
        child: str | None = None,
        actor: str | None = None,
        task: str | None = None,
        visibility: Visibility = "public",
    ) -> Event:
        """Build an event from this delivery. Its `mission` is the repository; `None` and empty lists are left out of `data`."""
        values = {"forge": self.forge, **(data or {})}
        return Event(
            id=id,
            at=at,
            kind=kind,
            actor=actor or self.sender or agent or NAME,
            agent=agent,
            child=child,
            task=task,
            mission=self.repository,
            text=truncate_line(text),
            visibility=visibility,
            data={key: value for key, value in values.items() if value is not None and value != []},
            origin=self.origin,
        )

    @property
    def origin(self) -> Origin:
        """The `origin` field of events built from this delivery."""
        return Origin(dialect=NAME, id=self.delivery_id)


def get_login(value: object) -> str | None:
    """Return a user's login, else the first of `username`, `name` and `slug` that is set."""
    user = as_object(value)
    return next((name for key in ("login", "username", "name", "slug") if (name := as_name(user.get(key)))), None)


def truncate_line(text: object) -> str | None:
    """Return the first non-blank line, truncated."""
    line = first_line(text)
    return None if line is None else line[:MAX_LINE_CHARS]


def truncate_text(value: object) -> str | None:
    """Return a text, truncated; `None` if it is empty or not a string."""
    text = as_text(value)
    return None if text is None else text[:MAX_TEXT_CHARS]


def as_plain_value(value: object) -> str | int | float | bool | None:
    """Return a scalar that may be stored; `None` for an object or an array."""
    if isinstance(value, str):
        return value[:MAX_TEXT_CHARS] or None
    if isinstance(value, bool | float):
        return value
    return as_integer(value)


def as_integer(value: object) -> int | None:
    """Return an integer of at most 2**53 (exact in every JSON parser), else `None`."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MAX_INTEGER else None


def make_task_name(number: object) -> str | None:
    """Return the task name of an issue or pull request, as commits use it: `#12`."""
    found = as_integer(number)
    return f"#{found}" if found is not None and found > 0 else None


def list_names(items: object, key: str = "name") -> list[str]:
    """Return the value of `key` of each item in a list of labels, reviewers, …; at most `MAX_LABELS`."""
    found = (truncate_text(as_object(item).get(key)) for item in items[:MAX_LABELS]) if isinstance(items, list) else ()
    return [name for name in found if name]


def parse_first_time(*values: object) -> datetime | None:
    """Return the first of these values that is a time: RFC 3339, or seconds since 1970."""
    return next((at for value in values if (at := _parse_time(value))), None)


def _parse_time(value: object) -> datetime | None:
    seconds = as_integer(value)
    at = read_time(value) if seconds is None else read_seconds(seconds)
    # Forges written in Go write the year 1 for a missing time.
    return at if at is not None and at.year > 1 else None


def pick_plain_values(value: object, keys: Iterable[str]) -> dict[str, Any]:
    """Return the scalars under these keys."""
    fields = as_object(value)
    return {key: as_plain_value(fields.get(key)) for key in keys}


def parse_other_delivery(delivery: ForgeDelivery) -> list[Event]:
    """Convert a delivery of any other type (one that has no parser) to a short event with `system` visibility."""
    payload = delivery.payload
    objects = [payload, *(as_object(payload.get(key)) for key in _OBJECT_KEYS)]
    name_parts = [part for part in (delivery.event, delivery.action) if part]
    data = pick_plain_values(payload, ("ref", "ref_type", "sha", "state", "context", "zen", "hook_id"))
    data |= {key: next((value for each in objects if (value := as_plain_value(each.get(key)))), None) for key in ("number", "html_url")}
    at = parse_first_time(*(each.get(key) for each in objects for key in _TIME_KEYS))
    text = " ".join(filter(None, (*name_parts, as_text(payload.get("ref")))))
    ref, sha = as_text(payload.get("ref")), as_text(payload.get("sha"))
    id = (
        delivery.derive_event_id(*name_parts, ref, sha)
        if ref and sha
        else delivery.derive_event_id("note", *name_parts, *_find_delivered_object(payload), at)
    )
    return [
        delivery.make_event(
            make_forge_kind(*name_parts), id, at=at, text=text, data=data, task=make_task_name(data["number"]), visibility="system"
        )
    ]


def _find_delivered_object(payload: Record) -> tuple[object, object]:
    """Return the type and id of the object that a delivery is about, if it has an id."""
    found = ((name, as_integer(as_object(payload.get(name)).get("id"))) for name in _OBJECT_KEYS)
    return next(((name, number) for name, number in found if number is not None), (None, None))


def make_forge_kind(*words: str) -> str:
    """Return a `forge.*` kind for an event name and action of a forge."""
    slug = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in "_".join(words).lower())[:80].strip("_")
    return f"{NAME}.{slug}" if slug and slug[0].isalpha() else f"{NAME}.other"
