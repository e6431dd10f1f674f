"""Find out which calls tried to commit, to push or to open a pull request, and what CI answered.

The facts of a call (`commands.read_call`) say what was done. A claim can also be about something that was tried and refused,
or that a script may have done unseen; that is what is read here.
"""

import re
from collections.abc import Sequence
from typing import Literal

from fleetlore.dialects.commands.shell import make_word_set
from fleetlore.views.outcomes.facts import Attempt, CheckKind, CheckRun, ToolCall
from fleetlore.views.outcomes.shell import SimpleCommand, parse_script

# --- Results of CI ---------------------------------------------------------------------------------------------------

# What `gh pr checks`, `gh run view` and `gh run watch` print of a job, and what the forge's API answers.
_CI_JOB = re.compile(
    r"^(?P<name>[^\t\n]{1,100})\t(?P<result>pass|fail|pending)\t"
    r"|^(?P<mark>[✓X]) (?P<job>[^\n]{1,100}?) in (?:\d+h)?(?:\d+m)?\d+s \(ID \d+\)"
    r"|^[✓X] Run (?P<run>[^\n]{1,100}?) \(\d+\) (?:has already )?completed with '(?P<end>\w+)'",
    re.MULTILINE,
)
_CI_OBJECT = re.compile(r"\{[^{}]{0,1500}\}")
_CI_NAME = re.compile(r"\"(?:workflowName|name)\"\s{0,3}:\s{0,3}\"([^\"\n]{1,100})\"")
_CI_COMMIT = re.compile(r"\"headSha\"\s{0,3}:\s{0,3}\"([0-9a-f]{7,64})\"")
_CI_CONCLUSION = re.compile(r"\"conclusion\"\s{0,3}:\s{0,3}\"(success|failure|timed_out|startup_failure)\"")
_CI_LOOK = re.compile(r"\bpr checks\b|\bgh run (?:view|watch|list)\b|\bgh api\b")
# A script of the project that waits for CI, and how it says the end of a run.
_CI_SCRIPT = re.compile(r"(?i)(?:watch|wait|check|poll|monitor)[-_]?(?:for[-_]?)?ci\b|\bci[-_](?:watch|status|wait|check)\b")
_CI_END = re.compile(r"(?i)\bconclusion[\"']?\s{0,2}[=:]\s{0,2}[\"']?(?P<end>success|failure|timed_out|cancelled)\b")
_CI_KINDS: tuple[tuple[CheckKind, re.Pattern[str]], ...] = (
    ("lint", re.compile(r"lint|format|style|clippy|ruff", re.IGNORECASE)),
    ("types", re.compile(r"\btype|mypy|pyright", re.IGNORECASE)),
    ("tests", re.compile(r"test|spec\b|e2e|pytest|jest", re.IGNORECASE)),
    ("build", re.compile(r"build|compile", re.IGNORECASE)),
)


SEVERAL = "several"
_CI_LOOPED = re.compile(r"\b(?:for|while)\b[^\n]{0,400}?\bdo\b|\bxargs\b")
_CI_TARGET = re.compile(r"\b(?:pr checks|run (?:view|watch))\s+[\"']?#?(?P<number>\d{1,20})|/(?:pulls|runs|commits)/(?P<path>\w{1,60})")
_CI_SEVERAL = re.compile(r"\bgh (?:run|pr) list\b")


def polls_several(command: str) -> bool:
    """Whether a look at CI shows several pull requests or runs: then a failure among them is not that of the session's work."""
    looped = _CI_LOOPED.search(command)
    # `for i in 1 2 3; do gh pr checks 41; sleep 30; done` waits for one.
    if looped is not None and re.search(
        r"(?:checks|view|watch|/pulls/|/runs/|/commits/)\s{0,3}[\"']?(?:\$|\{\})", command[looped.start() :]
    ):
        return True
    targets = {found["number"] or found["path"] for found in _CI_TARGET.finditer(command)}
    return len(targets) > 1 or (
        _CI_SEVERAL.search(command) is not None and not re.search(r"(?:-L|--limit)[ =]?1\b|--commit\b|--branch\b|-[bc] ", command)
    )


def read_ci_results(call: ToolCall) -> tuple[CheckRun, ...]:
    """The finished jobs and workflows that a look at CI shows, those that failed last."""
    if "onclusion" in call.output[-4000:] and _CI_SCRIPT.search(call.command) and (ended := list(_CI_END.finditer(call.output[-4000:]))):
        is_passed = ended[-1]["end"].lower() == "success"
        # Which commit it is about is not known: a failure disproves nothing.
        return (CheckRun(call.step, call.source, "tests", "pass" if is_passed else "unproven", "CI"),)
    if call.kind != "command" or "gh" not in call.command or not _CI_LOOK.search(call.command):
        return ()
    if polls_several(call.command):
        return (CheckRun(call.step, call.source, "tests", "unproven", "CI of several", about=SEVERAL),)
    about = re.search(r"\bpr checks\s+[\"']?#?(\d{1,9})", call.command)
    text = call.output[:20_000]
    found: list[tuple[str, bool]] = []
    for job in _CI_JOB.finditer(text):
        if job["result"] != "pending":
            is_passed = job["result"] == "pass" or job["mark"] == "✓" or job["end"] == "success"
            found.append(((job["name"] or job["job"] or job["run"]).strip(), is_passed))
    if "conclusion" in text:
        listed: set[str] = set()
        newest = _CI_COMMIT.search(text) if " run list" in call.command else None
        for entry in _CI_OBJECT.findall(text):
            commit = _CI_COMMIT.search(entry)
            if newest is not None and commit is not None and commit[1] != newest[1]:
                continue  # another workflow, of an earlier commit
            name, end = _CI_NAME.search(entry), _CI_CONCLUSION.search(entry)
            if name is None or (name[1] in listed and " run list" in call.command):
                continue  # a list has the newest run first; the others of a workflow are about earlier commits
            listed.add(name[1])
            if end:
                found.append((name[1].replace("\\u0026", "&"), end[1] == "success"))
    found.sort(key=lambda job: not job[1])
    number = about[1] if about else ""
    runs = [
        CheckRun(call.step, call.source, kind_of_job(name), "pass" if is_passed else "fail", name, about=number)
        for name, is_passed in found
    ]
    return tuple(runs[-50:])


def kind_of_job(name: str) -> CheckKind:
    """What a job of CI checks, by its name."""
    return next((kind for kind, pattern in _CI_KINDS if pattern.search(name)), "build")


# --- Attempts --------------------------------------------------------------------------------------------------------

# What a refused attempt prints, in lower case.
_FAILED_PUSH = (
    "! [rejected]", "! [remote rejected]", "error: failed to push", "fatal: ", "permission denied", "has no upstream branch",
    "pre-push hook", "remote: error", "protected branch", "could not read from remote", "repository not found", "authentication failed",
    "error: src refspec", "not a git repository",
)  # fmt: skip
_FAILED_COMMIT = (
    "fatal: ", "pre-commit hook", "hook declined", "commit-msg hook", "husky - ", "aborting commit", "gpg failed to sign",
    "not a git repository", "error: pathspec", "error: unable to", "- hook id: ", "please tell me who you are",
)  # fmt: skip
_FAILED_PULL = (
    "pull request create failed", "graphql: ", "could not create", "could not find", "http 40", "http 42", "must first push",
    "no commits between", "already exists", "not logged in", "authentication", "gh auth login", "error creating", "failed to create",
    "aborted:", "unknown flag",
)  # fmt: skip
_NOTHING_NEW = ("nothing to commit", "nothing added to commit", "no changes added to commit")
_OTHER_TOOLS = re.compile(
    r"(?:^|_)(?:push_files|git_push|push)(?:$|_)|git_commit|create_commit|create_or_update_file|create_(?:pull|merge)_request",
    re.IGNORECASE,
)
_UNSEEN_TASKS = re.compile(r"release|deploy|publish|ship|commit|push|submit|bump|version|sync|land")
_UNSEEN_PROGRAMS = make_word_set("jj hg sl gt spr git-town arc svn repo ghstack stg lazygit gitui semantic-release changeset")
_TASK_RUNNERS = make_word_set("make just task mise npm pnpm yarn bun rake invoke nox tox cargo mix poetry")
_FORGE_PROGRAMS = make_word_set("gh glab hub tea az")
# What may follow a command without changing what its failure means.
_HARMLESS = make_word_set("tail head cat echo grep sed true tee printf less wc sort")
_INTERPRETERS = make_word_set("bash sh zsh python python3 node")
_TRIGGERS = ("git", "gh", "glab", "hub", "jj", "release", "deploy", "publish", "ship", "push", "commit", "gt ", ".sh", "hg ", "sl ")
_HELPER_TOOLS = frozenset(("task", "agent", "spawn_agent", "dispatch_agent"))


def read_attempts(call: ToolCall) -> tuple[Attempt, ...]:
    """The commits, pushes and pull requests that a call tried, and calls that may have done them unseen."""
    if call.kind == "edit":
        if call.state in ("denied", "failed", "interrupted"):
            reason = _first_line(call.output)
            return tuple(Attempt(call.step, call.source, "edit", True, call.state == "denied", reason, p) for p in call.paths[:5])
        return ()
    if call.kind != "command":
        if call.tool.lower() in _HELPER_TOOLS and not call.helper:
            return (Attempt(call.step, call.source, "any", unseen=True),)
        if call.kind == "other" and (found := _OTHER_TOOLS.search(call.tool)):
            word = found.group().lower()
            act: Literal["commit", "push", "pull_request"] = "pull_request" if "request" in word else "push" if "push" in word else "commit"
            failed = call.state in ("failed", "denied", "interrupted")
            return (Attempt(call.step, call.source, act, failed, call.state == "denied", _first_line(call.output) if failed else ""),)
        return ()
    text = call.command
    if not any(word in text for word in _TRIGGERS):
        return ()
    attempts: list[Attempt] = []
    commands = parse_script(text)
    for place, command in enumerate(commands):
        attempts += _find_attempts(command, call, all(later.program in _HARMLESS for later in commands[place + 1 :]))
    return tuple(attempts[:8])


def _find_attempts(command: SimpleCommand, call: ToolCall, is_last: bool) -> list[Attempt]:
    words, program = command.words, command.program
    if program == "git":
        return _attempts_of_git(command, call, is_last)
    plain = [word for word in words[1:] if not word.startswith("-")]
    if program in _FORGE_PROGRAMS:
        if (
            plain[:1]
            and plain[0] in ("pr", "mr", "pull-request", "repos")
            and any(w in ("create", "new", "pull-request") for w in plain[:3])
        ):
            return [_judge_attempt(call, "pull_request", _FAILED_PULL, command, is_last)]
        if plain[:1] == ["api"] and any("pulls" in w or "merge_requests" in w or "graphql" in w for w in plain):
            return [Attempt(call.step, call.source, "pull_request", unseen=True)]
        return []
    first = plain[0] if plain else ""
    is_unseen = (
        program in _UNSEEN_PROGRAMS
        or ((program.endswith((".sh", ".py", ".js", ".ts", ".rb")) or "/" in "".join(words[:1])) and _UNSEEN_TASKS.search(program))
        or (program in _INTERPRETERS and _UNSEEN_TASKS.search(first))
        or (program in _TASK_RUNNERS and any(_UNSEEN_TASKS.search(word) for word in plain[:3]))
    )
    return [Attempt(call.step, call.source, "any", unseen=True)] if is_unseen else []


def _attempts_of_git(command: SimpleCommand, call: ToolCall, is_last: bool) -> list[Attempt]:
    words = command.words
    verb = _git_verb(words)
    if "--dry-run" in words or "--help" in words or "-h" in words or "--abort" in words:
        return []
    if verb in ("commit", "ci"):
        return [_judge_attempt(call, "commit", _FAILED_COMMIT, command, is_last)]
    if verb == "push":
        return [_judge_attempt(call, "push", _FAILED_PUSH, command, is_last)]
    if verb in ("merge", "cherry-pick", "revert", "am", "rebase"):
        return [Attempt(call.step, call.source, "commit", unseen=True)]
    # An alias or an extension can do anything.
    return [] if verb in _GIT_VERBS else [Attempt(call.step, call.source, "any", unseen=True)]


_GIT_VERBS = make_word_set(
    """add am annotate apply archive bisect blame branch bundle cat-file check-ignore check-ref-format checkout cherry cherry-pick
    clean clone commit commit-tree config count-objects describe diff diff-index diff-tree fetch filter-branch for-each-ref
    format-patch fsck gc grep hash-object help init log ls-files ls-remote ls-tree merge merge-base mv notes pull push range-diff
    rebase reflog remote replace reset restore rev-list rev-parse revert rm shortlog show show-branch show-ref sparse-checkout stash
    status submodule switch symbolic-ref tag update-index update-ref var verify-commit version whatchanged worktree write-tree
    --version"""
)
_GIT_VALUED = frozenset(("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"))


def _git_verb(words: Sequence[str]) -> str:
    place = 1
    while place < len(words):
        if words[place] in _GIT_VALUED:
            place += 2
        elif words[place].startswith("-") and words[place] != "--version":
            place += 1
        else:
            return words[place]
    return "help"


def _judge_attempt(
    call: ToolCall, act: Literal["commit", "push", "pull_request"], marks: Sequence[str], command: SimpleCommand, is_last: bool
) -> Attempt:
    """Whether an attempt failed: by the state of the call, or by the output if the exit code is hidden or is that of a later command."""
    output = call.output if len(call.output) <= 12_000 else call.output[:6000] + "\n" + call.output[-6000:]
    lowered = output.lower()
    found = min((place for mark in marks if (place := lowered.find(mark)) >= 0), default=-1)
    is_failed = call.state in ("denied", "interrupted") or (call.state == "failed" and (is_last or found >= 0))
    if call.state in ("ok", "unknown") and found >= 0 and not command.proven:
        is_failed = True
    if act == "commit" and call.state != "denied" and any(mark in lowered for mark in _NOTHING_NEW):
        # Everything was committed before, or nothing was staged: not a refusal.
        is_failed = False
    reason = ""
    if is_failed:
        reason = _line_at(output, found) if found >= 0 else _first_line(output)
    return Attempt(call.step, call.source, act, is_failed, call.state == "denied", reason)


def _line_at(output: str, place: int) -> str:
    """The line of the output that holds `place`."""
    start = output.rfind("\n", 0, place) + 1
    return output[start : start + 400].split("\n", 1)[0].strip()[:160]


def _first_line(output: str) -> str:
    for line in output[:4000].splitlines():
        bare = line.strip()
        if bare and not re.match(r"(?:Exit code|Error:?$|\$ )", bare):
            return bare[:160]
    return ""
