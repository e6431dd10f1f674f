"""Plans of missions as people write them: TOML read, with every problem at once, and written again. docs/town-plans.md has the format."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from fleetlore.documents.validation import KeyPath, fit, one_of, plain
from fleetlore.errors import InvalidPlan
from fleetlore.town.plans.model import (
    LONGEST_DESCRIPTION,
    LONGEST_TITLE,
    MOST_BYTES,
    MOST_ITEMS,
    MOST_NAMES,
    MOST_PARALLEL,
    MOST_TRIES,
    Findings,
    MissionPlan,
    PlannedItem,
    check_links,
    check_name,
    check_size,
    shown,
    slug,
)
from fleetlore.views.town_state import ITEM_TYPES, PARALLEL, TRIES

_Names = Annotated[tuple[str, ...], Meta(max_length=MOST_NAMES)]


class _Head(Struct, kw_only=True):
    """What stands at the top."""

    title: str = ""
    id: str = ""
    max_parallel: Annotated[int, Meta(ge=1, le=MOST_PARALLEL)] = PARALLEL
    review: bool = True
    watch_pulls: bool = False
    tries: Annotated[int, Meta(ge=1, le=MOST_TRIES)] = TRIES
    items: list[Any] = []


class _Item(Struct, kw_only=True):
    """What stands under `[[items]]`."""

    id: str = ""
    title: str = ""
    type: str = "implement"
    description: str = ""
    depends_on: _Names = ()
    role: str = ""
    roles: _Names = ()
    checks: _Names = ()
    source: str = ""


_TYPES = {name.replace("_", ""): name for name in ITEM_TYPES}
"""`mergegate`, however its words are parted → `merge_gate`."""


def read(text: str, source: str = "the plan") -> MissionPlan:
    """The mission that a TOML text plans; `InvalidPlan` names all that is wrong with it."""
    root = _parsed(text, source)
    findings = Findings(source, _Lines(text).line_of)
    head = _Head(**fit(findings, (), root, _Head))
    if not head.title.strip():
        findings.complain(("title",) if "title" in root else (), 'title is missing: what is the mission for? Write title = "…"')
    _check_text(findings, ("title",), head.title, LONGEST_TITLE)
    if head.id:
        check_name(findings, ("id",), head.id, "an id")
    items = _items(findings, head.items)
    check_links(findings, items)
    check_size(findings, (item for _, item in items))
    findings.stop_if_wrong()
    return MissionPlan(
        id=head.id or slug(head.title),
        title=head.title.strip(),
        items=tuple(item for _, item in items),
        max_parallel=head.max_parallel,
        needs_review=head.review,
        watches_pulls=head.watch_pulls,
        tries=head.tries,
    )


def _parsed(text: str, source: str) -> dict[str, Any]:
    if len(text.encode(errors="replace")) > MOST_BYTES:
        raise InvalidPlan([f"{source}: over {MOST_BYTES // 1024**2} MiB; let the items name files that tell the rest"])
    try:
        root: dict[str, Any] = plain(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise InvalidPlan([f"{source}: not TOML: {error}"]) from error
    return root


def _items(findings: Findings, told: Sequence[Any]) -> list[tuple[KeyPath, PlannedItem]]:
    if not told:
        findings.complain((), "there are no items; write [[items]] with an id and a title for each piece of work")
    if len(told) > MOST_ITEMS:
        findings.complain(("items",), f"{len(told)} items; at most {MOST_ITEMS} are taken: make several missions of them")
    return [(("items", index), _item(findings, ("items", index), each)) for index, each in enumerate(told[:MOST_ITEMS])]


def _item(findings: Findings, path: KeyPath, told: Any) -> PlannedItem:
    item = _Item(**fit(findings, path, told, _Item))
    if not item.id:
        findings.complain(path, "id is missing; other items name it by that")
    else:
        check_name(findings, (*path, "id"), item.id, "an id")
    if item.role and item.roles:
        findings.complain((*path, "role"), "role and roles are the same; write one of them")
    type = _TYPES.get(re.sub(r"[\s_-]", "", item.type.lower()))
    if type is None:
        findings.complain((*path, "type"), one_of(item.type, ITEM_TYPES))
    _check_text(findings, (*path, "title"), item.title, LONGEST_TITLE)
    _check_text(findings, (*path, "description"), item.description, LONGEST_DESCRIPTION)
    _check_text(findings, (*path, "source"), item.source, LONGEST_DESCRIPTION)
    roles = item.roles or ((item.role,) if item.role else ())
    for key, names in (("roles", roles), ("checks", item.checks)):
        for index, name in enumerate(names):
            check_name(findings, (*path, key, index) if len(names) > 1 else (*path, key), name, f"the name of a {key[:-1]}")
    return PlannedItem(
        id=item.id or f"{path[-1]}",
        title=item.title.strip() or item.id,
        type=type or "implement",
        description=item.description,
        depends_on=_once(item.depends_on),
        roles=_once(roles),
        checks=_once(item.checks),
        source=item.source,
    )


def _check_text(findings: Findings, path: KeyPath, text: str, most: int) -> None:
    """Complain about a text that the log would cut."""
    if (size := len(text.encode(errors="replace"))) > most:
        findings.complain(path, f"{size:,} bytes; at most {most:,} are kept: name a file that tells the rest")


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def write(plan: MissionPlan) -> str:
    """The plan as TOML that reads back as the same."""
    lines = [f"title = {_quoted(plan.title)}", f"id = {_quoted(plan.id)}"]
    head = (
        ("max_parallel", plan.max_parallel, PARALLEL),
        ("review", plan.needs_review, True),
        ("watch_pulls", plan.watches_pulls, False),
        ("tries", plan.tries, TRIES),
    )
    lines += [f"{key} = {json.dumps(value)}" for key, value, usual in head if value != usual]
    lines += [f"# left out: {shown(each)}" for each in plan.left_out]
    for item in plan.items:
        lines += ["", "[[items]]", f"id = {_quoted(item.id)}", f"title = {_quoted(item.title)}", f"type = {_quoted(item.type)}"]
        texts = {"description": item.description, "source": item.source}
        lines += [f"{key} = {_quoted(text)}" for key, text in texts.items() if text]
        names: Mapping[str, tuple[str, ...]] = {"depends_on": item.depends_on, "roles": item.roles, "checks": item.checks}
        lines += [f"{key} = [{', '.join(map(_quoted, each))}]" for key, each in names.items() if each]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """JSON's strings are TOML's, but for one character that TOML wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


class _Lines:
    """On which line a key stands. TOML's reader does not tell; what is written one key a line, as people do, is found again."""

    _header = re.compile(r"\s*\[\[\s*items\s*\]\]")
    _key = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([\w-]+))\s*=""")
    _fence = re.compile(r'"""|\'\'\'')

    def __init__(self, text: str) -> None:
        self._lines: dict[KeyPath, int] = {}
        here: KeyPath = ()
        count, fence = 0, ""
        for number, line in enumerate(text.split("\n"), 1):
            if not fence and self._header.match(line):
                here, count = ("items", count), count + 1
                self._lines[here] = number
            elif not fence and (key := self._key.match(line)):
                self._lines.setdefault((*here, key[1] or key[2] or key[3] or ""), number)
            for mark in self._fence.findall(line):
                fence = mark if not fence else "" if mark == fence else fence

    def line_of(self, path: KeyPath) -> int | None:
        """The line of the nearest thing that has one."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path)
