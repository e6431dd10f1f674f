"""The stage over HTTP: a run as all may see it, the minds for who asks for them, and the visitor who breaks in."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleetlore import Event, clock
from fleetlore.log.coordination import open_shared
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.log.tokens import create_token
from fleetlore.operations import stage
from fleetlore.stage import files
from fleetlore.stage.actors import open_stage_models
from fleetlore.stage.run_state import create_run_state
from fleetlore.views.stage import MAX_RUNS
from tests.server.serving import Served, serve
from tests.stage.staging import run_to_end

CALL = "01981f00-0000-7000-8000-000000000001"


async def perform(log: BlockingRecorder, name: str, run: str, seed: str = "fog") -> Event:
    scenario = files.load_scenario(name)
    async with open_stage_models(scenario, None) as troupe:
        return await run_to_end(log, create_run_state(scenario, run, seed), troupe)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two runs that are over: one with a hidden role, and the newer one with a judge."""
    with serve(tmp_path_factory.mktemp("stage")) as made:
        asyncio.run(perform(made.log, "night-train", "train"))
        asyncio.run(perform(made.log, "the-tin", "tin"))
        yield made


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Served]:
    with serve(tmp_path) as made:
        yield made


def started(run: str = "r1", **more: Any) -> Event:
    return Event(kind="run.started", actor="conductor", run=run, text="Duel", data={"seed": "wet", "goal": "Settle it."} | more)


def spoke(agent: str, text: str, run: str = "r1", **data: Any) -> Event:
    return Event(kind="agent.spoke", agent=agent, run=run, text=text, data=data)


# --- reading


def test_the_newest_run_is_shown_with_its_scene_cast_lines_and_verdict(served: Served) -> None:
    answer = served.view("stage")
    msgspec.convert(answer, stage.Stage)
    play = answer["play"]
    assert (play["run"], play["title"], play["scenario"], play["seed"]) == ("tin", "The Tin", "the-tin", "fog")
    assert play["goal"]
    assert play["scene"]["text"].startswith("The clerk uncaps her pen")
    assert {player["name"]: player["role"] for player in play["cast"]}["Hartley"] == "judge"
    assert all(player["last_said"] for player in play["cast"] if player["role"] == "worker")
    [verdict] = play["verdicts"]
    assert verdict["judge"] == "Hartley"
    assert verdict["winner"] == play["finished"]["winner"] in verdict["scores"]
    assert play["spent"]["turns"] == play["turn"] == play["budget"]["turns"]
    assert play["spent"]["tokens"] > 0
    assert [each["run"] for each in answer["runs"]] == ["tin", "train"]


def test_lines_are_in_the_order_of_the_log_with_scenes_between_them_and_each_names_its_event(served: Served) -> None:
    lines = served.view("stage")["play"]["lines"]
    assert [line["position"] for line in lines] == sorted(line["position"] for line in lines)
    assert lines[0]["kind"] == "world.observed"
    assert {line["kind"] for line in lines} == {"world.observed", "agent.spoke"}
    found = served.view("events", id=[line["id"] for line in lines])["events"]
    assert {event["id"]: event["text"] for event in found} == {line["id"]: line["text"] for line in lines}


def test_another_run_is_shown_when_it_is_named_and_its_verdict_shows_the_hidden_role(served: Served) -> None:
    play = served.view("stage", run="train")["play"]
    [verdict] = play["verdicts"]
    assert play["run"] == "train"
    assert list(verdict["reveal"].values()) == ["stowaway"]
    assert verdict["correct"] is (verdict["accused"] in verdict["reveal"])
    assert served.view("stage", run="nowhere")["play"] is None


def test_nothing_that_is_thought_is_in_an_answer_unless_minds_are_asked_for(served: Served) -> None:
    private = {event.text for event in served.log.read("run:train") if event.visibility == "private" and event.text}
    private |= {thought for event in served.log.read("run:train") if isinstance(thought := event.data.get("thought"), str)}
    assert len(private) > 4
    shown = served.get("/api/stage", run="train").json
    assert shown["play"]["thoughts"] == []
    assert all(player["persona"] is None for player in shown["play"]["cast"])
    said = msgspec.json.encode(shown).decode()
    assert not [text for text in private if msgspec.json.encode(text).decode()[1:-1] in said]
    minds = served.view("stage", run="train", minds="true")["play"]
    assert {thought["text"] for thought in minds["thoughts"]} == private
    assert all(player["persona"] for player in minds["cast"])
    assert {thought["id"] for thought in minds["thoughts"]} & {line["id"] for line in minds["lines"]}, "a thought belongs to its line"


def test_at_every_moment_the_stage_is_as_it_was_known_then(served: Served) -> None:
    events = list(served.log.read("run:tin"))
    spoken = [event for event in events if event.kind == "agent.spoke"]
    then = served.view("stage", run="tin", as_of=spoken[2].position)
    assert then["live"] is False
    assert then["play"]["said"] == 3
    assert then["play"]["verdicts"] == []
    assert [line["id"] for line in then["play"]["lines"] if line["kind"] == "agent.spoke"] == [event.id for event in spoken[:3]]
    assert then["play"]["finished"] is None
    assert then["play"]["turn"] == 1
    first = next(iter(served.log.read())).position
    assert served.view("stage", run="tin", as_of=first)["play"] is None


def test_of_a_long_run_the_newest_eighty_lines_are_shown_and_how_many_there_were(empty: Served) -> None:
    empty.log.append([started(), *(spoke("ada", f"line {n}", thought=f"thought {n}") for n in range(100))])
    play = empty.view("stage", minds="true")["play"]
    assert [line["text"] for line in play["lines"]] == [f"line {n}" for n in range(20, 100)]
    assert play["said"] == 100
    assert len(play["thoughts"]) == 80
    assert play["cast"][0]["last_said"] == "line 99"


def test_of_many_runs_the_newest_are_there_to_choose_from(empty: Served) -> None:
    empty.log.append([event for n in range(MAX_RUNS + 3) for event in (started(f"r{n:02}"), spoke("ada", "hello", f"r{n:02}"))])
    answer = empty.view("stage")
    assert len(answer["runs"]) == MAX_RUNS
    assert answer["let_go"] == 3
    assert answer["play"]["run"] == f"r{MAX_RUNS + 2:02}"


def test_who_was_asked_and_has_not_answered_is_thinking(empty: Served) -> None:
    called = Event(id=CALL, kind="model.called", agent="ada", run="r1", data={"model": "m"})
    empty.log.append([started(cast={"ada": {"role": "worker"}, "bob": {}}), called])
    assert [player["thinking"] for player in empty.view("stage")["play"]["cast"]] == [True, False]
    empty.log.append([Event(kind="model.replied", agent="ada", run="r1", cause=CALL, data={"model": "m"})])
    assert not any(player["thinking"] for player in empty.view("stage")["play"]["cast"])


def test_a_log_without_a_stage_has_none(empty: Served) -> None:
    empty.log.append(
        [Event(kind="fleet.commit", agent="ada", run="r1", text="x"), Event(kind="agent.thought", agent="ada", run="r1", text="hm")]
    )
    assert empty.view("stage") | {"as_of": 0, "at": 0} == {
        "as_of": 0, "at": 0, "live": True, "caught_up": True, "play": None, "runs": [], "let_go": 0
    }  # fmt: skip


def test_events_that_say_nonsense_are_shown_as_far_as_they_make_sense(empty: Served) -> None:
    odd: dict[str, dict[str, Any]] = {
        "run.started": {"play": {"governor": 3}, "cast": {"ada": 3, "bob": {"role": [], "persona": 7}}},
        "agent.spoke": {"secret": {"a": 1}, "label": []},
        "judge.verdict": {"scores": {"ada": "x", "bob": True}, "reveal": [{}, {"agent": "a"}]},
        "commentary.posted": {"mood": 7},
        "clue.found": {"mood": {}, "turn": "x", "label": 3, "thought": []},
    }
    empty.log.append([Event(kind=kind, agent="ada", run="r1", text=f"{kind} \u202e<b>", data=data) for kind, data in odd.items()])
    play = empty.view("stage", minds="true")["play"]
    assert [line["kind"] for line in play["lines"]] == ["agent.spoke", "commentary.posted", "clue.found"]
    assert play["verdicts"][0]["reveal"] == {"a": ""}
    assert play["budget"]["turns"] is None


def test_a_parameter_that_is_not_known_is_refused(empty: Served) -> None:
    assert empty.get("/api/stage", minds="yes").status == 422
    assert empty.get("/api/stage", mind="true").status == 422


# --- a visitor


def test_a_visitor_is_stored_in_the_run_and_shown_among_the_lines(empty: Served) -> None:
    empty.log.append([started(), spoke("ada", "hello", turn=3)])
    answer = empty.post("/api/stage/inject", {"run": "r1", "text": " Fire drill! ", "label": "the caretaker"})
    assert answer.status == 200
    [event] = empty.log.read("run:r1", kinds=["user.injected"])
    assert [event.position] == answer.json["positions"]
    assert (event.actor, event.text, event.data) == ("visitor", "Fire drill!", {"turn": 3, "label": "the caretaker"})
    line = empty.view("stage")["play"]["lines"][-1]
    assert (line["text"], line["label"]) == ("Fire drill!", "the caretaker")


def test_anybody_who_plays_the_run_takes_the_visitor_up(empty: Served) -> None:
    scenario = files.load_scenario("the-tin")
    recorded = False

    async def play() -> None:
        async def watch(event: Event) -> None:
            nonlocal recorded
            if event.kind == "agent.spoke" and not recorded:
                recorded = True
                answer = await asyncio.to_thread(empty.post, "/api/stage/inject", {"run": "tin", "text": "Fire drill"})
                assert answer.status == 200

        async with open_stage_models(scenario, None) as troupe:
            await run_to_end(empty.log, create_run_state(scenario, "tin", "fog"), troupe, on_event=watch)

    asyncio.run(play())
    spoken = [event.text or "" for event in empty.log.read("run:tin", kinds=["agent.spoke"])]
    assert any("Fire drill" in text for text in spoken)


def test_only_who_may_steer_may_break_in(empty: Served) -> None:
    empty.log.append([started()])
    body = {"run": "r1", "text": "Hello"}
    assert empty.post("/api/stage/inject", body, token=None).status == 401
    secret, token = create_token("write", now=clock.now())
    with open_shared(empty.context.url, town=empty.context.town) as shared:
        shared.save_token(token)
    refused = empty.post("/api/stage/inject", body, token=secret)
    assert refused.status == 403
    assert "admin" in refused.json["detail"]
    assert [event.kind for event in empty.log.read()] == ["run.started"]


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({"run": "nowhere", "text": "x"}, 404, "run not found"),
        ({"run": "over", "text": "x"}, 409, "has ended"),
        ({"run": "r1", "text": "  "}, 422, "text"),
        ({"run": "r1"}, 422, "text"),
        ({"run": "r1", "text": "x", "kind": "fleet.commit"}, 422, "kind"),
        ({"run": "r1", "text": "x" * 5000}, 422, "text"),
        (b"{", 400, "JSON"),
    ],
)
def test_what_nobody_could_get_is_refused_with_a_reason(empty: Served, body: Any, status: int, word: str) -> None:
    empty.log.append([started(), started("over"), Event(kind="run.finished", actor="conductor", run="over", text="done")])
    answer = empty.post("/api/stage/inject", body)
    assert answer.status == status
    assert word in answer.json["detail"]
    assert list(empty.log.read(kinds=["user.injected"])) == []
