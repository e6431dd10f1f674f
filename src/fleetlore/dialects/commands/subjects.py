"""What a deed of a shell was about: the words of a commit, the branch, the pull request, the tests that ran."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from fleetlore.dialects.commands.known_programs import FORGE_VALUED, plain_words
from fleetlore.dialects.commands.shell import Command, words_of

LONGEST_SUBJECT = 120
MOST_OUTPUT = 8192
"""So many characters of an output are looked at: its last ones, for there the tally stands."""

_committed = re.compile(r"^\[(?P<branch>[^\]\n]+?) (?:\(root-commit\) )?[0-9a-f]{6,40}\] (?P<words>[^\n]+)", re.MULTILINE)
_pushed = re.compile(r"^ [ *+!-]? ?(?:\[new (?:branch|tag)\]|[0-9a-f]{6,40}\.{2,3}[0-9a-f]{6,40}) +\S+ -> (\S+)", re.MULTILINE)
_pull = re.compile(r"/(?:pull|pulls|merge_requests)/(\d+)|(?<![\w#&])[#!](\d+)\b")
_failures = re.compile(
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
_REFUSED: Mapping[str, re.Pattern[str]] = {
    "commit": re.compile(
        r"^(?:nothing (?:added )?to commit|no changes added to commit|Aborting commit|fatal: not a git repo)", re.MULTILINE
    ),
    "push": re.compile(r"^(?: ! \[(?:remote )?rejected\]|error: failed to push|Everything up-to-date\s*$|fatal: )", re.MULTILINE),
    "pr_open": re.compile(r"^(?:a pull request for branch .{1,300} already exists|pull request create failed)", re.MULTILINE),
    "pr_merge": re.compile(r"^(?:X |! )?Pull request .{0,300} is not mergeable", re.MULTILINE),
}
_DONE: Mapping[str, re.Pattern[str]] = {"commit": _committed, "push": _pushed}
_passes = re.compile(r"(?<![\w.])(\d{1,6}) (?:passed|passing)\b|(?<![\w.])(\d{1,6}) (?:tests|examples), 0 failures")
_VALUED = words_of("-k -m -n -p -c -o -j -C -f -F -E -t -w --seed --filter --project --config --testNamePattern --maxfail")


def subject_of(deed: str, command: Command, output: str) -> str | None:
    """What it was about, in one line; `None` where neither the command nor its output tells."""
    teller = _TELLERS.get(deed)
    found = teller(command.words, output) if teller is not None else short(command.words)
    return in_one_line(found)


def in_one_line(text: object, longest: int = LONGEST_SUBJECT) -> str | None:
    """The first line with something in it, not too long; `None` where there is none."""
    if not isinstance(text, str):
        return None
    line = text[: 4 * longest].strip().partition("\n")[0].strip()
    return (line if len(line) <= longest else f"{line[: longest - 1].rstrip()}…") or None


def short(words: list[str]) -> str:
    """A command without its flags and where its program lies: `pytest tests/log`, `mix test`."""
    if "-m" in words[1:3] and words[0].rpartition("/")[2].startswith("py"):
        words = words[words.index("-m") + 1 :]
    kept = [words[0].rpartition("/")[2] or words[0]] if words else []
    valued = frozenset[str]() if kept in (["bash"], ["sh"]) else _VALUED
    skip = False
    for word in words[1:40]:
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = word in valued
        elif not word.isdigit():
            kept.append(in_one_line(word, 60) or "")
    return " ".join(kept)


def failures_in(output: str) -> int:
    """How many tests failed, or errors were found, as the output itself counts them; none where it does not say."""
    tail = output[-MOST_OUTPUT:]
    if "ail" not in tail and "AIL" not in tail and "rror" not in tail:
        return 0
    counts = [int(next(filter(None, found))) for found in _failures.findall(tail)]
    return max(counts, default=0) or tail.count("--- FAIL: ")  # the last is how Go says it


def was_refused(deed: str, command: Command, output: str) -> bool:
    """Whether the output says that nothing came of it, though the line went well: `git push | tail`, `git commit -m x || true`."""
    refused, done = _REFUSED.get(deed), _DONE.get(deed)
    if refused is None or refused.search(output[-MOST_OUTPUT:]) is None:
        return False
    # A quiet commit says nothing of itself, and a look at the tree behind it says that there is nothing to commit.
    is_quiet = deed == "commit" and any(word == "--quiet" or (word[:1] == "-" != word[1:2] and "q" in word) for word in command.words)
    return not is_quiet and (done is None or done.search(output) is None)


def _of_commit(words: list[str], output: str) -> str | None:
    for place, word in enumerate(words):
        if word == "--message" or (word.startswith("-") and word.endswith("m") and not word.startswith("--")):
            return words[place + 1] if place + 1 < len(words) else None
        if word.startswith("--message="):
            return word.partition("=")[2]
        if word.startswith("-m"):
            return word[2:]
        if "\n" in word:
            return word  # a here-document, for `-F -`
    found = _committed.search(output[:MOST_OUTPUT])
    return found["words"] if found is not None else None


def _of_push(words: list[str], output: str) -> str | None:
    named = plain_words(words)[1:]
    branch = named[1].rpartition(":")[2] if len(named) > 1 else ""
    if branch and branch != "HEAD" and "$" not in branch:
        return branch
    found = _pushed.search(output[-MOST_OUTPUT:])
    return found[1] if found is not None else named[0] if named else None


def _of_pull(words: list[str], output: str) -> str | None:
    for place, word in enumerate(words):
        if word in ("--title", "-t", "-m") and place + 1 < len(words):
            return words[place + 1]
        if word.startswith("--title="):
            return word.partition("=")[2]
    return pull_number(output[-MOST_OUTPUT:])


def _of_merge(words: list[str], output: str) -> str | None:
    named = [word for word in plain_words(words, FORGE_VALUED)[2:] if word]
    if named:
        return f"#{named[0]}" if named[0].isdigit() else pull_number(named[0]) or named[0]
    return pull_number(output[-MOST_OUTPUT:])


def pull_number(text: str) -> str | None:
    """`#12`, from the address of a pull request or words about it."""
    found = _pull.search(text)
    return f"#{next(filter(None, found.groups()))}" if found is not None else None


def _of_test(words: list[str], output: str) -> str | None:
    ran = short(words)[: LONGEST_SUBJECT - 20]
    if count := failures_in(output):
        return f"{ran}: {count} failed"
    passed = max((int(next(filter(None, found))) for found in _passes.findall(output[-MOST_OUTPUT:])), default=0)
    return f"{ran}: {passed} passed" if passed else ran


def _of_check(words: list[str], output: str) -> str | None:
    count = failures_in(output)
    return f"{short(words)[: LONGEST_SUBJECT - 20]}: {count} {'error' if count == 1 else 'errors'}" if count else short(words)


def _as_it_is(words: list[str], output: str) -> str | None:
    del output
    return " ".join(words[:40])


_TELLERS: Mapping[str, Callable[[list[str], str], str | None]] = {
    "commit": _of_commit,
    "push": _of_push,
    "pr_open": _of_pull,
    "pr_merge": _of_merge,
    "revert": _as_it_is,
    "test": _of_test,
    "build": _of_check,
    "check": _of_check,
    "look": _as_it_is,
}
