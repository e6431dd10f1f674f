"""Who may see an event, and that nothing which others read quotes a private one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import inspect
from msgspec.structs import replace

from fleetlore import connect
from fleetlore.errors import Invalid, InvalidEvent, UnknownName
from fleetlore.events import catalog, codec
from fleetlore.events.envelope import Event, Visibility
from fleetlore.events.visibility import OWNER, PUBLIC, READER, Viewer, can_see
from fleetlore.ingest.ship_filter import withhold_private
from fleetlore.prompts.agent_context import load_context
from fleetlore.prompts.build import build_prompt
from fleetlore.prompts.roles import BLOCKS_BY_ROLE
from fleetlore.testing import START
from tests.story.rendering import render_story
from tests.strategies import FITTING

SECRET = "xyzzy"
"""In the text and the data of every private event."""
ADA, BOB, CY = Viewer("ada"), Viewer("bob"), Viewer("cy")


@pytest.mark.parametrize(
    ("visibility", "seen_by"),
    [
        ("public", {OWNER, READER, PUBLIC, ADA, BOB, CY}),
        ("system", {OWNER, READER, ADA, BOB}),
        ("private", {OWNER, ADA}),
    ],
)
def test_who_sees_what_ada_did_to_bob(visibility: Visibility, seen_by: set[Viewer]) -> None:
    event = Event(kind="acme.noted", actor="ada", agent="bob", visibility=visibility)
    assert {viewer for viewer in (OWNER, READER, PUBLIC, ADA, BOB, CY) if can_see(event, viewer)} == seen_by


@pytest.mark.parametrize("visibility", ["public", "system", "private"])
def test_a_thought_is_private_whatever_its_visibility_says(visibility: Visibility) -> None:
    thought = Event(kind="agent.thought", actor="ada", agent="bob", visibility=visibility)
    assert [can_see(thought, viewer) for viewer in (OWNER, ADA, READER, PUBLIC, BOB)] == [True, True, False, False, False]


# --- what others read

WORDS = f"I plan {SECRET}"
FREE_DATA = {"error": SECRET, "thought": SECRET, "message": SECRET, "said": WORDS, "nested": [{"note": SECRET}]}
IDENTIFIERS = frozenset({"role", "parent_task", "of", "item"})
"""Names, like those in the envelope: who and which is no secret."""


def data_of(kind: str) -> dict[str, Any] | None:
    """Data that the kind accepts, with the secret in as many of its texts as possible."""
    texts = {
        field.encode_name: "n1" if field.encode_name in IDENTIFIERS else WORDS
        for field in inspect.type_info(catalog.known_kinds()[kind]).fields  # type: ignore[attr-defined]
        if any(isinstance(type, inspect.StrType) for type in getattr(field.type, "types", (field.type,)))
    }
    for data in (texts, {}, FITTING.get(kind)):
        if data is not None:
            with suppress(InvalidEvent):
                catalog.check_payload(kind, data)
                return data
    return None


KINDS = {kind: data for kind in catalog.known_kinds() if (data := data_of(kind)) is not None} | {"acme.dreamt": FREE_DATA}
SCOPES: dict[str, Any] = {"task": "t1", "run": "r1", "mission": "m1"}


def private_events() -> st.SearchStrategy[Event]:
    """Private events of ada, of any kind."""
    kinds = st.sampled_from(list(KINDS.items()))
    scopes = st.fixed_dictionaries({}, optional={name: st.just(value) for name, value in SCOPES.items()})
    return st.builds(
        lambda kind, scope: Event(kind=kind[0], actor="ada", agent="ada", text=WORDS, data=kind[1], visibility="private", **scope),
        kinds,
        scopes,
    )


def public_events() -> st.SearchStrategy[Event]:
    return st.builds(
        lambda kind, agent: Event(kind=kind, actor=agent, agent=agent, text="make it so", **SCOPES),
        st.sampled_from(["fleet.commit", "fleet.error", "agent.spoke", "acme.noted"]),
        st.sampled_from(["ada", "bob"]),
    )


def placed(*events: Event) -> list[Event]:
    """Events with ids and times, after one of bob."""
    bob = Event(kind="fleet.idle", actor="bob", agent="bob")
    return [
        replace(event, id=f"0198c0de-0000-7000-8000-{n:012d}", at=START + timedelta(minutes=n)) for n, event in enumerate((bob, *events))
    ]


def histories() -> st.SearchStrategy[list[Event]]:
    return st.lists(private_events() | public_events(), min_size=1, max_size=12).map(lambda events: placed(*events))


EVERY_KIND = placed(
    *(Event(kind=kind, actor="ada", agent="ada", text=WORDS, data=data, visibility="private", **SCOPES) for kind, data in KINDS.items()),
    *(Event(kind=kind, actor="ada", agent="ada", text="make it so", **SCOPES) for kind in ("fleet.commit", "agent.spoke", "fleet.error")),
)
"""A private event of each kind, then public ones of the same agent."""


@settings(max_examples=80)
@given(histories())
@example(EVERY_KIND)
def test_no_story_quotes_a_private_event(history: list[Event]) -> None:
    for format in ("text", "json", "markdown", "html"):
        for detail in ("story", "full"):
            assert SECRET not in render_story(history, format, detail)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(histories(), st.sampled_from(list(BLOCKS_BY_ROLE)))
@example(EVERY_KIND, next(iter(BLOCKS_BY_ROLE)))
def test_no_prompt_of_another_agent_quotes_a_private_event(history: list[Event], role: str) -> None:
    with connect("memory:").blocking() as log:
        log.append_all(history)
        for run in (None, "r1"):
            prompt = build_prompt(load_context(log, "bob", run=run), role, budget=100_000)
            assert SECRET not in prompt.text


@settings(max_examples=80)
@given(private_events())
def test_a_shipped_private_event_has_none_of_its_words(event: Event) -> None:
    assert SECRET.encode() not in codec.encode_event(withhold_private(event))


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(histories())
@example(EVERY_KIND)
def test_no_mcp_tool_answers_another_agent_with_a_private_event(history: list[Event]) -> None:
    pytest.importorskip("mcp")
    from fleetlore.server.mcp import tools
    from fleetlore.server.mcp.caller import Caller
    from tests.server.mcp_talk import on_demand

    def answers() -> Iterator[tuple[str, bytes]]:
        source = on_demand(log)
        for caller in (Caller("bob"), Caller()):
            for tool in tools.allowed_tools(caller):
                if (arguments := ARGUMENTS.get(tool.name)) is not None:
                    with suppress(Invalid, UnknownName):  # not every history has the task and the mission
                        done = tools.call_tool(tool, source, caller, arguments)
                        yield tool.name, msgspec.json.encode(done.structured) + done.text.encode()

    with connect("memory:").blocking() as log:
        log.append_all(history)
        assert [name for name, answer in answers() if SECRET.encode() in answer] == []


ARGUMENTS: dict[str, dict[str, Any]] = {
    "fleet": {},
    "story": {"detail": "full"},
    "arcs": {},
    "tasks": {"state": "all"},
    "task": {"id": "t1"},
    "missions": {},
    "mission": {"id": "m1"},
    "inbox": {"agent": "bob"},
    "costs": {},
    "search": {"q": "plan"},
    "events": {"data": True},
}
