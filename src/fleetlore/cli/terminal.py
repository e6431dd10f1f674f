"""Output to terminals and pipes. Removes escape sequences and invisible characters from untrusted text."""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from io import TextIOWrapper
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta

# CSI: colours, cursor. OSC, DCS and so on: titles, links, clipboard. Then all shorter sequences.
_SEQUENCES = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)|\x1b[ -/]*[0-~]"
_BREAKS = "[\t\n\x0b\f\r\x1c-\x1e\x85\u2028\u2029]+"
# Control characters, bidi marks, invisible characters, lone surrogates.
# The joiners U+200C and U+200D stay: words and emoji need them.
_HOSTILE = (
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)


@cache
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compiled at first use, because `lore emit` needs none of them."""
    return re.compile(pattern)


def sanitise_text(text: str) -> str:
    """The text on one line, without escape sequences, control, bidi and invisible characters."""
    if text.isascii() and text.isprintable():
        return text
    return _compile_pattern(_HOSTILE).sub("�", _compile_pattern(_BREAKS).sub(" ", _compile_pattern(_SEQUENCES).sub("", text)))


def escape_json(text: str) -> str:
    """Equivalent JSON with unsafe characters as \\u escapes."""
    return _compile_pattern(_HOSTILE).sub(_escape_character, text)


def _escape_character(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def be_lenient() -> None:
    """Write characters that the locale cannot encode as `?` instead of failing."""
    if sys.stdout.encoding.lower() not in ("utf-8", "utf8") and isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def print_line(line: str) -> None:
    """Print a trusted line to standard output."""
    sys.stdout.write(f"{line}\n")


def print_error(message: str) -> None:
    """Print a message to standard error, sanitised."""
    sys.stderr.write("".join(f"{sanitise_text(line)}\n" for line in message.split("\n")))


_warned: set[str] = set()


def warn_once(message: str) -> None:
    """Print a warning to standard error, once per command."""
    if message not in _warned:
        _warned.add(message)
        print_error(f"lore: {message}")


def forget_warnings() -> None:
    """Forget which warnings were printed, for the next command in this process."""
    _warned.clear()


def print_json(raw: bytes) -> None:
    """Print a line of JSON; on a terminal with unsafe characters escaped."""
    if is_terminal(sys.stdout):
        sys.stdout.write(f"{escape_json(raw.decode(errors='replace'))}\n")
    else:
        sys.stdout.buffer.write(raw + b"\n")


def print_value(value: object) -> None:
    """Print a value as one line of JSON."""
    import msgspec

    print_json(msgspec.json.encode(value))


def flush_output() -> None:
    """Flush both streams, so that a full disk or a closed pipe raises here."""
    sys.stdout.flush()
    sys.stderr.flush()


def is_terminal(stream: IO[str]) -> bool:
    """Whether a stream is a terminal."""
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def has_colour(stream: IO[str]) -> bool:
    """Whether colours may be written; NO_COLOR turns them off."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal_width(stream: IO[str]) -> int:
    """The width of the terminal, else $COLUMNS, else 80."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        columns = os.environ.get("COLUMNS", "")
        return int(columns) if columns.isdecimal() and int(columns) else 80


# --- times, and who runs this

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def format_age(time: timedelta) -> str:
    """A stretch of time in its largest unit: `45 s`, `3 min`, `2 h`, `5 d`."""
    seconds = max(0, int(time.total_seconds()))
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), _UNITS[-1])
    return f"{seconds // size} {unit}"


def format_ago(time: timedelta) -> str:
    """How long ago; marked if it is in the future because of another clock."""
    seconds = time.total_seconds()
    if seconds < -1:
        return f"in {format_age(-time)}"
    return "now" if seconds < 1 else f"{format_age(time)} ago"


def find_user_name() -> str:
    """The login name of the user."""
    name = os.environ.get("LOGNAME") or os.environ.get("USER")
    if name:
        return name
    from pwd import getpwuid

    try:
        return getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid-{os.getuid()}"


# --- columns: wide characters take two


def display_width(text: str) -> int:
    """The columns that a text takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def _character_width(character: str) -> int:
    import unicodedata  # not at the top: `lore emit` needs none of this

    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def truncate_columns(text: str, width: int) -> str:
    """The text truncated to `width` columns, with … at the end."""
    if display_width(text) <= width:
        return text
    taken, room = 0, width - 1
    for index, character in enumerate(text):
        taken += _character_width(character)
        if taken > room:
            return text[:index] + "…" if width > 0 else ""
    return text


def pad_columns(text: str, width: int) -> str:
    """The text padded to `width` columns."""
    return text + " " * (width - display_width(text))
