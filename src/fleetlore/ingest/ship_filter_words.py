"""Tells names from prose by form alone, for the ship filter; in doubt it is prose."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

LONGEST = 200
"""A longer string, or one with several lines, is not a name and is withheld."""

_PLACEHOLDER = re.compile(r"\[withheld: [0-9,]+ bytes?\]")

# No blanks, quotes, brackets, question or equals signs: names, ids, paths, times, numbers, addresses without a query.
_NAME_PATTERN = re.compile(r"[\w.:/@+~#-]*%?")
_LONG_WORD = re.compile(r"\w{65}")  # longer than any hash; may be encoded text
_PLUS_FOR_BLANK = re.compile(r"[^\W\d]\+[^\W\d]")
_FIRST_UNSPACED_CHAR = "\u0590"
"""From here on, scripts may not separate words by blanks: sentences look like names."""

_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d(\.\d{1,9})?)?( ?([Zz]|UTC|[+-]\d\d:?\d\d))?")
_EXTENSION = re.compile(r"\.\w{1,8}")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")

# In data without a schema, keys with these words hold content.
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
"""Keys that hold messages, where others hold code."""
_TEXT_KEY_PARTS = ("prompt", "message", "content", "transcript", "instruction", "response", "command", "thought")
"""Found even where a key runs several words together."""

_QUOTES = "`'\"“”‘’«»…. "
_MIN_QUOTED_CHARS = 6
"""A shorter text could match by chance."""


def is_placeholder(value: Any) -> bool:
    """Whether a value was withheld already."""
    return isinstance(value, str) and _PLACEHOLDER.fullmatch(value) is not None


def is_long_text(value: str) -> bool:
    """Whether a text is too long, or has too many lines, to be a title or a reason."""
    return len(value) > LONGEST or len(value.splitlines()) > 1 or "\n" in value or "\r" in value


@lru_cache(maxsize=8192)
def looks_like_name(text: str) -> bool:
    """Whether a text is a name, an id, a path, a time, a number, an address without a query, or empty."""
    if len(text) > LONGEST or max(text, default="") >= _FIRST_UNSPACED_CHAR:
        return False
    if is_placeholder(text) or _TIME.fullmatch(text):
        return True
    return _NAME_PATTERN.fullmatch(text) is not None and not _LONG_WORD.search(text) and not _PLUS_FOR_BLANK.search(text)


def is_path_value(value: Any) -> bool:
    """Whether a value names files. Blanks are allowed only in absolute paths or before a file extension."""
    if isinstance(value, list):
        return all(isinstance(item, str) and is_path_value(item) for item in value)
    if not isinstance(value, str) or len(value) > LONGEST or not value.isprintable():
        return False
    if not any(map(str.isspace, value)):
        return True
    return (value.startswith("/") and value.count("/") > 1) or _EXTENSION.fullmatch(value[value.rfind(".") :]) is not None


@lru_cache(maxsize=4096)
def is_text_key(name: str) -> bool:
    """Whether a key says that its field holds content: `userPrompt`, `old_string`, `tool-responses`."""
    lowered = name.lower()
    return any(word in lowered for word in _TEXT_KEY_PARTS) or any(_is_text_word(word.lower()) for word in _WORD.findall(name))


@lru_cache(maxsize=4096)
def is_message_key(name: str) -> bool:
    """Whether a key says that its field holds a message."""
    return any(not _MESSAGE_KEY_WORDS.isdisjoint(_singular_forms(word.lower())) for word in _WORD.findall(name))


def _is_text_word(word: str) -> bool:
    return not _TEXT_KEY_WORDS.isdisjoint(_singular_forms(word))


def _singular_forms(word: str) -> tuple[str, ...]:
    return word, word.removesuffix("s"), word.removesuffix("es"), f"{word.removesuffix('ies')}y"


def is_quoting(text: str, words: str) -> bool:
    """Whether a text repeats some words or is their beginning."""
    line, quoted = _normalize_text(text), _normalize_text(words)
    core = line.strip(_QUOTES)
    if not core or not quoted:
        return False
    if core in quoted and (len(core) >= _MIN_QUOTED_CHARS or core == quoted.strip(_QUOTES) or line.endswith(("…", "..."))):
        return True
    pieces = [quoted, *map(_normalize_text, words.splitlines())]
    return any(piece == core or (len(piece) >= _MIN_QUOTED_CHARS and piece in line) for piece in pieces)


def _normalize_text(text: str) -> str:
    return " ".join(text.casefold().split())
