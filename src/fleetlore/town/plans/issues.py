"""Builds mission plans from Gitea and GitHub issues in JSON: one issue, a list, or webhook deliveries.

An issue that depends on one that is not in the input is an error, because work would start too early. The caller can name
issues that are done.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, NamedTuple

import msgspec

from fleetlore.documents.document import Document
from fleetlore.documents.validation import make_excerpt
from fleetlore.errors import InvalidPlan
from fleetlore.town.plans.model import (
    MAX_DESCRIPTION_BYTES,
    MAX_ITEMS,
    MAX_PLAN_BYTES,
    MAX_TITLE_BYTES,
    PLAN,
    MissionPlan,
    PlannedItem,
    check_dependencies,
    check_name,
    check_total_size,
    slugify_title,
)

# --- Reading an issue's text: dependencies, type of work, role


class IssueReference(NamedTuple):
    """A reference to an issue in a text: `#12`, `owner/repo#12`, or a URL."""

    number: int
    repository: str = ""
    host: str = ""
    is_done: bool = False
    """Whether its checkbox is ticked."""

    def __str__(self) -> str:
        place = f"{self.host}/{self.repository}" if self.host else self.repository
        return f"{place}#{self.number}"


_IGNORED_TEXT = re.compile(
    r"<!--.*?(?:-->|\Z)"  # comments of an issue template
    r"|^[ \t]*(?P<fence>`{3,}+|~{3,}+)[^\n]*\n.*?(?:^[ \t]*(?P=fence)[^\n]*$|\Z)"
    r"|`[^`\n]+`"
    r"|~~[^~\n]+~~"
    r"|^[ \t]*>[^\n]*$",
    re.DOTALL | re.MULTILINE,
)
"""Text that makes no statement: comments, code, strikethrough, quotes."""
_DEPENDENCY_PHRASE = re.compile(
    r"(?P<no>(?:\bno longer|\bnot|\bnever|n['’]t)\s{1,9})?"
    r"(?<![\w-])(?:depends[ \t-]+on|blocked[ \t-]+by|requires|after)(?![\w-])[*_]*[ \t]*:?[*_]*",
    re.IGNORECASE,
)
_NAME = r"[\w.-]{1,100}"
_REFERENCE = re.compile(
    rf"\[?(?:https?://(?P<host>[\w.:-]{{1,255}})/(?P<path>{_NAME}/{_NAME})/(?:issues|pulls?)/(?P<linked>[0-9]{{1,12}})"
    rf"|(?P<repository>{_NAME}/{_NAME})?\#(?P<number>[0-9]{{1,12}}))(?![\w-])(?:[?#][^\s)\]]{{0,200}})?\]?(?:\([^()\s]{{0,500}}\))?",
)
_BULLET = r"(?:[-*+]|[0-9]{1,9}[.)])[ \t]+"
_CHECKBOX = r"\[(?P<tick>[ xX])\][ \t]+"
_TASK_LIST_ITEM = re.compile(rf"^[ \t]*{_BULLET}{_CHECKBOX}", re.MULTILINE)
_ISSUE_NOUN = r"(?:(?:the[ \t]+)?(?:issue|ticket|task|pull[ \t]+request|pr)s?[ \t]+)?"
_FIRST_REFERENCE_LEAD = re.compile(rf"\s*(?P<bullet>{_BULLET}(?:{_CHECKBOX})?)?{_ISSUE_NOUN}", re.IGNORECASE)
_NEXT_REFERENCE_LEAD = re.compile(rf"[ \t]*(?:,?[ \t]*\band\b|[,;&+])(?P<tick>)\s*{_ISSUE_NOUN}", re.IGNORECASE)
_NEXT_BULLET = re.compile(rf"[^\n]*\n[ \t]*{_BULLET}(?:{_CHECKBOX})?")


def find_dependencies(body: str) -> list[IssueReference]:
    """The issues that a text says it depends on, each once, in order."""
    text = _IGNORED_TEXT.sub(lambda references: " " * len(references[0]), body)
    references = sorted((*_find_phrase_references(text), *_find_checkbox_references(text)), key=lambda reference: reference[0])
    unique: dict[tuple[int, str, str], IssueReference] = {}
    for _, reference in references:
        unique.setdefault((reference.number, reference.repository.lower(), reference.host.lower()), reference)
    return list(unique.values())


def _find_phrase_references(text: str) -> Iterator[tuple[int, IssueReference]]:
    """References after "depends on" and the like."""
    for phrase in _DEPENDENCY_PHRASE.finditer(text):
        if phrase["no"]:
            continue
        lead = _FIRST_REFERENCE_LEAD.match(text, phrase.end())
        next_lead = _NEXT_BULLET if lead and lead["bullet"] else _NEXT_REFERENCE_LEAD
        while lead and (match := _REFERENCE.match(text, lead.end())):
            yield match.start(), _build_reference(match, lead["tick"])
            lead = next_lead.match(text, match.end())


def _find_checkbox_references(text: str) -> Iterator[tuple[int, IssueReference]]:
    """References in task lists: the issue depends on them."""
    for box in _TASK_LIST_ITEM.finditer(text):
        if match := _REFERENCE.match(text, box.end()):
            yield match.start(), _build_reference(match, box["tick"])


def _build_reference(match: re.Match[str], tick: str | None) -> IssueReference:
    return IssueReference(
        number=int(match["linked"] or match["number"]),
        repository=match["path"] or match["repository"] or "",
        host=match["host"] or "",
        is_done=tick in ("x", "X"),
    )


_TYPE_BY_WORD: Mapping[str, str] = {
    word: type
    for type, words in {
        "design": "design architecture rfc proposal spec specification",
        "implement": "implement implementation feature bug bugfix fix fixes enhancement refactor refactoring chore build create support",
        "test": "test tests testing qa coverage",
        "review": "review audit",
        "merge_gate": "merge-gate mergegate",
        "follow_up": "follow-up followup",
    }.items()
    for word in words.split()
}
_ROLE_BY_WORD: Mapping[str, str] = {
    word: role
    for role, words in {
        "backend": "backend back-end api server database",
        "frontend": "frontend front-end ui ux css",
        "tester": "tester qa",
        "reviewer": "reviewer",
        "devops": "devops infra infrastructure ci deployment docker",
        "researcher": "researcher research",
    }.items()
    for word in words.split()
}
_EXPLICIT_LABEL = re.compile(r"\s*(type|kind|role)\s*[:/=]\s*(.+?)\s*", re.IGNORECASE)


def infer_type(labels: Iterable[str], title: str) -> str:
    """The type of work from labels or title; `implement` if neither says."""
    for label in labels:
        if explicit := _EXPLICIT_LABEL.fullmatch(label[:200]):
            label = explicit[2] if explicit[1].lower() != "role" else ""
        if type := _find_first_known(_TYPE_BY_WORD, _split_words(label)):
            return type
    words = _split_words(title)
    # "Add a page of reviews" is no review: that word counts only at the start of a title.
    return (
        _find_first_known(_TYPE_BY_WORD, [word for index, word in enumerate(words) if not index or _TYPE_BY_WORD.get(word) != "review"])
        or "implement"
    )


def infer_roles(labels: Iterable[str], title: str) -> tuple[str, ...]:
    """Roles from labels such as `role: backend`, else from a known word in labels or title; empty means any agent."""
    stated = [found[2].lower() for label in labels if (found := _EXPLICIT_LABEL.fullmatch(label[:200])) and found[1].lower() == "role"]
    known = (role for text in (*labels, title) if (role := _find_first_known(_ROLE_BY_WORD, _split_words(text))))
    return tuple(dict.fromkeys(stated)) or tuple(islice(known, 1))


def _split_words(text: str) -> list[str]:
    """The lower-case words; known pairs (`follow up`, `merge gate`, `front-end`) become one word."""
    words = re.findall(r"[^\W_]+", text.lower())
    pairs = [f"{first}-{second}" for first, second in pairwise((*words, ""))]
    return [pair if pair in _TYPE_BY_WORD or pair in _ROLE_BY_WORD else word for word, pair in zip(words, pairs, strict=True)]


def _find_first_known(known: Mapping[str, str], words: Iterable[str]) -> str | None:
    return next((known[word] for word in words if word in known), None)


# --- Building the plan

_MAX_BODIES_BYTES = 512 * 1024
_MAX_NESTING = 4
"""A list of requests, each with a body that holds an issue."""
_ISSUE_URL = re.compile(r"https?://([^/\s]{1,255})/(?:api/v1/repos/|repos/|api/v3/repos/)?([^/\s]{1,100}/[^/\s]{1,100})(?:/.*)?", re.DOTALL)


class Issue(NamedTuple):
    """The fields of an issue that a plan needs."""

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
        """Identifies the issue within the input."""
        return self.repository.lower(), self.number


def parse_issues(text: str, source: str = "the issues", *, title: str = "", done: Collection[str] = ()) -> MissionPlan:
    """Build a plan from JSON text, one value or one per line. `done` names finished issues, such as `#12`. Raises `InvalidPlan`."""
    if len(text.encode(errors="replace")) > MAX_PLAN_BYTES:
        raise InvalidPlan(
            [f"{source}: over {MAX_PLAN_BYTES // 1024**2} MiB; use fewer issues, or only their number, title, body and labels"]
        )
    return build_plan_from_issues(_decode_json_values(text, source), source, title=title, done=done)


def _decode_json_values(text: str, source: str) -> list[Any]:
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


def build_plan_from_issues(
    values: Sequence[Any], source: str = "the issues", *, title: str = "", done: Collection[str] = ()
) -> MissionPlan:
    """Build a plan from issues, lists of issues or deliveries; `InvalidPlan` lists everything that is wrong."""
    document = Document(source, None, PLAN)
    left_out: list[str] = []
    all_issues = _keep_newest(_collect_issues(document, values), left_out)
    issues = _keep_open_issues(all_issues, left_out)
    if not issues and not document.errors:
        document.add_error((), "it contains no open issue" + "".join(f"; {each}" for each in left_out[:3]))
    if len(issues) > MAX_ITEMS:
        document.add_error((), f"{len(issues)} issues; at most {MAX_ITEMS} are allowed: split them into several missions")
        document.raise_if_invalid()
    resolver = _DependencyResolver(issues, all_issues, done)
    items = [_build_item(document, issue, resolver, left_out) for issue in issues]
    check_dependencies(document, [((item.id,), item) for item in items])
    check_total_size(document, items)
    document.raise_if_invalid()
    title = _truncate_line(title) or _build_title(issues)
    return MissionPlan(id=slugify_title(title), title=title, items=tuple(items), left_out=tuple(left_out))


def _build_title(issues: Sequence[Issue]) -> str:
    if len(issues) == 1:
        return issues[0].title
    repositories = dict.fromkeys(issue.repository for issue in issues if issue.repository)
    return _truncate_line(f"{len(issues)} issues{' of ' if repositories else ''}{', '.join(repositories)}")


def _collect_issues(document: Document, values: Iterable[Any]) -> list[Issue]:
    issues = []
    for value, delivery in _unwrap_deliveries(values, {}, 0):
        issue = _parse_issue(value, delivery)
        if isinstance(issue, str):
            document.add_error((), issue)
        else:
            issues.append(issue)
    return issues


def _unwrap_deliveries(values: Iterable[Any], delivery: Mapping[str, Any], depth: int) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Yield each issue with the delivery that contained it."""
    for value in values:
        inner = _unwrap_value(value) if depth < _MAX_NESTING else None
        if inner is None:
            yield value, delivery
        else:
            yield from _unwrap_deliveries(inner, value if isinstance(value, dict) else delivery, depth + 1)


def _unwrap_value(value: Any) -> list[Any] | None:
    if isinstance(value, list):
        return value
    if not isinstance(value, dict) or isinstance(value.get("title"), str):
        return None
    for key in ("issue", "pull_request", "payload", "body"):
        if isinstance(value.get(key), dict):
            return [value[key]]
    return next((value[key] for key in ("issues", "items") if isinstance(value.get(key), list)), None)


def _parse_issue(value: Any, delivery: Mapping[str, Any]) -> Issue | str:
    """The issue, or an error message."""
    if not isinstance(value, dict):
        return f"an issue is an object with a number and a title, not {make_excerpt(repr(value)[:60])}"
    number, title = value.get("number"), value.get("title")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number < 10**12:
        keys = ", ".join(make_excerpt(key) for key in list(value)[:6]) or "nothing"
        return f"an issue has no number, only {keys}; pass issues as the forge's API returns them"
    if not isinstance(title, str) or not title.strip():
        return f"#{number} has no title"
    address = next((url for key in ("html_url", "url") if _ISSUE_URL.fullmatch(url := _get_text(value.get(key)))), "")
    host, repository = _find_repository(value, delivery, address)
    labels = value.get("labels")
    return Issue(
        number=number,
        title=_truncate_line(title),
        body=_get_text(value.get("body")),
        labels=tuple(_label_name(each) for each in labels[:100]) if isinstance(labels, list) else (),
        repository=repository,
        host=host,
        address=_truncate_line(address),
        is_closed=_get_text(value.get("state")).lower() == "closed",
        is_pull=isinstance(value.get("pull_request"), dict) or delivery.get("pull_request") is value or "/pull" in address,
        updated_at=_get_text(value.get("updated_at")) or _get_text(value.get("updatedAt")),
    )


def _find_repository(issue: Mapping[str, Any], delivery: Mapping[str, Any], address: str) -> tuple[str, str]:
    """The host and repository from the issue, its delivery or its URL; empty strings if unknown."""
    fields = next((each for each in (issue.get("repository"), delivery.get("repository")) if isinstance(each, dict)), {})
    name = _get_text(fields.get("full_name")) or _get_text(fields.get("nameWithOwner"))
    for url in (address, _get_text(fields.get("html_url")), _get_text(issue.get("repository_url"))):
        if match := _ISSUE_URL.fullmatch(url):
            return match[1].removeprefix("api.").lower(), _truncate_line(name or match[2])
    return "", _truncate_line(name)


def _label_name(value: Any) -> str:
    return _get_text(value.get("name") if isinstance(value, dict) else value)[:200]


def _get_text(value: Any) -> str:
    return value.encode(errors="replace").decode() if isinstance(value, str) else ""


def _truncate_line(text: str) -> str:
    """Collapse whitespace to one line and truncate it."""
    return _truncate_bytes(" ".join(_get_text(text).split()), MAX_TITLE_BYTES)


def _truncate_bytes(text: str, max_bytes: int) -> str:
    raw = text.encode()
    return text if len(raw) <= max_bytes else raw[: max_bytes - 3].decode(errors="ignore") + "…"


def _keep_newest(issues: Iterable[Issue], left_out: list[str]) -> list[Issue]:
    """Keep the newest version of each issue: deliveries repeat them."""
    newest: dict[tuple[str, int], Issue] = {}
    repeated: dict[tuple[str, int], None] = {}
    for issue in issues:
        if issue.key in newest:
            repeated[issue.key] = None
        if issue.key not in newest or issue.updated_at >= newest[issue.key].updated_at:
            newest[issue.key] = issue
    left_out += [f"#{number} appears several times; the last version is used" for _, number in repeated]
    return list(newest.values())


def _keep_open_issues(issues: Iterable[Issue], left_out: list[str]) -> list[Issue]:
    open_issues = []
    for issue in issues:
        if issue.is_closed or issue.is_pull:
            left_out.append(f"#{issue.number} is {'a pull request' if issue.is_pull else 'closed'}: {make_excerpt(issue.title)}")
        else:
            open_issues.append(issue)
    return open_issues


class _DependencyResolver:
    """Resolves references in texts to items of the plan."""

    def __init__(self, issues: Sequence[Issue], all_issues: Sequence[Issue], done: Collection[str]) -> None:
        self.max_body_bytes = min(MAX_DESCRIPTION_BYTES, _MAX_BODIES_BYTES // max(1, len(issues)))
        """Limit per body, so that all of them fit into one append."""
        self._has_single_repository = len({issue.repository.lower() for issue in issues}) == 1
        self._item_ids = {issue.key: self.item_id(issue) for issue in issues}
        self._closed_keys = {issue.key for issue in all_issues if issue.is_closed}
        self._hosts = {issue.repository.lower(): issue.host for issue in issues}
        self._done_names = {f"#{each}" if each.isdigit() else each.lower() for each in done}

    def item_id(self, issue: Issue) -> str:
        """The item id for an issue; includes the repository if there are several."""
        return f"#{issue.number}" if self._has_single_repository else f"{issue.repository}#{issue.number}"

    def resolve_reference(self, reference: IssueReference, issue: Issue) -> str | None:
        """The item that a reference means; `None` if that issue is done. Raises `LookupError` if it is unknown."""
        repository = reference.repository or issue.repository
        key, host = (repository.lower(), reference.number), self._hosts.get(repository.lower(), "")
        is_same_host = not reference.host or not host or reference.host.lower() == host
        if is_same_host and (key in self._item_ids or key in self._closed_keys):
            return self._item_ids.get(key)
        names = {
            f"{repository}#{reference.number}".lower(),
            str(reference).lower(),
            *([f"#{reference.number}"] if self._has_single_repository else ()),
        }
        if reference.is_done or names & self._done_names:
            return None
        raise LookupError(str(reference))


def _build_item(document: Document, issue: Issue, resolver: _DependencyResolver, left_out: list[str]) -> PlannedItem:
    id = resolver.item_id(issue)
    check_name(document, (id,), id, "an id")
    dependencies = []
    for reference in find_dependencies(issue.body):
        try:
            dependencies.append(resolver.resolve_reference(reference, issue))
        except LookupError:
            name = make_excerpt(str(reference))
            document.add_error((id,), f"waits for {name}, which is not among the open issues; add it, or name it with --done")
    if len(issue.body.encode()) > resolver.max_body_bytes:
        left_out.append(f"the end of {make_excerpt(id)}, which is longer than {resolver.max_body_bytes:,} bytes")
    return PlannedItem(
        id=id,
        title=issue.title,
        type=infer_type(issue.labels, issue.title),
        description=_truncate_bytes(issue.body, resolver.max_body_bytes),
        depends_on=tuple(dict.fromkeys(each for each in dependencies if each)),
        roles=infer_roles(issue.labels, issue.title),
        source=issue.address,
    )
