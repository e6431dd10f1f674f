"""Plans of missions out of issues, as Gitea and GitHub tell them: one, a list of them, or webhooks' deliveries.

An issue that waits for one that was not handed in is a problem, and never passed over: work would begin too early. Whoever knows that
the other is done says so.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from fleetlore.errors import InvalidPlan
from fleetlore.runtime.town.plan_shape import (
    LONGEST_DESCRIPTION,
    LONGEST_TITLE,
    MOST_BYTES,
    MOST_ITEMS,
    Findings,
    MissionPlan,
    PlannedItem,
    check_links,
    check_name,
    check_size,
    shown,
    slug,
)
from fleetlore.runtime.town.plan_words import Reference, find_dependencies, infer_roles, infer_type

_MOST_BODIES = 512 * 1024
_DEEPEST = 4
"""A list of requests, each with a body, which holds an issue."""
_ADDRESS = re.compile(r"https?://([^/\s]{1,255})/(?:api/v1/repos/|repos/|api/v3/repos/)?([^/\s]{1,100}/[^/\s]{1,100})(?:/.*)?", re.DOTALL)


class Issue(NamedTuple):
    """What is needed of an issue."""

    number: int
    title: str
    body: str
    labels: tuple[str, ...]
    repository: str
    host: str
    address: str
    is_closed: bool
    is_pull: bool
    updated_at: str

    @property
    def key(self) -> tuple[str, int]:
        """By which others find it."""
        return self.repository.lower(), self.number


def read(text: str, source: str = "the issues", *, title: str = "", done: Collection[str] = ()) -> MissionPlan:
    """The mission that JSON tells: one value, or one a line. `done` names issues that need not be waited for, as in `#12`."""
    if len(text.encode(errors="replace")) > MOST_BYTES:
        raise InvalidPlan([f"{source}: over {MOST_BYTES // 1024**2} MiB; take fewer issues, or only their number, title, body and labels"])
    return from_values(_values(text, source), source, title=title, done=done)


def _values(text: str, source: str) -> list[Any]:
    try:
        return [msgspec.json.decode(text)]
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        if len(lines) < 2:
            raise InvalidPlan([f"{source}: not JSON: {error}"]) from error
    try:
        return [msgspec.json.decode(line) for number, line in lines]
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidPlan([f"{source}: not JSON, neither as a whole nor line by line: {error}"]) from error


def from_values(values: Sequence[Any], source: str = "the issues", *, title: str = "", done: Collection[str] = ()) -> MissionPlan:
    """The mission that issues, lists of them or deliveries tell; `InvalidPlan` names all that is wrong with them."""
    findings = Findings(source)
    left_out: list[str] = []
    all = _newest(_issues(findings, values), left_out)
    issues = _open(all, left_out)
    if not issues and not findings.problems:
        findings.complain((), "there is no open issue in it" + "".join(f"; {each}" for each in left_out[:3]))
    if len(issues) > MOST_ITEMS:
        findings.complain((), f"{len(issues)} issues; at most {MOST_ITEMS} are taken: make several missions of them")
        findings.stop_if_wrong()
    finder = _Finder(issues, all, done)
    items = [_item(findings, issue, finder, left_out) for issue in issues]
    check_links(findings, [((item.id,), item) for item in items])
    check_size(findings, items)
    findings.stop_if_wrong()
    title = _line(title) or _title(issues)
    return MissionPlan(id=slug(title), title=title, items=tuple(items), left_out=tuple(left_out))


def _title(issues: Sequence[Issue]) -> str:
    if len(issues) == 1:
        return issues[0].title
    repositories = dict.fromkeys(issue.repository for issue in issues if issue.repository)
    return _line(f"{len(issues)} issues{' of ' if repositories else ''}{', '.join(repositories)}")


def _issues(findings: Findings, values: Iterable[Any]) -> list[Issue]:
    found = []
    for value, around in _unwrapped(values, {}, 0):
        issue = _issue(value, around)
        if isinstance(issue, str):
            findings.complain((), issue)
        else:
            found.append(issue)
    return found


def _unwrapped(values: Iterable[Any], around: Mapping[str, Any], depth: int) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Every issue, with the delivery that it came in."""
    for value in values:
        inner = _inside(value) if depth < _DEEPEST else None
        if inner is None:
            yield value, around
        else:
            yield from _unwrapped(inner, value if isinstance(value, dict) else around, depth + 1)


def _inside(value: Any) -> list[Any] | None:
    if isinstance(value, list):
        return value
    if not isinstance(value, dict) or isinstance(value.get("title"), str):
        return None
    for key in ("issue", "pull_request", "payload", "body"):
        if isinstance(value.get(key), dict):
            return [value[key]]
    return next((value[key] for key in ("issues", "items") if isinstance(value.get(key), list)), None)


def _issue(value: Any, around: Mapping[str, Any]) -> Issue | str:
    """What is needed of an issue, or why it is none."""
    if not isinstance(value, dict):
        return f"an issue is an object with a number and a title, not {shown(repr(value)[:60])}"
    number, title = value.get("number"), value.get("title")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number < 10**12:
        keys = ", ".join(shown(key) for key in list(value)[:6]) or "nothing"
        return f"an issue has no number: it tells {keys}; hand in issues as the forge tells them"
    if not isinstance(title, str) or not title.strip():
        return f"#{number} has no title"
    address = next((url for key in ("html_url", "url") if _ADDRESS.fullmatch(url := _text(value.get(key)))), "")
    host, repository = _place(value, around, address)
    labels = value.get("labels")
    return Issue(
        number=number,
        title=_line(title),
        body=_text(value.get("body")),
        labels=tuple(_label(each) for each in labels[:100]) if isinstance(labels, list) else (),
        repository=repository,
        host=host,
        address=_line(address),
        is_closed=_text(value.get("state")).lower() == "closed",
        is_pull=isinstance(value.get("pull_request"), dict) or around.get("pull_request") is value or "/pull" in address,
        updated_at=_text(value.get("updated_at")) or _text(value.get("updatedAt")),
    )


def _place(issue: Mapping[str, Any], around: Mapping[str, Any], address: str) -> tuple[str, str]:
    """Its host and repository, where anything tells."""
    told = next((each for each in (issue.get("repository"), around.get("repository")) if isinstance(each, dict)), {})
    name = _text(told.get("full_name")) or _text(told.get("nameWithOwner"))
    for url in (address, _text(told.get("html_url")), _text(issue.get("repository_url"))):
        if found := _ADDRESS.fullmatch(url):
            return found[1].removeprefix("api.").lower(), _line(name or found[2])
    return "", _line(name)


def _label(value: Any) -> str:
    return _text(value.get("name") if isinstance(value, dict) else value)[:200]


def _text(value: Any) -> str:
    return value.encode(errors="replace").decode() if isinstance(value, str) else ""


def _line(text: str) -> str:
    """On one line, and not endless."""
    return _cut(" ".join(_text(text).split()), LONGEST_TITLE)


def _cut(text: str, most: int) -> str:
    raw = text.encode()
    return text if len(raw) <= most else raw[: most - 3].decode(errors="ignore") + "…"


def _newest(issues: Iterable[Issue], left_out: list[str]) -> list[Issue]:
    """Each once, as it was told last: deliveries tell the same issue again and again."""
    found: dict[tuple[str, int], Issue] = {}
    twice: dict[tuple[str, int], None] = {}
    for issue in issues:
        if issue.key in found:
            twice[issue.key] = None
        if issue.key not in found or issue.updated_at >= found[issue.key].updated_at:
            found[issue.key] = issue
    left_out += [f"#{number} is there several times; what was told last is taken" for _, number in twice]
    return list(found.values())


def _open(issues: Iterable[Issue], left_out: list[str]) -> list[Issue]:
    """Those to be worked on."""
    kept = []
    for issue in issues:
        if issue.is_closed or issue.is_pull:
            left_out.append(f"#{issue.number} is {'a pull request' if issue.is_pull else 'closed'}: {shown(issue.title)}")
        else:
            kept.append(issue)
    return kept


class _Finder:
    """From a name in a text to the item that is meant."""

    def __init__(self, issues: Sequence[Issue], all: Sequence[Issue], done: Collection[str]) -> None:
        self.longest = min(LONGEST_DESCRIPTION, _MOST_BODIES // max(1, len(issues)))
        """Of a body: what one append can hold is shared by all."""
        self._is_one = len({issue.repository.lower() for issue in issues}) == 1
        self._ids = {issue.key: self.id(issue) for issue in issues}
        self._over = {issue.key for issue in all if issue.is_closed}
        self._hosts = {issue.repository.lower(): issue.host for issue in issues}
        self._done = {f"#{each}" if each.isdigit() else each.lower() for each in done}

    def id(self, issue: Issue) -> str:
        """What an item is called."""
        return f"#{issue.number}" if self._is_one else f"{issue.repository}#{issue.number}"

    def find(self, said: Reference, issue: Issue) -> str | None:
        """The item that an issue waits for; nothing where it need not wait. `LookupError` where nobody knows."""
        repository = said.repository or issue.repository
        key, host = (repository.lower(), said.number), self._hosts.get(repository.lower(), "")
        is_here = not said.host or not host or said.host.lower() == host
        if is_here and (key in self._ids or key in self._over):
            return self._ids.get(key)
        names = {f"{repository}#{said.number}".lower(), str(said).lower(), *([f"#{said.number}"] if self._is_one else ())}
        if said.is_done or names & self._done:
            return None
        raise LookupError(str(said))


def _item(findings: Findings, issue: Issue, finder: _Finder, left_out: list[str]) -> PlannedItem:
    id = finder.id(issue)
    check_name(findings, (id,), id, "an id")
    waits = []
    for said in find_dependencies(issue.body):
        try:
            waits.append(finder.find(said, issue))
        except LookupError:
            name = shown(str(said))
            findings.complain((id,), f"waits for {name}, which is not among the open issues; hand it in, too, or say that it is done")
    if len(issue.body.encode()) > finder.longest:
        left_out.append(f"the end of {shown(id)}, which is longer than {finder.longest:,} bytes")
    return PlannedItem(
        id=id,
        title=issue.title,
        type=infer_type(issue.labels, issue.title),
        description=_cut(issue.body, finder.longest),
        depends_on=tuple(dict.fromkeys(each for each in waits if each)),
        roles=infer_roles(issue.labels, issue.title),
        source=issue.address,
    )
