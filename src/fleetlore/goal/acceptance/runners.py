# ruff: noqa: E501 - a row of a table is easier to read on one line
"""Test runners and the report that each prints at its end. Exit code 0 of a known runner counts only with its report.

Code under test runs inside its judge: it can end the process with exit code 0 before any test ran. The report shows that
the runner itself came to its end. Code that prints a forged report is not caught.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from fleetlore.dialects.commands.shell import make_word_set
from fleetlore.goal.acceptance.expansion import split_simple_commands


class TestRunner(Struct, frozen=True):
    """A runner: the beginnings of its commands, and what its report looks like."""

    commands: tuple[str, ...]
    report: str
    example: str

    __test__ = False


RUNNERS = (
    TestRunner(("pytest", "py.test"), r"^(?:=+ )?(?:\d+ \w+, )*\d+ passed\b.* in \d[\d.]*m? ?s", "2 passed in 0.12s"),
    TestRunner(("unittest", "manage.py test"), r"^Ran [1-9]\d* tests? in [\d.]+s\s+OK\b", "Ran 2 tests in 0.001s\n\nOK"),
    TestRunner(("tox",), r"^\s*congratulations :\)", "  congratulations :) (1.20 seconds)"),
    TestRunner(("nox",), r"^nox > (?:Session .* was successful|Ran multiple sessions)", "nox > Session tests was successful."),
    TestRunner(("cargo test", "cargo t"), r"^test result: ok\. \d+ passed; 0 failed", "test result: ok. 2 passed; 0 failed; 0 ignored"),
    TestRunner(("cargo nextest run",), r"^\s*Summary \[.*\] +[1-9]\d* tests? run: \d+ passed", "     Summary [   0.1s] 2 tests run: 2 passed, 0 skipped"),
    TestRunner(("go test",), r"^ok\s+\S+\s+(?:[\d.]+s|\(cached\))", "ok  \texample.org/app\t0.004s"),
    TestRunner(("jest", "react-scripts test"), r"^Tests: +(?:\d+ \w+, )*[1-9]\d* passed", "Tests:       2 passed, 2 total"),
    TestRunner(("vitest",), r"^\s*Tests +(?:\d+ \w+ \| )*[1-9]\d* passed", "      Tests  2 passed (2)"),
    TestRunner(("mocha",), r"^\s*[1-9]\d* passing", "  2 passing (5ms)"),
    TestRunner(("node --test",), r"^(?:# |ℹ )pass [1-9]\d*", "# pass 2"),
    TestRunner(("ava",), r"^\s*[1-9]\d* tests? passed", "  2 tests passed"),
    TestRunner(("tap",), r"^(?:# )?pass: +[1-9]|^# pass +[1-9]|# { total: \d+, pass: [1-9]", "# pass 2"),
    TestRunner(("bun test",), r"^\s*[1-9]\d* pass\b", " 2 pass"),
    TestRunner(("deno test",), r"^ok \| [1-9]\d* passed", "ok | 2 passed | 0 failed (5ms)"),
    TestRunner(("playwright test",), r"^\s*[1-9]\d* passed", "  2 passed (1.2s)"),
    TestRunner(("cypress run",), r"All specs passed!", "✔  All specs passed!"),
    TestRunner(("rspec",), r"^[1-9]\d* examples?, 0 failures", "2 examples, 0 failures"),
    TestRunner(("rake test", "rails test", "minitest"), r"^[1-9]\d* runs, .*\b0 failures, 0 errors", "2 runs, 3 assertions, 0 failures, 0 errors, 0 skips"),
    TestRunner(("phpunit",), r"^OK(?: \([1-9]\d* tests?|, but)", "OK (2 tests, 3 assertions)"),
    TestRunner(("mvn test", "mvn verify", "mvnw test", "mvnw verify"), r"^(?:\[INFO\] )?BUILD SUCCESS$", "[INFO] BUILD SUCCESS"),
    TestRunner(("gradle test", "gradle check", "gradlew test", "gradlew check"), r"^BUILD SUCCESSFUL in ", "BUILD SUCCESSFUL in 2s"),
    TestRunner(("dotnet test",), r"^\s*Passed! +- +Failed: +0|Test summary: .*failed: 0", "Passed!  - Failed:     0, Passed:     2"),
    TestRunner(("ctest",), r"^100% tests passed", "100% tests passed, 0 tests failed out of 2"),
    TestRunner(("mix test",), r"^[1-9]\d* tests?, 0 failures", "2 tests, 0 failures"),
    TestRunner(("swift test",), r"Executed [1-9]\d* tests?, with 0 failures|Test run with [1-9]\d* tests? passed", "Executed 2 tests, with 0 failures"),
    TestRunner(("bats",), r"^(?:[1-9]\d* tests?, 0 failures|1\.\.[1-9])", "2 tests, 0 failures"),
    TestRunner(("prove",), r"^Result: PASS$", "Result: PASS"),
    TestRunner(("mypy",), r"^Success: no issues found", "Success: no issues found in 2 source files"),
    TestRunner(("ruff check",), r"^All checks passed!", "All checks passed!"),
)  # fmt: skip
_LAUNCHERS = make_word_set("uv uvx poetry pdm hatch pipenv rye npx bunx pnpx bundle coverage php npm yarn pnpm bun")
_PYTHON = re.compile(r"python[\d.]*\Z|pypy[\d.]*\Z|\$[({]?\w*(?:PY|PYTHON)\w*[)}]?\Z", re.IGNORECASE)
"""Also a variable that a makefile does not set itself, such as `$(PYTHON)`."""
_ONLY_ASKS = frozenset(("--version", "-V", "--help", "-h", "install", "add"))


def find_runners(commands: Iterable[str]) -> list[TestRunner]:
    """The known runners that commands start, each once."""
    found = [runner for command in commands for words in split_simple_commands(command) for runner in _match_runner(words)]
    return list(dict.fromkeys(found))


def _match_runner(words: Sequence[str]) -> Iterator[TestRunner]:
    if _ONLY_ASKS & set(words):
        return
    words = _find_runner_words([os.path.basename(words[0]), *words[1:]])
    options = [word for word in words[1:] if not word.startswith("-") or word == "--test"]
    line = " ".join([*words[:1], *options]) + " "
    yield from (runner for runner in RUNNERS if any(line.startswith(f"{command} ") for command in runner.commands))


def _find_runner_words(words: Sequence[str]) -> Sequence[str]:
    """The words from the runner on, behind `python -m`, `uv run --with x`, `npx` and the like."""
    while len(words) > 1:
        if _PYTHON.match(words[0]):
            has_module = "-m" in words
            rest = words[words.index("-m") + 1 :] if has_module else [word for word in words[1:] if not word.startswith("-")]
        elif words[0] in _LAUNCHERS:
            names = [os.path.basename(word) for word in words[1:]]
            found = (number for number, name in enumerate(names) if _PYTHON.match(name) or name in _LAUNCHERS or _starts_runner(name))
            if (start := next(found, None)) is None:
                return words
            rest = words[start + 1 :]
        else:
            return words
        words = [os.path.basename(rest[0]), *rest[1:]] if rest else rest
    return words


def _starts_runner(name: str) -> bool:
    return any(command.partition(" ")[0] == name for runner in RUNNERS for command in runner.commands)


_INSTALLERS = make_word_set("uv tox nox hatch yarn prisma patch-package")
"""Programs that always write installed dependencies."""
_INSTALLING = make_word_set("install ci i add sync update upgrade rebuild dedupe prune link restore deps.get")


def installs_dependencies(commands: Iterable[str]) -> bool:
    """Whether commands install dependencies themselves: `npm ci && npm test`."""
    simple = (words for command in commands for words in split_simple_commands(command))
    return any(not _INSTALLERS.isdisjoint(map(os.path.basename, words)) or not _INSTALLING.isdisjoint(words[1:]) for words in simple)


def find_missing_report(runners: Iterable[TestRunner], output: str) -> str | None:
    """What is wrong if a runner's report is not in the output."""
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", output)
    for runner in runners:
        if not re.search(runner.report, plain, re.MULTILINE):
            return (
                f"exit code 0, but {runner.commands[0]} did not report its end (such as {runner.example.splitlines()[0].strip()!r}):"
                " a run that ends without its report has not passed. If the command hides the report, let it print it,"
                " or set report = false for this criterion"
            )
    return None
