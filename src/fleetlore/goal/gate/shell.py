"""Whether a command is covered by patterns such as `git status*`: to be allowed every part of it, to be denied any."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from fleetlore.goal.gate.shell_parser import SimpleCommand, parse_command_line

_PLAIN_WORD = re.compile(r"[A-Za-z0-9_./+:@%-]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=.*", re.DOTALL)
_ROUGH_SEPARATORS = re.compile(r"[;&|\n\r(){}`<>]")
_QUOTES = re.compile(r"['\"\\]")
_EXPANSION = re.compile(r"[$`]|[*?\[{].|.[*?\[{]", re.DOTALL)
_MAX_DEPTH = 4
MAX_COMMAND_CHARS = 64 * 1024
"""Characters of a command that is judged at all."""
_MAX_SPELLINGS = 200
_WRAPPER_PROGRAMS = frozenset(
    (
        "sudo", "doas", "env", "command", "exec", "builtin", "eval", "nohup", "nice", "ionice", "time", "timeout", "xargs", "parallel",
        "stdbuf", "setsid", "busybox", "chroot", "ssh", "find", "sh", "bash", "zsh", "dash", "ksh", "fish", "watch", "script", "strace",
        "if", "then", "elif", "else", "do", "while", "until", "!", "{",
    )
)  # fmt: skip
"""Programs and words that run what is named behind them."""
_ESCAPE_ARGUMENTS: dict[str, re.Pattern[str]] = {
    "git": re.compile(r"-c|--config-env.*|--exec-path=.*"),
    "find": re.compile(r"-(exec|execdir|ok|okdir|delete|fprint0?|fprintf|fls)"),
    "rg": re.compile(r"--pre(=.*)?|--hostname-bin(=.*)?"),
    "sort": re.compile(r"-[A-Za-z]*o.*|--o.*|--comp.*"),
    "tar": re.compile(r"-[IF].*|--(to-c|use-c|checkpoint-a|info-s|new-v|rsh).*"),
    "printf": re.compile(r"-v.*"),
    "test": re.compile(r"-[vR]"),
    "[": re.compile(r"-[vR]"),
}
"""Arguments by which a program runs another, or writes, that one would not think it could: a `*` alone does not cover them."""
_GIT_ESCAPE_OPTIONS = re.compile(r"--(out|ext-|exec|upload-p|receive-p|open-f).*")
"""The same for what stands behind git's own command; git takes the beginning of a long option for the whole."""
_GIT_VALUE_OPTIONS = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix", "--attr-source")
"""Options before git's own command whose value is the next word."""


def find_allowing_patterns(command: str, patterns: Sequence[str]) -> list[str] | None:
    """The patterns that cover every part of a command; `None` if one part is not covered, or nobody can be sure."""
    if "*" not in command and command.strip() in patterns:
        return [command.strip()]  # word for word what somebody wrote down
    if len(command) > MAX_COMMAND_CHARS:
        return None
    line = parse_command_line(command)
    if line.ambiguity is not None or not line.parts:
        return None
    covering = [next((pattern for pattern in patterns if _is_covered_by(pattern, part)), None) for part in line.parts]
    return None if None in covering else list(dict.fromkeys(each for each in covering if each is not None))


def _is_covered_by(pattern: str, part: SimpleCommand) -> bool:
    if not is_pattern_match(pattern, part.text):
        return False
    begin = pattern.partition("*")[0].removesuffix(":")
    is_named = part.first == begin.rstrip() or begin.startswith(f"{part.first} ")
    if not is_named and not (_PLAIN_WORD.fullmatch(part.first) and ".." not in part.first.split("/")):
        return False
    return not _has_escape_argument(pattern, part)


def _has_escape_argument(pattern: str, part: SimpleCommand) -> bool:
    """Whether it uses an argument that has the program do more than the pattern's author would expect."""
    program = os.path.basename(part.words[0])
    way = _ESCAPE_ARGUMENTS.get(program)
    if way is None:
        return False
    used = [word for word in part.words[1:] if way.fullmatch(word)]
    if program == "git":  # behind its own command, `-c` means something else
        verb = _git_subcommand_index(part.words)
        used = [word for word in part.words[1:verb] if way.fullmatch(word)]
        used += [word for word in part.words[verb:] if _GIT_ESCAPE_OPTIONS.match(word)]
    said = pattern.split()
    return any(word.partition("=")[0] not in said for word in used)


def _git_subcommand_index(words: Sequence[str]) -> int:
    """Where git's own command stands, behind the options of git itself."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _GIT_VALUE_OPTIONS else 1
    return min(at, len(words))


def is_command_denied(command: str, pattern: str, *, depth: int = 0) -> bool:
    """Whether any part of a command may be what a pattern denies, or nobody can tell what would be run."""
    if len(command) > MAX_COMMAND_CHARS:
        return True
    line = parse_command_line(command)
    spoken = [part.words for part in line.parts]
    if line.ambiguity is not None:
        spoken += [tuple(_QUOTES.sub("", piece).split()) for piece in _ROUGH_SEPARATORS.split(command)]
    if any(is_pattern_match(pattern, said) for words in spoken if words for said in _command_spellings(words)):
        return True
    if any(_has_hidden_program(part) for part in line.parts):
        return True
    inner = [
        word
        for part in line.parts
        if _has_wrapper_program(part)
        for word in part.words[1:]
        if _ROUGH_SEPARATORS.search(word) or " " in word
    ]
    return any(depth >= _MAX_DEPTH or is_command_denied(word, pattern, depth=depth + 1) for word in inner)


def _command_spellings(words: Sequence[str]) -> Iterator[str]:
    """The command as it is, without its folder, without git's own options, and without whatever only runs it."""
    runs_another = False
    for at, word in enumerate(words[:_MAX_SPELLINGS]):
        yield " ".join(words[at:])
        yield " ".join((os.path.basename(word), *words[at + 1 :]))
        if os.path.basename(word) == "git":
            yield " ".join(("git", *words[at + _git_subcommand_index(words[at:]) :]))
        runs_another = runs_another or os.path.basename(word) in _WRAPPER_PROGRAMS
        if not runs_another and not _ASSIGNMENT.fullmatch(word):
            return


def _has_wrapper_program(part: SimpleCommand) -> bool:
    return any(os.path.basename(word) in _WRAPPER_PROGRAMS for word in part.words)


def _has_hidden_program(part: SimpleCommand) -> bool:
    """Whether the program's name comes out of an expansion, or lies behind more words than are looked at."""
    if len(part.words) > _MAX_SPELLINGS and _has_wrapper_program(part):
        return True
    word = next((word for word in part.words if not _ASSIGNMENT.fullmatch(word)), "")
    return _EXPANSION.search(word) is not None


def is_pattern_match(pattern: str, text: str) -> bool:
    """Whether a pattern is all of a text; `*` is any text, and one at the end, behind a blank or a colon, may stand for nothing."""
    if pattern.endswith((" *", ":*")):
        return _is_glob_match(pattern[:-2], text) or _is_glob_match(f"{pattern[:-2]} *", text)
    return _is_glob_match(pattern, text)


def _is_glob_match(pattern: str, text: str) -> bool:
    """In a time that grows with the text alone: whoever writes that may be nobody's friend."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, last = rest
    at, end = len(first), len(text) - len(last)
    if at > end or not text.startswith(first) or not text.endswith(last):
        return False
    for piece in middle:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
