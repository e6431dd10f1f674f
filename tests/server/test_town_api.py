"""The town over HTTP: all of it in bounds, one thing as a page needs it, and what a person asks of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleetlore import Event, clock
from fleetlore.log.coordination import open_shared
from fleetlore.log.seal import make_seal
from fleetlore.log.tokens import create_token
from fleetlore.operations import town_page as limits
from fleetlore.town import events as town_events
from fleetlore.views.town_state import TownState
from tests.server import town_logs
from tests.server.serving import Served, serve
from tests.server.town_logs import MISSION


@pytest.fixture(scope="module")
def story() -> list[Event]:
    return town_logs.all_sorts()


@pytest.fixture(scope="module")
def read_only(tmp_path_factory: pytest.TempPathFactory, story: list[Event]) -> Iterator[Served]:
    """A town in the middle of its work, to be looked at."""
    with serve(tmp_path_factory.mktemp("town")) as made:
        made.log.append(story)
        yield made


@pytest.fixture
def served(tmp_path: Path, story: list[Event]) -> Iterator[Served]:
    """The same, to be steered."""
    with serve(tmp_path) as made:
        made.log.append(story)
        yield made


def town_of(served: Served, **query: Any) -> Any:
    answer = served.view("town", **query)
    msgspec.convert(answer, limits.TownPage, strict=False)
    return answer


def read_events(served: Served, story: Sequence[Event]) -> list[Event]:
    """What was stored since the story."""
    return list(served.log.read())[len(story) :]


def column(town: Any, state: str) -> list[str]:
    return [task["id"] for each in town["board"] if each["state"] == state for task in each["tasks"]]


# --- reading


def test_whom_to_look_at_comes_first(read_only: Served) -> None:
    town = town_of(read_only)
    assert [(agent["name"], agent["state"]) for agent in town["agents"]][:2] == [("finn", "error"), ("ivo", "paused")]
    assert town["agents_by_state"] == {
        "error": 1, "paused": 1, "working": 3, "starting": 0, "draining": 0, "idle": 3, "cold": 1, "stopped": 1
    }  # fmt: skip
    bram = next(agent for agent in town["agents"] if agent["name"] == "bram")
    assert (bram["task"], bram["doing"], bram["inbox"], bram["roles"]) == ("f-github", "Read GitHub's issues", 2, ["backend"])
    assert next(agent["wish"] for agent in town["agents"] if agent["name"] == "emil") == "drain"


def test_the_board_shows_tasks_by_state_in_the_order_in_which_they_will_be_taken(read_only: Served) -> None:
    town = town_of(read_only)
    assert [(each["state"], each["total"]) for each in town["board"]] == [
        ("pending", 5), ("assigned", 0), ("running", 3), ("completed", 6), ("failed", 2), ("cancelled", 1)
    ]  # fmt: skip
    assert column(town, "pending") == ["t-login", "t-cache", "t-icons", "t-words", "t-types"]
    assert column(town, "running") == ["f-github", "w-store", "r-page"]
    assert column(town, "completed")[0] == "w-page"
    failed = next(each for each in town["board"] if each["state"] == "failed")["tasks"]
    assert [(task["id"], task["is_dead_letter"], task["attempt"]) for task in failed] == [("t-flaky", True, 1), ("w-docs", True, 3)]


def test_what_waits_for_a_person_is_told_apart(read_only: Served) -> None:
    town = town_of(read_only)
    [help] = town["help"]
    assert (help["mission"], help["attempt"]) == (MISSION, 1)
    assert [(box["name"], box["is_person"], box["total"], box["urgent"]) for box in town["inboxes"]] == [
        ("conductor", True, 1, 0), ("bram", False, 2, 1)
    ]  # fmt: skip
    assert [message["sender"] for message in town["inboxes"][1]["messages"]] == ["emil", "ada"]
    assert town["inboxes"][0]["messages"][0]["task"] == "w-store"


def test_a_mission_shows_its_items_and_what_each_waits_for(read_only: Served) -> None:
    town = town_of(read_only, mission=MISSION)
    mission = town["mission"]
    assert (mission["state"], mission["items"], mission["stuck"], mission["by_state"]["done"]) == ("running", 12, 1, 2)
    items = {item["id"]: item for item in mission["work"]}
    assert (items["github"]["state"], items["github"]["round"], items["github"]["agent"]) == ("running", 1, "bram")
    assert (items["page"]["state"], items["page"]["review"], items["page"]["awaits_verdict"]) == ("blocked", "r-page", True)
    assert (items["docs"]["is_stuck"], items["gitea"]["approved_by"]) == (True, "dora")
    assert (items["together"]["depends_on"], items["together"]["waits_for"]) == (["gitea", "github", "store"], ["github", "store"])
    assert mission["notes"][0]["text"] == "Prefer recorded answers; ask no server."
    assert mission["can"] == ["pause", "fail", "helped"]
    assert column(town, "pending") == []
    assert column(town, "running") == ["f-github", "w-store", "r-page"]


def test_a_task_and_an_agent_are_reported_with_what_can_be_asked_of_them(read_only: Served) -> None:
    town = town_of(read_only, task="w-docs", agent="ada")
    task, agent = town["task"], town["agent"]
    assert (task["state"], task["error"], task["can"]) == ("failed", "the workspace has no docs folder", ["retry"])
    assert (task["mission"], task["item"], task["epoch"]) == (MISSION, "docs", 3)
    assert agent["can"] == ["interrupt", "drain", "kill", "restart"]
    assert [each["id"] for each in agent["tasks"]] == ["w-store", "w-gitea"]
    asked = {name: town_of(read_only, agent=name)["agent"]["can"] for name in ("ivo", "finn", "hugo", "jana")}
    assert asked == {"ivo": ["resume", "drain", "kill", "restart"], "finn": ["restart"], "hugo": ["drain"], "jana": ["restart"]}
    nothing = town_of(read_only, mission="x", task="x", agent="x")
    assert (nothing["mission"], nothing["task"], nothing["agent"]) == (None, None, None)


def test_at_every_moment_the_town_is_as_it_was_known_then(read_only: Served) -> None:
    moment = next(event.position for event in read_only.log.read(kinds=["work.review_rejected"]))
    town = town_of(read_only, as_of=moment, mission=MISSION)
    items = {item["id"]: item["state"] for item in town["mission"]["work"]}
    assert (items["github"], items["store"], items["docs"]) == ("blocked", "pending", "pending")
    assert (town["live"], town["help"], town["inboxes"]) == (False, [], [])
    first = next(iter(read_only.log.read())).position
    assert town_of(read_only, as_of=first)["agents_total"] == 1


def test_a_parameter_that_is_not_known_is_refused(read_only: Served) -> None:
    assert read_only.get("/api/town", more="nowhere").status == 422
    assert read_only.get("/api/town", missions="x").status == 422


def test_a_large_town_is_shown_in_bounds_and_says_what_is_left_out(tmp_path: Path) -> None:
    with serve(tmp_path) as served:
        served.log.append_all(town_events.agent_spawned(f"a{n}", by="x") for n in range(limits.MAX_AGENTS + 5))
        served.log.append_all(
            town_events.task_created(f"t{n}", title="x" * 1000, by="x") for n in range(limits.MAX_CARDS_OF_ONE_COLUMN + 5)
        )
        served.log.append_all(town_events.mission_state_changed(f"m{n}", None, "running", by="x") for n in range(limits.MAX_MISSIONS + 5))
        served.log.append_all(town_events.message_sent("x", f"a{n % 40}", "y" * 10_000) for n in range(600))
        town = town_of(served)
        assert (len(town["agents"]), town["agents_total"]) == (limits.MAX_AGENTS, limits.MAX_AGENTS + 5)
        assert (len(column(town, "pending")), town["board"][0]["total"]) == (limits.MAX_CARDS, limits.MAX_CARDS_OF_ONE_COLUMN + 5)
        assert len(column(town_of(served, more="pending"), "pending")) == limits.MAX_CARDS_OF_ONE_COLUMN
        assert (len(town["missions"]), town["missions_total"]) == (limits.MAX_MISSIONS, limits.MAX_MISSIONS + 5)
        assert (len(town["inboxes"]), town["inboxes_total"], town["inboxes"][0]["total"]) == (limits.MAX_INBOXES, 40, 15)
        assert len(town["inboxes"][0]["messages"]) == limits.MAX_MESSAGES
        assert len(served.get("/api/town").body) < 3_000_000


def test_events_that_make_no_sense_are_shown_as_far_as_they_do(tmp_path: Path) -> None:
    odd = [
        Event(kind="work.item_added", actor="x", mission="m", data={"item": "<b>", "depends_on": ["<b>", "gone"], "title": "\u202e"}),
        Event(kind="town.task_completed", actor="x", task="\u202e<b>", data={"epoch": "no", "result": ["?"]}),
        Event(kind="town.agent_state_changed", actor="x", agent="<img>", new_state="Working"),
        Event(kind="work.message_sent", actor="x", child="<img>", data={"body": "<script>", "priority": "loud"}),
    ]
    with serve(tmp_path) as served:
        served.log.append(odd)
        town = town_of(served, mission="m", agent="<img>", task="\u202e<b>")
        assert town["mission"]["work"][0]["waits_for"] == ["gone"]
        assert town["agent"]["messages"][0]["priority"] == "normal"
        assert town["task"]["state"] == "completed"


# --- steering


STEERED: tuple[tuple[str, dict[str, Any], list[str]], ...] = (
    ("agents", {"agent": "ada", "action": "interrupt", "reason": " look first "}, ["control.requested"]),
    ("agents", {"agent": "ivo", "action": "resume"}, ["control.requested"]),
    ("agents", {"agent": "ada", "action": "drain"}, ["control.requested"]),
    ("agents", {"agent": "ada", "action": "kill"}, ["control.requested"]),
    ("agents", {"agent": "jana", "action": "restart"}, ["town.agent_state_changed"]),
    ("agents", {"agent": "hugo", "action": "drain"}, ["town.agent_stopped"]),
    ("tasks", {"task": "w-store", "action": "redirect", "agent": "gwen"}, ["control.requested"]),
    ("tasks", {"task": "t-login", "action": "assign", "agent": "bram"}, ["control.requested"]),
    ("tasks", {"task": "t-words", "action": "cancel", "reason": "not needed"}, ["work.cancelled"]),
    ("tasks", {"task": "w-docs", "action": "retry"}, ["work.reopened"]),
    ("backlog", {"title": "Sweep the floor", "priority": "high", "agent": "gwen"}, ["work.task_created"]),
    ("missions", {"mission": MISSION, "action": "helped"}, ["control.requested"]),
    ("reviews", {"mission": MISSION, "item": "page", "verdict": "approve"}, ["town.reviewer_approval", "work.cancelled"]),
)
WRITTEN: tuple[tuple[str, dict[str, Any], list[str]], ...] = (
    ("messages", {"to": "ada", "body": "Well done."}, ["work.message_sent"]),
    ("notes", {"mission": MISSION, "text": "Ask Grace first."}, ["town.mission_event"]),
)


def test_what_is_asked_is_on_the_log_before_it_is_answered(served: Served) -> None:
    for door, body, kinds in STEERED + WRITTEN:
        answer = served.post(f"/api/town/{door}", body)
        assert answer.status == 200, (door, body, answer.body)
        events = [event for event in served.log.read() if event.position in answer.json["positions"]]
        assert [event.kind for event in events] == kinds
        assert events[0].actor == "control room"
        assert door != "messages" or events[0].agent == "conductor"  # whose mailbox gets the answer


def test_a_mission_is_held_its_work_sent_back_and_the_whole_given_up_and_put_away(served: Served) -> None:
    states = []
    for action in ("pause", "resume", "fail", "archive"):
        if action == "resume":
            verdict = {"mission": MISSION, "item": "page", "verdict": "reject", "reason": "It has no filters."}
            assert served.post("/api/town/reviews", verdict).status == 200
        assert served.post("/api/town/missions", {"mission": MISSION, "action": action}).status == 200
        states.append(town_of(served, mission=MISSION)["mission"]["state"])
    assert states == ["blocked", "running", "failed", "failed"]
    town = town_of(served, mission=MISSION)
    items = {item["id"]: item for item in town["mission"]["work"]}
    assert (items["page"]["verdict"], items["page"]["reason"], items["page"]["round"]) == ("rejected", "It has no filters.", 1)
    assert (town["mission"]["is_archived"], town["archived"], town["missions_total"]) == (True, 1, 1)


def test_what_was_asked_holds_for_the_next_look(served: Served) -> None:
    served.post("/api/town/agents", {"agent": "ada", "action": "interrupt"})
    served.post("/api/town/tasks", {"task": "w-docs", "action": "retry"})
    served.post("/api/town/missions", {"mission": MISSION, "action": "pause", "reason": "Friday"})
    town = town_of(served, agent="ada", task="w-docs", mission=MISSION)
    assert (town["agent"]["wish"], town["task"]["state"]) == ("interrupt", "pending")
    assert (town["mission"]["state"], town["mission"]["reason"], town["help"]) == ("blocked", "Friday", [])


def test_an_answer_takes_the_question_out_of_the_inbox(served: Served) -> None:
    [question] = town_of(served)["inboxes"][0]["messages"]
    sent = {"to": "ada", "body": "Yes, against the test server.", "correlation": question["id"]}
    assert len(served.post("/api/town/messages", sent).json["positions"]) == 2
    town = town_of(served, agent="ada")
    assert [box["name"] for box in town["inboxes"]] == ["bram", "ada"]
    assert [(message["sender"], message["correlation"]) for message in town["agent"]["messages"]] == [("conductor", question["id"])]


def test_a_message_to_a_person_is_put_away_and_an_agents_own_only_by_its_name(served: Served) -> None:
    [question] = town_of(served)["inboxes"][0]["messages"]
    assert served.post("/api/town/messages/used", {"message": question["id"]}).status == 200
    town = town_of(served)
    assert [box["name"] for box in town["inboxes"]] == ["bram"]
    other = town["inboxes"][0]["messages"][0]["id"]
    assert served.post("/api/town/messages/used", {"message": other}).status == 404
    assert served.post("/api/town/messages/used", {"message": other, "to": "bram"}).status == 200
    assert [event.actor for event in served.log.read(newest_first=True, limit=1)] == ["control room"]


@pytest.mark.parametrize(
    ("door", "body", "status", "word"),
    [
        ("agents", {"agent": "nobody", "action": "kill"}, 404, "there is no agent"),
        ("agents", {"agent": ["ada", "nobody"], "action": "kill"}, 404, "there is no agent 'nobody'"),
        ("agents", {"agent": "ada", "action": "resume"}, 409, "paused"),
        ("agents", {"agent": "jana", "action": "kill"}, 409, "not running"),
        ("agents", {"agent": "ada", "action": "dance"}, 422, "action"),
        ("agents", {"agent": "ada", "action": "kill", "signal": 9}, 422, "signal"),
        ("agents", b"{", 400, "JSON"),
        ("agents", [], 422, "the fields are agent, action, reason"),
        ("tasks", {"task": "gone", "action": "cancel"}, 404, "there is no task"),
        ("tasks", {"task": "w-gitea", "action": "cancel"}, 409, "completed"),
        ("tasks", {"task": "w-gitea", "action": "retry"}, 409, "completed"),
        ("tasks", {"task": "w-store", "action": "assign"}, 422, "name the agent"),
        ("tasks", {"task": "w-store", "action": "assign", "agent": "x"}, 404, "there is no agent"),
        ("tasks", {"task": "r-page", "action": "assign", "agent": "cleo"}, 409, "cannot review its own work"),
        ("backlog", {"title": " "}, 409, "is empty"),
        ("backlog", {"title": "x", "roles": ["a\nb"]}, 409, "not a valid role name"),
        ("missions", {"mission": "gone", "action": "pause"}, 404, "there is no mission"),
        ("missions", {"mission": MISSION, "action": "resume"}, 409, "running"),
        ("missions", {"mission": MISSION, "action": "archive"}, 409, "only completed or failed"),
        ("reviews", {"mission": MISSION, "item": "gone", "verdict": "approve"}, 404, "has no item 'gone'"),
        ("reviews", {"mission": MISSION, "item": "store", "verdict": "approve"}, 409, "does not wait for a review"),
        ("messages", {"to": "nobody", "body": "x"}, 404, "there is no agent 'nobody'"),
        ("messages", {"to": "ada", "body": "  "}, 409, "is empty"),
        ("messages", {"to": "ada", "body": "x" * 20_000}, 422, "body"),
        ("messages", {"to": "ada", "body": "x", "priority": "loud"}, 422, "priority"),
        ("notes", {"mission": "gone", "text": "x"}, 404, "there is no mission 'gone'"),
        ("plans", {"plan": "title = 'x'"}, 422, "there are no items"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(
    read_only: Served, story: list[Event], door: str, body: Any, status: int, word: str
) -> None:
    answer = read_only.post(f"/api/town/{door}", body)
    assert answer.status == status, answer.body
    assert word in answer.json["detail"]
    assert read_events(read_only, story) == []


def test_who_may_only_write_may_send_and_note_but_not_steer(served: Served) -> None:
    secret, token = create_token("write", now=clock.now())
    with open_shared(served.context.url, town=served.context.town) as shared:
        shared.save_token(token)
    for door, body, _ in (*STEERED, ("plans", {"plan": town_logs.SMALL}, [])):
        refused = served.post(f"/api/town/{door}", body, token=secret)
        assert refused.status == 403, door
        assert "admin" in refused.json["detail"]
    for door, body, _ in WRITTEN:
        assert served.post(f"/api/town/{door}", body, token=secret).status == 200
        assert served.post(f"/api/town/{door}", body, token=None).status == 401


# --- missions


def test_a_mission_begins_from_a_plan(served: Served) -> None:
    answer = served.post("/api/town/plans", {"plan": 'title = "Two steps"\n[[items]]\nid = "a"\n[[items]]\nid = "b"\ndepends_on = ["a"]\n'})
    assert answer.status == 200, answer.body
    assert (answer.json["mission"], answer.json["left_out"]) == ("two-steps", [])
    mission = town_of(served, mission="two-steps")["mission"]
    assert (mission["state"], [item["waits_for"] for item in mission["work"]]) == ("running", [[], ["a"]])
    again = served.post("/api/town/plans", {"plan": 'title = "Two steps"\n[[items]]\nid = "a"\n'})
    assert (again.status, "already" in again.json["detail"]) == (409, True)


def test_a_mission_begins_from_issues(served: Served) -> None:
    issues = [{"number": 1, "title": "One", "state": "closed"}, {"number": 2, "title": "Two", "body": "after #1 and #3"}]
    body = {"plan": msgspec.json.encode(issues).decode(), "format": "issues", "title": "Tidy up"}
    refused = served.post("/api/town/plans", body)
    assert (refused.status, len(refused.json["problems"])) == (422, 1)
    answer = served.post("/api/town/plans", body | {"done": ["3"]})
    assert (answer.json["mission"], answer.json["left_out"]) == ("tidy-up", ["#1 is closed: One"])
    assert [item["id"] for item in town_of(served, mission="tidy-up")["mission"]["work"]] == ["#2"]


def test_all_that_is_wrong_with_a_plan_is_reported_at_once(served: Served) -> None:
    answer = served.post("/api/town/plans", {"plan": 'titel = "x"\n[[items]]\nid = "a"\ndepends_on = ["a", "b"]\n'})
    assert answer.status == 422
    assert answer.json["problems"] == answer.json["detail"].split("\n")
    assert len(answer.json["problems"]) == 4


# --- sealed


def test_on_a_sealed_log_only_what_was_signed_steers(tmp_path: Path, story: list[Event]) -> None:
    seal, key = make_seal("correct horse battery", cost=2)
    address = f"sqlite:{tmp_path}/fleet.db"
    with open_shared(address) as shared:
        shared.set_seal(seal, None)
    with serve(tmp_path, address, operator=key) as served:
        assert served.steering is not None
        served.log.append([key.sign_event(event) for event in story])
        served.log.append([town_events.mission_state_changed(MISSION, "running", "failed", by="emil")])  # an agent's own doing
        assert town_of(served, mission=MISSION)["mission"]["state"] == "running"
        command = {"mission": MISSION, "action": "pause"}
        assert served.post("/api/town/missions", command).status == 403
        assert served.post("/api/town/missions", command, token=served.steering).status == 200
        assert town_of(served, mission=MISSION)["mission"]["state"] == "blocked"
        assert served.post("/api/town/plans", {"plan": 'title = "New"\n[[items]]\nid = "a"\n'}, token=served.steering).status == 200
        assert town_of(served, mission="new")["mission"]["items"] == 1
        assert served.post("/api/town/notes", {"mission": MISSION, "text": "x"}).status == 200


def test_who_asks_while_others_write_is_received_all_the_same(served: Served) -> None:
    """A command that expects the task as it was read is decided again."""
    served.log.append_all(Event(kind="tool.called", actor="ada", task="w-store", data={"tool": "Bash"}) for _ in range(50))
    assert served.post("/api/town/tasks", {"task": "w-store", "action": "cancel"}).status == 200
    with served.context.view_cache.snapshot(None, ["town"]) as look:
        town: TownState = look.states["town"]
        assert town.tasks["w-store"].state == "cancelled"
