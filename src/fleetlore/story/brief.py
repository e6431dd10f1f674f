"""The brief: what a period delivered, what went wrong, what to check, who needs you, and the bill.

`make_brief` decides what is said, from outcome records; `brief_formats` writes it as text, Markdown, HTML or for a chat.
Every line names its session and its source events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, tzinfo

from msgspec import Struct, field
from msgspec.structs import replace

from fleetlore.story.phrases import count_things, fill_phrase, join_words, load_phrases
from fleetlore.views.outcomes.facts import Source
from fleetlore.views.outcomes.record import CHECKS, Delivered, JudgedClaim, Outcome, RiskFlag, Trouble

MOST_DELIVERED = 24
MOST_TROUBLES = 5
MOST_CHECKS = 7
MOST_WAITING = 8
LONGEST_TITLE = 90
LONGEST_CAUSE = 140
MOST_NAMED = 3

PROVABLE = frozenset(["tests_pass", "build_or_lint_ok", "committed", "pushed", "pr_opened"])
"""Claims that a record can prove; others are not mentioned unless they are contradicted."""
FLAG_ORDER = (
    "secret_exposed",
    "destructive_command",
    "permission_bypass",
    "force_push",
    "no_verify",
    "test_weakened",
    "check_disabled",
    "unpinned_download",
    "loop",
    "repeated_work",
)
_CHECK_NAMES = {"tests": "tests", "lint": "lint", "types": "type check", "build": "build"}

Values = Mapping[str, object]


class BriefLine(Struct, kw_only=True):
    """One line, with the sessions and events that it is about."""

    text: str
    sessions: list[str] = field(default_factory=list)
    evidence: list[Source] = field(default_factory=list)


class Bill(Struct, kw_only=True):
    """What the period cost and how much there was of it."""

    text: str
    sessions: int = 0
    usd: float | None = None
    tokens: int = 0
    commits: int = 0
    pull_requests: int = 0


class Brief(Struct, kw_only=True):
    """The brief of a period."""

    title: str
    since: datetime | None
    until: datetime | None
    delivered: list[BriefLine]
    went_wrong: list[BriefLine]
    check_this: list[BriefLine]
    needs_you: list[BriefLine]
    bill: Bill


def make_brief(outcomes: Iterable[Outcome], *, since: datetime | None, until: datetime | None, zone: tzinfo) -> Brief:
    """The brief of these sessions, which were active from `since` until `until`."""
    sessions = sorted(outcomes, key=lambda one: (one.ended is None, one.ended, one.session))
    writer = _BriefWriter(sessions)
    return Brief(
        title=name_period(since, until, zone),
        since=since,
        until=until,
        delivered=writer.list_deliveries(),
        went_wrong=writer.list_troubles(),
        check_this=writer.list_checks(),
        needs_you=writer.list_waiting(),
        bill=writer.sum_up(),
    )


def clip_outcome(outcome: Outcome, times: Mapping[str, datetime], since: datetime | None, until: datetime | None) -> Outcome:
    """The record without what happened outside of the period. `times` has the times of its source events as far as they are known."""

    def is_inside(evidence: Sequence[Source]) -> bool:
        at = max((times[one.event] for one in evidence if one.event in times), default=None)
        return at is None or ((since is None or at >= since) and (until is None or at < until))

    delivered = outcome.delivered
    return replace(
        outcome,
        delivered=Delivered(
            commits=[one for one in delivered.commits if is_inside(one.evidence)],
            pushed=delivered.pushed and is_inside(outcome.evidence.get("delivered.pushed", ())),
            pull_requests=[one for one in delivered.pull_requests if is_inside(one.evidence)],
            tasks=delivered.tasks,
            answer=delivered.answer,
        ),
        troubles=[one for one in outcome.troubles if is_inside(one.evidence)],
        flags=[one for one in outcome.flags if is_inside(one.evidence)],
        claims=[one for one in outcome.claims if is_inside(one.evidence)],
        files=[one for one in outcome.files if is_inside(one.evidence)],
    )


def name_period(since: datetime | None, until: datetime | None, zone: tzinfo) -> str:
    """`Monday 2026-02-09`, or `2026-02-09 08:00 to 2026-02-10 08:00`."""
    if since is None:
        return "All sessions"
    start = since.astimezone(zone)
    if until is None:
        return f"Since {start:%Y-%m-%d %H:%M}"
    end = until.astimezone(zone)
    if (
        start.time() == end.time() == start.replace(hour=0, minute=0, second=0, microsecond=0).time()
        and (end.date() - start.date()).days == 1
    ):
        return f"{start:%A} {start:%Y-%m-%d}"
    return f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"


class _BriefWriter:
    """Turns sessions into the lines of each section. People and repositories are named only if there are several."""

    def __init__(self, sessions: Sequence[Outcome]) -> None:
        self._sessions = sessions
        self._phrases = load_phrases("brief")
        self._has_people = len({one.person for one in sessions}) > 1
        self._has_repos = len({_short_repo(one) for one in sessions}) > 1

    def list_deliveries(self) -> list[BriefLine]:
        """Sessions with commits, pull requests or changes, those with the most first to be shown; then the others in one line."""
        working = [one for one in self._sessions if _has_delivered(one) or one.files or one.status == "running"]
        ranked = sorted(working, key=lambda one: (not one.delivered.pull_requests, not one.delivered.commits, not one.files))
        shown, rest = ranked[:MOST_DELIVERED], ranked[MOST_DELIVERED:]
        lines = [self._describe_session(one) for one in shown]
        if rest:
            commits = sum(len(one.delivered.commits) for one in rest)
            more = {
                "sessions": count_things(len(rest), "session"),
                "commits": count_things(commits, "commit"),
                "cost": _format_usd(_sum_usd(rest)),
            }
            lines.append(BriefLine(text=self._fill("delivered", "more", more), sessions=[one.session for one in rest]))
        answered = [one for one in self._sessions if one not in working and one.status == "finished"]
        if answered:
            titles = [_quote_title(one) for one in answered[-MOST_NAMED:]]
            values: dict[str, object] = {
                "sessions": count_things(len(answered), "session"),
                "titles": ", ".join(titles),
                "more": len(answered) - len(titles),
            }
            lines.append(BriefLine(text=self._fill("delivered", "answered", values), sessions=[one.session for one in answered]))
        return lines

    def _describe_session(self, one: Outcome) -> BriefLine:
        text = self._fill(
            "delivered",
            "session",
            {
                "title": _title_of(one),
                "state": "; ".join(self._describe_state(one)),
                "checks": "; ".join(self._describe_checks(one)),
                "who": self._describe_who(one, with_cost=True),
            },
        )
        evidence = [source for request in one.delivered.pull_requests for source in request.evidence]
        evidence += [source for commit in one.delivered.commits for source in commit.evidence]
        return BriefLine(text=text, sessions=[one.session], evidence=(evidence or one.evidence.get("delivered.answer", []))[:5])

    def _describe_state(self, one: Outcome) -> Iterable[str]:
        phrases = self._phrases["delivered"]
        for request in one.delivered.pull_requests:
            yield fill_phrase(phrases["pull_request" if request.number else "pull_request_url"], {"number": request.number})
        if one.delivered.commits:
            if not one.delivered.pull_requests:
                yield phrases["pushed" if one.delivered.pushed else "not_pushed"]
        elif one.files:
            yield fill_phrase(phrases["not_committed"], {"files": count_things(len(one.files), "file")})
        if one.status in ("running", "interrupted", "failed"):
            yield phrases[one.status]

    def _describe_checks(self, one: Outcome) -> Iterable[str]:
        for result, phrase in (("pass", "passed"), ("fail", "failed_checks")):
            names = [_CHECK_NAMES[kind] for kind in CHECKS if getattr(one.checks, kind).result == result]
            if names:
                yield self._fill("delivered", phrase, {"names": join_words(names)})

    def list_troubles(self) -> list[BriefLine]:
        """What is not resolved, each in a line; then what was fixed on the way, in one line."""
        unresolved = [(one, trouble) for one in self._sessions for trouble in one.troubles if not trouble.resolved]
        failed = [one for one in self._sessions if one.status == "failed"]
        lines = [
            BriefLine(
                text=self._fill("went_wrong", "session_failed", {"title": _title_of(one), "who": self._describe_who(one)}),
                sessions=[one.session],
                evidence=one.evidence.get("status", [])[:5],
            )
            for one in failed[:MOST_TROUBLES]
        ]
        room = MOST_TROUBLES - len(lines)
        lines += [self._describe_trouble(one, trouble) for one, trouble in unresolved[:room]]
        if len(unresolved) > room:
            more = {"problems": count_things(len(unresolved) - room, "problem")}
            lines.append(BriefLine(text=self._fill("went_wrong", "more", more), sessions=_sessions_of(unresolved[room:])))
        fixed = [(one, trouble) for one in self._sessions for trouble in one.troubles if trouble.resolved]
        if len(fixed) == 1:
            lines.append(self._describe_trouble(*fixed[0]))
        elif fixed:
            kinds = Counter(_kind_of(trouble) for _, trouble in fixed)
            named = [f"{kind} ({count})" if count > 1 else kind for kind, count in kinds.most_common(MOST_NAMED + 1)]
            values = {"problems": count_things(len(fixed), "problem"), "kinds": ", ".join(named)}
            evidence = [source for _, trouble in fixed for source in trouble.evidence][:5]
            lines.append(BriefLine(text=self._fill("went_wrong", "fixed", values), sessions=_sessions_of(fixed), evidence=evidence))
        return lines

    def _describe_trouble(self, one: Outcome, trouble: Trouble) -> BriefLine:
        end = self._phrases["went_wrong"]["resolved" if trouble.resolved else "open"]
        values = {"what": _shorten(trouble.what, LONGEST_CAUSE), "end": end, "who": self._describe_who(one)}
        return BriefLine(text=self._fill("went_wrong", "trouble", values), sessions=[one.session], evidence=trouble.evidence[:5])

    def list_checks(self) -> list[BriefLine]:
        """At most seven lines, the worst first: contradicted claims, risk flags, claims without proof."""
        lines: list[tuple[int, BriefLine]] = []
        for one in self._sessions:
            lines += [(0, self._describe_claim(one, claim)) for claim in one.claims if claim.verdict == "contradicted"]
            lines += [(1 + _rank_flag(flags[0]), self._describe_flags(one, flags)) for flags in _group_flags(one.flags)]
            unproven = [claim for claim in one.claims if claim.verdict == "unproven" and claim.kind in PROVABLE]
            lines += [(50, self._describe_claim(one, claim)) for claim in unproven[-1:]]
        lines.sort(key=lambda line: line[0])
        shown = [line for _, line in lines[:MOST_CHECKS]]
        if len(lines) > MOST_CHECKS:
            shown = shown[: MOST_CHECKS - 1]
            text = self._fill("check_this", "more", {"items": count_things(len(lines) - len(shown), "item")})
            shown.append(BriefLine(text=text, sessions=_unique(name for _, line in lines[len(shown) :] for name in line.sessions)))
        return shown

    def _describe_claim(self, one: Outcome, claim: JudgedClaim) -> BriefLine:
        values = {"text": _shorten(claim.text, LONGEST_TITLE), "why": claim.why.rstrip("."), "who": self._describe_who(one)}
        return BriefLine(text=self._fill("check_this", claim.verdict, values), sessions=[one.session], evidence=claim.evidence[:5])

    def _describe_flags(self, one: Outcome, flags: Sequence[RiskFlag]) -> BriefLine:
        what = _shorten(flags[0].what, LONGEST_CAUSE)
        values = {"what": what[:1].upper() + what[1:], "times": len(flags) if len(flags) > 1 else "", "who": self._describe_who(one)}
        phrase = "flag" if flags[0].executed else "attempted"
        evidence = [source for flag in flags for source in flag.evidence][:5]
        return BriefLine(text=self._fill("check_this", phrase, values), sessions=[one.session], evidence=evidence)

    def list_waiting(self) -> list[BriefLine]:
        """Sessions with an open question or a permission to give, the newest first."""
        waiting = [one for one in reversed(self._sessions) if one.waiting_for in ("person", "permission")]
        lines = []
        for one in waiting[:MOST_WAITING]:
            phrase = "question" if one.waiting_for == "person" else "permission"
            question = _shorten(one.question or "", LONGEST_CAUSE)
            values = {"title": _short_title(one), "question": question, "who": self._describe_who(one)}
            evidence = one.evidence.get("question", one.evidence.get("status", []))[:5]
            lines.append(BriefLine(text=self._fill("needs_you", phrase, values), sessions=[one.session], evidence=evidence))
        if len(waiting) > MOST_WAITING:
            rest = waiting[MOST_WAITING:]
            text = self._fill("needs_you", "more", {"sessions": count_things(len(rest), "session")})
            lines.append(BriefLine(text=text, sessions=[one.session for one in rest]))
        return lines

    def sum_up(self) -> Bill:
        """Cost and counts of the whole period."""
        usd, tokens = _sum_usd(self._sessions), sum(one.tokens for one in self._sessions)
        commits = sum(len(one.delivered.commits) for one in self._sessions)
        requests = sum(len(one.delivered.pull_requests) for one in self._sessions)
        values = {
            "cost": _format_usd(usd),
            "tokens": count_things(tokens, "token") or "No model calls",
            "sessions": count_things(len(self._sessions), "session"),
            "commits": count_things(commits, "commit"),
            "requests": count_things(requests, "pull request"),
        }
        phrase = "nothing" if not self._sessions else "sum" if usd else "unpriced"
        text = self._fill("bill", phrase, values)
        return Bill(text=text, sessions=len(self._sessions), usd=usd, tokens=tokens, commits=commits, pull_requests=requests)

    def _describe_who(self, one: Outcome, *, with_cost: bool = False) -> str:
        repo = _short_repo(one) if self._has_repos else ""
        person = (one.person or one.agent) if self._has_people else ""
        return ", ".join(part for part in (person, repo, _format_usd(one.usd) if with_cost else "") if part)

    def _fill(self, section: str, phrase: str, values: Values) -> str:
        return fill_phrase(self._phrases[section][phrase], values)


def _has_delivered(one: Outcome) -> bool:
    return bool(one.delivered.commits or one.delivered.pull_requests or one.delivered.tasks)


def _title_of(one: Outcome) -> str:
    """What came of the session, without the check results that the headline may end with."""
    if one.delivered.pull_requests and one.delivered.pull_requests[-1].title:
        return _shorten(one.delivered.pull_requests[-1].title, LONGEST_TITLE)
    subjects = [commit.subject for commit in one.delivered.commits]
    plain = [subject for subject in subjects if not subject.startswith("Merge ")] or subjects
    if plain:
        more = len(subjects) - 1
        return _shorten(plain[0], LONGEST_TITLE) + (f" (+{count_things(more, 'commit')})" if more else "")
    return _shorten(one.headline.partition("; ")[0] or one.name, LONGEST_TITLE)


def _short_title(one: Outcome) -> str:
    return _shorten(one.title or one.asked or one.name, 60)


def _quote_title(one: Outcome) -> str:
    return f'"{_short_title(one)}"'


def _short_repo(one: Outcome) -> str:
    return (one.repo or "").rpartition("/")[2]


def _kind_of(trouble: Trouble) -> str:
    """`Lint failed (2 issues): …` is of the kind `lint failed`."""
    kind = trouble.what.partition(":")[0].partition(" (")[0].strip()
    return kind[:1].lower() + kind[1:]


def _group_flags(flags: Sequence[RiskFlag]) -> list[list[RiskFlag]]:
    groups: dict[tuple[str, bool], list[RiskFlag]] = {}
    for flag in flags:
        groups.setdefault((flag.flag, flag.executed), []).append(flag)
    return list(groups.values())


def _rank_flag(flag: RiskFlag) -> int:
    rank = FLAG_ORDER.index(flag.flag) if flag.flag in FLAG_ORDER else len(FLAG_ORDER)
    return rank + (0 if flag.executed else 20)


def _sum_usd(sessions: Iterable[Outcome]) -> float | None:
    known = [one.usd for one in sessions if one.usd is not None]
    return sum(known) if known else None


def _format_usd(usd: float | None) -> str:
    return "" if not usd else f"${usd:,.2f}" if usd >= 0.01 else "under $0.01"


def _sessions_of(pairs: Iterable[tuple[Outcome, object]]) -> list[str]:
    return _unique(one.session for one, _ in pairs)


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _shorten(text: str, longest: int) -> str:
    text = " ".join(text.split())
    if len(text) <= longest:
        return text
    return text[: longest - 1].rsplit(" ", 1)[0].rstrip(" ,;:.") + "…"
