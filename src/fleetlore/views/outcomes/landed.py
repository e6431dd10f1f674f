"""What a session made, by its titles: pull requests, commits, issues, documents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fleetlore.views.outcomes.closing import WROTE, base_name, is_note, join_names
from fleetlore.views.outcomes.reports import list_content_words
from fleetlore.views.outcomes.request_text import drop_markup, quote_text
from fleetlore.views.outcomes.session import SessionState, find_request
from fleetlore.views.outcomes.words import cut_words, first_sentence, shorten_text

if TYPE_CHECKING:
    from fleetlore.views.outcomes.record import Outcome, SessionCommit


MOST_COMMITS = 3
MOST_OF_COMMITS = 34
"""Words of the subjects of commits that are named."""
SHARED_WEIGHT = 3
"""How much more the lines of a commit count whose subject has words of the request."""
LONGEST_TITLE = 120
ENOUGH_SHARED = 2
"""Words of the request in the subject of a commit that answers it."""
MOST_DOCUMENTS = 2
MOST_OF_HEADING = 16
_minor = re.compile(
    r"(?i)(?:merge\b|wip\b|fixup!|squash!|(?:chore|docs?|style|ci|build|test|release)(?:\([^)]{0,60}\))?!?:"
    r"|(?:bump|update) (?:the )?(?:version|dependenc|changelog|lock)|v?\d+\.\d+\.\d+)"
)

_folded = re.compile(r"(?:fixup|squash|amend)! ")

_empty_subject = re.compile(
    r"(?i)(?:(?:initial|first|init|wip|update[sd]?|fix(?:es|ed)?|chang(?:es|ed)|sav(?:e|ed)|commit|misc|stuff|\.)[ .!]*){1,3}"
)
"""The subject of a commit that does not say what changed."""

_trailer = re.compile(r"\s{1,20}[A-Z][\w-]{2,40}: \S{6,80}$")


def name_landed(record: Outcome, state: SessionState) -> str:
    """The pull requests or commits of a session by their titles."""
    delivered = record.delivered
    titles = list(dict.fromkeys(clean for request in delivered.pull_requests if (clean := clean_title(request.title))))
    if titles:
        return titles[-1] if len(titles) == 1 else f"{titles[0]}; {titles[-1]}" + (f" (+{len(titles) - 2} more)" if len(titles) > 2 else "")
    commits = _list_named_commits(delivered.commits, state)
    if not commits:
        return ""
    if all(commit.rewritten for commit in state.commits):
        return f"Rebased: {clean_title(commits[-1].subject)}{_count_more(len(commits) - 1)}"
    ranked = rank_commits(commits, state)
    chosen = ranked[:1]
    for commit in ranked[1:MOST_COMMITS]:
        words = sum(len(clean_title(each.subject).split()) for each in (*chosen, commit))
        if words <= MOST_OF_COMMITS and _is_main(commit) == _is_main(ranked[0]):
            chosen.append(commit)
    return "; ".join(clean_title(commit.subject) for commit in chosen) + _count_more(len(commits) - len(chosen))


def rank_commits(commits: Sequence[SessionCommit], state: SessionState) -> list[SessionCommit]:
    """The commits by what they say of the work: no merges and chores, those with words of the request, then by changed lines."""
    request = find_request_words(state)
    lines = _count_committed_lines(state)

    def rank(commit: SessionCommit) -> tuple[bool, float]:
        shared = len(list_content_words(commit.subject) & request) >= ENOUGH_SHARED
        changed = max((lines[source.event] for source in commit.evidence if source.event in lines), default=0)
        return _is_main(commit), (changed + 1) * (SHARED_WEIGHT if shared else 1)

    return sorted(commits, key=rank, reverse=True)


def _count_committed_lines(state: SessionState) -> dict[str, int]:
    """The lines that the session changed before each commit and after the one before, by the event of the commit."""
    found: dict[str, int] = {}
    before = 0
    for commit in state.commits:
        edits = (edit for edit in state.edits if before < edit.step <= commit.step)
        found[commit.source.event] = found.get(commit.source.event, 0) + sum(edit.added + edit.removed for edit in edits)
        before = commit.step
    return found


def _is_main(commit: SessionCommit) -> bool:
    return not commit.subject.startswith("Merge ") and not _minor.match(commit.subject)


def _count_more(count: int) -> str:
    return f" (+{count} commit{'s' if count > 1 else ''})" if count > 0 else ""


def _list_named_commits(commits: Sequence[SessionCommit], state: SessionState) -> list[SessionCommit]:
    """The commits with a subject, each subject once. Empty commits, and those that are to be folded into another, say nothing."""
    empty = {call.source.event for call in state.calls if "--allow-empty" in call.what}
    named: dict[str, SessionCommit] = {}
    for commit in commits:
        if (
            commit.subject
            and not (_folded.match(commit.subject) or _empty_subject.fullmatch(commit.subject))
            and empty.isdisjoint(source.event for source in commit.evidence)
        ):
            named.setdefault(clean_title(commit.subject), commit)
    return list(named.values())


def find_request_words(state: SessionState) -> frozenset[str]:
    """The words that say what the session is about."""
    request = find_request(state)
    return list_content_words(first_sentence(request.text)) if request is not None else frozenset()


def clean_title(text: str) -> str:
    """A title or the subject of a commit on one line, without marks at its ends."""
    return shorten_text(drop_trailer(text).removeprefix("@ "), LONGEST_TITLE).rstrip(". ")  # PowerShell's mark of a text, in another shell


def drop_trailer(subject: str) -> str:
    """The subject of a commit without a trailer such as `Change-Id: …` on its line."""
    return _trailer.sub("", subject)


_issue_created = re.compile(
    r"""\b(?:gh|glab) issue create\b[^\n]{0,80}?(?:--title|-t)[ =](?:"([^"\n$`]{4,200})"|'([^'\n]{4,200})')"""
    r"""|\bbd create (?:"([^"\n$`]{4,200})"|'([^'\n]{4,200})')"""
)


def name_issues(record: Outcome, state: SessionState) -> str:
    """The issues that a session without edits opened, by their titles."""
    created = [call for call in state.calls if call.kind == "command" and call.state == "ok" and "create" in call.what]
    titles = {clean_title(next(filter(None, found.groups()))): call for call in created for found in _issue_created.finditer(call.what)}
    if not titles or record.files:
        return ""
    record.evidence["result"] = [call.source for call in titles.values()][:5]
    more = f" (+{len(titles) - 2} more)" if len(titles) > 2 else ""
    return f"{'Issues' if len(titles) > 1 else 'Issue'} opened: {'; '.join(list(titles)[:2])}{more}"


_removes = re.compile(r"\b(?:git )?rm\b")


def name_documents(record: Outcome, state: SessionState) -> str:
    """The documents that a session without other edits wrote: `Wrote "Move to Postgres" (plan.md)`."""
    folder = f"{state.cwd.rstrip('/')}/"
    edits = [edit for edit in state.edits if not is_note(edit.path.removeprefix(folder))]
    removed = [call.what for call in state.calls if call.kind == "command" and call.state == "ok" and _removes.search(call.what)]
    written = {edit.path: edit for edit in edits if edit.heading and not any(base_name(edit.path) in what for what in removed)}
    lines = Counter[str]()
    for edit in edits:
        lines[edit.path] += max(1, edit.added + edit.removed)
    if not written or sum(lines[path] for path in written) * 2 < lines.total() or any(edit.covered for edit in edits):
        return ""
    largest = sorted(written.values(), key=lambda edit: -lines[edit.path])[:MOST_DOCUMENTS]
    record.evidence["result"] = [edit.source for edit in largest]
    named = [f"{quote_text(cut_words(drop_markup(edit.heading), MOST_OF_HEADING))} ({base_name(edit.path)[:60]})" for edit in largest]
    more = len(written) - len(largest)
    others = f" (+{more} more document{'s' if more > 1 else ''})" if more else ""
    return f"{WROTE}{join_names(named)}{others}"
