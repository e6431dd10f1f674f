"""Every operation that changes something stores the same events from the command line, over HTTP and over MCP."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from mcp import Client

from fleetlore import Event, connect
from fleetlore import settings as config
from fleetlore.cli.main import main
from fleetlore.operations.context import open_context, open_source
from fleetlore.operations.request import load_operation, parse_request
from fleetlore.operations.table import OPERATIONS, Operation, find_operation
from fleetlore.server.mcp.caller import Caller
from fleetlore.town import events as town_events
from tests.server import goal_logs, town_logs
from tests.server.goal_logs import id_of
from tests.server.mcp_talk import answer, directly
from tests.server.serving import homely, serve
from tests.server.town_logs import MISSION

PERSON, AGENT = "control room", "dora"
ASKING, WORKING, RUN = id_of(2), id_of(5), "the-tin"
MESSAGE, UNREAD = "01a1e397-0000-7000-8000-00000000000a", "01a1e397-0000-7000-8000-00000000000b"
PAUSED, ENDED = "paused-mission", "ended-mission"
PLAN = 'title = "Read issues"\nid = "reader"\n[[items]]\nid = "shape"\n'


class Case(NamedTuple):
    """An operation, as it is written on the command line and as a request."""

    operation: str
    argv: tuple[str, ...]
    """Empty if it has no command."""
    request: dict[str, Any]


CASES = (
    Case("town send", ("town", "send", "ada", "Well", "done", "--urgent"), {"to": "ada", "body": "Well done", "priority": "urgent"}),
    Case("town send", ("town", "send", "fi", "Which port?", "--query"), {"to": "fi", "body": "Which port?", "type": "query"}),
    Case(
        "town send",
        ("town", "send", "ada", "Yes", "--reply-to", MESSAGE),
        {"to": "ada", "body": "Yes", "correlation": MESSAGE},
    ),
    Case("town acknowledge", ("town", "inbox", "bram", "--ack", "all"), {"to": "bram", "message": "all"}),
    Case("town spawn", ("town", "spawn", "kai", "lea", "--role", "r"), {"agent": ["kai", "lea"], "roles": ["r"]}),
    Case("town control agents", ("town", "interrupt", "ada"), {"agent": "ada", "action": "interrupt"}),
    Case("town control agents", ("town", "resume", "ivo"), {"agent": "ivo", "action": "resume"}),
    Case("town control agents", ("town", "close", "hugo"), {"agent": "hugo", "action": "drain"}),
    Case(
        "town control agents",
        ("town", "kill", "ada", "bram", "--reason", "wrong branch"),
        {"agent": ["ada", "bram"], "action": "kill", "reason": "wrong branch"},
    ),
    Case("town control agents", ("town", "restart", "jana"), {"agent": "jana", "action": "restart"}),
    Case(
        "town add task",
        ("town", "backlog", "add", "Fix it\nwith tests", "--check", "unit", "--after", "t-cache"),
        {"title": "Fix it\nwith tests", "checks": ["unit"], "depends_on": ["t-cache"]},
    ),
    Case("town add task", ("town", "assign", "gwen", "Fix", "it"), {"title": "Fix it", "agent": "gwen"}),
    Case("town control task", ("town", "assign", "gwen", "--task", "t-cache"), {"task": "t-cache", "agent": "gwen", "action": "assign"}),
    Case("town control task", ("town", "backlog", "claim", "t-cache", "gwen"), {"task": "t-cache", "agent": "gwen", "action": "claim"}),
    Case("town control task", ("town", "task", "cancel", "t-words"), {"task": "t-words", "action": "cancel"}),
    Case("town control task", ("town", "task", "retry", "w-docs"), {"task": "w-docs", "action": "retry"}),
    Case(
        "town control task",
        ("town", "task", "complete", "t-words", "--result", "done by hand"),
        {"task": "t-words", "action": "complete", "result": "done by hand"},
    ),
    Case(
        "town control task",
        ("town", "task", "redirect", "w-store", "--to", "gwen"),
        {"task": "w-store", "action": "redirect", "agent": "gwen"},
    ),
    Case("town start mission", ("town", "mission", "start", "plan.toml"), {"plan": PLAN}),
    Case("town control mission", ("town", "mission", "pause", MISSION), {"mission": MISSION, "action": "pause"}),
    Case(
        "town control mission",
        ("town", "mission", "stop", MISSION, "--force"),
        {"mission": MISSION, "action": "fail", "force": True},
    ),
    Case("town control mission", ("town", "mission", "resume", PAUSED), {"mission": PAUSED, "action": "resume"}),
    Case("town control mission", ("town", "mission", "archive", ENDED), {"mission": ENDED, "action": "archive"}),
    Case("town control mission", ("town", "mission", "helped", MISSION), {"mission": MISSION, "action": "helped"}),
    Case("town review", ("town", "mission", "approve", MISSION, "page"), {"mission": MISSION, "item": "page", "verdict": "approve"}),
    Case(
        "town review",
        ("town", "mission", "reject", MISSION, "page", "--reason", "no tests"),
        {"mission": MISSION, "item": "page", "verdict": "reject", "reason": "no tests"},
    ),
    Case("town recover", ("town", "recover"), {}),
    Case("town reclaim", ("town", "reclaim", "--to", "gwen", "--from", "jana"), {"to": "gwen", "of": "jana"}),
    Case("town reclaim", ("town", "reclaim", "--to-backlog"), {"to_backlog": True}),
    Case("town note", ("town", "mission", "note", MISSION, "Ask", "first"), {"mission": MISSION, "text": "Ask first"}),
    Case("goal control", ("goal", "pause", WORKING[:8]), {"id": WORKING, "action": "pause"}),
    Case("goal control", ("goal", "cancel", WORKING, "--reason", "done"), {"id": WORKING, "action": "cancel", "reason": "done"}),
    Case("goal control", ("goal", "say", WORKING, "The", "API"), {"id": WORKING, "action": "say", "value": "The API"}),
    Case("goal control", ("goal", "raise", WORKING, "--turns", "99"), {"id": WORKING, "action": "raise", "value": {"turns": 99}}),
    Case(
        "decide",
        ("decide", "QUESTION", "deny", "--reason", "not now"),
        {"id": "QUESTION", "choice": "deny", "reason": "not now"},
    ),
    Case(
        "goal answer",
        ("decide", "QUESTION", "deny", "--reason", "not now"),
        {"id": ASKING, "of": "QUESTION", "choice": "deny", "message": "not now"},
    ),
    Case("name", ("name", "ada", "release manager"), {"agent": "ada", "name": "release manager"}),
    Case("stage inject", (), {"run": RUN, "text": "Fire drill!", "label": "the caretaker"}),
)
COMMANDS_BESIDE = {"town acknowledge": "town inbox", "decide": "decide", "goal answer": "decide"}
"""Operations without a command of their own → the command that runs them."""
NOT_FOR_AGENTS = {"goal answer", "stage inject"}
"""`decide` answers requests of goals, too; an agent must not be able to speak as a visitor."""


def test_every_operation_that_changes_something_is_tried() -> None:
    assert {case.operation for case in CASES} == {operation.name for operation in OPERATIONS if operation.changes}


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if each.changes], ids=lambda operation: operation.name)
def test_every_edge_of_an_operation_is_tried(operation: Operation) -> None:
    """A case for each of its commands; HTTP for all; MCP for all but those that agents must not have."""
    tried = {" ".join(case.argv) for case in CASES if case.operation == operation.name}
    commands = [command.words for command in operation.commands] or [COMMANDS_BESIDE.get(operation.name, "")]
    assert [words for words in commands if not any(argv.startswith(words) for argv in tried)] == []
    assert operation.http
    assert bool(operation.mcp) is (operation.name not in NOT_FOR_AGENTS)


@pytest.fixture(scope="module")
def story() -> list[Event]:
    """A town in the middle of its work, goals in every state, and a request for work that nobody reads."""
    town = town_logs.all_sorts()
    sent = (
        (MESSAGE, town_events.message_sent("ada", AGENT, "May I merge it?", type="query")),
        (UNREAD, town_events.message_sent("ada", "jana", "Please fix the parser", type="task")),
    )
    messages = [msgspec.structs.replace(event, id=id, at=town[0].at) for id, event in sent]
    missions = [
        town_events.mission_state_changed(PAUSED, None, "running", by="ines"),
        town_events.mission_state_changed(PAUSED, "running", "blocked", by="ines"),
        town_events.mission_state_changed(ENDED, None, "running", by="ines"),
        town_events.mission_state_changed(ENDED, "running", "failed", by="ines"),
    ]
    messages += [msgspec.structs.replace(event, at=town[0].at) for event in missions]
    play = Event(kind="run.started", actor="conductor", run=RUN, text="The tin", at=town[0].at)
    return [*town, *messages, *goal_logs.all_sorts(), play]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in ("FLEETLORE_LOG", "FLEETLORE_TOWN", "FLEETLORE_AGENT", "LORE_AGENT", "LORE_TASK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.toml").write_text(PLAN)
    with homely(tmp_path):
        yield tmp_path


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(case.argv[:3]) or case.operation)
def test_the_same_is_stored_from_everywhere(case: Case, folder: Path, story: list[Event]) -> None:
    question = next(event.id or "" for event in story if event.kind == "approval.requested" and event.goal == ASKING)
    argv = [question if word == "QUESTION" else word for word in case.argv]
    request = {name: question if value == "QUESTION" else value for name, value in case.request.items()}

    def stored(name: str, act: Callable[[str], None]) -> list[dict[str, Any]]:
        url = f"sqlite:{folder}/{name}.db"
        with connect(url).blocking() as log:
            for start in range(0, len(story), 400):
                log.append(story[start : start + 400])
            head = log.head()
        act(url)
        with connect(url).blocking() as log:
            return [_comparable(event) for event in log.read(after=head)]

    def by_command(actor: str) -> Callable[[str], None]:
        def act(url: str) -> None:
            rest = ["--as", actor] if argv[0] == "town" else []
            assert main(["--log", url, *argv, *rest]) == 0

        return act

    def by_function(actor: str) -> Callable[[str], None]:
        def act(url: str) -> None:
            loaded = load_operation(operation)
            with open_context(log=url, actor=actor, is_agent=actor == AGENT) as context:
                loaded.run(context, parse_request(loaded.request, request))

        return act

    operation = find_operation(case.operation)
    by_person = stored("person", by_function(PERSON))
    assert by_person, "it stores something"
    assert stored("http", lambda url: _over_http(folder, url, operation, request)) == by_person
    if operation.mcp:
        assert stored("mcp", lambda url: _over_mcp(url, operation, request)) == stored("agent", by_function(AGENT))
    if argv:
        # `lore goal` and `lore decide` have no --as: the actor is the user who runs them.
        same = (lambda events: events) if argv[0] == "town" else _without_actor
        assert same(stored("command", by_command(PERSON))) == same(by_person)


def _over_http(folder: Path, url: str, operation: Operation, request: dict[str, Any]) -> None:
    body = {field: value for field, value in request.items() if f"{{{field}}}" not in operation.path}
    with serve(folder / "server", url) as served:
        replied = served.post(operation.path.format(**request), body)
        assert replied.status == 200, replied.body


def _over_mcp(url: str, operation: Operation, request: dict[str, Any]) -> None:
    settings = config.load_settings(log=url, environ={})
    caller = Caller(AGENT, can_write=True, can_admin=True)

    async def talk(client: Client) -> None:
        await answer(client, operation.mcp, **request)

    with connect(url).blocking() as log, open_source(log, settings) as source:
        directly(source, caller, talk)


def _comparable(event: Event) -> dict[str, Any]:
    """An event without what differs from run to run: ids, times and positions."""
    fields = msgspec.json.encode(msgspec.structs.replace(event, id=None, at=None, position=None)).decode()
    for pattern, same in ((r"\bt-[0-9a-f]{8}\b", "t-NEW"), (r"for \d+ s", "for N s")):
        fields = re.sub(pattern, same, fields)
    plain: dict[str, Any] = msgspec.json.decode(fields)
    plain.get("data", {}).pop("via", None)
    return {key: value for key, value in plain.items() if value is not None}


def _without_actor(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in event.items() if key != "actor"} for event in events]
