"""Makes text harmless in a prompt: nobody's words can begin a heading, end their block, or hide what they say.

A prompt is read like Markdown. Ours has headings (`## …`) and records, whose lines begin with `> `. Words from the log always stand
behind such a mark; words of whoever set the agent up stand free, with a backslash before what would mean something there.
"""

from __future__ import annotations

import re

RECORD_MARK = "> "
"""Begins every line of a record."""
LINE_BREAK_MARK = " / "
"""Stands for a line break within one line."""
MAX_NAME_CHARS = 60

# Controls; marks that turn the direction of writing; fillers and tags that are not seen at all; halves of characters.
# Line breaks are split at before. The joiners U+200C and U+200D and the emoji selectors U+FE0E and U+FE0F stay: they belong to words.
_INVISIBLE_CHARS = re.compile(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff]"
)
# Programs that serve models may read these as their own: <|im_start|>, [INST], <s>.
_TEMPLATE_TOKENS = re.compile(r"<(?=\|)|(?<=\|)>|\[(?=/?INST\])|<(?=/?s>)")
_TEMPLATE_REPLACEMENTS = {"<": "< ", ">": " >", "[": "[ "}
_MARKDOWN_SYNTAX = re.compile(r"[#＃﹟>]|(?:=+|-{2,}|\*{3,}|_{3,})\s*$")
_CODE_FENCE = re.compile(r"\s*(?:```|~~~)")
_RESERVED_NAMES = frozenset(("you", "the scene", "a visitor"))


def sanitize_line(text: str, longest: int) -> str:
    """Any text on one line of at most so many characters."""
    pieces = (" ".join(piece.split()) for piece in _remove_invisible(text[: 8 * longest]).splitlines())
    return truncate_text(LINE_BREAK_MARK.join(filter(None, pieces)), longest)


def sanitize_name(text: str) -> str:
    """A speaker's name: one line without a colon, which ends it, and never a word that we use for others."""
    shown = sanitize_line(text, MAX_NAME_CHARS).replace(":", "·") or "someone"
    return f"“{shown}”" if shown.casefold() in _RESERVED_NAMES else shown


def quote_record(text: str, longest: int) -> str:
    """Text from the log, every line of it behind the mark of a record; empty lines are left out."""
    pieces = (piece.rstrip() for piece in truncate_text(_remove_invisible(text), longest).splitlines())
    return "\n".join(f"{RECORD_MARK}{_escape_markdown(piece.expandtabs(4), is_open=True)}" for piece in pieces if piece.strip())


def sanitize_text(text: str) -> str:
    """Text of whoever set the agent up: whole, with a backslash before each line that would else be a heading, a record or a rule."""
    pieces = [piece.rstrip() for piece in _remove_invisible(text).splitlines()]
    is_open = sum(1 for piece in pieces if _CODE_FENCE.match(piece)) % 2 == 1
    return "\n".join(_escape_markdown(piece, is_open=is_open) for piece in pieces).strip("\n")


def truncate_text(text: str, longest: int) -> str:
    """The beginning of a text, with three dots where something is missing."""
    return text if len(text) <= longest else f"{text[: max(0, longest - 1)].rstrip()}…"


def truncate_block(text: str, longest: int) -> str:
    """The beginning of a text that is harmless already, and still is."""
    short = truncate_text(text, longest)
    is_open = sum(1 for piece in short.splitlines() if _CODE_FENCE.match(piece)) % 2 == 1
    return f"{short}\n```" if is_open else short


def _escape_markdown(piece: str, *, is_open: bool) -> str:
    """A block of code that is never closed would swallow what follows: its marks are escaped, too."""
    bare = piece.lstrip()
    if _MARKDOWN_SYNTAX.match(bare) or (is_open and _CODE_FENCE.match(bare)):
        return f"{piece[: len(piece) - len(bare)]}\\{bare}"
    return piece


def _remove_invisible(text: str) -> str:
    if text.isascii() and text.isprintable() and "|" not in text and "[" not in text and "<" not in text:
        return text
    return _TEMPLATE_TOKENS.sub(lambda match: _TEMPLATE_REPLACEMENTS[match[0]], _INVISIBLE_CHARS.sub("", text))
