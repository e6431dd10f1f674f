# ruff: noqa: E501 - a pattern is easier to read on one line
"""Prepare a command's output for reading: a bounded, plain text, its exit code, and the line that names a cause."""

import re
from functools import cache
from typing import NamedTuple

import msgspec
from msgspec import Struct

from fleetlore.views.outcomes.facts import CheckKind, ToolCall

HEAD = 8_000
TAIL = 24_000
MAX_CAUSE = 200

_ansi = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]{0,300}(?:\x07|\x1b\\)|[@-Z\\-_])")
_exit_code = re.compile(
    r"\s{0,9}(?:<error>)?(?:Error: )?(?:Exit code:?|Command failed with exit code|Process exited with code|exit status) (-?\d{1,9})\b[.:]?\n?"
)
_late_exit_code = re.compile(
    r"^(?:Process exited with code|Exit code:|\(Command exited with code|\[Command finished with exit code) (-?\d{1,9})", re.MULTILINE
)
_task_prefix = re.compile(
    r"^(?:\[[\w:./-]{1,40}\] |[\w@/-]{1,60}:[a-z][\w:-]{1,40}: |[\w@/.-]{1,60} (?:test|lint|build|check|typecheck)[\w:.-]{0,30}[:$] ?)",
    re.MULTILINE,
)
_TASK_RUNNERS = ("mise", "turbo", "nx", "pnpm", "lerna", "yarn", "task", "moon", "concurrently", "run-p", "npm-run-all", "rtx", "docker")


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A multiline pattern, compiled when it is first needed: there are hundreds, and most outputs need few of them."""
    return re.compile(pattern, re.MULTILINE)


# What a program writes itself: that there was no output, or that `cd` had no lasting effect.
_program_note = re.compile(r"\A\s*\((?:\w+ completed with )?no output\)|^Shell cwd was reset to [^\n]*(?:\n|\Z)", re.MULTILINE)

# How Codex begins an output: a header that ends with the line "Output:".
_HEADERS = ("Exit code:", "Chunk ID:", "Wall time:", "Command:", "Process exited", "Process running")


class Output(NamedTuple):
    """The output of a command, plain and bounded, and the exit code of the whole script (None: unknown)."""

    text: str
    exit_code: int | None


def read_output(call: ToolCall) -> Output:
    """Output and exit code of a call; programs write the code into the output when a command failed."""
    raw = call.output
    code = call.exit_code
    if raw.startswith('{"output":'):
        raw, code = _read_wrapped(raw, code)
    text = raw if len(raw) <= HEAD + TAIL else f"{raw[:HEAD]}\n{raw[-TAIL:]}"
    if "\x1b" in text:
        text = _ansi.sub("", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    found = _exit_code.match(text)
    if found is None:
        found = _late_exit_code.search(text[:600])
    if code is None:
        if found:
            code = int(found[1])
        elif call.state == "ok":
            code = 0
    if text.startswith(_HEADERS) and (at := text.find("\nOutput:\n", 0, 1000)) >= 0:
        text = text[at + 9 :]
    elif found and found.start() == 0:
        text = text[found.end() :]
    return Output(_drop_notes(text), code)


def _drop_notes(text: str) -> str:
    return _program_note.sub("", text) if len(text) < 400 or "Shell cwd was reset" in text[-400:] else text


class _WrappedMetadata(Struct):
    exit_code: int | None = None


class _WrappedOutput(Struct):
    output: str
    metadata: _WrappedMetadata | None = None


def _read_wrapped(raw: str, code: int | None) -> tuple[str, int | None]:
    """Output that Codex wrapped into JSON with its exit code."""
    try:
        wrapped = msgspec.json.decode(raw, type=_WrappedOutput)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return raw, code
    if code is None and wrapped.metadata is not None:
        code = wrapped.metadata.exit_code
    return wrapped.output, code


def strip_task_prefixes(text: str, command: str) -> str:
    """Lines without the name of the task that a runner puts before them: `[lint] 0 issues.`."""
    # A script can start a runner without naming it: `bun run lint`.
    if "\n Tasks: " in text or "• turbo " in text[:400] or any(runner in command for runner in _TASK_RUNNERS):
        return _task_prefix.sub("", text)
    return text


_NOISE = r"""(?xi)\s*+(?: $ | Exit[ ]code | \[?[\w:.-]*\]?[ ]?\$[ ] | >[ ] | [=\-_*#~.─━]{3,} | npm[ ](?:ERR!|error)[ ](?:Lifecycle|code|path|command|A[ ]complete|errno)
      | (?:mise[ ]WARN|warning|warn|info|note|hint|debug)\b | (?:\[[\w:.-]+\][ ])?ERROR[ ]task[ ]failed | \[\w+\][ ]\$ | Finished[ ]in | make(?:\[\d+\])?:[ ](?:Entering|Leaving|\*\*\*)
      | (?:Analyzing|Checking|Compiling|Downloading|Downloaded|Running|Building|Resolved|Updating|Blocking|Fetching|Installed|Prepared)\b | (?:ok|\?)[ ]{2,3}\t | ✓ | ✔ | PASS\b | RUN[ ] | ===[ ]
      | Refreshing[ ]run[ ]status\b | (?:Ubuntu|Debian|Fedora|Rocky|Alpine)\b[\w/ ]{0,20}[ ]\d | Welcome[ ]to\b | Last[ ]login: | Warning:[ ]Permanently[ ]added
      | Usage:|usage: | At[ ]line:\d | v?\d+\.\d+\.\d+$ | %[ ]Total | (?:Dload|\d+)[ ]+\S+[ ]+\S+[ ]+\S+[ ]+\S+[ ]+\S+[ ] | at[ ]\S+[ ]\( | Traceback | File[ ]" | Shell[ ]cwd | \[\s*\d+%\] | \d+\.\.\d+ | TAP[ ]version | \#[ ] | \[(?:STARTED|COMPLETED|SKIPPED)\] | [\w.]+[ ]\(node: | (?:go|npm(?![ ]err)|npx|yarn|pnpm|make|ruff|pytest|mypy|cargo|eslint|python3?)[ ][\w./-]+[ ]?[\w./ -]*$ | \+[ ~] | [~^]+$ )"""
_CAUSES: dict[str, tuple[tuple[str, str], ...]] = {
    "tests": (
        ("\nE  ", r"^E {3,}(?P<cause>\S[^\n]*)"),
        ("--- FAIL", r"^[ \t]*--- FAIL: (?P<cause>\S+)"),
        ("FAILED ", r"^FAILED (?P<cause>\S+::[^\n]*)"),
        ("***", r"^[ \t]*(?P<cause>\d+/\d+ Test +#\d+: [^\n]*\*\*\*[^\n]*)"),
        ("Failed test", r"^#[ \t]+(?P<cause>Failed test [^\n]*)"),
        ("panicked at", r"^thread '(?P<cause>[^'\n]{1,120}'[^\n]{0,30} panicked at [^\n]*)"),
        ("(fail) ", r"^(?:[\w@/.-]{1,80}: )?\(fail\) (?P<cause>[^\n\[]{1,200})"),
        ("... FAILED", r"^test (?P<cause>\S+) \.\.\. FAILED"),
        ("●", r"^ *● (?!Console)(?P<cause>\S[^\n]*)"),
        ("[ERROR]", r"^\[ERROR\] {2,6}(?P<cause>\S[^\n]*)"),
        ("Error Message:", r"^ *Error Message:\n *(?P<cause>\S[^\n]*)"),
        (".go:", r"^(?:\./)?(?P<cause>\S{1,200}\.go:\d+:\d+: [^\n]*)"),
        ("error", r"^(?P<cause>error(?:\[E\d{4}\])?: (?!could not compile|test failed|aborting)[^\n]*)"),
        ("error TS", r"^(?P<cause>[^\n]{0,200}error TS\d+: [^\n]*)"),
        ("×", r"^[ \t]*(?:×|✗|✘|✖) (?P<cause>\S[^\n]*)"),
        ("Error", r"^[ \t]*(?P<cause>(?:[\w.]{1,60}(?:Error|Exception)): [^\n]*)"),
        ("** (", r"^[ \t]*\*\* (?P<cause>\([A-Z][\w.]{1,60}\) [^\n]*)"),
        (") ", r"^\s{1,6}\d{1,4}\) (?P<cause>\S[^\n]*)"),
        ("FAIL", r"^[ \t]*FAIL(?:ED)?[: \t]+(?P<cause>\S[^\n]*)"),
    ),
    "lint": (
        (" - ", r"^[ \t]*(?P<cause>(?:error|warning) - [^\n]*)"),  # Dart, Flutter
        (" • ", r"^[ \t]*(?P<cause>(?:error|warning) • [^\n]*)"),
        (" lint/", r"^ ?(?:at )?(?P<cause>[^\s:]{1,200}:\d+:\d+ lint/\S+)"),
        ("\n", r"^(?:\S{1,200}:\d+:\d+: )?(?P<cause>[A-Z]{1,4}\d{3,4} (?:\[\*\] )?[^\n]*)"),
        ("error TS", r"^(?P<cause>[^\n]{0,200}error TS\d+: [^\n]*)"),
        (":", r"^(?:\./|\[warn\] )?(?P<cause>[\w./\\@+-]{1,200}\.\w{1,8}:\d+(?::\d+)?:? (?!: #)[^\n]*)"),
        ("error", r"^[ \t]+(?P<cause>\d+:\d+ +error +[^\n]*)"),
        ("error", r"^(?P<cause>error(?:\[[\w:]+\])?: (?!could not compile|aborting|script)[^\n]*)"),
        ("would reformat", r"^(?P<cause>[Ww]ould reformat:? [^\n]*)"),
        ("[warn]", r"^\[warn\] (?P<cause>\S+\.\w{1,8})$"),
        ("Failed", r"^(?P<cause>[^\n.]{1,70}\.{3,80}Failed)$"),
        ("┃", r"^[ \t]*┃\s+(?P<cause>\[\w\] [^\n]*)"),
        ("level=error", r'^level=error msg="(?P<cause>[^"\n]*)'),
    ),
    "types": (
        (".ex", r"^(?P<cause>\S{1,200}\.exs?:\d+(?::\d+)?:\w+[^\n]*)"),
        ("error TS", r"^(?P<cause>[^\n]{0,200}error TS\d+: [^\n]*)"),
        ("error:", r"^[ \t]*(?P<cause>\S{1,200}:\d+(?::\d+)?:? (?:- )?error:? [^\n]*)"),
        ("error", r"^(?P<cause>error(?:\[[\w-]+\])?: [^\n]*)"),
    ),
    "build": (
        ("error during build", r"^error during build:\n(?P<cause>[^\n]+)"),
        (".go:", r"^(?:\./)?(?P<cause>\S{1,200}\.go:\d+:\d+: [^\n]*)"),
        ("error TS", r"^(?P<cause>[^\n]{0,200}error TS\d+: [^\n]*)"),
        ("error", r"^(?P<cause>[^\n]{0,200}\berror(?:\[E\d{4}\]| CS\d+)?: (?!could not compile|aborting)[^\n]*)"),
        ("Error", r"^[ \t]*(?P<cause>(?:[\w.]{1,60}(?:Error|Exception)): [^\n]*)"),
    ),
    "": (
        ("  X ", r"^ {2,6}X (?P<cause>(?!\S+ \S+ \S+ · )\S[^\n]*)"),  # a step of a CI run
        ("[", r"^(?P<cause>\[(?!INFO|WARN|DEBUG|STARTED|COMPLETED|SKIPPED|FAILED|ERROR\])[A-Z][A-Z ]{2,20}\][^\n]*)"),
        ("\tfail\t", r"^(?P<cause>[^\t\n]{1,100})\tfail\t"),
        ("nothing ", r"^(?P<cause>nothing (?:to commit|added to commit)[^\n]*)"),
        ("fatal: ", r"^(?P<cause>fatal: [^\n]*)"),
        ("curl: (", r"(?P<cause>\bcurl: \(\d{1,3}\) [^\n]*)"),
        ("rejected]", r"^ ! (?P<cause>\[(?:remote )?rejected\][^\n]*)"),
        ("CONFLICT", r"^(?P<cause>CONFLICT [^\n]*)"),
        (
            "rror",
            r"^[ \t]*(?!ERROR task failed|error: test failed|error: could not compile)(?P<cause>(?:[\w.()/\[\]-]{1,60}: ){0,3}\[?(?:[\w.]{0,60}(?:Error|Exception)|error|ERROR|Error)\b[\]:!]{0,2}[: ] ?[^\n]*)",
        ),
        ("not found", r"^(?P<cause>[^\n]{0,200}not found[^\n]*)"),
        ("No such file", r"^(?P<cause>[^\n]{0,200}No such file[^\n]*)"),
    ),
}


_BUN_END = r"^Ran \d+ tests across \d+ files"


def find_cause(text: str, kind: CheckKind | None = None) -> str:
    """The first line that names why a command failed; "" if there is none."""
    text = text[: HEAD + TAIL]
    if kind == "tests" and "(fail) " not in text and compile_pattern(_BUN_END).search(text):
        return ""  # the errors above are what passing tests log
    if "\\n\\n" in text:  # a hook's text with escaped line breaks
        text = text.replace("\\n", "\n")
    padded = "\n" + text
    for needle, pattern in (*(_CAUSES[kind] if kind else ()), *_CAUSES[""]):
        if needle in padded and (found := compile_pattern(pattern).search(text)):
            return _shorten_line(found["cause"])
    noise = compile_pattern(_NOISE)
    for line in text[:4000].splitlines():
        if not noise.match(line):
            return _shorten_line(line)
    return ""


def _shorten_line(line: str) -> str:
    line = " ".join(line[: MAX_CAUSE * 3].split())
    return line if len(line) <= MAX_CAUSE else line[: MAX_CAUSE - 1] + "…"
