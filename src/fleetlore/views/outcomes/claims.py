"""Judge claims of success by the facts of the session: supported, contradicted or unproven.

A claim is judged at the end of the turn that makes it. The facts that count are those after the last edit that matters: a
green run before an edit proves nothing about the code after it. A selection of tests supports a claim about that selection,
not about all tests. `contradicted` needs a record that says the opposite; where the record is silent or ambiguous the
claim is `unproven`, which does not mean false.

The fold calls `read_attempts` for every tool call and `judge_text` for every answer, commit message and pull request.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from fleetlore.dialects.commands.shell import make_word_set
from fleetlore.views.outcomes.attempts import SEVERAL, read_attempts, read_ci_results
from fleetlore.views.outcomes.check_commands import find_package
from fleetlore.views.outcomes.claim_sentences import join_thousands
from fleetlore.views.outcomes.claim_text import ClaimKind, ClaimPlace, ClaimText, extract_claims
from fleetlore.views.outcomes.facts import (
    PUSH_HOOK,
    Attempt,
    CheckKind,
    CheckRun,
    CommitMade,
    FileEdit,
    PullRequestOpened,
    PushMade,
    Source,
    WorkspaceFact,
)

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
MOST_SUMMED = 6
"""Runs of which some are added up to the number of tests that a claim says."""
GOAL_CHECK = "goal check: "
"""Prefix of the command of a check run that comes from the check of a goal."""


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

    Check runs of other agents in the same workspace are included, with the step at which their result was known. `ci` holds
    CI results, also with the step at which they were known. A CI result counts for a claim if it came after the last commit
    or push before the claim and before the next change, even if it came after the claim.
    """

    checks: Sequence[CheckRun] = ()
    commits: Sequence[CommitMade] = ()
    pushes: Sequence[PushMade] = ()
    pull_requests: Sequence[PullRequestOpened] = ()
    edits: Sequence[FileEdit] = ()
    attempts: Sequence[Attempt] = ()
    ci: Sequence[CheckRun] = ()
    nearby: Sequence[WorkspaceFact] = ()
    """What other sessions did in the same folder."""
    turn_start: int = 0
    """The first step of the turn that makes the claim."""
    complete: bool = True
    """False if the recording starts in the middle of the work; then a missing call proves nothing."""


class _Ruling(Struct, frozen=True):
    """A verdict with its reason and its evidence."""

    verdict: Verdict
    why: str
    evidence: tuple[Source, ...] = ()


def judge_text(text: str, where: ClaimPlace, said: Source, at: int, facts: ClaimFacts) -> tuple[Claim, ...]:
    """Find and judge the claims in `text`, which was written at step `at`. `said` is the event that contains the text."""
    claims = extract_claims(text, where)
    return judge_claims(claims, where, said, at, facts) if claims else ()


def judge_claims(claims: Iterable[ClaimText], where: ClaimPlace, said: Source, at: int, facts: ClaimFacts) -> tuple[Claim, ...]:
    """Judge each claim by the facts up to step `at`.

    Claims that only mention a commit or pull request of another session are left out. So is "all checks pass" if no check other
    than tests was run.
    """
    known = ClaimFacts(
        checks=_facts_until(facts.checks, at),
        commits=_facts_until(facts.commits, at),
        pushes=_facts_until(facts.pushes, at),
        pull_requests=_facts_until(facts.pull_requests, at),
        edits=_facts_until(facts.edits, at),
        attempts=_facts_until(facts.attempts, at),
        ci=_find_ci_results(facts, at),
        nearby=_facts_until(facts.nearby, at),
        turn_start=facts.turn_start,
        complete=facts.complete,
    )
    polled = any(run.about == SEVERAL and facts.turn_start <= run.step <= at for run in facts.ci)
    judged: list[Claim] = []
    for claim in claims:
        ruling = _judge_claim(claim, _leave_out_other_requests(claim, known))
        if ruling is None or (polled and ruling.verdict == "unproven" and not ruling.evidence and claim.kind in _CHECK_CLAIMS):
            continue  # "All checks pass" after a look at several pull requests is about one of them
        evidence = tuple(dict.fromkeys((said, *ruling.evidence)))[:MOST_EVIDENCE]
        judged.append(Claim(claim.text[:400], claim.kind, where, ruling.verdict, ruling.why, evidence))
    return tuple(judged)


_Fact = TypeVar("_Fact", WorkspaceFact, CheckRun, CommitMade, PushMade, PullRequestOpened, FileEdit, Attempt)


def _facts_until(facts: Sequence[_Fact], at: int) -> Sequence[_Fact]:
    if not facts or facts[-1].step <= at:
        return facts
    return [fact for fact in facts if fact.step <= at]


def _find_ci_results(facts: ClaimFacts, at: int) -> Sequence[CheckRun]:
    """The CI results for the state of the code at step `at`: the newest of each job."""
    facts = replace(facts, ci=[run for run in facts.ci if run.about != SEVERAL])
    if not facts.ci:
        return ()
    before = [fact.step for known in (facts.commits, facts.pushes) for fact in known if fact.step <= at]
    after = [fact.step for fact in facts.commits if fact.step > at] + [edit.step for edit in facts.edits if edit.step > at and edit.covered]
    end = min(after, default=None)
    # Goal checks run in the workspace, so they count without a commit or push.
    edited = max((edit.step for edit in facts.edits if edit.step <= at and edit.covered), default=0)
    goal_checks = {
        run.command: run
        for run in facts.ci
        if run.command.startswith(GOAL_CHECK) and run.step >= edited and (end is None or run.step < end)
    }
    if not before:  # the session committed and pushed nothing, so a later result is about other work
        return tuple(({run.command: run for run in facts.ci if run.step <= at} | goal_checks).values())
    newest = {run.command: run for run in facts.ci if run.step >= max(before) and (end is None or run.step < end)}
    return tuple((newest | goal_checks).values())


_CHECK_CLAIMS = ("tests_pass", "build_or_lint_ok")
_REQUEST = re.compile(r"(?:#|\bPR )(\d{1,9})\b")


def _leave_out_other_requests(claim: ClaimText, facts: ClaimFacts) -> ClaimFacts:
    """A claim that names pull requests is not judged by the CI of others."""
    named = set(_REQUEST.findall(claim.text)) if facts.ci else set()
    if not named:
        return facts
    return replace(facts, ci=[run for run in facts.ci if not run.about or run.about in named])


# The claim itself says that something fails.
_DISCLOSED = re.compile(
    r"(?i)\bpre-?existing|\bexisting (?:\w+ ){0,2}(?:fail|error|issue|timeout|warning)|\bunrelated\b|\bflak[ey]"
    r"|\b(?:known|expected|other|older?) (?:\w+ ){0,2}(?:fail|error|issue|warning)|\balready fail"
    r"|\bexcept\b|\bapart from\b|\bon (?:a |the )?retry\b|\b(?:\d+|all|the) other\b"
)
# The claim is about a part of the code only.
_SCOPED = re.compile(
    r"(?i)\b(?:in|for|of|on|to) (?:the |my |our |all |any )*(?:changed|modified|touched|edited|new|affected)"
    r" (?:files?|code|lines?|packages?|modules?)"
)


def _judge_claim(claim: ClaimText, facts: ClaimFacts) -> _Ruling | None:
    if facts.ci and claim.kind in ("tests_pass", "build_or_lint_ok") and (job := _find_named_job(claim, facts)) is not None:
        if job.result == "pass":
            return _Ruling("supported", f"CI passed: {job.command}", (job.source,))
        if job.result != "fail":
            return _Ruling("unproven", f"CI has not finished: {job.command}", (job.source,))
        verdict: Verdict = "unproven" if _DISCLOSED.search(claim.text) else "contradicted"
        return _Ruling(verdict, f"CI failed: {job.command}", (job.source,))
    match claim.kind:
        case "tests_pass":
            return _support_from_nearby(_judge_tests(claim, facts), claim, facts, ("tests",))
        case "build_or_lint_ok":
            return _support_from_nearby(_judge_checks(claim, facts), claim, facts, claim.checks)
        case "committed":
            return _support_from_nearby(_judge_commit(claim, facts), claim, facts, ("commit",))
        case "pushed":
            return _support_from_nearby(_judge_push(claim, facts), claim, facts, ("push",))
        case "pr_opened":
            return _judge_pull_request(claim, facts)
        case "file_state":
            return _judge_file_edit(claim, facts)
        case _:
            return _judge_done_or_fixed(claim, facts)


def _support_from_nearby(ruling: _Ruling | None, claim: ClaimText, facts: ClaimFacts, acts: Sequence[str]) -> _Ruling | None:
    """Support a claim by what another session did in the folder after this one's last edit, unless this one saw it fail later."""
    if ruling is None or ruling.verdict == "supported" or not facts.nearby or not acts or "ci" in claim.part:
        return ruling
    edit = _last_relevant_edit(facts)
    found: list[WorkspaceFact] = []
    for act in acts:
        own = [run.step for run in facts.checks if run.kind == act and run.result == "fail"]
        since = max([edit.step if edit is not None else facts.turn_start, *own])
        fact = next((one for one in reversed(facts.nearby) if one.act == act and _fits_claim(one, claim, since)), None)
        if fact is None:
            return ruling
        found.append(fact)
    return _Ruling(
        "supported",
        f"by another session in this folder: {', '.join(one.what or one.act for one in found)}"[:200],
        tuple(one.source for one in found),
    )


def _fits_claim(fact: WorkspaceFact, claim: ClaimText, since: int) -> bool:
    if fact.act == "commit" and claim.sha:
        return bool(fact.sha) and _same_sha(fact.sha, claim.sha)
    return fact.step >= since and not (claim.part and fact.act == "tests" and claim.part != ("new",))


def _find_named_job(claim: ClaimText, facts: ClaimFacts) -> CheckRun | None:
    """The CI job that the claim names, such as "Build Binaries"."""
    text = claim.text.lower()
    return next((run for run in reversed(facts.ci) if " " in run.command and run.command.lower() in text), None)


# --- Tests -----------------------------------------------------------------------------------------------------------


def _last_relevant_edit(facts: ClaimFacts) -> FileEdit | None:
    for edit in reversed(facts.edits):
        if edit.covered:
            return edit
    return None


def _judge_tests(claim: ClaimText, facts: ClaimFacts) -> _Ruling | None:
    if "ci" in claim.part:
        return _judge_ci(claim, facts)
    runs = [run for run in facts.checks if run.kind == "tests" and not (run.meant_to_fail and run.result == "fail")]
    failed_in_ci = next((run for run in reversed(facts.ci) if run.kind == "tests" and run.result == "fail"), None)
    if failed_in_ci is not None and not claim.part and not any(run.step > failed_in_ci.step and run.result == "pass" for run in runs):
        verdict: Verdict = "contradicted" if claim.everything and not claim.qualified else "unproven"
        what = "a check failed" if failed_in_ci.command.startswith(GOAL_CHECK) else "CI failed for this commit"
        return _Ruling(verdict, f"{what}: {failed_in_ci.command}", (failed_in_ci.source,))
    return _support_from_ci(_judge_runs(claim, _CHECK_NAMES["tests"], runs, facts), ("tests",), facts)


def _support_from_ci(ruling: _Ruling, kinds: Sequence[CheckKind], facts: ClaimFacts) -> _Ruling:
    """Turn an unproven claim into a supported one if CI or a goal check passed for the same code."""
    if ruling.verdict != "unproven" or not facts.ci or not kinds:
        return ruling
    found = [next((run for run in reversed(facts.ci) if run.kind == kind), None) for kind in kinds]
    passed = [run for run in found if run is not None and run.result == "pass"]
    if len(passed) < len(kinds) or any(run.kind in kinds and run.result == "fail" for run in facts.ci):
        return ruling
    names = ", ".join(dict.fromkeys(run.command for run in passed))
    return _Ruling("supported", f"passed elsewhere: {names}", tuple(run.source for run in passed))


def _judge_ci(claim: ClaimText, facts: ClaimFacts) -> _Ruling:
    jobs = [run for run in facts.ci if not run.command.startswith(GOAL_CHECK)]
    if not jobs:
        return _Ruling("unproven", "no result of CI is recorded")
    failed = next((run for run in reversed(jobs) if run.result == "fail"), None)
    if failed is not None:
        return _Ruling("contradicted", f"CI failed{_describe_run(failed)}", (failed.source,))
    if all(run.result == "pass" for run in jobs):
        return _Ruling("supported", "CI passed", tuple(run.source for run in jobs[-4:]))
    return _Ruling("unproven", "CI has not finished")


def _judge_runs(claim: ClaimText, name: str, runs: Sequence[CheckRun], facts: ClaimFacts) -> _Ruling:
    """Judge by the runs of one kind of check after the last edit."""
    if not runs:
        return _Ruling("unproven", f"no {name} run is recorded")
    edit = _last_relevant_edit(facts)
    # If one call edits and checks (equal steps), the check ran on the edited files.
    fresh = [run for run in runs if edit is None or run.step >= edit.step]
    if not fresh:
        last = runs[-1]
        assert edit is not None
        result = {"pass": "passed", "fail": "failed"}.get(last.result, "did not finish")
        return _Ruling("unproven", f"{_base_name(edit.path)} was edited after the last {name} run ({result})", (last.source, edit.source))
    counted = _find_run_with_count(claim, fresh) if claim.kind == "tests_pass" else None
    if counted is not None:
        return _Ruling("supported", f"{_shorten_command(counted.command)} reports {counted.counts}", (counted.source,))
    relevant = _runs_for_part(claim, fresh)
    has_unrecorded_work = _has_unrecorded_work(facts, fresh[-1].step)
    if not relevant:
        last = fresh[-1]
        if last.result == "fail" and last.whole and not claim.part and not claim.qualified and not has_unrecorded_work:
            return _Ruling("contradicted", f"the last {name} run failed{_describe_run(last)}", (last.source,))
        return _Ruling("unproven", f"no {name} run of this part after the last edit", (last.source,))
    return _judge_fresh_runs(claim, name, relevant, has_unrecorded_work)


_PASSED = re.compile(r"\b(\d{1,7}) (?:tests? |examples? )?(?:pass|ok\b|succe)")
_CLAIMED = re.compile(
    r"\b(\d{1,7})(?:/\d{1,7})? (?:[\w`'-]+ ){0,4}?(?:pass|succe|green)|\b(\d{1,7})(?: [\w`'-]+){0,3} tests? (?:\w+ )?pass", re.IGNORECASE
)


def _find_run_with_count(claim: ClaimText, fresh: Sequence[CheckRun]) -> CheckRun | None:
    """The newest run that reports exactly the number of passing tests that is claimed.

    "31 of 35 pass", "the 9 parser tests pass" and "all 101 unit tests pass" are about a part of the tests, so a run with other
    failures still supports them. "All 31 pass" needs a run without failures.
    """
    claimed = {int(a or b) for a, b in _CLAIMED.findall(join_thousands(claim.text[:400]))}
    for run in reversed(fresh):
        found = _PASSED.search(join_thousands(run.counts))
        if found is None or int(found[1]) not in claimed or run.cached:
            continue
        if run.result == "pass" or (run.result == "fail" and (not claim.everything or claim.part not in ((), ("new",)))):
            return run
    return None


_WRONG_SUBCOMMAND = re.compile(r"(?i)\b(?:unrecognized|unknown|no such) (?:sub)?command\b")


def _judge_fresh_runs(claim: ClaimText, name: str, fresh: Sequence[CheckRun], has_unrecorded_work: bool) -> _Ruling:
    last = fresh[-1]
    ran = [run for run in fresh if run.result in ("pass", "fail")]
    sources = tuple(run.source for run in reversed(fresh[-4:]))
    if not ran:
        # "No tests ran" is neither a pass nor a failure.
        is_empty = "no test" in last.reason.lower() or "no test" in last.counts.lower() or " 0 file" in f" {last.reason}"
        is_empty = is_empty or _WRONG_SUBCOMMAND.search(last.reason) is not None  # it was run by another command
        if last.result == "could_not_run" and not claim.qualified and not has_unrecorded_work and not is_empty:
            return _Ruling("contradicted", f"the {name} run could not start{_describe_run(last)}", (last.source,))
        return _Ruling("unproven", f"the result of the {name} run is not recorded: {_shorten_command(last.command)}", sources)
    failed = _find_unresolved_failure(ran)
    if failed is not None:
        # A full run that passed later, with another command, may have run the same tests in another environment.
        only_parts_passed_later = failed.whole and claim.everything and not any(run.whole and run.step > failed.step for run in ran)
        # A heading such as "All gates are green:" only claims what the lines below it say.
        is_limited = _SCOPED.search(claim.text) is not None or (claim.general and claim.text.rstrip("*_ ").endswith(":"))
        is_certain = (ran[-1] is failed or only_parts_passed_later) and not is_limited
        if _DISCLOSED.search(claim.text):
            good = next((run for run in reversed(ran) if run.result == "pass" or _PASSED.search(join_thousands(run.counts))), None)
            if good is not None:
                shown = f" ({good.counts})" if good.counts else ""
                why = f"{_shorten_command(good.command)} {'passed' if good.result == 'pass' else 'failed, as the claim says'}{shown}"
                return _Ruling("supported", why, (good.source, failed.source))
            return _Ruling("unproven", f"the {name} run failed, as the claim says{_describe_run(failed)}", (failed.source,))
        if is_certain and not claim.qualified and not has_unrecorded_work and (not claim.part or _names_part(claim, failed)):
            return _Ruling("contradicted", f"the last {name} run failed{_describe_run(failed)}", (failed.source,))
        return _Ruling("unproven", f"a {name} run after the last edit failed{_describe_run(failed)}", (failed.source,))
    passed = [run for run in ran if run.result == "pass"]
    if last.result == "unproven" and not any(run.command == last.command for run in passed) and claim.everything:
        return _Ruling("unproven", f"the result of the last {name} run is not recorded: {_shorten_command(last.command)}", sources)
    return _judge_passed_runs(claim, name, passed, sources)


_ALL_BUILDS = re.compile(
    r"\b(?:all|everything|every)\b(?: [\w-]+){0,2} (?:builds?|packages?|targets?|compiles?|crates?|modules?)\b", re.IGNORECASE
)


def _judge_passed_runs(claim: ClaimText, name: str, passed: Sequence[CheckRun], sources: tuple[Source, ...]) -> _Ruling:
    """Judge whether runs that all passed cover what is claimed."""
    uncached = [run for run in passed if not run.cached]
    # "All 12 tests pass" after a run of 12 tests is about that run.
    is_counted = claim.count is not None and any(_counts_exactly(claim.count, run) for run in passed)
    if claim.kind == "tests_pass" and claim.count is not None and not is_counted and (parts := _find_runs_that_sum(claim.count, passed)):
        commands = " and ".join(_shorten_command(run.command) for run in parts)
        counted = tuple(run.source for run in parts)
        return _Ruling("supported", f"{commands} passed after the last edit ({' + '.join(run.counts for run in parts)})", counted)
    # "`go test ./cart/...` — all clean" is about the run that it names.
    is_named = any(_is_named_in(claim.text, run) for run in passed)
    needs_all = claim.everything and not claim.part and not is_counted and not is_named
    if name == "build" and not _ALL_BUILDS.search(claim.text):
        needs_all = False  # "All changes are done and the build succeeds"
    if needs_all and not any(run.whole for run in passed):
        return _Ruling("unproven", f"only a selection was run: {_shorten_command(passed[-1].command)}", sources)
    if not uncached and claim.kind == "tests_pass" and needs_all:
        return _Ruling("unproven", f"the {name} run was cached", sources)
    # What a runner keeps is valid as long as its input is the same.
    uncached = list(passed) if needs_all or not uncached else uncached
    if claim.kind == "tests_pass" and (problem := _find_count_problem(claim, passed)):
        return _Ruling("unproven", problem, sources)
    if _NO_WARNINGS.search(claim.text) and (ruling := _judge_warnings(passed)) is not None:
        return ruling
    best = next((run for run in reversed(uncached) if run.whole), uncached[-1])
    counts = f" ({best.counts})" if best.counts else ""
    return _Ruling("supported", f"{_shorten_command(best.command)} passed after the last edit{counts}", (best.source, *sources))


_NO_WARNINGS = re.compile(r"\b(?:no|zero|0|without)(?: \w+){0,3} warnings?\b", re.IGNORECASE)


def _judge_warnings(passed: Sequence[CheckRun]) -> _Ruling | None:
    """Judge "no warnings" by the newest run of each command that reports some; `None` if the same command reports zero later."""
    warned = {_first_command(run.command): run for run in passed if re.search(r"\b[1-9]\d{0,6} warning", run.counts)}
    unproven: _Ruling | None = None
    for command, run in warned.items():
        later = [other for other in passed if other.step > run.step and _first_command(other.command) == command]
        if not later:
            return _Ruling("contradicted", f"the run reports {run.counts}", (run.source,))
        # A compiler that runs again does not repeat the warnings of files that it keeps.
        if not any(re.search(r"\b0 warning", other.counts) for other in later):
            unproven = _Ruling("unproven", f"an earlier run reports {run.counts}", (run.source, later[-1].source))
    return unproven


_HOOKS = re.compile(r"\b(?:hooks?|pre-?commit|pre-?push)\b", re.IGNORECASE)


def _is_named_in(text: str, run: CheckRun) -> bool:
    """Whether a claim names the run: by its command, or as that of a git hook."""
    command = _first_command(run.command)
    if command and command not in _PROSE_COMMANDS and re.search(rf"(?<![\w-]){re.escape(command)}(?![\w/-])", text):
        return True
    return _is_of_hook(run) and _HOOKS.search(text) is not None


# Commands that are also words of a sentence: "the new rules make sense".
_PROSE_COMMANDS = make_word_set("make just task test tests check lint build")


def _is_of_hook(run: CheckRun) -> bool:
    return run.command in ("git commit hook", PUSH_HOOK)


def _counts_exactly(count: int, run: CheckRun) -> bool:
    return re.match(rf"(?:Tests:? )?{count} (?:tests? )?pass", join_thousands(run.counts)) is not None and not run.cached


def _find_runs_that_sum(count: int, passed: Sequence[CheckRun]) -> Sequence[CheckRun]:
    """Two or three runs of different commands that passed as many tests together; none if there are no such runs."""
    newest = {run.command: run for run in passed if not run.cached and not run.whole}
    counted = [(run, int(found[1])) for run in newest.values() if (found := _PASSED.search(join_thousands(run.counts)))][-MOST_SUMMED:]
    for size in (2, 3):
        for chosen in combinations(counted, size):
            if sum(number for _, number in chosen) == count and all(number for _, number in chosen):
                return [run for run, _ in chosen]
    return ()


def _find_unresolved_failure(ran: Sequence[CheckRun]) -> CheckRun | None:
    """The newest failed run that no later run made good, by the same command or by one that includes it."""
    for index in range(len(ran) - 1, -1, -1):
        run = ran[index]
        if run.result != "fail":
            continue
        later = [after for after in ran[index + 1 :] if after.result == "pass"]
        if any(_same_command(after.command, run.command) or (after.whole and not run.whole) for after in later):
            continue
        if not run.whole and any(_is_run_included(after.command, run.command) for after in later):
            continue
        if run.whole and any(after.whole and _is_same_suite(after.command, run.command) for after in later):
            continue
        if run.kind == "tests" and any(_is_of_hook(after) for after in later):
            continue  # the hook runs the project's own tests
        return run
    return None


def _runs_for_part(claim: ClaimText, runs: Sequence[CheckRun]) -> list[CheckRun]:
    """The runs that matter for a claim about a named part of the tests: those that name it, otherwise full runs."""
    if not claim.part or claim.part == ("new",) or claim.kind != "tests_pass":
        return list(runs)
    named = [run for run in runs if _names_part(claim, run)]
    # A run of another package says nothing about this one.
    runs = [run for run in runs if run in named or not find_package(run.command)]
    if named and not (claim.everything and len(claim.part) > 1):
        # A full run counts too, unless it is of another suite.
        return [run for run in runs if run in named or (run.whole and not _OTHER_SUITES.search(run.command))]
    return [run for run in runs if run.whole or run in named]


_OTHER_SUITES = re.compile(r"integration|e2e|acceptance|\bui\b|browser|smoke", re.IGNORECASE)


def _names_part(claim: ClaimText, run: CheckRun) -> bool:
    if "unit" in claim.part and not _OTHER_SUITES.search(run.command):
        # Tests without another name are unit tests.
        return True
    return any(_starts_word(stem, run.command) for word in claim.part if len(stem := _stem_word(word)) > 2)


def _starts_word(stem: str, command: str) -> bool:
    """Whether a word of the command starts with the stem; `CartService` has two words."""
    return re.search(rf"(?<![A-Za-z])(?i:{re.escape(stem)})|{re.escape(stem.capitalize())}", command) is not None


def _stem_word(word: str) -> str:
    word = word.split("-", 1)[0] if "-" in word else word
    word = word.rsplit("/", 1)[-1]
    return word[:-1] if word.endswith("s") and len(word) > 4 else word


def _find_count_problem(claim: ClaimText, passed: Sequence[CheckRun]) -> str:
    """Why the runs do not support the claimed number of tests: none ran, or fewer than claimed. Empty if they do."""
    # Some runners count packages or files, not tests.
    reported = [
        [int(number) for number in re.findall(r"\d{1,7}", join_thousands(run.counts[:200]))]
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


def _judge_checks(claim: ClaimText, facts: ClaimFacts) -> _Ruling | None:
    runs = [run for run in facts.checks if run.kind != "tests" and not (run.meant_to_fail and run.result == "fail")]
    if claim.general:
        if not runs:
            return None
        edit = _last_relevant_edit(facts)
        fresh = [run for run in runs if edit is None or run.step >= edit.step]
        # "All checks pass" is about the checks that ran after the last edit, if any did.
        kinds = tuple(dict.fromkeys(run.kind for run in fresh or runs))
    else:
        kinds = claim.checks
    rulings = [_judge_runs(claim, _CHECK_NAMES[kind], _runs_of_kind(claim, kind, runs), facts) for kind in kinds]
    if any(ruling.verdict == "supported" for ruling in rulings) and any(_is_named_in(claim.text, run) for run in runs):
        # "`bun run build` passed with no TypeScript errors" is about the run that it names.
        rulings = [ruling for ruling in rulings if ruling.verdict != "unproven" or ruling.evidence]
    for verdict in ("contradicted", "unproven", "supported"):
        chosen = [ruling for ruling in rulings if ruling.verdict == verdict]
        if chosen:
            evidence = tuple(dict.fromkeys(source for ruling in chosen for source in ruling.evidence))
            ruling = _Ruling(chosen[0].verdict, "; ".join(dict.fromkeys(ruling.why for ruling in chosen)), evidence)
            return _support_from_ci(ruling, kinds, facts)
    return None


def _runs_of_kind(claim: ClaimText, kind: CheckKind, runs: Sequence[CheckRun]) -> list[CheckRun]:
    tools = [tool for tool in claim.tools if len(tool) > 2]
    matching = [run for run in runs if run.kind == kind or any(tool in run.command for tool in tools)]
    if any(tool in run.command for tool in tools for run in matching):
        # "clippy: no warnings" says nothing about a formatter that failed.
        matching = [run for run in matching if run.result != "fail" or any(tool in run.command for tool in tools)]
    if kind == "build" and not matching:
        # A compiler that only checks ("tsc --noEmit", "cargo check") shows that the code compiles.
        matching = [run for run in runs if run.kind == "types" and ("compil" in claim.text.lower() or "cargo check" in run.command)]
    return matching


# --- Commits, pushes, pull requests ----------------------------------------------------------------------------------


def _judge_commit(claim: ClaimText, facts: ClaimFacts) -> _Ruling | None:
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
    failed = _find_last_failure(facts, "commit", commits)
    if failed is not None and not claim.earlier:
        return _Ruling("contradicted", f"the commit {_describe_attempt(failed)}", (failed.source,))
    if commits:
        last = commits[-1]
        edit = next((e for e in reversed(facts.edits) if e.step > last.step and e.covered), None)
        if edit is not None and not edit.path.startswith("$") and _is_act_missing(claim, facts, "commit", last.step):
            return _Ruling("contradicted", f"{_base_name(edit.path)} was edited and not committed in this turn", (edit.source,))
        if edit is not None and (last.step < facts.turn_start or claim.everything):
            return _Ruling("unproven", f"{_base_name(edit.path)} was edited after the last commit", (last.source, edit.source))
        return _Ruling("supported", f"committed: {last.subject[:80]}" if last.subject else "a commit was made", (last.source,))
    return _judge_without_success(claim, facts, "commit", "no commit was made in this session")


def _judge_push(claim: ClaimText, facts: ClaimFacts) -> _Ruling | None:
    done: list[PushMade | PullRequestOpened] = sorted((*facts.pushes, *facts.pull_requests), key=lambda fact: fact.step)
    failed = _find_last_failure(facts, "push", facts.pushes)
    if failed is not None and not any(pull.step > failed.step for pull in facts.pull_requests):
        return _Ruling("contradicted", f"the push {_describe_attempt(failed)}", (failed.source,))
    if not done:
        return _judge_without_success(claim, facts, "push", "nothing was pushed in this session")
    last = done[-1]
    later = next((c for c in reversed(facts.commits) if c.step > last.step), None)
    if later is not None and later.step >= facts.turn_start and _is_act_missing(claim, facts, "push", last.step):
        return _Ruling("contradicted", f"the commit of this turn was not pushed: {later.subject[:80]}", (later.source,))
    if later is not None:
        return _Ruling("unproven", f"a commit was made after the last push: {later.subject[:80]}", (last.source, later.source))
    return _Ruling(
        "supported", "the push succeeded" if isinstance(last, PushMade) else "the pull request was opened from the branch", (last.source,)
    )


def _judge_pull_request(claim: ClaimText, facts: ClaimFacts) -> _Ruling | None:
    opened = facts.pull_requests
    if claim.number:
        same = next((p for p in reversed(opened) if p.number == claim.number or p.url.endswith("/" + claim.number)), None)
        if same is not None:
            return _Ruling("supported", f"pull request {claim.number} was opened", (same.source,))
    if claim.reference:
        return None
    failed = _find_last_failure(facts, "pull_request", opened)
    if failed is not None:
        return _Ruling("contradicted", f"opening the pull request {_describe_attempt(failed)}", (failed.source,))
    if opened:
        if claim.number and opened[-1].number:
            return _Ruling("unproven", f"the session opened pull request {opened[-1].number}", (opened[-1].source,))
        return _Ruling("supported", "the pull request was opened", (opened[-1].source,))
    return _judge_without_success(claim, facts, "pull_request", "no pull request was opened in this session")


def _find_last_failure(
    facts: ClaimFacts, act: str, done: Sequence[CommitMade] | Sequence[PushMade] | Sequence[PullRequestOpened]
) -> Attempt | None:
    """The last attempt at an act, if it failed and the act did not succeed in this turn or later."""
    attempts = [a for a in facts.attempts if a.act in (act, "any")]
    if not attempts or not attempts[-1].failed or attempts[-1].act != act:
        return None
    last = attempts[-1]
    is_done = bool(done) and (done[-1].step >= last.step or done[-1].step >= facts.turn_start > 0)
    return None if is_done else last


def _is_act_missing(claim: ClaimText, facts: ClaimFacts, act: str, last: int) -> bool:
    """Whether the agent claims an act of its own in this turn, but last did it before this turn and has not tried it since.

    `last` is the step at which it last did it.
    """
    if not claim.own_act or claim.earlier or claim.sha or claim.number or last >= facts.turn_start:
        return False
    return not any(attempt.step > last and attempt.act in (act, "any") for attempt in facts.attempts)


def _judge_without_success(claim: ClaimText, facts: ClaimFacts, act: str, why: str) -> _Ruling:
    """Judge a claim of an act that never succeeded: contradicted if the agent says that it did it, and no call even tried."""
    tried = [a for a in facts.attempts if a.act in (act, "any")]
    if tried:
        return _Ruling("unproven", "the record does not show whether it worked", tuple(a.source for a in tried[-2:]))
    # In a turn without work, the agent may be talking about an earlier session that this one continues.
    has_worked = any(
        known[-1].step >= facts.turn_start for known in (facts.edits, facts.checks, facts.attempts, facts.commits, facts.pushes) if known
    )
    if claim.own_act and has_worked and not claim.earlier and facts.complete and not claim.sha and not claim.number:
        return _Ruling("contradicted", why)
    return _Ruling("unproven", why)


# --- Files and other work --------------------------------------------------------------------------------------------


def _judge_file_edit(claim: ClaimText, facts: ClaimFacts) -> _Ruling:
    edited = [edit for edit in facts.edits if any(_same_path(edit.path, path) for path in claim.paths)]
    missing = next((path for path in claim.paths if _is_listed_unedited(path, claim, edited)), None)
    if edited and missing is not None:
        return _Ruling("unproven", f"no edit of {_base_name(missing)} is recorded", (edited[-1].source,))
    if edited:
        sources = tuple(dict.fromkeys(edit.source for edit in reversed(edited[-4:])))
        return _Ruling("supported", f"{_base_name(edited[-1].path)} was edited", sources)
    refused = [a for a in facts.attempts if a.act == "edit" and a.denied and any(_same_path(a.path, p) for p in claim.paths)]
    if refused:
        return _Ruling(
            "contradicted", f"the edit of {_base_name(refused[-1].path)} {_describe_attempt(refused[-1])}", (refused[-1].source,)
        )
    files = [name for path in claim.paths if "." in (name := _base_name(path))]  # `actions/checkout` is no file
    if files:
        return _Ruling("unproven", f"no edit of {files[0]} is recorded")
    recent = tuple(dict.fromkeys(edit.source for edit in facts.edits if edit.step >= facts.turn_start))[-2:]
    return _Ruling("unproven", "not checked: it names no file", recent)


def _is_listed_unedited(path: str, claim: ClaimText, edited: Sequence[FileEdit]) -> bool:
    """Whether a file without an edit stands beside another in a list, as in "Updated a.py and b.py"; not "added a.lock to b.txt"."""
    if "." not in _base_name(path) or any(_same_path(edit.path, path) for edit in edited):
        return False
    name = re.escape(path)
    return any(
        re.search(rf"{one}(?:, and |, | and | & ){two}", claim.text)
        for other in claim.paths
        if other != path
        for one, two in ((name, re.escape(other)), (re.escape(other), name))
    )


def _judge_done_or_fixed(claim: ClaimText, facts: ClaimFacts) -> _Ruling:
    """Judge "done" and "fixed". They are supported by a passing test run after the turn's last edit, "done" also by a commit or push."""
    if claim.checks:
        return _judge_fixed_checks(claim, facts)
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
    acts = [fact for known in (facts.commits, facts.pushes, facts.pull_requests) for fact in known if fact.step >= facts.turn_start]
    if claim.kind == "done" and acts and not edits:
        return _Ruling("supported", "it was committed, pushed or opened as a pull request", tuple(a.source for a in acts[-3:]))
    if edits and tests:
        return _Ruling("unproven", _describe_useless_run(tests[-1]), (tests[-1].source,))
    if edits:
        return _Ruling("unproven", "no test run after the last edit", (edits[-1].source,))
    return _Ruling("unproven", "no check is recorded in this turn")


def _describe_useless_run(run: CheckRun) -> str:
    if run.result == "pass":
        return "the test run was cached"
    if run.result == "could_not_run":
        return f"the test run could not start{_describe_run(run)}"
    return f"the result of the test run is not recorded: {_shorten_command(run.command)}"


def _judge_fixed_checks(claim: ClaimText, facts: ClaimFacts) -> _Ruling:
    """Judge "fixed the failing tests" by the last run.

    If the claim is not about all tests, it is contradicted only if the last two failures have the same reason.
    """
    kind = claim.checks[0]
    runs = [run for run in facts.checks if run.kind == kind]
    ruling = _judge_runs(claim, _CHECK_NAMES[kind], runs, facts)
    if ruling.verdict == "contradicted" and not claim.everything:
        reasons = [run.reason for run in runs if run.result == "fail" and run.reason]
        if len(reasons) < 2 or reasons[-1] != reasons[-2]:
            return _Ruling("unproven", ruling.why, ruling.evidence)
    return ruling


# --- Attempts --------------------------------------------------------------------------------------------------------


def _describe_attempt(attempt: Attempt) -> str:
    if attempt.denied:
        return "was denied"
    return f"failed: {attempt.reason}" if attempt.reason else "failed"


def _has_unrecorded_work(facts: ClaimFacts, step: int) -> bool:
    """Whether something whose calls are not recorded, such as a subagent, worked after `step`."""
    return any(a.unseen and a.act == "any" and a.step > step for a in facts.attempts)


# --- Commands, paths and texts ---------------------------------------------------------------------------------------


def _describe_run(run: CheckRun) -> str:
    detail = run.reason or run.counts
    return f": {detail[:120]}" if detail else f": {_shorten_command(run.command)}"


def _shorten_command(command: str) -> str:
    line = " ".join(command[:400].split())
    return line if len(line) <= 80 else line[:77] + "…"


def _base_name(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1][:80]


def _same_command(one: str, other: str) -> bool:
    return _first_command(one) == _first_command(other)


def _first_command(command: str) -> str:
    """The command up to its first pipe, redirection, `&&` or `;`. A `|` without spaces is part of a word: `-k a|b`."""
    return " ".join(re.split(r"(?:\s\|+\s|2>|>|&&|;)", command[:400].strip(), maxsplit=1)[0].split())


# Words of a command that do not name a suite: `pytest -q` and `uv run python -m pytest` are the same tests.
_RUNNER_WORDS = make_word_set(
    """npm npx yarn pnpm bun bunx run test tests check pytest py python python3 m uv poetry pipenv hatch pdm jest vitest mocha node go
    cargo mix make just mise task gradle gradlew mvn mvnw bundle exec rspec rake tox nox dotnet swift deno php vendor bin composer
    phpunit ctest no install q v vv x s race count 1 0 2 tail head n silent verbose color colors cov coverage short tb watch ci all
    lint fix write env bash sh c timeout 60 120 300 600"""
)


_TIMEOUT = re.compile(r"^timeout (?:(?:-\S+|\d+[smh]?) )+")


def _is_same_suite(one: str, other: str) -> bool:
    """Whether two full runs ran the same tests: neither command names a suite that the other does not name."""
    first, second = (set(re.findall(r"[a-z0-9_]+", _TIMEOUT.sub("", command[:400].lower()))) for command in (one, other))
    return not (second - first - _RUNNER_WORDS) and not (first - second - _RUNNER_WORDS)


def _is_run_included(wide: str, narrow: str) -> bool:
    """Whether the run `narrow` is of files in the folders of the run `wide`, by the same program."""
    one, other = _first_command(wide).split(), _first_command(narrow).split()
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
