"""The public surface, and the promise that importing it costs next to nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fleetlore


def test_the_public_names_are_these_and_each_can_be_had() -> None:
    assert " ".join(sorted(fleetlore.__all__)) == (
        "AgentPrompt Brief CostSummary CostSummaryRow Event Expect Goal GoalResult GoalTemplate OperationContext Origin Outcome"
        " SessionStore Story"
        " __version__ build_prompt connect list_sessions load_goal load_template open_context read_brief read_costs read_story"
        " render_brief render_story run_goal run_worker"
    )
    assert all(getattr(fleetlore, name) for name in fleetlore.__all__)
    assert dir(fleetlore) == sorted(fleetlore.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = fleetlore.nothing


def test_importing_the_package_loads_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import fleetlore; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert {name.partition(".")[0] for name in loaded} <= {"fleetlore", "__future__", "importlib", "warnings", "typing", "collections"} | {
        name for name in loaded if name in sys.stdlib_module_names
    }
    assert not {"msgspec", "apsw", "rich", "asyncio"} & set(loaded)
