# ruff: noqa: E501 - a pattern is easier to read on one line
"""How checks ended: from the exit code where it proves something, else from the tool's own summary in the output.

Behind a pipe, `|| true` or `; echo done` the exit code belongs to another command. Then only the summary counts, and
without one the result is `unproven`. A run that could not start (missing program, no tests, broken setup) is
`could_not_run`, not a failure of the code.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from fleetlore.dialects.commands.shell import make_word_set
from fleetlore.views.outcomes.check_commands import CheckCommand, find_checks, kinds_of_task
from fleetlore.views.outcomes.facts import PUSH_HOOK, CheckKind, CheckResult, CheckRun, ToolCall
from fleetlore.views.outcomes.output_text import MAX_CAUSE, Output, compile_pattern, find_cause, strip_task_prefixes
from fleetlore.views.outcomes.shell import SimpleCommand, parse_script
from fleetlore.views.outcomes.summaries import GOOD_WORDS, SUMMARIES, Summary

KINDS: tuple[CheckKind, ...] = ("tests", "lint", "types", "build")
MAX_CHECKS = 20


class OutputVerdict(NamedTuple):
    """What the output says about one kind of check; result None: nothing."""

    result: CheckResult | None
    counts: str = ""
    decisive: bool = False
    partial: bool = False


class _Candidate(NamedTuple):
    command: SimpleCommand
    check: CheckCommand
    kind: CheckKind
    position: int


# Tools that print nothing when all is well: no output at all is their way to say so.
_SILENT = make_word_set(
    """go-build go-vet mix-compile mix-format tsc eslint shellcheck flake8 pyflakes staticcheck gofmt goimports gofumpt cargo-fmt rustfmt
    stylelint yamllint actionlint hadolint vue-tsc pycodestyle deno-check bash--n python--m-py_compile node---check gcc g++ clang clang++
    javac rustc terraform-fmt zig-fmt zig-build luacheck oxfmt errcheck nest-build"""
)  # names of checks, with "-" for a space
# Tools that write "error" on every finding.
_NAMES_ERRORS = frozenset(
    ("tsc", "vue-tsc", "cargo build", "cargo check", "cargo clippy", "mypy", "dotnet build", "gcc", "g++", "clang", "go vet")
)
# Exit codes: cannot be executed, not found, timed out, killed.
_CANNOT_START = frozenset((126, 127, 124, 137, 143))
_PASSING_ON = frozenset(("head", "tail", "cat", "tee", "less"))
# Programs that hardly fail and say nothing about a check.
TRIVIAL = make_word_set(
    """cd pushd popd echo printf export set unset source . true : mkdir sleep pwd cat ls head tail date tee wc clear ulimit local
    grep sort touch shopt alias exit rm"""
)
_NOT_RUN = (
    ("not found", r"^(?:[^\n]{0,120}: )?(?:line \d+: )?(?:\d+: )?(?:[\w./@+-]{1,80}: )?(?:command not found|not found)(?:: \S+)?$|^[^\n]{0,60}command not found"),
    ("issing script", r"[Mm]issing script:? "),
    ("No rule to make target", r"^make(?:\[\d+\])?: \*\*\* No rule to make target [`'\"](?P<target>[^'\"\n]{1,80})"),
    ("does not contain recipe", r"[Jj]ustfile does not contain recipe"),
    ("no such command", r"^error: no such (?:sub)?command"),
    ("no task ", r"no task[s ][^\n]{0,80}found"),
    ("does not exist", r"^task: Task \"[^\"\n]{1,80}\" does not exist"),
    ("No module named ", r"^\S*python[\d.]*(?:\.exe)?: (?:Error while finding module|No module named) "),
    ("Command not found", r"^error: (?:Failed to spawn|[Cc]ommand not found)"),
    ("Failed to spawn", r"^error: Failed to spawn"),
    ("Script not found", r"^error: Script not found"),
    ("Couldn't find a script", r"Couldn't find a script named"),
    ("error Command ", r"^error Command \"[^\"\n]{1,80}\" not found"),
    ("_NO_SCRIPT", r"ERR_PNPM_(?:RECURSIVE_RUN_)?NO_SCRIPT"),
    ("ERR_PNPM_RECURSIVE_EXEC", r"ERR_PNPM_RECURSIVE_EXEC_FIRST_FAIL[^\n]{0,40}Command \"\S+\" not found"),
    ("could not be found", r"The task \"[^\"\n]{1,80}\" could not be found"),
    ("package.json", r"(?:ENOENT|Could not read package\.json|No package\.json|ERR_PNPM_NO_IMPORTER_MANIFEST)[^\n]{0,200}package\.json"),
    ("updates to go.mod needed", r"updates to go\.mod needed"),
    ("no go files to analyze", r"no go files to analyze"),
    ("go.mod file not found", r"go\.mod file not found|cannot find main module"),
    ("matched no packages", r"matched no packages"),
    ("build constraints exclude all", r"build constraints exclude all Go files"),
    ("error: unrecognized arguments", r"error: unrecognized arguments"),
    ("file or directory not found", r"^ERROR: file or directory not found"),
    ("unexpected argument", r"^error: unexpected argument"),
    ("unrecognized subcommand", r"^error: unrecognized subcommand"),
    ("Unknown option", r"^(?:error: )?[Uu]nknown (?:option|flag|argument)"),
    ("unknown flag", r"^(?:Error: )?unknown flag:"),
    ("Unable to locate a Java", r"Unable to locate a Java Runtime|JAVA_HOME is not set"),
    ("JAVA_HOME is not set", r"JAVA_HOME is not set"),
    ("Cannot connect to the Docker daemon", r"Cannot connect to the Docker daemon"),
    ("Cannot find module", r"^Error: Cannot find module '[^'\n]{0,200}node_modules"),
    ("is not installed", r"^error: (?:toolchain|component|'cargo[\w-]*')[^\n]{0,100}is not installed"),
    ("Cannot find package", r"ERR_MODULE_NOT_FOUND[^\n]{0,100}(?:vitest|jest|eslint|typescript)"),
    ("couldn't find an eslint.config", r"ESLint couldn't find an? (?:eslint\.config|config)"),
    ("did not match any test files", r"did not match any test files"),
    ("no test target named", r"^error: no (?:test|bin|example|lib) target"),
    ("did not match any packages", r"^error: package ID specification [^\n]{1,100} did not match any packages"),
    ("manifest", r"^error: failed to (?:load|parse|read) (?:source for dependency|manifest)"),
    ("could not find `Cargo.toml`", r"could not find `Cargo\.toml`"),
    ("Could not find a Mix.Project", r"Could not find a Mix\.Project"),
    ("Unchecked dependencies", r"^Unchecked dependencies for environment"),
    ("Could not find gem", r"Could not find gem|Could not find \S+ in (?:any of the sources|locally installed)"),
    ("Cannot read file", r": error: Cannot read file"),
    ("Can't open", r"^Can't open perl script"),
    ("onftest", r"ImportError while loading conftest|^ConftestImportFailure"),
    ("no such file or directory", r"^l?stat \S{1,300}: no such file or directory$"),
    ("Permission denied", r"^(?:/bin/)?(?:ba|z)?sh: [^\n]{0,120}Permission denied$"),
    ("timed out after", r"^Command timed out after"),
    ("resolve host", r"[Cc]ould(?:n't| not) resolve host"),
    ("No space left on device", r"No space left on device"),
)  # fmt: skip
_FAILED_TASK = (
    ("ERROR task failed", r"^\[(?P<task>[\w:.-]{1,60})\] ERROR task failed"),
    ("*** [", r"^g?make(?:\[\d+\])?: \*\*\* \[(?:[^\]\n]{1,80}: )?(?P<task>[^\]\n]{1,80})\] Error \d+"),
    ("Recipe `", r"^error: Recipe `(?P<task>[^`\n]{1,60})` (?:failed|was terminated)"),
    ("Failed to run task", r"^task: Failed to run task \"(?P<task>[^\"\n]{1,60})\""),
    ("exited with code", r"^error: script \"(?P<task>[^\"\n]{1,60})\" exited with code \d+"),
    ("event returned with error code", r"handling the (?P<task>\S{1,60}) event returned with error code"),
    ("Lifecycle script", r"^npm (?:ERR!|error) Lifecycle script `(?P<task>[^`\n]{1,60})` failed"),
    ("ELIFECYCLE", r"ELIFECYCLE.{0,3}\s{1,3}(?P<task>)(?:Test|Command) failed"),
    ("ERR_PNPM_RECURSIVE_RUN_FIRST_FAIL", r"ERR_PNPM_RECURSIVE_RUN_FIRST_FAIL\S*\s{1,3}\S{1,200} (?P<task>[\w:.-]{1,60}): "),
    ("error Command failed", r"^error Command failed with (?P<task>)exit code \d+"),
)  # fmt: skip
_status_word = re.compile(
    r"(?P<before>[^$`]{0,80})\$\{?(?:\?|PIPESTATUS\[0\]|pipestatus\[1\]|LASTEXITCODE|(?:rc|ec|ret|code|status|exit\w{0,10}|result|test_\w{1,10})\b)\}?",
    re.IGNORECASE,
)
_MEANT_TO_FAIL = r"""(?xi)\b(?: (?:verify|verifies|confirm|confirms|ensure|prove|proves|demonstrate|show|expect|expects|expecting|watch|see)\b (?![^.\n]{0,20}\b(?:if|whether|which|why|what)\b)
          [^.\n]{0,60}\b(?:fails?|failing|failure|red)\b
        | expected?[ ](?:to[ ]|failures?\b|red\b) (?:fail|be[ ]red)?
        | (?:should|must)[ ](?:now[ ]|still[ ]|all[ ]|first[ ])?fail\b
        | TDD[ :(-]{1,3}red | red[ ](?:phase|step|test|state) | \(red\) | failing[ ]tests?[ ]first | before[ ](?:the[ ])?fix
        | negative[ ](?:check|test|case|path)s? | reproduc(?:e|es|ing)[ ](?:the[ ])?(?:bug|issue|failure|error|problem) )"""
_file_listing = re.compile(r"^(?:diff )?[\w./@+-]{1,200}\.\w{1,8}$", re.M)
_go_package = re.compile(r"^(ok  |FAIL)\t\S+\t?(.*)$", re.M)
# Vitest could not load the test files.
_no_test_loaded = re.compile(r"^ *Tests +no tests$", re.M)
_no_file_linted = re.compile(r"^Linting: 0 files?(?:\(s\))?$| in 0 files\.$", re.M)
_bun_passed = re.compile(r"^ {1,3}\d+ pass$", re.M)
_bun_failed = re.compile(r"\d+ (?:fail|errors?)")
_task_totals = re.compile(r"^ Tasks: +(\d{1,6}) successful, (\d{1,6}) total$", re.M)
_cargo_result = re.compile(r"^test result: \w+\. (\d{1,9}) passed; (\d{1,9}) failed; (\d{1,9}) ignored", re.M)
# What a task runner prints before it runs a command: `$ tsc --noEmit`, `[types] $ tsc`, `> eslint src`, `[COMPLETED] eslint --fix`.
_announced = re.compile(r"^(?:\[[\w:.-]{1,40}\] )?(?:\$|>|\[COMPLETED\]|✔) (?P<line>[\w./@-]{2,100}(?: [^\n]{0,300})?)$", re.M)
_npm_script = re.compile(r"(?:@[\w.-]+/)?[\w.-]+@\d[\w.+-]* (?P<task>[\w:.-]{1,60})(?: /\S{1,300}| [A-Za-z]:\S{1,300})?\Z")
_commit_made = re.compile(r"^\[[^\]\n]{1,200} [0-9a-f]{7,40}\] ", re.M)
_ANNOUNCING = make_word_set("npm pnpm yarn bun mise git")
_echoed = re.compile(r"^(?:\[[\w:.-]{1,40}\] )?(?:[$>+] |)(?P<line>[\w./@-]{2,60} ?[^\n]{0,300})$", re.M)


def read_checks(call: ToolCall, commands: Sequence[SimpleCommand], output: Output) -> tuple[CheckRun, ...]:
    """The checks of a call with their results, in the order of the command."""
    candidates = list(_find_candidates(commands, output))[:MAX_CHECKS]
    if not candidates:
        return _read_announced_checks(call, commands, output, [])
    text = strip_task_prefixes(output.text, call.command[:2000])
    verdicts = _judge_candidates(candidates, commands, text)
    judged = {
        candidate: verdict
        for candidate, verdict in zip(candidates, verdicts, strict=True)
        if verdict.result is not None or not candidate.check.needs_evidence
    }
    failed_tasks = _find_failed_tasks(output.text)
    judged = {each: verdict for each, verdict in judged.items() if not _stopped_before(each, judged, commands, failed_tasks)}
    setup_problem = find_setup_problem(output.text) if output.exit_code != 0 or not all(c.command.proven for c in candidates) else ""
    meant = _is_meant_to_fail(call)
    runs: list[CheckRun] = []
    for candidate, verdict in judged.items():
        result = _decide_result(candidate, judged, commands, output, setup_problem, failed_tasks)
        if result is None:
            continue
        reason = ""
        if result == "could_not_run":
            shown = " ".join(verdict.counts.split()) if verdict.result == "could_not_run" else ""
            reason = setup_problem or shown or find_cause(text, candidate.kind)
        elif result == "fail":
            reason = find_cause(text, candidate.kind)
        runs.append(
            CheckRun(
                step=call.step,
                source=call.source,
                kind=candidate.kind,
                result=result,
                command=_render_command(candidate),
                counts=_trust_counts(verdict, candidate, commands, text) if result in ("pass", "fail") else "",
                reason=reason,
                whole=candidate.check.whole,
                cached=result == "pass" and is_cached(text, candidate.kind),
                meant_to_fail=meant,
            )
        )
    return (*runs, *_read_announced_checks(call, commands, output, runs))


_summed_up = re.compile(r"\d+ packages? ok|\d+ passed; \d+ failed; ")


def _trust_counts(verdict: OutputVerdict, candidate: _Candidate, commands: Sequence[SimpleCommand], text: str) -> str:
    """The counts of a run, unless they are added up from lines of which a filter has taken out some."""
    if verdict.result is None or (_summed_up.match(verdict.counts) and _is_cut(commands, candidate.position, text)):
        return ""
    return verdict.counts


def _is_cut(commands: Sequence[SimpleCommand], position: int, text: str) -> bool:
    """Whether a pipe behind a command left out lines of its output: a full `head` or `tail`, or a search."""
    for later in commands[position + 1 :]:
        if later.operator != "|":
            break
        if later.program in ("head", "tail") and text.strip().count("\n") + 1 >= _line_limit(later):
            return True
        if later.program in ("grep", "egrep", "rg", "sed", "awk") and not any(re.fullmatch(r"-\w*v\w*", word) for word in later.words):
            return True
    return False


def _line_limit(command: SimpleCommand) -> int:
    """How many lines `head` or `tail` lets through."""
    return int(next((word.lstrip("-n") for word in command.words[1:] if word.lstrip("-n").isdecimal()), "10")[:9])


def _find_announced(text: str) -> list[CheckCommand]:
    """The linters, type checkers and builds that a task runner says it runs, in order."""
    if "$ " not in text and "> " not in text and "[COMPLETED] " not in text and "✔ " not in text:
        return []
    found: list[CheckCommand] = []
    for line in islice(_announced.finditer(text[:20_000]), 200):
        words = line["line"].strip()
        script = _npm_script.match(words)
        if script:
            found += [CheckCommand(kind, f"npm run {script['task']}") for kind in kinds_of_task(script["task"])]
        elif len(words) < 200 and "&&" not in words:
            found += [check for command in parse_script(words) for check in find_checks(command.words)]
    return found


_hook_failed = re.compile(r"husky - \S+ (?:script failed|hook exited)|^- exit code: [1-9]|hook declined|pre-commit hook failed", re.M)


def is_refused_by_hook(text: str) -> bool:
    """Whether a hook kept git from making a commit; a wrapper around git can hide its exit code."""
    return _hook_failed.search(text[-2000:]) is not None and _commit_made.search(text) is None


def _may_announce(command: SimpleCommand) -> bool:
    if command.program not in _ANNOUNCING or command.background:
        return False
    return command.program != "git" or bool({"commit", "push"} & set(command.words[1:4]))


def _read_announced_checks(
    call: ToolCall, commands: Sequence[SimpleCommand], output: Output, known: Sequence[CheckRun]
) -> tuple[CheckRun, ...]:
    """Checks that ran on the way, as `npm test` does with a `pretest` script and `git commit` with a hook.

    Only those that passed: all of them if the command succeeded, else those after which npm went on.
    """
    owner = next((command for command in commands if _may_announce(command)), None)
    if owner is None or len(output.text) < 20:
        return ()
    announced = _find_announced(output.text)
    if not announced:
        return ()
    is_over = output.exit_code == 0 and owner.proven and not is_refused_by_hook(output.text)
    is_over = is_over or (owner.program == "git" and _commit_made.search(output.text) is not None)
    if owner.program == "mise" and not is_over:
        is_over = bool(_finished_tasks(output.text))
    if not is_over:
        last = announced[-1].kind
        announced = [check for check in announced if check.kind != last] if owner.program in ("npm", "pnpm") else []
    taken = {run.kind for run in known if run.result != "unproven"}
    passed: dict[CheckKind, CheckRun] = {}
    for check in announced:
        kind = check.kind
        if kind == "mixed" or kind == "tests" or kind in taken or kind in passed:
            continue
        if check.lists_findings or (not is_over and judge_output(kind, output.text).result == "fail"):
            continue
        passed[kind] = CheckRun(step=call.step, source=call.source, kind=kind, result="pass", command=check.name, whole=check.whole)
    return tuple(passed.values())


def _find_candidates(commands: Sequence[SimpleCommand], output: Output) -> Iterator[_Candidate]:
    found = False
    is_stashed = False
    for position, command in enumerate(commands):
        if command.words[:2] == ("git", "stash"):
            is_stashed = not {"pop", "apply", "drop", "list", "show"} & set(command.words[2:4])
        if is_stashed:
            continue  # the work of the session is put away: the result is that of the state before it
        for check in find_checks(command.words):
            found = True
            if check.kind == "mixed":
                for kind in _kinds_in_output(output.text):
                    yield _Candidate(command, check._replace(kind=kind), kind, position)
            else:
                yield _Candidate(command, check, check.kind, position)
        if command.program == "git" and not found and len(output.text) > 40:
            yield from _find_hook_checks(command, position, output.text)
    if not found and not is_stashed and len(output.text) > 10:
        yield from _find_unknown_runner(commands, output.text)


# Programs that show text, which may quote the summary of a run.
_SHOWING = make_word_set(
    """less grep egrep rg ag sed awk jq git gh glab curl wget journalctl tmux diff find xxd
    psql sqlite3 kubectl aws gcloud bat nl tac"""
)


def _find_unknown_runner(commands: Sequence[SimpleCommand], text: str) -> Iterator[_Candidate]:
    """The only program of a script, if we do not know it and its output has the summary of a test runner."""
    own = [(position, command) for position, command in enumerate(commands) if command.words and command.program not in TRIVIAL]
    own = [(position, command) for position, command in own if command.operator != "|"]
    if len(own) != 1:
        return
    position, command = own[0]
    is_shown = command.program in _SHOWING or "logs" in command.words[1:4] or bool({"-c", "-e", "-p"} & set(command.words[1:3]))
    if is_shown or command.body or command.background:
        return
    verdict = judge_output("tests", text)
    if verdict.result in ("pass", "fail") and any(character.isdigit() for character in verdict.counts):
        yield _Candidate(command, CheckCommand("tests", command.program, needs_evidence=True), "tests", position)


_built = re.compile(r"\bbuild (?:(?P<good>succeeded|successful|completed|passed)|failed)\b", re.IGNORECASE)


def read_tool_checks(call: ToolCall, output: Output) -> tuple[CheckRun, ...]:
    """Checks that a tool other than a shell ran, by its name and what it printed: `mcp__xcode__build_sim`, `runTests`."""
    name = call.tool.rpartition("__")[2]
    runs: list[CheckRun] = []
    for kind in kinds_of_task(name):
        if kind == "mixed":
            continue
        verdict = judge_output(kind, output.text)
        result = verdict.result
        if result is None and kind == "build" and (built := _built.search(output.text)):
            result = "pass" if built["good"] and call.state == "ok" else "fail"
        if result is not None:
            reason = find_cause(output.text, kind) if result == "fail" else ""
            runs.append(CheckRun(call.step, call.source, kind, result, name, verdict.counts, reason))
    return tuple(runs)


_finished = re.compile(r"^(?:\[(?P<task>[\w:.-]{1,60})\] )?Finished in \S{1,20}$", re.M)


def _finished_tasks(text: str) -> set[str]:
    """The tasks that mise says it has finished, "" for the whole; none if it did not come to the end, or one failed."""
    if not _finished.search(text[-100:].rstrip().rpartition("\n")[2]) or "ERROR task failed" in text:
        return set()
    return {found["task"] or "" for found in islice(_finished.finditer(text[-4000:]), 20)}


def _find_hook_checks(command: SimpleCommand, position: int, text: str) -> Iterator[_Candidate]:
    """Checks that git hooks ran on the way to a commit or push, if their summaries are in the output."""
    words = command.words
    if not {"commit", "push"} & set(words[1:4]) or "--no-verify" in words or "-n" in words:
        return
    announced: dict[str, bool] = {}
    is_of_staged = "[COMPLETED] " in text or "✔ " in text  # lint-staged gives the staged files to its commands
    for check in _find_announced(text):
        announced[check.kind] = announced.get(check.kind, True) and check.whole and not is_of_staged
    for kind in KINDS[:3]:
        if kind != "tests" and announced and kind not in announced:
            continue  # words of another tool's output
        result = judge_output(kind, text).result
        if result == "fail" and is_of_staged and kind == "lint":
            continue  # about the staged files only: what counts is that git was refused
        if result in ("pass", "fail"):
            yield _Candidate(command, CheckCommand(kind, "git hook", announced.get(kind, False), needs_evidence=True), kind, position)


def _kinds_in_output(text: str) -> list[CheckKind]:
    """Kinds of check that a task such as `make check` ran, by the commands that it printed and the summaries."""
    found: set[str] = set()
    for line in islice(_echoed.finditer(text[:8000] + "\n" + text[-8000:]), 300):
        words = line["line"]
        if " " in words or words in ("pytest", "mypy", "tsc"):
            for command in parse_script(words) if len(words) < 200 else ():
                found.update(check.kind for check in find_checks(command.words))
    found.update(kind for task in _finished_tasks(text) for kind in kinds_of_task(task) if kind != "mixed")
    if judge_output("tests", text).result in ("pass", "fail"):
        found.add("tests")
    if not found - {"tests"}:
        lint = judge_output("lint", text)
        types = judge_output("types", text)
        if lint.result in ("pass", "fail"):
            found.add("lint")
        if types.result in ("pass", "fail") and types.counts != lint.counts:  # "Found 1 error" can be either
            found.add("types")
    return [kind for kind in KINDS if kind in found]


def _judge_candidates(candidates: Sequence[_Candidate], commands: Sequence[SimpleCommand], text: str) -> list[OutputVerdict]:
    """What the output says about each check; printed marks such as `echo "--- lint"` divide it among the commands."""
    parts = _divide_output(commands, text)
    whole: dict[CheckKind, OutputVerdict] = {}
    verdicts: list[OutputVerdict] = []
    for candidate in candidates:
        kind = candidate.kind
        part = parts.get(candidate.position)
        if part is not None:
            verdict = judge_output(kind, part)
            alone = sum(other.kind == kind for other in candidates) == 1
            is_filtered = verdict.result == "could_not_run" and _leaves_out_successes(candidate, commands, part)
            if is_filtered or (verdict.result is None and _is_silence_success(candidate, commands, part)):
                verdict = OutputVerdict("pass")
            if verdict.result is not None or not alone:
                verdicts.append(verdict)
                continue
        if kind not in whole:
            whole[kind] = judge_output(kind, text)
        verdict = whole[kind]
        if candidate.check.name == "ty" and "All checks passed!" in text:
            verdict = OutputVerdict("pass")
        if verdict.result is None and _is_silence_success(candidate, commands, text):
            verdict = OutputVerdict("pass")
        if candidate.command.program == "mise" and _finished_tasks(text):
            is_cut = verdict.result == "could_not_run" and _is_cut(
                commands, candidate.position, text
            )  # only packages without tests are left
            verdict = OutputVerdict("pass") if verdict.result is None or is_cut else verdict
        if verdict.result == "could_not_run" and _leaves_out_successes(candidate, commands, text):
            verdict = OutputVerdict("pass")
        if verdict.result is None and len(candidates) == 1 and (tasks := _task_totals.search(text[-2000:])):
            verdict = OutputVerdict("pass" if tasks[1] == tasks[2] else "fail")
        verdicts.append(verdict)
    return verdicts


def _divide_output(commands: Sequence[SimpleCommand], text: str) -> dict[int, str]:
    """The part of the output that belongs to each command, by the literal texts that the script prints between them."""
    marks: list[tuple[int, int, int]] = []
    padded = f"\n{text}\n"
    at = 0
    for position, command in enumerate(commands):
        if command.program == "echo" and len(command.words) > 1 and not command.writes and not command.piped:
            said = " ".join(word for word in command.words[1:] if word not in ("-e", "-n")).strip()
            said, is_cut, _ = said.partition("$")  # `echo "build: $?"` prints a line that begins so
            ending = "" if is_cut else "\n"
            if (4 if is_cut else 0) < len(said) <= 200 and "\n" not in said:
                place = padded.find(f"\n{said}{ending}", at)
                if place >= 0:
                    end = padded.find("\n", place + 1)
                    marks.append((position, place, end))
                    at = end
    if not marks:
        return {}
    parts: dict[int, str] = {}
    for position in range(len(commands)):
        start = max((end for mark, _, end in marks if mark < position), default=0)
        end = min((begin for mark, begin, _ in marks if mark > position), default=len(text))
        parts[position] = text[start:end]
    return parts


def _is_silence_success(candidate: _Candidate, commands: Sequence[SimpleCommand], text: str) -> bool:
    """Whether no output at all means success: a silent tool whose output was shown, at most cut by `head` or `tail`."""
    command, check, _, position = candidate
    if _is_error_search(candidate, commands, text) or _leaves_out_successes(candidate, commands, text):
        return True
    if text.strip() == "0" and command.piped and commands[-1].words[:2] == ("wc", "-l") and len(commands) == position + 2:
        text = ""  # its lines were counted
    elif text.strip():
        return _is_silent_script(command, text)
    if check.name.replace(" ", "-") not in _SILENT or command.writes or command.background:
        return False
    if not command.piped:
        return command.operator != "||"
    return position + 1 < len(commands) and commands[position + 1].program in (*_PASSING_ON, "wc")


_script_note = re.compile(r"yarn run v\d\S*|(?:✨ {1,3})?Done in [\d.]+ ?m?s\.?|info Visit https://yarnpkg\S*[^\n]{0,80}")


def _is_silent_script(command: SimpleCommand, text: str) -> bool:
    """A task runner printed the command of a script, such as `> eslint src` or `$ tsc --noEmit`, and that tool printed nothing."""
    if command.program not in _ANNOUNCING or len(text) > 1000 or command.writes:
        return False
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _script_note.fullmatch(line.strip())]
    lines = [re.sub(r"^\[[\w:.-]{1,40}\] (?=\$ )", "", line) for line in lines]
    if not lines or not all(line.startswith(("> ", "$ ")) for line in lines):
        return False
    tools = find_checks(tuple(lines[-1][2:].split()))
    return bool(tools) and all(tool.name.replace(" ", "-") in _SILENT for tool in tools)


_no_tests_here = re.compile(r"\?\s+\S+\s+\[no test files\]")


def _leaves_out_successes(candidate: _Candidate, commands: Sequence[SimpleCommand], text: str) -> bool:
    """`go test ./... | grep -v "^ok"`: the filter lets failures through, and there are none."""
    if candidate.check.name != "go test" or not candidate.command.piped:
        return False
    is_filtered = False
    for later in commands[candidate.position + 1 :]:
        if later.operator != "|":
            break
        if later.program in ("grep", "egrep") and any(word.startswith("-") and "v" in word for word in later.words[1:]):
            pattern = " ".join(word for word in later.words[1:] if not word.startswith("-"))
            is_filtered = is_filtered or "ok" in pattern
            if "fail" in pattern.lower():
                return False
        elif later.program not in _PASSING_ON:
            return False
    printed = tuple(" ".join(later.words[1:]).partition("$")[0] for later in commands if later.program == "echo" and len(later.words) > 1)
    lines = (line.strip() for line in text.splitlines())
    return is_filtered and all(not line or _no_tests_here.match(line) or line.startswith(printed) for line in lines)


def _is_error_search(candidate: _Candidate, commands: Sequence[SimpleCommand], text: str) -> bool:
    """`tsc --noEmit | grep error || echo none`: nothing was found, so the tool reported no error."""
    command, check, _, position = candidate
    search = commands[position + 1] if position + 1 < len(commands) else None
    if not command.piped or search is None or search.program not in ("grep", "egrep", "rg") or check.name not in _NAMES_ERRORS:
        return False
    if {"-v", "-q"} & set(search.words):
        return False
    if "-c" in search.words and text.strip() == "0":
        text = ""
    pattern = next((word for word in search.words[1:] if not word.startswith("-")), "").replace("\\|", "|").lower()
    if not any(part.strip("^ \\[:()") in ("error", "error ts", "error:") for part in pattern.split("|")):
        return False
    printed = {" ".join(later.words[1:]) for later in commands[position + 2 :] if later.program == "echo"}
    return all(not line.strip() or line.strip() in printed for line in text.splitlines())


def _decide_result(
    candidate: _Candidate,
    verdicts: dict[_Candidate, OutputVerdict],
    commands: Sequence[SimpleCommand],
    output: Output,
    setup_problem: str,
    failed_tasks: frozenset[str],
) -> CheckResult | None:
    """The result of one check; None if it was not run."""
    command, check, _, position = candidate
    verdict = verdicts[candidate]
    if command.background:
        return "unproven"
    if check.name == "golangci-lint" and not check.whole and _lints_single_file(command, output.text):
        return "could_not_run"
    if check.name == "git hook":
        # The exit code is that of git, and a wrapper can hide it.
        return "pass" if verdict.result == "fail" and _commit_made.search(output.text) else verdict.result
    status = _find_status(commands, position, output)
    exit_code = output.exit_code
    if exit_code == 0 and command.program == "git" and is_refused_by_hook(output.text):
        exit_code = 1  # a wrapper around git hides it
    if status is None and command.proven and exit_code is not None:
        if exit_code != 0 and not _is_only_suspect(candidate, verdicts, commands):
            if verdict.result in (None, "fail"):
                return _decide_in_chain(candidate, verdicts, setup_problem, output.text)
        else:
            status = exit_code
    if status is not None:
        return _decide_by_status(status, candidate, commands, output, verdict, setup_problem)
    hides_failures = command.piped and _hides_failures(commands, position, output.text)
    if any(later.program not in TRIVIAL and later.operator != "|" for later in commands[position + 1 :]):
        setup_problem = ""  # what could not start may be what follows
    return _decide_without_status(candidate, verdicts, commands, setup_problem, failed_tasks, hides_failures=hides_failures)


def _stopped_before(
    candidate: _Candidate, others: Iterable[_Candidate], commands: Sequence[SimpleCommand], failed_tasks: frozenset[str]
) -> bool:
    """Whether a task runner says that an earlier task of the same `&&` chain failed, so that this one was not run."""
    failed = [other.position for other in others if other.position < candidate.position and _get_task(other.check) in failed_tasks]
    return any(
        all(later.operator == "&&" for later in commands[position + 1 : candidate.position + 1]) and not commands[position].piped
        for position in failed
    )


def _hides_failures(commands: Sequence[SimpleCommand], position: int, text: str) -> bool:
    """Whether a pipe can have removed the lines of failed packages: a full `head`, or a `grep` for successes."""
    for later in commands[position + 1 : position + 4]:
        if later.operator != "|":
            return False
        if later.program in ("grep", "egrep", "rg"):
            wanted = " ".join(later.words[1:]).lower()
            if "fail" not in wanted and "-v" not in later.words and "err" not in wanted:
                return True
        if later.program == "head" and text.strip().count("\n") + 1 >= _line_limit(later):
            return True
    return False


def _decide_without_status(
    candidate: _Candidate,
    verdicts: dict[_Candidate, OutputVerdict],
    commands: Sequence[SimpleCommand],
    setup_problem: str,
    failed_tasks: frozenset[str],
    *,
    hides_failures: bool,
) -> CheckResult:
    """The exit code belongs to another command; only the output counts."""
    verdict = verdicts[candidate]
    result = verdict.result
    if result == "pass" and verdict.partial and hides_failures:
        result = None
    is_failed_task = _get_task(candidate.check) in failed_tasks
    if result is not None:
        return "fail" if is_failed_task else result
    if not is_failed_task and _was_passed_by(candidate, verdicts, commands):
        return "pass"
    if setup_problem and len({each.position for each in verdicts}) == 1:
        return "could_not_run"
    return "fail" if is_failed_task or ("" in failed_tasks and len(verdicts) == 1) else "unproven"


def _was_passed_by(candidate: _Candidate, verdicts: dict[_Candidate, OutputVerdict], commands: Sequence[SimpleCommand]) -> bool:
    """Whether a later check of the same `&&` chain shows a result, so that this one let the chain go on."""
    if candidate.command.piped or candidate.command.background:
        return False
    shown = [other.position for other, verdict in verdicts.items() if verdict.result is not None and other.position > candidate.position]
    return any(all(later.operator == "&&" for later in commands[candidate.position + 1 : position + 1]) for position in shown)


def _lints_single_file(command: SimpleCommand, text: str) -> bool:
    """A Go file without its package: names of other files are undefined, which says nothing about the code."""
    if not command.words[-1].endswith(".go") or "(typecheck)" not in text:
        return False
    return re.search(r"^\* (?!typecheck:)\w+: \d+$", text, re.M) is None


def _decide_by_status(
    status: int, candidate: _Candidate, commands: Sequence[SimpleCommand], output: Output, verdict: OutputVerdict, setup_problem: str
) -> CheckResult:
    """The check's own exit code, against what the output says."""
    if status != 0:
        cannot_start = status in _CANNOT_START or (setup_problem and verdict.result != "fail")
        return "could_not_run" if verdict.result == "could_not_run" or cannot_start else "fail"
    if candidate.check.lists_findings:
        return "fail" if _file_listing.search(output.text) else "pass"
    if verdict.result == "could_not_run":
        return "could_not_run"
    others = [command for command in commands if command is not candidate.command and command.program not in TRIVIAL]
    return "fail" if verdict.result == "fail" and verdict.decisive and not others else "pass"


def _is_only_suspect(candidate: _Candidate, verdicts: dict[_Candidate, OutputVerdict], commands: Sequence[SimpleCommand]) -> bool:
    """Whether no other command can be the cause of the script's exit code."""
    for position, command in enumerate(commands):
        if position != candidate.position and command.proven and command.program not in TRIVIAL:
            return False
    return not any(other.position == candidate.position and other.kind != candidate.kind for other in verdicts)


def _shows_start(candidate: _Candidate, text: str) -> bool | None:
    """Whether a task runner announced the task, as npm does with `> shop@1.0.0 lint`; None if it announces nothing."""
    program, task = candidate.command.program, _get_task(candidate.check)
    if program in ("npm", "pnpm", "yarn") and "--silent" not in candidate.command.words and "-s" not in candidate.command.words:
        return (
            re.search(rf"^(?:> (?:\S{{1,200}} )?|\$ ){re.escape(task)}(?: \S{{1,300}})?$", text, re.M) is not None
            if program != "yarn"
            else None
        )
    if program == "mise":
        return f"[{task}] $" in text
    return None


def _decide_in_chain(candidate: _Candidate, verdicts: dict[_Candidate, OutputVerdict], setup_problem: str, text: str) -> CheckResult | None:
    """One of several commands failed, and the script stopped there. Was it this one, or did it stop before or after it?"""
    own = verdicts[candidate]
    failed: CheckResult = "could_not_run" if setup_problem and own.result is None else "fail"
    if own.result is None and _shows_start(candidate, text) is False:
        return None
    for other, verdict in verdicts.items():
        if not other.command.proven or (own.result is not None and other.kind == candidate.kind):
            continue
        if other.position < candidate.position and verdict.result in ("fail", "could_not_run") and not own.counts:
            return None  # it stopped before
        if other.position > candidate.position:
            if verdict.result is None and own.result is None and _shows_start(other, text) is False:
                return failed
            if verdict.counts or (verdict.result is not None and own.result is None):
                return "pass"  # it went on
    unclear = sum(verdict.result is None for verdict in verdicts.values())
    return "unproven" if own.result is None and unclear > 1 else failed


def _find_status(commands: Sequence[SimpleCommand], position: int, output: Output) -> int | None:
    """The exit code that the script itself printed: `cmd; echo "exit: $?"`, `cmd && echo OK || echo FAILED`."""
    command = commands[position]
    for place in range(position + 1, min(position + 5, len(commands))):
        later = commands[place]
        if later.program not in ("echo", "printf") or len(later.words) < 2:
            if later.operator == "|" or (later.words and later.words[0].startswith(("rc=", "status=", "code=", "EXIT"))):
                continue
            if not later.words:
                continue
            return None
        said = " ".join(later.words[1:])[:200]
        found = _status_word.search(said)
        if found:
            if command.piped and "ipe" not in found[0].lower():
                return None
            before = found["before"].removeprefix("-e ").removeprefix("-n ").replace("\\n", "").strip()
            shown = re.search(rf"^{re.escape(before)}\s{{0,3}}(\d{{1,3}})\b", output.text, re.M)
            return int(shown[1]) if shown else None
        if command.piped or later.operator not in ("&&", "||"):
            return None
        if said and "$" not in said and f"\n{said}\n" in f"\n{output.text}\n":
            return 0 if later.operator == "&&" else 1
    return None


_NEEDLES = {kind: frozenset(summary.needle for summary in summaries) for kind, summaries in SUMMARIES.items()}


def judge_output(kind: CheckKind, text: str) -> OutputVerdict:
    """What the summaries in an output say about a kind of check; a failure anywhere outweighs the rest."""
    best: dict[CheckResult, OutputVerdict] = {}
    if kind == "tests" and "no tests" in text and _no_test_loaded.search(text):
        return OutputVerdict("could_not_run")
    if kind == "lint" and " 0 file" in text and (nothing := _no_file_linted.search(text)):
        return OutputVerdict("could_not_run", nothing[0].strip())
    present = {needle for needle in _NEEDLES[kind] if needle in text}  # many patterns share a needle, and most have none
    for summary in SUMMARIES[kind] if present else ():
        if summary.needle in present:
            for found in islice(_find_summaries(summary, text), 400):
                result = _read_result(summary, found)
                if result is not None:
                    counts = _read_counts(found) or (found[0].strip("= \n")[:120] if result == "could_not_run" else "")
                    old = best.get(result)
                    if old is not None and len(old.counts) > len(counts):  # the longer one says more
                        counts = old.counts
                    best[result] = OutputVerdict(result, counts, summary.decisive, summary.partial and (old is None or old.partial))
    if not best:
        return OutputVerdict(None)
    verdict = best.get("fail") or best.get("pass") or best["could_not_run"]
    counts = verdict.counts
    if kind == "tests":
        counts = _total_counts(text) or counts
        if verdict.result == "fail" and "pass" in best and len(set(_bun_passed.findall(text))) < 2:
            counts = f"{best['pass'].counts}, {counts}" if _bun_failed.fullmatch(counts) else counts or best["pass"].counts
    return verdict._replace(counts=counts)


def _find_summaries(summary: Summary, text: str) -> Iterator[re.Match[str]]:
    """The matches of a pattern; only lines with its needle are searched, because an output has many others."""
    pattern, needle = compile_pattern(summary.pattern), summary.needle
    if not needle or "\n" in needle:
        yield from pattern.finditer(text)
        return
    at = text.find(needle)
    while at >= 0:
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        yield from pattern.finditer(text, text.rfind("\n", 0, at) + 1, end)
        at = text.find(needle, end)


def _read_result(summary: Summary, found: re.Match[str]) -> CheckResult | None:
    if summary.fixed is not None:
        return summary.fixed
    groups = found.groupdict()
    if "word" in groups:
        return "pass" if groups["word"] is None or groups["word"].strip() in GOOD_WORDS else "fail"
    for name, value in groups.items():
        if name[0] == "f" and value is not None and value.strip("0"):
            return "fail"
    number = groups.get("n")
    if number is not None and not number.strip("0"):
        return "could_not_run"
    return None if "only" in groups else "pass"


def _read_counts(found: re.Match[str]) -> str:
    groups = found.groupdict()
    counts = groups.get("counts") or groups.get("only")
    return " ".join(counts.split())[:120] if counts else ""


def _total_counts(text: str) -> str:
    """Totals for runners that count per package."""
    if "test result: " in text:
        rows = [(int(a), int(b), int(c)) for a, b, c in islice(_cargo_result.findall(text), 500)]
        if len(rows) > 1:
            passed, failed, ignored = (sum(column) for column in zip(*rows, strict=True))
            return f"{passed} passed; {failed} failed; {ignored} ignored"
        return ""
    if "ok  \t" in text or "FAIL\t" in text:
        states = [state for state, rest in islice(_go_package.findall(text), 1000) if "[no tests to run]" not in rest]
        good, bad = states.count("ok  "), states.count("FAIL")
        if good + bad:
            return f"{good} package{'s' * (good != 1)} ok" + (f", {bad} failed" if bad else "")
    return ""


def is_cached(text: str, kind: CheckKind = "tests") -> bool:
    """Whether a runner repeated an old result instead of running."""
    if "(cached)" in text:
        if kind != "tests":
            return False
        if "ok  \t" in text:
            rows = [rest for state, rest in islice(_go_package.findall(text), 1000) if "[no tests to run]" not in rest]
            return bool(rows) and all("(cached)" in rest for rest in rows)
        lines = [line for line in text.splitlines() if "PASSED in " in line or "PASSED" in line.split()[-1:]]
        return bool(lines) and all("(cached)" in line for line in lines)
    if "UP-TO-DATE" in text or "FROM-CACHE" in text:
        return (
            re.search(r"^> Task (?::[\w-]+)*:\w*test\w* (?:UP-TO-DATE|FROM-CACHE)$", text, re.M) is not None
            and "tests completed" not in text
        )
    return "FULL TURBO" in text


def find_setup_problem(text: str) -> str:
    """The line that says why a tool could not start; "" if it could."""
    for needle, pattern in _NOT_RUN:
        if needle in text and (found := compile_pattern(pattern).search(text)):
            start = text.rfind("\n", 0, found.start() + 1) + 1
            end = text.find("\n", found.start() + 1)
            line = text[start : end if end >= 0 else len(text)]
            return " ".join(line[: MAX_CAUSE * 2].split())[:MAX_CAUSE]
    return ""


def _find_failed_tasks(text: str) -> frozenset[str]:
    """Tasks that a task runner reports as failed; "" where it does not give the name."""
    return frozenset(
        found["task"] for needle, pattern in _FAILED_TASK if needle in text for found in islice(compile_pattern(pattern).finditer(text), 20)
    )


def _get_task(check: CheckCommand) -> str:
    return check.name.rpartition(" ")[2]


def _is_meant_to_fail(call: ToolCall) -> bool:
    return compile_pattern(_MEANT_TO_FAIL).search(f"{call.description[:300]}\n{_find_comments(call.command[:600])}") is not None


_echoed_text = re.compile(r"\becho [\"']([^\"'\n]{1,200})")


def _find_comments(command: str) -> str:
    """Comments and printed texts of a command, in which people say what they expect."""
    if "#" not in command and "echo" not in command:
        return ""
    lines = [line.strip()[:200] for line in command.splitlines() if line.lstrip().startswith(("#", "echo"))]
    return "\n".join([*lines, *_echoed_text.findall(command)])


def _render_command(candidate: _Candidate) -> str:
    words = candidate.command.words
    if candidate.check.name == "git hook":
        return PUSH_HOOK if "push" in words[1:4] else "git commit hook"
    return " ".join(" ".join(words)[:400].split())[:200]
