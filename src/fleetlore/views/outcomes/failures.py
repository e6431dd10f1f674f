"""Calls that did not do what they were for: what was attempted, why it failed, and whether that was to be expected."""

import re
from collections.abc import Sequence

from fleetlore.dialects.commands.shell import make_word_set
from fleetlore.views.outcomes.attempts import polls_several
from fleetlore.views.outcomes.checks import TRIVIAL, is_refused_by_hook
from fleetlore.views.outcomes.deliveries import git_subcommand
from fleetlore.views.outcomes.facts import CallFailure, CheckKind, CheckRun, ToolCall
from fleetlore.views.outcomes.output_text import Output, find_cause
from fleetlore.views.outcomes.shell import SimpleCommand

MAX_SIGNATURE = 200

_CHECK_NAMES: dict[CheckKind, str] = {"tests": "tests", "lint": "lint", "types": "type check", "build": "build"}
_LOOKUPS = make_word_set(
    """grep egrep fgrep rg ag ack diff cmp test [ [[ which type command whereis ls find fd stat file cat head tail less wc jq yq readlink
    realpath pgrep lsof ps curl wget ping nc dig host nslookup sed awk xxd tree bat printenv id getent systemctl false expr kill"""
)
_GIT_LOOKUPS = make_word_set(
    """config diff show log rev-parse rev-list ls-files ls-remote ls-tree grep merge-base check-ignore symbolic-ref describe cat-file
    show-ref status branch blame check-ref-format remote for-each-ref name-rev var"""
)
_LOOKUP_VERBS = make_word_set("view list ls show status get describe info search inspect ps logs diff checks help api images version watch")
_NEVER_FAILING = make_word_set("echo printf true : export set sleep pwd head tail wc sort tee exit")
# They wait for a person: no answer, or another one than was offered, is no failure.
_QUESTION_TOOLS = make_word_set(
    "AskUserQuestion ExitPlanMode EnterPlanMode ask_user_question ask_followup_question request_user_input exit_plan_mode"
)
_FORGES = frozenset(("gh", "glab", "tea", "hub"))
_hook = re.compile(r"pre-commit|husky|lefthook|lint-staged|hook", re.IGNORECASE)
_sibling = re.compile(r"Sibling tool call errored|Cancelled: parallel tool call", re.IGNORECASE)
_no_tests = re.compile(
    r"no tests?\b|did not match any test files|deselected|Ran 0 tests|\b0 (?:tests|passing|examples|total)", re.IGNORECASE
)
_error_tag = re.compile(r"</?tool_use_error>|</?error>|<system-reminder>")
# The program's own tool cannot work at all; that a file does not exist or is too long is no failure of it.
_broken_tool = re.compile(
    r"posix_spawn|\bspawn \S{1,300} E[A-Z]{3,}|InputValidationError|\bEACCES\b|ripgrep (?:failed|timed out|not found)"
)
# A web page could not be had.
_no_page = re.compile(r"(?:Error: )?(?:Request failed with status code \d{3}|getaddrinfo |socket hang up|timeout of \d+ ?ms exceeded)")
# Options with which a download is written to a file: it is wanted, not only looked at.
_DOWNLOADS = make_word_set("-o -O -LO -OL -Lo -fsSLo -fLo -sSLo -sLo --output --remote-name --output-document")
_INTERPRETERS = frozenset(("python", "python3", "node", "bun", "ruby", "perl", "deno", "php"))
_flagged = re.compile(r"-{1,2}[\w-]+(?:=.*)?\Z", re.DOTALL)
_git_error = re.compile(r"\s{0,5}(?:error|fatal): ")
_failed_run = re.compile(r"[\"']conclusion[\"']:\s{0,3}[\"'](?:failure|timed_out|startup_failure)[\"']")
_port_taken = re.compile(r"\bEADDRINUSE\b|[Aa]ddress already in use|[Pp]ort \d{2,5} is (?:already )?in use(?!,? (?:trying|using))")
_SERVER_WORDS = make_word_set("dev start serve server runserver uvicorn gunicorn flask vite up run")
CI_FAILED = "CI failed"
SERVER_FAILED = "Server did not start"
TURN_BROKEN = "The turn broke off"
JOINED_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")
"""Where the words of an error code such as `ConnectionRefused` meet."""
STOPPED_CODES = frozenset((130, 137, 143, 144))
"""Exit codes of a command that was stopped by a signal, as servers are."""
# The machine, the network or the sandbox, not the command: every command meets it.
_ENVIRONMENT = (
    ("disk full", r"\bENOSPC\b|no space left on device|disk quota exceeded"),
    ("no network", r"could(?:n['’]t| not) resolve host|\bENOTFOUND\b|\bEAI_AGAIN\b|failure in name resolution|network is unreachable"),
    ("no memory", r"cannot allocate memory|resource temporarily unavailable|cannot fork|too many open files"),
    ("sandbox", r"read-only file system|\bEROFS\b|operation not permitted"),
)
ENVIRONMENTS = frozenset(name for name, _ in _ENVIRONMENT)
_environment = re.compile("|".join(f"(?P<{name.replace(' ', '_')}>{pattern})" for name, pattern in _ENVIRONMENT), re.IGNORECASE)
# The program is not installed, or the command was written wrongly.
_mistyped = re.compile(
    r"(?i)command not found|: not found$|could not be found in this|is not recognized as|unknown (?:flag|option|command|argument|shorthand)"
    r"|unrecognized (?:option|argument|subcommand|command)|invalid option|unexpected argument|^usage:"
)
_last_error = re.compile(r"(?i)(?:error|fatal|panic)\b[:\[ ]")
_number = re.compile(r"\b[0-9a-f]{7,40}\b|\d+")


def read_failure(call: ToolCall, commands: Sequence[SimpleCommand], output: Output, checks: Sequence[CheckRun]) -> CallFailure | None:
    """The failure of a call, None if it succeeded or its state is unknown."""
    if call.state in ("denied", "interrupted"):
        what = "not permitted" if call.state == "denied" else "interrupted"
        return _make_failure(
            call, f"{_name_attempt(call, commands)} {what}", _find_words_of_person(output.text[:4000]), commands, expected=True
        )
    bad = next((check for check in checks if check.result == "fail"), None)
    if bad is None:
        bad = next((check for check in checks if check.result == "could_not_run"), None)
        if bad is not None and output.exit_code == 0 and all(command.proven for command in commands):
            bad = None
    if bad is not None:
        what = f"{_CHECK_NAMES[bad.kind]} {'failed' if bad.result == 'fail' else 'could not run'}"
        if bad.command.startswith("git "):
            what = "push refused by a hook" if " push" in bad.command[:60] else "commit refused by a hook"
        cause = bad.reason or find_cause(output.text, bad.kind)
        nothing_to_run = bad.result == "could_not_run" and _no_tests.search(cause) is not None
        return _make_failure(call, what, cause, commands, expected=bad.meant_to_fail or nothing_to_run, target=bad.command)
    if not commands:
        if call.state != "failed":
            return None
        text = _error_tag.sub("", output.text[:4000])
        is_lookup = call.kind in ("read", "search") and _broken_tool.search(text[:1000]) is None and not _no_page.match(text.strip())
        expected = is_lookup or _sibling.search(text) is not None or call.tool in _QUESTION_TOOLS
        # Behind its first line, the answer to an edit shows the text that was to be replaced.
        cause = find_cause(text.strip().partition("\n")[0] if call.kind == "edit" else text)
        return _make_failure(call, f"{_name_attempt(call, commands)} failed", cause, commands, expected=expected)
    return _read_failed_command(call, commands, output)


def _read_failed_command(call: ToolCall, commands: Sequence[SimpleCommand], output: Output) -> CallFailure | None:
    """The failure of a command that is no check."""
    is_one_run = "gh " not in call.command or not polls_several(call.command)
    hidden = _find_hidden_failure(commands, output, is_one_run)
    is_failed = call.state == "failed" or output.exit_code not in (0, None)
    if call.state == "unknown" and not is_failed:
        is_failed = _last_error.match(output.text.rstrip()[-400:].rpartition("\n")[2]) is not None
    if hidden is None and not is_failed:
        return None
    text = _error_tag.sub("", output.text)
    if hidden is not None:
        cause = find_cause(text)
        if hidden[0] == SERVER_FAILED and (taken := _port_taken.search(text[-8000:])):
            cause = find_cause(text[-8000:][text[-8000:].rfind("\n", 0, taken.start()) + 1 :].partition("\n")[0]) or taken[0]
        return _make_failure(call, hidden[0], cause, commands, expected=False, target=hidden[1])
    suspect = _find_named(commands, text) or _find_suspect(commands)
    if not is_one_run and "gh" in suspect.words[:4]:
        return None  # a look at several pull requests or runs: that one of them fails is what it shows
    # `timeout 10 npm run dev`: a server that is meant to be stopped.
    is_stopped = output.exit_code == 124 and "timeout" in call.command[:200]
    cause = find_cause(text)
    # The work was put away to see the state before it.
    is_stopped = is_stopped or any(command.words[:2] == ("git", "stash") and command is not suspect for command in commands)
    expected = is_stopped or (_is_lookup(suspect, commands, output) and not find_environment(cause))
    return _make_failure(call, _describe_failure(suspect, text), cause, commands, expected=expected, target=" ".join(suspect.words))


def find_environment(cause: str) -> str:
    """What is wrong with the machine, the network or the sandbox; "" if the cause is another."""
    found = _environment.search(cause)
    return (found.lastgroup or "").replace("_", " ") if found else ""


def is_mistyped(cause: str) -> bool:
    """Whether the program is not installed, or the command was written wrongly."""
    return _mistyped.search(cause) is not None


def _find_words_of_person(text: str) -> str:
    """What the person said when refusing a call; "" if only the program's own text is there."""
    _, found, words = text.partition("the user said:")
    return " ".join(words.split())[:200] if found else ""


def _find_hidden_failure(commands: Sequence[SimpleCommand], output: Output, is_one_run: bool) -> tuple[str, str] | None:
    """Failures of git that the output shows even if the exit code is masked."""
    for command in commands:
        if is_one_run and command.words[:3] == ("gh", "pr", "checks") and "\tfail\t" in output.text:
            return "CI checks failed", " ".join(command.words[:3])
        if command.program != "git":
            continue
        sub = git_subcommand(command.words)[0]
        target = " ".join(command.words)
        if sub == "push" and ("[rejected]" in output.text or "[remote rejected]" in output.text or "error: failed to push" in output.text):
            return "push failed", target
        if sub == "commit" and is_refused_by_hook(output.text):
            return "commit refused by a hook", target
        if sub in ("merge", "rebase", "cherry-pick", "pull", "revert", "stash") and "CONFLICT (" in output.text:
            return f"{sub} stopped at a conflict", target
        if command.piped and sub not in _GIT_LOOKUPS and _git_error.match(output.text[:400]):
            return f"git {sub} failed", target
    failed_ci = _find_failed_ci(commands, output) if is_one_run else None
    return failed_ci or _find_failed_server(commands, output)


_failed_job = re.compile(r"^ {0,6}X (?!\S+ \S+ \S+ · )\S", re.MULTILINE)


def _find_failed_ci(commands: Sequence[SimpleCommand], output: Output) -> tuple[str, str] | None:
    """A finished CI run or job that a look at it shows as failed: `gh run watch`, `gh run view --json …`, `gh api …/jobs`."""
    text = output.text[:20_000]
    if "X " in text and _failed_job.search(text) and any("run" in c.words and not {"watch", "view"}.isdisjoint(c.words) for c in commands):
        return next(((CI_FAILED, " ".join(c.words[:3])) for c in commands if "gh" in c.words[:4]), None)
    looked = next((c for c in commands if "--log-failed" in c.words and "gh" in c.words[:4]), None)
    if looked is not None and output.exit_code == 0 and text.strip():
        return CI_FAILED, " ".join(looked.words[:3])
    if "conclusion" not in text or not _failed_run.search(text):
        return None
    for command in commands:
        words = command.words[command.words.index("gh") :] if "gh" in command.words[:4] else ()
        if words[1:3] in (("run", "view"), ("run", "watch")) or words[1:2] == ("api",):
            return CI_FAILED, " ".join(words[:3])
    return None


def _find_failed_server(commands: Sequence[SimpleCommand], output: Output) -> tuple[str, str] | None:
    """A server that could not start because its port is taken, as its own output or its log says."""
    text = output.text[-8000:]
    if ("EADDRINUSE" not in text and "in use" not in text) or _port_taken.search(text) is None:
        return None
    for command in commands:
        reads_log = command.program in ("tail", "cat", "head") and any(word.endswith((".output", ".log", ".out")) for word in command.words)
        if reads_log or not _SERVER_WORDS.isdisjoint(command.words[:6]):
            return SERVER_FAILED, command.program
    return None


_named_program = re.compile(r"^(?:[\w./-]{0,100}/)?([a-z][\w.-]{1,30}): ", re.MULTILINE)


def _find_named(commands: Sequence[SimpleCommand], text: str) -> SimpleCommand | None:
    """The lookup that names itself in the last line, as in `ls: x: No such file or directory`: nothing else failed."""
    found = _named_program.match(text.rstrip().rpartition("\n")[2][:300])
    return next((c for c in reversed(commands) if found and c.proven and c.program == found[1] and c.program in _LOOKUPS), None)


def _find_suspect(commands: Sequence[SimpleCommand]) -> SimpleCommand:
    """The command that most likely failed: the last one that the exit code depends on."""
    own = [command for command in commands if command.proven and command.words]
    telling = [command for command in own if command.program not in TRIVIAL]
    failing = [command for command in own if command.program not in _NEVER_FAILING]
    return (telling or failing or own or list(commands))[-1]


def _describe_failure(command: SimpleCommand, text: str) -> str:
    words, program = command.words, command.program
    if program == "git":
        sub, _, _ = git_subcommand(words)
        if sub == "commit":
            if "nothing to commit" in text or "no changes added" in text:
                return "commit failed: nothing to commit"
            own_error = "fatal: " in text or "are ignored by one of your" in text or "error: pathspec" in text or "Aborting commit" in text
            return "commit failed" if own_error and not _hook.search(text[:4000]) else "commit refused by a hook"
        return f"{sub} failed" if sub == "push" else f"git {sub} failed"
    if program in _FORGES and words[1:3] in (("pr", "create"), ("mr", "create")):
        return "pull request not created"
    if program in ("mv", "cp", "rm", "cd", "ls", "cat"):
        return f"{program} failed"
    subcommand = words[1] if len(words) > 1 and not words[1].startswith(("-", "/", ".", "$", "<")) and len(words[1]) < 30 else ""
    return f"{program} {subcommand}".strip()[:60] + " failed"


def _is_lookup(command: SimpleCommand, commands: Sequence[SimpleCommand], output: Output) -> bool:
    program, words = command.program, command.words
    code = output.exit_code
    if code in (130, 137, 143) and program not in _LOOKUPS:
        return False
    if program in _LOOKUPS:
        return program not in ("curl", "wget") or (program == "curl" and _DOWNLOADS.isdisjoint(words))
    if program == "git":
        sub, arguments, _ = git_subcommand(words)
        if sub == "branch" and {"-d", "-D", "-m", "-M"} & set(arguments):
            return False
        return sub in _GIT_LOOKUPS
    if program in _FORGES or program in ("docker", "kubectl", "npm", "pip", "brew", "cargo", "go", "aws", "gcloud", "mise", "bd", "helm"):
        return bool(_LOOKUP_VERBS & set(words[1:3]))
    return all(each.program in _LOOKUPS or each.program in TRIVIAL for each in commands if each.words)


def _name_attempt(call: ToolCall, commands: Sequence[SimpleCommand]) -> str:
    if call.kind == "edit":
        return "edit"
    if call.kind == "read":
        return "reading a file"
    if call.kind == "search":
        return "search"
    if commands:
        suspect = next((command for command in commands if command.words and command.program not in TRIVIAL), commands[0])
        name = _describe_failure(suspect, "")
        return name.removesuffix(" failed") or "command"
    return call.tool.rpartition("__")[2].replace("_", " ")[:60] or "call"


def is_missing_page(cause: str) -> bool:
    """Whether a web page could not be had."""
    return _no_page.match(cause) is not None


def _make_failure(
    call: ToolCall, what: str, cause: str, commands: Sequence[SimpleCommand], *, expected: bool, target: str = ""
) -> CallFailure:
    return CallFailure(
        step=call.step,
        source=call.source,
        what=what,
        cause=cause,
        signature=_make_signature(call, commands, target),
        expected=expected,
        head=_find_head(commands, target),
    )


def _find_head(commands: Sequence[SimpleCommand], target: str) -> str:
    if not commands:
        return ""
    if words := target[:400].split():
        return name_command(words[0].rpartition("/")[2], words)
    suspect = _find_suspect(commands)
    return name_command(suspect.program, suspect.words)


def name_command(program: str, words: Sequence[str]) -> str:
    """Program and first sub-command or argument: `git push`, `npm run`."""
    if program in ("curl", "wget"):
        return program  # the rest is an address
    if any(word in ("-c", "-e") for word in words[1:4]) and program in _INTERPRETERS:
        return f"{program} -c"
    word = next((word for word in words[1:6] if not word.startswith("-") and "=" not in word), "")
    return f"{program} {word}"[:80].strip()


def _make_signature(call: ToolCall, commands: Sequence[SimpleCommand], target: str) -> str:
    """Equal for repeats of the same attempt: options, numbers and the rest of the script do not count."""
    if not commands:
        return f"{call.tool} {' '.join(call.paths)}"[:MAX_SIGNATURE]
    words = (target or " ".join(_find_suspect(commands).words)).split()
    if words[:2] == ["git", "commit"]:
        return "git commit"
    kept = [word for word in words[:40] if not _flagged.match(word) and not word.isdigit()]
    if kept:
        kept[0] = kept[0].rpartition("/")[2]
    return " ".join(_number.sub("#", word) for word in kept)[:MAX_SIGNATURE]
