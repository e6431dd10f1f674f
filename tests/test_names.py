"""Names can be searched for: classes are unique, functions are verbs with an object, and modules do not import each other in a circle."""

from __future__ import annotations

import ast
import importlib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import fleetlore

SOURCE = Path(fleetlore.__file__).parent

SHARED_CLASS_NAMES = {"LeaseLost"}
"""An error, and a payload whose published schema has this title."""

INTERFACES = {
    "configure": "a command",
    "run": "a command; a process",
    "main": "a program",
    "entry": "a program",
    "initial": "a view",
    "apply": "a view",
    "encode": "a view",
    "decode": "a view",
    "now": "a clock",
    "ticks": "a clock",
    "sleep": "a clock",
    "spawn": "tasks",
    "connect": "the public API",
    "given": "the public test support",
    "healthz": "the route of that name",
    "readyz": "the route of that name",
}
"""Functions with one word, and what they belong to."""

OLD_WORDS = """
    afar chores crew deaf deed ears essence fulfil heard hear hears hiring house mend mended mends misfit pen scribe tape tapes
    tell teller telling tells told veil whoever wish wishes
"""
"""Words of 0.1 that nobody searches for."""
KEPT_WORDS = {
    "told": "a field of scenario files: what the holder of a hidden role reads",
    "is_worth_telling": "plain English",
    "is_told": "a published field",
    "deed": "a stored field",
    "wish": "a published field",
    "arcs_told": "a field of `Vocabulary`, which docs/extending.md names",
    "open_arcs_told": "a field of `Vocabulary`, which docs/extending.md names",
}

OLD_IMPORTS = """
    fleetlore.chronicle.arcs: Part Pattern
    fleetlore.chronicle.vocabulary: Vocabulary
    fleetlore.dialects.base: Dialect
    fleetlore.dialects.fields: as_name as_text need_text need_time without_none write_time
    fleetlore.dialects.wire: PYTHON Record
    fleetlore.errors: DialectError MindError MindTimeout MindRefused MindBusy MindNonsense InvalidMind Held NoRoom
    fleetlore.events.envelope: Event Origin
    fleetlore.events.foreign: check_kinds
    fleetlore.events.goal_plan: Plan
    fleetlore.events.payload: Beat
    fleetlore.minds.harness: Ended Heard Order Watch
    fleetlore.minds.programs.environment: scrubbed
    fleetlore.minds.programs.process: run Program Finished
    fleetlore.nexus: ChronicleWriter
    fleetlore.runtime.driver.acceptance.verifiers: git_clean no_paths_touched
    fleetlore.runtime.graph.node: Node
    fleetlore.runtime.graph.registry: node
    fleetlore.runtime.graph.step: Step
    fleetlore.testing: check_arc check_dialect check_harness check_node check_vocabulary
""".strip().splitlines()
"""What docs/extending.md of 0.1 named."""


@cache
def parse_modules() -> dict[str, ast.Module]:
    modules = {}
    examples = SOURCE / "cli" / "demo" / "files"  # what the demo's agents work on
    for path in sorted(path for path in SOURCE.rglob("*.py") if examples not in path.parents):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = ast.parse(path.read_text(encoding="utf-8"))
    return modules


def list_functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_public_class_names_are_unique() -> None:
    places = defaultdict(list)
    for name, tree in parse_modules().items():
        if name.startswith("fleetlore.compat."):  # the names of the older systems
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name)
    assert {name: where for name, where in places.items() if len(where) > 1 and name not in SHARED_CLASS_NAMES} == {}


def test_public_functions_are_verbs_with_an_object() -> None:
    bare = [
        f"{name}.{node.name}"
        for name, tree in parse_modules().items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and "_" not in node.name and node.name not in INTERFACES
    ]
    assert bare == []


def test_no_name_has_a_word_that_only_we_use() -> None:
    found, old_words = set(), set(OLD_WORDS.split())
    for name, tree in parse_modules().items():
        named = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
        named += [node.arg for function in list_functions(tree) for node in ast.walk(function.args) if isinstance(node, ast.arg)]
        found |= {f"{name}.{each}" for each in named if each not in KEPT_WORDS and old_words & set(each.lower().split("_"))}
    assert sorted(found) == []


def list_imports(name: str, tree: ast.AST) -> Iterator[str]:
    """Every module that is imported at run time, inside of functions, too."""
    modules = parse_modules()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for each in node.names:
                yield full if (full := f"{node.module}.{each.name}") in modules else node.module
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        yield from list_imports(name, node)


def find_cycles(graph: dict[str, set[str]]) -> Iterator[frozenset[str]]:
    """Groups of modules of which each leads to every other."""
    while ends := {name for name, imported in graph.items() if not imported}:
        graph = {name: imported - ends for name, imported in graph.items() if name not in ends}

    @cache
    def reach(start: str) -> frozenset[str]:
        seen, waiting = set[str](), [start]
        while waiting:
            for each in graph.get(waiting.pop(), set()) - seen:
                seen.add(each)
                waiting.append(each)
        return frozenset(seen)

    for name in graph:
        if name in reach(name):
            yield frozenset(each for each in reach(name) if name in reach(each))


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    modules = parse_modules()
    graph = {name: set(list_imports(name, tree)) & modules.keys() - {name} for name, tree in modules.items()}
    cycles = set(find_cycles(graph))
    assert [sorted(cycle) for cycle in cycles] == []


@pytest.mark.parametrize("line", OLD_IMPORTS)
def test_imports_that_extensions_of_0_1_make_still_work(line: str) -> None:
    module, _, names = line.partition(":")
    loaded = importlib.import_module(module.strip())
    assert [name for name in names.split() if not hasattr(loaded, name)] == []
