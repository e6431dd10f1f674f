"""Finds the subject of a shell command: a commit's message, a branch, a pull request, the tests that ran."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from fleetlore.dialects.commands.known_programs import FORGE_FLAGS_WITH_VALUE, list_positional_words
from fleetlore.dialects.commands.shell import ParsedShellCommand, make_word_set

MAX_SUBJECT_CHARS = 120
MAX_OUTPUT_CHARS = 8192
"""Only the last characters of an output are searched: totals are at the end."""

_COMMIT_OUTPUT_PATTERN = re.compile(r"^\[(?P<branch>[^\]\n]+?) (?:\(root-commit\) )?[0-9a-f]{6,40}\] (?P<words>[^\n]+)", re.MULTILINE)
_PUSH_OUTPUT_PATTERN = re.compile(r"^ [ *+!-]? ?(?:\[new (?:branch|tag)\]|[0-9a-f]{6,40}\.{2,3}[0-9a-f]{6,40}) +\S+ -> (\S+)", re.MULTILINE)
_PULL_NUMBER_PATTERN = re.compile(r"/(?:pull|pulls|merge_requests)/(\d+)|(?<![\w#&])[#!](\d+)\b")
_FAILURE_COUNT_PATTERN = re.compile(
    r"""
      (?<![\w.]) (\d{1,6}) [ ] (?:tests?[ ])? (?:failed|failing|failures?) (?= [,;.|)\]] | \s*$ | [ ]+(?:in|out[ ]of|\|) )
    | (?: \b(?:found|previous) | [(,] ) [ ]* (\d{1,6}) [ ] errors? \b
    | ^ [= ]* (\d{1,6}) [ ] errors? [ ] in [ ] [\d.]+s
    | \b (?:failures?|failed|errors) [=:] [ ]* (\d{1,6}) \b
    | ^ \# [ ] fail [ ] (\d{1,6}) $
    | \b to [ ] (\d{1,6}) [ ] previous [ ] errors?
    """,
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)
_REFUSAL_PATTERNS: Mapping[str, re.Pattern[str]] = {
    "commit": re.compile(
        r"^(?:nothing (?:added )?to commit|no changes added to commit|Aborting commit|fatal: not a git repo)", re.MULTILINE
    ),
    "push": re.compile(r"^(?: ! \[(?:remote )?rejected\]|error: failed to push|Everything up-to-date\s*$|fatal: )", re.MULTILINE),
    "pr_open": re.compile(r"^(?:a pull request for branch .{1,300} already exists|pull request create failed)", re.MULTILINE),
    "pr_merge": re.compile(r"^(?:X |! )?Pull request .{0,300} is not mergeable", re.MULTILINE),
}
_SUCCESS_PATTERNS: Mapping[str, re.Pattern[str]] = {"commit": _COMMIT_OUTPUT_PATTERN, "push": _PUSH_OUTPUT_PATTERN}
_PASSED_PATTERN = re.compile(r" (?:pass(?:ed|ing)\b|(?:tests|examples), 0 failures)")
_NUMBER_PATTERN = re.compile(r"(?<![\w.])\d{1,6}\Z")
_FLAGS_WITH_VALUE = make_word_set("-k -m -n -p -c -o -j -C -f -F -E -t -w --seed --filter --project --config --testNamePattern --maxfail")


def find_subject(action: str, command: ParsedShellCommand, output: str) -> str | None:
    """Return the subject in one line; `None` if neither the command nor its output names it."""
    finder = _SUBJECT_FINDERS.get(action)
    return truncate_to_line(finder(command.words, output) if finder is not None else shorten_command(command.words))


def truncate_to_line(text: object, max_chars: int = MAX_SUBJECT_CHARS) -> str | None:
    """Return the first non-blank line, truncated, or `None`."""
    if not isinstance(text, str):
        return None
    line = text[: 4 * max_chars].strip().partition("\n")[0].strip()
    return (line if len(line) <= max_chars else f"{line[: max_chars - 1].rstrip()}…") or None


def shorten_command(words: list[str]) -> str:
    """Return a command without flags and the program's path: `pytest tests/log`, `mix test`."""
    if "-m" in words[1:3] and words[0].rpartition("/")[2].startswith("py"):
        words = words[words.index("-m") + 1 :]
    kept = [words[0].rpartition("/")[2] or words[0]] if words else []
    valued = frozenset[str]() if kept in (["bash"], ["sh"]) else _FLAGS_WITH_VALUE
    skip = False
    for word in words[1:40]:
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = word in valued
        elif not word.isdigit():
            kept.append(truncate_to_line(word, 60) or "")
    return " ".join(kept)


def count_failures(output: str) -> int:
    """Return how many failed tests or errors the output reports; 0 if it does not say."""
    tail = output[-MAX_OUTPUT_CHARS:]
    if "ail" not in tail and "AIL" not in tail and "rror" not in tail:
        return 0
    counts = [int(next(filter(None, found))) for found in _FAILURE_COUNT_PATTERN.findall(tail)]
    return max(counts, default=0) or tail.count("--- FAIL: ")  # the last form is Go's


def was_refused(action: str, command: ParsedShellCommand, output: str) -> bool:
    """Return whether the output shows that nothing was done although the line succeeded: `git push | tail`."""
    refusal_pattern, success_pattern = _REFUSAL_PATTERNS.get(action), _SUCCESS_PATTERNS.get(action)
    if refusal_pattern is None or refusal_pattern.search(output[-MAX_OUTPUT_CHARS:]) is None:
        return False
    # A quiet commit prints nothing, and a `git status` after it prints "nothing to commit".
    is_quiet = action == "commit" and any(word == "--quiet" or (word[:1] == "-" != word[1:2] and "q" in word) for word in command.words)
    return not is_quiet and (success_pattern is None or success_pattern.search(output) is None)


def _find_commit_subject(words: list[str], output: str) -> str | None:
    for index, word in enumerate(words):
        if word == "--message" or (word.startswith("-") and word.endswith("m") and not word.startswith("--")):
            return words[index + 1] if index + 1 < len(words) else None
        if word.startswith("--message="):
            return word.partition("=")[2]
        if word.startswith("-m"):
            return word[2:]
        if "\n" in word:
            return word  # a here-document, for `-F -`
    found = _COMMIT_OUTPUT_PATTERN.search(output[:MAX_OUTPUT_CHARS])
    return found["words"] if found is not None else None


def _find_push_subject(words: list[str], output: str) -> str | None:
    positional = list_positional_words(words)[1:]
    branch = positional[1].rpartition(":")[2] if len(positional) > 1 else ""
    if branch and branch != "HEAD" and "$" not in branch:
        return branch
    found = _PUSH_OUTPUT_PATTERN.search(output[-MAX_OUTPUT_CHARS:])
    return found[1] if found is not None else positional[0] if positional else None


def _find_pull_subject(words: list[str], output: str) -> str | None:
    for index, word in enumerate(words):
        if word in ("--title", "-t", "-m") and index + 1 < len(words):
            return words[index + 1]
        if word.startswith("--title="):
            return word.partition("=")[2]
    return find_pull_number(output[-MAX_OUTPUT_CHARS:])


def _find_merge_subject(words: list[str], output: str) -> str | None:
    positional = [word for word in list_positional_words(words, FORGE_FLAGS_WITH_VALUE)[2:] if word]
    if positional:
        return f"#{positional[0]}" if positional[0].isdigit() else find_pull_number(positional[0]) or positional[0]
    return find_pull_number(output[-MAX_OUTPUT_CHARS:])


def find_pull_number(text: str) -> str | None:
    """Return `#12` from the URL of a pull request or a text about it."""
    found = _PULL_NUMBER_PATTERN.search(text)
    return f"#{next(filter(None, found.groups()))}" if found is not None else None


def _summarize_test_run(words: list[str], output: str) -> str | None:
    command = shorten_command(words)[: MAX_SUBJECT_CHARS - 20]
    if count := count_failures(output):
        return f"{command}: {count} failed"
    passed = _count_passed(output[-MAX_OUTPUT_CHARS:])
    return f"{command}: {passed} passed" if passed else command


def _count_passed(tail: str) -> int:
    """The largest count of passed tests. A pattern that began with the number would try every digit of the output: 100 times slower."""
    places = (found.start() for found in _PASSED_PATTERN.finditer(tail))
    numbers = (_NUMBER_PATTERN.search(tail[max(0, place - 7) : place]) for place in places)
    return max((int(number[0]) for number in numbers if number), default=0)


def _summarize_check_run(words: list[str], output: str) -> str | None:
    count = count_failures(output)
    return (
        f"{shorten_command(words)[: MAX_SUBJECT_CHARS - 20]}: {count} {'error' if count == 1 else 'errors'}"
        if count
        else shorten_command(words)
    )


def _use_short_command(words: list[str], output: str) -> str | None:
    del output
    return " ".join(words[:40])


_SUBJECT_FINDERS: Mapping[str, Callable[[list[str], str], str | None]] = {
    "commit": _find_commit_subject,
    "push": _find_push_subject,
    "pr_open": _find_pull_subject,
    "pr_merge": _find_merge_subject,
    "revert": _use_short_command,
    "test": _summarize_test_run,
    "build": _summarize_check_run,
    "check": _summarize_check_run,
    "look": _use_short_command,
}
