"""`git`: a repository's history as `intake.git` tells it, one JSON object a commit, a co-author or a tag.

What a message says of itself (a revert, a merge, a task) is read here, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from fleetlore.dialects.base import Dialect
from fleetlore.dialects.fields import as_name, as_text, need_text, own_origin, read_time, without_none, write_time
from fleetlore.dialects.wire import COMPACT, Record
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event, Origin
from fleetlore.events.ids import derive_id

NAME = "git"

COMMIT, COLLAB, TAG = "commit", "collab", "tag"

BESIDE = (
    "parents",
    "email",
    "committer",
    "committer_email",
    "committed",
    "body",
    "files",
    "changed",
    "insertions",
    "deletions",
    "recovers",
    "shallow",
    "n",
    "with",
    "tag",
    "object",
)
"""The fields of a record that stand in `data` under the same name, in the order in which they are written."""

MAINLINES = frozenset(("main", "master", "trunk", "develop", "dev", "default"))
"""Branches that others are merged into: merging one of these is catching up, not delivering."""

_NO_TASKS = frozenset(
    ("UTF", "SHA", "ISO", "RFC", "PEP", "CVE", "CWE", "AES", "RSA", "TLS", "GPT", "IEEE", "HTTP", "ECMA", "ES", "CP", "MD", "UCS")
)
"""What looks like the key of a project and is the name of a standard."""

_sha = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_task = re.compile(r"(?<![\w&#])#(?P<number>[1-9][0-9]{0,8})\b|\b(?P<project>[A-Z][A-Z0-9]{1,9})-[1-9][0-9]{0,8}\b(?!\.\w|-[0-9])")
_again = re.compile(r'(?:(?P<revert>Revert)(?:\^(?P<times>[1-9][0-9]?))?|Re-?apply|Re-?land) "', re.IGNORECASE)
_again_in_words = re.compile(r"re-?(?:apply|land)", re.IGNORECASE)
_revert_in_words = re.compile(r"revert(?:\([^)]*\))?!?:", re.IGNORECASE)
_reverts = re.compile(r"\s*This reverts\s+(?:merge\s+)?commits?\s+(?P<sha>[0-9a-f]{7,64})\b")
_mends = re.compile(
    r"\b(?:fix(?:es|ed)?|re-?appl(?:y|ies|ied)|re-?land(?:s|ed)?|restores?d?)\b:?\s+(?:commit\s+)?(?P<sha>[0-9a-f]{7,64})\b", re.IGNORECASE
)
_version = re.compile(r"(?:.*[/@_-])?(?:v[0-9]+(?:\.[0-9]+)*|[0-9]+(?:\.[0-9]+)+)(?:[a-z][0-9a-z]*)?(?:[-._+][0-9a-z]+)*", re.IGNORECASE)
_remote = re.compile(r"(?:origin|upstream)/")
_MERGES = tuple(
    map(
        re.compile,
        (
            r"Merge pull request #(?P<number>[0-9]+) from [^/\s]+/(?P<branch>\S+)",  # GitHub
            r"Merge pull request '.*' \(#(?P<number>[0-9]+)\) from (?P<branch>\S+)",  # Gitea
            r"(?:Merge p|P)ull request #(?P<number>[0-9]+)(?: in \S+ from (?P<branch>\S+) to \S+|: )",  # Bitbucket Server
            r"Merged in (?P<branch>\S+) \(pull request #(?P<number>[0-9]+)\)",  # Bitbucket
            r"Merged PR (?P<number>[0-9]+): ",  # Azure DevOps
            r"Merge (?:remote-tracking )?branch(?:es)? '(?P<branch>[^']+)'(?:.* into '?(?P<into>[^\s']+)'?$)?",  # git itself, GitLab
        ),
    )
)


class _Told(NamedTuple):
    """What is peculiar to one type of record."""

    kind: str
    key: str
    """What its id follows from: the same in every clone."""
    cause: str | None = None
    """The commit that led to it."""
    task: str | None = None
    derived: Mapping[str, Any] = {}


class Merge(NamedTuple):
    """What a merge says that it brought in."""

    branch: str | None
    number: str | None


def event_id(sha: str) -> str:
    """The id of a commit's event."""
    return derive_id(NAME, sha.encode())


def find_reverted(body: str) -> str | None:
    """The commit that a message says it takes back, as it is written there."""
    match = _reverts.match(body)
    return match["sha"] if match else None


def find_mended(message: str) -> list[str]:
    """The commits that a message says it fixes or applies again, as they are written there."""
    return [match["sha"].lower() for match in _mends.finditer(message)]


def is_version(tag: str) -> bool:
    """Whether a tag names a release: `v1`, `1.2`, `door-1.2.3-rc1`, `door/v2.0`."""
    return len(tag) <= 200 and _version.fullmatch(tag) is not None


def count_reverts(subject: str, body: str) -> int:
    """How often a commit takes its work back: odd, it is gone; even, it is there again; none, it is no revert."""
    times, rest = 0, subject
    while match := _again.match(rest):
        times += int(match["times"] or 1) if match["revert"] else 2
        rest = rest[match.end() :]
    if times:
        return times
    if find_reverted(body) is None and not _revert_in_words.match(subject):
        return 0
    return 2 if _again_in_words.match(subject) else 1


def find_merge(subject: str, *, parents: int) -> Merge | None:
    """What was merged, where the subject reads like the delivery of a branch or a pull request."""
    match = next((match for pattern in _MERGES if (match := pattern.match(subject))), None)
    if match is None:
        return None
    found = match.groupdict()
    branch, number = found.get("branch"), found.get("number")
    if number is None and (parents < 2 or branch is None or _is_catching_up(branch, found.get("into"))):
        return None
    return Merge(branch, number)


def _is_catching_up(branch: str, into: str | None) -> bool:
    name = _remote.sub("", branch, count=1)
    return name in MAINLINES or name == into


def find_task(text: str) -> str | None:
    """The first task that a text names, `#123` or `ABC-123`."""
    return next((match[0] for match in _task.finditer(text) if match["project"] not in _NO_TASKS), None)


def _task_of(merge: Merge | None, subject: str) -> str | None:
    if merge is None:
        return find_task(subject)
    if merge.number:
        return f"#{merge.number}"
    return find_task(merge.branch or "") or as_name(merge.branch)


def _tell_commit(record: Record, sha: str) -> _Told:
    subject, body = as_text(record.get("subject")) or "", as_text(record.get("body")) or ""
    parents = record.get("parents")
    merge = find_merge(subject, parents=len(parents) if isinstance(parents, list) else 0)
    times, reverted, mended = count_reverts(subject, body), find_reverted(body), _as_sha(record.get("recovers"))
    kind = "fleet.pr_merge" if merge else "fleet.commit"
    if times:
        kind = "fleet.error" if times % 2 else "fleet.recovery"
    elif mended:
        kind = "fleet.recovery"
    return _Told(
        kind=kind,
        key=sha,
        cause=_as_sha(reverted) or mended,
        task=_task_of(merge, subject),
        derived=without_none(branch=merge.branch if merge else None, reverts=reverted),
    )


def _tell_collab(record: Record, sha: str) -> _Told:
    part = record["n"] if "n" in record else record.get("author")
    return _Told(kind="fleet.collab", key=f"{sha}\0with\0{part}", cause=sha, task=find_task(as_text(record.get("subject")) or ""))


def _tell_tag(record: Record, sha: str) -> _Told:
    own = _as_sha(record.get("object")) or sha
    return _Told(kind="fleet.milestone", key=f"tag\0{need_text(record, 'tag')}\0{own}", cause=sha)


_TYPES: Mapping[str, Callable[[Record, str], _Told]] = {COMMIT: _tell_commit, COLLAB: _tell_collab, TAG: _tell_tag}


def _read(record: Record) -> Event:
    own_type, sha = need_text(record, "type"), need_text(record, "sha")
    if own_type not in _TYPES:
        raise DialectError("$.type", f"not one of {', '.join(_TYPES)}: {own_type[:40]!r}")
    if _as_sha(sha) is None:
        raise DialectError("$.sha", f"not the full name of a commit: {sha[:40]!r}")
    told = _TYPES[own_type](record, sha)
    agent = as_name(record.get("author")) or as_name(record.get("email"))
    at = read_time(record.get("authored")) or read_time(record.get("committed"))
    own_time = as_text(record.get("authored"))
    return Event(
        id=derive_id(NAME, told.key.encode()),
        at=at,
        kind=told.kind,
        actor=agent or NAME,
        agent=agent,
        task=told.task,
        cause=None if told.cause is None else event_id(told.cause),
        text=_text(record),
        data={"sha": sha, **{key: record[key] for key in BESIDE if record.get(key) is not None}, **told.derived},
        origin=Origin(dialect=NAME, at=None if at is None or own_time == _write_time(at) else own_time),
    )


def _as_sha(value: object) -> str | None:
    return value if isinstance(value, str) and _sha.fullmatch(value) else None


def _text(record: Record) -> str | None:
    subject, tag = as_text(record.get("subject")), as_text(record.get("tag")) if record["type"] == TAG else None
    if tag is None or (subject and subject.startswith(tag)):
        return subject
    return f"{tag}: {subject}" if subject else tag


def _write(event: Event, town: str) -> Record | None:
    origin = own_origin(event, NAME)
    if origin is None:
        return None
    own_type = {"fleet.collab": COLLAB, "fleet.milestone": TAG}.get(event.kind, COMMIT)
    return without_none(
        type=own_type,
        sha=event.data.get("sha"),
        author=event.agent,
        authored=origin.at or (None if event.at is None else _write_time(event.at)),
        subject=_subject(event, own_type),
        **{key: event.data.get(key) for key in BESIDE},
    )


def _subject(event: Event, own_type: str) -> str | None:
    tag = as_text(event.data.get("tag"))
    if own_type != TAG or tag is None or event.text is None:
        return event.text
    return None if event.text == tag else event.text.removeprefix(f"{tag}: ")


def _write_time(at: datetime) -> str:
    return write_time(at).replace(".000000Z", "Z")


DIALECT = Dialect(name=NAME, style=COMPACT, read=_read, write=_write)
"""One record of a history; only what came from a repository can be written again."""
