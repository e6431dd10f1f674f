"""Kernel, town, stage and graph take time, sleep, tasks, threads and ids as parameters, so that they can run in a simulation.

The source is searched for direct uses. A name as the default of a parameter is no use; a call is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import fleetlore

SOURCE = Path(fleetlore.__file__).parent
PACKAGES = ("kernel", "town", "stage", "graph")

MODULES = ("time", "threading", "_thread", "concurrent.futures", "uuid", "secrets", "random", "sched")
"""Modules that are not imported."""
CALLS = {
    "asyncio.sleep": "the journal's `sleep`",
    "asyncio.timeout": "the journal's `wait_at_most`",
    "asyncio.timeout_at": "the journal's `wait_at_most`",
    "asyncio.wait_for": "the journal's `wait_at_most`",
    "asyncio.create_task": "the journal's `spawn`",
    "asyncio.ensure_future": "the journal's `spawn`",
    "asyncio.TaskGroup": "the journal's `spawn`",
    "asyncio.to_thread": "`run_blocking` of the log",
    "tasks.sleep": "the journal's `sleep`",
    "tasks.spawn": "the journal's `spawn`",
    "clock.now": "the journal's `now`",
    "clock.ticks": "the journal's `ticks`",
    "clock.sleep": "the journal's `sleep`",
    "clock.uuid7": "the journal's `new_id`",
    "datetime.now": "the journal's `now`",
    "datetime.utcnow": "the journal's `now`",
    "date.today": "the journal's `now`",
    "os.urandom": "the journal's `new_id`",
}
"""Calls, and what to use instead."""
METHODS = {"run_in_executor": "`run_blocking` of the log"}
"""Methods of objects whose type the source does not show."""

ALLOWED = {
    (
        "graph/engine.py",
        "asyncio.TaskGroup",
    ): "the branches of a fork end together, and the first error cancels the others; no time passes in it",
    (
        "stage/actors.py",
        "asyncio.to_thread",
    ): "opening a model imports its SDK, which takes up to a second; models are an edge, scripted ones need none",
    ("graph/tools/threads.py", "concurrent.futures"): "drivers of databases block, and each query must be stoppable by itself",
    ("graph/tools/threads.py", "run_in_executor"): "as above",
    ("graph/tools/threads.py", "asyncio.wait(timeout=)"): "waits for a real thread",
    ("graph/tools/query_db.py", "asyncio.to_thread"): "parsing SQL takes up to a second and would block the loop",
    ("graph/tools/postgres_reader.py", "asyncio.timeout"): "limits a real server",
    ("graph/tools/mysql_reader.py", "threading"): "tells the driver's thread to stop",
    ("graph/tools/mysql_reader.py", "time"): "limits a real server",
    ("graph/tools/sqlite_reader.py", "threading"): "tells the driver's thread to stop",
    ("graph/tools/sqlite_reader.py", "time"): "limits a real query",
    ("graph/tools/run_python.py", "time"): "measures a real process",
    ("graph/tools/run_python.py", "clock.uuid7"): "marks a real process, to find its children",
}
"""Direct uses that stay, each with its reason."""


def find_uses(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of every direct use."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for imported in node.names:
                if imported.name in MODULES:
                    yield node.lineno, imported.name
        elif isinstance(node, ast.ImportFrom):
            yield from _find_imports(node)
        elif isinstance(node, ast.Call):
            yield from _find_calls(node)


def _find_imports(node: ast.ImportFrom) -> Iterator[tuple[int, str]]:
    if node.module in MODULES:
        yield node.lineno, node.module
    for imported in node.names:  # `from asyncio import sleep` would hide the call
        name = f"{(node.module or '').rpartition('.')[2]}.{imported.name}"
        if name in CALLS:
            yield node.lineno, name


def _find_calls(node: ast.Call) -> Iterator[tuple[int, str]]:
    name = ast.unparse(node.func)
    if name in CALLS:
        yield node.lineno, name
    elif name == "asyncio.wait" and any(keyword.arg == "timeout" for keyword in node.keywords):
        yield node.lineno, "asyncio.wait(timeout=)"
    elif isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
        yield node.lineno, node.func.attr


def read_uses(package: str) -> list[tuple[str, int, str]]:
    files = sorted((SOURCE / package).rglob("*.py"))
    assert files
    return [
        (file.relative_to(SOURCE).as_posix(), line, name) for file in files for line, name in find_uses(ast.parse(file.read_text("utf-8")))
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_time_tasks_threads_and_ids_are_injected(package: str) -> None:
    found = [f"{file}:{line} uses {name}" for file, line, name in read_uses(package) if (file, name) not in ALLOWED]
    assert found == []


def test_every_exception_is_still_needed() -> None:
    used = {(file, name) for package in PACKAGES for file, _, name in read_uses(package)}
    assert set(ALLOWED) - used == set()


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import time", "time"),
        ("from time import monotonic", "time"),
        ("def run():\n    import threading", "threading"),
        ("await asyncio.sleep(1)", "asyncio.sleep"),
        ("from asyncio import sleep", "asyncio.sleep"),
        ("await asyncio.wait(tasks, timeout=1)", "asyncio.wait(timeout=)"),
        ("id = clock.uuid7()", "clock.uuid7"),
        ("loop.run_in_executor(None, work)", "run_in_executor"),
        ("asyncio.get_running_loop().run_in_executor(None, work)", "run_in_executor"),
        ("at = datetime.now(UTC)", "datetime.now"),
        ("from uuid import uuid4", "uuid"),
        ("os.urandom(8)", "os.urandom"),
    ],
)
def test_a_direct_use_is_found(source: str, name: str) -> None:
    assert [found for _, found in find_uses(ast.parse(source))] == [name]


def test_a_default_of_a_parameter_is_no_use() -> None:
    source = "def run(*, now: clock.Clock = clock.now, sleep=asyncio.sleep, new_id=clock.uuid7): return now(), new_id()"
    assert list(find_uses(ast.parse(source))) == []
