"""`git`: a repository's history as `ingest` extracts it, one JSON object per commit, co-author or tag.

The only module that interprets commit messages: reverts, merges, task names.
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

EXTRA_KEYS = (
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
    "branch_author",
    "shallow",
    "n",
    "with",
    "tag",
    "object",
)
"""Record fields that are in `data` under the same name, in the order in which they are written."""

MAIN_BRANCHES = frozenset(("main", "master", "trunk", "develop", "dev", "default"))
"""Merging one of these into another branch is an update, not a delivery."""

_NOT_TASK_PREFIXES = frozenset(
    ("UTF", "SHA", "ISO", "RFC", "PEP", "CVE", "CWE", "AES", "RSA", "TLS", "GPT", "IEEE", "HTTP", "ECMA", "ES", "CP", "MD", "UCS")
)
"""Names of standards that look like a project key."""

_SHA_PATTERN = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_TASK_PATTERN = re.compile(r"(?<![\w&#])#(?P<number>[1-9][0-9]{0,8})\b|\b(?P<project>[A-Z][A-Z0-9]{1,9})-[1-9][0-9]{0,8}\b(?!\.\w|-[0-9])")
_REVERT_OR_REAPPLY_PATTERN = re.compile(r'(?:(?P<revert>Revert)(?:\^(?P<times>[1-9][0-9]?))?|Re-?apply|Re-?land) "', re.IGNORECASE)
_REAPPLY_PATTERN = re.compile(r"re-?(?:apply|land)", re.IGNORECASE)
_REVERT_PREFIX_PATTERN = re.compile(r"revert(?:\([^)]*\))?!?:", re.IGNORECASE)
_REVERTED_COMMIT_PATTERN = re.compile(r"\s*This reverts\s+(?:merge\s+)?commits?\s+(?P<sha>[0-9a-f]{7,64})\b")
_FIXED_COMMIT_PATTERN = re.compile(
    r"\b(?:fix(?:es|ed)?|re-?appl(?:y|ies|ied)|re-?land(?:s|ed)?|restores?d?)\b:?\s+(?:commit\s+)?(?P<sha>[0-9a-f]{7,64})\b", re.IGNORECASE
)
_VERSION_PATTERN = re.compile(
    r"(?:.*[/@_-])?(?:v[0-9]+(?:\.[0-9]+)*|[0-9]+(?:\.[0-9]+)+)(?:[a-z][0-9a-z]*)?(?:[-._+][0-9a-z]+)*", re.IGNORECASE
)
_REMOTE_PREFIX_PATTERN = re.compile(r"(?:origin|upstream)/")
_MERGE_PATTERNS = tuple(
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


_TITLE_IN_BODY_PATTERN = re.compile(r"Merge pull request #[0-9]+ from ")
"""GitHub puts the pull request's title into the first line of the body."""


class _RecordFacts(NamedTuple):
    """The parts of an event that depend on the record's type."""

    kind: str
    key: str
    """Input of its id: the same in every clone."""
    cause: str | None = None
    """The commit that caused it."""
    task: str | None = None
    derived: Mapping[str, Any] = {}


class MergeSubject(NamedTuple):
    """What a merge commit's subject names."""

    branch: str | None
    number: str | None


def commit_event_id(sha: str) -> str:
    """Return the id of a commit's event."""
    return derive_id(NAME, sha.encode())


def find_reverted_commit(body: str) -> str | None:
    """Return the commit that a message says it reverts, as written there."""
    match = _REVERTED_COMMIT_PATTERN.match(body)
    return match["sha"] if match else None


def find_fixed_commits(message: str) -> list[str]:
    """Return the commits that a message says it fixes or reapplies, as written there."""
    return [match["sha"].lower() for match in _FIXED_COMMIT_PATTERN.finditer(message)]


def is_version_tag(tag: str) -> bool:
    """Return whether a tag names a release: `v1`, `1.2`, `door-1.2.3-rc1`, `door/v2.0`."""
    return len(tag) <= 200 and _VERSION_PATTERN.fullmatch(tag) is not None


def count_reverts(subject: str, body: str) -> int:
    """Return how often a commit reverts its work: odd: it is reverted; even: it is reapplied; 0: not a revert."""
    times, rest = 0, subject
    while match := _REVERT_OR_REAPPLY_PATTERN.match(rest):
        times += int(match["times"] or 1) if match["revert"] else 2
        rest = rest[match.end() :]
    if times:
        return times
    if find_reverted_commit(body) is None and not _REVERT_PREFIX_PATTERN.match(subject):
        return 0
    return 2 if _REAPPLY_PATTERN.match(subject) else 1


def find_merge(subject: str, *, parents: int) -> MergeSubject | None:
    """Return what was merged, if the subject reads like the merge of a branch or pull request."""
    match = next((match for pattern in _MERGE_PATTERNS if (match := pattern.match(subject))), None)
    if match is None:
        return None
    groups = match.groupdict()
    branch, number = groups.get("branch"), groups.get("number")
    if number is None and (parents < 2 or branch is None or _is_update_merge(branch, groups.get("into"))):
        return None
    return MergeSubject(branch, number)


def _is_update_merge(branch: str, into: str | None) -> bool:
    name = _REMOTE_PREFIX_PATTERN.sub("", branch, count=1)
    return name in MAIN_BRANCHES or name == into


def find_task(text: str) -> str | None:
    """Return the first task that a text names, `#123` or `ABC-123`."""
    return next((match[0] for match in _TASK_PATTERN.finditer(text) if match["project"] not in _NOT_TASK_PREFIXES), None)


def _find_commit_task(merge: MergeSubject | None, subject: str) -> str | None:
    if merge is None:
        return find_task(subject)
    return f"#{merge.number}" if merge.number else find_task(merge.branch or "")


def _parse_commit(record: Record, sha: str) -> _RecordFacts:
    subject, body = as_text(record.get("subject")) or "", as_text(record.get("body")) or ""
    parents = record.get("parents")
    merge = find_merge(subject, parents=len(parents) if isinstance(parents, list) else 0)
    times, reverted, fixed = count_reverts(subject, body), find_reverted_commit(body), _as_sha(record.get("recovers"))
    kind = "fleet.pr_merge" if merge else "fleet.commit"
    if times:
        kind = "fleet.error" if times % 2 else "fleet.recovery"
    elif fixed:
        kind = "fleet.recovery"
    return _RecordFacts(
        kind=kind,
        key=sha,
        cause=_as_sha(reverted) or fixed,
        task=_find_commit_task(merge, subject),
        derived=without_none(reverts=reverted, **(_describe_merge(merge, record, body) if merge and kind == "fleet.pr_merge" else {})),
    )


def _describe_merge(merge: MergeSubject, record: Record, body: str) -> dict[str, Any]:
    """What was merged. Who merged is kept beside the author of the branch, who is the event's agent."""
    merged_by = as_name(record.get("author")) if as_name(record.get("branch_author")) else None
    title = body.partition("\n")[0].strip() if merge.number and _TITLE_IN_BODY_PATTERN.match(as_text(record.get("subject")) or "") else ""
    return {"branch": merge.branch, "number": merge.number, "merged_by": merged_by, "title": title or None}


def _parse_collab(record: Record, sha: str) -> _RecordFacts:
    part = record["n"] if "n" in record else record.get("author")
    return _RecordFacts(kind="fleet.collab", key=f"{sha}\0with\0{part}", cause=sha, task=find_task(as_text(record.get("subject")) or ""))


def _parse_tag(record: Record, sha: str) -> _RecordFacts:
    own = _as_sha(record.get("object")) or sha
    return _RecordFacts(kind="fleet.milestone", key=f"tag\0{need_text(record, 'tag')}\0{own}", cause=sha)


_PARSER_BY_TYPE: Mapping[str, Callable[[Record, str], _RecordFacts]] = {COMMIT: _parse_commit, COLLAB: _parse_collab, TAG: _parse_tag}


def _read_record(record: Record) -> Event:
    own_type, sha = need_text(record, "type"), need_text(record, "sha")
    if own_type not in _PARSER_BY_TYPE:
        raise DialectError("$.type", f"not one of {', '.join(_PARSER_BY_TYPE)}: {own_type[:40]!r}")
    if _as_sha(sha) is None:
        raise DialectError("$.sha", f"not the full name of a commit: {sha[:40]!r}")
    facts = _PARSER_BY_TYPE[own_type](record, sha)
    merger = as_name(record.get("author")) or as_name(record.get("email"))
    agent = as_name(record.get("branch_author")) if facts.kind == "fleet.pr_merge" else None
    agent = agent or merger
    at = read_time(record.get("authored")) or read_time(record.get("committed"))
    own_time = as_text(record.get("authored"))
    return Event(
        id=derive_id(NAME, facts.key.encode()),
        at=at,
        kind=facts.kind,
        actor=merger or NAME,
        agent=agent,
        task=facts.task,
        cause=None if facts.cause is None else commit_event_id(facts.cause),
        text=_find_text(record),
        data={"sha": sha, **{key: record[key] for key in EXTRA_KEYS if record.get(key) is not None}, **facts.derived},
        origin=Origin(dialect=NAME, at=None if at is None or own_time == _write_time(at) else own_time),
    )


def _as_sha(value: object) -> str | None:
    return value if isinstance(value, str) and _SHA_PATTERN.fullmatch(value) else None


def _find_text(record: Record) -> str | None:
    subject, tag = as_text(record.get("subject")), as_text(record.get("tag")) if record["type"] == TAG else None
    if tag is None or (subject and subject.startswith(tag)):
        return subject
    return f"{tag}: {subject}" if subject else tag


def _write_record(event: Event, town: str) -> Record | None:
    origin = own_origin(event, NAME)
    if origin is None:
        return None
    own_type = {"fleet.collab": COLLAB, "fleet.milestone": TAG}.get(event.kind, COMMIT)
    return without_none(
        type=own_type,
        sha=event.data.get("sha"),
        author=event.data.get("merged_by") if event.kind == "fleet.pr_merge" and event.data.get("merged_by") else event.agent,
        authored=origin.at or (None if event.at is None else _write_time(event.at)),
        subject=_find_record_subject(event, own_type),
        **{key: event.data.get(key) for key in EXTRA_KEYS},
    )


def _find_record_subject(event: Event, own_type: str) -> str | None:
    tag = as_text(event.data.get("tag"))
    if own_type != TAG or tag is None or event.text is None:
        return event.text
    return None if event.text == tag else event.text.removeprefix(f"{tag}: ")


def _write_time(at: datetime) -> str:
    return write_time(at).replace(".000000Z", "Z")


DIALECT = Dialect(name=NAME, style=COMPACT, read=_read_record, write=_write_record)
"""Reads and writes one record; only events from a repository can be written."""
