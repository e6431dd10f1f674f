"""Matches shell commands against patterns such as `git status*`, for the rules in `rules.py`.

A command is allowed if patterns cover every part of it, and denied if any part may match.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from fleetlore.goal.gate.shell_parser import GateCommand, parse_command_line

_PLAIN_WORD = re.compile(r"[A-Za-z0-9_./+:@%-]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=.*", re.DOTALL)
_ROUGH_SEPARATORS = re.compile(r"[;&|\n\r(){}`<>]")
_QUOTES = re.compile(r"['\"\\]")
_EXPANSION = re.compile(r"[$`]|[*?\[{].|.[*?\[{]", re.DOTALL)
_MAX_DEPTH = 4
MAX_COMMAND_CHARS = 64 * 1024
"""A longer command is not analysed: no pattern allows it, and every deny rule matches it."""
_MAX_SPELLINGS = 200
_WRAPPER_PROGRAMS = frozenset(
    (
        "sudo", "doas", "env", "command", "exec", "builtin", "eval", "nohup", "nice", "ionice", "time", "timeout", "xargs", "parallel",
        "stdbuf", "setsid", "busybox", "chroot", "ssh", "find", "sh", "bash", "zsh", "dash", "ksh", "fish", "watch", "script", "strace",
        "if", "then", "elif", "else", "do", "while", "until", "!", "{",
    )
)  # fmt: skip
"""Programs and shell words that run the command named after them."""
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
"""Arguments that make a harmless-looking program run another one or write files. A `*` does not cover them."""
_GIT_ESCAPE_OPTIONS = re.compile(r"--(out|ext-|exec|upload-p|receive-p|open-f).*")
"""The same after git's subcommand. Git accepts abbreviated long options."""
_GIT_VALUE_OPTIONS = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix", "--attr-source")
"""Options before git's subcommand whose value is the next word."""


def find_allowing_patterns(command: str, patterns: Sequence[str]) -> list[str] | None:
    """The patterns that together cover every part of a command; `None` if a part is not covered or the command is ambiguous."""
    if "*" not in command and command.strip() in patterns:
        return [command.strip()]  # exactly as in the rule
    if len(command) > MAX_COMMAND_CHARS:
        return None
    line = parse_command_line(command)
    if line.ambiguity is not None or not line.parts:
        return None
    matches = [next((pattern for pattern in patterns if _is_covered_by(pattern, part)), None) for part in line.parts]
    return None if None in matches else list(dict.fromkeys(pattern for pattern in matches if pattern is not None))


def _is_covered_by(pattern: str, part: GateCommand) -> bool:
    if not is_pattern_match(pattern, part.text):
        return False
    literal_prefix = pattern.partition("*")[0].removesuffix(":")
    is_spelled_out = part.first == literal_prefix.rstrip() or literal_prefix.startswith(f"{part.first} ")
    if not is_spelled_out and not (_PLAIN_WORD.fullmatch(part.first) and ".." not in part.first.split("/")):
        return False
    return not _has_escape_argument(pattern, part)


def _has_escape_argument(pattern: str, part: GateCommand) -> bool:
    """Whether the command uses an escape argument that the pattern does not name."""
    program = os.path.basename(part.words[0])
    escape_arguments = _ESCAPE_ARGUMENTS.get(program)
    if escape_arguments is None:
        return False
    found = [word for word in part.words[1:] if escape_arguments.fullmatch(word)]
    if program == "git":  # after the subcommand, `-c` means something else
        subcommand = _git_subcommand_index(part.words)
        found = [word for word in part.words[1:subcommand] if escape_arguments.fullmatch(word)]
        found += [word for word in part.words[subcommand:] if _GIT_ESCAPE_OPTIONS.match(word)]
    pattern_words = pattern.split()
    return any(word.partition("=")[0] not in pattern_words for word in found)


def _git_subcommand_index(words: Sequence[str]) -> int:
    """Position of git's subcommand, after the options of git itself."""
    index = 1
    while index < len(words) and words[index].startswith("-"):
        index += 2 if words[index] in _GIT_VALUE_OPTIONS else 1
    return min(index, len(words))


def is_command_denied(command: str, pattern: str, *, depth: int = 0) -> bool:
    """Whether any part of a command may match the pattern, or the command cannot be parsed with certainty."""
    if len(command) > MAX_COMMAND_CHARS:
        return True
    line = parse_command_line(command)
    commands = [part.words for part in line.parts]
    if line.ambiguity is not None:
        commands += [tuple(_QUOTES.sub("", piece).split()) for piece in _ROUGH_SEPARATORS.split(command)]
    if any(is_pattern_match(pattern, spelling) for words in commands if words for spelling in _command_spellings(words)):
        return True
    if any(_has_hidden_program(part) for part in line.parts):
        return True
    nested_commands = [
        word
        for part in line.parts
        if _has_wrapper_program(part)
        for word in part.words[1:]
        if _ROUGH_SEPARATORS.search(word) or " " in word
    ]
    return any(depth >= _MAX_DEPTH or is_command_denied(word, pattern, depth=depth + 1) for word in nested_commands)


def _command_spellings(words: Sequence[str]) -> Iterator[str]:
    """The command as it is, without its folder, without git's own options, and without wrappers in front of it."""
    runs_another = False
    for index, word in enumerate(words[:_MAX_SPELLINGS]):
        yield " ".join(words[index:])
        yield " ".join((os.path.basename(word), *words[index + 1 :]))
        if os.path.basename(word) == "git":
            yield " ".join(("git", *words[index + _git_subcommand_index(words[index:]) :]))
        runs_another = runs_another or os.path.basename(word) in _WRAPPER_PROGRAMS
        if not runs_another and not _ASSIGNMENT.fullmatch(word):
            return


def _has_wrapper_program(part: GateCommand) -> bool:
    return any(os.path.basename(word) in _WRAPPER_PROGRAMS for word in part.words)


def _has_hidden_program(part: GateCommand) -> bool:
    """Whether the program's name comes from an expansion, or is behind more words than we look at."""
    if len(part.words) > _MAX_SPELLINGS and _has_wrapper_program(part):
        return True
    word = next((word for word in part.words if not _ASSIGNMENT.fullmatch(word)), "")
    return _EXPANSION.search(word) is not None


def is_pattern_match(pattern: str, text: str) -> bool:
    """Whether the pattern matches the whole text. `*` is any text; a final ` *` or `:*` also matches nothing."""
    if pattern.endswith((" *", ":*")):
        return _is_glob_match(pattern[:-2], text) or _is_glob_match(f"{pattern[:-2]} *", text)
    return _is_glob_match(pattern, text)


def _is_glob_match(pattern: str, text: str) -> bool:
    """Runs in linear time: the text may come from an attacker."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, last = rest
    position, end = len(first), len(text) - len(last)
    if position > end or not text.startswith(first) or not text.endswith(last):
        return False
    for piece in middle:
        found = text.find(piece, position, end)
        if found < 0:
            return False
        position = found + len(piece)
    return True
