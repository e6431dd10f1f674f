"""The plan of a mission, whatever it was read from, and the rules that every plan must satisfy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from fleetlore.documents.document import Document, DocumentType
from fleetlore.documents.validation import KeyPath, make_excerpt
from fleetlore.errors import InvalidPlan
from fleetlore.events.envelope import is_name
from fleetlore.views.town_state import DEFAULT_PARALLEL, DEFAULT_TRIES

MAX_PLAN_BYTES = 4 * 1024 * 1024
MAX_ITEMS = 500
MAX_NAMES = 500
"""Dependencies, roles or checks of one item."""
MAX_TITLE_BYTES = 300
MAX_DESCRIPTION_BYTES = 16 * 1024
"""The log truncates longer texts."""
MAX_ITEMS_BYTES = 768 * 1024
"""All items together, as JSON: a mission is appended at once, and an append holds 1 MiB."""
MAX_PARALLEL = 1000
MAX_TRIES = 100

_MAX_CYCLES = 20
_MAX_ID_BYTES = 60


class PlannedItem(Struct, frozen=True, kw_only=True):
    """One item of work in a plan."""

    id: str
    title: str
    type: str = "implement"
    description: str = ""
    depends_on: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    """Names only; the worker's own configuration has their commands."""
    source: str = ""
    """Where it comes from, such as the URL of an issue."""


class MissionPlan(Struct, frozen=True, kw_only=True):
    """A mission that is ready to start."""

    id: str
    title: str
    items: tuple[PlannedItem, ...]
    max_parallel: int = DEFAULT_PARALLEL
    needs_review: bool = True
    watches_pulls: bool = False
    tries: int = DEFAULT_TRIES
    left_out: tuple[str, ...] = ()
    """What was read but is not part of the plan, one sentence each."""


PLAN = DocumentType(
    suffixes=(".toml",),
    wrong_suffix="a plan must end in .toml, and issues in .json or .jsonl",
    not_a_table='a plan is a table; start with title = "…"',
    error=InvalidPlan,
    max_bytes=MAX_PLAN_BYTES,
    too_large="put details into files, and name them in the items",
)


def slugify_title(text: str) -> str:
    """A readable id, from a title: `Ship the importer!` → `ship-the-importer`."""
    slug = "-".join(re.findall(r"[^\W_]+", text.lower()))
    while len(slug.encode(errors="replace")) > _MAX_ID_BYTES:
        slug = slug[:-1]
    return slug.strip("-") or "mission"


def check_name(document: Document, path: KeyPath, name: str, label: str) -> None:
    """Report a name that is empty, too long or has control characters."""
    if not name.strip() or not is_name(name):
        document.add_error(path, f"{make_excerpt(name)!r} is not valid as {label}: use 1 to 200 bytes without control characters")


def check_total_size(document: Document, items: Iterable[PlannedItem]) -> None:
    """Report items that together exceed one append."""
    size = sum(len(msgspec.json.encode(item)) for item in items)
    if size > MAX_ITEMS_BYTES:
        limit = f"{MAX_ITEMS_BYTES // 1024} KiB"
        document.add_error(
            ("items",), f"are {size // 1024:,} KiB together; at most {limit} fit into one append: split the mission, or shorten the texts"
        )


def check_dependencies(document: Document, items: Sequence[tuple[KeyPath, PlannedItem]]) -> None:
    """Report duplicate ids, unknown dependencies and cycles."""
    places: dict[str, KeyPath] = {}
    for path, item in items:
        if item.id in places:
            document.add_error((*path, "id"), f"{make_excerpt(item.id)!r} appears twice; give each item its own id")
        places.setdefault(item.id, path)
    for path, item in items:
        for index, dependency in enumerate(item.depends_on):
            if dependency not in places:
                document.add_error(
                    (*path, "depends_on", index), f"there is no item {make_excerpt(dependency)!r}{_suggest_item(dependency, places)}"
                )
    for cycle in find_cycles({item.id: [each for each in item.depends_on if each in places] for _, item in items}):
        document.add_error(
            places[cycle[0]], f"waits for itself: {' → '.join(map(make_excerpt, (*cycle, cycle[0])))}; remove one of these dependencies"
        )


def _suggest_item(name: str, known: Iterable[str]) -> str:
    names_by_casefold = {each.casefold(): each for each in known}
    match = names_by_casefold.get(name.casefold())
    return f"; did you mean {make_excerpt(match)!r}?" if match else "; add it, or remove the dependency"


def find_cycles(needs: Mapping[str, Iterable[str]]) -> list[tuple[str, ...]]:
    """Up to twenty dependency cycles; no two share an item."""
    remaining = {item: set(dependencies) for item, dependencies in needs.items()}
    cycles: list[tuple[str, ...]] = []
    while len(cycles) < _MAX_CYCLES and (remaining := _keep_cyclic_items(remaining)):
        cycle = _find_cycle(remaining)
        cycles.append(cycle)
        for item in cycle:
            del remaining[item]
    return cycles


def _keep_cyclic_items(needs: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Only the items on a cycle, and those that depend on one."""
    remaining = {item: dependencies & needs.keys() for item, dependencies in needs.items()}
    dependents: dict[str, list[str]] = {}
    for item, dependencies in remaining.items():
        for dependency in dependencies:
            dependents.setdefault(dependency, []).append(item)
    ready = [item for item, dependencies in remaining.items() if not dependencies]
    while ready:
        done = ready.pop()
        del remaining[done]
        for item in dependents.get(done, ()):
            remaining[item].discard(done)
            if not remaining[item]:
                ready.append(item)
    return remaining


def _find_cycle(remaining: Mapping[str, set[str]]) -> tuple[str, ...]:
    """Follow dependencies from any item until one repeats."""
    item = next(iter(remaining))
    visited: dict[str, None] = {}
    while item not in visited:
        visited[item] = None
        item = min(remaining[item])
    path = list(visited)
    return tuple(path[path.index(item) :])
