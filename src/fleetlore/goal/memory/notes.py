"""One memory as people see it: a Markdown file with a heading, and a first line that says when and where it was learnt.

    <!-- lore when=2026-01-01T09:00:00Z goal=… turn=3 event=… sum=0123456789ab -->
    # The tests need Node 22

    Run `nvm use 22` first; with 20 the snapshots differ.

Everything may be edited. `sum` is that of the rest of the file: where it does not hold, somebody else has had a hand in it. A file without
such a line is a memory, too. No I/O here.
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
from fleetlore.redact import Redactor, is_surely_clean

INDEX_FILE = "MEMORY.md"
MAX_TITLE_CHARS = 80
MAX_CONTENT_CHARS = 4000
MAX_NAME_BYTES = 160
"""Bytes of a file's name."""
_MAX_SLUG_CHARS = 60
_SCAN_FACTOR = 8
"""So many times the longest text is looked at: secrets go before it is cut, lest half of one should stay."""

_HEADER_COMMENT = re.compile(r"<!-- lore((?: [a-z]+=[\w.:+-]+)*) -->[ \t]*(?:\r?\n|\Z)", re.ASCII)
_is_plain_value = re.compile(r"[\w.:+-]{1,80}", re.ASCII).fullmatch
_JOINERS = "\u200c\u200d"
_redactor = Redactor()


class MemoryNote(Struct, frozen=True, kw_only=True):
    """One memory."""

    title: str
    content: str
    at: datetime
    """When it was learnt; where the file does not say, when it was last changed."""
    goal: str | None = None
    turn: int | None = None
    event: str | None = None
    """The id of the event after which it was written down."""
    name: str = ""
    """Of its file."""
    size: int = 0
    digest: str = ""
    """Of the file's bytes, as they were read."""
    is_ours: bool = False
    """Whether nobody else changed the file since we wrote it."""

    @property
    def first_line(self) -> str:
        """Its first line."""
        return next((line.strip() for line in self.content.splitlines() if line.strip()), "")


def make_note(
    title: str, content: str, *, at: datetime, goal: str | None = None, turn: int | None = None, event: str | None = None
) -> MemoryNote | None:
    """A memory without secrets and control characters, cut to its longest; `None` if nothing is left of it."""
    said = _clean_text(content, MAX_CONTENT_CHARS)
    if not said:
        return None
    named = " ".join(_clean_text(title, MAX_TITLE_CHARS).split()) or text_safety.truncate_text(" ".join(said.split()), MAX_TITLE_CHARS)
    return MemoryNote(title=named, content=said, at=at, goal=goal, turn=turn, event=event)


def encode_note(note: MemoryNote) -> bytes:
    """The file."""
    rest = f"# {note.title}\n\n{note.content}\n"
    when = note.at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    fields = {"when": when, "goal": note.goal, "turn": note.turn, "event": note.event, "sum": text_checksum(rest)}
    told = "".join(f" {key}={value}" for key, value in fields.items() if value is not None and _is_plain_value(str(value)))
    return f"<!-- lore{told} -->\n{rest}".encode(errors="replace")


def parse_note(name: str, raw: bytes, *, changed: datetime) -> MemoryNote:
    """What a file says, whatever it is; secrets are taken out."""
    text = raw.decode(errors="replace").removeprefix("\ufeff")
    front = _HEADER_COMMENT.match(text)
    fields = dict(field.split("=", 1) for field in front[1].split()) if front else {}
    rest = text[front.end() :] if front else text
    title, content = _split_heading(rest)
    turn = fields.get("turn", "")
    return MemoryNote(
        title=_redact_text(title) or name.removesuffix(".md"),
        content=_redact_text(content),
        at=_parse_time(fields.get("when", "")) or changed,
        goal=fields.get("goal"),
        turn=int(turn) if turn.isdecimal() and len(turn) < 10 else None,
        event=fields.get("event"),
        name=name,
        size=len(raw),
        digest=sha256(raw).hexdigest(),
        is_ours="sum" in fields and fields["sum"] == text_checksum(rest),
    )


def text_checksum(text: str) -> str:
    """By which it is seen that a text was changed."""
    return sha256(text.encode(errors="replace")).hexdigest()[:12]


def _split_heading(text: str) -> tuple[str, str]:
    """The heading, and what stands under it."""
    first, _, rest = text.lstrip().partition("\n")
    if not first.startswith("# "):
        return "", text.strip()
    return " ".join(first[2:].split())[:MAX_TITLE_CHARS], rest.strip()


def _parse_time(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _clean_text(text: str, longest: int) -> str:
    seen = "".join(map(_replace_unprintable, "\n".join(text[: _SCAN_FACTOR * longest].splitlines())))
    return text_safety.truncate_text(_redact_text(seen).strip(), longest)


def _replace_unprintable(character: str) -> str:
    if character.isprintable() or character in "\n\t" or character in _JOINERS:
        return character
    return " " if character.isspace() else ""


def _redact_text(text: str) -> str:
    return text if is_surely_clean(text.encode(errors="replace")) else _redactor.redact_value(text)[0]


# --- names of files


def slugify_title(title: str) -> str:
    """A title as a name: small letters, digits and hyphens; never empty, and never the index's."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    slug = "-".join(re.findall(r"[a-z0-9]+", plain))[:_MAX_SLUG_CHARS].strip("-")
    if not slug or slug == "memory":
        return f"memory-{sha256(title.encode(errors='replace')).hexdigest()[:8]}"
    return slug


def pick_free_name(title: str, taken: Container[str]) -> str:
    """A name for a new file. `taken` are those in use, in small letters: some file systems do not tell `A` from `a`."""
    slug = slugify_title(title)
    names = (f"{slug}.md" if number == 1 else f"{slug}-{number}.md" for number in count(1))
    return next(name for name in names if name not in taken)


def is_note_name(name: str) -> bool:
    """Whether a file of this name can be a memory: Markdown, not hidden, not the index, nothing that leads elsewhere or cannot be shown."""
    if not name.lower().endswith(".md") or name.startswith(".") or name.lower() == INDEX_FILE.lower():
        return False
    return not is_unsafe_name(name) and len(name.encode()) <= MAX_NAME_BYTES


def is_unsafe_name(name: str) -> bool:
    """Whether a name could mean something outside the folder, or is spelt so as to hide what it means."""
    spelt = unicodedata.normalize("NFKC", name).lower()
    if any(sign in spelt for sign in ("/", "\\", "..", "%2e", "%2f", "%5c")) or spelt.startswith((".", "~")):
        return True
    return not name.isprintable() or re.match(r"[a-z]:", spelt) is not None
