# ruff: noqa: E501 - a pattern is easier to read on one line
"""The summary lines of test runners, linters, type checkers and build tools, as a table of patterns.

The named groups of a pattern give the result: groups starting with `f` are numbers of failures (failed if any is above 0),
`n` is the number of tests (0: nothing ran), `word` is a word such as PASS or FAILED. A pattern without them has a fixed
result. `counts` is what is quoted. `only` is the same for a line that counts failures and nothing else: 0 proves nothing.
"""

from typing import NamedTuple

from fleetlore.dialects.commands.shell import make_word_set
from fleetlore.views.outcomes.facts import CheckKind, CheckResult


class Summary(NamedTuple):
    """One way in which a tool says how a run ended."""

    kind: CheckKind
    needle: str  # plain substring; the pattern is tried only if the text contains it
    pattern: str  # for `compile_pattern`
    fixed: CheckResult | None  # the result if the pattern matches; `None`: the groups decide
    decisive: bool  # the summary outweighs the exit code
    partial: bool  # success applies to one part only; other parts are reported on separate lines


def _make_summaries(kind: CheckKind, rows: tuple[tuple[str, str, CheckResult | None], ...], decisive: bool = True) -> list[Summary]:
    return [Summary(kind, needle, pattern, fixed, decisive, needle in _PARTIAL) for needle, pattern, fixed in rows]


# Needles of tools that print one success line per package, or print failures on a separate line: success here is only part of the result.
_PARTIAL = frozenset(("ok  \t", "PASS", "passing", "passed", " pass", "pass ", " passed (", " PASSED in ", "Passed\n", "Suite result: "))


def _hook_line(word: str, names: str) -> tuple[str, str]:
    """Needle and pattern for the result line of a pre-commit hook whose name contains one of `names`: `Typecheck.......Passed`."""
    return word, rf"^[^\n.]{{0,40}}(?:{names})[^\n.]{{0,40}}\.{{3,80}}{word.strip()}$"


_TESTS = _make_summaries(
    "tests",
    (
        # pytest: "=== 1 failed, 2 passed in 0.1s ===", with -q without the bars
        (" in ", r"^(?:=+ )?(?=\d)(?!\d+ deselected(?:, \d+ warnings?)? in)(?P<counts>(?:(?P<f>\d+) failed(?:, )?)?(?:\d+ (?:passed|skipped|deselected|xfailed|xpassed|warnings?|rerun|subtests passed)(?:, )?){0,8}(?:(?P<f2>\d+) errors?)?) in \d[\d.]*m? ?s", None),
        ("deselected", r"^(?:=+ )?\d+ deselected(?:, \d+ warnings?)? in \d", "could_not_run"),
        ("no tests ran", r"^(?:=+ )?no tests ran(?: in [\d.]+s)?", "could_not_run"),
        ("error", r"^(?:=+ |!+ )?(?:Interrupted: )?\d+ errors? during collection", "fail"),
        # unittest, Django
        ("Ran ", r"^Ran (?P<n>\d+) tests? in [\d.]+s$", None),
        ("FAILED (", r"^FAILED \((?P<counts>(?:failures|errors|skipped|expected failures|unexpected successes)=\d[^)\n]{0,100})\)$", "fail"),
        # Go
        ("--- FAIL", r"^\s{0,12}--- FAIL: \S+ \([\d.]+s\)", "fail"),
        ("FAIL", r"^FAIL(?:\t\S+.{0,200})?$", "fail"),
        ("FAIL ", r"^[ \t]*FAIL {1,4}\S{1,300}\.(?:test|spec)\.[cm]?[jt]sx?\b", "fail"),  # Jest, Vitest
        ("ok  \t", r"^ok  \t\S+\t(?!.*\[no tests to run\]).{0,200}$", "pass"),
        ("PASS", r"^PASS$", "pass"),
        ("[no test files]", r"^\?\s{1,4}\t?\S+\s+\[no test files\]$", "could_not_run"),
        ("[no tests to run]", r"^ok  \t\S+\t.{0,60}\[no tests to run\]$", "could_not_run"),
        ("DONE ", r"^DONE (?P<counts>(?P<n>\d+) tests(?:, \d+ skipped)?(?:, (?P<f>\d+) failures?)?(?:, (?P<f2>\d+) errors?)?) in [\d.]+s", None),
        ("\"Action\":\"fail\"", r'^\{[^\n]{0,200}"Action":"fail"', "fail"),
        ("Ginkgo ran", r"^Test Suite (?P<word>Passed|Failed)$", None),
        # Rust
        ("test result: ", r"^test result: (?:ok|FAILED)\. (?P<counts>\d+ passed; (?P<f>\d+) failed(?:; \d+ ignored)?)", None),
        ("Summary [", r"^[ \t]*Summary \[ *[\d.]+s\] (?P<counts>(?P<n>\d+)(?:/\d+)? tests? run: \d+ passed(?: \([^)\n]{1,40}\))?(?:, (?P<f>\d+) failed)?(?:, (?P<f2>\d+) timed out)?(?:, \d+ skipped)?)", None),
        ("could not compile", r"^error: could not compile ", "fail"),
        # Jest, Vitest
        ("Tests:", r"^Tests: +(?P<counts>(?:(?P<f>\d+) failed, )?(?:\d+ \w+, ){0,4}(?P<n>\d+) total)", None),
        ("Test Suites:", r"^Test Suites: +(?P<only>(?P<f>\d+) failed)", None),
        ("Tests  ", r"^[ \t]*Tests  (?P<counts>(?:(?P<f>\d+) failed)?(?: ?\|? ?\d+ (?:passed|skipped|todo|expected fail)){0,4} ?\(\d+\))", None),
        ("Test Files ", r"^[ \t]*Test Files  (?P<only>(?P<f>\d+) failed)", None),
        ("No test files found", r"^[ \t]*No test files found", "could_not_run"),
        ("No tests found", r"^[ \t]*(?:Error: )?No tests found", "could_not_run"),
        # mocha, ava, tape, node:test, bun, deno, jasmine, karma, playwright, cypress
        ("passing", r"^\s{1,8}(?P<counts>(?P<n>\d+) passing) \(", None),
        ("failing", r"^\s{1,8}(?P<only>(?P<f>\d+) failing)$", None),
        (" failed", r"^\s{0,8}(?P<only>(?P<f>\d+) tests? failed)\.?$", None),
        ("passed", r"^\s{1,8}(?P<counts>(?P<n>\d+) tests? passed)$", None),
        ("fail ", r"^(?:# |ℹ )(?P<only>fail (?P<f>\d+))$", None),
        ("pass ", r"^(?:# |ℹ )(?P<counts>pass (?P<n>\d+))$", None),
        (" fail", r"^ {1,3}(?P<only>(?P<f>\d+) fail)$", None),
        (" pass", r"^ {1,3}(?P<counts>(?P<n>\d+) pass)$", None),
        (" error", r"^ {1,3}(?P<only>(?P<f>\d+) errors?)$", None),
        ("passed | ", r"^(?:ok|FAILED) \| (?P<counts>\d+ passed(?: \(\d+ steps?\))? \| (?P<f>\d+) failed)", None),
        (" specs, ", r"^(?P<counts>(?P<n>\d+) specs?, (?P<f>\d+) failures?)", None),
        ("SUCCESS", r"^(?:TOTAL: \d+ SUCCESS|.{0,80}Executed \d+ of \d+ .{0,40}SUCCESS)", "pass"),
        ("Executed ", r"Executed \d+ of \d+ .{0,20}\((?P<only>(?P<f>\d+) FAILED)\)", None),
        (" passed (", r"^\s{1,6}(?P<counts>(?P<n>\d+) passed) \(\d[\d.]*(?:ms|s|m)\)", None),
        (" failed", r"^\s{1,6}(?P<only>(?P<f>\d+) failed)$", None),
        ("All specs passed", r"All specs passed!", "pass"),
        (" of ", r"(?<!\d)\d{1,6} of \d{1,6} failed \(\d{1,3}%\)", "fail"),
        # ExUnit, bats, RSpec, hspec, minitest, test-unit, Crystal, Gleam, kaocha, Clojure
        (" failure", r"^(?P<counts>(?:\d+ (?:doctests?|properties|property|features?), ){0,3}(?P<n>\d+) tests?, (?P<f>\d+) failures?(?:, \d+ (?:excluded|skipped|invalid|not run)[^\n]{0,40})?)", None),
        (" examples", r"^(?P<counts>(?P<n>\d+) examples?, (?P<f>\d+) failures?(?:, (?P<f2>\d+) errors?)?(?:, \d+ pending)?)(?P<f3>, \d+ errors? occurred outside of examples)?", None),
        (" 1 example", r"^(?P<counts>1 example, (?P<f>\d+) failures?)", None),
        ("assertions, ", r"^(?P<counts>(?P<n>\d+) (?:runs|tests), \d+ assertions?, (?P<f>\d+) failures?(?:, (?P<f2>\d+) errors?)?(?:, \d+ skips)?)", None),
        (" failures, ", r"^(?P<counts>(?P<f>\d+) failures, (?P<f2>\d+) errors)\.", None),
        (", no failures", r"^(?P<counts>\d+ tests, no failures)", "pass"),
        ("== Compilation error", r"^== Compilation error in file ", "fail"),
        ("** (", r"^\*\* \((?:Mix|[A-Z][\w.]{1,60})\) ", "fail"),
        ("Result: ", r"^Result: (?P<word>PASS|FAIL)$", None),
        # PHPUnit, Pest
        ("OK (", r"^OK \((?P<counts>\d+ tests?, \d+ assertions?)\)", "pass"),
        ("OK, but", r"^OK, but ", "pass"),
        ("Assertions: ", r"^(?P<counts>Tests: (?P<n>\d+), Assertions: \d+(?:, Errors: (?P<f>\d+))?(?:, Failures: (?P<f2>\d+))?)", None),
        ("FAILURES!", r"^FAILURES!$", "fail"),
        ("ERRORS!", r"^ERRORS!$", "fail"),
        ("No tests executed", r"^No tests executed!", "could_not_run"),
        ("Test Succeeded", r"^▸ Test Succeeded$", "pass"),  # xcpretty
        (" test cases: ", r"^=+ (?P<counts>\d+ test cases?: (?:(?P<f>\d+) failed,? ?)?(?:\d+ \w+,? ?){0,3}) ?in \d", None),  # PlatformIO
        ("Tests: ", r"^[ \t]+Tests:[ \t]+(?P<counts>(?:(?P<f>\d+) failed, )?(?:\d+ \w+, ){0,4}\d+ passed)", None),
        # JVM, .NET
        ("Tests run: ", r"^(?:\[\w+\] )?(?P<counts>Tests run: \d+, Failures: (?P<f>\d+), Errors: (?P<f2>\d+)(?:, Skipped: \d+)?)", None),
        ("COMPILATION ERROR", r"^\[ERROR\] COMPILATION ERROR", "fail"),
        ("BUILD SUCCESS", r"^(?:\[INFO\] )?BUILD SUCCESS(?:FUL)?\b", "pass"),
        ("BUILD FAIL", r"^(?:\[(?:INFO|ERROR)\] )?BUILD FAIL(?:ED|URE)", "fail"),
        ("tests completed, ", r"^(?P<counts>\d+ tests? completed, (?P<f>\d+) failed)", None),
        ("> Task :", r"^> Task (?::[\w-]+)*:\w*[tT]est\w* FAILED$", "fail"),
        ("Failed: ", r"^[ \t]*(?:Passed|Failed)! {1,3}- (?P<counts>Failed: +(?P<f>\d+), Passed: +\d+)", None),
        ("Test Run ", r"^Test Run (?P<word>Successful|Failed)\.", None),
        ("Test summary: ", r"^Test summary: (?P<counts>total: \d+, failed: (?P<f>\d+), succeeded: \d+)", None),
        ("Passed: Total", r"^\[info\] Passed: (?P<counts>Total \d+, Failed (?P<f>\d+), Errors (?P<f2>\d+))", None),
        ("Failed: Total", r"^\[error\] Failed: Total \d+", "fail"),
        # Swift, Xcode, C and C++
        ("Executed ", r"^[ \t]*Executed (?P<counts>(?P<n>\d+) tests?, with (?:\d+ tests? skipped and )?(?P<f>\d+) failures?)", None),
        ("Test run with ", r"Test run with \d+ tests?(?: in \d+ suites?)? (?P<word>passed|failed) after", None),
        ("** TEST ", r"^\*\* TEST (?P<word>SUCCEEDED|FAILED) \*\*", None),
        ("tests passed, ", r"^(?P<counts>\d+% tests passed, (?P<f>\d+) tests failed out of \d+)", None),
        ("Errors while running CTest", r"^Errors while running CTest", "fail"),
        ("No tests were found", r"^No tests were found!!!", "could_not_run"),
        ("[  PASSED  ]", r"^\[  PASSED  \] (?P<counts>\d+ tests?)\.", "pass"),
        ("[  FAILED  ]", r"^\[  FAILED  \] (?P<counts>\d+ tests?)", "fail"),
        ("All tests passed (", r"^All tests passed \((?P<counts>\d+ assertions? in \d+ test cases?)\)", "pass"),
        ("test cases: ", r"^(?:\[doctest\] )?test cases: +\d+ \| +\d+ passed(?: \| +(?P<f>\d+) failed)?", None),
        ("Ok: ", r"^(?P<counts>Ok: +(?P<n>\d+))", None),
        ("# FAIL: ", r"^(?P<only># FAIL: +(?P<f>\d+))", None),
        ("# PASS: ", r"^(?P<counts># PASS: +(?P<n>\d+))", None),
        ("tests passed", r"^[ \t]*Testing \S+ tests passed", "pass"),
        ("Passed: ", r"^Tests Passed: (?P<counts>(?P<n>\d+), Failed: (?P<f>\d+))", None),  # Pester
        (" passed / ", r"^[^\n]{0,80}?(?P<counts>\b(?P<n>\d+) passed / (?P<f>\d+) failed)", None),
        ("Status: ", r"^Status: (?:OK|\d+ NOTEs?)$", "pass"),
        ("Status: ", r"^Status: \d+ ERRORs?", "fail"),
        ("Fail: ", r"^(?P<only>Fail: +(?P<f>\d+))", None),
        # Bazel, Dart, Julia, R, Zig, tasty, Elm, Foundry, busted, behave, cucumber, tox, nox, Perl
        ("Executed ", r"^Executed \d+ out of \d+ tests?: (?P<counts>(?:\d+ tests? pass(?:es)?)(?P<word> and \d+ fails?)?)", None),
        (" FAILED in ", r"^//\S+ +FAILED in ", "fail"),
        (" PASSED in ", r"^//\S+ +(?:\(cached\) )?PASSED in ", "pass"),
        ("All tests passed!", r"All tests passed!$", "pass"),
        ("Some tests failed.", r"Some tests failed\.$", "fail"),
        ("did not pass", r"Some tests did not pass: (?P<counts>\d+ passed, \d+ failed, \d+ errored)", "fail"),
        ("[ FAIL ", r"^\[ (?P<counts>FAIL (?P<f>\d+) \| WARN \d+ \| SKIP \d+ \| PASS \d+) \]", None),
        ("tests passed", r"^(?:All )?(?P<counts>\d+(?:/\d+)? tests passed)[. (]", "pass"),
        (" tests failed", r"^(?P<counts>(?P<f>\d+) out of \d+ tests failed)", None),
        ("TEST RUN ", r"^TEST RUN (?P<word>PASSED|FAILED)", None),
        ("Suite result: ", r"^Suite result: \w+\. (?P<counts>\d+ passed; (?P<f>\d+) failed)", None),
        ("test suite", r"^Ran \d+ test suites?.{0,40}: (?P<counts>\d+ tests passed, (?P<f>\d+) failed)", None),
        ("successes / ", r"^(?P<counts>\d+ successes / (?P<f>\d+) failures? / (?P<f2>\d+) errors?)", None),
        ("scenarios passed", r"^(?P<counts>\d+ scenarios? passed, (?P<f>\d+) failed)", None),
        ("scenario", r"^\d+ scenarios? \((?P<counts>(?:(?P<f>\d+) failed, )?[^)\n]{0,60}passed)\)", None),
        ("congratulations :)", r"^[ \t]*congratulations :\)", "pass"),
        ("evaluation failed :(", r"^[ \t]*evaluation failed :\(", "fail"),
        ("nox > ", r"^nox > Session \S*test\S* (?:was )?(?P<word>successful|failed)", None),
        ("All tests successful", r"^All tests successful\.", "pass"),
        ("tests, ", r"^(?P<counts>\d+ tests?, \d+ passed, (?P<f>\d+) failed)", None),
        (*_hook_line("Passed\n", r"[Tt]ests?\b|pytest|vitest|jest"), "pass"),
        (*_hook_line("Failed\n", r"[Tt]ests?\b|pytest|vitest|jest"), "fail"),
        ("not ok ", r"^not ok \d+ (?!.*# (?:TODO|SKIP|todo|skip))", "fail"),
    ),
)  # fmt: skip

_LINT = [
    *_make_summaries(
        "lint",
        (
            ("issues", r"^(?P<counts>(?P<f>\d+) issues?)[.:]", None),  # golangci-lint
            ("1 issue", r"^(?P<counts>(?P<f>\d+) issues?)[.:]", None),
            ("problem", r"^[ \t]*[✖×] (?P<counts>\d+ problems? \((?P<f>\d+) errors?, \d+ warnings?\))", None),  # eslint
            ("No ESLint warnings or errors", r"No ESLint warnings or errors", "pass"),
            ("All checks passed", r"^All checks passed!", "pass"),  # ruff, ty
            ("Found ", r"^Found (?P<counts>(?P<f>\d+) errors?)\.?$", None),
            ("remaining)", r"^Found (?P<counts>\d+ errors? \(\d+ fixed, (?P<f>\d+) remaining\))", None),
            ("reformatted", r"^(?P<counts>(?P<f>\d+) files? would be reformatted)", None),
            ("already formatted", r"^(?P<counts>\d+ files? already formatted)", "pass"),
            ("would be left unchanged", r"^(?P<counts>\d+ files? would be left unchanged)\.$", "pass"),
            ("would reformat", r"^[Ww]ould reformat:? ", "fail"),
            ("Would reformat", r"^Would reformat: ", "fail"),
            ("incorrectly sorted", r"^ERROR: .{1,300} Imports are incorrectly sorted", "fail"),
            ("rated at ", r"^Your code has been rated at 10\.00/10", "pass"),
            ("Prettier code style", r"^All matched files use Prettier code style!", "pass"),
            ("Code style issues", r"^(?:\[warn\] )?Code style issues (?:found )?in ", "fail"),
            ("No fixes applied", r"^Checked (?P<counts>\d+ files?) in [^.\n]{1,20}\. No fixes applied\.$", "pass"),
            ("Fixed ", r"^Checked (?P<counts>\d+ files?) in [^.\n]{1,20}\. Fixed \d+ files?\.$", "pass"),
            ("Found ", r"^Found (?P<counts>\d+ warnings? and (?P<f>\d+) errors?)", None),  # oxlint
            ("Found ", r"^Found (?P<counts>(?P<f>\d+) (?:problems?|diagnostics?))", None),
            ("offense", r"^(?P<counts>\d+ files? inspected, (?P<word>no|\d+) offenses? detected)", None),  # rubocop
            ("found no issues", r"found no issues\.?$", "pass"),
            ("mods/funs, found", r"^\d+ mods/funs, found (?!no issues)(?P<counts>[^\n]{1,120})\.$", "fail"),
            ("line ", r"^In \S{1,200} line \d+:$", "fail"),  # shellcheck
            ("violations", r"^Done linting! Found (?P<counts>\d+ violations?, (?P<f>\d+) serious)", None),
            ("[OK] No errors", r"^[ \t]*\[OK\] No errors", "pass"),
            ("[ERROR] Found", r"^[ \t]*\[ERROR\] Found (?P<counts>(?P<f>\d+) errors?)", None),
            ("No errors found!", r"^[ \t]*No errors found!", "pass"),
            ("FOUND ", r"^FOUND (?P<counts>(?P<f>\d+) ERRORS?)", None),
            ("error(s)", r"^Summary: (?P<counts>(?P<f>\d+) error\(s\))", None),
            (" MD0", r"^\S{1,300}:\d+(?::\d+)? (?:error )?MD\d{3}/", "fail"),  # markdownlint
            ("Contracts: ", r"^Contracts: (?P<counts>\d+ kept, (?P<f>\d+) broken)", None),
            ("No issues found!", r"^[ \t]*No issues found!", "pass"),
            ("issues found.", r"^[ \t]*(?P<counts>(?P<f>\d+) issues? found\.)", None),
            ("Passed\n", r"^[^\n.]{1,70}\.{3,80}Passed$", "pass"),  # pre-commit
            ("Failed\n", r"^[^\n.]{1,70}\.{3,80}Failed$", "fail"),
            ("(Mix) mix format failed", r"^\*\* \(Mix\) mix format failed", "fail"),
            ("could not compile", r"^error: could not compile ", "fail"),  # clippy
            ("Finished", r"^[ \t]*Finished `?\w+`? (?:profile )?\[", "pass"),
            ("(SA", r"^\S+\.go:\d+:\d+: .{1,300} \((?:SA|ST|S|QF|U)\d{4}\)$", "fail"),
            ("vet: ", r"^vet: ", "fail"),
            ("BUILD FAILED", r"^BUILD FAILED", "fail"),
            ("BUILD SUCCESSFUL", r"^BUILD SUCCESSFUL", "pass"),
            ("nox > ", r"^nox > Session \S*lint\S* (?:was )?(?P<word>successful|failed)", None),
            ("Diff in ", r"^Diff in \S{1,300}:\d+:?$", "fail"),  # rustfmt --check
            (
                ": OK",
                r"^[ \t]{0,9}[\w.-]{0,30}(?:lint|flake8|ruff|black|isort|style|format|pre-commit)[\w.-]{0,30}: (?P<word>OK)\b",
                None,
            ),  # environments of tox
            (
                ": FAIL",
                r"^[ \t]{0,9}[\w.-]{0,30}(?:lint|flake8|ruff|black|isort|style|format|pre-commit)[\w.-]{0,30}: (?P<word>FAIL)\b",
                None,
            ),
            ("Success! The configuration is valid", r"^Success! The configuration is valid", "pass"),
            ("chart(s) linted", r"^\d+ chart\(s\) linted, (?P<f>\d+) chart\(s\) failed", None),
        ),
        decisive=False,
    ),
    # flake8, pylint, pycodestyle: findings with a code
    *_make_summaries("lint", (("", r"^\S{1,200}:\d+:\d+: (?:[EWFCNBR]\d{3,4}|[CRWEF]\d{4}:) ", "fail"),), decisive=False),
]

_TYPES = _make_summaries(
    "types",
    (
        (*_hook_line("Passed\n", r"[Tt]ype-?[ ]?[Cc]heck\w*|mypy|pyright|tsc\b"), "pass"),
        (*_hook_line("Failed\n", r"[Tt]ype-?[ ]?[Cc]heck\w*|mypy|pyright|tsc\b"), "fail"),
        ("Success: no issues", r"^Success: (?P<counts>no issues found in \d+ source files?)", "pass"),
        ("Found ", r"^Found (?P<counts>(?P<f>\d+) errors? in \d+ (?:source )?files?)", None),
        (" error", r"^(?P<counts>(?P<f>\d+) errors?, \d+ warnings?(?:, \d+ \w+)?)", None),  # pyright
        ("error TS", r"error TS\d{3,5}:", "fail"),
        ("Found ", r"^Found (?P<counts>(?P<f>\d+) errors?)\.?$", None),
        ("svelte-check found", r"svelte-check found (?P<counts>(?P<f>\d+) errors?)", None),
        ("passed successfully", r"done \(passed successfully\)", "pass"),
        ("Total errors: ", r"^(?P<counts>Total errors: (?P<f>\d+), Skipped: \d+)", None),
        ("No errors! Great job", r"^No errors! Great job", "pass"),
        ("No type error detected", r"No type errors? detected", "pass"),
        ("diagnostic", r"^Found (?P<counts>(?P<f>\d+) diagnostics?)", None),
        ("error[E", r"^error\[E\d{4}\]", "fail"),
        ("could not compile", r"^error: could not compile ", "fail"),  # cargo check
        ("Finished", r"^[ \t]*Finished `?\w+`? (?:profile )?\[", "pass"),
        ("nox > ", r"^nox > Session \S*(?:type|mypy)\S* (?:was )?(?P<word>successful|failed)", None),
        (": error: ", r"^\S{1,200}:\d+: error: .{1,400}\[[\w-]+\]$", "fail"),  # mypy
        (": OK", r"^[ \t]{0,9}[\w.-]{0,30}(?:mypy|pyright|typ(?:e|ing))[\w.-]{0,30}: (?P<word>OK)\b", None),  # environments of tox
        (": FAIL", r"^[ \t]{0,9}[\w.-]{0,30}(?:mypy|pyright|typ(?:e|ing))[\w.-]{0,30}: (?P<word>FAIL)\b", None),
    ),
    decisive=False,
)

_BUILD = _make_summaries(
    "build",
    (
        ("BUILD SUCCESSFUL", r"^BUILD SUCCESSFUL", "pass"),
        ("BUILD SUCCESS", r"^(?:\[INFO\] )?BUILD SUCCESS$", "pass"),
        ("BUILD FAIL", r"^(?:\[(?:INFO|ERROR)\] )?BUILD FAIL(?:ED|URE)", "fail"),
        ("could not compile", r"^error: could not compile ", "fail"),
        ("Finished", r"^[ \t]*Finished `?\w+`? (?:profile )?\[", "pass"),
        ("compiled successfully", r"compiled successfully", "pass"),
        ("Compiled successfully", r"Compiled successfully", "pass"),
        ("Failed to compile", r"^Failed to compile", "fail"),
        ("compiled with ", r"compiled with (?P<counts>(?P<f>\d+) errors?)", None),
        ("built in ", r"built in \d", "pass"),
        ("error during build", r"^(?:error during build|✗ Build failed)", "fail"),
        ("Build success", r"Build success in ", "pass"),
        ("Build succeeded.", r"^[ \t]*Build succeeded\.?", "pass"),
        ("Build FAILED.", r"^[ \t]*Build FAILED\.", "fail"),
        ("Build complete!", r"^Build complete!", "pass"),
        ("** BUILD ", r"^\*\* BUILD (?P<word>SUCCEEDED|FAILED) \*\*", None),
        ("build stopped", r"^ninja: build stopped", "fail"),
        ("make", r"^g?make(?:\[\d+\])?: \*\*\* ", "fail"),
        ("error: ", r"^error: ", "fail"),
        ("[100%] Built target", r"^\[100%\] Built target ", "pass"),
        ("Successfully built ", r"^Successfully (?:built|tagged) ", "pass"),
        ("writing image sha256", r"writing image sha256:\w+", "pass"),
        ("ERROR: failed to ", r"^ERROR: failed to (?:build|solve)", "fail"),
        ("== Compilation error", r"^== Compilation error in file ", "fail"),
        ("Generated ", r"^Generated \w+ app$", "pass"),
        ("[success] Total time", r"^\[success\] Total time", "pass"),
        ("error TS", r"error TS\d{3,5}:", "fail"),
        (": error: ", r"^\S{1,200}:\d+:\d+: (?:fatal )?error: ", "fail"),
        (".go:", r"^\S{1,200}\.go:\d+:\d+: ", "fail"),
        ("error CS", r": error CS\d{4}:", "fail"),
        ("error[E", r"^error\[E\d{4}\]", "fail"),
        ("SyntaxError", r"^[ \t]*(?:\w+: )?SyntaxError: ", "fail"),
        ("syntax error", r"syntax error", "fail"),
        ("No syntax errors detected", r"^No syntax errors detected", "pass"),
        ("Syntax OK", r"^Syntax OK", "pass"),
        ("bundle generated", r"\[\d\d:\d\d:\d\d\] bundle generated", "pass"),
        ("bundle generation ", r"^(?:Application )?bundle generation (?P<word>complete|failed)\.", None),  # Angular
        ("Route (", r"^[ \t]*Route \((?:app|pages)\)", "pass"),  # Next.js prints its routes last
        ("First Load JS", r"First Load JS shared by all", "pass"),
        ("compiled with ", r"compiled with \d+ warnings?", "pass"),
        ("Compiled with warnings", r"Compiled with warnings", "pass"),
        ("Error(s)", r"^[ \t]*(?P<counts>(?P<f>\d+) Error\(s\))$", None),  # .NET
        ("Build ", r"^(?:▸ |[✔✨✓] {0,2})?Build (?P<word>Succeeded|Failed|complete)!?$", None),  # xcpretty, Nuxt
        ("[build] Complete!", r"\[build\] Complete!$", "pass"),  # Astro
        ("Built in ", r"^✨ {1,2}Built in \d", "pass"),  # Parcel
        ("Done in ", r"^⚡ ?Done in \d", "pass"),  # esbuild
        ("Exported: ", r"^(?:\w+ )?Exported: \S", "pass"),  # Expo
        ("Finished ", r"^[ \t]*Finished \d+ bundles? at:", "pass"),  # Tauri
        ("Generated static files", r"^\[SUCCESS\] Generated static files in ", "pass"),  # Docusaurus
        ("Total in ", r"^Total in \d+ ms", "pass"),  # Hugo
        (" naming to ", r"^#\d+ naming to \S+(?: \S+)? done$", "pass"),  # Docker
        ("Solidity file", r"^Compiled \d+ Solidity files? successfully", "pass"),  # Hardhat
        ("Compiler run ", r"^Compiler run (?P<word>successful|failed)", None),  # Foundry
        ("] Took ", r"\[(?P<word>SUCCESS|FAILED)\] Took \d", None),  # PlatformIO
        ("Project build complete", r"^Project build complete\.", "pass"),  # ESP-IDF
        (":-) Done in ", r":-\) Done in \d", "pass"),  # wasm-pack
    ),
    decisive=False,
)  # fmt: skip

SUMMARIES: dict[CheckKind, list[Summary]] = {"tests": _TESTS, "lint": _LINT, "types": _TYPES, "build": _BUILD}

GOOD_WORDS = make_word_set("OK PASS PASSED Passed passed successful Successful SUCCEEDED Succeeded SUCCESS complete no")
"""Values of the group `word` that mean success. An optional `word` group that did not match means success, too."""
