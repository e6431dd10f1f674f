"""`lore forget`: what goes, what stays, and that it is gone for good."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from fleetlore import Event, connect
from fleetlore import settings as config
from fleetlore.ingest import forget, spool
from fleetlore.ingest import forget as ingest_forget
from fleetlore.ingest.forget import ForgetFilter
from fleetlore.log.base import hash_event_id
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections import store as stores
from tests.cli.running import Lore, nexus
from tests.contract.conftest import BACKENDS, address
from tests.programs.rollouts import THREAD, asked, call, lines, meta, said

RUN, CHILD, FORK = "11111111-run", "22222222-run", "33333333-run"


@pytest.fixture
def recorded(lore: Lore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lore:
    """A log in which ada, and a session with a helper, say things about a zebra."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("FLEETLORE_LOG", "sqlite:fleet.db")
    lines = [nexus(agent="ada", detail=f"zebra {n}", at=1_700_000_000.0 + n) for n in range(3)]
    lore("import", "nexus", lore.write("ada.jsonl", "\n".join(lines)), code=0)
    with connect("sqlite:fleet.db").blocking() as log:
        log.append(
            [
                Event(kind="fleet.collab", agent="bo", parent="ada", text="with a parent"),
                Event(kind="agent.launched", agent="bo", child="ada", text="with a child"),
                Event(kind="prompt.submitted", actor="ada", agent="bo", text="by an actor"),
                Event(kind="fleet.commit", agent="bo", text="bo's own"),
                Event(kind="session.started", agent="s", run=RUN),
                Event(kind="tool.called", agent="s", run=RUN, data={"tool": "Bash"}),
                Event(kind="session.started", agent="helper", run=CHILD, data={"parent_run": RUN}),
                Event(kind="session.started", agent="fork", run=FORK, data={"parent_run": RUN, "source": "fork"}),
            ]
        )
    return lore


def texts(lore: Lore) -> list[str]:
    return [event.get("text", event["kind"]) for event in lore("events", "--all", "--json", code=0).ndjson]


def test_an_agent_goes_in_every_role_and_nothing_else_does(recorded: Lore) -> None:
    result = recorded("forget", "--agent", "ada", "--yes", code=0)
    assert "erased 6 events for good" in result.out
    assert {"bo's own", "forgotten for good: 6 events (asked for)"} < set(texts(recorded))
    assert not {"with a parent", "with a child", "by an actor", "zebra 1"} & set(texts(recorded))
    assert recorded("forget", "--agent", "ada", "--yes", code=0).lines == ["nothing to forget in sqlite:fleet.db"]


def test_a_run_takes_its_helpers_along_but_no_fork(recorded: Lore) -> None:
    recorded("forget", "--run", RUN, "--yes", code=0)
    left = recorded("events", "--all", "--json").ndjson
    assert [event["run"] for event in left if "run" in event] == [FORK]


def test_a_time_and_a_kind_both_must_hold(recorded: Lore) -> None:
    recorded("emit", "fleet.commit", "--agent", "ada", "--text", "of today")
    recorded("forget", "--before", "1d", "--kind", "fleet.commit", "--yes", code=0)
    assert "of today" in texts(recorded)
    assert not any("zebra" in text for text in texts(recorded))


def test_one_event_goes_by_its_id(recorded: Lore) -> None:
    [event] = recorded("events", "--json", "--all", "--kind", "prompt.submitted").ndjson
    recorded("forget", "--id", event["id"].upper(), "--reason", "a slip", "--yes", code=0)
    [fact] = recorded("events", "--json", "--kind", "log.forgotten").ndjson
    assert fact["data"] == {"count": 1, "reason": "a slip", "id_hashes": [hash_event_id(event["id"]).hex()]}


def test_a_dry_run_shows_what_would_go_and_changes_nothing(recorded: Lore) -> None:
    before = texts(recorded)
    shown = recorded("forget", "--agent", "ada", "--dry-run", code=0)
    assert shown.lines[0] == "6 events of sqlite:fleet.db would be erased for good:"
    assert shown.lines[1] == "  agents  ada 3 · bo 3"
    assert shown.lines[3].startswith("  days    2 days from 2023-11-14 to ")
    counts = recorded("forget", "--agent", "ada", "--dry-run", "--json", code=0).json
    assert (counts["found"], counts["erased"], counts["left"], counts["agents"]) == (6, 0, 6, {"ada": 3, "bo": 3})
    assert texts(recorded) == before


def test_where_nobody_can_be_asked_it_wants_a_yes(recorded: Lore) -> None:
    before = texts(recorded)
    assert "use --yes" in recorded("forget", "--agent", "ada", code=2).err
    assert "name what to forget" in recorded("forget", "--kind", "fleet.commit", code=2).err
    assert "not the id" in recorded("forget", "--id", "7", code=2).err
    assert texts(recorded) == before


@pytest.mark.parametrize(("answer", "code", "left"), [(b"y\n", 0, 5), (b"n\n", 1, 11), (b"\n", 1, 11)])
def test_at_a_terminal_it_asks_once(recorded: Lore, answer: bytes, code: int, left: int) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    process = recorded.start("forget", "--agent", "ada", stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    _, said = process.communicate()
    os.close(theirs)
    os.close(ours)
    assert b"Erase 6 events for good? [y/N]" in said
    assert process.returncode == code
    assert len([kind for kind in recorded("events", "--all", "--json").ndjson if kind["kind"] != "log.forgotten"]) == left


def test_the_same_recording_brings_nothing_back(recorded: Lore) -> None:
    recorded("forget", "--agent", "ada", "--yes", code=0)
    again = recorded("import", "nexus", "ada.jsonl")
    assert "erased earlier and left out 3" in again.err


def test_no_word_stays_on_the_disk(recorded: Lore) -> None:
    assert len(recorded("find", "zebra", code=0).lines) == 3
    recorded("forget", "--agent", "ada", "--yes", code=0)
    held = [
        path for path in recorded.folder.parent.rglob("*") if path.is_file() and path.name != "ada.jsonl" and b"zebra" in path.read_bytes()
    ]
    assert held == []
    assert recorded("find", "zebra").lines == []


def test_what_waits_in_the_spool_for_this_log_goes_too(recorded: Lore) -> None:
    for session, log in (("aaaaaaaa-1", "sqlite:fleet.db"), ("aaaaaaaa-1", "sqlite:other.db"), ("bbbbbbbb-2", "sqlite:fleet.db")):
        line = {"at": "2026-11-15T20:00:00Z", "program": "claude-code", "log": log, "cwd": os.getcwd()}
        spool.append_line(json.dumps({**line, "record": {"session_id": session, "prompt": "zebra"}}).encode())
    settings = config.load_settings()
    assert ingest_forget.purge_spool(ForgetFilter(runs=frozenset({"aaaaaaaa-1"}), kinds=("tool.*",)), settings) == 0
    assert ingest_forget.purge_spool(ForgetFilter(runs=frozenset({"aaaaaaaa-1"})), settings) == 1
    assert ingest_forget.purge_spool(ForgetFilter(agent="claude-code/bbbbbbbb"), settings) == 1
    assert ingest_forget.purge_spool(ForgetFilter(agent="claude-code/bbbbbbbb"), settings) == 0
    assert not spool.is_spool_empty()


def test_threads_of_codex_are_known_in_the_spool_by_the_names_that_they_have_in_the_log(recorded: Lore) -> None:
    thread, helper = "01936a7e-7d1c-7b3a-8c3e-2f1d5a6b7c8d", "01936a7e-7d1c-7b3a-8c3e-2f1daaaabbbb"
    line = {"at": "2026-11-15T20:00:00Z", "program": "codex", "log": "sqlite:fleet.db", "cwd": os.getcwd()}
    for record in ({"session_id": thread}, {"session_id": thread, "agent_id": helper}, {"prompt": "no session"}):
        spool.append_line(json.dumps({**line, "record": record}).encode())
    settings = config.load_settings()
    assert ingest_forget.purge_spool(ForgetFilter(agent="codex/01936a7e"), settings) == 0
    assert ingest_forget.purge_spool(ForgetFilter(runs=frozenset({helper})), settings) == 1
    assert ingest_forget.purge_spool(ForgetFilter(agent="codex/5a6b7c8d"), settings) == 1
    assert ingest_forget.purge_spool(ForgetFilter(before=datetime(2026, 11, 16, tzinfo=UTC)), settings) == 1


def test_what_a_killed_process_left_half_written_in_the_spool_goes_too(recorded: Lore) -> None:
    folder = Path(spool.spool_folder())
    folder.mkdir(parents=True)
    left, fresh = folder / "a.jsonl.part", folder / "b.jsonl.part"
    for path in (left, fresh):
        path.write_text("zebra")
    os.utime(left, (1_700_000_000, 1_700_000_000))
    recorded("forget", "--agent", "ada", "--yes", code=0)
    assert [path.name for path in folder.iterdir() if path.suffix == ".part"] == [fresh.name]


def test_nothing_that_was_kept_of_a_recording_can_be_read_without_it(recorded: Lore) -> None:
    rows = [meta(), *asked(1, "the zebra prompt"), call(2, "feed the zebra"), *said(3, "zebra words")]
    recording = recorded.write("rollout.jsonl", b"\n".join(lines(rows)).decode() + "\n")
    recorded("import", "codex", recording, code=0)
    recorded("forget", "--run", THREAD, "--yes", code=0)
    assert "erased earlier and left out" in recorded("import", "codex", recording, code=0).err
    [store] = (recorded.folder.parent / "cache").rglob("*.db")
    with closing(apsw.Connection(str(store))) as connection:
        [(path, place)] = [map(str, row) for row in connection.execute("SELECT path, CAST(place AS TEXT) FROM tapes")]
    assert "rollout" not in path
    assert b"zebra" not in b64decode(json.loads(place)["mind"])
    assert b"zebra" not in store.read_bytes()


def test_a_trimmed_agent_is_no_longer_named_by_the_fact_of_trimming(recorded: Lore) -> None:
    recorded("trim", "--before", "1d", "--yes", code=0)
    recorded("forget", "--agent", "ada", "--yes", code=0)
    [fact] = recorded("events", "--json", "--kind", "log.trimmed").ndjson
    assert (fact["data"]["agents"], fact["data"]["events"]) == ({"others": 3}, 3)
    assert "ada" not in {*fact["data"]["agents"], *texts(recorded)}


# --- on every backend


@pytest.fixture(params=BACKENDS)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlockingRecorder]:
    with connect(address(request.param, request, tmp_path)).blocking() as opened:
        yield opened


def test_anybody_who_is_cut_short_does_it_again(log: BlockingRecorder) -> None:
    log.append([Event(kind="fleet.commit", agent=name, text="x") for name in ("ada", "bo", "ada", "ada")])
    found = forget.find_matching_events(log, ForgetFilter(agent="ada"))
    log.erase(found.ids[:1], "cut short")  # and here it crashed
    rest = forget.find_matching_events(log, ForgetFilter(agent="ada"))
    assert rest.ids == found.ids[1:]
    assert forget.erase_events(log, rest.ids, "again") == 2
    assert forget.find_matching_events(log, ForgetFilter(agent="ada")).ids == []
    assert [event.data["count"] for event in log.read(kinds=["log.forgotten"])] == [1, 2]
    assert [event.agent for event in log.read(kinds=["fleet.*"])] == ["bo"]


def test_facts_of_forgetting_are_not_forgotten(log: BlockingRecorder) -> None:
    log.append([Event(kind="fleet.commit", agent="ada")])
    forget.erase_events(log, forget.find_matching_events(log, ForgetFilter(agent="ada")).ids, "x")
    [fact] = log.read()
    assert fact.at is not None
    assert forget.find_matching_events(log, ForgetFilter(before=fact.at.replace(year=fact.at.year + 1))).ids == []


def test_many_are_erased_some_at_a_time() -> None:
    with connect("memory:").blocking() as log:
        log.append_all([Event(kind="fleet.idle", agent="ada") for _ in range(7001)])
        steps: list[tuple[int, int]] = []
        ids = forget.find_matching_events(log, ForgetFilter(agent="ada")).ids
        assert forget.erase_events(log, ids, "x", progress=lambda done, total: steps.append((done, total))) == 7001
        assert steps == [(3000, 7001), (6000, 7001), (7001, 7001)]
        assert [event.data["count"] for event in log.read()] == [3000, 3000, 1001]


def test_every_store_of_a_log_is_discarded_and_no_other(tmp_path: Path) -> None:
    folder = str(tmp_path / "cache")
    with connect(f"sqlite:{tmp_path / 'a.db'}").blocking() as one, connect(f"sqlite:{tmp_path / 'b.db'}").blocking() as two:
        for log in (one, two):
            log.append([Event(kind="fleet.idle", agent="ada")])
            store = stores.open_store(log.info(), folder=folder)
            assert store is not None
            store.close()
        assert forget.purge_stores(one, folder=folder) == 1
        assert [name for name in os.listdir(folder) if name.endswith(".db")] == [stores.store_file_name(two.info())]
