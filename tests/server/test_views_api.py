"""The views over HTTP, on the demo's fleet: what each answers, at the head and as of any moment, and that all tell the same."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event as Flag
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from fleetlore import Event
from fleetlore.cli.demo.command import record_story
from fleetlore.cli.demo.fleet import CAST, write_story
from fleetlore.log.sqlite.maintenance import backup_log
from fleetlore.operations import arcs, costs, fleet, periods, sessions, stage, timeline
from fleetlore.projections.live_views import LiveViews
from fleetlore.server import view_cache
from fleetlore.server.app import build_routes
from fleetlore.server.health import Meta
from fleetlore.testing import START, FrozenClock
from tests.cli.running import Lore
from tests.patience import PATIENCE
from tests.server.serving import Served, serve
from tests.servers import Nats, Valkey

HEAD = {"as_of", "at", "live", "caught_up"}
ARC = {"kind", "thread", "title", "agents", "state", "first", "last", "evidence", "count", "first_at", "last_at", "note", "text"}
FIGURES = {"input", "output", "cache_read", "cache_write", "tokens", "usd"}
AGENT = {
    "name",
    "shown",
    "standing",
    "since",
    "doing",
    "kind",
    "last_seen",
    "task",
    "mission",
    "goal",
    "run",
    "parent",
    "events",
    "beats",
    "tokens",
    "usd",
    "last_id",
    "last_position",
}
THREAD = {"key", "title", "state", "mission", "agents", "counts", "first_at", "last_at", "events", "stalled_seconds"}
SENTENCE = {"text", "thread", "title", "evidence", "at", "beat", "agent", "shown"}
CHAPTER = {"title", "first_at", "last_at", "sentences", "arcs"}
VIEWS = {
    "fleet": (fleet.Fleet, {"now", "counts", "agents", "asking"}),
    "threads": (fleet.Threads, {"threads", "total"}),
    "arcs": (arcs.ArcsPage, {"arcs", "counts"}),
    "sessions": (sessions.SessionsPage, {"sessions", "more"}),
    "brief": (periods.PeriodBrief, {"brief"}),
    "costs": (costs.CostsPage, {"total", "by", "unpriced", "prices", "older"}),
    "stage": (stage.Stage, {"play", "runs", "let_go"}),
    "story": (periods.PeriodStory, {"story"}),
    "timeline": (
        timeline.TimelinePage,
        {"from", "to", "first_at", "last_at", "exact", "bucket_seconds", "families", "lanes", "marks", "links", "arcs", "more_lanes"},
    ),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The demo, played to its end, at which the clock stands still."""
    clock = FrozenClock()
    with serve(tmp_path_factory.mktemp("demo"), now=clock) as running:
        list(record_story(running.log, write_story(1), speed=0, now=clock))
        yield running


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Served]:
    """A server with an empty log."""
    with serve(tmp_path) as running:
        yield running


def stored(served: Served) -> list[Event]:
    return list(served.log.read())


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def make_event(text: str, minutes: float = 0, agent: str = "ada", **fields: Any) -> Event:
    return Event(kind="fleet.commit", agent=agent, actor=agent, at=at(minutes), text=text, **fields)


# --- the shape of each


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_answers_in_the_shape_that_was_agreed_on(served: Served, view: str) -> None:
    kind, keys = VIEWS[view]
    answer = served.view(view)
    assert set(answer) >= HEAD | keys
    msgspec.convert(answer, kind)
    last = stored(served)[-1]
    assert (answer["as_of"], answer["live"], answer["caught_up"]) == (last.position, True, True)
    assert msgspec.convert(answer["at"], datetime) == last.at


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_of_an_empty_log_is_an_empty_one(own: Served, view: str) -> None:
    answer = own.view(view)
    assert (answer["as_of"], answer["at"], answer["live"], answer["caught_up"]) == (None, None, True, True)
    for name in ("agents", "threads", "arcs", "by", "chapters", "lanes", "marks"):
        assert answer.get(name, []) == []
    assert own.view(view, as_of="2026-01-01T00:00:00Z")["as_of"] is None


def test_the_fleet_has_a_card_for_everybody_those_first_whom_a_person_has_to_look_after(served: Served) -> None:
    answer = served.view("fleet")
    assert [(card["standing"], card["name"]) for card in answer["agents"] if card["name"] in CAST] == [
        ("needs you", "bram"),
        ("silent", "cleo"),
        ("working", "edda"),
        ("idle", "ada"),
        ("ended", "dov"),
    ]
    order = [fleet.STANDING_ORDER.index(card["standing"]) for card in answer["agents"]]
    assert order == sorted(order)
    assert answer["counts"] == {"needs you": 1, "silent": 1, "working": 2, "idle": 3, "ended": 2}
    ids = {event.id: event for event in stored(served)}
    for card in answer["agents"]:
        assert set(card) >= AGENT
        assert 0 < len(card["beats"]) <= 32
        assert card["beats"] == sorted(card["beats"])
        assert ids[card["last_id"]].position == card["last_position"]
        assert sum(event.agent == card["name"] for event in ids.values()) <= card["events"]
    spent = {row["agent"]: row["tokens"] for row in served.view("costs", by="agent")["by"]}
    assert {card["name"]: card["tokens"] for card in answer["agents"] if card["tokens"]} == spent


def test_threads_are_newest_first_and_filtered_by_their_state(served: Served) -> None:
    every = served.view("threads")
    assert {row["key"] for row in every["threads"]} >= {f"task:wh-{number}" for number in range(1, 7)}
    assert [row["last_at"] for row in every["threads"]] == sorted((row["last_at"] for row in every["threads"]), reverse=True)
    assert sum(row["events"] for row in every["threads"]) == len(stored(served))
    assert all(set(row) >= THREAD for row in every["threads"])
    for state in ("open", "closed"):
        some = served.view("threads", state=state)
        assert [row for row in every["threads"] if row["state"] == state] == some["threads"]
        assert some["total"] == len(some["threads"])
    few = served.view("threads", limit=2)
    assert (few["threads"], few["total"]) == (every["threads"][:2], len(every["threads"]))


def test_arcs_are_those_of_the_command_line(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = served.view("arcs")
    assert answer["arcs"]
    assert all(set(row) >= ARC and row["text"] for row in answer["arcs"])
    states = [row["state"] for row in answer["arcs"]]
    assert states == sorted(states, reverse=True)  # the open ones first
    recorded = lore(served)("arcs", "--json", "--log", served.context.url, code=0).ndjson
    assert recorded
    assert in_any_order({name: row[name] for name in ARC - {"title", "text"}} for row in answer["arcs"]) == in_any_order(
        {name: value for name, value in row.items() if name != "text"} for row in recorded
    )
    assert answer["counts"] == {
        kind: sum(arc["kind"] == kind and arc["state"] == "closed" for arc in recorded) for kind in answer["counts"]
    }
    [kind, *_] = answer["counts"]
    some = served.view("arcs", kind=kind, state="closed")
    assert some["arcs"] == [row for row in answer["arcs"] if (row["kind"], row["state"]) == (kind, "closed")]


def lore(served: Served) -> Lore:
    return Lore(Path(served.context.url.removeprefix("sqlite:")).parent)


def in_any_order(rows: Any) -> list[str]:
    return sorted(msgspec.json.encode(row, order="deterministic").decode() for row in rows)


@pytest.mark.parametrize("by", ["day", "agent", "model", "task", "session", "project", "person"])
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati"])
def test_costs_are_those_of_the_command_line(served: Served, by: str, zone: str) -> None:
    answer = served.view("costs", by=by, tz=zone)
    recorded = lore(served)("costs", "--json", "--by", by, "--tz", zone, "--log", served.context.url, code=0).json
    for row in (answer["total"], *answer["by"]):
        assert row.pop("tokens") == sum(row[name] for name in ("input", "output", "cache_read", "cache_write")) > 0
    assert {name: answer[name] for name in recorded} == recorded


def test_sessions_are_those_of_the_command_line(served: Served) -> None:
    answer = served.view("sessions")
    recorded = lore(served)("sessions", "--json", "--all", "--log", served.context.url, code=0).ndjson
    assert [row["session"] for row in answer["sessions"]] == [row["session"] for row in recorded]
    assert not answer["more"]
    if recorded:
        run = recorded[0]["session"]
        # Not the headline: it says whether a session was stopped, which depends on the clock, and the server's stands still here.
        assert [row["asked"] for row in served.view("sessions", scope=f"run:{run}")["sessions"]] == [recorded[0]["asked"]]
        assert served.view("sessions", as_of="0" * len(answer["as_of"]))["sessions"] == []


def test_one_session_is_had_by_its_id_or_its_beginning(own: Served) -> None:
    who: dict[str, Any] = {"agent": "claude-code/11111111", "run": "11111111-aaaa"}
    own.log.append(
        [
            Event(kind="prompt.submitted", at=at(0), text="Fix it", data={"prompt": "Fix it"}, **who),
            Event(kind="session.turn_ended", at=at(1), text="The parser accepts tabs now.", **who),
        ]
    )
    assert own.view("sessions/11111111")["session"]["asked"] == "Fix it"
    assert own.view("sessions/11111111-aaaa")["session"] == own.view("sessions")["sessions"][0]
    assert own.get("/api/sessions/none").status == 404
    assert own.get("/api/sessions/11111111", since="x").status == 422


def test_the_brief_is_that_of_the_command_line(served: Served) -> None:
    for query, words in (
        ({}, []),
        ({"day": "2026-11-15"}, ["--day", "2026-11-15"]),
        ({"since": "2020-01-01T00:00:00Z"}, ["--since", "2020-01-01"]),
    ):
        recorded = lore(served)("brief", "--json", *words, "--log", served.context.url, code=0).json
        assert served.view("brief", **query)["brief"]["bill"] == recorded["bill"]
        shown = served.view("brief", **query)["brief"]["delivered"]
        for line in shown:  # the server's clock is that of the story, and the command's is today's
            line["text"] = line["text"].replace("still running", "no final answer")
        assert shown == recorded["delivered"]


@pytest.mark.parametrize(
    "query", [{"day": "2026-11-15", "since": "2026-11-15T00:00:00Z"}, {"until": "2026-11-15T00:00:00Z"}, {"day": "9999-12-31"}]
)
def test_a_brief_of_no_period_is_refused(served: Served, query: dict[str, Any]) -> None:
    assert served.get("/api/brief", **query).status == 422


def test_costs_by_two_add_up_to_those_by_one_and_a_range_to_the_whole(served: Served) -> None:
    whole = served.view("costs", by="day,model")
    assert all(set(row) == FIGURES | {"day", "model"} for row in whole["by"])
    assert sum(row["tokens"] for row in whole["by"]) == whole["total"]["tokens"]
    middle = served.view("fleet", as_of=stored(served)[60].position)["at"]
    parts = [served.view("costs", until=middle)["total"], served.view("costs", since=middle)["total"]]
    assert sum(part["tokens"] for part in parts) == whole["total"]["tokens"]


def test_costs_say_of_how_much_the_task_is_not_known_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleetlore.views.costs.PRUNED_EVERY", 5)
    monkeypatch.setattr("fleetlore.views.costs.Costs.__init__.__kwdefaults__", {"most_held": 10})
    with serve(tmp_path) as own:
        own.log.append([Event(kind="model.replied", agent="ada", run=f"r{n}", task=f"t{n}", data={"usd": 1}) for n in range(50)])
        tasks, agents = own.view("costs", by="task"), own.view("costs", by="agent")
    assert (agents["older"], agents["by"][0]["usd"], agents["total"]["usd"]) == (None, 50, 50)
    rows = {row["task"]: row["usd"] for row in tasks["by"]}
    assert rows["t49"] == 1
    assert rows[None] == tasks["older"]["usd"] == 51 - len(rows)
    assert tasks["total"]["usd"] == 50


def test_the_search_finds_words_and_shows_where(served: Served) -> None:
    found = served.view("search", q="outage")
    assert found["indexing"] is False
    assert found["events"]
    for event in found["events"]:
        assert "outage" in event["excerpt"].lower()
        assert served.view("events", id=event["id"])["events"][0] == {k: v for k, v in event.items() if k != "excerpt"}
    assert served.view("search", q="zyzzyva")["events"] == []
    assert len(served.view("search", q="wh", limit=1)["events"]) <= 1


def test_the_newest_events_are_those_that_happened_last_also_where_history_was_imported_after_them(own: Served) -> None:
    day = 1440
    order = [9 * day, 9 * day + 1, 9 * day + 2, 3 * day, 3 * day + 1, 0, 1, 2]
    own.log.append([make_event(f"deed {minutes}", minutes, agent=f"ada{minutes % 2}") for minutes in order])
    assert own.view("fleet")["caught_up"]
    expected = [f"deed {minutes}" for minutes in sorted(order, reverse=True)]
    assert [event["text"] for event in own.view("events", order="newest")["events"]] == expected
    assert [event["text"] for event in own.view("search", q="deed")["events"]] == expected
    paged: list[str] = []
    place: str | None = None
    while True:
        page = own.view("events", order="newest", before=place, limit=3)
        paged += [event["text"] for event in page["events"]]
        if (place := page["next"]) is None:
            break
    assert paged == expected
    ours = own.view("events", order="newest", scope="agent:ada1")["events"]
    assert [event["text"] for event in ours] == [text for text in expected if int(text[5:]) % 2]
    known = list(own.log.read())[4].position
    then = own.view("events", order="newest", as_of=known)["events"]
    assert [event["text"] for event in then] == expected[:5]


def test_meta_says_what_is_shown(served: Served) -> None:
    meta, events = served.view("meta"), stored(served)
    assert (meta["head"], meta["events"], meta["done"], meta["total"]) == (events[-1].position, len(events), len(events), len(events))
    assert [msgspec.convert(meta[name], datetime) for name in ("first_at", "last_at")] == [events[0].at, events[-1].at]
    assert (meta["caught_up"], meta["token_needed_to_read"], meta["sealed"]) == (True, True, False)
    assert meta["scopes_of_token"] == ["read", "approve", "write", "admin"]
    assert set(msgspec.convert(meta, Meta).__struct_fields__) == set(meta)


# --- stored events


def test_events_are_given_page_by_page_in_both_directions(served: Served) -> None:
    events = stored(served)
    assert pages(served, "before") == [event.id for event in reversed(events)]
    assert pages(served, "after", order="oldest") == [event.id for event in events]
    assert pages(served, "after", order="oldest", kind="fleet.*", scope="task:wh-3") == [
        event.id for event in events if event.kind.startswith("fleet.") and event.task == "wh-3"
    ]


def pages(served: Served, name: str, **query: Any) -> list[str]:
    found: list[str] = []
    place = None
    while True:
        page = served.view("events", limit=7, **query, **{name: place})
        found += [event["id"] for event in page["events"]]
        place = page["next"]
        if place is None:
            return found


def test_an_event_is_its_canonical_json_and_its_position(served: Served) -> None:
    from fleetlore.events import codec

    [first] = served.view("events", order="oldest", limit=1)["events"]
    event = stored(served)[0]
    assert first.pop("position") == event.position
    assert first == msgspec.json.decode(codec.encode_event(event))


# --- visible at once


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views that are always a little behind the log."""
    take = LiveViews._fold_batch

    def dawdle(self: LiveViews, events: list[Event]) -> bool:
        Flag().wait(0.03)
        return take(self, events)

    monkeypatch.setattr(LiveViews, "_fold_batch", dawdle)


@pytest.mark.usefixtures("slow")
def test_what_was_stored_is_there_in_the_next_request(own: Served) -> None:
    for number in range(10):
        agent = f"agent-{number}"
        body = {"kind": "fleet.commit", "agent": agent, "actor": agent, "task": f"t{number}", "text": f"deed {number}"}
        answer = own.post("/api/events", body)
        assert answer.status == 200, answer.body
        [position] = answer.json["positions"]
        views = {name: own.view(name) for name in ("fleet", "story", "threads", "timeline", "events", "meta")}
        assert agent in {card["name"] for card in views["fleet"]["agents"]}
        assert views["events"]["events"][0]["position"] == position == views["meta"]["head"]
        assert f"deed {number}" in str(views["timeline"]["marks"])
        assert f"task:t{number}" in {row["key"] for row in views["threads"]["threads"]}
        assert agent in {lane["agent"] for lane in views["timeline"]["lanes"]}
        assert {views[name]["as_of"] for name in ("fleet", "story", "threads", "timeline")} == {position}


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("newest_first", [True, False])
def test_what_was_erased_is_gone_with_the_next_request(own: Served, newest_first: bool) -> None:
    own.log.append([make_event("SECRET", 0, "mole"), make_event("plain", 1), make_event("more", 2)])
    [secret, plain, _] = stored(own)
    asked = [(name, as_of) for as_of in (None, plain.position) for name in (*VIEWS, "events", "search")]
    asked.sort(key=lambda each: each[1] or "", reverse=not newest_first)
    query = {"search": {"q": "SECRET"}}
    for name, as_of in asked:
        own.view(name, as_of=as_of, **query.get(name, {}))
    assert "SECRET" in str(own.view("timeline", as_of=plain.position))
    own.log.erase([secret.id or ""], "a slip")
    for name, as_of in asked:
        assert "SECRET" not in str(own.view(name, as_of=as_of, **query.get(name, {})))
    assert [card["name"] for card in own.view("fleet")["agents"]] == ["ada"]


def test_what_was_erased_before_all_is_begun_anew_is_not_answered_from_memory(own: Served) -> None:
    """The first event creates a store, and all views start again with it; it may contain an erasure that they have not seen."""
    held, go_on, warm = Flag(), Flag(), own.context.view_cache.live_views
    begin = warm._resume_folds

    def begin_later() -> None:
        held.set()
        go_on.wait(PATIENCE)
        begin()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warm, "_resume_folds", begin_later)
        own.log.append([make_event("SECRET", 0, "mole"), make_event("plain", 1), make_event("more", 2)])
        [secret, plain, _] = stored(own)
        assert held.wait(PATIENCE)
        assert "SECRET" in str(own.view("timeline", as_of=plain.position))
        own.log.erase([secret.id or ""], "a slip")
        go_on.set()
        assert "SECRET" not in str(own.view("timeline", as_of=plain.position))


def test_what_was_erased_is_not_shown_by_views_that_have_fallen_behind(own: Served) -> None:
    own.log.append([make_event("SECRET", 0, "mole"), make_event("plain", 1)])
    go_on, warm = Flag(), own.context.view_cache.live_views
    while not (warm.has_checkpoints and warm.caught_up):  # with the first events all is begun once more
        own.view("fleet")
    assert "SECRET" in str(own.view("fleet"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warm, "pause_if_requested", go_on.wait)
        patch.setattr(view_cache, "CATCH_UP_SECONDS", 0.0)
        own.log.append([make_event("more", 2)])
        assert "SECRET" in str(own.view("fleet"))  # behind, and shown all the same
        own.log.erase([stored(own)[0].id or ""], "a slip")
        answer = own.get("/api/fleet")
        go_on.set()
    assert b"SECRET" not in answer.body
    assert answer.status == 503 or not answer.json["caught_up"]  # it was noticed by now, or all is being folded anew
    assert "SECRET" not in str(own.view("fleet"))


# --- as of


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_as_of_a_position_is_that_of_a_log_that_ends_there(served: Served, tmp_path: Path, view: str) -> None:
    events, clock = stored(served), FrozenClock()
    with serve(tmp_path, now=clock) as shorter:
        for cut in (1, 37, 90):
            shorter.log.append(events[len(stored(shorter)) : cut])
            clock.moment = events[cut - 1].at or START
            then = shorter.view(view)
            past = served.view(view, as_of=events[cut - 1].position)
            assert (then.pop("live"), past.pop("live")) == (True, False)
            for name in then:
                assert past[name] == then[name], (name, cut)


def test_a_moment_is_the_last_position_at_which_nothing_newer_was_known(own: Served) -> None:
    """Stored in another order than that of time: a late event does not turn the clock back."""
    order = [10, 5, 20, 15, 30]
    own.log.append([make_event(f"minute {minutes}", minutes) for minutes in order])
    positions = [event.position for event in stored(own)]

    def known(minutes: float) -> Any:
        answer = own.view("fleet", as_of=at(minutes).isoformat())
        return answer["as_of"], answer["live"]

    assert known(0) == (None, False)
    assert own.view("fleet", as_of=at(0).isoformat())["agents"] == []
    assert known(9.99) == (None, False)
    assert known(10) == known(19.99) == (positions[1], False)
    assert known(20) == known(29) == (positions[3], False)
    assert known(30) == known(99) == (positions[4], True)
    assert [row["text"] for row in own.view("events", as_of=at(12).isoformat())["events"]] == ["minute 5", "minute 10"]
    assert own.view("events", as_of=at(1).isoformat())["events"] == []
    assert own.view("story", as_of=at(1).isoformat())["story"]["paragraphs"] == []


def test_a_past_answer_is_the_same_however_often_and_whatever_came_since(own: Served) -> None:
    own.log.append([make_event(f"number {number}", number) for number in range(9)])
    place = stored(own)[4].position
    before = {name: own.get(f"/api/{name}", as_of=place).body for name in VIEWS}
    own.log.append([make_event("later", 99)])
    assert {name: own.get(f"/api/{name}", as_of=place).body for name in VIEWS} == before


def test_a_look_at_the_past_that_is_still_mentioned_holds_no_views(served: Served) -> None:
    """The next one may begin by then, and views of the past are large."""
    with served.context.view_cache.snapshot(stored(served)[5].position, ["fleet"]) as look:
        assert look.states["fleet"].agents
    assert not look.states


# --- health


def test_it_says_that_it_lives_and_is_ready_and_counts_what_it_does(served: Served) -> None:
    assert (served.get("/healthz").status, served.get("/healthz").body) == (200, b"ok\n")
    ready = served.get("/readyz")
    assert (ready.status, ready.json["ready"], ready.json["detail"]) == (200, True, "")
    served.view("fleet")
    page = served.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(page.body.decode())}
    assert {sample.labels["standing"]: sample.value for sample in families["fleetlore_agents"].samples} == {
        "needs you": 1,
        "silent": 1,
        "working": 2,
        "idle": 3,
        "ended": 2,
    }
    assert families["fleetlore_events_folded"].samples[0].value == len(stored(served))
    counted = {sample.labels["route"] for sample in families["fleetlore_request_seconds"].samples}
    assert "/api/fleet" in counted
    assert counted <= {route.path for route in build_routes() if hasattr(route, "path")} | {"none"}


def test_when_the_log_is_gone_it_says_so_and_still_lives(tmp_path: Path) -> None:
    with serve(tmp_path) as running:
        running.log.append([make_event("one")])
        running.view("fleet")
        running.log.close()
        ready = running.get("/readyz")
        assert (ready.status, ready.json["ready"]) == (503, False)
        assert ready.json["detail"]
        assert running.get("/healthz").status == 200
        assert running.get("/metrics").status == 200
        for name in (*VIEWS, "events", "meta"):
            answer = running.get(f"/api/{name}")
            assert answer.status == 503, name
            assert answer.detail
            assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize("is_replaced", [False, True])
def test_when_the_log_file_is_gone_nothing_is_acknowledged_and_it_is_not_ready(is_replaced: bool, tmp_path: Path) -> None:
    path, copy = tmp_path / "fleet.db", tmp_path / "backup.db"
    event = {"kind": "fleet.commit", "agent": "ada", "text": "two"}
    with serve(tmp_path) as running:
        running.log.append([make_event("one")])
        backup_log(str(path), str(copy))
        assert running.post("/api/events", event).status == 200
        running.view("fleet")
        if is_replaced:
            copy.replace(path)
        else:
            for file in sorted(tmp_path.glob("fleet.db*")):
                file.unlink()
        reason = f"{path}: was {'replaced by another file' if is_replaced else 'deleted or moved away'} while the log was open"
        for _ in range(2):
            ready = running.get("/readyz")
            assert (ready.status, ready.json["ready"]) == (503, False)
            assert reason in ready.json["detail"]
            answer = running.post("/api/events", event)
            assert (answer.status, reason in answer.detail) == (503, True), answer.body
        assert running.get("/healthz").status == 200
    assert path.exists() is is_replaced


@pytest.mark.parametrize("server_name", ["valkey", "nats"])
def test_when_a_server_lost_the_log_nothing_is_acknowledged_and_it_is_not_ready(server_name: str, tmp_path: Path) -> None:
    event = {"kind": "fleet.commit", "agent": "ada", "text": "two"}
    server = Valkey(tmp_path / "data") if server_name == "valkey" else Nats(tmp_path / "data")
    with server, serve(tmp_path, server.url) as running:
        assert running.post("/api/events", event).status == 200
        running.view("fleet")
        server.wipe()
        for _ in range(2):
            assert running.post("/api/events", event).status == 503
            ready = running.get("/readyz")
            assert (ready.status, ready.json["ready"]) == (503, False)
            assert "acknowledge" in ready.json["detail"]


# --- saying no


@pytest.mark.parametrize(
    ("path", "query", "reason"),
    [
        ("/api/fleet", {"frob": 1}, "frob"),
        ("/api/fleet", {"as_of": "yesterday"}, "as_of: not a time"),
        ("/api/fleet", {"as_of": "2026-11-15T20:00:00"}, "add Z"),
        ("/api/fleet", {"as_of": "2026-11-15"}, "add Z"),
        ("/api/fleet", {"as_of": "1" * 30}, "not a position"),
        ("/api/fleet", {"as_of": "000000000000000²"}, "as_of"),
        ("/api/fleet", {"as_of": "٠" * 16}, "as_of"),
        ("/api/fleet", {"as_of": ""}, "as_of"),
        ("/api/fleet", {"as_of": ["0000000000000001", "0000000000000002"]}, "twice"),
        ("/api/threads", {"state": "ajar"}, "state"),
        ("/api/threads", {"limit": 0}, "limit"),
        ("/api/threads", {"limit": "many"}, "limit"),
        ("/api/arcs", {"kind": "rainbow"}, "unknown pattern"),
        ("/api/costs", {"by": "moon"}, "by:"),
        ("/api/costs", {"by": "day,day"}, "by:"),
        ("/api/costs", {"tz": "Mars/Olympus"}, "unknown time zone"),
        ("/api/costs", {"tz": "../../etc/passwd"}, "unknown time zone"),
        ("/api/costs", {"since": "0"}, "since"),
        ("/api/story", {"scope": "planet:x"}, "unknown scope"),
        ("/api/story", {"before": "5"}, "before"),
        ("/api/story", {"agent": "ada", "scope": "agent:bo"}, "agent or scope"),
        ("/api/story", {"format": "chat"}, "format"),
        ("/api/story", {"day": "2026-11-16", "since": "2026-11-16T00:00:00Z"}, "say day, or since"),
        ("/api/brief", {"until": "2026-11-16T00:00:00Z"}, "say day, or since"),
        ("/api/brief", {"day": "0001-01-01", "tz": "Asia/Tokyo"}, "out of reach of the calendar"),
        ("/api/brief", {"format": "poem"}, "format"),
        ("/api/evidence", {}, "id"),
        ("/api/evidence", {"id": ["x"] * 51}, "id"),
        ("/api/story", {"detail": "gossip"}, "detail"),
        ("/api/timeline", {"from_": "2026-01-02T00:00:00Z", "to": "2026-01-02T00:00:00Z"}, "to: is not after from"),
        ("/api/timeline", {"width": 5000}, "width"),
        ("/api/events", {"scope": "agent:"}, "unknown scope"),
        ("/api/events", {"kind": "NO"}, "neither a kind"),
        ("/api/events", {"after": "abc"}, "after"),
        ("/api/events", {"limit": 1001}, "limit"),
        ("/api/events", {"id": ["x"] * 101}, "id"),
        ("/api/search", {}, "q"),
        ("/api/search", {"q": "  "}, "give a word"),
        ("/api/meta", {"as_of": "2026-01-02T00:00:00Z"}, "as_of"),
    ],
)
def test_a_wrong_question_is_refused_with_a_reason(served: Served, path: str, query: dict[str, Any], reason: str) -> None:
    answer = served.get(path, **query)
    assert answer.status == 422
    assert reason in answer.detail


def test_an_id_that_is_none_is_just_not_found(served: Served) -> None:
    assert served.view("events", id=["nonsense", "00000000-0000-4000-8000-000000000000"])["events"] == []


@pytest.mark.parametrize("path", ["/api/nothing", "/nothing.js", "/api/fleet/x", "/assets/none.js", "/%00.js"])
def test_what_is_not_there_is_not_found(served: Served, path: str) -> None:
    answer = served.ask("GET", path)
    assert answer.status == 404
    assert "/openapi.json" in answer.detail


@pytest.mark.parametrize("path", ["/a/b", "/..%2f..%2fetc%2fpasswd", "/nothing"])
def test_an_unknown_page_is_answered_by_the_pages_which_say_so(served: Served, path: str) -> None:
    answer = served.get(path, signed_in=False)
    assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, "text/html")
    assert b"root:" not in answer.body


@pytest.mark.parametrize("path", [*(f"/api/{name}" for name in (*VIEWS, "search", "meta")), "/healthz", "/readyz", "/metrics", "/"])
def test_other_methods_are_refused_and_the_right_ones_named(served: Served, path: str) -> None:
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        answer = served.ask(method, path)
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
        assert method in answer.detail


def test_a_path_with_two_routes_names_the_methods_of_both(served: Served) -> None:
    assert served.ask("DELETE", "/api/events").headers["allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize("path", [*(f"/api/{name}" for name in (*VIEWS, "meta", "events")), "/healthz", "/openapi.json", "/fleet"])
def test_head_is_get_without_the_body(served: Served, path: str) -> None:
    got, headed = served.get(path), served.get(path, method="HEAD")
    assert (headed.status, headed.body) == (200, b"")
    assert headed.headers["content-type"] == got.headers["content-type"]
    assert headed.headers["content-length"] == str(len(got.body))


def test_connections_that_are_kept_are_answered_without_nagles_delay(served: Served) -> None:
    """An answer is two small packets: where the second waits for the first to be acknowledged, all but the first few take 40 ms."""
    from http.client import HTTPConnection
    from time import perf_counter

    connection = HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)
    taken = []
    for _ in range(40):
        start = perf_counter()
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        taken.append(perf_counter() - start)
    connection.close()
    assert sorted(taken)[10] < 0.03  # not all of them: the machine may be busy


def test_everybody_of_the_cast_is_known(served: Served) -> None:
    assert {card["name"] for card in served.view("fleet")["agents"]} > set(CAST)


def test_patterns_that_are_not_shown_are_listed_as_arcs_and_shown_nowhere_else(tmp_path: Path) -> None:
    story = [
        *[Event(kind="fleet.collab", agent=agent, task="t1") for agent in ("ada", "bo")],
        Event(kind="fleet.pr_merge", agent="ada", task="t1"),
        *[Event(kind=kind, agent="ada", task="t2") for kind in ("fleet.error", "fleet.recovery")],
    ]
    with serve(tmp_path, now=FrozenClock()) as own:
        own.log.append([msgspec.structs.replace(event, actor=event.agent, at=at(number)) for number, event in enumerate(story)])
        assert {arc["kind"] for arc in own.view("arcs")["arcs"]} == {"fleet_convergence", "struggle_and_recovery"}
        assert own.view("arcs", hidden="false")["arcs"] == []
        assert own.view("timeline")["arcs"] == []
