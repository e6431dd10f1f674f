"""The story: a paragraph per session, task, goal or agent, what came of it first, every sentence with its source events.

`make_story` decides what is said, from the outcome records of sessions and tasks and from the threads of other events;
`story_formats` writes it. `event_story.py` is the story in full detail.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

from msgspec.structs import replace

from fleetlore.story.brief import (
    CLOSED,
    LIMITS,
    SERIOUS,
    BriefLine,
    BriefWriter,
    count_attempts,
    drop_message,
    group_flags,
    is_refuted,
    name_check,
    name_end,
    name_period,
    needs_proof,
    rank_flag,
)
from fleetlore.story.event_sentences import EventDescriber
from fleetlore.story.paragraphs import MOST_EVIDENCE, Detail
from fleetlore.story.paragraphs import Story as Story
from fleetlore.story.paragraphs import StoryParagraph as StoryParagraph
from fleetlore.story.paragraphs import StorySentence as StorySentence
from fleetlore.story.phrases import count_things, fill_phrase, join_words, load_phrases
from fleetlore.story.thread_paragraphs import MOST_TASKS, ThreadWriter
from fleetlore.story.threads import ThreadBook
from fleetlore.story.titles import (
    capitalise_text,
    clean_cause,
    describe_end,
    describe_trouble,
    find_error,
    find_part,
    format_usd,
    has_discarded,
    has_result,
    list_notable_troubles,
    mark_open_end,
    name_agent,
    name_repo,
    name_request,
    name_topic,
    quote_inside,
    shorten_paths,
    shorten_result,
    shorten_text,
    title_delivery,
)
from fleetlore.story.voices import Voice
from fleetlore.views.outcomes.closing import HELPERS_UNSEEN, list_work_files, name_files
from fleetlore.views.outcomes.facts import RiskFlag, Source
from fleetlore.views.outcomes.landed import drop_trailer
from fleetlore.views.outcomes.record import CHECKS, JudgedClaim, Outcome
from fleetlore.views.outcomes.reports import list_content_words
from fleetlore.views.outcomes.words import is_whole_request
from fleetlore.views.task_outcomes import TaskOutcome

WORDS_PER_SESSION = 107
"""On average: 1,500 words for 14 sessions."""
LEAST_WORDS = 300
HEADLINE_RISK = 60
LONGEST_SAME = 30
"""Characters at the beginning of two texts that show that they are the same."""
MOST_COUNTED = 5
"""Things that a sentence counts: a reader can look at so many pieces of evidence, and one more for the push. Of more it names some."""
LEAST_REQUEST = 5
"""Words with content of a request that says something beside a title about something else."""
LONGEST_PROMPT = 190
"""A record cuts prompts at 200 characters."""


class StoryLimits(NamedTuple):
    """How much a paragraph says. The first that fits into the words is taken."""

    title: int
    quote: int
    items: int
    """Troubles, corrections, flags and claims of each kind."""


STORY_LIMITS = (StoryLimits(100, 240, 3), StoryLimits(90, 160, 2), StoryLimits(80, 110, 1), StoryLimits(60, 70, 1))


def make_story(
    sessions: Iterable[Outcome],
    tasks: Iterable[TaskOutcome] = (),
    *,
    since: datetime | None,
    until: datetime | None,
    zone: tzinfo,
    book: ThreadBook | None = None,
    detail: Detail = "story",
    voice: Voice | None = None,
    name_of: Callable[[str], str] = str,
) -> Story:
    """The story of what sessions did and what happened to tasks from `since` until `until`. The records are of this period only.

    `book` has the other events of the period. `headline` is one line for each session, task or other thread.
    """
    ordered = sorted(sessions, key=lambda one: (one.started is None, one.started, one.session))
    closed = sorted(tasks, key=lambda one: (one.at, one.task))
    book = book or ThreadBook((), zone)
    days = book.list_days() | {at.astimezone(zone).date() for one in ordered for at in (one.started, one.ended) if at is not None}
    has_days = len(days) > 1 and (since is None or until is None or until - since > timedelta(days=1))
    describer = EventDescriber(voice=voice, name_of=name_of, zone=zone)
    threads = ThreadWriter(describer, zone, name_of, has_days=has_days)
    brief = BriefWriter(ordered, closed, until, LIMITS[0])
    paragraphs: list[StoryParagraph] = []
    if detail == "headline":
        writer = _ParagraphWriter(until, zone, STORY_LIMITS[0])
        shorter = BriefWriter(ordered, closed, until, LIMITS[2])
        for one in ordered:
            counts = threads.count_beside(book.beside_sessions.get(one.session))
            paragraphs.append(writer.write_headline(one, shorter.describe_session(one, counts)))
    else:
        delivered = {one.session for one in ordered if one.delivered.commits or one.delivered.pull_requests or one.delivered.answer}
        paragraphs = _write_sessions(ordered, until, zone, has_days=has_days)
        for paragraph in paragraphs:
            beside = book.beside_sessions.get(paragraph.session or "")
            if beside is not None and (sentence := threads.write_beside(beside)) is not None:
                paragraph.sentences.insert(1 if paragraph.session in delivered else 0, sentence)
                for written in paragraph.sentences:
                    written.evidence = written.evidence or sentence.evidence
    others = [*_write_tasks(closed, book, threads, brief), *threads.write_threads(book)]
    if detail == "headline":
        others = [paragraph for paragraph in map(_keep_first_sentence, others) if paragraph.sentences]
    paragraphs += others
    paragraphs.sort(key=lambda one: (one.started is None, one.started, one.thread or one.session or ""))
    bill = brief.sum_up().text
    if not ordered and book.count_events():
        done = sum(one.result in CLOSED for one in closed)
        values = {"events": count_things(book.count_events(), "event"), "agents": count_things(book.count_agents(), "agent")}
        values["tasks"] = count_things(done, "task")
        bill = fill_phrase(load_phrases("story")["bill"]["events"], values)
    return Story(
        title=name_period(since, until, zone, whole="Everything"), since=since, until=until, paragraphs=paragraphs, bill=bill, detail=detail
    )


def _write_sessions(ordered: Sequence[Outcome], until: datetime | None, zone: tzinfo, *, has_days: bool) -> list[StoryParagraph]:
    most = max(LEAST_WORDS, WORDS_PER_SESSION * len(ordered))
    paragraphs: list[StoryParagraph] = []
    for limits in STORY_LIMITS:
        writer = _ParagraphWriter(until, zone, limits, has_days=has_days)
        paragraphs = [writer.write(one) for one in ordered]
        if sum(map(count_words, paragraphs)) <= most:
            break
    return paragraphs


def _write_tasks(tasks: Sequence[TaskOutcome], book: ThreadBook, threads: ThreadWriter, brief: BriefWriter) -> Iterator[StoryParagraph]:
    """A paragraph per task, or one about all of them if there are many."""
    records, digests = {one.task: one for one in tasks}, book.list_tasks()
    if len(records.keys() | digests.keys()) <= MOST_TASKS and records.keys() <= digests.keys():
        yield from (threads.write_task(records.get(task), digest) for task, digest in digests.items())
        return
    sentences = [
        StorySentence(text=_end_sentence(line.text), evidence=line.evidence)
        for line in (*brief.list_closed_tasks(), *brief.list_task_troubles(), *brief.list_open_tasks())
    ]
    if sentences and (counts := threads.write_counts(digests.values())) is not None:
        sentences.append(counts)
    if sentences:
        started = min((digest.first for digest in digests.values() if digest.first is not None), default=None)
        yield StoryParagraph(title=load_phrases("threads")["title"]["tasks"], started=started, sentences=sentences)


def _keep_first_sentence(paragraph: StoryParagraph) -> StoryParagraph:
    """The headline of a thread: its name and how it ended."""
    first = paragraph.sentences[:1]
    text = f"{paragraph.title}: {first[0].text}" if first else ""
    sentences = [StorySentence(text=text, evidence=first[0].evidence)] if first else []
    return replace(paragraph, sentences=sentences)


def count_words(paragraph: StoryParagraph) -> int:
    """The words of a paragraph."""
    return len(paragraph.title.split()) + sum(len(sentence.text.split()) for sentence in paragraph.sentences)


class _ParagraphWriter:
    """Writes the paragraph of a session. The person and the repository are in the heading, once."""

    def __init__(self, until: datetime | None, zone: tzinfo, limits: StoryLimits, *, has_days: bool = False) -> None:
        self._until, self._zone, self._limits, self._has_days = until, zone, limits, has_days
        self._phrases = load_phrases("story")

    def write(self, one: Outcome) -> StoryParagraph:
        """What came of it, how it was checked, what went wrong, what is open."""
        has_landed = bool(one.delivered.commits or one.delivered.pull_requests)
        title = title_delivery(one, self._limits.title) if has_landed else name_topic(one, self._limits.title)
        sentences = [
            *(() if has_landed else self._write_result(one, title)),
            *self._write_delivery(one, title),
            *self._write_request(one, title),
            *self._write_helpers(one),
            *self._write_checks(one),
            *self._write_troubles(one),
            *self._write_corrections(one),
            *self._write_risks(one),
            *self._write_claims(one),
            *self._write_end(one),
        ]
        if not sentences:
            sentences = list(self._write_request(one, ""))
        facts = ", ".join(
            part
            for part in (
                one.person or name_agent(one.agent),
                name_repo(one),
                self._name_times(one),
                format_usd(one.usd),
                self._name_left(one),
                self._name_end(one),
            )
            if part
        )
        heading = self._fill("heading", "session", {"title": title.rstrip("."), "facts": facts})
        return StoryParagraph(title=heading, session=one.session, started=one.started, ended=one.ended, sentences=sentences)

    def write_headline(self, one: Outcome, line: BriefLine) -> StoryParagraph:
        """One line: what came of the session."""
        flags = sorted((flag for flag in one.flags if flag.executed and flag.flag in SERIOUS), key=rank_flag)
        text, evidence = line.text, line.evidence
        if flags:
            risk = self._fill("headline", "risk", {"what": shorten_text(drop_message(flags[0].what), HEADLINE_RISK).rstrip(".")})
            text, evidence = text + risk, [*evidence[: MOST_EVIDENCE - 1], *flags[0].evidence[:1]]
        sentences = [StorySentence(text=text, evidence=evidence)]
        title = name_topic(one, self._limits.title)
        return StoryParagraph(title=title, session=one.session, started=one.started, ended=one.ended, sentences=sentences)

    def _name_times(self, one: Outcome) -> str:
        if one.started is None or one.ended is None:
            return ""
        start, end = one.started.astimezone(self._zone), one.ended.astimezone(self._zone)
        form = "%Y-%m-%d %H:%M" if self._has_days or start.date() != end.date() else "%H:%M"
        last = end.strftime(form if start.date() != end.date() else "%H:%M")
        return self._fill("heading", "times", {"start": start.strftime(form), "end": last})

    def _write_result(self, one: Outcome, title: str) -> Iterator[StorySentence]:
        """What came of a session without a commit, as its headline says. The heading has what it is about."""
        if _has_result(one):
            phrase = "fact" if not one.said else "found" if one.asked.endswith("?") and not list_work_files(one.files) else "result"
            yield self._sentence("session", phrase, {"result": capitalise_text(one.said or one.result)}, one.evidence["result"])

    def _write_delivery(self, one: Outcome, title: str) -> Iterator[StorySentence]:
        delivered = one.delivered
        commits = delivered.commits
        if commits:
            subjects = [f'"{quote_inside(shorten_text(drop_trailer(commit.subject), 100))}"' for commit in commits if commit.subject]
            shown = subjects[: self._limits.items + 1]
            values = {
                "commits": count_things(len(commits), "commit"),
                "subject": next(iter(shown), ""),
                "subjects": ", ".join(shown),
                "more": len(commits) - len(shown),
                "pushed": self._describe_push(one),
            }
            pushes = one.evidence.get("delivered.pushed", []) if delivered.pushed else []
            # The call has the message, the result shows that it worked.
            evidence = [source for commit in commits[:MOST_COUNTED] for source in commit.evidence[-2:]] + pushes[-1:]
            phrase = "one_commit" if len(commits) == 1 or not shown else "commits" if len(commits) <= MOST_COUNTED else "many_commits"
            yield self._sentence("session", phrase, values, evidence)
        for request in delivered.pull_requests:
            values = {"number": request.number, "title": f'"{quote_inside(shorten_text(request.title, 100))}"' if request.title else ""}
            yield self._sentence("session", "request", values, request.evidence)
        files = list_work_files(one.files)
        if files and not commits:
            ranked = sorted(files, key=lambda file: -(file.added + file.removed))
            evidence = [source for file in ranked[: MOST_COUNTED + 1] for source in file.evidence[-1:]]
            named = list(dict.fromkeys(name_files([file]) for file in ranked))
            shown = named[: self._limits.items + 1]
            more = len(files) - len(shown)
            others = "" if not more else "more files" if len(files) > MOST_COUNTED + 1 else f"{more} more file{'s' if more > 1 else ''}"
            values = {"files": ", ".join(shown) if more else join_words(shown), "more": others}
            yield self._sentence("session", "changed", values, evidence)
            discarded = [flag for flag in one.flags if flag.executed and flag.what.startswith("uncommitted changes")]
            if discarded and has_discarded(one):
                what = shorten_text(discarded[0].what.partition(": ")[2], self._limits.quote)
                yield self._sentence("session", "discarded", {"what": what}, _cite_flags(discarded))
        answer = one.evidence.get("delivered.answer", [])
        is_question = one.question is not None and one.question in delivered.answer
        is_told = commits or files or delivered.pull_requests or _has_result(one) or is_question
        if delivered.answer and not is_told and not self._is_refuted(one):
            yield self._sentence("session", "answered", {"answer": self._quote(delivered.answer)}, answer)

    def _describe_push(self, one: Outcome) -> str:
        if not one.delivered.pushed:
            return ""
        if one.delivered.unpushed:
            return self._fill("session", "pushed_before", {"commits": count_things(one.delivered.unpushed, "commit").removeprefix("1 ")})
        return self._fill("session", "pushed", {"what": "it" if len(one.delivered.commits) == 1 else "them"})

    def _name_left(self, one: Outcome) -> str:
        """How the work was left, for the heading: `not pushed`, `not committed`, `no files edited`."""
        delivered = one.delivered
        if delivered.commits:
            left = "" if delivered.pushed or delivered.pull_requests or delivered.push_unknown else "not_pushed"
        elif delivered.pushed or delivered.pull_requests or one.status == "running":
            left = ""
        elif list_work_files(one.files):
            left = "not_committed"
        else:  # commands may have changed something that is no file of the session
            left = "not_edited" if find_part(one, "no files edited", "answered, no files edited") else "nothing"
            left = "" if find_part(one, HELPERS_UNSEEN) else left
        return self._phrases["left"][left] if left else ""

    def _name_end(self, one: Outcome) -> str:
        """`no final answer`, for the heading: no event shows that something is missing."""
        if one.status != "interrupted" or (self._until is not None and one.ended is not None and one.ended >= self._until):
            return ""
        return self._phrases["left"]["no_answer"] if find_part(one, "stopped ", "no final answer") else ""

    def _is_refuted(self, one: Outcome) -> bool:
        answer = one.delivered.answer
        return any(claim.verdict == "contradicted" and (claim.text in answer or answer in claim.text) for claim in one.claims)

    def _write_request(self, one: Outcome, title: str) -> Iterator[StorySentence]:
        asked = self._quote(one.asked)
        if asked and is_whole_request(one.asked) and not self._says_less(one, title):
            plan = asked.removeprefix("Plan: ")
            phrase = "asked" if plan == asked else "planned"
            yield self._sentence("session", phrase, {"person": one.person, "asked": plan}, one.evidence.get("asked", ()))

    def _says_less(self, one: Outcome, title: str) -> bool:
        """Whether the request only repeats the title, or is a few words that have nothing to do with it: "Back to main"."""
        if not title:
            return False
        words = list_content_words(one.asked)
        is_repeated = name_request(one, 1000).startswith(title.rstrip("…. "))
        return is_repeated or (len(words) < LEAST_REQUEST and words.isdisjoint(list_content_words(title)))

    def _write_helpers(self, one: Outcome) -> Iterator[StorySentence]:
        if one.helpers:
            roles = Counter(helper.role for helper in one.helpers if helper.role)
            is_one = len(roles) == 1 and roles.total() == len(one.helpers)
            named = [f"{count} × {role}" if count > 1 and not is_one else role for role, count in roles.most_common(6)]
            if more := len(one.helpers) - sum(count for _, count in roles.most_common(6)):
                named = [*named, f"{more} more"] if named else []
            helpers = list(one.helpers)
            counted = count_things(len(helpers), "helper")
            if len(helpers) > MOST_COUNTED + 1:  # one of each role shows what is said
                helpers, named, counted = list({helper.role: helper for helper in helpers}.values()), list(roles), "helpers"
            evidence = [source for helper in helpers[: MOST_COUNTED + 1] for source in helper.evidence[:1]]
            values = {"helpers": counted, "roles": ", ".join(named[: MOST_COUNTED + 1])}
            yield self._sentence("session", "helpers", values, evidence)

    def _write_checks(self, one: Outcome) -> Iterator[StorySentence]:
        for result in ("pass", "fail", "could_not_run"):
            found = [kind for kind in CHECKS if getattr(one.checks, kind).result == result]
            if not found:
                continue
            checks = [getattr(one.checks, kind) for kind in found]
            values = {
                "names": capitalise_text(join_words([name_check(one, kind) for kind in found])),
                "counts": self._count_tests(one, found),
                "reason": clean_cause(next((check.reason for check in checks if check.reason), ""), self._limits.quote),
            }
            yield self._sentence("checks", result, values, (source for check in checks for source in check.evidence))

    def _count_tests(self, one: Outcome, found: Sequence[str]) -> str:
        counts = one.checks.tests.counts if "tests" in found else ""
        if counts.startswith("0 passed"):  # of the last of several packages
            return ""
        return f"tests: {counts}" if counts and len(found) > 1 else counts

    def _write_troubles(self, one: Outcome) -> Iterator[StorySentence]:
        failing = {source.event for kind in CHECKS if (check := getattr(one.checks, kind)).result == "fail" for source in check.evidence}
        notable = list_notable_troubles(one)
        reasons = {check.reason for kind in CHECKS if (check := getattr(one.checks, kind)).result == "fail" and check.reason}
        troubles = [found for found in notable if found.resolved or failing.isdisjoint(cited.event for cited in found.evidence)]
        troubles = [found for found in troubles if found.resolved or found.cause not in reasons]
        ranked = sorted(troubles, key=lambda trouble: (trouble.resolved, -count_attempts(trouble)))
        named: set[str] = set()
        for trouble in ranked:
            values = {"what": describe_trouble(trouble, self._limits.quote)}
            if count_attempts(trouble) > MOST_COUNTED:
                values["what"] = re.sub(r" \d+ times\b", " several times", values["what"], count=1)
            if values["what"] in named or len(named) >= self._limits.items:
                continue
            named.add(values["what"])
            evidence = [*trouble.evidence, *trouble.fixed_by, *trouble.retried]
            yield self._sentence("trouble", name_end(one, trouble), values, evidence)

    def _write_corrections(self, one: Outcome) -> Iterator[StorySentence]:
        for correction in one.corrections[: self._limits.items]:
            prompt = self._quote(shorten_text(correction.prompt, LONGEST_PROMPT))
            yield self._sentence("session", "correction", {"person": one.person, "prompt": prompt}, correction.evidence)

    def _write_risks(self, one: Outcome) -> Iterator[StorySentence]:
        groups = sorted(group_flags(one.flags), key=lambda flags: rank_flag(flags[0]))
        for flags in groups[: self._limits.items]:
            same = sum(flag.what == flags[0].what for flag in flags)
            what = shorten_text(drop_message(flags[0].what), self._limits.quote).rstrip(".")
            values = {"what": what, "times": same if same > 1 else "", "others": len(flags) - same or ""}
            yield self._sentence("check_this", "flag" if flags[0].executed else "attempted", values, _cite_flags(flags))
        if rest := [flag for flags in groups[self._limits.items :] for flag in flags]:
            kinds = Counter(flag.what.partition(": ")[0] for flag in rest)
            named = [f"{kind} ({count})" if count > 1 else kind for kind, count in kinds.most_common(4)]
            yield self._sentence("check_this", "flags_more", {"kinds": ", ".join(named)}, _cite_flags(rest))

    def _write_claims(self, one: Outcome) -> Iterator[StorySentence]:
        refuted = [claim for claim in one.claims if is_refuted(claim)]
        for claim in (*refuted[: self._limits.items + 1], *self._find_unproven(one)):
            why = shorten_text(shorten_paths(claim.why), self._limits.quote).rstrip(".: ")
            text = self._quote(claim.text)
            yield self._sentence("check_this", claim.verdict, {"text": text, "why": why}, claim.evidence)

    def _find_unproven(self, one: Outcome) -> list[JudgedClaim]:
        return [claim for claim in one.claims if needs_proof(one, claim)][-1:]

    def _write_end(self, one: Outcome) -> Iterator[StorySentence]:
        status = one.evidence.get("status") or one.evidence.get("delivered.answer") or one.evidence.get("asked", [])
        if self._until is not None and one.ended is not None and one.ended >= self._until:
            yield self._sentence("session", "continued", {}, status)
        elif one.status == "interrupted":
            end = describe_end(one)
            if request := end.removeprefix("stopped during ").strip('"') if end.startswith("stopped during ") else "":
                yield self._sentence("session", "unanswered", {"request": request}, status)
            elif end and not end.startswith("stopped"):
                yield StorySentence(text=f"{capitalise_text(end)}.", evidence=status[:MOST_EVIDENCE])
        elif one.status != "finished":
            values = {"error": shorten_text(find_error(one), self._limits.quote)}
            yield self._sentence("session", one.status, values, status)
        if one.waiting_for == "person" and one.question:
            question = self._quote(one.question)
            yield self._sentence("session", "question", {"question": question}, one.evidence.get("question", status))
        elif one.waiting_for == "permission":
            yield self._sentence("session", "permission", {}, status)
        elif one.left_to_do and one.left_to_do not in one.said:
            yield self._sentence("session", "left", {"said": self._quote(one.left_to_do)}, one.evidence.get("delivered.answer", status))

    def _quote(self, text: str) -> str:
        """The text for a place between quotes; a long one ends where a clause ends, with a mark that it goes on."""
        short = shorten_result(mark_open_end(text.rstrip()), self._limits.quote)
        return quote_inside(short if short.endswith("…") or len(short) >= len(" ".join(text.split())) else f"{short}…").rstrip(".")

    def _fill(self, section: str, phrase: str, values: Mapping[str, object]) -> str:
        return fill_phrase(self._phrases[section][phrase], values)

    def _sentence(self, section: str, phrase: str, values: Mapping[str, object], evidence: Iterable[Source]) -> StorySentence:
        text = self._fill(section, phrase, values)
        return StorySentence(text=capitalise_text(text).replace("….", "…"), evidence=list(dict.fromkeys(evidence))[:MOST_EVIDENCE])


def _cite_flags(flags: Sequence[RiskFlag]) -> list[Source]:
    return [source for flag in flags for source in flag.evidence]


def _has_result(one: Outcome) -> bool:
    """Whether more is known of what came of it than the request."""
    return has_result(one) and bool(one.evidence.get("result"))


def _end_sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."
