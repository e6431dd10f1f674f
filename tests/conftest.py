"""Servers that a whole run of tests shares, one of each a worker, started when first asked for."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.servers import Nats, Valkey

# Started in the background by a shell, or under nohup, a run of tests would hand on to every program that it starts that Ctrl-C is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Half a million objects that stay: while they are made nothing is garbage, and later none of them need be looked through again and again.
gc.disable()

# Machines are busy: how long an example takes says nothing about what is tested.
# Where a test sets no number of its own, `make torture` asks for thirty times as many examples.
settings.register_profile("any machine", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
# For `make torture`, which has the time, and for `make coverage`, where every example costs twice as much and seldom shows a new line.
settings.register_profile("long", settings.get_profile("any machine"), max_examples=2000)
settings.register_profile("few", settings.get_profile("any machine"), max_examples=15)
settings.load_profile(os.environ.get("FLEETLORE_HYPOTHESIS", "any machine"))

SLOW = (
    "tests/chronicle/test_formats.py",
    "tests/cli/test_demo_scenes.py",
    "tests/cli/test_goal_run.py",
    "tests/cli/test_mcp.py",
    "tests/cli/test_seal.py",
    "tests/cli/test_up.py",
    "tests/cli/test_worker.py",
    "tests/dialects/test_properties.py",
    "tests/extensions/test_installed.py",
    "tests/faults/",
    "tests/fuzz/",
    "tests/ingest/test_git.py",
    "tests/ingest/test_ship.py",
    "tests/ingest/test_ship_filter.py",
    "tests/log/test_nats.py",
    "tests/log/test_redis.py",
    "tests/programs/test_claude_code_harness.py",
    "tests/programs/test_codex_harness.py",
    "tests/programs/test_command.py",
    "tests/models/test_endpoints.py",
    "tests/process/test_process.py",
    "tests/goal/test_acceptance.py",
    "tests/goal/test_dreams.py",
    "tests/goal/test_kills.py",
    "tests/goal/test_memory.py",
    "tests/goal/test_outages.py",
    "tests/goal/test_servers.py",
    "tests/goal/test_workspace.py",
    "tests/graph/tools/",
    "tests/town/test_lost_workers.py",
    "tests/town/test_review_races.py",
    "tests/town/test_commands.py",
    "tests/town/test_agent_loop.py",
    "tests/server/test_chat_",
    "tests/server/test_endpoints_reading.py",
    "tests/server/test_mcp.py",
    "tests/server/test_mcp_hostile.py::test_whatever",
    "tests/server/test_mcp_hostile.py::test_a_long_log",
    "tests/server/test_mcp_hostile.py::test_pages",
    "tests/server/test_town_api.py",
    "tests/server/test_views_hostile.py",
    "tests/server/test_wire.py",
    "tests/log/test_coordination_after_restore.py",
    "tests/log/test_leases.py",
    "tests/log/test_seal.py",
    "tests/test_tour.py",
)
"""Of these all tests are left out of `make check`: they take half of the time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow as a whole."""
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """What was made until now stays to the end."""
    gc.enable()
    gc.freeze()


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    with Valkey(tmp_path_factory.mktemp("valkey") / "data", fsync="everysec") as server:
        yield server


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nats]:
    with Nats(tmp_path_factory.mktemp("nats") / "data") as server:
        yield server
