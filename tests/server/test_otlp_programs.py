"""Telemetry of coding agents: their sessions, sub-agents and costs, however it is batched; a transcript counts instead of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fleetlore.events.envelope import Event
from fleetlore.testing import FrozenClock
from fleetlore.views import cost_sums, costs, fleet
from tests.dialects.test_otlp import NOON, Body, logs, nanos, pairs, request, span
from tests.server.endpoint_client import open_endpoints

SESSION = "5e551011-aaaa-4bbb-8ccc-0123456789ab"
HELPER = "a9e27b00-1111-4222-8333-444455556666"
MAIN_PROMPT = f"{SESSION}########0"


def record(name: str, second: float, /, *, body: str = "", session_key: str = "session.id", **attributes: Any) -> Body:
    own = {session_key: SESSION, "event.name": name, "event.timestamp": (NOON + timedelta(seconds=second)).isoformat(), **attributes}
    return {"timeUnixNano": nanos(second), "body": {"stringValue": body or name}, "attributes": pairs(own)}


def google_tokens(given: int, output: int, cached: int, thoughts: int) -> dict[str, Any]:
    return {
        "input_token_count": given,
        "output_token_count": output,
        "cached_content_token_count": cached,
        "thoughts_token_count": thoughts,
        "total_token_count": given + output + thoughts,
    }


def gemini_like(prefix: str, helper_prompt: str, **helper: str) -> list[Body]:
    """As Gemini CLI 0.61.0 and Qwen Code 0.15.10 send them, with `logPrompts`."""
    return [
        record(f"{prefix}.config", 0, model="gemini-2.5-pro", body="CLI configuration loaded."),
        record(f"{prefix}.user_prompt", 1, prompt="Fix the test", prompt_length=12, prompt_id=MAIN_PROMPT, body="User prompt. Length: 12."),
        record(f"{prefix}.api_request", 2, model="gemini-2.5-pro", prompt_id=MAIN_PROMPT, request_text="[]"),
        record(
            f"{prefix}.api_response", 3, model="gemini-2.5-pro", prompt_id=MAIN_PROMPT, duration_ms=900, **google_tokens(100, 20, 40, 5)
        ),
        record(
            f"{prefix}.tool_call",
            4,
            function_name="run_shell_command",
            function_args='{"command": "make test"}',
            success=False,
            error="exit code 2",
            duration_ms=30,
            prompt_id=MAIN_PROMPT,
        ),
        record(f"{prefix}.api_response", 6, model="gemini-2.5-pro", prompt_id=helper_prompt, **helper, **google_tokens(50, 10, 0, 0)),
        record(f"{prefix}.api_error", 7, model="gemini-2.5-pro", prompt_id=MAIN_PROMPT, status_code=429, **{"error.message": "quota"}),
    ]


GEMINI = [
    *gemini_like("gemini_cli", f"{HELPER}#0", role="subagent"),
    record("gemini_cli.agent.start", 5, agent_id=HELPER, agent_name="codebase_investigator"),
    record("gemini_cli.agent.finish", 8, agent_id=HELPER, agent_name="codebase_investigator", terminate_reason="GOAL", turn_count=1),
]
QWEN = gemini_like("qwen-code", f"{SESSION}#reviewer-x1#0", subagent_name="reviewer")
CLAUDE = [
    record("user_prompt", 1, prompt="Fix the test", **{"prompt.id": "p1"}),
    record(
        "api_request", 2, model="claude-opus-4-8", cost_usd=0.25, input_tokens=30, output_tokens=70, cache_read_tokens=1000, request_id="r1"
    ),
    record("hook_execution_start", 3, hook_event="PreToolUse"),
    record("api_request", 4, model="claude-opus-4-8", cost_usd=0.5, input_tokens=1, output_tokens=2, request_id="r2", agent_id="a77"),
]
CODEX = [
    record("codex.conversation_starts", 0, session_key="conversation.id", model="gpt-5-codex"),
    record("codex.user_prompt", 1, session_key="conversation.id", prompt="Fix the test"),
    record(
        "codex.sse_event",
        2,
        session_key="conversation.id",
        model="gpt-5-codex",
        input_token_count=100,
        cached_token_count=60,
        output_token_count=20,
        reasoning_token_count=5,
        tool_token_count=120,
        **{"event.kind": "response.completed"},
    ),
]
PROGRAMS = {
    "gemini-cli": (GEMINI, {"gemini-cli/5e551011": None, "gemini-cli/a9e27b00": "gemini-cli/5e551011"}),
    "qwen-code": (QWEN, {"qwen-code/5e551011": None, "qwen-code/reviewer": "qwen-code/5e551011"}),
    "claude-code": (CLAUDE, {"claude-code/5e551011": None, "a77": "claude-code/5e551011"}),
    "codex_cli_rs": (CODEX, {"codex/456789ab": None}),
}
TOKENS = {"gemini-cli": [60, 125], "qwen-code": [60, 125], "claude-code": [3, 1100], "codex_cli_rs": [120]}


def parents_of(events: list[Event]) -> dict[str, str | None]:
    state = fleet.initial()
    for event in events:
        fleet.apply(state, event)
    return {agent.name: agent.parent for agent in state.agents.values()}


def costs_of(events: list[Event]) -> dict[str, tuple[int, float | None]]:
    spending = costs.initial()
    for event in events:
        costs.apply(spending, event)
    return {name: (amount.tokens, amount.usd) for name, amount in cost_sums.sum_by_agent(spending).items()}


Send = Callable[..., list[Event]]


@pytest.fixture
def send(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Send:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def send(name: str, service: str, *batches: list[Body], path: str = "/v1/logs") -> list[Event]:
        with open_endpoints(f"sqlite:{tmp_path / name}.db", clock=FrozenClock(NOON + timedelta(minutes=1))) as doors:
            for batch in batches:
                body = logs(*batch, service=service) if path == "/v1/logs" else request(*batch, service=service)
                assert doors.post(path, body).json == {}
            return doors.events

    return send


@pytest.mark.parametrize("service", list(PROGRAMS))
def test_sessions_sub_agents_and_costs_are_the_same_however_records_are_batched(service: str, send: Send) -> None:
    records, parents = PROGRAMS[service]
    whole = send("whole", service, records)
    assert parents_of(whole) == parents
    assert sorted(tokens for tokens, _ in costs_of(whole).values()) == TOKENS[service]
    assert {event.run for event in whole} == {SESSION}
    one_by_one = [[each] for each in records]
    for name, batches in (("single", one_by_one), ("reverse", one_by_one[::-1]), ("twice", [records, records])):
        events = send(name, service, *batches)
        assert (parents_of(events), costs_of(events)) == (parents, costs_of(whole))
        assert {event.id for event in events} == {event.id for event in whole}
    for batch in one_by_one[::-1]:
        events = send("restarted", service, batch)
    assert (parents_of(events), costs_of(events)) == (parents, costs_of(whole))


def test_prompts_calls_and_errors_of_gemini_cli_are_recorded(send: Send) -> None:
    events = {event.kind: event for event in send("log", "gemini-cli", GEMINI)}
    assert (events["prompt.submitted"].actor, events["prompt.submitted"].text) == ("user", "Fix the test")
    assert events["tool.failed"].data["input"] == {"command": "make test"}
    assert (events["model.failed"].data["error"], events["model.failed"].data["status"]) == ("quota", 429)
    assert (events["agent.launched"].child, events["agent.returned"].cause) == ("gemini-cli/a9e27b00", events["agent.launched"].id)
    assert "gemini_cli.api_request" not in events


def test_spans_that_repeat_the_records_of_gemini_cli_add_nothing(send: Send) -> None:
    repeated = span(1, {"gen_ai.operation.name": "llm_call", "gen_ai.usage.input_tokens": 100, "gen_ai.agent.name": "gemini-cli"})
    assert send("log", "gemini-cli", [repeated], path="/v1/traces") == []


def test_claude_code_s_spans_name_sub_agents_and_repeat_no_cost(send: Send) -> None:
    lineage = {"agent_id": "a78", "parent_agent_id": "a77", "workflow.run_id": "wf_1"}
    tokens = {"session.id": SESSION, "model": "claude-opus-4-8", "input_tokens": 30, "output_tokens": 70, "cache_read_tokens": 1000}
    spans = [
        span(2, tokens | {"request_id": "r1"}, parent=1, name="claude_code.llm_request"),
        span(3, tokens | lineage | {"request_id": "r3"}, parent=1, name="claude_code.llm_request"),
        span(1, {"session.id": SESSION}, name="claude_code.interaction"),
    ]
    send("log", "claude-code", CLAUDE)
    events = send("log", "claude-code", *([each] for each in spans), path="/v1/traces")
    assert parents_of(events) == {"claude-code/5e551011": None, "a77": "claude-code/5e551011", "a78": "a77"}
    assert {agent: tokens for agent, (tokens, _) in costs_of(events).items()} == {"claude-code/5e551011": 1100, "a77": 3, "a78": 1100}
    assert [event.data["workflow"] for event in events if event.agent == "a78"] == ["wf_1"]


def test_telemetry_costs_nothing_where_a_transcript_has_the_replies(send: Send) -> None:
    events = send("log", "claude-code", CLAUDE)
    usage = next(event for event in events if event.kind == "model.replied")
    reply = replace(usage, id="00000000-0000-7000-8000-000000000001", data={"model": "claude-opus-4-8", "input": 1, "output": 2})
    metrics = replace(usage, id="00000000-0000-7000-8000-000000000002", data={"source": "metrics", "input": 500})
    for order in ([*events, reply], [reply, *events], [metrics, *events, reply]):
        assert [tokens for tokens, _ in costs_of(order).values()] == [3]
    assert costs_of([metrics, *events]) == costs_of([*events, metrics]) == costs_of(events)
