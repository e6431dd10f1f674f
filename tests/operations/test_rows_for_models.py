"""Rows that MCP tools answer are a selection of the fields of an operation's struct: they are shorter, and say nothing of their own."""

from __future__ import annotations

import inspect

import msgspec
import pytest

from fleetlore.events.envelope import Event
from fleetlore.operations.fleet import AgentCard
from fleetlore.operations.public import CostSummaryRow
from fleetlore.operations.town_lists import MissionSummary
from fleetlore.server.mcp import responses
from fleetlore.views.outcomes.record import Outcome
from fleetlore.views.town_state import MissionItem, Task

ROWS: dict[type, tuple[type, dict[str, str]]] = {
    responses.AgentRow: (AgentCard, {}),
    responses.TaskRow: (Task, {"waits_for": "missing", "dead_letter": "is_dead_letter"}),
    responses.MissionRow: (MissionSummary, {"items": "item_states", "archived": "is_archived"}),
    responses.MissionItemRow: (MissionItem, {"waits_for": "missing", "stuck": "is_stuck"}),
    responses.SessionRow: (Outcome, {"pushed": "delivered", "contradicted": "claims"}),
    responses.EventRow: (Event, {"scopes": "agent", "state": "new_state"}),
    responses.CostRow: (CostSummaryRow, {"key": "keys", "shown": "keys"}),
}
"""Row → the struct that it shortens, and the fields with a shorter name."""


def list_fields(struct: type) -> set[str]:
    return {field.name for field in msgspec.structs.fields(struct)}


def test_every_row_shortens_the_struct_of_an_operation() -> None:
    own = {value for name, value in inspect.getmembers(responses, inspect.isclass) if value.__module__ == responses.__name__}
    assert {row for row in own if row.__name__.endswith("Row")} == set(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.__name__)
def test_a_row_has_no_field_of_its_own(row: type) -> None:
    struct, renamed = ROWS[row]
    known = list_fields(struct) | {name for name in dir(struct) if isinstance(getattr(struct, name), property)}
    assert {renamed.get(name, name) for name in list_fields(row)} - known == set()
    assert len(list_fields(row)) < len(list_fields(struct))
