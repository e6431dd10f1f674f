"""A reply is the same in the log, and acknowledges what it answers, whether it comes by the command line, over HTTP or over MCP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from msgspec.structs import replace

from fleetlore import Event, clock, connect
from fleetlore.errors import Conflict
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.server.mcp.caller import Caller
from fleetlore.town import events as town_events
from tests.cli.conftest import lore as lore
from tests.cli.running import Lore
from tests.server.mcp_talk import answer, directly, on_demand, over_http, text, token_for
from tests.server.serving import Served, serve

ADA = Caller("ada", can_write=True)


@pytest.fixture
def served(tmp_path: Path, lore: Lore) -> Iterator[Served]:
    with serve(tmp_path / "server", f"sqlite:{lore.folder}/fleet.db") as served:
        served.log.append([town_events.agent_spawned(name, by="grace") for name in ("ada", "bram")])
        yield served


def ask(log: BlockingRecorder, to: str, *, sender: str = "bram", **more: Any) -> str:
    """Somebody asks something; answers the message's id."""
    id = clock.uuid7()
    event = town_events.message_sent(sender, to, "What is the port?", type="query", task="t-1", mission="m-1", **more)
    log.append([replace(event, id=id)])
    return id


def send_by_mcp(served: Served, **said: Any) -> Any:
    async def talk(client: Client) -> Any:
        return await answer(client, "send_message", **said)

    return over_http(served, talk, token=token_for(served, "ada"))


def refused_by_mcp(served: Served, **said: Any) -> str:
    async def talk(client: Client) -> str:
        return await text(client, "send_message", **said)

    head = served.log.head()
    refusal = over_http(served, talk, token=token_for(served, "ada"))
    assert served.log.head() == head, "nothing was stored"
    return refusal


def waiting_for(served: Served, name: str) -> list[str]:
    async def talk(client: Client) -> list[str]:
        return [message["id"] for message in (await answer(client, "inbox", agent=name))["messages"]]

    return over_http(served, talk)


def stored_by(log: BlockingRecorder, work: Callable[[], Any]) -> list[Event]:
    head = log.head()
    work()
    return list(log.read(after=head))


def shape_of(events: list[Event], speaker: str, question: str) -> list[Any]:
    """All that is the same for every speaker and question."""

    def neutral(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: neutral(each) for name, each in value.items()}
        return {speaker: "the speaker", question: "the question"}.get(value, value)

    fields = ("kind", "agent", "child", "parent", "task", "mission", "goal", "cause", "text", "visibility", "data")
    return [{name: neutral(getattr(event, name)) for name in fields} for event in events]


@pytest.mark.parametrize("correlation", [None, "01a1e397-0000-7000-8000-000000000001"], ids=["a question", "a question in a conversation"])
def test_a_reply_stores_the_same_events_by_every_way(lore: Lore, served: Served, correlation: str | None) -> None:
    log, body = served.log, "8080.\nBehind the proxy 80."
    to_ada, to_ada_too, to_person, to_person_too = (
        ask(log, to, correlation=correlation) for to in ("ada", "ada", "conductor", "conductor")
    )

    def by_command(question: str, *speaker: str) -> Callable[[], Any]:
        return lambda: lore("--log", served.context.url, "town", *speaker, "send", "bram", body, "--reply-to", question, code=0)

    def by_http() -> None:
        assert served.post("/api/town/messages", {"to": "bram", "body": body, "correlation": to_person_too}).status == 200

    shapes = [
        shape_of(stored_by(log, by_command(to_ada, "--as", "ada")), "ada", to_ada),
        shape_of(stored_by(log, lambda: send_by_mcp(served, to="bram", body=body, correlation=to_ada_too)), "ada", to_ada_too),
        shape_of(stored_by(log, by_command(to_person)), "conductor", to_person),
        shape_of(stored_by(log, by_http), "conductor", to_person_too),
    ]
    sent, acked = shapes[0]
    assert (sent["kind"], sent["data"]["correlation"]) == ("work.message_sent", correlation or "the question")
    assert (sent["agent"], sent["child"], sent["task"], sent["mission"]) == ("the speaker", "bram", "t-1", "m-1")
    assert (acked["kind"], acked["data"]) == ("work.message_acked", {"message": "the question", "answer": body})
    assert all(shape == shapes[0] for shape in shapes)
    assert waiting_for(served, "ada") == waiting_for(served, "conductor") == []


@pytest.mark.parametrize(
    ("to", "kinds"), [("bram", ["work.message_sent"]), ("conductor", ["town.conductor_escalation", "work.message_sent"])]
)
def test_a_question_and_a_call_for_help_are_the_same_by_command_and_mcp(lore: Lore, served: Served, to: str, kinds: list[str]) -> None:
    body = "Where are the tests?"
    command = ["--log", served.context.url, "town", "--as", "ada", "send", to, body, "--query"]
    by_command = stored_by(served.log, lambda: lore(*command, code=0))
    by_mcp = stored_by(served.log, lambda: send_by_mcp(served, to=to, body=body, type="query"))
    assert [event.kind for event in by_command] == kinds
    assert shape_of(by_command, "ada", "") == shape_of(by_mcp, "ada", "")
    assert {event.actor for event in by_mcp} == {"ada"}


def test_the_answer_names_the_message_and_not_its_acknowledgement(served: Served) -> None:
    answered = send_by_mcp(served, to="bram", body="8080", correlation=ask(served.log, "ada")[:12])
    [event] = served.log.get([answered["id"]])
    assert (event.kind, event.position, answered["sender"]) == ("work.message_sent", answered["position"], "ada")
    assert waiting_for(served, "ada") == []


def test_only_what_waits_in_the_agents_own_inbox_is_acknowledged(lore: Lore, served: Served) -> None:
    """By its whole id any message can be referred to, as on the command line."""
    foreign = ask(served.log, "bram", sender="cleo")
    stored = [
        stored_by(
            served.log, lambda: lore("--log", served.context.url, "town", "--as", "ada", "send", "bram", "8080", "--reply-to", foreign)
        ),
        stored_by(served.log, lambda: send_by_mcp(served, to="bram", body="8080", correlation=foreign)),
    ]
    assert [event.kind for event in stored[1]] == ["work.message_sent"]
    assert shape_of(stored[0], "ada", foreign) == shape_of(stored[1], "ada", foreign)
    assert foreign in waiting_for(served, "bram")


def test_a_question_that_was_answered_is_not_acknowledged_again(served: Served) -> None:
    question = ask(served.log, "ada")
    recorded = [stored_by(served.log, lambda: send_by_mcp(served, to="bram", body="8080", correlation=question)) for _ in range(2)]
    assert [[event.kind for event in events] for events in recorded] == [["work.message_sent", "work.message_acked"], ["work.message_sent"]]


@pytest.mark.parametrize(
    ("to", "reply_to", "words"),
    [
        ("bram", "m1", "ada has no unread message 'm1'"),
        ("bram", "ffffffff", "ada has no unread message 'ffffffff'"),
        ("brahm", None, "there is no agent 'brahm' in this town; did you mean bram?"),
        ("ada", None, "cannot send a message to yourself"),
    ],
)
def test_what_the_command_line_refuses_is_refused_with_the_same_words(
    lore: Lore, served: Served, to: str, reply_to: str | None, words: str
) -> None:
    ask(served.log, "ada")
    more = [] if reply_to is None else ["--reply-to", reply_to]
    assert words in lore("--log", served.context.url, "town", "--as", "ada", "send", to, "8080", *more, code=2).err
    assert words in refused_by_mcp(served, to=to, body="8080", **({} if reply_to is None else {"correlation": reply_to}))
    assert len(waiting_for(served, "ada")) == 1


def test_two_messages_that_begin_alike_are_told_apart_by_more_of_the_id(served: Served) -> None:
    first, second = ask(served.log, "ada"), ask(served.log, "ada")
    assert "2 message ids start with" in refused_by_mcp(served, to="bram", body="8080", correlation=first[:4])
    send_by_mcp(served, to="bram", body="8080", correlation=first)
    assert waiting_for(served, "ada") == [second]


# --- `lore mcp`: a process of its own, with or without a town


@pytest.fixture
def log(tmp_path: Path) -> Iterator[BlockingRecorder]:
    with connect(f"sqlite:{tmp_path}/own.db").blocking() as log:
        log.append([Event(kind="fleet.idle", agent=name) for name in ("ada", "bram")])
        yield log


def reply_directly(log: BlockingRecorder, question: str) -> tuple[Any, list[str]]:
    async def talk(client: Client) -> tuple[Any, list[str]]:
        stored = await answer(client, "send_message", to="bram", body="8080", correlation=question)
        return stored, [message["id"] for message in (await answer(client, "inbox"))["messages"]]

    return directly(on_demand(log), ADA, talk)


def test_agents_outside_of_a_town_answer_each_other_alike(log: BlockingRecorder) -> None:
    """Sessions that somebody runs by hand have inboxes over MCP, though no town knows them."""
    question, other = ask(log, "ada"), ask(log, "ada")
    _, waiting = reply_directly(log, question)
    assert waiting == [other]
    assert [event.kind for event in log.read()][-2:] == ["work.message_sent", "work.message_acked"]


def test_a_conflict_is_tried_again(log: BlockingRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    log.append([town_events.agent_spawned(name, by="grace") for name in ("ada", "bram")])
    question, store, tries = ask(log, "ada"), log.append, list[int]()

    def conflict_first(events: Any, **more: Any) -> Any:
        tries.append(len(events))
        if len(tries) < 3:
            raise Conflict("town", None, None)
        return store(events, **more)

    monkeypatch.setattr(log, "append", conflict_first)
    _, waiting = reply_directly(log, question)
    assert (tries, waiting) == ([2, 2, 2], [])
    assert len(list(log.read(kinds=["work.message_acked"]))) == 1
