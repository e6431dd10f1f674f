"""Whatever a coding agent's program prints, hearing it never fails: it is understood, or it is noise."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from fleetlore import clock
from fleetlore.errors import DialectError
from fleetlore.programs.claude_code.harness import ClaudeOutputParser
from fleetlore.programs.codex.harness import CodexOutputParser, RolloutFollower
from fleetlore.programs.turn_output import OutputParser
from tests.programs.stubs.turns import order_for

NOWHERE = Path("/nonexistent")
KEYS = (
    *("type", "subtype", "message", "content", "usage", "modelUsage", "result", "errors", "error", "session_id", "uuid", "model", "id"),
    *("permission_denials", "total_cost_usd", "api_error_status", "rate_limit_info", "parent_tool_use_id", "item", "thread_id"),
    *("receiver_thread_ids", "input_tokens", "output_tokens", "text", "status", "is_error"),
)
TYPES = (
    *("system", "assistant", "user", "result", "rate_limit_event", "init", "success", "error_max_turns", "text", "tool_use"),
    *("thread.started", "turn.started", "turn.completed", "turn.failed", "item.started", "item.completed", "error", "agent_message"),
)
plain = some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=5) | some.sampled_from(TYPES)
anything = some.recursive(
    plain, lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.sampled_from(KEYS), inner, max_size=6), max_leaves=12
)
records = some.lists(some.dictionaries(some.sampled_from(KEYS), anything, max_size=8), max_size=4)


@pytest.mark.parametrize("program", ["claude-code", "codex"])
@settings(max_examples=2 * settings().max_examples // 5, deadline=None)
@given(given=records)
def test_receiving_never_fails(program: str, given: list[dict[str, Any]]) -> None:
    order = order_for(NOWHERE)
    hearer: OutputParser = (
        ClaudeOutputParser(order) if program == "claude-code" else CodexOutputParser(order, RolloutFollower(NOWHERE, since=clock.now()))
    )
    for record in given:
        with suppress(DialectError):
            hearer.parse_output(msgspec.json.encode(record))
    hearer.flush_events()
    assert hearer.report.tokens >= 0
    assert msgspec.json.encode(hearer.report)
