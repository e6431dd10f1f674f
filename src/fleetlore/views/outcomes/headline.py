"""The headline of a session: what came of it, then how it was left.

The result is the title of a pull request, else the commits that answer the request, else what was asked with the agent's own
sentence about what it changed or found out, else what was asked, marked as such. The names of files are the last resort.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from fleetlore.views.outcomes.closing import ASKED, EDITED, MOST_QUOTED, WROTE, base_name, describe_closing, is_note, join_names, name_files
from fleetlore.views.outcomes.facts import FileEdit, Source
from fleetlore.views.outcomes.landed import MOST_OF_COMMITS, clean_title, find_request_words, name_landed
from fleetlore.views.outcomes.request_text import (
    ADDRESS,
    ENOUGH_SHARED,
    LEAST_ORDER,
    LEAST_TOPIC,
    MOST_ASKED,
    MOST_OF_SHORT,
    MOST_ORDER,
    MOST_TOPIC,
    asks_about,
    drop_markup,
    name_links,
    name_order,
    name_short,
    name_topic,
    task_label,
)
from fleetlore.views.outcomes.result_words import (
    Report,
    ends_without_findings,
    find_change,
    find_finding,
    find_points,
    is_title,
    list_content_words,
    says_nothing_found,
)
from fleetlore.views.outcomes.session import SessionState, find_request
from fleetlore.views.outcomes.words import (
    cut_words,
    drop_courtesy,
    first_sentence,
    is_examination,
    is_order,
    is_whole_request,
    list_sentences,
    short_request,
)
from fleetlore.views.outcomes.work_parts import TurnWork, WorkPart, split_work

if TYPE_CHECKING:
    from fleetlore.views.outcomes.facts import Answer
    from fleetlore.views.outcomes.record import ChangedFile, Outcome

MOST_WORDS = 20
"""Of the result; the closing state comes on top."""
MOST_OF_FINDING = 26
MOST_PARTS = 3
MOST_OF_PARTS = 34
"""Words of the results of several requests together."""
LEAST_PART = 4
"""A request counts as large if at least this part of the work of the largest was done for it."""
LEAST_BESIDE = 3
"""The same, for a request that is named beside commits."""
LEAST_COUNTED = 10
"""The same, for requests that are counted beside commits."""
LEAST_OF_TURN = 6
"""What another turn for the same request came to is told if it has at least this part of the edits."""
LINES_PER_CALL = 10
"""So many changed lines are as much work as one more call."""
MOST_LISTED = 4
"""Of more requests the session's title says more than some of them."""
REQUESTS = " requests: "
"""After the number of requests: begins a result that has only what was asked."""
LEAST_CALLS = 1
LEAST_VERB = 4
"""Letters by which "Remove" and "Removed" are the same verb."""
LEAST_SCORE = 4
MOST_OF_PART = 28
"""Words of two results of one request together."""
LEAST_READ = 4
"""Reports count for a request if the turns that they end have at least one of so many of its edits."""
LEAST_TOLD = 3
"""Reports count for the work if the requests that they tell of have at least one of so many changed lines."""
MOST_TURNS = 50
MARKED_DONE = "Marked as done: "
"""Begins a result that is made of steps of the agent's own plan."""
OPENED_ISSUES = ("Issue opened: ", "Issues opened: ")
DONE = ": reported as done"
"""Ends a result that is only the request and the word of the agent that it is done."""
LONGEST_PROMPT = 400
"""Characters of a prompt whose words are looked for in the answer."""
PROSE = (".md", ".mdx", ".txt")
"""Files that are the work of a session only if it edited no other."""
_verdict = re.compile(
    r"(?i)\b(?:no (?:\w+ ){0,2}(?:issues|findings|problems|blockers)|approved?|looks good|review(?:ed)?|found|recommend\w*"
    r"|(?:main|biggest) (?:risk|issue|finding|problem)|the (?:problem|cause|issue|reason|risk) (?:is|was)|(?:is|are) (?:safe|sound))\b"
)


_done = re.compile(
    r"(?i)\W*(?:(?:all )?done|fixed|completed?|finished|implemented|updated|ready)\b|.{0,60}\bwhat (?:was|i) (?:done|did|changed|built)\b"
    r"|.{0,200}\b(?:is|are) (?:now |both |all )?(?:up|running)(?: fine)?[.! ]"
    r"|\W*(?:all (?:\d+ )?|the )?(?:\w+ ){0,4}(?:tasks?|changes|items?|implementation|work|plan|fix)(?: #?\d+)? "
    r"(?:is |are |has been |have been )?(?:now )?(?:complete|completed|delivered|done|implemented|finished|works)\b"
)
_removes = re.compile(r"\b(?:git )?rm\b")


def write_headline(record: Outcome, state: SessionState) -> str:
    """What came of the session, and how it was left. The first part is kept in `record.result`."""
    record.result = find_result(record, state)
    return "; ".join((record.result, *describe_closing(record, state)))


class TurnEndReport(NamedTuple):
    """What an agent said at the end of a turn, and how much it did in it."""

    turn: int
    edits: int
    calls: int
    text: str
    source: Source


def find_result(record: Outcome, state: SessionState) -> str:
    """What came of the session, in one clause or two. The answers that it is taken from are kept as the evidence of `result`."""
    record.evidence.pop("result", None)
    landed = name_landed(record, state)
    if not landed:
        return _describe_work(record, state)
    return _join_counts(_add_requests(record, state, landed))


def _weigh_part(part: WorkPart) -> float:
    """How much was done for a request."""
    return part.calls + part.lines / LINES_PER_CALL


def _list_large(parts: Sequence[WorkPart]) -> list[WorkPart]:
    """The requests for which most was done, at most three, in their order."""
    most = max(map(_weigh_part, parts), default=0)
    ranked = sorted((part for part in parts if part.calls and _weigh_part(part) * LEAST_PART >= most), key=_weigh_part, reverse=True)
    chosen = ranked[:MOST_PARTS]
    return [part for part in parts if part in chosen]


def _add_requests(record: Outcome, state: SessionState, landed: str) -> str:
    """What landed, with the largest request that it does not answer, if about as much was done for it, and the number of others."""
    events = {source.event for commit in record.delivered.commits for source in commit.evidence}
    events |= {source.event for request in record.delivered.pull_requests for source in request.evidence}
    turns = {call.turn for call in state.calls if call.source.event in events or call.result in events}
    words = list_content_words(" ".join((landed, *(commit.message for commit in state.commits))))

    def is_covered(part: WorkPart) -> bool:
        asked = list_content_words(part.request.text[:LONGEST_PROMPT]) if part.request is not None else frozenset()
        is_later = min(part.turns) > max(turns, default=0) and _weigh_part(part) * LEAST_BESIDE >= most
        return bool(part.turns & turns) or (part.edits > 0 and not is_later) or len(asked & words) >= ENOUGH_SHARED

    parts = [part for part in _split_work(state) if part.calls]
    most = max(map(_weigh_part, parts), default=0)
    others = [part for part in parts if not is_covered(part) and _weigh_part(part) * LEAST_COUNTED >= most]
    main = max(others, key=_weigh_part, default=None)
    if main is None:
        return landed
    if sum(map(_weigh_part, others)) * 2 > sum(map(_weigh_part, parts)) and len(others) >= MOST_PARTS:
        listed = _describe_several(record, state, is_reported=False)
        return f"{landed}; {listed}" if listed else f"{landed}{_count_requests(len(others))}"
    found = _describe_short(record, state, main, is_reported=True) if main.is_answered else None
    is_large = found is not None and _weigh_part(main) * (LEAST_BESIDE if found.said else 1) >= most
    if found is None or not is_large or len(f"{landed} {found.text}".split()) > MOST_OF_COMMITS:
        return f"{landed}{_count_requests(len(others))}"
    _keep_report(record, state, [found])
    more = _count_requests(len(others) - 1)
    is_first = max(main.turns) < min(turns, default=0)
    return f"{found.text}; {landed}{more}" if is_first else f"{landed}; {found.text}{more}"


def find_title(record: Outcome, state: SessionState) -> str:
    """A title for the work: of the program, a person, or the plan that was to be carried out. Nothing for a raw prompt."""
    if is_title(record.title or "") and not _only_number.fullmatch(record.title or ""):
        return clean_title(record.title or "")
    plan = _read_plan_title(state)
    subject = _plan_words.sub("", plan).strip()  # what was done is not the plan
    return clean_title(subject[:1].upper() + subject[1:]) if is_title(plan) and len(subject.split()) > 1 else ""


_only_number = re.compile(r"(?i)(?:\w+ing|\w+e|start|work on|fix|do) (?:the )?(?:task|issue|ticket|phase|story|bug)s? \W?[\w-]*\d")
"""A title that names a task only by its number."""
_plan_words = re.compile(r"(?i)^(?:implementation )?plan(?: (?:for|to) |: *)(?:the )?|[ :–—-]{1,3}(?:(?:implementation|detailed) )?plan$")
_plan = re.compile(
    r"(?is)\W{0,9}(?:implement|execute|carry out|follow)\b[^\n]{0,60}\bplan\b[^\n]{0,40}\n+#{1,3} +(?:plan: *)?([^\n]{4,200})"
)


def _read_plan_title(state: SessionState) -> str:
    found = next((found for prompt in state.prompts[:3] if (found := _plan.match(prompt.text[:2000]))), None)
    return " ".join(found[1].split()) if found else ""


def _is_examined(state: SessionState) -> bool:
    request = find_request(state)
    return request is not None and is_examination(request.text)


def _describe_work(record: Outcome, state: SessionState) -> str:
    """The work of a session without a named commit: what it is about, then what the agent reports."""
    if found := _name_refused(state) or _name_issues(record, state):
        return found
    title = find_title(record, state)
    edited = {path for _, path in _list_edits(state)}
    is_about = is_examination(title) or _names_examination.search(record.title or "") is not None
    is_examined = _is_examined(state) or is_about
    change = _find_change(record, state)
    if several := _describe_several(record, state, is_reported=True):
        return several
    if title and not is_about and (_has_main_edits(state) or record.delivered.pull_requests):
        _keep_report(record, state, [change] if change is not None else [])
        parts = _split_work(state)
        return title + (_count_requests(sum(part.calls > 0 for part in parts) - 1) if len(_list_large(parts)) > 1 else "")
    if change is not None and change.is_item and not change.order and (documents := _name_documents(record, state)):
        return documents
    if change is not None and not change.said and (several := _describe_several(record, state, is_reported=False)):
        return several
    if change is not None:
        return _word_change(record, state, change, title)
    answers = _find_answer(record, state, is_examined=is_examined) if not edited or is_examined else []
    if answers:
        return _word_answer(record, state, answers[0], title)
    work = [file for file in record.files if not is_note(file.path)]
    facts: str = _name_documents(record, state) or _name_steps(record, state) or _describe_several(record, state, is_reported=False)
    if title and (not edited or not facts or sum(part.calls > 0 for part in _split_work(state)) > MOST_LISTED):
        return title if edited else f"{ASKED}{title}"
    return facts or _name_request(record, state, work) or (f"{EDITED}{name_files(work)}" if work else record.name)


def _word_answer(record: Outcome, state: SessionState, answer: PartResult, title: str) -> str:
    """What the agent found out, after the request or the question."""
    _keep_report(record, state, [answer])
    said, turn = answer.said, answer.report.turn
    if (answered := _add_question(state, turn, said)) != said:
        return answered
    topic = title or _find_topic(state, turn, said, is_changed=bool(_list_edits(state)))
    more = _count_requests(sum(part.is_answered or part.calls > 0 for part in _split_work(state)) - 1)
    return f"{topic}: {said}{more}" if title or len(topic.split()) >= LEAST_TOPIC else f"{said}{more}"


def _has_main_edits(state: SessionState) -> bool:
    """Whether files were edited for the request that the session's title is about."""
    request = find_request(state)
    return any(part.edits and (request is None or request.turn in part.turns) for part in _split_work(state))


_names_examination = re.compile(
    r"(?i)\b(?:analysis|investigation|review|research|audit|question|discussion|exploration|brainstorming|analysis and \w+)s?$"
)
"""A title that says what was looked into, not what came of it."""
_agrees = re.compile(r"(?i)(?:yes|no|not (?:yet|quite|really|directly)|correct|exactly)\b")
"""Begins an answer that cannot be understood without its question."""


def _add_question(state: SessionState, turn: int, said: str) -> str:
    """An answer that begins with yes or no, after its question if that is short."""
    asked = [drop_courtesy(first_sentence(prompt.text)) for prompt in state.prompts if prompt.turn == turn]
    short = next((text for text in asked if text.endswith("?") and len(text.split()) <= MOST_ASKED), "")
    return f"{short[:1].upper()}{short[1:]} {said}" if short and _agrees.match(said) else said


_two_counts = re.compile(r" \((\+[^()]{1,30})\) \(\+(\d+ more requests?)\)$")


def _join_counts(text: str) -> str:
    """`(+2 commits, +1 more request)` instead of two parentheses."""
    return _two_counts.sub(r" (\1, +\2)", text)


def _count_requests(count: int) -> str:
    return f" (+{count} more request{'s' if count > 1 else ''})" if count > 0 else ""


def _find_answer(record: Outcome, state: SessionState, *, is_examined: bool) -> list[PartResult]:
    """What the agent found out or did without an edit; of a review only its verdict or its points."""
    is_question = record.asked.endswith("?") and not is_order(record.asked)
    found = _find_findings(record, state, is_examined=is_examined or is_question, is_question=is_question)
    if is_examined and "review" in record.asked.lower() and not _list_edits(state):
        found = [one for one in found if " review point" in one.text[:20] or _verdict.search(one.text) or says_nothing_found(one.text)]
    return found


def _keep_report(record: Outcome, state: SessionState, found: Sequence[PartResult]) -> None:
    """Note the agent's own words, their source, and what they are about if that is not the first request."""
    said = [one for one in found if one.said and (one.text == one.said or (len(found) == 1 and not one.is_item))]
    if not found:
        return
    record.evidence["result"] = list(dict.fromkeys(one.source for one in found))
    record.said = "; ".join(one.said for one in said)
    main = find_request(state)
    turns = {one.report.turn for one in said}
    if main is not None and turns and main.turn not in turns:
        prompt = next((prompt.text for prompt in state.prompts if prompt.turn == min(turns)), "")
        record.said_about = first_sentence(prompt) if is_whole_request(prompt) else ""


def _word_change(record: Outcome, state: SessionState, main: PartResult, title: str) -> str:
    """What was changed, with what was asked unless it says that by itself."""
    _keep_report(record, state, [main])
    more = _count_requests(sum(part.calls > 0 for part in _split_work(state)) - 1)
    if not main.said or (main.is_item and main.order):
        return main.text + more
    said = main.said
    asked = main.part.request.text if main.part.request is not None else ""
    topic = title or (name_topic(asked) if is_order(asked) else "") or _find_topic(state, main.report.turn, said, is_changed=True)
    is_told = " more changes)" not in said and _states_topic(said, topic.rstrip("…"))
    return f"{said}{more}" if is_told or len(topic.split()) < LEAST_TOPIC else f"{topic}: {said}{more}"


def _states_topic(said: str, topic: str) -> bool:
    """Whether a report says by itself what the topic says: "Removed the plugin …" for "Remove the plugin"."""
    about, named = list_content_words(said), list_content_words(topic)
    is_same_act = topic[:LEAST_VERB].casefold() == said[:LEAST_VERB].casefold()
    least = ENOUGH_SHARED if is_same_act else max(ENOUGH_SHARED, len(named) / 2)
    return len(about & named) >= min(least, len(named))


def _find_topic(state: SessionState, turn: int, said: str, *, is_changed: bool) -> str:
    """What a report at the end of a turn is about: what was asked in this turn; the first request if the report has its words.

    A question is no topic of a change.
    """
    request = find_request(state)
    about = list_content_words(said)
    asked = [prompt for prompt in state.prompts if prompt.turn == turn and prompt is not request]
    ordered = [prompt for prompt in asked if is_order(prompt.text)]
    is_first = request is not None and (
        request.turn == turn or len(about & list_content_words(request.text[:LONGEST_PROMPT])) >= ENOUGH_SHARED
    )
    texts = [prompt.text for prompt in (*ordered, *([request] if is_first and request is not None else ()), *asked)]
    orders = [text for text in texts if is_order(text) or (is_examination(text) and not (is_changed and asks_about(text)))]
    return next((topic for text in orders if (topic := name_topic(text))), "")


def _list_reports(record: Outcome, state: SessionState) -> list[TurnEndReport]:
    """The last answer of every turn that has content, and the newest text of a turn that was cut off; oldest first."""
    edits = Counter(turn for turn, path in _list_edits(state) if not path.endswith(PROSE))
    edits = edits or Counter(turn for turn, _ in _list_edits(state))
    calls = Counter(call.turn for call in state.calls if call.state == "ok")
    answers = [answer for answer in state.answers[-MOST_TURNS:] if not answer.helper]
    if state.text is not None and record.status in ("interrupted", "failed") and find_change(state.text.text, MOST_WORDS):
        answers.append(state.text)
    last: dict[int, Answer] = {}
    for answer in answers:  # a turn may go on after an answer, when something that runs in the background reports
        if answer.turn not in last or find_change(answer.text, MOST_WORDS) or not find_change(last[answer.turn].text, MOST_WORDS):
            last[answer.turn] = answer
    return [TurnEndReport(answer.turn, edits[answer.turn], calls[answer.turn], answer.text, answer.source) for answer in last.values()]


_proposes = re.compile(
    r"(?i)\b(?:proposed|proposal|suggested (?:story|breakdown|order|plan)|here(?:['’]s| is) (?:the|my|a) (?:plan|draft))\b"
)
"""In an answer that puts something forward: nothing is done yet."""
LONGEST_OPENING = 500


def _read_change(record: Outcome, report: TurnEndReport, wanted: Collection[str]) -> Report | None:
    found = find_change(report.text, MOST_WORDS, wanted) if not _proposes.search(report.text[:LONGEST_OPENING]) else None
    return found if found is not None and not _is_refuted(record, found.text) else None


def _read_finding(record: Outcome, report: TurnEndReport, wanted: Collection[str]) -> Report | None:
    found = find_finding(report.text, MOST_OF_FINDING, wanted)
    return found if found is not None and not _is_refuted(record, found.text) else None


def _is_refuted(record: Outcome, text: str) -> bool:
    return any(claim.verdict == "contradicted" and (text in claim.text or claim.text in text) for claim in record.claims)


def _find_turn_words(state: SessionState, turn: int) -> frozenset[str]:
    return list_content_words(" ".join(prompt.text[:LONGEST_PROMPT] for prompt in state.prompts if prompt.turn == turn))


class PartResult(NamedTuple):
    """A part of the work with the agent's own sentence about it, and the request as a title if the agent reports its end."""

    part: WorkPart
    said: str
    report: TurnEndReport
    order: str = ""
    is_item: bool = False
    """What was said is an item of a list: one of many changes."""
    is_detail: bool = False
    """The same, or it has few words of the request."""

    @property
    def text(self) -> str:
        """What came of it, in few words."""
        return self.said if self.said and not (self.is_detail and self.order) else self.order

    @property
    def source(self) -> Source:
        """The event with the agent's report."""
        return self.report.source


def _describe_several(record: Outcome, state: SessionState, *, is_reported: bool) -> str:
    """The results of the largest requests, in their order; empty if one request is most of the work, or its result has no name.

    `is_reported`: only if the agent says what it changed, else only what was asked.
    """
    parts = _split_work(state)
    large = _list_large(parts)
    if len(large) < 2:
        return ""
    named: list[PartResult] = []
    for part in sorted(large, key=_weigh_part, reverse=True):
        found = _describe_short(record, state, part, is_reported=is_reported)
        if found is None and not named and is_reported:
            return ""
        if found is None or sum(len(one.text.split()) for one in (*named, found)) > MOST_OF_PARTS:
            continue
        same = next((one for one in named if _say_the_same(one.text, found.text)), None)
        if same is None:
            named.append(found)
        elif found.report.turn > same.report.turn:  # it has the newer state
            named[named.index(same)] = found
    if not any(one.said for one in named) if is_reported else len(named) < 2:
        return ""
    named.sort(key=lambda one: min(one.part.turns))
    _keep_report(record, state, named)
    worked = sum(part.calls > 0 for part in parts)
    text = "; ".join(one.text for one in named)
    return f"{'' if is_reported else f'{worked}{REQUESTS}'}{text}{_count_requests(worked - len(named))}"


def _describe_short(record: Outcome, state: SessionState, part: WorkPart, *, is_reported: bool) -> PartResult | None:
    """What came of one request of several, in few words: the agent's sentence about a change, else what was asked."""
    reports = [report for report in _list_reports(record, state) if report.turn in part.turns]
    report = reports[-1] if reports else None
    found = _describe_part(record, state, part, [one for one in reports if one.edits]) if part.edits else None
    if is_reported and found is not None and found.said and not found.is_detail and len(found.said.split()) <= MOST_WORDS:
        return found._replace(order="")
    if is_reported and not part.edits:
        wanted = _find_turn_words(state, min(part.turns))
        changes = [(change, one) for one in reports if one.calls and (change := _read_change(record, one, wanted))]
        best = max((pair for pair in changes if pair[0].score >= LEAST_SCORE), key=lambda pair: pair[0].score, default=None)
        if best is not None and len(best[0].text.split()) <= MOST_OF_SHORT:
            return PartResult(part, best[0].text, best[1])
    if (
        part.request is None
        or (is_reported and asks_about(part.request.text))
        or not (topic := name_short(part.request.text, is_quoted=part.edits > 0 or not is_reported))
    ):
        return None
    return PartResult(part, "", report or TurnEndReport(min(part.turns), 0, part.calls, "", part.request.source), topic)


def _find_change(record: Outcome, state: SessionState) -> PartResult | None:
    """What came of the request with the most changed lines. Nothing that the records contradict."""
    parts = [part for part in _split_work(state) if part.edits]
    reports = [report for report in _list_reports(record, state) if report.edits]
    results = [one for part in parts if (one := _describe_part(record, state, part, reports)) is not None]
    if not results or sum(one.part.lines for one in results) * LEAST_TOLD < sum(part.lines for part in parts):
        return None  # what can be read is about a small part of the work
    main = max(results, key=lambda one: one.part.lines)
    if main.part.lines * LEAST_PART < max(part.lines for part in parts):
        return None
    if not main.said and main.part.turns not in [part.turns for part in _list_large(_split_work(state))]:
        return None
    return _find_undone(record, state, main) or main


def _split_work(state: SessionState) -> list[WorkPart]:
    edits = [edit for edit in _list_work_edits(state) if not edit[1].path.endswith(PROSE)] or _list_work_edits(state)
    lines: Counter[int] = Counter()
    for turn, edit in edits:
        lines[turn] += max(1, edit.added + edit.removed)
    calls = Counter(call.turn for call in state.calls if call.state == "ok")
    answered = frozenset(answer.turn for answer in state.answers if not answer.helper)
    return split_work(state, TurnWork(lines, Counter(turn for turn, _ in edits), calls, answered))


def _describe_part(record: Outcome, state: SessionState, part: WorkPart, reports: Sequence[TurnEndReport]) -> PartResult | None:
    """The sentence of the part's reports that says best what was changed, and what was asked if the agent answered after its edits."""
    asked = part.request.text[:LONGEST_PROMPT] if part.request is not None else ""
    wanted = list_content_words(asked)
    own = [report for report in reports if report.turn in part.turns]
    found = [(change, report) for report in own if (change := _read_best_change(record, state, report, wanted))]
    if sum(report.edits for _, report in found) * LEAST_READ < sum(report.edits for report in own):
        found = []  # what can be read is about a small part of the work
    order = name_order(asked) if own and not _fell_short.search(own[-1].text[:LONGEST_OPENING]) else ""
    if not found:
        return PartResult(part, "", own[-1], order) if order else None
    best, report = max(found, key=lambda pair: (pair[0].score, pair[1].turn))
    if _names_no_work.match(order) or len(order.split()) > MOST_ORDER:
        order = ""
    is_detail = best.is_item or len(list_content_words(best.text) & wanted) < min(ENOUGH_SHARED, len(wanted))
    said = _count_others(best)
    for other, beside in sorted(found, key=lambda pair: -pair[1].edits):  # what another turn came to
        is_far = beside.turn != report.turn and beside.edits * LEAST_OF_TURN >= report.edits and not _say_the_same(best.text, other.text)
        if is_far and len(f"{said} {other.text}".split()) <= MOST_OF_PART and not (best.is_item or other.is_item):
            said = f"{said}; {other.text}" if report.turn < beside.turn else f"{other.text}; {said}"
            break
    return PartResult(part, said, report, order, best.is_item, is_detail)


def _read_best_change(record: Outcome, state: SessionState, report: TurnEndReport, wanted: frozenset[str]) -> Report | None:
    return _read_change(record, report, wanted | _find_turn_words(state, report.turn)) or _read_change(record, report, ())


_fell_short = re.compile(
    r"(?i)\b(?:could ?n[o'’]t|unable to|not able to|(?:do|did|does|is|was)n['’]t work|(?:is|are) not working|still (?:fail|broken)"
    r"|not (?:yet )?(?:done|finished|complete|implemented|possible)|blocked|partially|rolled back|reverted)"
)
"""In an answer that reports less than what was asked for."""


_names_no_work = re.compile(
    r"(?i)\w+ (?:\w+ ){0,4}?(?:comments?|feedback|review\w*|suggestions?|findings?|issues?|points?|errors?|warnings?|failures?|problems?"
    r"|bugs?|changes|todos?|items)\b"
)
"""An order that points to a list somewhere else: "Address the comments of the review"."""


def _say_the_same(one: str, other: str) -> bool:
    first, second = list_content_words(one), list_content_words(other)
    return len(first & second) * 2 >= min(len(first), len(second))


_undoes = re.compile(r"(?i)\b(?:deleted|removed|reverted|undone|discarded|restored|rolled back)\b")


def _find_undone(record: Outcome, state: SessionState, main: PartResult) -> PartResult | None:
    """A later report that takes the change back: "docs/geese.md has been deleted"."""
    about = list_content_words(f"{main.said} {main.order}")
    for report in reversed(_list_reports(record, state)):
        found = _read_change(record, report, about) if report.turn > max(main.part.turns) and report.calls else None
        words = list_content_words(found.text) if found is not None else frozenset()
        if found is not None and _undoes.search(found.text) and len(words & about) * 2 >= len(words):
            return PartResult(main.part, found.text, report)
    return None


def _count_others(found: Report) -> str:
    return f"{found.text} (and {found.others} more changes)" if found.others > 1 else found.text


def _list_work_edits(state: SessionState) -> list[tuple[int, FileEdit]]:
    """The edits of files that are not the agent's own notes, each with its turn."""
    turns = {call.source.event: call.turn for call in state.calls}
    folder = f"{state.cwd.rstrip('/')}/"
    return [(turns.get(edit.source.event, 0), edit) for edit in state.edits if not is_note(edit.path.removeprefix(folder))]


def _list_edits(state: SessionState) -> list[tuple[int, str]]:
    return [(turn, edit.path) for turn, edit in _list_work_edits(state)]


def _find_findings(record: Outcome, state: SessionState, *, is_examined: bool, is_question: bool = False) -> list[PartResult]:
    """What the agent found out or did without an edit: of the last turn in which it did much."""
    request = find_request_words(state)
    has_code = any(not path.endswith(PROSE) for _, path in _list_edits(state))
    reports = _list_reports(record, state)
    most = max((report.calls for report in reports), default=0)
    least = most * 0.4 if is_examined else LEAST_CALLS
    asking = find_request(state)
    first = asking.turn if asking is not None and is_question else 0

    def rank(report: TurnEndReport) -> tuple[bool, bool, int]:
        return report.calls >= least, report.turn == first, report.turn

    ranked = sorted(reports, key=rank, reverse=True)
    for report in ranked:
        if (
            is_examined
            and not has_code
            and not ends_without_findings(report.text)
            and (points := find_points(report.text, MOST_WORDS))
            and not _is_refuted(record, points)
        ):
            return [PartResult(_find_part(state, report), points, report)]
        wanted = request | _find_turn_words(state, report.turn)
        change, finding = _read_change(record, report, wanted), _read_finding(record, report, wanted)
        if not is_examined and report.calls:
            chosen = change or finding
        else:
            chosen = max((found for found in (finding, change) if found), key=lambda found: found.score, default=None)
        if chosen is not None:
            return [PartResult(_find_part(state, report), chosen.text, report)]
    return []


def _find_part(state: SessionState, report: TurnEndReport) -> WorkPart:
    return next((part for part in _split_work(state) if report.turn in part.turns), WorkPart(request=None))


def _name_refused(state: SessionState) -> str:
    """The files that the agent was not permitted to edit."""
    paths = [call.what for call in state.calls if call.kind == "edit" and call.state == "denied"]
    if not paths or any(call.kind == "edit" and call.state == "ok" for call in state.calls):
        return ""
    names = list(dict.fromkeys(path.replace("\\", "/").rpartition("/")[2] for path in paths))[:3]
    return f"No permission to edit {join_names(names)}"


_issue_created = re.compile(
    r"""\b(?:gh|glab) issue create\b[^\n]{0,80}?(?:--title|-t)[ =](?:"([^"\n$`]{4,200})"|'([^'\n]{4,200})')"""
    r"""|\bbd create (?:"([^"\n$`]{4,200})"|'([^'\n]{4,200})')"""
)


def _name_issues(record: Outcome, state: SessionState) -> str:
    """The issues that the session opened, by their titles."""
    created = [call for call in state.calls if call.kind == "command" and call.state == "ok" and "create" in call.what]
    titles = {clean_title(next(filter(None, found.groups()))): call for call in created for found in _issue_created.finditer(call.what)}
    if not titles or _list_edits(state):
        return ""
    record.evidence["result"] = [call.source for call in titles.values()][:5]
    named = list(titles)[:2]
    more = f" (+{len(titles) - 2} more)" if len(titles) > 2 else ""
    return f"{OPENED_ISSUES[len(titles) > 1]}{'; '.join(named)}{more}"


def _name_documents(record: Outcome, state: SessionState) -> str:
    """The documents that the session wrote, if they are most of what it changed: `Wrote "Move to Postgres" (plan.md)`."""
    folder = f"{state.cwd.rstrip('/')}/"
    edits = [edit for edit in state.edits if not is_note(edit.path.removeprefix(folder))]
    removed = [call.what for call in state.calls if call.kind == "command" and call.state == "ok" and _removes.search(call.what)]
    gone = {edit.path for edit in edits if any(base_name(edit.path) in what for what in removed)}
    written = {edit.path: edit for edit in edits if edit.heading and edit.path not in gone}
    lines = Counter[str]()
    for edit in edits:
        lines[edit.path] += max(1, edit.added + edit.removed)
    if not written or sum(lines[path] for path in written) * 2 < lines.total():
        return ""
    largest = sorted(written.values(), key=lambda edit: -lines[edit.path])[:MOST_DOCUMENTS]
    record.evidence["result"] = [edit.source for edit in largest]
    named = [
        f'"{cut_words(drop_markup(edit.heading).replace(chr(34), chr(39)), MOST_TOPIC)}" ({base_name(edit.path)[:60]})' for edit in largest
    ]
    more = len(written) - len(largest)
    others = f" (+{more} more document{'s' if more > 1 else ''})" if more else ""
    return f"{WROTE}{join_names(named)}{others}"


_chore_step = re.compile(
    r"(?i)(?:re-?)?(?:run|verify|test|check|commit|push|read|explore|review|research|investigate|understand|look|analy[sz]e|gather|plan|wait"
    r"|report|confirm|validate|fast-forward|switch|check ?out|start|begin|ensure|monitor|audit|inspect|identify|find|search"
    r"|summari[sz]e|spawn|dispatch|delegate|assign|launch|hand (?:over|off)"
    r"|lint|format|build|compile|final|discuss|ask|get|fetch|clone"
    r"|create (?:a |the )?(?:branch|pr|pull request|plan)|open (?:a |the )?(?:pr|pull request))\b"
)
_assigned = re.compile(r'"task_assignment".{0,40}?"taskId":"(\w{1,20})","subject":"([^"\\]{4,300})"')
MOST_OF_STEP = 12
LEAST_STEPS = 2
MOST_DOCUMENTS = 2


def _name_steps(record: Outcome, state: SessionState) -> str:
    """The steps of the agent's plan that it marked as done: `Marked as done: Add the parser; Wire the flag (+3 more)`."""
    assigned = {found[1]: found[2] for prompt in state.prompts for found in _assigned.finditer(prompt.text)}
    done = [(step.text or assigned.get(key, ""), step.source) for key, step in state.plan.items() if step.is_done]
    work = [(text, source) for text, source in done if text and not _chore_step.match(text)]
    if len(work) < LEAST_STEPS:
        return ""
    record.evidence["result"] = [source for _, source in work][:5]
    named = [cut_words(drop_markup(text).rstrip("."), MOST_OF_STEP) for text, _ in work[:2]]
    more = f" (+{len(work) - 2} more)" if len(work) > 2 else ""
    return f"{MARKED_DONE}{'; '.join(named)}{more}"


def _name_request(record: Outcome, state: SessionState, work: Sequence[ChangedFile]) -> str:
    """What was asked, as a title if the agent reports it as done; if it is no order, with the files that were changed for it."""
    request = find_request(state)
    if request is not None and work and not is_order(request.text) and not is_examination(request.text):
        sentence = task_label.sub("", drop_markup(first_sentence(request.text)).replace('"', "'"))
        words = ADDRESS.sub("", name_links(sentence)).strip(".: ").split()
        if words and words[0].startswith("/"):
            return f"{EDITED}{name_files(work)} with {words[0]}"
        if len(words) < LEAST_ORDER:
            return f"{EDITED}{name_files(work)}"
        quoted = " ".join(words[:MOST_QUOTED]) + ("…" if len(words) > MOST_QUOTED else "")
        return f'{EDITED}{name_files(work)} for "{quoted}"'
    asked = short_request(request.text, MOST_ASKED) if request is not None else ""
    asked = task_label.sub("", asked or cut_words(ADDRESS.sub("", name_links(drop_courtesy(record.asked))).strip(".: "), MOST_ASKED))
    asked = asked[:1].upper() + asked[1:]
    if asked and not asked.endswith("?") and _is_reported_done(record, state):
        return f"{asked}{DONE}"
    return f"{ASKED}{asked}" if asked else ""


def _is_reported_done(record: Outcome, state: SessionState) -> bool:
    """Whether the last answer of a turn with edits (or calls, if there is none) begins by saying that it is done."""
    reports = [report for report in _list_reports(record, state) if report.edits]
    reports = reports or [report for report in _list_reports(record, state) if report.calls]
    if record.status != "finished" or not reports:
        return False
    sentences = islice(list_sentences(reports[-1].text), 3)
    return _done.match(reports[-1].text) is not None or any(map(_done.match, sentences))
