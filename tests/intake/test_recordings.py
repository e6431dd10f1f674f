"""Files of recordings are merged by time, taken in once, and read on from where they were left."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from fleetlore import connect, dialects
from fleetlore.events.envelope import Event
from fleetlore.intake import recordings, transcripts
from fleetlore.intake.deposit import Deposit, Tally
from fleetlore.intake.tape import Tape
from fleetlore.log.admission import Admission
from fleetlore.log.recorder import BlockingRecorder
from tests.transcripts import START, Transcript, a_day, text

CLAUDE = dialects.find_recording("claude-code")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[BlockingRecorder]:
    with connect(f"sqlite:{tmp_path}/log.db").blocking() as log:
        yield log


def take_in(log: BlockingRecorder, *paths: Path) -> Tally:
    deposit = Deposit(log, dialect="claude_code", admission=Admission())
    recordings.take_in([Tape(str(path), CLAUDE) for path in paths], deposit, log)
    return deposit.tally


def told(log: BlockingRecorder) -> list[Event]:
    return list(log.read(limit=10_000))


def costs(events: Sequence[Event]) -> tuple[int, int]:
    """Answers and output tokens, a part counted only where there is no whole."""
    replies = {event.id: event for event in events if event.kind == "model.replied"}
    counted = [event for event in replies.values() if event.data.get("whole") not in replies]
    return len(counted), sum(event.data["output"] for event in counted)


def test_every_line_is_recorded_folded_or_rejected(log: BlockingRecorder, tmp_path: Path) -> None:
    day = a_day()
    path = day.write(tmp_path / "in")
    with path.open("ab") as file:
        file.write(b"nonsense\n\n[]\n")
    tally = take_in(log, path)
    assert tally.lines == len(day.rows) + 2
    assert (tally.rejected, tally.already_there) == (2, 0)
    assert tally.folded == 3  # the mode, and rows of answers that later rows show to be whole


def test_taking_in_twice_changes_nothing(log: BlockingRecorder, tmp_path: Path) -> None:
    path = a_day().write(tmp_path / "in")
    first = take_in(log, path)
    before = told(log)
    again = take_in(log, path)
    assert told(log) == before
    assert (again.recorded, again.already_there, again.folded) == (0, first.recorded, first.folded)


def test_sessions_that_ran_side_by_side_are_merged_by_time_whatever_the_order_of_files(tmp_path: Path) -> None:
    days = [a_day(f"{n:08x}-aaaa-4bbb-8ccc-0123456789ab", mark=str(n), at=START + timedelta(seconds=3 * n)) for n in range(4)]
    paths = [day.write(tmp_path / "in") for day in days]
    stories = []
    for order in (paths, paths[::-1]):
        with connect("memory:").blocking() as log:
            take_in(log, *order)
            stories.append(told(log))
    assert stories[0] == stories[1]
    held_back = ("model.replied", "session.started")
    times = [event.at for event in stories[0] if event.at is not None and event.kind not in held_back]
    assert times == sorted(times)


def test_a_fork_comes_after_its_parent_so_that_shared_rows_are_the_parent_s(log: BlockingRecorder, tmp_path: Path) -> None:
    parent = a_day("bbbb0000-aaaa-4bbb-8ccc-0123456789ab")
    fork = Transcript("aaaa0000-aaaa-4bbb-8ccc-0123456789ab", at=START + timedelta(hours=1))
    fork.add("queue-operation", operation="enqueue")
    fork.rows += [row | {"sessionId": fork.session} for row in parent.rows]
    fork.prompt("and now the other table", "p-9")
    take_in(log, fork.write(tmp_path / "in"), parent.write(tmp_path / "in"))
    runs = {event.kind: event.run for event in told(log)}
    assert runs["tool.returned"] == parent.session
    assert [event.run for event in told(log) if event.kind == "prompt.submitted"] == [parent.session, fork.session]


def test_a_transcript_is_read_on_from_where_it_was_left_and_an_unfinished_line_waits(log: BlockingRecorder, tmp_path: Path) -> None:
    day = a_day()
    path = day.write(tmp_path / "in")
    whole = path.read_bytes()
    with connect("memory:").blocking() as other:
        take_in(other, path)
        expected = [(event.kind, event.id) for event in told(other)]
    path.write_bytes(b"")
    chance = random.Random(5)
    cut = 0
    while cut < len(whole):
        cut = min(len(whole), cut + chance.randrange(1, 900))
        path.write_bytes(whole[:cut])
        transcripts.catch_up(log, [str(path)])
    assert [(event.kind, event.id) for event in told(log)] == expected


def test_reading_on_costs_only_what_is_new(log: BlockingRecorder, tmp_path: Path) -> None:
    day = a_day()
    path = day.write(tmp_path / "in")
    assert transcripts.catch_up(log, [str(path)]).lines == len(day.rows)
    assert transcripts.catch_up(log, [str(path)]).lines == 0
    day.prompt("go on", "p-7")
    day.write(tmp_path / "in")
    assert transcripts.catch_up(log, [str(path)]).lines == 1


def test_a_file_that_was_put_in_another_s_place_is_read_from_its_beginning(log: BlockingRecorder, tmp_path: Path) -> None:
    path = a_day().write(tmp_path / "in", "s")
    transcripts.catch_up(log, [str(path)])
    other = a_day("cccc0000-aaaa-4bbb-8ccc-0123456789ab", mark="other")
    other.write(tmp_path / "in", "s")
    assert transcripts.catch_up(log, [str(path)]).lines == len(other.rows)


def test_half_a_file_and_then_the_whole_cost_what_the_whole_costs(log: BlockingRecorder, tmp_path: Path) -> None:
    growing = Transcript()
    growing.prompt("go")
    growing.reply("m1", text("First."), output=1, stop=None)
    half = growing.write(tmp_path / "half")
    growing.reply("m1", text("Second."), output=33, stop=None)
    growing.prompt("go on", "p-2")
    whole = growing.write(tmp_path / "whole")
    take_in(log, half)
    assert costs(told(log)) == (1, 1)
    take_in(log, whole)
    assert costs(told(log)) == (1, 33)
    take_in(log, half)
    assert costs(told(log)) == (1, 33)


def test_a_part_is_left_out_where_the_whole_is_known(log: BlockingRecorder, tmp_path: Path) -> None:
    growing = Transcript()
    growing.prompt("go")
    growing.reply("m1", text("First."), output=1, stop=None)
    half = growing.write(tmp_path / "half")
    growing.prompt("go on", "p-2")
    take_in(log, growing.write(tmp_path / "whole"))
    count = len(told(log))
    take_in(log, half)
    assert len(told(log)) == count


def test_the_session_s_own_machine_and_person_are_known_where_it_was_recorded(log: BlockingRecorder, tmp_path: Path) -> None:
    transcripts.catch_up(log, [str(a_day().write(tmp_path / "in"))])
    [start] = [event for event in told(log) if event.kind == "session.started"]
    assert start.data["host"]
    assert start.data["person"]


def test_helpers_are_found_beside_the_session(tmp_path: Path) -> None:
    path = a_day().write(tmp_path)
    helper = Transcript(agentId="a1", isSidechain=True)
    helper.prompt("look")
    beside = helper.write(tmp_path / path.stem / "subagents", "agent-a1")
    assert transcripts.with_helpers(str(path)) == [str(path), str(beside)]


def test_thousands_of_files_are_merged_without_holding_them_open(tmp_path: Path) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    paths = []
    for n in range(200):
        session = Transcript(f"{n:08x}-aaaa-4bbb-8ccc-0123456789ab", at=START + timedelta(seconds=n % 7))
        session.prompt("go", f"p{n}")
        session.prompt("on", f"q{n}")
        paths.append(session.write(tmp_path / "in"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        with connect("memory:").blocking() as log:
            assert take_in(log, *paths).recorded == 400
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
