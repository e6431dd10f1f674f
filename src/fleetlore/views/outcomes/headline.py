"""The headline of a session: what it came to, then how it was left.

What landed is named by the titles of its pull requests or commits. Else the headline has what the session was about, in words that
cannot be wrong (the session's title, or the largest requests in the person's own words), and what the agent says about it if that
is a whole sentence with the words of the request. "Asked: " marks a headline that has only the request.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from fleetlore.views.outcomes.closing import ASKED, describe_closing
from fleetlore.views.outcomes.landed import clean_title, name_documents, name_issues, name_landed
from fleetlore.views.outcomes.reports import find_answer, find_change, is_title, list_content_words, states_topic
from fleetlore.views.outcomes.request_text import asks_question, is_statement, quote_text
from fleetlore.views.outcomes.session import SessionState
from fleetlore.views.outcomes.words import cut_words
from fleetlore.views.outcomes.work_parts import WorkPart, list_main, split_work

if TYPE_CHECKING:
    from fleetlore.views.outcomes.facts import Source
    from fleetlore.views.outcomes.record import Outcome

MOST_OF_ONE = 22
"""Words of a request that is named alone."""
MOST_OF_TWO = 13
"""Words of a request that is named beside another."""
FIRST_SENTENCES = 4
LEAST_READ = 4
"""An answer is about a request if its turn has at least one of so many of the edits for it."""
MOST_READ = 4
"""Newest answers of a request in which a report is looked for."""
LEAST_BESIDE = 3
"""A request is named beside what landed if at least this part of the work of the largest was done for it."""
LEAST_COUNTED = 10
"""The same, for requests that are counted."""
LONGEST_PROMPT = 600
"""Characters of a prompt whose words are looked for in an answer."""
ALSO_ASKED = "; also asked: "
"""Stands between what landed and a request that it does not answer."""
ENOUGH_SHARED = 2
"""Words that a request and the titles of what landed have in common if they are about the same."""


class Report(NamedTuple):
    """The agent's own sentence about a request, and where it stands."""

    text: str
    source: Source
    is_change: bool
    """It says what was changed, not what was found out."""

    def add_topic(self, topic: str) -> str:
        """The report after what it is about, unless it says that by itself."""
        if self.is_change and states_topic(self.text, topic):
            return self.text
        return f"{topic}{'' if topic.endswith('?') else ':'} {self.text}"


def write_headline(record: Outcome, state: SessionState) -> str:
    """What the session came to, and how it was left. The first part is kept in `record.result`, with its evidence."""
    record.evidence.pop("result", None)
    record.about = record.said = ""
    record.result = _find_result(record, state)
    return "; ".join((record.result, *describe_closing(record, state)))


def _find_result(record: Outcome, state: SessionState) -> str:
    parts = split_work(state)
    title = find_title(record, state)
    named = list_main(parts, MOST_OF_ONE)
    most = MOST_OF_ONE if len(named) == 1 else MOST_OF_TWO
    record.about = title or "; ".join(part.name(most) for part in named)
    if landed := name_landed(record, state) or name_issues(record, state):
        return _join_counts(landed + _name_beside(state, parts, landed))
    more = count_requests(sum(part.calls > 0 for part in parts if part not in named))
    if title:
        return title + _add_report(record, parts, title) + more
    if documents := name_documents(record, state):
        return documents
    if len(named) > 1:
        return _join_requests(record, named) + more
    if named:
        return _describe_request(record, parts, named[0]) + more
    return _describe_unclear(record, parts)


def _name_part(part: WorkPart, most: int) -> str:
    """The request; in quotes if it is neither an order nor a question."""
    name = part.name(most)
    return quote_text(name) if name and is_statement(part.text) else name


def _describe_request(record: Outcome, parts: Sequence[WorkPart], part: WorkPart) -> str:
    """One request with what the agent says about it; not what it found out before it edited files for another one."""
    topic = _name_part(part, MOST_OF_ONE)
    edited = [each for each in parts if each.edits]
    report = find_report(record, part, topic, is_only=len(edited) <= 1) if part.edits or not edited else None
    if report is None:
        return f"{ASKED}{topic}"
    _keep_reports(record, [report])
    return report.add_topic(topic)


def _join_requests(record: Outcome, parts: Sequence[WorkPart]) -> str:
    """Two requests, each by the agent's report if that says by itself what was asked."""
    texts, reports = [], []
    for part in parts:
        topic = _name_part(part, MOST_OF_TWO)
        report = find_report(record, part, topic)
        is_told = report is not None and report.add_topic(topic) == report.text
        if report is not None and is_told:
            reports.append(report)
        texts.append(report.text if report is not None and is_told else topic)
    _keep_reports(record, reports)
    return f"{'' if reports else ASKED}{'; '.join(texts)}"


def _add_report(record: Outcome, parts: Sequence[WorkPart], title: str) -> str:
    """What the agent says about the request with the most work, after the session's title."""
    main = max(parts, key=lambda part: part.weight, default=None)
    is_about = main is not None and (main.edits > 0 or not record.files)
    report = find_report(record, main, title) if main is not None and is_about else None
    if report is None:
        return ""
    _keep_reports(record, [report])
    return f": {report.text}"


def _describe_unclear(record: Outcome, parts: Sequence[WorkPart]) -> str:
    """A session whose requests do not say what they are about, such as "fix it": what the agent reports, else the words that were said."""
    edited = [part for part in parts if part.edits]
    for part in sorted(edited or parts, key=lambda part: -part.weight):
        if (report := find_report(record, part, "", is_only=len(edited) <= 1)) is not None:
            _keep_reports(record, [report])
            return report.text
    asked = cut_words(record.asked.rstrip(". "), MOST_OF_ONE)
    return f"{ASKED}{quote_text(asked)}" if asked else record.name


def find_report(record: Outcome, part: WorkPart, topic: str, *, is_only: bool = False) -> Report | None:
    """The agent's sentence that says what came of a request: what was changed if files were edited, else what was found out.

    `is_only`: all that was done was for this request, so a report at the beginning of an answer is about it.
    """
    about = list_content_words(f"{part.text[:LONGEST_PROMPT]} {topic}")
    is_asked = not part.edits or asks_question(part.text)
    for answer in reversed(part.answers[-MOST_READ:]):
        if part.turn_edits[answer.turn] * LEAST_READ < part.edits:
            continue  # about a small part of the work
        change = find_change(answer.text, about)
        said = (find_answer(answer.text, about) if is_asked else "") or change
        if not said and is_only:
            said = change = find_change(answer.text, about, least=0, most=FIRST_SENTENCES)
        if said and not any(claim.verdict == "contradicted" and (said in claim.text or claim.text in said) for claim in record.claims):
            return Report(said, answer.source, said == change)
    return None


def _keep_reports(record: Outcome, reports: Sequence[Report]) -> None:
    if reports:
        record.evidence["result"] = list(dict.fromkeys(report.source for report in reports))
        record.said = "; ".join(report.text for report in reports)


def _name_beside(state: SessionState, parts: Sequence[WorkPart], landed: str) -> str:
    """The largest request that what landed does not answer, if about as much was done for it, and the number of others."""
    shown = {commit.source.event for commit in state.commits} | {request.source.event for request in state.pull_requests}
    turns = {call.turn for call in state.calls if call.source.event in shown or call.result in shown}
    words = list_content_words(" ".join((landed, *(commit.message for commit in state.commits))))
    most = max((part.weight for part in parts), default=0)

    def is_covered(part: WorkPart) -> bool:
        return bool(part.turns & turns) or len(list_content_words(part.name(MOST_OF_ONE)) & words) >= ENOUGH_SHARED

    others = [part for part in parts if part.calls and not is_covered(part) and part.weight * LEAST_COUNTED >= most]
    main = max(others, key=lambda part: part.weight, default=None)
    name = _name_part(main, MOST_OF_TWO) if main is not None and main.weight * LEAST_BESIDE >= most else ""
    if not name or main is None or main.text.startswith("/"):
        return count_requests(len(others))
    return f"{ALSO_ASKED}{name}{count_requests(len(others) - 1)}"


_two_counts = re.compile(r" \((\+[^()]{1,30})\) \(\+(\d+ more requests?)\)$")


def _join_counts(text: str) -> str:
    """`(+2 commits, +1 more request)` instead of two parentheses."""
    return _two_counts.sub(r" (\1, +\2)", text)


def count_requests(count: int) -> str:
    """` (+2 more requests)`; nothing for none."""
    return f" (+{count} more request{'s' if count > 1 else ''})" if count > 0 else ""


_only_number = re.compile(r"(?i)(?:\w+ing|\w+e|start|work on|fix|do) (?:the )?(?:task|issue|ticket|phase|story|bug)s? \W?[\w-]*\d+")
"""A title that names a task only by its number."""
_plan_words = re.compile(r"(?i)^(?:implementation )?plan(?: (?:for|to) |: *)(?:the )?|[ :–—-]{1,3}(?:(?:implementation|detailed) )?plan$")
_plan = re.compile(
    r"(?is)\W{0,9}(?:implement|execute|carry out|follow)\b[^\n]{0,60}\bplan\b[^\n]{0,40}\n+#{1,3} +(?:plan: *)?([^\n]{4,200})"
)


def find_title(record: Outcome, state: SessionState) -> str:
    """A title for the work: of the program, a person, or the plan that was to be carried out. Nothing for a raw prompt."""
    if is_title(record.title or "") and not _only_number.fullmatch(record.title or ""):
        return clean_title(record.title or "")
    found = next((found for prompt in state.prompts[:3] if (found := _plan.match(prompt.text[:2000]))), None)
    plan = " ".join(found[1].split()) if found else ""
    subject = _plan_words.sub("", plan).strip()  # what was done is not the plan
    return clean_title(subject[:1].upper() + subject[1:]) if is_title(plan) and len(subject.split()) > 1 else ""
