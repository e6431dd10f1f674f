"""A program's trace gives the same agents, lineage and costs however its exporter batches spans."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fleetlore.dialects.otlp.spans import make_span_events
from fleetlore.dialects.otlp.values import iterate_spans
from fleetlore.events.envelope import Event
from fleetlore.ingest.span_buffer import SpanBuffer
from fleetlore.server.endpoints.store import store_valid_events
from fleetlore.testing import FrozenClock
from fleetlore.views import costs, fleet
from tests.dialects.test_otlp import NOON, Body, request, span
from tests.server.endpoint_client import EndpointClient, open_endpoints

TRACES = "/v1/traces"
KIND = "openinference.span.kind"


def llm(n: int, parent: int, at: float, *, prompt: str, follows_tool: bool = False, said: str = "") -> Body:
    messages = [("user", prompt), *([("assistant", ""), ("tool", "sunny")] if follows_tool else [])]
    inputs = {
        f"llm.input_messages.{i}.message.{key}": each[k] for i, each in enumerate(messages) for k, key in enumerate(("role", "content"))
    }
    output = {"llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": said}
    usage = {"llm.model_name": "gpt-5", "llm.token_count.prompt": 100, "llm.token_count.completion": 30}
    return span(n, {KIND: "LLM", **usage, **inputs, **output}, parent=parent, at=at, to=at + 1, name="response")


def tool(n: int, parent: int, at: float, name: str = "get_weather") -> Body:
    attributes = {KIND: "TOOL", "tool.name": name, "input.value": '{"city": "Paris"}', "output.value": "sunny"}
    return span(n, attributes, parent=parent, at=at, to=at + 1, name=name)


def chain(n: int, parent: int, at: float, to: float, name: str, **attributes: Any) -> Body:
    return span(n, {KIND: "CHAIN", **attributes}, parent=parent, at=at, to=to, name=name)


# As openinference-instrumentation-openai-agents 2.6 sends them, in the order in which they end.
OPENAI_AGENTS = [
    llm(4, 3, 1, prompt="Weather in Paris?"),
    span(5, {KIND: "TOOL", "input.value": "Triage", "output.value": "Specialist"}, parent=3, at=2, to=2.5, name="handoff to Specialist"),
    chain(3, 2, 1, 3, "turn"),
    span(2, {KIND: "AGENT", "agent.name": "Triage", "graph.node.id": "Triage"}, parent=7, at=1, to=3, name="Triage"),
    llm(9, 8, 4, prompt="Weather in Paris?", follows_tool=True),
    tool(10, 8, 5),
    llm(11, 8, 6, prompt="Weather in Paris?", follows_tool=True, said="It is sunny."),
    chain(8, 6, 4, 8, "turn"),
    span(
        6,
        {KIND: "AGENT", "agent.name": "Specialist", "graph.node.id": "Specialist", "graph.node.parent_id": "Triage"},
        parent=7,
        at=4,
        to=8,
        name="Specialist",
    ),
    chain(7, 1, 0.5, 8.5, "Agent workflow"),
    span(1, {KIND: "AGENT"}, at=0, to=9, name="Agent workflow"),
]
NODE = json.dumps({"langgraph_node": "agent", "lc_agent_name": "weather_agent"})
# As openinference-instrumentation-langchain 0.1.80 sends them; a node that is named `agent` is called an agent by it.
LANGGRAPH = [
    llm(3, 2, 1, prompt="Weather in Paris?"),
    span(2, {KIND: "AGENT", "metadata": NODE, "input.value": "{}"}, parent=1, at=1, to=2, name="agent"),
    tool(5, 4, 2),
    chain(4, 1, 2, 3, "tools", metadata=json.dumps({"langgraph_node": "tools", "lc_agent_name": "weather_agent"})),
    llm(7, 6, 4, prompt="Weather in Paris?", follows_tool=True, said="It is sunny."),
    span(6, {KIND: "AGENT", "metadata": NODE, "input.value": "{}"}, parent=1, at=4, to=5, name="agent"),
    span(
        1,
        {
            KIND: "AGENT",
            "metadata": '{"lc_agent_name": "weather_agent"}',
            "input.value": '{"messages": [{"role": "user", "content": "Weather?"}]}',
        },
        at=0,
        to=6,
        name="LangGraph",
    ),
]
# As openinference-instrumentation-smolagents 0.1.43 sends them, with a managed agent.
SMOLAGENTS = [
    llm(3, 2, 1, prompt="New task: weather"),
    llm(6, 5, 3, prompt="New task: look it up"),
    tool(7, 5, 4, "visit_page"),
    chain(5, 4, 3, 5, "Step 1"),
    span(4, {KIND: "AGENT", "input.value": '{"task": "look it up"}', "output.value": "sunny"}, parent=2, at=3, to=6, name="browser.run"),
    chain(2, 1, 1, 7, "Step 1"),
    span(1, {KIND: "AGENT", "input.value": '{"task": "Weather?"}', "output.value": "sunny"}, at=0, to=8, name="smol.run"),
]
# Spans by OpenTelemetry's own conventions, within a request to a web service, with a tool that asks another agent.
CONVENTIONS = [
    span(4, {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-5", "gen_ai.usage.input_tokens": 50}, parent=3, at=2, to=3),
    span(6, {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-5", "gen_ai.usage.input_tokens": 70}, parent=5, at=4, to=5),
    span(5, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "reviewer"}, parent=7, at=4, to=6),
    span(7, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "review"}, parent=3, at=4, to=6.5),
    span(3, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "writer", "gen_ai.conversation.id": "c1"}, parent=2, at=1, to=8),
    span(2, {"http.request.method": "POST"}, at=0, to=9),
]
PROGRAMS = {"openai-agents": OPENAI_AGENTS, "langgraph": LANGGRAPH, "smolagents": SMOLAGENTS, "conventions": CONVENTIONS}
AGENTS = {
    "openai-agents": {"Triage": None, "Specialist": "Triage"},
    "langgraph": {"weather_agent": None},
    "smolagents": {"smol": None, "browser": "smol"},
    "conventions": {"writer": None, "reviewer": "writer"},
}
TOKENS = {
    "openai-agents": {"Triage": 130, "Specialist": 260},
    "langgraph": {"weather_agent": 260},
    "smolagents": {"smol": 130, "browser": 130},
    "conventions": {"writer": 50, "reviewer": 70},
}


class Picture:
    """What people see of a log."""

    def __init__(self, events: list[Event]) -> None:
        state, spending = fleet.initial(), costs.initial()
        for event in events:
            fleet.apply(state, event)
            costs.apply(spending, event)
        now = NOON + timedelta(minutes=1)
        self.standings = {
            each.name: fleet.standing_at(each, now=now, session=fleet.find_session(state, each)) for each in state.agents.values()
        }
        self.parents = {each.name: each.parent for each in state.agents.values()}
        self.costs = {name: (amount.tokens, amount.usd) for name, amount in spending.agents.items()}
        self.open_costs = sum(part.cell.amount.tokens for part in spending.open.values())
        self.facts = sorted(
            str((event.kind, event.agent, event.parent, event.child, event.run, event.text))
            for event in events
            if event.visibility == "public"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Picture) and vars(self) == vars(other)


class Sender:
    """A server on a log in a file, which can be restarted."""

    def __init__(self, url: str, clock: FrozenClock) -> None:
        self._url, self.clock = url, clock

    @contextmanager
    def serve(self) -> Iterator[EndpointClient]:
        with open_endpoints(self._url, clock=self.clock) as doors:
            yield doors

    def send(self, *batches: list[Body]) -> list[Event]:
        """Each batch to the same server."""
        with self.serve() as doors:
            for batch in batches:
                answer = doors.post(TRACES, request(*batch, service="yard"))
                assert (answer.status, answer.json) == (200, {})
            return doors.events


@pytest.fixture
def make_sender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Sender]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    numbers = iter(range(100))
    return lambda: Sender(f"sqlite:{tmp_path / f'log-{next(numbers)}.db'}", FrozenClock(NOON + timedelta(seconds=10)))


@pytest.mark.parametrize("program", list(PROGRAMS))
def test_batches_order_and_restarts_change_nothing(program: str, make_sender: Callable[[], Sender]) -> None:
    spans = PROGRAMS[program]
    whole = Picture(make_sender().send(spans))
    assert whole.parents == AGENTS[program]
    assert {name: tokens for name, (tokens, _) in whole.costs.items()} == TOKENS[program]
    assert "working" not in whole.standings.values()

    one_by_one = [[each] for each in spans]
    mixed = Random(7).sample(one_by_one, len(one_by_one))
    for batches in (one_by_one, one_by_one[::-1], mixed, [spans[:3], spans[3:]], [spans[3:], spans[:3]], [spans, spans]):
        assert Picture(make_sender().send(*batches)) == whole
    for order in (one_by_one, one_by_one[::-1]):
        sender = make_sender()
        for batch in order:  # a restart after each request
            events = sender.send(batch)
        assert Picture(events) == whole


def test_prompts_are_recorded(make_sender: Callable[[], Sender]) -> None:
    for spans, agent, prompt in (
        (OPENAI_AGENTS, "Triage", "Weather in Paris?"),
        (LANGGRAPH, "weather_agent", "Weather?"),
        (SMOLAGENTS, "smol", "Weather?"),
    ):
        prompts = [(event.agent, event.text) for event in make_sender().send(spans) if event.kind == "prompt.submitted"]
        assert prompts == [(agent, prompt)]


def tick(doors: EndpointClient) -> int:
    return doors.context.span_buffer.settle_overdue(partial(store_valid_events, doors.context.log))


def test_a_long_run_is_seen_at_once_under_a_provisional_name_that_ends_with_it(make_sender: Callable[[], Sender]) -> None:
    whole = Picture(make_sender().send(LANGGRAPH))
    sender = make_sender()
    with sender.serve() as doors:
        for each in LANGGRAPH[:4]:
            doors.post(TRACES, request(each))
        assert (tick(doors), doors.events) == (0, [])
        sender.clock.advance(6)
        assert tick(doors) == tick(doors) == 0
        seen = Picture(doors.events)
        [(name, standing)] = seen.standings.items()
        assert (name.partition("/")[0], standing, seen.open_costs) == ("yard", "working", 130)
        for each in LANGGRAPH[4:]:
            doors.post(TRACES, request(each))
        assert Picture(doors.events) == whole


def test_a_parent_that_never_arrives_holds_nothing_back_for_good(make_sender: Callable[[], Sender]) -> None:
    sender = make_sender()
    sender.send(OPENAI_AGENTS[:1])
    sender.clock.advance(660)
    with sender.serve() as doors:
        assert (tick(doors), tick(doors)) == (1, 0)
        assert [(event.kind, event.agent) for event in doors.events] == [("model.replied", "yard")]


def test_a_parent_in_another_program_is_not_waited_for_long(make_sender: Callable[[], Sender]) -> None:
    sender = make_sender()
    with sender.serve() as doors:
        around = span(2, {"http.request.method": "POST"}, parent=1, at=0, to=9, flags=0x301)
        doors.post(TRACES, request(*CONVENTIONS[:-1], around))
        assert doors.events == []
        sender.clock.advance(31)
        assert tick(doors) == 5
        assert Picture(doors.events).parents == AGENTS["conventions"]


def test_spans_that_the_log_could_not_store_are_sent_again_and_lost_nowhere(make_sender: Callable[[], Sender]) -> None:
    whole = Picture(make_sender().send(SMOLAGENTS))
    sender = make_sender()
    with sender.serve() as doors:
        for each in SMOLAGENTS[:-1]:
            doors.post(TRACES, request(each))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(doors.context.log, "append_records", lambda records: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                doors.post(TRACES, request(SMOLAGENTS[-1]))
        doors.post(TRACES, request(SMOLAGENTS[-1]))
        assert Picture(doors.events) == whole


CRASHING = """
import os, sys
from fleetlore.dialects.otlp.values import iterate_spans
from fleetlore.ingest.span_buffer import SpanBuffer
from tests.server.test_otlp_traces import SMOLAGENTS, request
SpanBuffer(sys.argv[1]).store(list(iterate_spans(request(*SMOLAGENTS[:-1]))), lambda events: None)
os._exit(9)
"""


def test_a_killed_process_loses_no_span_that_it_accepted(tmp_path: Path) -> None:
    file, stored = str(tmp_path / "buffer" / "held.spans"), list[Event]()
    assert subprocess.run([sys.executable, "-c", CRASHING, file], check=False).returncode == 9
    assert os.stat(file).st_mode & 0o077 == 0
    buffer = SpanBuffer(file)
    buffer.store([each for each in iterate_spans(request(SMOLAGENTS[-1])) if each], stored.extend)
    buffer.close()
    expected = make_span_events([each for each in iterate_spans(request(*SMOLAGENTS)) if each])
    assert sorted(stored, key=str) == sorted(expected, key=str)


def test_a_damaged_buffer_is_put_aside(tmp_path: Path) -> None:
    file, stored = tmp_path / "held.spans", list[Event]()
    file.write_bytes(b"no database" * 1000)
    buffer = SpanBuffer(str(file))
    buffer.store([each for each in iterate_spans(request(*SMOLAGENTS)) if each], stored.extend)
    buffer.close()
    assert stored
    assert (tmp_path / "held.spans.damaged").exists()
