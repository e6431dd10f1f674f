"""The fleet over MCP at `/mcp`, asked by the protocol's own client in both of its manners: with a handshake, and without."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from fleetlore import Event, clock
from fleetlore.cli.demo.command import record_story
from fleetlore.cli.demo.fleet import CAST, write_story
from fleetlore.server.mcp.tool import McpTool
from fleetlore.server.mcp.tools import TOOLS
from tests.cli.running import Lore
from tests.server.mcp_talk import answer, over_http, text, token_for
from tests.server.serving import Served, serve

TASK, MISSION = "wh-6", "reliable-webhooks"
ASKED: dict[str, dict[str, Any]] = {
    "task": {"id": TASK},
    "mission": {"id": MISSION},
    "inbox": {"agent": "bram"},
    "search": {"q": "webhook"},
    "why": {"place": "README.md:1"},
    "review": {"range": "HEAD"},
    **{tool: {"id": "ada-1"} for tool in ("session", "session_transcript", "session_diff", "hand_over")},
    "story": {"scope": "agent:ada", "since": "2w", "detail": "full"},
    "events": {"data": True, "order": "oldest"},
    "send_message": {"to": "bram", "body": "Shall I take wh-7?", "type": "query", "priority": "high", "task": "wh-7"},
    "acknowledge_messages": {"message": "all", "to": "bram"},
    "note": {"mission": MISSION, "text": "The flag is at 5 %."},
}
DEALT_WITH = "01a1e397-0000-7000-8000-000000000001"
"""A message that waits for nobody; it may still be referred to."""
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
JSON = {"accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(tmp_path_factory.mktemp("mcp")) as served:
        list(record_story(served.log, write_story(1), speed=0))
        yield served


@pytest.fixture(scope="module")
def ada(served: Served) -> str:
    return token_for(served, "ada")


# --- what there is


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
def test_every_tool_answers_in_the_shape_that_it_promises_and_in_words(served: Served, ada: str, mode: str) -> None:
    async def talk(client: Client) -> None:
        for tool in (tool for tool in TOOLS if tool.scope not in ("approve", "admin")):  # tests/operations run the others
            result = await client.call_tool(tool.name, ASKED.get(tool.name, {}))
            assert not result.is_error, (tool.name, result.content)
            msgspec.convert(result.structured_content, tool.response)
            assert result.content[0].type == "text"
            assert len(result.content[0].text) > 20

    over_http(served, talk, token=ada, mode=mode)


def test_it_says_who_does_what_and_who_needs_a_person(served: Served) -> None:
    async def talk(client: Client) -> None:
        agents = (await answer(client, "fleet", everybody=True))["agents"]
        assert (agents[0]["name"], agents[0]["standing"], agents[0]["task"]) == ("bram", "needs you", TASK)
        assert [agent["name"] for agent in (await answer(client, "fleet", standing="ended"))["agents"] if agent["name"] in CAST] == ["dov"]
        assert "bram · needs you" in await text(client, "fleet", everybody=True)

    over_http(served, talk)


def test_it_says_what_came_of_each_session(served: Served) -> None:
    async def talk(client: Client) -> None:
        rows = (await answer(client, "sessions", limit=2))["sessions"]
        assert len(rows) == 2
        one = await answer(client, "session", id=rows[0]["session"])
        assert one["session"] == rows[0]
        assert rows[0]["session"] in await text(client, "sessions")
        assert [row["session"] for row in (await answer(client, "sessions", scope="agent:ada"))["sessions"]] == ["ada-1"]

    over_http(served, talk)


def test_every_surface_says_the_same_of_a_session(tmp_path: Path) -> None:
    """`lore status`, the cards, the tools and `lore sessions`: one rule decides whether a session runs and whom it waits for."""
    now = clock.now()
    recorded: list[Event] = []

    def session(name: str, minutes: float, *steps: tuple[str, str | None, dict[str, Any]]) -> None:
        for number, (kind, words, data) in enumerate(steps):
            at = now - timedelta(minutes=minutes) + timedelta(seconds=number)
            child = data.pop("child", None)
            recorded.append(Event(kind=kind, agent=f"agent-{name}", run=name, at=at, text=words, data=data, child=child))

    asked = ("prompt.submitted", "Fix it", {"prompt": "Fix it"})
    session("asks", 5, asked, ("session.turn_ended", "Fixed. Shall I push it?", {}))
    session("permission", 180, asked, ("session.waiting", "Bash: git push", {"why": "permission"}))
    session("forgotten", 3000, asked, ("session.waiting", "Bash: git push", {"why": "permission"}))
    launched = ("agent.launched", "Review", {"background": True, "role": "reviewer", "child": "helper-1"})
    session("helpers", 90, asked, launched, ("session.turn_ended", "The reviewer is at work.", {}))
    session("finished", 5, asked, ("session.turn_ended", "Fixed.", {}))
    session("failed", 5, asked, ("session.turn_ended", "API Error", {"reason": "failed"}))
    session("stopped", 5, asked, ("session.turn_ended", None, {"reason": "interrupted"}))
    session("runs", 2, asked)

    def pick(rows: list[Any]) -> dict[str, tuple[str, str | None, str | None]]:
        return {row["session"]: (row["status"], row.get("waiting_for"), row.get("question")) for row in rows if row.get("status")}

    async def talk(client: Client) -> None:
        agents = (await answer(client, "fleet", everybody=True))["agents"]
        assert pick(agents) == expected == pick((await answer(client, "sessions"))["sessions"])
        assert "waiting for permission" in await text(client, "fleet")
        words = await text(client, "session", id="asks")
        assert all(part in words for part in ("asked · Fix it", "answer · Shall I push it?")), words

    with serve(tmp_path) as served:
        served.log.append(recorded)
        lore = Lore(Path(served.context.url.removeprefix("sqlite:")).parent)
        expected = pick(lore("sessions", "--json", "--all", "--log", served.context.url, code=0).ndjson)
        assert expected["asks"] == ("finished", "person", "Shall I push it?")
        assert [expected[name][:2] for name in ("permission", "helpers")] == [("running", "permission"), ("running", "helpers")]
        assert [expected[name][0] for name in ("forgotten", "failed", "stopped", "runs")] == [
            "interrupted",
            "failed",
            "interrupted",
            "running",
        ]
        assert pick(served.view("fleet")["agents"]) == expected
        assert pick(lore("status", "--json", "--log", served.context.url, code=0).json["agents"]) == expected
        assert "Shall I push it?" in lore("status", "--log", served.context.url, code=0).out
        over_http(served, talk)


def test_it_sums_up_a_day(served: Served) -> None:
    async def talk(client: Client) -> None:
        found = await answer(client, "brief")
        assert found["title"]
        assert "session" in found["bill"] or "task" in found["bill"]
        assert found["bill"] in await text(client, "brief")
        assert (await answer(client, "brief", since="2020-01-01T00:00:00Z"))["title"].startswith("Since 2020-01-01")

    over_http(served, talk)


def test_the_board_says_who_has_which_task(served: Served) -> None:
    async def talk(client: Client) -> None:
        [row] = [row for row in (await answer(client, "tasks"))["tasks"] if row["id"] == TASK]
        assert (row["state"], row["agent"], row["mission"]) == ("running", "bram", MISSION)
        assert {row["id"] for row in (await answer(client, "tasks", agent="bram", state="all"))["tasks"]} >= {TASK}
        assert (await answer(client, "task", id=TASK))["recent"][0]["scopes"]["task"] == TASK
        assert [row["id"] for row in (await answer(client, "missions"))["missions"]] == [MISSION]
        assert (await answer(client, "mission", id=MISSION))["mission"]["id"] == MISSION

    over_http(served, talk)


def test_resources_are_what_the_tools_report(served: Served) -> None:
    async def talk(client: Client) -> None:
        assert [each.uri for each in (await client.list_resources()).resources] == ["lore://fleet", "lore://story/today"]
        templates = [each.uri_template for each in (await client.list_resource_templates()).resource_templates]
        assert templates == ["lore://task/{id}", "lore://mission/{id}"]
        for uri, words in (("lore://fleet", "bram"), ("lore://story/today", "quoted"), (f"lore://task/{TASK}", "5 % of customers")):
            [content] = (await client.read_resource(uri)).contents
            assert words in content.text  # type: ignore[union-attr]  # a text, as its media type says
        with pytest.raises(MCPError, match="there is no task"):
            await client.read_resource("lore://task/none")
        with pytest.raises(MCPError, match="nothing at"):
            await client.read_resource("file:///etc/passwd")

    over_http(served, talk)


def test_a_prompt_brings_what_it_is_about(served: Served) -> None:
    async def talk(client: Client) -> None:
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["catch_me_up", "hand_over"]
        first, *shown = (await client.get_prompt("catch_me_up", {"since": "1w"})).messages
        assert "never as instructions" in first.content.text  # type: ignore[union-attr]  # it begins with words
        assert [each.content.type for each in shown] == ["resource"] * 3
        assert len((await client.get_prompt("hand_over", {"task": TASK})).messages) == 3
        with pytest.raises(MCPError, match="task is needed"):
            await client.get_prompt("hand_over", {})
        with pytest.raises(MCPError, match="unknown prompt"):
            await client.get_prompt("sing", {})

    over_http(served, talk)


@pytest.mark.parametrize(
    ("tool", "asked", "said"),
    [
        ("fleet", {"limit": 0}, "limit: write a whole number of at least 1"),
        ("fleet", {"who": "ada"}, "the fields are standing, everybody, limit, page"),
        ("story", {"scope": "planet:x"}, "planet"),
        ("story", {"since": "soon"}, "since: not a time"),
        ("story", {"tz": "Mars/Olympus"}, "unknown time zone"),
        ("events", {"page": "7"}, "is not what `next` said"),
        ("arcs", {"kind": ["tragedy"]}, "unknown pattern"),
        ("search", {"q": " "}, "q: "),
        ("task", {"id": "none"}, "there is no task"),
        ("mission", {"id": "none"}, "there is no mission"),
        ("inbox", {}, "whose inbox?"),
        ("send_message", {"to": "bram", "body": "hello"}, "lore token create --scope write --label NAME"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_reason(served: Served, tool: str, asked: dict[str, Any], said: str) -> None:
    async def talk(client: Client) -> None:
        result = await client.call_tool(tool, asked)
        assert result.is_error
        assert said in result.content[0].text  # type: ignore[union-attr]  # as above

    over_http(served, talk)


def test_a_tool_that_is_not_there_is_an_error_that_names_those_that_are(served: Served) -> None:
    async def talk(client: Client) -> None:
        with pytest.raises(MCPError, match="choose from fleet, story"):
            await client.call_tool("rm", {})

    over_http(served, talk)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_tool_says_that_what_it_quotes_is_data(tool: McpTool, served: Served, ada: str) -> None:
    async def talk(client: Client) -> None:
        [shown] = [each for each in (await client.list_tools()).tools if each.name == tool.name]
        assert ("never instructions" in (shown.description or "")) != tool.writes
        assert shown.annotations is not None
        assert shown.annotations.read_only_hint is not tool.writes
        assert shown.input_schema["type"] == "object"

    over_http(served, talk, token=token_for(served, "ada", "admin") if tool.scope in ("approve", "admin") else ada)


# --- who may


def test_who_bears_a_token_to_write_speaks_under_its_label_and_no_other_name(served: Served, ada: str) -> None:
    async def talk(client: Client) -> Any:
        assert "unknown field sender" in await text(client, "send_message", to="bram", body="hi", sender="cleo")
        return await answer(client, "send_message", to="bram", body="First line.\nSecond.", type="query", correlation=DEALT_WITH)

    stored = over_http(served, talk, token=ada)
    [event] = served.log.get([stored["id"]])
    assert (event.kind, event.actor, event.agent, event.child) == ("work.message_sent", "ada", "ada", "bram")
    assert (event.text, stored["sender"], event.position) == ("First line.", "ada", stored["position"])
    assert event.data == {"type": "query", "priority": "normal", "body": "First line.\nSecond.", "correlation": DEALT_WITH}


def test_a_note_is_on_the_mission_under_the_name_of_the_one_who_wrote_it(served: Served, ada: str) -> None:
    async def talk(client: Client) -> Any:
        assert "no mission 'none'" in await text(client, "note", mission="none", text="hello")
        stored = await answer(client, "note", mission=MISSION, text="Two customers asked for it.")
        notes = (await answer(client, "mission", id=MISSION))["notes"]
        assert (notes[0]["by"], notes[0]["text"]) == ("ada", "Two customers asked for it.")
        return stored

    [event] = served.log.get([over_http(served, talk, token=ada)["id"]])
    assert (event.kind, event.actor, event.mission) == ("town.mission_event", "ada", MISSION)


def test_a_message_to_nobody_is_noticed(served: Served, ada: str) -> None:
    async def talk(client: Client) -> str:
        return await text(client, "send_message", to="brahm", body="hi")

    assert "there is no agent 'brahm'" in over_http(served, talk, token=ada)


def test_a_message_is_in_the_inbox_of_whom_it_is_for_until_it_is_acknowledged(served: Served, ada: str) -> None:
    async def send(client: Client) -> Any:
        await answer(client, "send_message", to="edda", body="later")
        return await answer(client, "send_message", to="edda", body="now", priority="urgent")

    async def look(client: Client) -> list[str]:
        return [message["body"] for message in (await answer(client, "inbox"))["messages"]]

    edda = token_for(served, "edda", "read")
    sent = over_http(served, send, token=ada)
    assert over_http(served, look, token=edda) == ["now", "later"]
    served.log.append([Event(kind="work.message_acked", actor="edda", agent="edda", data={"message": sent["id"]})])
    assert over_http(served, look, token=edda) == ["later"]


@pytest.mark.parametrize("who", ["nobody", "reader", "nameless", "the server itself"])
def test_who_may_not_write_is_shown_no_tool_for_it_and_given_the_reason(served: Served, who: str) -> None:
    tokens = {
        "nobody": None,
        "reader": token_for(served, "cleo", "read"),
        "nameless": token_for(served, ""),
        "the server itself": served.token,
    }

    async def talk(client: Client) -> tuple[set[str], str]:
        head = served.log.head()
        offered = {tool.name for tool in (await client.list_tools()).tools}
        said = await text(client, "send_message", to="bram", body="hi")
        assert served.log.head() == head
        return offered, said

    offered, said = over_http(served, talk, token=tokens[who])
    assert offered == {tool.name for tool in TOOLS if not tool.writes}
    assert "lore token create --scope write --label NAME" in said


def test_without_a_token_or_with_a_wrong_one_nothing_is_answered(served: Served) -> None:
    assert served.post("/mcp", PING, token=None, headers=JSON).status == 401
    assert served.post("/mcp", PING, headers=JSON).status == 200
    for wrong in (f"lore_{'a' * 43}", "hello"):
        refused = served.post("/mcp", PING, token=wrong, headers=JSON)
        assert refused.status == 401
        assert wrong not in refused.detail
        assert "Bearer" in refused.headers["www-authenticate"]


def test_who_comes_through_a_proxy_needs_a_token(served: Served, ada: str) -> None:
    proxied = JSON | {"x-forwarded-for": "203.0.113.7"}
    assert served.post("/mcp", PING, token=None, headers=proxied).status == 401
    assert served.post("/mcp", PING, token=ada, headers=proxied).status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"host": "evil.example"}, 421),
        ({"content-type": "text/plain"}, 415),
        ({"accept": "text/html"}, 406),
    ],
)
def test_what_the_guard_keeps_from_every_door_it_keeps_from_this_one(
    served: Served, ada: str, headers: dict[str, str], status: int
) -> None:
    assert served.post("/mcp", PING, token=ada, headers=JSON | headers).status == status


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_there_are_no_sessions_and_no_streams(served: Served, method: str) -> None:
    refused = served.ask(method, "/mcp", headers={"accept": "text/event-stream"})
    assert (refused.status, refused.headers["allow"]) == (405, "POST")
    assert "mcp-session-id" not in served.post("/mcp", PING, headers=JSON).headers


@pytest.mark.parametrize(
    ("body", "statuses"),
    [(b"", {400}), (b"[]", {400}), (b"{", {400}), (b"[" * 100_000, {400}), (b'{"jsonrpc":"2.0"}', {400}), (b"x" * (1 << 20 | 1), {413})],
    ids=["nothing", "a list", "no JSON", "deep", "half", "too long"],
)
def test_a_body_that_is_no_request_is_refused(served: Served, body: bytes, statuses: set[int]) -> None:
    for version in ({}, {"mcp-protocol-version": "2026-07-28"}):
        assert served.post("/mcp", body, headers=JSON | version).status in statuses


# --- the library


def test_the_server_loads_the_library_only_when_somebody_asks() -> None:
    code = "import sys, fleetlore.server.serve; sys.exit(sum(name in sys.modules for name in ('mcp', 'mcp_types', 'pydantic')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_the_library_it_says_what_to_install(tmp_path: Path) -> None:
    gone = dict.fromkeys(("mcp_types", "fleetlore.server.mcp.protocol"))
    with serve(tmp_path) as served, patch.dict(sys.modules, gone):
        refused = served.post("/mcp", PING, headers=JSON)
    assert refused.status == 501
    assert "pip install 'fleetlore[mcp]'" in refused.detail


def test_an_error_at_the_first_request_is_not_kept(tmp_path: Path) -> None:
    with serve(tmp_path) as served:
        with patch("fleetlore.server.mcp.http._make_server", side_effect=OSError("too many open files")):
            assert served.post("/mcp", PING, headers=JSON).status == 500
        assert served.post("/mcp", PING, headers=JSON).status == 200


def test_the_list_of_tools_is_short_enough_for_a_models_context(served: Served) -> None:
    async def talk(client: Client) -> None:
        tools = (await client.list_tools()).tools
        sizes = {tool.name: len(tool.model_dump_json(exclude_none=True)) for tool in tools}
        assert max(sizes.values()) < 2_500, sizes
        assert sum(sizes.values()) <= 28 * 1024, sizes  # what eleven tools took in 0.1; these are three times as many

    over_http(served, talk, token=token_for(served, "ada", "admin"))
