"""Converts push and release webhooks to events: commits, branches, tags and releases.

A commit is converted as by the `git` dialect, with the same id, so a later `lore import git` adds no duplicate.
"""

from __future__ import annotations

from msgspec.structs import replace

from fleetlore.dialects import git
from fleetlore.dialects.fields import as_object, as_text, without_none
from fleetlore.dialects.forge.delivery import (
    ForgeDelivery,
    as_integer,
    as_plain_value,
    get_login,
    make_forge_kind,
    parse_first_time,
    parse_other_delivery,
    truncate_line,
    truncate_text,
)
from fleetlore.dialects.wire import Record
from fleetlore.errors import DialectError
from fleetlore.events.envelope import Event
from fleetlore.events.ids import derive_id

MAX_FILES = 20
BRANCH_PREFIX, TAG_PREFIX = "refs/heads/", "refs/tags/"


def parse_push(delivery: ForgeDelivery) -> list[Event]:
    """Convert a push to one event per commit, then one for the push."""
    payload = delivery.payload
    ref, after = as_text(payload.get("ref")), as_text(payload.get("after"))
    if ref is None or after is None:
        return parse_other_delivery(delivery)
    if not after.strip("0"):  # forges send an id of zeros for a ref that was deleted
        return [_make_deletion_event(delivery, ref, after)]
    if ref.startswith(TAG_PREFIX):
        return [_make_tag_event(delivery, ref.removeprefix(TAG_PREFIX), after)]
    pushed = payload.get("commits")
    pushed = pushed if isinstance(pushed, list) else []
    commits = [event for commit in pushed if (event := _make_commit_event(delivery, as_object(commit)))]
    return [*commits, _make_push_event(delivery, ref, after, commits, total=as_integer(payload.get("total_commits")) or len(pushed))]


def _make_deletion_event(delivery: ForgeDelivery, ref: str, after: str) -> Event:
    payload, name = delivery.payload, ref.removeprefix(BRANCH_PREFIX).removeprefix(TAG_PREFIX)
    before = as_plain_value(payload.get("before"))
    return delivery.make_event(
        make_forge_kind("push", "deleted"),
        delivery.derive_event_id("push", ref, after, before),
        at=parse_first_time(as_object(payload.get("repository")).get("pushed_at")),
        text=f"{name} deleted",
        data={"tag" if ref.startswith(TAG_PREFIX) else "branch": name[:200], "before": before, "after": after[:64]},
        visibility="system",
    )


def _make_push_event(delivery: ForgeDelivery, ref: str, after: str, commits: list[Event], *, total: int) -> Event:
    payload, branch = delivery.payload, ref.removeprefix(BRANCH_PREFIX)
    head, repository = as_object(payload.get("head_commit")), as_object(payload.get("repository"))
    data: Record = {
        "branch": branch[:200],
        "before": as_plain_value(payload.get("before")),
        "after": after[:64],
        "commits": total,
        "forced": as_plain_value(payload.get("forced")) or None,
        "created": as_plain_value(payload.get("created")) or None,
        "url": as_plain_value(payload.get("compare")) or as_plain_value(payload.get("compare_url")),
    }
    tasks = {event.task for event in commits}
    task = git.find_task(branch[:200]) or (tasks.pop() if len(tasks) == 1 else None)
    at = parse_first_time(
        repository.get("pushed_at"), head.get("timestamp"), *(event.at and event.at.isoformat() for event in commits[::-1])
    )
    summary = f"{total} commit{'' if total == 1 else 's'} to {branch}"
    agent = get_login(payload.get("pusher")) or delivery.sender
    # Includes the previous head: a branch may be reset and pushed to the same head again.
    id = delivery.derive_event_id("push", ref, after, data["before"] or "")
    return delivery.make_event("fleet.push", id, at=at, text=summary, data=data, agent=agent, task=task)


def _make_commit_event(delivery: ForgeDelivery, commit: Record) -> Event | None:
    message = as_text(commit.get("message")) or ""
    subject, _, body = message.strip().partition("\n")
    author, committer = as_object(commit.get("author")), as_object(commit.get("committer"))
    has_other_committer = committer.get("name") != author.get("name")
    files = _list_changed_files(commit)
    record = without_none(
        type=git.COMMIT,
        sha=commit.get("id"),
        author=author.get("name"),
        authored=commit.get("timestamp"),
        subject=truncate_line(subject),
        email=truncate_text(author.get("email")),
        committer=truncate_text(committer.get("name")) if has_other_committer else None,
        committer_email=truncate_text(committer.get("email")) if has_other_committer else None,
        body=truncate_text(body.strip()),
        files=files[:MAX_FILES] or None,
        changed=len(files) or None,
    )
    try:
        event = git.DIALECT.read(record)
    except DialectError:
        return None  # not a commit sha; the push still counts it
    extra = without_none(login=get_login({"username": author.get("username")}), url=as_plain_value(commit.get("url")), forge=delivery.forge)
    return replace(event, mission=delivery.repository, data=event.data | extra, origin=delivery.origin)


def _list_changed_files(commit: Record) -> list[str]:
    lists = (commit.get(key) for key in ("added", "modified", "removed"))
    return [name for names in lists if isinstance(names, list) for raw in names if (name := truncate_text(raw))]


def _make_tag_event(delivery: ForgeDelivery, tag: str, object_id: str) -> Event:
    """Make a milestone for a version tag, with the id that the `git` dialect gives it; another tag becomes a system event."""
    head = as_object(delivery.payload.get("head_commit"))
    at = parse_first_time(as_object(delivery.payload.get("repository")).get("pushed_at"), head.get("timestamp"))
    agent = get_login(delivery.payload.get("pusher")) or delivery.sender
    data = {"tag": tag[:200], "sha": as_plain_value(head.get("id")) or object_id[:64]}
    if not git.is_version_tag(tag):
        return delivery.make_event(
            make_forge_kind("push", "tag"), delivery.derive_event_id("tag", tag, object_id), at=at, text=tag, data=data, visibility="system"
        )
    id = derive_id(git.NAME, f"tag\0{tag}\0{object_id}".encode())
    return delivery.make_event("fleet.milestone", id, at=at, text=tag, data=data, agent=agent)


def parse_release(delivery: ForgeDelivery) -> list[Event]:
    """Convert a published release to a milestone; drafts and edits become short system events."""
    release = as_object(delivery.payload.get("release"))
    if delivery.action != "published":
        return parse_other_delivery(delivery)
    tag, name = truncate_text(release.get("tag_name")), truncate_text(release.get("name"))
    data = {
        "tag": tag,
        "title": name,
        "notes": truncate_text(release.get("body")) or truncate_text(release.get("note")),
        "url": as_plain_value(release.get("html_url")),
        "prerelease": as_plain_value(release.get("prerelease")) or None,
    }
    at = parse_first_time(release.get("published_at"), release.get("created_at"))
    id = delivery.derive_event_id("release", as_plain_value(release.get("id")) or tag, "published")
    agent = get_login(release.get("author")) or delivery.sender
    return [delivery.make_event("fleet.milestone", id, at=at, text=f"release {name or tag or ''}", data=data, agent=agent)]
