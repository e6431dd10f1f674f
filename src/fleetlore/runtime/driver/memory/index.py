"""`MEMORY.md`: a list of all memories, made anew after each change, and above it whatever people write there; pure.

What stands above the list stays, and is told first in every prompt: the place for what is always to be known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fleetlore.context import fence
from fleetlore.redact import Redactor
from fleetlore.runtime.driver.memory.notes import Note, sum_of

_LONGEST_GIST = 120
_SAYS = "the list below is made anew after each change; what stands above it stays"
_MARK = re.compile(r"^<!-- lore index sum=([0-9a-f]{12}): [^\n]* -->\r?$", re.MULTILINE)
_OURS = re.compile(r"<!-- lore index |- \[.*\]\(.*\.md>?\): .* \(\d{4}-\d\d-\d\d\)\s*$", re.IGNORECASE)
_redactor = Redactor()


def rebuilt(before: bytes | None, notes: Sequence[Note]) -> bytes:
    """The index of these memories; what others wrote into the last one stands above the list."""
    above = _above(_text(before))
    above = f"{above}\n\n" if above else ""
    below = "\n".join(map(_entry, notes)) + "\n" if notes else ""
    return f"{above}<!-- lore index sum={sum_of(above + below)}: {_SAYS} -->\n{below}".encode(errors="replace")


def pinned(raw: bytes | None) -> str:
    """What people wrote above the list, without secrets."""
    return _redactor.clean(_above(_text(raw)))[0]


def is_ours(raw: bytes) -> bool:
    """Whether nobody else has changed it since it was made."""
    text = _text(raw)
    mark = _MARK.search(text)
    return mark is not None and mark[1] == sum_of(text[: mark.start()] + text[mark.end() + 1 :])


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode(errors="replace").removeprefix("\ufeff")


def _above(text: str) -> str:
    mark = _MARK.search(text)
    if mark is None:
        return _others(text)
    return "\n".join((_others(text[: mark.start()]), _others(text[mark.end() :]))).strip()


def _others(text: str) -> str:
    """Without lines that we wrote."""
    return "\n".join(line for line in text.splitlines() if not _OURS.match(line)).strip()


def _entry(note: Note) -> str:
    title = fence.line(note.title, _LONGEST_GIST).replace("[", "(").replace("]", ")")
    link = note.name if re.fullmatch(r"[\w.-]+", note.name) else f"<{note.name.replace('<', '').replace('>', '')}>"
    return f"- [{title}]({link}): {fence.line(note.gist, _LONGEST_GIST)} ({note.at:%Y-%m-%d})"
