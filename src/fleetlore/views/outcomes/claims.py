"""Judge claims of success by the facts of the session: supported, contradicted or unproven.

A claim is judged at the end of the turn that makes it. The facts that count are those after the last edit that matters: a
green run before an edit proves nothing about the code after it. A selection of tests supports a claim about that selection,
not about all tests. `contradicted` needs a record that says the opposite; where the record is silent or ambiguous the
claim is `unproven`, which does not mean false.

The fold calls `read_attempts` for every tool call and `judge_text` for every answer, commit message and pull request.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Literal, TypeVar

from msgspec import Struct

from fleetlore.views.outcomes.attempts import read_attempts, read_ci_results
from fleetlore.views.outcomes.claim_text import ClaimKind, ClaimPlace, ClaimText, extract_claims
from fleetlore.views.outcomes.facts import (
    Attempt,
    CheckKind,
    CheckRun,
    CommitMade,
    FileEdit,
    PullRequestOpened,
    PushMade,
    Source,
)
from fleetlore.views.outcomes.shell import word_set

__all__ = [
    "Claim",
    "ClaimFacts",
    "ClaimKind",
    "ClaimPlace",
    "ClaimText",
    "Verdict",
    "extract_claims",
    "judge_claims",
    "judge_text",
    "read_attempts",
    "read_ci_results",
]

Verdict = Literal["supported", "contradicted", "unproven"]
MOST_EVIDENCE = 5


class Claim(Struct, frozen=True):
    """A claim with its verdict. The first piece of evidence is the text that makes the claim."""

    text: str
    kind: ClaimKind
    where: ClaimPlace
    verdict: Verdict
    why: str
    evidence: tuple[Source, ...] = ()


class ClaimFacts(Struct, frozen=True):
    """The facts that claims are judged by, each in the order of steps.

    Runs of other agents in the same workspace are given like the session's own, with the step at which they were known.
    `ci` holds results of CI with the step at which they were known: they count for a claim if they came after the last commit
    or push before it and before the next change, also if they came after the claim.
    """

    checks: Sequence[CheckRun] = ()
    commits: Sequence[CommitMade] = ()
    pushes: Sequence[PushMade] = ()
    pull_requests: Sequence[PullRequestOpened] = ()
    edits: Sequence[FileEdit] = ()
    attempts: Sequence[Attempt] = ()
    ci: Sequence[CheckRun] = ()
    # The first step of the turn that makes the claim.
    turn_start: int = 0
    # False: the recording begins in mid-work, so that the absence of a call proves nothing.
    complete: bool = True


class _Ruling(Struct, frozen=True):
    verdict: Verdict
    why: str
    evidence: tuple[Source, ...] = ()


def judge_text(text: str, where: ClaimPlace, said: Source, at: int, facts: ClaimFacts) -> tuple[Claim, ...]:
    """The claims in `text`, which was written at step `at`, with their verdicts."""
    claims = extract_claims(text, where)
    return judge_claims(claims, where, said, at, facts) if claims else ()


def judge_claims(claims: Iterable[ClaimText], where: ClaimPlace, said: Source, at: int, facts: ClaimFacts) -> tuple[Claim, ...]:
    """Decide about each claim by the facts up to step `at`. Mentions of commits and pull requests that this session did not
    make are left out, and so is the half of "all checks pass" that is about checks which were never run."""
    known = ClaimFacts(
        checks=_facts_until(facts.checks, at),
        commits=_facts_until(facts.commits, at),
        pushes=_facts_until(facts.pushes, at),
        pull_requests=_facts_until(facts.pull_requests, at),
        edits=_facts_until(facts.edits, at),
        attempts=_facts_until(facts.attempts, at),
        ci=_ci_about(facts, at),
        turn_start=facts.turn_start,
        complete=facts.complete,
    )
    judged: list[Claim] = []
    for claim in claims:
        ruling = _judge_claim(claim, known)
        if ruling is None:
            continue
        evidence = tuple(dict.fromkeys((said, *ruling.evidence)))[:MOST_EVIDENCE]
        judged.append(Claim(claim.text[:400], claim.kind, where, ruling.verdict, ruling.why, evidence))
    return tuple(judged)


_Fact = TypeVar("_Fact", CheckRun, CommitMade, PushMade, PullRequestOpened, FileEdit, Attempt)


def _facts_until(facts: Sequence[_Fact], at: int) -> Sequence[_Fact]:
    if not facts or facts[-1].step <= at:
        return facts
    return [fact for fact in facts if fact.step <= at]


def _ci_about(facts: ClaimFacts, at: int) -> Sequence[CheckRun]:
    """The results of CI for the state of the code at step `at`: for each job the newest."""
    if not facts.ci:
        return ()
    before = [fact.step for known in (facts.commits, facts.pushes) for fact in known if fact.step <= at]
    after = [fact.step for fact in facts.commits if fact.step > at] + [edit.step for edit in facts.edits if edit.step > at and edit.covered]
    if not before:  # the session has sent nothing: a later result is about other work
        return tuple({run.command: run for run in facts.ci if run.step <= at}.values())
    start, end = max(before), min(after, default=None)
    newest = {run.command: run for run in facts.ci if run.step >= start and (end is None or run.step < end)}
    return tuple(newest.values())


# The claim says itself that something fails, or is about a part of the code only.
_DISCLOSED = re.compile(
    r"(?i)\bpre-?existing|\bexisting (?:\w+ ){0,2}(?:fail|error|issue|timeout|warning)|\bunrelated\b|\bflak[ey]"
    r"|\b(?:known|expected|other|older?) (?:\w+ ){0,2}(?:fail|error|issue|warning)|\balready fail"
    r"|\bexcept\b|\bapart from\b|\bon (?:a |the )?retry\b|\b(?:\d+|all|the) other\b"
)
_SCOPED = re.compile(
    r"(?i)\b(?:in|for|of|on|to) (?:the |my |our |all |any )*(?:changed|modified|touched|edited|new|affected)"
    r" (?:files?|code|lines?|packages?|modules?)"
)


def _judge_claim(claim: ClaimText, facts: ClaimFacts) -> _Ruling | None:
    if facts.ci and claim.kind in ("tests_pass", "build_or_lint_ok") and (job := _find_named_job(claim, facts)) is not None:
        if job.result == "pass":
            return _Ruling("supported", f"CI passed: {job.command}", (job.source,))
        verdict: Verdict = "unproven" if _DISCLOSED.search(claim.text) else "contradicted"
        return _Ruling(verdict, f"CI failed: {job.command}", (job.source,))
    match claim.kind:
        case "tests_pass":
            return _rule_tests(claim, facts)
        case "build_or_lint_ok":
            return _rule_checks(claim, facts)
        case "committed":
            return _rule_committed(claim, facts)
        case "pushed":
            return _rule_pushed(claim, facts)
        case "pr_opened":
            return _rule_pull_request(claim, facts)
        case "file_state":
            return _rule_file(claim, facts)
        case _:
            return _rule_work(claim, facts)


def _find_named_job(claim: ClaimText, facts: ClaimFacts) -> CheckRun | None:
    """The job of CI that a claim is about by its own name, such as "Build Binaries"."""
    text = claim.text.lower()
    return next((run for run in reversed(facts.ci) if " " in run.command and run.command.lower() in text), None)


# --- Tests -----------------------------------------------------------------------------------------------------------


def _last_relevant_edit(facts: ClaimFacts) -> FileEdit | None:
    for edit in reversed(facts.edits):
        if edit.covered:
            return edit
    return None


def _rule_tests(claim: ClaimText, facts: ClaimFacts) -> _Ruling | None:
    if "ci" in claim.part:
        return _rule_ci(claim, facts)
    runs = [run for run in facts.checks if run.kind == "tests" and not (run.meant_to_fail and run.result == "fail")]
    failed_in_ci = next((run for run in reversed(facts.ci) if run.kind == "tests" and run.result == "fail"), None)
    if failed_in_ci is not None and not claim.part and not any(run.step > failed_in_ci.step and run.result == "pass" for run in runs):
        verdict: Verdict = "contradicted" if claim.everything and not claim.qualified else "unproven"
        return _Ruling(verdict, f"CI failed for this commit: {failed_in_ci.command}", (failed_in_ci.source,))
    return _rule_runs(claim, _CHECK_NAMES["tests"], runs, facts)


def _rule_ci(claim: ClaimText, facts: ClaimFacts) -> _Ruling:
    if not facts.ci:
        return _Ruling("unproven", "no result of CI is recorded")
    failed = next((run for run in reversed(facts.ci) if run.result == "fail"), None)
    if failed is not None:
        return _Ruling("contradicted", f"CI failed{_describe_run(failed)}", (failed.source,))
    if all(run.result == "pass" for run in facts.ci):
        return _Ruling("supported", "CI passed", tuple(run.source for run in facts.ci[-4:]))
    return _Ruling("unproven", "CI has not finished")


def _rule_runs(claim: ClaimText, name: str, runs: Sequence[CheckRun], facts: ClaimFacts) -> _Ruling:
    """Decide by the runs of one kind of check after the last edit."""
    if not runs:
        return _Ruling("unproven", f"no {name} run is recorded")
    edit = _last_relevant_edit(facts)
    # A run and an edit of the same call: the call's command was run on what it edited.
    fresh = [run for run in runs if edit is None or run.step >= edit.step]
    if not fresh:
        last = runs[-1]
        assert edit is not None
        said = {"pass": "passed", "fail": "failed"}.get(last.result, "did not finish")
        return _Ruling("unproven", f"{_base_name(edit.path)} was edited after the last {name} run ({said})", (last.source, edit.source))
    counted = _find_counted(claim, fresh) if claim.kind == "tests_pass" else None
    if counted is not None:
        return _Ruling("supported", f"{_shorten_command(counted.command)} reports {counted.counts}", (counted.source,))
    about = _runs_about(claim, fresh)
    unseen = _unseen_since(facts, fresh[-1].step)
    if not about:
        last = fresh[-1]
        if last.result == "fail" and last.whole and not claim.part and not claim.qualified and not unseen:
            return _Ruling("contradicted", f"the last {name} run failed{_describe_run(last)}", (last.source,))
        return _Ruling("unproven", f"no {name} run of this part after the last edit", (last.source,))
    return _rule_fresh(claim, name, about, unseen)


_PASSED = re.compile(r"\b(\d{1,7}) (?:tests? |examples? )?(?:pass|ok\b|succe)")
_CLAIMED = re.compile(
    r"\b(\d{1,7})(?:/\d{1,7})? (?:[\w`'-]+ ){0,4}?(?:pass|succe|green)|\b(\d{1,7})(?: [\w`'-]+){0,3} tests? (?:\w+ )?pass", re.IGNORECASE
)


def _find_counted(claim: ClaimText, fresh: Sequence[CheckRun]) -> CheckRun | None:
    """The newest run that reports the very number of passing tests that is claimed.

    "31 of 35 pass" and "the 9 parser tests pass" say themselves that they are about a part, so a failure of the whole does not
    disprove them. "All 31 pass" needs a run without failures.
    """
    claimed = {int(a or b) for a, b in _CLAIMED.findall(claim.text[:400])}
    for run in reversed(fresh):
        found = _PASSED.search(run.counts)
        if found is None or int(found[1]) not in claimed or run.cached:
            continue
        if run.result == "pass" or (run.result == "fail" and not claim.everything):
            return run
    return None


def _rule_fresh(claim: ClaimText, name: str, fresh: Sequence[CheckRun], unseen: bool) -> _Ruling:
    last = fresh[-1]
    ran = [run for run in fresh if run.result in ("pass", "fail")]
    sources = tuple(run.source for run in reversed(fresh[-4:]))
    if not ran:
        # "No tests ran" is neither a pass nor a failure.
        is_empty = "no test" in last.reason.lower() or "no test" in last.counts.lower()
        if last.result == "could_not_run" and not claim.qualified and not unseen and not is_empty:
            return _Ruling("contradicted", f"the {name} run could not start{_describe_run(last)}", (last.source,))
        return _Ruling("unproven", f"the result of the {name} run is not recorded: {_shorten_command(last.command)}", sources)
    failed = _still_failed(ran)
    if failed is not None:
        # A run of everything that passed later, by another command, may have been the same tests in another environment.
        hidden_by_part = failed.whole and claim.everything and not any(run.whole and run.step > failed.step for run in ran)
        # What a heading such as "All gates are green:" claims is said in the lines below it.
        is_limited = _SCOPED.search(claim.text) is not None or (claim.general and claim.text.rstrip("*_ ").endswith(":"))
        certain = (ran[-1] is failed or hidden_by_part) and not is_limited
        if _DISCLOSED.search(claim.text):
            good = next((run for run in reversed(ran) if run.result == "pass" or _PASSED.search(run.counts)), None)
            if good is not None:
                shown = f" ({good.counts})" if good.counts else ""
                why = f"{_shorten_command(good.command)} {'passed' if good.result == 'pass' else 'failed, as the claim says'}{shown}"
                return _Ruling("supported", why, (good.source, failed.source))
            return _Ruling("unproven", f"the {name} run failed, as the claim says{_describe_run(failed)}", (failed.source,))
        if certain and not claim.qualified and not unseen and (not claim.part or _names_part(claim, failed)):
            return _Ruling("contradicted", f"the last {name} run failed{_describe_run(failed)}", (failed.source,))
        return _Ruling("unproven", f"a {name} run after the last edit failed{_describe_run(failed)}", (failed.source,))
    passed = [run for run in ran if run.result == "pass"]
    if last.result == "unproven" and not any(run.command == last.command for run in passed) and claim.everything:
        return _Ruling("unproven", f"the result of the last {name} run is not recorded: {_shorten_command(last.command)}", sources)
    return _rule_passed(claim, name, passed, sources)


def _rule_passed(claim: ClaimText, name: str, passed: Sequence[CheckRun], sources: tuple[Source, ...]) -> _Ruling:
    """All runs passed: whether they cover what is claimed."""
    real = [run for run in passed if not run.cached]
    # "All 12 tests pass" after a run of 12 tests is about that run.
    is_counted = claim.count is not None and any(_counts_exactly(claim.count, run) for run in passed)
    needs_all = claim.everything and not claim.part and not is_counted
    if needs_all and not any(run.whole for run in passed):
        return _Ruling("unproven", f"only a selection was run: {_shorten_command(passed[-1].command)}", sources)
    if not real and claim.kind == "tests_pass":
        return _Ruling("unproven", f"the {name} run was cached", sources)
    real = real or list(passed)  # what a build or a linter keeps is valid as long as its input is the same
    if needs_all and not any(run.whole for run in real):
        return _Ruling("unproven", f"only a selection was run anew, the rest was cached: {_shorten_command(real[-1].command)}", sources)
    if claim.kind == "tests_pass" and (problem := _count_problem(claim, passed)):
        return _Ruling("unproven", problem, sources)
    warned = next((run for run in passed if re.search(r"\b[1-9]\d{0,6} warning", run.counts)), None)
    if warned is not None and re.search(r"\b(?:no|zero|0|without)(?: \w+){0,3} warnings?\b", claim.text, re.IGNORECASE):
        return _Ruling("contradicted", f"the run reports {warned.counts}", (warned.source,))
    best = next((run for run in reversed(real) if run.whole), real[-1])
    counts = f" ({best.counts})" if best.counts else ""
    return _Ruling("supported", f"{_shorten_command(best.command)} passed after the last edit{counts}", (best.source, *sources))


def _counts_exactly(count: int, run: CheckRun) -> bool:
    return re.match(rf"(?:Tests:? )?{count} (?:tests? )?pass", run.counts) is not None and not run.cached


def _still_failed(ran: Sequence[CheckRun]) -> CheckRun | None:
    """The newest failed run that was not repeated with success: by the same command, or by a run of everything."""
    for place in range(len(ran) - 1, -1, -1):
        run = ran[place]
        if run.result != "fail":
            continue
        later = [after for after in ran[place + 1 :] if after.result == "pass"]
        if any(_same_command(after.command, run.command) or (after.whole and not run.whole) for after in later):
            continue
        if not run.whole and any(_covers_run(after.command, run.command) for after in later):
            continue
        if run.whole and any(after.whole and _is_same_suite(after.command, run.command) for after in later):
            continue
        return run
    return None


def _runs_about(claim: ClaimText, runs: Sequence[CheckRun]) -> list[CheckRun]:
    """The runs that a claim about a named part is judged by: those that name it, else those of everything."""
    if not claim.part or claim.part == ("new",) or claim.kind != "tests_pass":
        return list(runs)
    named = [run for run in runs if _names_part(claim, run)]
    if named and not (claim.everything and len(claim.part) > 1):
        # A later run of everything counts too, but not one of another suite.
        return [run for run in runs if run in named or (run.whole and not _OTHER_SUITES.search(run.command))]
    return [run for run in runs if run.whole or run in named]


_OTHER_SUITES = re.compile(r"integration|e2e|acceptance|\bui\b|browser|smoke", re.IGNORECASE)


def _names_part(claim: ClaimText, run: CheckRun) -> bool:
    command = run.command.lower()
    if "unit" in claim.part and not _OTHER_SUITES.search(command):
        # What is not called otherwise are the unit tests.
        return True
    return any(stem in command for word in claim.part if len(stem := _stem_word(word)) > 2)


def _stem_word(word: str) -> str:
    word = word.split("-", 1)[0] if "-" in word else word
    word = word.rsplit("/", 1)[-1]
    return word[:-1] if word.endswith("s") and len(word) > 4 else word


def _count_problem(claim: ClaimText, passed: Sequence[CheckRun]) -> str:
    """A claimed number of tests that is larger than what the runs report."""
    # Some runners count packages or files, not tests.
    reported = [
        [int(number) for number in re.findall(r"\d{1,7}", run.counts[:200])]
        for run in passed
        if run.counts and not re.search(r"package|suite|file|target|module|task", run.counts[:200])
    ]
    reported = [numbers for numbers in reported if numbers]
    if reported and not any(any(numbers) for numbers in reported) and len(reported) == len(passed):
        return "no test was run"
    if claim.count is None or not reported or len(reported) < len(passed):
        return ""
    total = sum(sum(numbers) for numbers in reported)
    return f"the run reports {passed[-1].counts}" if claim.count > total else ""


# --- Lint, types, build ----------------------------------------------------------------------------------------------

_CHECK_NAMES: dict[CheckKind, str] = {"tests": "test", "lint": "lint", "types": "type check", "build": "build"}


def _rule_checks(claim: ClaimText, facts: ClaimFacts) -> _Ruling | None:
    runs = [run for run in facts.checks if run.kind != "tests" and not (run.meant_to_fail and run.result == "fail")]
    if claim.general:
        if not runs:
            return None
        edit = _last_relevant_edit(facts)
        fresh = [run for run in runs if edit is None or run.step >= edit.step]
        # "All checks pass" is about what was checked; a kind that was last run long ago is not meant.
        kinds = tuple(dict.fromkeys(run.kind for run in fresh or runs))
    else:
        kinds = claim.checks
    rulings = [_rule_runs(claim, _CHECK_NAMES[kind], _runs_of(claim, kind, runs), facts) for kind in kinds]
    for verdict in ("contradicted", "unproven", "supported"):
        chosen = [ruling for ruling in rulings if ruling.verdict == verdict]
        if chosen:
            evidence = tuple(dict.fromkeys(source for ruling in chosen for source in ruling.evidence))
            return _Ruling(chosen[0].verdict, "; ".join(dict.fromkeys(ruling.why for ruling in chosen)), evidence)
    return None


def _runs_of(claim: ClaimText, kind: CheckKind, runs: Sequence[CheckRun]) -> list[CheckRun]:
    own = [run for run in runs if run.kind == kind or any(tool in run.command for tool in claim.tools if len(tool) > 2)]
    if kind == "build" and not own:
        # A compiler that only checks ("tsc --noEmit", "cargo check") shows that the code compiles.
        own = [run for run in runs if run.kind == "types" and "compil" in claim.text.lower()]
    return own


# --- Commits, pushes, pull requests ----------------------------------------------------------------------------------


def _rule_committed(claim: ClaimText, facts: ClaimFacts) -> _Ruling | None:
    commits = facts.commits
    if claim.sha:
        same = next((c for c in reversed(commits) if c.sha and _same_sha(c.sha, claim.sha)), None)
        if same is not None:
            return _Ruling("supported", f"commit {same.sha[:9]} was made", (same.source,))
        if claim.reference:
            return None
        if commits and all(c.sha for c in commits):
            return _Ruling("unproven", f"no commit {claim.sha} is recorded", tuple(c.source for c in commits[-2:]))
    elif claim.reference:
        return None
    failed = _failed_last(facts, "commit", commits)
    if failed is not None:
        return _Ruling("contradicted", f"the commit {_describe_attempt(failed)}", (failed.source,))
    if commits:
        last = commits[-1]
        edit = next((e for e in reversed(facts.edits) if e.step > last.step and e.covered), None)
        if edit is not None and _is_untried(claim, facts, "commit", last.step):
            return _Ruling("contradicted", f"{_base_name(edit.path)} was edited and not committed in this turn", (edit.source,))
        if edit is not None and (last.step < facts.turn_start or claim.everything):
            return _Ruling("unproven", f"{_base_name(edit.path)} was edited after the last commit", (last.source, edit.source))
        return _Ruling("supported", f"committed: {last.subject[:80]}" if last.subject else "a commit was made", (last.source,))
    return _never_done(claim, facts, "commit", "no commit was made in this session")


def _rule_pushed(claim: ClaimText, facts: ClaimFacts) -> _Ruling | None:
    done: list[PushMade | PullRequestOpened] = sorted((*facts.pushes, *facts.pull_requests), key=lambda fact: fact.step)
    failed = _failed_last(facts, "push", facts.pushes)
    if failed is not None and not any(pull.step > failed.step for pull in facts.pull_requests):
        return _Ruling("contradicted", f"the push {_describe_attempt(failed)}", (failed.source,))
    if not done:
        return _never_done(claim, facts, "push", "nothing was pushed in this session")
    last = done[-1]
    later = next((c for c in reversed(facts.commits) if c.step > last.step), None)
    if later is not None and later.step >= facts.turn_start and _is_untried(claim, facts, "push", last.step):
        return _Ruling("contradicted", f"the commit of this turn was not pushed: {later.subject[:80]}", (later.source,))
    if later is not None:
        return _Ruling("unproven", f"a commit was made after the last push: {later.subject[:80]}", (last.source, later.source))
    return _Ruling(
        "supported", "the push succeeded" if isinstance(last, PushMade) else "the pull request was opened from the branch", (last.source,)
    )


def _rule_pull_request(claim: ClaimText, facts: ClaimFacts) -> _Ruling | None:
    opened = facts.pull_requests
    if claim.number:
        same = next((p for p in reversed(opened) if p.number == claim.number or p.url.endswith("/" + claim.number)), None)
        if same is not None:
            return _Ruling("supported", f"pull request {claim.number} was opened", (same.source,))
    if claim.reference:
        return None
    failed = _failed_last(facts, "pull_request", opened)
    if failed is not None:
        return _Ruling("contradicted", f"opening the pull request {_describe_attempt(failed)}", (failed.source,))
    if opened:
        if claim.number and opened[-1].number:
            return _Ruling("unproven", f"the session opened pull request {opened[-1].number}", (opened[-1].source,))
        return _Ruling("supported", "the pull request was opened", (opened[-1].source,))
    return _never_done(claim, facts, "pull_request", "no pull request was opened in this session")


def _failed_last(
    facts: ClaimFacts, act: str, done: Sequence[CommitMade] | Sequence[PushMade] | Sequence[PullRequestOpened]
) -> Attempt | None:
    """The last attempt, if it failed and nothing of the kind succeeded in this turn or since."""
    attempts = [a for a in facts.attempts if a.act in (act, "any")]
    if not attempts or not attempts[-1].failed or attempts[-1].act != act:
        return None
    last = attempts[-1]
    is_done = bool(done) and (done[-1].step >= last.step or done[-1].step >= facts.turn_start > 0)
    return None if is_done else last


def _is_untried(claim: ClaimText, facts: ClaimFacts, act: str, last: int) -> bool:
    """Whether the agent says that it did in this turn what it did last before this turn, at step `last`, and has not tried since."""
    if not claim.own_act or claim.earlier or claim.sha or claim.number or last >= facts.turn_start:
        return False
    return not any(attempt.step > last and attempt.act in (act, "any") for attempt in facts.attempts)


def _never_done(claim: ClaimText, facts: ClaimFacts, act: str, why: str) -> _Ruling:
    """A claim of an act that no call of the session tried: contradicted, if the agent says that it did it itself."""
    tried = [a for a in facts.attempts if a.act in (act, "any")]
    if tried:
        return _Ruling("unproven", "the record does not show whether it worked", tuple(a.source for a in tried[-2:]))
    # In a turn without work the agent may speak of a session that this one continues.
    has_worked = any(
        known[-1].step >= facts.turn_start for known in (facts.edits, facts.checks, facts.attempts, facts.commits, facts.pushes) if known
    )
    if claim.own_act and has_worked and not claim.earlier and facts.complete and not claim.sha and not claim.number:
        return _Ruling("contradicted", why)
    return _Ruling("unproven", why)


# --- Files and other work --------------------------------------------------------------------------------------------


def _rule_file(claim: ClaimText, facts: ClaimFacts) -> _Ruling:
    edited = [edit for edit in facts.edits if any(_same_path(edit.path, path) for path in claim.paths)]
    if edited:
        sources = tuple(dict.fromkeys(edit.source for edit in reversed(edited[-4:])))
        return _Ruling("supported", f"{_base_name(edited[-1].path)} was edited", sources)
    refused = [a for a in facts.attempts if a.act == "edit" and a.denied and any(_same_path(a.path, p) for p in claim.paths)]
    if refused:
        return _Ruling(
            "contradicted", f"the edit of {_base_name(refused[-1].path)} {_describe_attempt(refused[-1])}", (refused[-1].source,)
        )
    if claim.paths:
        return _Ruling("unproven", f"no edit of {_base_name(claim.paths[0])} is recorded")
    recent = tuple(dict.fromkeys(edit.source for edit in facts.edits if edit.step >= facts.turn_start))[-2:]
    return _Ruling("unproven", "the claim names no file", recent)


def _rule_work(claim: ClaimText, facts: ClaimFacts) -> _Ruling:
    """ "Done" and "fixed" need understanding; the record supports them only with a green run after the last edit of the turn."""
    if claim.checks:
        return _rule_repaired(claim, facts)
    edits = [edit for edit in facts.edits if edit.step >= facts.turn_start and edit.covered]
    since = edits[-1].step if edits else facts.turn_start
    tests = [run for run in facts.checks if run.kind == "tests" and run.step >= since and not run.meant_to_fail]
    if edits and tests:
        last = tests[-1]
        if last.result == "fail":
            return _Ruling("unproven", f"the last test run failed{_describe_run(last)}", (last.source,))
        if last.result == "pass" and not last.cached:
            return _Ruling(
                "supported", f"files were edited and {_shorten_command(last.command)} passed afterwards", (edits[-1].source, last.source)
            )
    acts = [fact for facts_ in (facts.commits, facts.pushes, facts.pull_requests) for fact in facts_ if fact.step >= facts.turn_start]
    if claim.kind == "done" and acts and not edits:
        return _Ruling("supported", "it was committed, pushed or opened as a pull request", tuple(a.source for a in acts[-3:]))
    if edits:
        return _Ruling("unproven", "no test run after the last edit", (edits[-1].source,))
    return _Ruling("unproven", "no check is recorded in this turn")


def _rule_repaired(claim: ClaimText, facts: ClaimFacts) -> _Ruling:
    """ "Fixed the failing tests": by the last run. That one test is fixed is contradicted only if it fails for the same reason."""
    kind = claim.checks[0]
    runs = [run for run in facts.checks if run.kind == kind]
    ruling = _rule_runs(claim, _CHECK_NAMES[kind], runs, facts)
    if ruling.verdict == "contradicted" and not claim.everything:
        reasons = [run.reason for run in runs if run.result == "fail" and run.reason]
        if len(reasons) < 2 or reasons[-1] != reasons[-2]:
            return _Ruling("unproven", ruling.why, ruling.evidence)
    return ruling


# --- Words of a verdict ----------------------------------------------------------------------------------------------


def _describe_attempt(attempt: Attempt) -> str:
    if attempt.denied:
        return "was denied"
    return f"failed: {attempt.reason}" if attempt.reason else "failed"


def _unseen_since(facts: ClaimFacts, step: int) -> bool:
    """Whether a helper, whose calls may not be recorded, worked after `step`."""
    return any(a.unseen and a.act == "any" and a.step > step for a in facts.attempts)


# --- Words -----------------------------------------------------------------------------------------------------------


def _describe_run(run: CheckRun) -> str:
    detail = run.reason or run.counts
    return f": {detail[:120]}" if detail else f": {_shorten_command(run.command)}"


def _shorten_command(command: str) -> str:
    line = " ".join(command[:400].split())
    return line if len(line) <= 80 else line[:77] + "…"


def _base_name(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1][:80]


def _same_command(one: str, other: str) -> bool:
    return _without_pipes(one) == _without_pipes(other)


def _without_pipes(command: str) -> str:
    """The command without its pipes and redirections."""
    return " ".join(re.split(r"\s*(?:\||2>|>|&&|;)", command[:400].strip(), maxsplit=1)[0].split())


# Words of a command that do not name a suite: `pytest -q` and `uv run python -m pytest` are the same tests.
_RUNNER_WORDS = word_set(
    """npm npx yarn pnpm bun bunx run test tests check pytest py python python3 m uv poetry pipenv hatch pdm jest vitest mocha node go
    cargo mix make just mise task gradle gradlew mvn mvnw bundle exec rspec rake tox nox dotnet swift deno php vendor bin composer
    phpunit ctest no install q v vv x s race count 1 0 2 tail head n silent verbose color colors cov coverage short tb watch ci all
    lint fix write env bash sh c timeout 60 120 300 600"""
)


def _is_same_suite(one: str, other: str) -> bool:
    """Whether a run of everything by one command covers a run of everything by the other: no suite is named that it lacks."""
    first, second = (set(re.findall(r"[a-z0-9_]+", command[:400].lower())) for command in (one, other))
    return not (second - first - _RUNNER_WORDS) and not (first - second - _RUNNER_WORDS)


def _covers_run(wide: str, narrow: str) -> bool:
    """Whether a run of the same program on folders includes a run on files in them."""
    one, other = _without_pipes(wide).split(), _without_pipes(narrow).split()
    if one[:1] != other[:1]:
        return False
    folders = [word.removesuffix("...").rstrip("/") for word in one if "/" in word]
    targets = [word for word in other if "/" in word]
    return bool(folders and targets) and all(any(t.startswith(f + "/") for f in folders if f) for t in targets)


def _same_sha(one: str, other: str) -> bool:
    size = min(len(one), len(other))
    return size >= 6 and one[:size].lower() == other[:size].lower()


def _same_path(edited: str, named: str) -> bool:
    named = named.split(":", 1)[0].rstrip("/").removeprefix("./").removeprefix("~/")
    edited = edited.rstrip("/")
    return bool(named) and (edited == named or edited.endswith("/" + named))
