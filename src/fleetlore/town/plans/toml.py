"""Reads mission plans in TOML, reporting all problems at once, and writes them. The format is in docs/town-plans.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from fleetlore.documents.document import Document, parse_document
from fleetlore.documents.validation import KeyPath, invalid_choice_message, make_excerpt
from fleetlore.town.plans.model import (
    MAX_DESCRIPTION_BYTES,
    MAX_ITEMS,
    MAX_NAMES,
    MAX_PARALLEL,
    MAX_TITLE_BYTES,
    MAX_TRIES,
    PLAN,
    MissionPlan,
    PlannedItem,
    check_dependencies,
    check_name,
    check_total_size,
    slugify_title,
)
from fleetlore.views.town_state import DEFAULT_PARALLEL, DEFAULT_TRIES, ITEM_TYPES

_Names = Annotated[tuple[str, ...], Meta(max_length=MAX_NAMES)]


class _PlanHeader(Struct, kw_only=True):
    """Top-level keys of a plan."""

    title: str = ""
    id: str = ""
    max_parallel: Annotated[int, Meta(ge=1, le=MAX_PARALLEL)] = DEFAULT_PARALLEL
    review: bool = True
    watch_pulls: bool = False
    tries: Annotated[int, Meta(ge=1, le=MAX_TRIES)] = DEFAULT_TRIES
    items: list[Any] = []


class _PlanItem(Struct, kw_only=True):
    """Keys of an `[[items]]` table."""

    id: str = ""
    title: str = ""
    type: str = "implement"
    description: str = ""
    depends_on: _Names = ()
    role: str = ""
    roles: _Names = ()
    checks: _Names = ()
    source: str = ""


_TYPE_BY_ALIAS = {name.replace("_", ""): name for name in ITEM_TYPES}
"""Spelling without separators → type: `mergegate` → `merge_gate`."""


def parse_toml_plan(text: str, source: str = "the plan") -> MissionPlan:
    """Parse a plan from TOML text; `InvalidPlan` lists everything that is wrong."""
    return build_plan(parse_document(text, source, PLAN))


def build_plan(document: Document) -> MissionPlan:
    """Build a plan from a parsed file; `InvalidPlan` lists everything that is wrong."""
    root = document.root
    header = _PlanHeader(**document.convert_fields((), root, _PlanHeader))
    if not header.title.strip():
        document.add_error(("title",) if "title" in root else (), 'title is missing; add title = "…"')
    _check_text_size(document, ("title",), header.title, MAX_TITLE_BYTES)
    if header.id:
        check_name(document, ("id",), header.id, "an id")
    items = _parse_items(document, header.items)
    check_dependencies(document, items)
    check_total_size(document, (item for _, item in items))
    document.raise_if_invalid()
    return MissionPlan(
        id=header.id or slugify_title(header.title),
        title=header.title.strip(),
        items=tuple(item for _, item in items),
        max_parallel=header.max_parallel,
        needs_review=header.review,
        watches_pulls=header.watch_pulls,
        tries=header.tries,
    )


def _parse_items(document: Document, tables: Sequence[Any]) -> list[tuple[KeyPath, PlannedItem]]:
    if not tables:
        document.add_error((), "there are no items; add [[items]] with an id and a title for each")
    if len(tables) > MAX_ITEMS:
        document.add_error(("items",), f"{len(tables)} items; at most {MAX_ITEMS} are allowed: split the mission")
    return [(("items", index), _parse_item(document, ("items", index), table)) for index, table in enumerate(tables[:MAX_ITEMS])]


def _parse_item(document: Document, path: KeyPath, table: Any) -> PlannedItem:
    item = _PlanItem(**document.convert_fields(path, table, _PlanItem))
    if not item.id:
        document.add_error(path, "id is missing; other items refer to it by its id")
    else:
        check_name(document, (*path, "id"), item.id, "an id")
    if item.role and item.roles:
        document.add_error((*path, "role"), "role and roles mean the same; use one of them")
    type = _TYPE_BY_ALIAS.get(re.sub(r"[\s_-]", "", item.type.lower()))
    if type is None:
        document.add_error((*path, "type"), invalid_choice_message(item.type, ITEM_TYPES))
    _check_text_size(document, (*path, "title"), item.title, MAX_TITLE_BYTES)
    _check_text_size(document, (*path, "description"), item.description, MAX_DESCRIPTION_BYTES)
    _check_text_size(document, (*path, "source"), item.source, MAX_DESCRIPTION_BYTES)
    roles = item.roles or ((item.role,) if item.role else ())
    for key, names in (("roles", roles), ("checks", item.checks)):
        for index, name in enumerate(names):
            check_name(document, (*path, key, index) if len(names) > 1 else (*path, key), name, f"the name of a {key[:-1]}")
    return PlannedItem(
        id=item.id or f"{path[-1]}",
        title=item.title.strip() or item.id,
        type=type or "implement",
        description=item.description,
        depends_on=_unique_names(item.depends_on),
        roles=_unique_names(roles),
        checks=_unique_names(item.checks),
        source=item.source,
    )


def _check_text_size(document: Document, path: KeyPath, text: str, max_bytes: int) -> None:
    """Report a text that the log would truncate."""
    if (size := len(text.encode(errors="replace"))) > max_bytes:
        document.add_error(path, f"{size:,} bytes; at most {max_bytes:,} are stored: put the rest into a file, and name it")


def _unique_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def write_plan(plan: MissionPlan) -> str:
    """Write a plan as TOML; parsing it gives the same plan."""
    lines = [f"title = {_quote_string(plan.title)}", f"id = {_quote_string(plan.id)}"]
    settings = (
        ("max_parallel", plan.max_parallel, DEFAULT_PARALLEL),
        ("review", plan.needs_review, True),
        ("watch_pulls", plan.watches_pulls, False),
        ("tries", plan.tries, DEFAULT_TRIES),
    )
    lines += [f"{key} = {json.dumps(value)}" for key, value, default in settings if value != default]
    lines += [f"# left out: {make_excerpt(text)}" for text in plan.left_out]
    for item in plan.items:
        lines += [
            "",
            "[[items]]",
            f"id = {_quote_string(item.id)}",
            f"title = {_quote_string(item.title)}",
            f"type = {_quote_string(item.type)}",
        ]
        texts = {"description": item.description, "source": item.source}
        lines += [f"{key} = {_quote_string(text)}" for key, text in texts.items() if text]
        names: Mapping[str, tuple[str, ...]] = {"depends_on": item.depends_on, "roles": item.roles, "checks": item.checks}
        lines += [f"{key} = [{', '.join(map(_quote_string, values))}]" for key, values in names.items() if values]
    return "\n".join(lines) + "\n"


def _quote_string(text: str) -> str:
    """A JSON string is a TOML string, except that TOML wants U+007F escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
