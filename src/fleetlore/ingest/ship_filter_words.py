"""What is a name and what is words: told by form alone, and in doubt it is words."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

LONGEST = 200
"""A string of more characters, or of several lines, is no name: nobody said what it is, so it stays."""

_PLACEHOLDER = re.compile(r"\[withheld: [0-9,]+ bytes?\]")

# Without blanks, quotes, brackets, question and equals signs: names, ids, paths, times, numbers, addresses without a query.
_NAME_PATTERN = re.compile(r"[\w.:/@+~#-]*%?")
_LONG_WORD = re.compile(r"\w{65}")  # longer than any hash; it may be words in another coding
_PLUS_FOR_BLANK = re.compile(r"[^\W\d]\+[^\W\d]")
_FIRST_UNSPACED_CHAR = "\u0590"
"""Writing systems from here on may not put blanks between words: whole sentences look like names."""

_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d(\.\d{1,9})?)?( ?([Zz]|UTC|[+-]\d\d:?\d\d))?")
_EXTENSION = re.compile(r"\.\w{1,8}")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")

# In data that nobody has described, these words in a name tell what it holds.
_TEXT_KEY_WORDS = frozenset(
    {"answer", "arg", "argument", "argv", "body", "chunk", "cmd", "code", "command"}
    | {"comment", "completion", "content", "delta", "description", "diff", "env", "environment", "evidence"}
    | {"exception", "excerpt", "explanation", "expression", "hunk", "html", "input", "instruction", "markdown"}
    | {"memory", "message", "note", "objective", "output", "param", "parameter", "patch", "payload"}
    | {"plan", "prompt", "query", "question", "rationale", "raw", "reasoning", "regex", "reply"}
    | {"request", "response", "result", "sample", "script", "secret", "shell", "snippet", "source"}
    | {"sql", "stack", "stderr", "stdin", "stdout", "string", "summary", "text", "thinking"}
    | {"thought", "traceback", "transcript"}
)
_MESSAGE_KEY_WORDS = frozenset(
    {"answer", "comment", "description", "instruction", "message", "objective", "plan", "prompt", "question", "reply", "summary"}
    | {"thinking", "thought", "todo"}
)
"""Of these, the ones that hold what somebody said, where others hold code."""
_TEXT_KEY_PARTS = ("prompt", "message", "content", "transcript", "instruction", "response", "command", "thought")
"""These tell it even where a name runs several words together."""

_QUOTES = "`'\"“”‘’«»…. "
_MIN_QUOTED_CHARS = 6
"""What is shorter may be found in a line by chance."""


def is_placeholder(value: Any) -> bool:
    """Whether something was withheld already."""
    return isinstance(value, str) and _PLACEHOLDER.fullmatch(value) is not None


def is_long_text(value: str) -> bool:
    """Whether it is more than one line that could be a title or a reason."""
    return len(value) > LONGEST or len(value.splitlines()) > 1 or "\n" in value or "\r" in value


@lru_cache(maxsize=8192)
def looks_like_name(text: str) -> bool:
    """Whether it is a name, an id, a path, a time, a number, or an address without a query; nothing is no word either."""
    if len(text) > LONGEST or max(text, default="") >= _FIRST_UNSPACED_CHAR:
        return False
    if is_placeholder(text) or _TIME.fullmatch(text):
        return True
    return _NAME_PATTERN.fullmatch(text) is not None and not _LONG_WORD.search(text) and not _PLUS_FOR_BLANK.search(text)


def is_path_value(value: Any) -> bool:
    """Whether it names files, and is no sentence: blanks stand only in a path from the root, or before a file's extension."""
    if isinstance(value, list):
        return all(isinstance(item, str) and is_path_value(item) for item in value)
    if not isinstance(value, str) or len(value) > LONGEST or not value.isprintable():
        return False
    if not any(map(str.isspace, value)):
        return True
    return (value.startswith("/") and value.count("/") > 1) or _EXTENSION.fullmatch(value[value.rfind(".") :]) is not None


@lru_cache(maxsize=4096)
def is_text_key(name: str) -> bool:
    """Whether a name says that it holds words: `userPrompt`, `old_string`, `tool-responses`."""
    small = name.lower()
    return any(word in small for word in _TEXT_KEY_PARTS) or any(_is_text_word(word.lower()) for word in _WORD.findall(name))


@lru_cache(maxsize=4096)
def is_message_key(name: str) -> bool:
    """Whether a name says that it holds what somebody said."""
    return any(not _MESSAGE_KEY_WORDS.isdisjoint(_singular_forms(word.lower())) for word in _WORD.findall(name))


def _is_text_word(word: str) -> bool:
    return not _TEXT_KEY_WORDS.isdisjoint(_singular_forms(word))


def _singular_forms(word: str) -> tuple[str, ...]:
    return word, word.removesuffix("s"), word.removesuffix("es"), f"{word.removesuffix('ies')}y"


def is_quoting(text: str, words: str) -> bool:
    """Whether a line for people repeats some words, or is their beginning."""
    line, whole = _normalize_text(text), _normalize_text(words)
    core = line.strip(_QUOTES)
    if not core or not whole:
        return False
    if core in whole and (len(core) >= _MIN_QUOTED_CHARS or core == whole.strip(_QUOTES) or line.endswith(("…", "..."))):
        return True
    pieces = [whole, *map(_normalize_text, words.splitlines())]
    return any(piece == core or (len(piece) >= _MIN_QUOTED_CHARS and piece in line) for piece in pieces)


def _normalize_text(text: str) -> str:
    return " ".join(text.casefold().split())
