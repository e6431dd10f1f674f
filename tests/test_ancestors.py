"""docs/ancestors.md: 46 rows, each with tests that exist, and façades with the names that it promises."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "ancestors.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d+) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)


@cache
def functions_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_there_are_46_rows() -> None:
    assert [int(number) for number, _, _ in ROWS] == list(range(1, 47))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} {row[1][:40]}")
def test_every_named_test_exists(row: tuple[str, str, str]) -> None:
    named = re.findall(r"`((?:tests|torture)/[^`]+)`", row[2])
    assert named
    for one in named:
        path, _, function = one.partition("::")
        assert (ROOT / path).is_file(), path
        assert not function or function in functions_in(path), one


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("nexus", "EventKind AgentEvent ChronicleWriter event_from_gitea_issue event_from_heartbeat event_from_commit"),
        ("nexo", "DriverEvent DriverEventSink NoopEventSink NatsEventSink BudgetUsage"),
        ("agent_runtime", "Runtime NODE_REGISTRY list_graphs get_active_graph switch_graph"),
        ("tinytown", "EventType TownEvent EventStream"),
        ("stage", "ContextBuilder EpisodicMemory StageProjection"),
    ],
)
def test_a_facade_has_the_names_of_its_ancestor(module: str, names: str) -> None:
    found = importlib.import_module(f"fleetlore.compat.{module}")
    assert [name for name in names.split() if not hasattr(found, name)] == []
    assert set(names.split()) <= set(found.__all__), "`import *` gives the public names, and no module that we import"


def test_the_examples_exist() -> None:
    examples = re.findall(r"`(examples/[^`]+)`", PAGE)
    assert len(examples) == 5
    assert all((ROOT / path).is_file() for path in examples)
