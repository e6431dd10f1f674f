"""Goals over HTTP: all of them, one as a page needs it, and what a person asks of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleetlore import Event, clock
from fleetlore.events.driver_types import Allow
from fleetlore.events.goals import ControlRequested
from fleetlore.goal import commands
from fleetlore.log.coordination import open_shared
from fleetlore.log.seal import OperatorKey, make_seal
from fleetlore.log.tokens import TokenScope, create_token
from fleetlore.operations import goal_page
from fleetlore.programs.harness import TurnRequest, TurnResult, Watch
from tests.goal.scripted import DriverSetup, ScriptedTurn, done, make_driver
from tests.server import goal_logs
from tests.server.goal_logs import id_of
from tests.server.mcp_talk import token_for
from tests.server.serving import Served, serve

DONE, ASKING, STOPPED, SPENT, WORKING, PAUSED = (id_of(n) for n in range(1, 7))


@pytest.fixture(scope="module")
def stories() -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = {}
    for event in goal_logs.all_sorts():
        found.setdefault(event.goal or "", []).append(event)
    return found


@pytest.fixture(scope="module")
def read_only(tmp_path_factory: pytest.TempPathFactory, stories: dict[str, list[Event]]) -> Iterator[Served]:
    """A log with all sorts of goals, to be looked at."""
    with serve(tmp_path_factory.mktemp("goals")) as made:
        made.log.append([event for story in stories.values() for event in story])
        yield made


@pytest.fixture
def served(tmp_path: Path, stories: dict[str, list[Event]]) -> Iterator[Served]:
    """The same, to be steered."""
    with serve(tmp_path) as made:
        made.log.append([event for story in stories.values() for event in story])
        yield made


def page_of(served: Served, goal: str, **query: Any) -> Any:
    answer = served.view("goals", goal=goal, **query)
    msgspec.convert(answer, goal_page.Goals, strict=False)
    return answer["goal"]


def requests(served: Served, goal: str) -> list[Event]:
    return [event for event in served.log.read(f"goal:{goal}", kinds=["control.requested"]) if event.actor == "control room"]


# --- reading


def test_those_that_need_a_person_come_first(read_only: Served) -> None:
    rows = read_only.view("goals")["goals"]
    assert [(row["goal"], row["state"]) for row in rows] == [
        (ASKING, "asking"), (STOPPED, "needs you"), (SPENT, "spent"), (WORKING, "working"), (PAUSED, "paused"), (DONE, "done")
    ]  # fmt: skip
    asking = rows[0]
    assert (asking["agent"], asking["harness"], asking["turn"], asking["asking"]) == ("bram", "mind", 2, 1)
    assert (asking["met"], asking["criteria"]) == (2, 3)
    assert asking["description"].startswith("Bring release/2.4")
    assert read_only.view("goals")["goal"] is None


@pytest.mark.parametrize(
    ("state", "found"), [("over", [STOPPED, SPENT, DONE]), ("open", [ASKING, WORKING, PAUSED]), ("needs you", [STOPPED])]
)
def test_goals_are_listed_by_their_state(read_only: Served, state: str, found: Sequence[str]) -> None:
    answer = read_only.view("goals", state=state)
    assert [row["goal"] for row in answer["goals"]] == found
    assert answer["total"] == 6


def test_a_goal_shows_its_turns_with_words_costs_and_verdicts(read_only: Served) -> None:
    page = page_of(read_only, DONE)
    assert [(turn["number"], turn["outcome"], turn["failing"], turn["tokens"]) for turn in page["turns"]] == [
        (1, "needs_retry", 3, 38_200), (2, "needs_retry", 2, 61_400), (3, "done", 0, 22_900)
    ]  # fmt: skip
    assert page["turns"][1]["words"].startswith("Empty lines are read now")
    assert page["turns"][0]["diff"] == "1 file changed"
    assert page["turns"][0]["seconds"] > 0
    assert page["spent"]["tokens"] == 122_500
    assert page["spent"]["usd"] == pytest.approx(1.02)
    assert (page["outcome"], page["words"]) == ("done", goal_logs.TURNS[-1].words)


def test_what_was_spent_grows_with_each_turn_and_ends_with_what_is_spent_now(read_only: Served) -> None:
    page = page_of(read_only, DONE)
    assert [point["tokens"] for point in page["burn"]] == [38_200, 99_600, 122_500, 122_500]
    assert [point["turns"] for point in page["burn"]] == [1, 2, 3, 3]
    seconds = [point["seconds"] for point in page["burn"]]
    assert seconds == sorted(seconds)
    assert seconds[-1] == page["spent"]["seconds"]


def test_criteria_say_what_is_wanted_and_what_is_in_the_way(read_only: Served) -> None:
    wanted = page_of(read_only, SPENT)["acceptance"]
    assert [(each["kind"], each["met"]) for each in wanted] == [("shell_command", False), ("file_matches", True), ("llm_judge", True)]
    assert wanted[0] | {"kind": ""} == {
        "kind": "", "text": "make test", "met": False, "message": goal_logs.EVIDENCE[0][0], "evidence": goal_logs.EVIDENCE[0][1]
    }  # fmt: skip
    assert wanted[1]["text"] == "CHANGELOG.md matches ^## 2\\.4"
    assert wanted[2]["text"].startswith("The parser's error messages")
    assert page_of(read_only, PAUSED)["acceptance"][0]["met"] is None


def test_a_question_comes_with_its_tool_and_input(read_only: Served) -> None:
    [question] = page_of(read_only, ASKING)["questions"]
    assert (question["tool"], question["turn"], question["answered"], question["hidden"]) == ("Bash", 2, None, 0)
    assert question["input"]["command"] == "git push --force origin release/2.4"
    assert question["expires"] > question["at"]


def test_a_goal_says_what_can_be_asked_of_it_and_what_to_do_next(read_only: Served) -> None:
    said = {goal: page_of(read_only, goal) for goal in (DONE, ASKING, STOPPED, SPENT, WORKING, PAUSED)}
    assert {goal: page["can"] for goal, page in said.items()} == {
        DONE: [],
        ASKING: ["pause", "cancel", "say", "raise"],
        STOPPED: ["resume", "say", "raise"],
        SPENT: ["resume", "say", "raise"],
        WORKING: ["pause", "cancel", "say", "raise"],
        PAUSED: ["resume", "cancel", "say", "raise"],
    }
    assert "lore goal resume 00000003" in said[STOPPED]["next"]
    assert "Raise the budget" in said[SPENT]["next"]
    assert "Nobody drives it" in said[WORKING]["next"]
    assert "branch `fleetlore/00000001`" in said[DONE]["next"]
    assert said[STOPPED]["why"].startswith("API Error: 401")
    assert said[SPENT]["why"] == "turns"


def test_who_drives_a_goal_is_reported_while_somebody_does(served: Served) -> None:
    with open_shared(served.context.url, town=served.context.town) as shared:
        lease = shared.acquire(f"goal:{WORKING}", "harbour:4711", 30.0)
        page = page_of(served, WORKING)
        assert (page["driver"], page["next"], page["ticking"], page["adrift"]) == ("harbour:4711", "", True, False)
        assert lease is not None
        shared.release(lease)
    left = page_of(served, WORKING)
    assert (left["driver"], left["ticking"], left["adrift"]) == (None, False, True)
    assert left["spent"]["seconds"] == left["burn"][-1]["seconds"] < page["spent"]["seconds"]
    assert [row["adrift"] for row in served.view("goals")["goals"] if row["goal"] == WORKING] == [True]


def test_what_a_person_said_waits_for_the_next_turn(read_only: Served) -> None:
    [message] = page_of(read_only, WORKING)["messages"]
    assert (message["by"], message["text"], message["is_told"]) == ("grace", "Leave the old names in an appendix.", False)
    [asked] = page_of(read_only, PAUSED)["requests"]
    assert (asked["action"], asked["by"], asked["text"], asked["obeyed"]) == ("pause", "grace", "The disk is full", None)


def test_the_beginning_of_an_id_is_enough_if_it_is_long_enough(read_only: Served) -> None:
    assert page_of(read_only, DONE[:8])["goal"] == DONE
    assert page_of(read_only, DONE[:7]) is None
    assert page_of(read_only, "nothing-like-it") is None


def test_at_every_moment_a_goal_is_as_it_was_known_then(read_only: Served) -> None:
    story = [event for event in read_only.log.read(f"goal:{DONE}") if event.kind == "driver.attempt_completed"]
    page = page_of(read_only, DONE, as_of=story[1].position)
    assert (page["state"], len(page["turns"]), page["outcome"]) == ("working", 2, None)
    assert [each["met"] for each in page["acceptance"]] == [True, False, False]
    first = next(iter(read_only.log.read())).position
    assert page_of(read_only, SPENT, as_of=first) is None


def test_goals_that_belong_together_know_each_other(tmp_path: Path) -> None:
    with serve(tmp_path) as served:
        first = goal_logs.paused(1)
        served.log.append([*first, *goal_logs.working(2, parent=id_of(1), above=first)])
        above, below = page_of(served, id_of(1)), page_of(served, id_of(2))
        assert [row["goal"] for row in above["below"]] == [id_of(2)]
        assert (below["parent"], below["above"]["goal"]) == (id_of(1), id_of(1))


def test_events_of_a_goal_that_never_began_are_shown_as_far_as_they_make_sense(tmp_path: Path) -> None:
    odd: list[tuple[str, dict[str, Any]]] = [
        ("control.requested", {"action": "decide", "value": {"choice": 1}, "of": "x"}),
        ("control.requested", {"action": "raise", "value": [{"turns": None}]}),
        ("goal.permission_asked", {"tool": "\u202e<b>", "input": [None, {"deep": "<script>"}], "expires": "soon"}),
        ("goal.waiting", {"why": "", "until": "never"}),
        ("goal.spent", {"below": "b", "turns": -5, "tokens": -1}),
    ]
    with serve(tmp_path) as served:
        served.log.append([Event(kind=kind, goal="g/1?", actor="x", text="\u202e<b>", data=data) for kind, data in odd])
        page = page_of(served, "g/1?")
        assert (page["harness"], page["state"], page["can"], page["questions"][0]["expires"]) == (None, "asking", [], None)
        assert "Another program drives it" in page["next"]
        assert served.post("/api/goals/g/1/control", {"action": "pause"}).status == 404


def test_a_parameter_that_is_not_known_is_refused(read_only: Served) -> None:
    assert read_only.get("/api/goals", state="nowhere").status == 422
    assert read_only.get("/api/goals", goals="x").status == 422


def test_the_page_of_a_goal_has_an_address_of_its_own(read_only: Served) -> None:
    answer = read_only.get(f"/goals/{DONE}")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/html")


# --- steering


@pytest.mark.parametrize(
    ("goal", "body", "state"),
    [
        (WORKING, {"action": "pause", "reason": " The disk is full "}, "working"),
        (WORKING, {"action": "cancel"}, "working"),
        (PAUSED, {"action": "resume"}, "working"),
        (STOPPED, {"action": "resume"}, "working"),
        (WORKING, {"action": "say", "value": "Use the blue one."}, "working"),
        (SPENT, {"action": "raise", "value": {"turns": 20, "usd": 9.5, "wall_time": "6h"}}, "spent"),
    ],
)
def test_what_is_asked_is_stored_and_holds_for_anybody_who_drives_it(served: Served, goal: str, body: dict[str, Any], state: str) -> None:
    answer = served.post(f"/api/goals/{goal}/control", body)
    assert answer.status == 200, answer.body
    [event] = requests(served, goal)
    assert [event.position] == answer.json["positions"]
    recorded = msgspec.convert(event.data, ControlRequested)
    assert (recorded.action, recorded.value) == (body["action"], body.get("value"))
    assert recorded.reason == ("The disk is full" if "reason" in body else None)
    page = page_of(served, goal)
    assert page["state"] == state
    assert page["requests"][0]["action"] == body["action"]


def test_a_raise_is_a_new_limit(served: Served) -> None:
    served.post(f"/api/goals/{SPENT}/control", {"action": "raise", "value": {"turns": 20, "wall_time": "6h"}})
    limits = page_of(served, SPENT)["limits"]
    assert (limits["turns"], limits["seconds"], limits["tokens"]) == (20, 6 * 3600, 400_000)


@pytest.mark.parametrize(
    ("goal", "body", "status", "word"),
    [
        (id_of(99), {"action": "pause"}, 404, "no goal id starts with"),
        (WORKING[:3], {"action": "pause"}, 404, "at least 4 characters"),
        (DONE, {"action": "pause"}, 409, "has ended"),
        (DONE, {"action": "resume"}, 409, "is done"),
        (PAUSED, {"action": "pause"}, 409, "already paused"),
        (WORKING, {"action": "resume"}, 409, "neither paused nor ended"),
        (WORKING, {"action": "raise", "value": {"turns": 2}}, 409, "already"),
        (WORKING, {"action": "raise", "value": {"turns": "many"}}, 422, "turns: not a limit"),
        (WORKING, {"action": "raise", "value": {"legs": 4}}, 422, "turns"),
        (WORKING, {"action": "raise", "value": {"turns": 20, "max_turns": 21}}, 422, "each once"),
        (WORKING, {"action": "raise"}, 422, "wall_time"),
        (WORKING, {"action": "say", "value": "  "}, 422, "give a text"),
        (WORKING, {"action": "say", "value": "x" * 20_000}, 422, "value"),
        (WORKING, {"action": "say", "value": "é" * 16_000}, 409, "16 KiB"),
        (WORKING, {"action": "pause", "value": "x"}, 422, "leave it out"),
        (WORKING, {"action": "kill"}, 422, "action"),
        (WORKING, {"action": "pause", "goal": "other"}, 422, "goal"),
        (WORKING, b"{", 400, "JSON"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(served: Served, goal: str, body: Any, status: int, word: str) -> None:
    answer = served.post(f"/api/goals/{goal}/control", body)
    assert answer.status == status, answer.body
    assert word in answer.json["detail"]
    assert requests(served, goal) == []


@pytest.mark.parametrize(("path", "held", "needed"), [("control", "write", "admin"), ("decide", "read", "approve")])
def test_controlling_needs_admin_and_answering_needs_approve(served: Served, path: str, held: TokenScope, needed: str) -> None:
    assert served.post(f"/api/goals/{WORKING}/{path}", {"action": "pause"}, token=None).status == 401
    refused = served.post(f"/api/goals/{WORKING}/{path}", {"action": "pause"}, token=token_for(served, "ada", held))
    assert refused.status == 403
    assert needed in refused.json["detail"]
    assert requests(served, WORKING) == []


def test_a_token_that_may_approve_may_answer_and_no_more(served: Served) -> None:
    [question] = page_of(served, ASKING)["questions"]
    secret = token_for(served, "phone", "approve")
    assert served.post(f"/api/goals/{ASKING}/control", {"action": "pause"}, token=secret).status == 403
    assert served.post("/api/events", {"kind": "fleet.commit", "actor": "ada"}, token=secret).status == 403
    assert served.post(f"/api/goals/{ASKING}/decide", {"of": question["id"], "choice": "allow"}, token=secret).status == 200


# --- answering


@pytest.mark.parametrize(("choice", "message"), [("allow", None), ("deny", "Not on a Friday.")])
def test_an_answer_is_stored_once_and_shown_until_the_driver_has_received_it(served: Served, choice: str, message: str | None) -> None:
    [question] = page_of(served, ASKING)["questions"]
    body = {"of": question["id"], "choice": choice} | ({} if message is None else {"message": message})
    assert served.post(f"/api/goals/{ASKING}/decide", body).status == 200
    [event] = requests(served, ASKING)
    assert event.cause == question["id"]
    assert event.data == {"action": "decide", "of": question["id"], "value": {"choice": choice, "message": message or ""}} | (
        {} if message is None else {"reason": message}
    )
    assert event.text == (f"{choice} Bash: {message}" if message else f"{choice} Bash")
    assert page_of(served, ASKING)["questions"][0]["answered"] == choice
    again = served.post(f"/api/goals/{ASKING}/decide", body)
    assert (again.status, len(requests(served, ASKING))) == (409, 1)
    assert "answered already" in again.json["detail"]


@pytest.mark.parametrize(
    ("goal", "change", "status", "word"),
    [
        (ASKING, {"of": "another"}, 404, "no open question"),
        (WORKING, {}, 404, "has not asked"),
        (DONE, {}, 404, "has not asked"),
        (id_of(99), {}, 404, "no goal id starts with"),
        (ASKING, {"choice": "observe"}, 422, "choice"),
        (ASKING, {"of": ""}, 422, "of"),
    ],
)
def test_what_nobody_asked_is_not_answered(served: Served, goal: str, change: dict[str, str], status: int, word: str) -> None:
    [question] = page_of(served, ASKING)["questions"]
    answer = served.post(f"/api/goals/{goal}/decide", {"of": question["id"], "choice": "allow"} | change)
    assert answer.status == status
    assert word in answer.json["detail"]
    assert requests(served, ASKING) == []


def test_a_question_whose_turn_is_over_is_not_answered(served: Served) -> None:
    [question] = page_of(served, ASKING)["questions"]
    ended = {"turn": 2, "how": "failed"}
    served.log.append([Event(kind="goal.attempt_ended", actor="driver", goal=ASKING, data=ended)])
    answer = served.post(f"/api/goals/{ASKING}/decide", {"of": question["id"], "choice": "allow"})
    assert (answer.status, requests(served, ASKING)) == (409, [])
    assert "in a turn that is over" in answer.json["detail"]


# --- on a sealed log


@pytest.fixture
def operator(tmp_path: Path) -> OperatorKey:
    """The key of a log that is sealed before anything is on it."""
    seal, key = make_seal("correct horse battery", cost=2)
    with serve(tmp_path) as served, open_shared(served.context.url, town=served.context.town) as shared:
        shared.set_seal(seal, None)
    return key


def signed(key: OperatorKey, events: Sequence[Event]) -> list[Event]:
    return [key.sign_event(event) for event in events]


FORGED = commands.make_control_event(WORKING, "cancel", by="emil")


def test_the_operator_key_signs_what_is_asked_on_the_page(tmp_path: Path, operator: OperatorKey, stories: dict[str, list[Event]]) -> None:
    with serve(tmp_path, operator=operator) as served:
        served.log.append(signed(operator, stories[ASKING]))
        [question] = page_of(served, ASKING)["questions"]
        for path, body in (("control", {"action": "pause"}), ("decide", {"of": question["id"], "choice": "allow"})):
            assert served.post(f"/api/goals/{ASKING}/{path}", body, token=served.steering).status == 200
        assert len(requests(served, ASKING)) == 2
        assert all(operator.has_signed(event) for event in requests(served, ASKING))
        assert [each["obeyed"] for each in page_of(served, ASKING)["requests"]] == [True, True]
        assert served.view("goals")["signatures"] == "checked"


def test_without_the_passphrase_nothing_is_steered_and_it_is_said_what_to_do(
    tmp_path: Path, operator: OperatorKey, stories: dict[str, list[Event]]
) -> None:
    with serve(tmp_path) as served:
        served.log.append(signed(operator, stories[WORKING]))
        answer = served.post(f"/api/goals/{WORKING}/control", {"action": "pause"})
        assert answer.status == 403
        admin, token = create_token("admin", now=clock.now())
        with open_shared(served.context.url, town=served.context.town) as shared:
            shared.save_token(token)
        answer = served.post(f"/api/goals/{WORKING}/control", {"action": "pause"}, token=admin)
        assert answer.status == 403
        assert "start `lore up` again in a terminal" in answer.json["detail"]
        assert served.view("goals")["signatures"] == "named"
        assert requests(served, WORKING) == []


@pytest.mark.parametrize("has_key", [True, False])
def test_what_nobody_signed_changes_no_goal_and_is_shown_as_not_obeyed(
    tmp_path: Path, operator: OperatorKey, stories: dict[str, list[Event]], has_key: bool
) -> None:
    done = stories[DONE][-1]
    with serve(tmp_path, operator=operator if has_key else None) as served:
        served.log.append([*signed(operator, stories[WORKING]), FORGED, msgspec.structs.replace(done, id=clock.uuid7(), goal=WORKING)])
        page = page_of(served, WORKING)
        assert (page["state"], page["cancel"], page["signed"], page["unsigned"]) == ("working", None, True, 1)
        assert [(each["action"], each["obeyed"]) for each in page["requests"]] == [("cancel", False), ("say", True)]


def test_a_signature_of_another_key_is_none(tmp_path: Path, operator: OperatorKey, stories: dict[str, list[Event]]) -> None:
    forger = OperatorKey(b"x" * 32)
    [forged] = signed(forger, [FORGED])
    assert forged.mac is not None
    named = msgspec.structs.replace(forged, mac=msgspec.structs.replace(forged.mac, key=operator.id))
    with serve(tmp_path, operator=operator) as served:
        served.log.append([*signed(operator, stories[WORKING]), named])
        assert page_of(served, WORKING)["cancel"] is None


def test_a_goal_that_nobody_signed_is_shown_as_such_and_cannot_be_steered(
    tmp_path: Path, operator: OperatorKey, stories: dict[str, list[Event]]
) -> None:
    with serve(tmp_path, operator=operator) as served:
        served.log.append(stories[WORKING])
        page = page_of(served, WORKING)
        assert (page["signed"], page["can"]) == (False, [])
        assert "nobody here obeys it" in page["next"]
        assert served.post(f"/api/goals/{WORKING}/control", {"action": "pause"}, token=served.steering).status == 409


def test_what_was_said_of_a_goal_before_its_signed_beginning_counts_for_nothing(
    tmp_path: Path, operator: OperatorKey, stories: dict[str, list[Event]]
) -> None:
    early = commands.make_control_event(WORKING, "raise", by="emil", value={"turns": 1000})
    with serve(tmp_path, operator=operator) as served:
        served.log.append([early, *signed(operator, stories[WORKING])])
        page = page_of(served, WORKING)
        assert (page["limits"]["turns"], page["signed"]) == (12, True)


def test_every_state_of_a_goal_can_be_asked_for() -> None:
    from typing import get_args

    from fleetlore.operations.goal_page import STATE_ORDER, GoalFilter
    from fleetlore.views.goal_state import GoalStatus

    assert set(STATE_ORDER) == set(get_args(GoalStatus))
    assert set(get_args(GoalFilter)) == {"all", "open", "over", *STATE_ORDER}


# --- with the real driver


@pytest.mark.parametrize("is_sealed", [False, True])
def test_anybody_who_drives_a_goal_gets_what_is_said_on_the_page(tmp_path: Path, request: pytest.FixtureRequest, is_sealed: bool) -> None:
    key: OperatorKey | None = request.getfixturevalue("operator") if is_sealed else None
    goal = goal_logs.made(1, "Publish it", harness="mind", agent="bram")
    allowed: list[Any] = []

    with serve(tmp_path, operator=key) as served:

        async def record(path: str, body: Any) -> None:
            answer = await asyncio.to_thread(served.post, f"/api/goals/{goal.id}/{path}", body, token=served.steering or "")
            assert answer.status == 200, answer.body

        async def watch(event: Event) -> None:
            if event.kind == "goal.permission_asked":
                asyncio.get_running_loop().create_task(record("decide", {"of": event.id, "choice": "allow", "message": "Go on."}))
            if event.kind == "driver.decision":
                await record("control", {"action": "say", "value": "Thank you."})

        async def run() -> DriverSetup:
            async def ask(order: TurnRequest, _: Watch) -> TurnResult:
                allowed.append(await led.resources.tool_gate.permit("Bash", {"command": "git push"}))
                return done("Asked.")

            moves: list[ScriptedTurn] = [ask, done("Published.")]
            with open_shared(served.context.url, town=served.context.town) as shared:
                led = make_driver(served.log, moves, met=(False, True), clock=clock.now, id=goal.id, watch=watch, shared=shared, key=key)
                await led.driver.start(goal)
                await led.driver.run_goal()
            return led

        led = asyncio.run(run())
        state = led.driver.state
        assert (state.outcome, allowed) == ("done", [Allow()])
        assert "Thank you." in led.harness.orders[1].prompt
        page = page_of(served, goal.id)
        assert [(each["choice"], each["why"]) for each in page["decisions"]] == [("allow", "a person said: Go on.")]
        assert (page["state"], page["signed"]) == ("done", True if is_sealed else None)
