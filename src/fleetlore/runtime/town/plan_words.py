"""What an issue's words tell of its work: which others it waits for, of what type it is, and who should take it.

Whole words alone count: `build` is nothing for a designer of user interfaces. Labels are asked first, then the title.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, pairwise
from typing import NamedTuple


class Reference(NamedTuple):
    """An issue that is named in a text: `#12`, `owner/repo#12`, or an address."""

    number: int
    repository: str = ""
    host: str = ""
    is_done: bool = False
    """Whether its box is ticked."""

    def __str__(self) -> str:
        place = f"{self.host}/{self.repository}" if self.host else self.repository
        return f"{place}#{self.number}"


_HIDDEN = re.compile(
    r"<!--.*?(?:-->|\Z)"  # what a template asks for
    r"|^[ \t]*(?P<fence>```+|~~~+)[^\n]*\n.*?(?:^[ \t]*(?P=fence)[^\n]*$|\Z)"
    r"|`[^`\n]+`"
    r"|~~[^~\n]+~~"
    r"|^[ \t]*>[^\n]*$",
    re.DOTALL | re.MULTILINE,
)
"""What is not said by the issue itself: comments, code, what is struck out, what others are quoted with."""
_WAITS = re.compile(
    r"(?P<no>(?:\bno longer|\bnot|\bnever|n['’]t)\s{1,9})?"
    r"(?<![\w-])(?:depends[ \t-]+on|blocked[ \t-]+by|requires|after)(?![\w-])[*_]*[ \t]*:?[*_]*",
    re.IGNORECASE,
)
_NAME = r"[\w.-]{1,100}"
_REFERENCE = re.compile(
    rf"\[?(?:https?://(?P<host>[\w.:-]{{1,255}})/(?P<path>{_NAME}/{_NAME})/(?:issues|pulls?)/(?P<linked>[0-9]{{1,12}})"
    rf"|(?P<repository>{_NAME}/{_NAME})?\#(?P<number>[0-9]{{1,12}}))(?![\w-])(?:[?#][^\s)\]]{{0,200}})?\]?(?:\([^()\s]{{0,500}}\))?",
)
_BULLET = r"(?:[-*+]|[0-9]{1,9}[.)])[ \t]+"
_TICK = r"\[(?P<tick>[ xX])\][ \t]+"
_BOX = re.compile(rf"^[ \t]*{_BULLET}{_TICK}", re.MULTILINE)
_NOUN = r"(?:(?:the[ \t]+)?(?:issue|ticket|task|pull[ \t]+request|pr)s?[ \t]+)?"
_FIRST = re.compile(rf"\s*(?P<bullet>{_BULLET}(?:{_TICK})?)?{_NOUN}", re.IGNORECASE)
_NEXT = re.compile(rf"[ \t]*(?:,?[ \t]*\band\b|[,;&+])(?P<tick>)\s*{_NOUN}", re.IGNORECASE)
_NEXT_BULLET = re.compile(rf"[^\n]*\n[ \t]*{_BULLET}(?:{_TICK})?")


def find_dependencies(body: str) -> list[Reference]:
    """The issues that a text says it waits for, each once, in its order."""
    text = _HIDDEN.sub(lambda found: " " * len(found[0]), body)
    found = sorted((*_worded(text), *_boxed(text)), key=lambda each: each[0])
    unique: dict[tuple[int, str, str], Reference] = {}
    for _, each in found:
        unique.setdefault((each.number, each.repository.lower(), each.host.lower()), each)
    return list(unique.values())


def _worded(text: str) -> Iterator[tuple[int, Reference]]:
    """After `depends on` and its like, one or several."""
    for words in _WAITS.finditer(text):
        if words["no"]:
            continue
        between = _FIRST.match(text, words.end())
        further = _NEXT_BULLET if between and between["bullet"] else _NEXT
        while between and (found := _REFERENCE.match(text, between.end())):
            yield found.start(), _reference(found, between["tick"])
            between = further.match(text, found.end())


def _boxed(text: str) -> Iterator[tuple[int, Reference]]:
    """A list of tasks that are issues: whoever keeps it waits for them."""
    for box in _BOX.finditer(text):
        if found := _REFERENCE.match(text, box.end()):
            yield found.start(), _reference(found, box["tick"])


def _reference(found: re.Match[str], tick: str | None) -> Reference:
    return Reference(
        number=int(found["linked"] or found["number"]),
        repository=found["path"] or found["repository"] or "",
        host=found["host"] or "",
        is_done=tick in ("x", "X"),
    )


_TYPES: Mapping[str, str] = {
    word: type
    for type, words in {
        "design": "design architecture rfc proposal spec specification",
        "implement": "implement implementation feature bug bugfix fix fixes enhancement refactor refactoring chore build create support",
        "test": "test tests testing qa coverage",
        "review": "review audit",
        "merge_gate": "merge-gate mergegate",
        "follow_up": "follow-up followup",
    }.items()
    for word in words.split()
}
_ROLES: Mapping[str, str] = {
    word: role
    for role, words in {
        "backend": "backend back-end api server database",
        "frontend": "frontend front-end ui ux css",
        "tester": "tester qa",
        "reviewer": "reviewer",
        "devops": "devops infra infrastructure ci deployment docker",
        "researcher": "researcher research",
    }.items()
    for word in words.split()
}
_STATED = re.compile(r"\s*(type|kind|role)\s*[:/=]\s*(.+?)\s*", re.IGNORECASE)


def infer_type(labels: Iterable[str], title: str) -> str:
    """Of what type an issue's work is; `implement` where nothing tells."""
    for label in labels:
        if stated := _STATED.fullmatch(label):
            label = stated[2] if stated[1].lower() != "role" else ""
        if found := _first(_TYPES, _words(label)):
            return found
    words = _words(title)
    # Whoever writes a page of reviews reviews nothing: the word must be what the title begins with.
    return _first(_TYPES, [word for index, word in enumerate(words) if not index or _TYPES.get(word) != "review"]) or "implement"


def infer_roles(labels: Iterable[str], title: str) -> tuple[str, ...]:
    """Who should take it: what labels such as `role: backend` say, else a known word of labels or title; else anybody."""
    stated = [found[2].lower() for label in labels if (found := _STATED.fullmatch(label)) and found[1].lower() == "role"]
    known = (role for text in (*labels, title) if (role := _first(_ROLES, _words(text))))
    return tuple(dict.fromkeys(stated)) or tuple(islice(known, 1))


def _words(text: str) -> list[str]:
    """Its words; two that belong together (`follow up`, `merge gate`, `front-end`) as one."""
    words = re.findall(r"[^\W_]+", text.lower())
    pairs = [f"{one}-{two}" for one, two in pairwise((*words, ""))]
    return [pair if pair in _TYPES or pair in _ROLES else word for word, pair in zip(words, pairs, strict=True)]


def _first(known: Mapping[str, str], words: Iterable[str]) -> str | None:
    return next((known[word] for word in words if word in known), None)
