"""What a plan of a mission is, wherever it was read, and the rules that every plan keeps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from fleetlore.documents.validation import MAX_ERRORS, KeyPath, format_path
from fleetlore.errors import InvalidPlan
from fleetlore.events.names import is_name
from fleetlore.views.town_state import DEFAULT_PARALLEL, DEFAULT_TRIES

MAX_PLAN_BYTES = 4 * 1024 * 1024
MAX_ITEMS = 500
MAX_NAMES = 500
"""Dependencies, roles or checks of one item."""
MAX_TITLE_BYTES = 300
MAX_DESCRIPTION_BYTES = 16 * 1024
"""What the log keeps of one text, in bytes."""
MAX_ITEMS_BYTES = 768 * 1024
"""What all items may come to, as JSON: a mission is told in one append, which holds 1 MiB."""
MAX_PARALLEL = 1000
MAX_TRIES = 100

_MAX_CYCLES = 20
_MAX_ID_BYTES = 60


class PlannedItem(Struct, frozen=True, kw_only=True):
    """One item of work that a plan names."""

    id: str
    title: str
    type: str = "implement"
    description: str = ""
    depends_on: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    """Names alone; what they run stands in the worker's own configuration."""
    source: str = ""
    """Where it was told, such as the address of an issue."""


class MissionPlan(Struct, frozen=True, kw_only=True):
    """A mission, ready to be started."""

    id: str
    title: str
    items: tuple[PlannedItem, ...]
    max_parallel: int = DEFAULT_PARALLEL
    needs_review: bool = True
    watches_pulls: bool = False
    tries: int = DEFAULT_TRIES
    left_out: tuple[str, ...] = ()
    """What was read and is no part of it, a sentence each."""


class PlanErrors:
    """All that is wrong with a plan, in the order in which it was found."""

    def __init__(self, source: str, line_of: Callable[[KeyPath], int | None] = lambda path: None) -> None:
        self.source = source
        self.errors: list[str] = []
        self._line_of = line_of

    def add_error(self, path: KeyPath, problem: str) -> None:
        """Keep a problem, with its place: the line where it is known, and the path."""
        line = self._line_of(path)
        where = f"{self.source}:{line}" if line else self.source
        self.errors.append(f"{where}: {format_excerpt(format_path(path))}: {problem}" if path else f"{where}: {problem}")

    def raise_if_invalid(self) -> None:
        """`InvalidPlan` with everything that was found so far."""
        if self.errors:
            more = len(self.errors) - MAX_ERRORS
            raise InvalidPlan([*self.errors[:MAX_ERRORS], *([f"{self.source}: and {more} more"] if more > 0 else ())])


def format_excerpt(word: str) -> str:
    """A word of a file, fit to be shown in a sentence: on one line, and not endless."""
    clean = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in word[:80])
    return clean + "…" if len(word) > 80 else clean


def slugify_title(text: str) -> str:
    """A readable id, from a title: `Ship the importer!` → `ship-the-importer`."""
    words = "-".join(re.findall(r"[^\W_]+", text.lower()))
    while len(words.encode(errors="replace")) > _MAX_ID_BYTES:
        words = words[:-1]
    return words.strip("-") or "mission"


def check_name(findings: PlanErrors, path: KeyPath, name: str, what: str) -> None:
    """Complain about what cannot name anything."""
    if not name.strip() or not is_name(name):
        findings.add_error(path, f"{format_excerpt(name)!r} cannot be {what}: 1 to 200 bytes, and no control characters")


def check_total_size(findings: PlanErrors, items: Iterable[PlannedItem]) -> None:
    """Complain about more words than one mission can be told with."""
    size = sum(len(msgspec.json.encode(item)) for item in items)
    if size > MAX_ITEMS_BYTES:
        most = f"{MAX_ITEMS_BYTES // 1024} KiB"
        findings.add_error(
            ("items",), f"come to {size // 1024:,} KiB, and at most {most} are told at once: make several missions, or use fewer words"
        )


def check_dependencies(findings: PlanErrors, items: Sequence[tuple[KeyPath, PlannedItem]]) -> None:
    """Complain about ids that are there twice, dependencies on nothing, and circles."""
    places: dict[str, KeyPath] = {}
    for path, item in items:
        if item.id in places:
            findings.add_error((*path, "id"), f"{format_excerpt(item.id)!r} is there twice; give each item an id of its own")
        places.setdefault(item.id, path)
    for path, item in items:
        for index, needed in enumerate(item.depends_on):
            if needed not in places:
                findings.add_error(
                    (*path, "depends_on", index), f"there is no item {format_excerpt(needed)!r}{_suggest_item(needed, places)}"
                )
    for cycle in find_cycles({item.id: [each for each in item.depends_on if each in places] for _, item in items}):
        findings.add_error(
            places[cycle[0]], f"waits for itself: {' → '.join(map(format_excerpt, (*cycle, cycle[0])))}; take one of these away"
        )


def _suggest_item(name: str, known: Iterable[str]) -> str:
    folded = {each.casefold(): each for each in known}
    near = folded.get(name.casefold())
    return f"; did you mean {format_excerpt(near)!r}?" if near else "; add it, or take the dependency away"


def find_cycles(needs: Mapping[str, Iterable[str]]) -> list[tuple[str, ...]]:
    """Circles of dependencies, none of which shares an item with another; the first twenty."""
    left = {each: set(needed) for each, needed in needs.items()}
    found: list[tuple[str, ...]] = []
    while len(found) < _MAX_CYCLES and (left := _keep_cyclic_items(left)):
        circle = _find_cycle(left)
        found.append(circle)
        for each in circle:
            del left[each]
    return found


def _keep_cyclic_items(needs: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Only the items that lie on a circle, or wait for one."""
    left = {each: needed & needs.keys() for each, needed in needs.items()}
    waiting: dict[str, list[str]] = {}
    for each, needed in left.items():
        for other in needed:
            waiting.setdefault(other, []).append(each)
    free = [each for each, needed in left.items() if not needed]
    while free:
        done = free.pop()
        del left[done]
        for each in waiting.get(done, ()):
            left[each].discard(done)
            if not left[each]:
                free.append(each)
    return left


def _find_cycle(left: Mapping[str, set[str]]) -> tuple[str, ...]:
    """From any item along what it waits for, until one comes again."""
    each = next(iter(left))
    walked: dict[str, None] = {}
    while each not in walked:
        walked[each] = None
        each = min(left[each])
    path = list(walked)
    return tuple(path[path.index(each) :])
