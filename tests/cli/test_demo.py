"""`lore demo`: every ingredient is there, every thread and cause holds, and the play goes into a fresh log."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from fleetlore import Event, connect
from fleetlore.cli.demo.command import PLAY_SECONDS, record_story
from fleetlore.cli.demo.fleet import CAST, MISSION, write_story
from fleetlore.cli.demo.scenes import list_pages_and_commands
from fleetlore.events import catalog
from fleetlore.testing import START, FrozenClock
from fleetlore.views import fleet
from tests.cli.running import Lore

PAGES = write_story(1)
EVENTS = [event for _, event in PAGES]
SEEDS = range(20)


def thread(task: str) -> list[Event]:
    return [event for event in EVENTS if event.task == task]


def list_actions(task: str) -> list[tuple[str | None, str]]:
    return [(event.agent, event.kind) for event in thread(task)]


def in_order(task: str, *wanted: tuple[str, str]) -> bool:
    """Whether these actions follow each other on a thread, with anything in between."""
    rest = iter(list_actions(task))
    return all(action in rest for action in wanted)


def test_five_agents_are_on_one_mission_for_about_a_hundred_events() -> None:
    assert {event.agent for event in EVENTS if event.mission and event.agent} == set(CAST)
    assert len(CAST) == 5
    assert {event.mission for event in EVENTS if event.mission} == {MISSION}
    assert 80 <= sum(event.mission is not None for event in EVENTS) <= 120
    assert {event.kind.partition(".")[0] for event in EVENTS} >= {"fleet", "town", "work", "tool", "session"}


INGREDIENTS: dict[str, Callable[[], bool]] = {
    "an agent fails and recovers": lambda: in_order("wh-2", ("ada", "fleet.error"), ("ada", "fleet.recovery"), ("ada", "fleet.pr_merge")),
    "a task is abandoned, and another agent retries and delivers it": lambda: in_order(
        "wh-1", ("bram", "fleet.dispatch"), ("bram", "fleet.abandon"), ("ada", "fleet.dispatch"), ("ada", "town.task_completed")
    ),
    "two work together on what one began": lambda: in_order("wh-2", ("ada", "fleet.commit"), ("edda", "fleet.collab")),
    "a review is rejected once, then approved": lambda: in_order(
        "wh-3",
        ("bram", "town.reviewer_handoff"),
        ("dov", "work.review_rejected"),
        ("bram", "fleet.commit"),
        ("bram", "town.reviewer_handoff"),
        ("dov", "town.reviewer_approval"),
        ("bram", "fleet.pr_merge"),
    ),
    "work is handed on": lambda: in_order("wh-3", ("ada", "fleet.commit"), ("ada", "town.task_delegated"), ("bram", "work.started")),
    "one agent goes all the way alone": lambda: (
        {agent for agent, _ in list_actions("wh-4")} == {None, "cleo"}
        and in_order("wh-4", ("cleo", "fleet.dispatch"), ("cleo", "fleet.commit"), ("cleo", "fleet.pr_open"), ("cleo", "fleet.pr_merge"))
    ),
    "everybody gives signs of life": lambda: {event.agent for event in EVENTS if event.kind == "fleet.heartbeat"} == set(CAST),
    "somebody has nothing to do": lambda: "edda" in {event.agent for event in EVENTS if event.kind == "fleet.idle"},
    "a milestone ends it": lambda: EVENTS[-1].kind == "fleet.milestone" and EVENTS[-1].mission == MISSION,
}


@pytest.mark.parametrize("what", INGREDIENTS)
def test_the_story_has(what: str) -> None:
    assert INGREDIENTS[what]()


@pytest.mark.parametrize("seed", SEEDS)
def test_causes_come_first_and_threads_keep_their_order_whatever_the_chances(seed: int) -> None:
    pages = write_story(seed)
    place = {event.id: n for n, (_, event) in enumerate(pages)}
    assert len(place) == len(pages)
    assert all(place[event.cause] < n for n, (_, event) in enumerate(pages) if event.cause is not None)
    assert [(e.kind, e.agent) for _, e in pages if e.task == "wh-3"] == [(e.kind, e.agent) for e in thread("wh-3")]
    assert pages[0][0] == 0
    assert pages[-1][1].kind == "fleet.milestone"


def test_every_action_of_a_task_leads_back_to_the_start_of_the_mission() -> None:
    by_id = {event.id: event for event in EVENTS}
    for event in EVENTS:
        if event.task is not None and event.kind != "model.replied":
            root = event
            while root.cause is not None:
                root = by_id[root.cause]
            assert root is EVENTS[0], event


def test_the_same_seed_shows_the_same_and_another_other_ids() -> None:
    assert write_story(7) == write_story(7)
    assert not {event.id for _, event in write_story(7)} & {event.id for _, event in write_story(8)}


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: f"{event.kind}-{(event.id or '')[:8]}")
def test_every_event_fits_its_kind(event: Event) -> None:
    assert catalog.find_payload(event.kind) is not None
    catalog.check_payload(event.kind, event.data)
    assert event.text is None or (event.text == event.text.strip() and len(event.text) <= 90)


def test_at_the_end_every_state_is_on_show() -> None:
    state = fleet.initial()
    for offset, event in PAGES:
        state = fleet.apply(state, replace(event, at=START + timedelta(seconds=offset)))
    standings = fleet.sort_by_standing(state, now=START + timedelta(seconds=PAGES[-1][0]))
    assert [(standing, agent.name) for standing, agent in standings if agent.name in CAST] == [
        ("needs you", "bram"),
        ("working", "edda"),
        ("idle", "ada"),
        ("silent", "cleo"),
        ("ended", "dov"),
    ]


@pytest.mark.parametrize("speed", [0.0, 1.0, 2.0])
def test_the_play_takes_its_time_and_ends_with_the_present(speed: float) -> None:
    clock = FrozenClock()
    with connect("memory:", now=clock).blocking() as log:
        shown = list(record_story(log, PAGES, speed=speed, now=clock, sleep=lambda seconds: void(clock.advance(seconds))))
        assert list(log.read()) == [replace(event, data=stored.data) for event, stored in zip(shown, log.read(), strict=True)]
    assert (clock() - START).total_seconds() == pytest.approx(PLAY_SECONDS / speed if speed else 0, abs=0.01)
    assert abs((shown[-1].at or START) - clock()) < timedelta(seconds=0.1)
    assert [event.id for event in shown] == [event.id for event in EVENTS]


def void(_: object) -> None:
    return None


def test_it_is_played_into_a_fresh_log_beside_the_users_own(lore: Lore) -> None:
    first = lore("demo", "--no-serve", "--speed", "0", code=0)
    lore("demo", "--no-serve", "--speed", "0", "--json", code=0)
    folder = Path(lore.folder.parent / "data" / "fleetlore")
    logs = sorted(path for path in folder.iterdir() if path.suffix == ".db")
    assert len(logs) == 2
    assert all(path.name.startswith("demo-") for path in logs)
    assert f"{len(EVENTS)} events recorded in sqlite:" in first.out
    assert "No agents yet" in lore("status", code=0).out


def test_it_ends_with_three_commands_that_work(lore: Lore) -> None:
    import shlex

    lines = lore("demo", "--no-serve", "--speed", "0", "--log", "sqlite:my demo.db", "--town", "harbour", code=0).lines
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("  lore ")]
    assert [command[0] for command in commands] == ["status", "story", "events"]
    status, story, events = (lore(*command, code=0) for command in commands)
    assert "1 needs you" in status.out
    assert "(wh-1, " in story.out
    assert "fleet.abandon" in events.out


def test_anybody_who_may_be_shown_the_token_gets_an_address_and_anybody_who_has_no_lore_on_the_path_a_way_to_it() -> None:
    shown = list(
        list_pages_and_commands(
            ["fleet"], "http://localhost/", "sqlite:demo.db", None, write_url="http://localhost/#token=t", path="/my venv/bin"
        )
    )
    assert "For write access (buttons, chat), open http://localhost/#token=t" in shown
    assert "  export PATH='/my venv/bin':$PATH" in shown
    unsaid = list(list_pages_and_commands(["fleet"], "http://localhost/", "sqlite:demo.db", None))
    assert not any("#token" in line or "PATH" in line for line in unsaid)


def test_the_home_directory_is_written_short_and_still_understood(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    import shlex

    monkeypatch.delenv("XDG_DATA_HOME")
    lines = lore("demo", "--no-serve", "--speed", "0", code=0).lines
    [status] = [shlex.split(line)[1:] for line in lines if line.startswith("  lore status")]
    assert status[2].startswith("sqlite:~/")
    assert "9 agents" in lore(*status, code=0).out


def test_a_log_with_something_in_it_is_left_alone_unless_asked(lore: Lore) -> None:
    log = ("--log", "sqlite:own.db")
    lore("emit", "fleet.idle", "--agent", "zoe", *log, code=0)
    assert "--into" in lore("demo", "--no-serve", "--speed", "0", *log, code=2).err
    assert len(lore("events", "--all", "--json", *log).lines) == 1
    lore("demo", "--no-serve", "--speed", "0", "--into", *log, code=0)
    assert len(lore("events", "--all", "--json", *log).lines) == 1 + len(EVENTS)


def test_json_gives_each_event_with_its_position(lore: Lore) -> None:
    result = lore("demo", "--no-serve", "--speed", "0", "--json", "--log", "sqlite:x.db", "--seed", "5", code=0)
    assert [line["id"] for line in result.ndjson] == [event.id for _, event in write_story(5)]
    assert result.raw == lore("events", "--all", "--json", "--log", "sqlite:x.db").raw
    assert "events recorded in" in result.err


@pytest.mark.parametrize("speed", ["-1", "nan", "inf"])
def test_a_speed_that_is_none_is_refused(lore: Lore, speed: str) -> None:
    assert "--speed" in lore("demo", "--no-serve", f"--speed={speed}", code=2).err


@pytest.mark.parametrize("columns", [80, 120])
def test_on_a_terminal_each_event_is_one_line_that_fits(lore: Lore, columns: int) -> None:
    import re

    result = lore.on_terminal("demo", "--no-serve", "--speed", "40", columns=columns)
    assert result.code == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", result.out).splitlines()
    story = lines[: lines.index("")]
    assert len(story) == len(EVENTS)
    assert all(len(line) <= columns for line in story)
    assert any(re.match(r"\d\d:\d\d  ✗  bram   error            wh-1  Filling the outbox", line) for line in story)
