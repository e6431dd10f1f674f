"""The pull requests and commits of a session by their titles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fleetlore.views.outcomes.request_text import ENOUGH_SHARED
from fleetlore.views.outcomes.result_words import (
    list_content_words,
)
from fleetlore.views.outcomes.session import SessionState, find_request
from fleetlore.views.outcomes.words import (
    first_sentence,
    shorten_text,
)

if TYPE_CHECKING:
    from fleetlore.views.outcomes.record import Outcome, SessionCommit


MOST_COMMITS = 3
MOST_OF_COMMITS = 34
"""Words of the subjects of commits that are named."""
SHARED_WEIGHT = 3
"""How much more the lines of a commit count whose subject has words of the request."""
LONGEST_TITLE = 120
_minor = re.compile(
    r"(?i)(?:merge\b|wip\b|fixup!|squash!|(?:chore|docs?|style|ci|build|test|release)(?:\([^)]{0,60}\))?!?:"
    r"|(?:bump|update) (?:the )?(?:version|dependenc|changelog|lock)|v?\d+\.\d+\.\d+)"
)

_folded = re.compile(r"(?:fixup|squash|amend)! ")

_empty_subject = re.compile(
    r"(?i)(?:(?:initial|first|init|wip|update[sd]?|fix(?:es|ed)?|chang(?:es|ed)|sav(?:e|ed)|commit|misc|stuff|\.)[ .!]{0,20}){1,3}"
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


def choose_commit(commits: Sequence[SessionCommit]) -> SessionCommit | None:
    """The first commit that is neither a merge nor a chore; else the first with a subject."""
    return max((commit for commit in commits if commit.subject), key=_is_main, default=None)


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
