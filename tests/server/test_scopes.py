"""Scopes over HTTP, the live feed and MCP: shown names are accepted, unknown ones are errors, and a thread's link shows its events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from mcp import Client as McpClient

from fleetlore import Event
from fleetlore.server.mcp.caller import Caller
from tests.patience import PATIENCE
from tests.server.mcp_talk import answer, directly, on_demand, text
from tests.server.serving import Served, serve
from tests.server.watching import Client

AGENT, RUN = "claude-code/0b5e1111", "0b5e1111-2222-4333-8444-555555555555"
UNKNOWN = (
    ("agent:shpo", "agent:shop"),
    ("task:PAY-21", "task:PAY-12"),
    ("mission:lunch", "mission:launch"),
    ("agent:PAY-12", "task:PAY-12"),
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A session that names its task in one event of four, and another agent."""
    session: dict[str, Any] = {"actor": AGENT, "agent": AGENT, "run": RUN}
    with serve(tmp_path_factory.mktemp("scopes")) as running:
        running.log.append(
            [
                Event(kind="session.started", data={"project": "/w/shop", "branch": "main"}, **session),
                Event(kind="prompt.submitted", text="Fix the parser", task="PAY-12", **session),
                Event(kind="fleet.error", text="the parser drops a line", **session),
                Event(kind="fleet.commit", text="fix: parser", **session),
                Event(kind="fleet.commit", text="docs: parser", actor="ada", agent="ada", mission="launch"),
                Event(kind="fleet.heartbeat", actor="lore"),
            ]
        )
        yield running


def test_the_key_of_every_thread_is_a_scope(served: Served) -> None:
    threads = served.view("threads")["threads"]
    assert {thread["key"]: thread["events"] for thread in threads} == {"task:PAY-12": 4, "mission:launch": 1, "town": 1}
    for thread in threads:
        assert served.get("/api/brief", scope=thread["key"]).status == 200
    assert [one["session"] for one in served.view("story", scope="task:PAY-12")["story"]["paragraphs"]] == [RUN]
    assert [one["thread"] for one in served.view("story", scope="agent:ada")["story"]["paragraphs"]] == ["mission:launch"]


@pytest.mark.parametrize("name", ["shop", "shop@main: Fix the parser", "0b5e1111", RUN])
def test_a_shown_name_is_a_scope(served: Served, name: str) -> None:
    for view, query in (("events", {}), ("search", {"q": "parser"}), ("story", {}), ("brief", {})):
        wanted = served.view(view, scope=f"agent:{AGENT}", **query)
        assert served.view(view, scope=f"agent:{name}", **query) == wanted
    assert [lane["agent"] for lane in served.view("timeline", agent=[name])["lanes"]] == [AGENT]


@pytest.mark.parametrize(("scope", "suggestion"), UNKNOWN)
@pytest.mark.parametrize(("path", "query"), [("/api/events", {}), ("/api/search", {"q": "parser"}), ("/api/story", {}), ("/api/brief", {})])
def test_an_unknown_name_is_not_found_and_near_ones_are_suggested(
    served: Served, path: str, query: dict[str, Any], scope: str, suggestion: str
) -> None:
    refused = served.get(path, scope=scope, **query)
    assert (refused.status, refused.headers["content-type"]) == (404, "application/problem+json")
    assert suggestion in refused.detail
    assert suggestion in refused.json["suggestions"]


def test_an_unknown_agent_has_no_lane(served: Served) -> None:
    refused = served.get("/api/timeline", agent="shpo")
    assert refused.status == 404
    assert refused.json["suggestions"] == ["agent:shop"]


def test_events_by_id_need_no_scope_that_is_there(served: Served) -> None:
    [first, *_] = served.log.read(limit=1)
    assert len(served.view("events", id=[first.id], scope="agent:nobody")["events"]) == 1


@pytest.mark.parametrize(("typed", "agent"), [("shop", AGENT), ("brand-new", "brand-new")])
def test_a_scope_is_followed_by_its_shown_name_and_before_its_first_event(tmp_path: Path, typed: str, agent: str) -> None:
    async def follow(own: Served) -> list[str]:
        async with Client(own.port, f"/api/stream?scope={quote(f'agent:{typed}')}", Authorization=own.bearer["authorization"]) as client:
            assert client.status == 200
            commits = [Event(kind="fleet.commit", actor=who, agent=who, text=f"by {who}") for who in ("ada", agent)]
            await asyncio.to_thread(own.log.append, commits)
            async with asyncio.timeout(PATIENCE):
                _, event = await client.event()
            return [event["text"]]

    with serve(tmp_path) as own:
        own.log.append([Event(kind="session.started", actor=AGENT, agent=AGENT, run=RUN, data={"project": "/w/shop"})])
        assert asyncio.run(follow(own)) == [f"by {agent}"]


# --- MCP


@pytest.mark.parametrize(("tool", "asked"), [("events", {}), ("search", {"q": "parser"}), ("story", {"detail": "full"})])
def test_mcp_takes_shown_names_and_refuses_unknown_ones(served: Served, tool: str, asked: dict[str, str]) -> None:
    async def talk(client: McpClient) -> None:
        assert await answer(client, tool, scope="agent:shop", **asked) == await answer(client, tool, scope=f"agent:{AGENT}", **asked)
        for scope, suggestion in UNKNOWN:
            refused = await client.call_tool(tool, {"scope": scope, **asked})
            assert refused.is_error
            assert suggestion in await text(client, tool, scope=scope, **asked)

    directly(on_demand(served.log), Caller(), talk)


def test_mcp_shows_the_whole_thread_of_a_task(served: Served) -> None:
    async def talk(client: McpClient) -> int:
        [chapter] = (await answer(client, "story", scope="task:PAY-12", detail="full"))["chapters"]
        return len(chapter["sentences"])

    assert directly(on_demand(served.log), Caller(), talk) == 4


def test_mcp_refuses_the_inbox_and_the_tasks_of_an_unknown_agent(served: Served) -> None:
    async def talk(client: McpClient) -> None:
        for tool in ("inbox", "tasks"):
            refused = await client.call_tool(tool, {"agent": "shpo"})
            assert refused.is_error
            assert "agent:shop" in await text(client, tool, agent="shpo")
            await answer(client, tool, agent="shop")
        assert (await answer(client, "inbox"))["messages"] == [], "the asker itself may be too new to be in the log"

    directly(on_demand(served.log), Caller("brand-new"), talk)
