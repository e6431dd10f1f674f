"""The timeline over HTTP: counts agree however wide the window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleetlore import Event
from fleetlore.cli.demo.command import record_story
from fleetlore.cli.demo.fleet import write_story
from fleetlore.operations import timeline
from fleetlore.server import context
from fleetlore.testing import START, FrozenClock
from fleetlore.views import time_ranges
from fleetlore.views.fleet import SILENT_AFTER
from tests.server.serving import Served, serve

FOR_EVER = {"from_": "0001-01-01T00:00:00Z", "to": "9999-12-31T23:59:59Z"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    clock = FrozenClock()
    with serve(tmp_path_factory.mktemp("demo"), now=clock) as running:
        list(record_story(running.log, write_story(1), speed=0, now=clock))
        yield running


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Served]:
    with serve(tmp_path) as running:
        yield running


def moment(text: str) -> datetime:
    return msgspec.convert(text, datetime)


def make_event(minutes: float, agent: str = "ada", kind: str = "fleet.commit", **fields: Any) -> Event:
    return Event(kind=kind, agent=agent, actor=agent or "x", at=START + timedelta(minutes=minutes), **fields)


# --- the timeline


def totals(answer: Any) -> dict[str, int]:
    """Lane → events, as its buckets have them; each lane's own total has to be the same."""
    found = {lane["agent"]: sum(sum(counts) for _, counts in lane["buckets"]) for lane in answer["lanes"]}
    assert found == {lane["agent"]: lane["total"] for lane in answer["lanes"]}
    return found


def test_marks_buckets_and_the_log_agree(served: Served) -> None:
    answer, events = served.view("timeline"), list(served.log.read())
    assert answer["exact"]
    assert totals(answer) == Counter(event.agent or "" for event in events)
    marks = {mark["id"]: mark for mark in answer["marks"]}
    assert {id: (mark["agent"], moment(mark["at"]), mark["kind"], mark["position"]) for id, mark in marks.items()} == {
        event.id: (event.agent or "", event.at, event.kind, event.position) for event in events
    }
    assert sorted(map(tuple, answer["links"])) == sorted((event.cause, event.id) for event in events if event.cause in marks)
    length = (moment(answer["to"]) - moment(answer["from"])).total_seconds()
    count = round(length / answer["bucket_seconds"])
    assert all(0 <= number < count for lane in answer["lanes"] for number, _ in lane["buckets"])
    for arc in answer["arcs"]:
        assert arc["lanes"]
        assert set(arc["lanes"]) <= {lane["agent"] for lane in answer["lanes"]}


def test_a_log_cut_into_windows_is_counted_whole(served: Served) -> None:
    whole = served.view("timeline")
    edges = [moment(whole["from"]) + timedelta(minutes=7 * number) for number in range(8)]
    sums: Counter[str] = Counter()
    for since, until in pairwise(edges):
        sums.update(totals(served.view("timeline", from_=since.isoformat(), to=until.isoformat())))
    assert +sums == Counter(totals(whole))


@pytest.mark.parametrize("limits", [{"MAX_MARKS": 5}, {"MAX_EVENTS_READ": 5}], ids=["read and counted", "as the pace has it"])
@pytest.mark.parametrize("width", [60, 1200])
def test_a_window_with_too_many_events_has_the_same_totals(
    served: Served, monkeypatch: pytest.MonkeyPatch, limits: Any, width: int
) -> None:
    whole = served.view("timeline")
    for name, value in limits.items():
        monkeypatch.setattr(timeline, name, value)
    monkeypatch.setattr(context, "FRESH_SECONDS", 1e-6)  # so that nothing is answered as it was a moment ago
    answer = served.view("timeline", width=width)
    assert not answer["exact"]
    assert (answer["marks"], answer["links"]) == ([], [])
    assert totals(answer) == totals(whole)
    families = [
        {lane["agent"]: [sum(each) for each in zip(*(counts for _, counts in lane["buckets"]), strict=True)] for lane in one["lanes"]}
        for one in (whole, answer)
    ]
    assert families[0] == families[1]
    assert moment(answer["from"]) <= moment(whole["from"]) < moment(whole["to"]) <= moment(answer["to"])


def test_some_agents_are_shown_alone(served: Served) -> None:
    answer = served.view("timeline", agent=["ada", "dov"])
    assert {lane["agent"] for lane in answer["lanes"]} == {"ada", "dov"}
    assert {mark["agent"] for mark in answer["marks"]} == {"ada", "dov"}
    assert [lane["agent"] for lane in served.view("timeline", agent="")["lanes"]] == [""]
    assert served.get("/api/timeline", agent="nobody").status == 404


def test_lanes_are_the_busiest_forty_in_the_order_of_appearance(own: Served) -> None:
    crowd = [make_event(number, f"agent-{number:02d}") for number in range(50)]
    busy = [make_event(60 + number, f"agent-{number:02d}") for number in range(10, 50)]
    own.log.append(crowd + busy)
    answer = own.view("timeline")
    assert [lane["agent"] for lane in answer["lanes"]] == [f"agent-{number:02d}" for number in range(10, 50)]
    assert answer["more_lanes"] == 10
    assert {mark["agent"] for mark in answer["marks"]} == {lane["agent"] for lane in answer["lanes"]}


@pytest.mark.parametrize(
    "window",
    [
        {"from_": "0001-01-01T00:00:00Z", "to": "0001-01-01T00:00:01Z"},
        {"to": "0001-01-01T00:00:00Z"},
        {"from_": "9999-12-31T23:59:59.999999Z"},
        {"from_": "9999-12-31T23:59:59-14:00"},
        {"to": "0001-01-01T00:00:00+14:00"},
        {"from_": "2030-01-01T00:00:00Z"},
        {"to": "2020-01-01T00:00:00Z"},
    ],
)
def test_a_window_outside_of_all_time_has_nothing_in_it(served: Served, window: dict[str, str]) -> None:
    answer = served.view("timeline", **window)
    assert sum(totals(answer).values()) == 0
    assert answer["marks"] == []
    assert moment(answer["from"]) < moment(answer["to"])
    assert answer["first_at"] is not None


def test_a_window_as_wide_as_the_calendar_has_everything_in_it(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    assert totals(served.view("timeline", **FOR_EVER)) == totals(served.view("timeline"))
    monkeypatch.setattr(context, "FRESH_SECONDS", 1e-6)
    monkeypatch.setattr(timeline, "MAX_EVENTS_READ", 0)
    assert totals(served.view("timeline", **FOR_EVER, width=600)) == totals(served.view("timeline"))


def test_late_events_are_found_wherever_they_lie_in_the_log(own: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_ranges, "SEGMENT_EVENTS", 3)
    order = [50, 10, 40, 20, 30, 0, 45, 5, 35, 15]
    own.log.append([make_event(minutes, text=str(minutes)) for minutes in order])
    window = {"from_": make_event(10).at.isoformat(), "to": make_event(35).at.isoformat()}  # type: ignore[union-attr]  # `make_event` says when
    assert [mark["text"] for mark in own.view("timeline", **window)["marks"]] == ["10", "15", "20", "30"]
    known = [event.position for event in own.log.read()][5]
    assert [mark["text"] for mark in own.view("timeline", as_of=known, **window)["marks"]] == ["10", "20", "30"]


def test_who_falls_silent_is_shown_so_though_nothing_is_stored(tmp_path: Path) -> None:
    """The answer that others were given a while ago is not given again."""
    clock = FrozenClock()
    with serve(tmp_path, now=clock) as running:
        running.log.append([make_event(0, kind="fleet.dispatch", text="go")])
        assert [lane["standing"] for lane in running.view("timeline")["lanes"]] == ["working"]
        clock.advance(SILENT_AFTER.total_seconds() + 60)
        assert [lane["standing"] for lane in running.view("timeline")["lanes"]] == ["silent"]
