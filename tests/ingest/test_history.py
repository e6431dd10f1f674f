"""All recordings of a machine, imported the newest first: what the log tells does not depend on the order."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import zstandard

from fleetlore import connect
from fleetlore.events.envelope import Event
from fleetlore.ingest import history, recordings
from fleetlore.ingest.batch_writer import BatchWriter
from fleetlore.ingest.history import HistoryFile, make_batches
from fleetlore.ingest.transcript_file import TranscriptFile
from fleetlore.log.admission import Admission
from fleetlore.programs import registry
from fleetlore.views import activity, costs, fleet, names, threads
from fleetlore.views.cost_sums import sum_by_agent, sum_total
from tests.programs import rollouts
from tests.transcripts import START, Transcript, a_day, text

DAY = timedelta(days=1)


def session(n: int) -> str:
    return f"{n:08x}-aaaa-4bbb-8ccc-0123456789ab"


def inspect_file(path: Path, program: str = "claude-code") -> HistoryFile:
    return history.inspect_file(program, str(path), path.stat())


def names_of(batches: Iterable[Sequence[HistoryFile]]) -> list[list[str]]:
    return [sorted(os.path.basename(file.path) for file in batch) for batch in batches]


def rollout(folder: Path, name: str, *rows: rollouts.Row) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rollout-{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


# --- a look at a file


def test_a_file_s_times_are_those_of_its_records_and_not_of_its_last_change(tmp_path: Path) -> None:
    path = a_day().write(tmp_path)
    with path.open("ab") as file:
        file.write(b'{"type": "mode"}\n' * 10)
    os.utime(path, (0, 0))
    found = inspect_file(path)
    assert (found.first, found.last) == (START + timedelta(seconds=1), START + timedelta(seconds=13))


def test_a_file_that_shows_no_time_is_as_old_as_its_last_change(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"timestamp": "9999-01-01T00:00:00Z"}\n{"timestamp": "soon"}\nnonsense')
    os.utime(path, (1_000_000_000, 1_000_000_000))
    found = inspect_file(path)
    assert found.first == found.last == datetime.fromtimestamp(1_000_000_000, UTC)


def test_a_compressed_file_ends_with_its_last_change_and_begins_with_its_first_record(tmp_path: Path) -> None:
    path = a_day().write(tmp_path)
    packed = tmp_path / f"{path.name}.zst"
    packed.write_bytes(zstandard.compress(path.read_bytes()))
    os.utime(packed, (START.timestamp() + 600,) * 2)
    found, plain = inspect_file(packed), inspect_file(path)
    assert (found.first, found.last) == (plain.first, START + timedelta(minutes=10))
    assert found.keys == plain.keys


def test_the_beginning_of_a_compressed_file_is_known_also_where_it_hardly_got_smaller(tmp_path: Path) -> None:
    chance = Random(7)
    rows = [rollouts.meta(), *(rollouts.response(n, "reasoning", encrypted_content=chance.randbytes(3000).hex()) for n in range(1, 200))]
    path = rollout(tmp_path, "a", *rows)
    packed = tmp_path / f"{path.name}.zst"
    packed.write_bytes(zstandard.compress(path.read_bytes()))
    found = inspect_file(packed, "codex")
    assert (found.first, found.keys) == (rollouts.START, inspect_file(path, "codex").keys)
    assert found.keys


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"\x28\xb5\x2f\xfdxxxx", b'{"timestamp":' * 9000])
def test_a_damaged_file_is_looked_into_without_an_error(tmp_path: Path, content: bytes) -> None:
    for name in ("s.jsonl", "s.jsonl.zst"):
        (tmp_path / name).write_bytes(content)
        for program in ("claude-code", "codex"):
            assert inspect_file(tmp_path / name, program).size == len(content)


# --- batches


def test_the_last_days_are_one_batch_and_older_days_follow_the_newest_first(tmp_path: Path) -> None:
    days = [0, 3, 6.9, 7.5, 7.6, 30, 400]
    files = [inspect_file(a_day(session(n), mark=str(n), at=START - days[n] * DAY).write(tmp_path)) for n in range(len(days))]
    expected = [[0, 1, 2], [3, 4], [5], [6]]
    assert names_of(make_batches(reversed(files))) == [[f"{session(n)}.jsonl" for n in batch] for batch in expected]
    assert make_batches([]) == []


def test_a_fork_its_parent_and_their_helpers_are_one_batch(tmp_path: Path) -> None:
    parent = a_day(session(1), at=START - 60 * DAY)
    copied, named = (Transcript(session(n), at=START - n * DAY) for n in (2, 3))
    copied.rows = [row | {"sessionId": copied.session} for row in parent.rows]
    named.add("user", message={"role": "user", "content": "go"}, forkedFrom={"sessionId": parent.session, "messageUuid": "u"})
    helper = Transcript(parent.session, at=START - 60 * DAY, agentId="a1", isSidechain=True)
    helper.prompt("look")
    copied.prompt("and the other one", "p-9")
    paths = [each.write(tmp_path) for each in (parent, copied, named)]
    paths += [
        helper.write(tmp_path / parent.session / "subagents", "agent-a1"),
        a_day(session(9), mark="x", at=START - 60 * DAY).write(tmp_path),
    ]
    first, second = make_batches(map(inspect_file, paths))
    assert len(first) == 4
    assert names_of([second]) == [[f"{session(9)}.jsonl"]]


def test_threads_of_codex_that_come_of_one_another_are_one_batch(tmp_path: Path) -> None:
    month = 30 * DAY.total_seconds()
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": rollouts.THREAD, "depth": 1}}}
    other = rollouts.uuid7(1, "eeee0005")
    child = rollouts.meta(month)
    child["payload"] |= {"id": rollouts.CHILD, "source": spawned, "base_instructions": "x" * history.EDGE_BYTES}
    paths = [
        rollout(tmp_path, "a", rollouts.meta()),
        rollout(tmp_path, "b", child),
        rollout(tmp_path, "c", rollouts.meta(2 * month, id=rollouts.uuid7(9, "ffff0006"), forked_from_id=rollouts.CHILD)),
        rollout(tmp_path, "d", rollouts.meta(id=other)),
    ]
    batches = make_batches(inspect_file(path, "codex") for path in paths)
    assert names_of(batches) == [["rollout-a.jsonl", "rollout-b.jsonl", "rollout-c.jsonl"], ["rollout-d.jsonl"]]


# --- the order changes nothing


def corpus(folder: Path) -> list[HistoryFile]:
    """Two months of both programs: sessions side by side, resumed ones, forks, helpers, an answer that breaks off."""
    paths: list[tuple[str, Path]] = []
    for n in range(12):
        day = a_day(session(n), mark=str(n), at=START - n * 5 * DAY)
        if n % 3 == 0:
            day.prompt("wait for me", f"q{n}")
            day.reply(f"late{n}", text("Half"), output=5, stop=None)
        paths.append(("claude-code", day.write(folder / "claude")))
        if n % 4 == 1:
            fork = Transcript(session(100 + n), at=START - n * 5 * DAY + 11 * DAY)
            fork.add("queue-operation", operation="enqueue")
            fork.rows += [row | {"sessionId": fork.session} for row in day.rows]
            fork.prompt("the other way", f"f{n}")
            fork.reply(f"fork{n}", text("Done."), output=7)
            paths.append(("claude-code", fork.write(folder / "claude")))
            helper = Transcript(day.session, at=START - n * 5 * DAY + timedelta(seconds=4), agentId=f"a{n}", isSidechain=True)
            helper.prompt("look", f"h{n}")
            helper.reply(f"helper{n}", text("Seen."), output=3)
            paths.append(("claude-code", helper.write(folder / "claude" / day.session / "subagents", f"agent-a{n}")))
    for n in range(4):
        seconds = n * 15 * DAY.total_seconds()
        thread = rollouts.uuid7(seconds, f"aaaa000{n}")
        rows = [rollouts.meta(seconds, id=thread), rollouts.context(seconds), *rollouts.said(seconds + 5, "Done.")]
        paths.append(("codex", rollout(folder / "codex", f"2026-{n}-{thread}", *rows)))
    return [inspect_file(path, program) for program, path in paths]


def imported(batches: Iterable[Sequence[HistoryFile]]) -> list[Event]:
    with connect("memory:").blocking() as log:
        for batch in batches:
            transcripts = [TranscriptFile(file.path, registry.find_recording(file.program)) for file in batch]
            recordings.import_transcripts(transcripts, BatchWriter(log, dialect="lore", admission=Admission()), log)
        return list(log.read())


def by_id(events: Iterable[Event]) -> dict[str | None, Any]:
    return {event.id: msgspec.structs.replace(event, position=None) for event in events}


def folded(view: Any, events: Iterable[Event]) -> Any:
    state = view.initial()
    for event in events:
        state = view.apply(state, event)
    return state


def without_places(value: Any) -> Any:
    """A state without positions, which are what differs between two logs of the same events."""
    if isinstance(value, dict):
        moves = {own: [task for _, task in known] for own, known in value.get("moves", {}).items()}
        rest = {key: without_places(each) for key, each in value.items() if key not in ("position", "last_position", "moves")}
        return rest | ({"moves": moves} if moves else {})
    return [without_places(each) for each in value] if isinstance(value, list) else value


def test_importing_the_newest_first_stores_what_importing_the_oldest_first_stores(tmp_path: Path) -> None:
    batches = make_batches(corpus(tmp_path))
    assert len(batches) > 5
    newest_first, oldest_first = imported(batches), imported(reversed(batches))
    at_once = imported([[file for batch in batches for file in batch]])
    assert [event.at for event in newest_first] != [event.at for event in at_once]
    assert by_id(newest_first) == by_id(oldest_first) == by_id(at_once)


@pytest.mark.parametrize("view", [fleet, names, threads, activity], ids=lambda view: str(view.__name__))
def test_importing_the_newest_first_leads_to_the_same_status_as_importing_the_oldest_first(tmp_path: Path, view: Any) -> None:
    batches = make_batches(corpus(tmp_path))
    states = [msgspec.to_builtins(folded(view, imported(order))) for order in (batches, batches[::-1])]
    assert without_places(states[0]) == without_places(states[1])


def test_importing_the_newest_first_costs_what_importing_the_oldest_first_costs(tmp_path: Path) -> None:
    batches = make_batches(corpus(tmp_path))
    spent = [folded(costs, imported(order)) for order in (batches, batches[::-1])]
    assert sum_total(spent[0]) == sum_total(spent[1])
    assert sum_total(spent[0]).output > 0
    assert sum_by_agent(spent[0]) == sum_by_agent(spent[1])
