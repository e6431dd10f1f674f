"""One memory as a Markdown file, with a header comment that says when and where it was learnt. No I/O.

<!-- lore when=2026-01-01T09:00:00Z goal=… turn=3 event=… sum=0123456789ab -->
# The tests need Node 22

Run `nvm use 22` first; with 20 the snapshots differ.

People may edit everything. `sum` is a checksum of the rest of the file: if it does not match, the file was edited.
A file without a header is a memory, too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container
from datetime import UTC, datetime
from hashlib import sha256
from itertools import count

from msgspec import Struct

from fleetlore.prompts import text_safety
from fleetlore.redact import Redactor
from fleetlore.redact_needles import is_surely_clean

INDEX_FILE = "MEMORY.md"
MAX_TITLE_CHARS = 80
MAX_CONTENT_CHARS = 4000
MAX_NAME_BYTES = 160
"""Longest file name."""
_MAX_SLUG_CHARS = 60
_SCAN_FACTOR = 8
"""Redaction looks at this many times the maximum length before the text is cut, so that no half of a secret remains."""

_HEADER_COMMENT = re.compile(r"<!-- lore((?: [a-z]+=[\w.:+-]+)*) -->[ \t]*(?:\r?\n|\Z)", re.ASCII)
_match_plain_value = re.compile(r"[\w.:+-]{1,80}", re.ASCII).fullmatch
_JOINERS = "\u200c\u200d"
_redactor = Redactor()


class MemoryNote(Struct, frozen=True, kw_only=True):
    """One memory."""

    title: str
    content: str
    at: datetime
    """When it was learnt; if the file does not say, when the file was last changed."""
    goal: str | None = None
    turn: int | None = None
    event: str | None = None
    """The id of the event after which it was written."""
    name: str = ""
    """The file name."""
    size: int = 0
    digest: str = ""
    """Digest of the file as it was read."""
    is_ours: bool = False
    """Whether the file is unchanged since we wrote it."""

    @property
    def first_line(self) -> str:
        """The first line of the content that is not empty."""
        return next((line.strip() for line in self.content.splitlines() if line.strip()), "")


def make_note(
    title: str, content: str, *, at: datetime, goal: str | None = None, turn: int | None = None, event: str | None = None
) -> MemoryNote | None:
    """A memory without secrets and control characters, cut to the maximum length; `None` if nothing is left."""
    clean_content = _clean_text(content, MAX_CONTENT_CHARS)
    if not clean_content:
        return None
    clean_title = " ".join(_clean_text(title, MAX_TITLE_CHARS).split()) or text_safety.truncate_text(
        " ".join(clean_content.split()), MAX_TITLE_CHARS
    )
    return MemoryNote(title=clean_title, content=clean_content, at=at, goal=goal, turn=turn, event=event)


def encode_note(note: MemoryNote) -> bytes:
    """The content of the file."""
    body = f"# {note.title}\n\n{note.content}\n"
    when = note.at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    fields = {"when": when, "goal": note.goal, "turn": note.turn, "event": note.event, "sum": text_checksum(body)}
    attributes = "".join(f" {key}={value}" for key, value in fields.items() if value is not None and _match_plain_value(str(value)))
    return f"<!-- lore{attributes} -->\n{body}".encode(errors="replace")


def parse_note(name: str, raw: bytes, *, changed_at: datetime) -> MemoryNote:
    """The memory in a file of any content, with secrets redacted. `changed_at` is used if the file has no time."""
    text = raw.decode(errors="replace").removeprefix("\ufeff")
    header = _HEADER_COMMENT.match(text)
    fields = dict(field.split("=", 1) for field in header[1].split()) if header else {}
    body = text[header.end() :] if header else text
    title, content = _split_heading(body)
    turn = fields.get("turn", "")
    return MemoryNote(
        title=_redact_text(title) or name.removesuffix(".md"),
        content=_redact_text(content),
        at=_parse_time(fields.get("when", "")) or changed_at,
        goal=fields.get("goal"),
        turn=int(turn) if turn.isdecimal() and len(turn) < 10 else None,
        event=fields.get("event"),
        name=name,
        size=len(raw),
        digest=sha256(raw).hexdigest(),
        is_ours="sum" in fields and fields["sum"] == text_checksum(body),
    )


def text_checksum(text: str) -> str:
    """Checksum by which edits are detected."""
    return sha256(text.encode(errors="replace")).hexdigest()[:12]


def _split_heading(text: str) -> tuple[str, str]:
    first, _, rest = text.lstrip().partition("\n")
    if not first.startswith("# "):
        return "", text.strip()
    return " ".join(first[2:].split())[:MAX_TITLE_CHARS], rest.strip()


def _parse_time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _clean_text(text: str, max_chars: int) -> str:
    printable = "".join(map(_replace_unprintable, "\n".join(text[: _SCAN_FACTOR * max_chars].splitlines())))
    return text_safety.truncate_text(_redact_text(printable).strip(), max_chars)


def _replace_unprintable(char: str) -> str:
    if char.isprintable() or char in "\n\t" or char in _JOINERS:
        return char
    return " " if char.isspace() else ""


def _redact_text(text: str) -> str:
    return text if is_surely_clean(text.encode(errors="replace")) else _redactor.redact_value(text)[0]


# --- File names


def slugify_title(title: str) -> str:
    """A file name from a title: lower-case letters, digits and hyphens. Never empty, and never that of the index."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    slug = "-".join(re.findall(r"[a-z0-9]+", plain))[:_MAX_SLUG_CHARS].strip("-")
    if not slug or slug == "memory":
        return f"memory-{sha256(title.encode(errors='replace')).hexdigest()[:8]}"
    return slug


def pick_free_name(title: str, taken: Container[str]) -> str:
    """A name for a new file. `taken` must be in lower case, as some file systems ignore case."""
    slug = slugify_title(title)
    names = (f"{slug}.md" if number == 1 else f"{slug}-{number}.md" for number in count(1))
    return next(name for name in names if name not in taken)


def is_note_name(name: str) -> bool:
    """Whether a file of this name can be a memory: Markdown, not hidden, not the index, a safe and printable name."""
    if not name.lower().endswith(".md") or name.startswith(".") or name.lower() == INDEX_FILE.lower():
        return False
    return not is_unsafe_name(name) and len(name.encode()) <= MAX_NAME_BYTES


def is_unsafe_name(name: str) -> bool:
    """Whether a name could refer to something outside the folder, or disguises what it refers to."""
    normalized = unicodedata.normalize("NFKC", name).lower()
    if any(pattern in normalized for pattern in ("/", "\\", "..", "%2e", "%2f", "%5c")) or normalized.startswith((".", "~")):
        return True
    return not name.isprintable() or re.match(r"[a-z]:", normalized) is not None
