"""Whatever a model asks a tool for, it is answered or refused in our own words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fleetlore import Event, connect
from fleetlore.errors import Invalid
from fleetlore.operations.sources import OnDemandSource
from fleetlore.server.mcp import pages, tools
from fleetlore.server.mcp.caller import Caller
from fleetlore.server.mcp.tool import McpTool
from tests.fuzz.mutants import PIECES
from tests.server.mcp_talk import on_demand
from tests.strategies import json_values, texts

SOME = settings(max_examples=min(100, max(1, settings().max_examples // 12)), suppress_health_check=list(HealthCheck))
WORDS = [
    "t1",
    "town",
    "agent:ada",
    "task:t1",
    "2h",
    "today",
    "UTC",
    "fleet.*",
    "full",
    "all",
    "day",
    "7",
    "2026-06-01T12:00:00Z",
    1,
    30,
    True,
]
VALUES = st.sampled_from(WORDS) | st.sampled_from(PIECES).map(lambda piece: piece.decode(errors="replace")) | json_values() | texts(20)


@pytest.fixture(scope="module")
def source() -> Iterator[OnDemandSource]:
    with connect("memory:").blocking() as log:
        log.append([Event(kind=kind, agent="ada", task="t1", mission="m1", text="x") for kind in ("fleet.dispatch", "fleet.commit")])
        yield on_demand(log)


@pytest.mark.parametrize("tool", tools.TOOLS, ids=[tool.name for tool in tools.TOOLS])
@SOME
@given(data=st.data())
def test_any_arguments_are_answered_or_refused(source: OnDemandSource, tool: McpTool, data: st.DataObject) -> None:
    names = st.sampled_from([*tool.request.__struct_fields__, "other"])
    arguments: dict[str, Any] = data.draw(st.dictionaries(names, VALUES, max_size=4))
    with suppress(Invalid):
        assert tools.call_tool(tool, source, Caller("ada", can_write=True), arguments).text


@SOME
@given(uri=texts(20).map(lambda rest: f"lore://task/{rest}") | texts(30))
@example(uri="lore://task/%ed%a0%80")
def test_any_address_is_read_or_refused(source: OnDemandSource, uri: str) -> None:
    with suppress(Invalid):
        assert pages.read_resource(uri, source, Caller())
