"""The nexus writer: what is stored, what it survives, and how it is rendered."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fleetlore.compat.nexus import AgentEvent, ChronicleWriter, EventKind, event_from_commit, event_from_gitea_issue, event_from_heartbeat
from fleetlore.dialects.nexus import DIALECT, KINDS
from fleetlore.redact import Redactor
from fleetlore.story.event_sentences import EventDescriber
from fleetlore.story.phrases import fill_phrase
from fleetlore.story.voices import load_voice
from fleetlore.testing import FrozenClock
from tests.strategies import json_objects

NINE = datetime(2026, 1, 1, 9, 0, tzinfo=UTC).timestamp()
HOSTILE = "# Heading\n\n- item *bold* <script>alert(1)</script> [link](http://evil) | `code` \x1b[31m \u202e @bo ---"


def make_event(kind: str, agent: str = "ada", detail: str = "", minute: float = 0, **more: Any) -> AgentEvent:
    return AgentEvent(EventKind(kind), agent, detail, NINE + minute * 60, **more)


def written(path: Path, *events: AgentEvent) -> ChronicleWriter:
    writer = ChronicleWriter(path, zone=UTC)
    for event in events:
        assert writer.ingest(event)
    return writer


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chronicle.jsonl"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / ".nexus" / "chronicle"


# The event.


def test_the_kinds_are_those_of_the_dialect() -> None:
    assert {kind.value for kind in EventKind} == KINDS
    assert all(isinstance(kind, str) for kind in EventKind)
    assert EventKind("collab") is EventKind.COLLABORATION


def test_an_event_needs_a_kind_and_an_agent_and_is_now() -> None:
    before = datetime.now(UTC).timestamp()
    event = AgentEvent(EventKind.COMMIT, "ada")
    assert before <= event.timestamp <= datetime.now(UTC).timestamp()
    assert event.to_dict() == {"kind": "commit", "agent": "ada", "detail": "", "timestamp": event.timestamp, "metadata": {}}
    assert event.metadata is not AgentEvent(EventKind.COMMIT, "ada").metadata


def test_a_kind_may_be_given_by_its_name_and_no_other_is_taken() -> None:
    assert AgentEvent("commit", "ada").kind is EventKind.COMMIT  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dance"):
        AgentEvent("dance", "ada")  # type: ignore[arg-type]


def test_a_record_needs_a_kind_and_an_agent_and_nulls_are_as_if_they_were_missing() -> None:
    event = AgentEvent.from_dict({"kind": "idle", "agent": "ada", "detail": None, "metadata": None, "timestamp": 5})
    assert event == AgentEvent(EventKind.IDLE, "ada", "", 5, {})
    with pytest.raises(KeyError):
        AgentEvent.from_dict({"kind": "idle"})


# Writing.


def test_an_event_is_one_line_of_the_nexus_dialect_before_ingest_returns(path: Path) -> None:
    writer = ChronicleWriter(path)
    assert not path.exists()
    writer.ingest(make_event("commit", detail="Oil — the\nhinges", metadata={"sha": "0a"}))
    line = (
        b'{"kind": "commit", "agent": "ada", "detail": "Oil \\u2014 the\\nhinges", "timestamp": 1767258000.0, "metadata": {"sha": "0a"}}\n'
    )
    assert path.read_bytes() == line
    assert DIALECT.decode(line[:-1]).text == "Oil — the\nhinges"


def test_parents_are_made_and_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "log.jsonl"
    written(deep, make_event("idle"))
    assert stat.S_IMODE(deep.stat().st_mode) == 0o600


def test_a_path_may_be_a_string_and_begin_with_a_tilde(home: Path) -> None:
    writer = ChronicleWriter("~/mine.jsonl")
    writer.ingest(make_event("idle"))
    assert (home.parent.parent / "mine.jsonl").exists()
    assert writer.summary()["log_path"] == str(home.parent.parent / "mine.jsonl")


def test_a_line_is_on_the_disk_by_one_write_and_a_sync(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    write, fsync = os.write, os.fsync

    def noted_write(handle: int, data: bytes) -> int:
        calls.append("write")
        return write(handle, data)

    def noted_sync(handle: int) -> None:
        calls.append("sync")
        fsync(handle)

    monkeypatch.setattr(os, "write", noted_write)
    monkeypatch.setattr(os, "fsync", noted_sync)
    writer = written(path, make_event("idle"))
    assert calls == ["write", "sync", "sync"]  # the new file's name, too
    writer.ingest(make_event("idle"))
    assert calls[3:] == ["write", "sync"]


@pytest.mark.parametrize("cut", [0, 20])
def test_a_disk_that_refuses_changes_neither_file_nor_memory(path: Path, monkeypatch: pytest.MonkeyPatch, cut: int) -> None:
    writer = written(path, make_event("commit", detail="first"))
    before, recorded, numbers = path.read_bytes(), writer.render(), writer.summary()
    write = os.write

    def full(handle: int, data: bytes) -> int:
        if not cut:
            raise OSError(errno.ENOSPC, "full")
        return write(handle, data[:cut])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match=r"full|no room"):
        writer.ingest(make_event("commit", detail="second"))
    assert (path.read_bytes(), writer.render(), writer.summary()) == (before, recorded, numbers)
    monkeypatch.undo()
    writer.ingest(make_event("commit", detail="third"))
    assert [record["detail"] for record in records(path)] == ["first", "third"]


def test_a_disk_that_does_not_sync_has_not_taken_the_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = written(path, make_event("idle"))
    before = path.read_bytes()

    def broken(handle: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="broken"):
        writer.ingest(make_event("commit"))
    assert path.read_bytes() == before
    assert writer.summary()["total_events"] == 1


def _ring() -> dict[str, Any]:
    ring: dict[str, Any] = {}
    ring["ring"] = ring
    return ring


def _nested(depth: int) -> dict[str, Any]:
    return {"in": _nested(depth - 1)} if depth else {}


@pytest.mark.parametrize(
    "event",
    [
        make_event("idle", metadata={"bad": object()}),
        make_event("idle", metadata={"bad": {1, 2}}),
        make_event("idle", metadata={"bad": b"bytes"}),
        make_event("idle", metadata={"when": datetime(2026, 1, 1, tzinfo=UTC)}),
        make_event("idle", metadata={("a", "tuple"): 1}),
        make_event("idle", metadata=_ring()),
        make_event("idle", metadata=_nested(200)),
        make_event("idle", metadata={"\ud800": 1}),
        AgentEvent(EventKind.IDLE, 7),  # type: ignore[arg-type]
        AgentEvent(EventKind.IDLE, "ada", timestamp=float("nan")),
        AgentEvent(EventKind.IDLE, "ada", timestamp=1e300),
        AgentEvent(EventKind.IDLE, "ada", timestamp="noon"),  # type: ignore[arg-type]
    ],
)
def test_what_no_line_can_say_is_refused_before_anything_is_written(path: Path, event: AgentEvent) -> None:
    writer = ChronicleWriter(path)
    with pytest.raises((TypeError, ValueError)):
        writer.ingest(event)
    assert not path.exists()
    assert writer.summary()["total_events"] == 0


def test_what_is_changed_after_ingest_changes_nothing(path: Path) -> None:
    event = make_event("commit", detail="first")
    writer = written(path, event)
    recorded = writer.render()
    event.detail, event.metadata["x"] = "other", 1
    assert writer.render() == recorded


def test_secrets_do_not_reach_the_disk(path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    writer = written(path, make_event("error", detail=f"push refused: {token}", metadata={"deep": [token], "kept": 1}))
    assert token not in path.read_text() + writer.render()
    assert records(path)[0]["metadata"]["kept"] == 1


def test_an_id_is_taken_once_by_this_writer_the_next_and_another(path: Path) -> None:
    first, second = ChronicleWriter(path), ChronicleWriter(path)
    assert first.ingest(make_event("dispatch", detail="issue #42", id="d1"))
    assert not first.ingest(make_event("dispatch", detail="issue #42", minute=5, id="d1"))
    assert not second.ingest(make_event("dispatch", detail="issue #42", minute=6, id="d1"))
    assert not ChronicleWriter(path).ingest(make_event("dispatch", detail="issue #42", minute=7, id="d1"))
    assert first.ingest(make_event("dispatch", detail="issue #42", minute=8))
    assert len(records(path)) == 2


# Reading what is there.


def test_a_restart_shows_the_same_words(path: Path) -> None:
    writer = written(
        path, *(make_event("commit", detail="again") for _ in range(20)), make_event("error", detail="x"), make_event("recovery", minute=1)
    )
    again = ChronicleWriter(path, zone=UTC)
    assert again.render() == writer.render() == writer.render()
    assert again.render_markdown() == writer.render_markdown()
    assert again.summary() == writer.summary()


def test_words_do_not_depend_on_the_seed_of_hashes(path: Path) -> None:
    written(path, *(make_event(kind.value, agent, "words", index) for index, kind in enumerate(EventKind) for agent in ("bo", "ada", "cy")))
    code = "import sys; from fleetlore.compat.nexus import ChronicleWriter as W; w = W(sys.argv[1]); print(w.render(), w.render_markdown())"
    recorded = {
        subprocess.run(
            [sys.executable, "-c", code, path], env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(recorded) == 1


BAD = [
    b"{", b"null", b"[]", b"5", b'"text"', b"{}", b'{"kind": "idle"}', b'{"agent": "ada"}', b'{"kind": "dance", "agent": "ada"}',
    b'{"kind": "idle", "agent": 7}', b'{"kind": "idle", "agent": "\xff"}', b'{"kind": "idle", "agent": "a", "timestamp": "noon"}',
    b'{"kind": "idle", "agent": "a", "timestamp": NaN}', b"[" * 5000, b"\x00\x01",
]  # fmt: skip


def test_malformed_lines_are_counted_and_passed_over(path: Path) -> None:
    good = json.dumps(make_event("commit", detail="good").to_dict()).encode()
    path.write_bytes(b"\n".join((good, *BAD, b"", b"  ", good + b"\r")) + b"\n")
    writer = ChronicleWriter(path)
    assert writer.malformed == len(BAD)
    assert writer.summary()["total_events"] == 2
    writer.ingest(make_event("commit", detail="more"))
    assert (writer.malformed, writer.summary()["total_events"]) == (len(BAD), 3)


def test_fields_that_are_null_or_missing_or_new_are_survived(path: Path) -> None:
    path.write_text(
        '{"kind": "commit", "agent": "ada", "detail": null, "metadata": null}\n'
        '{"kind": "commit", "agent": "bo", "detail": "b", "timestamp": 1767258000, "colour": "red"}\n'
        '{"kind": "commit", "agent": "cy", "detail": 5, "metadata": [1]}\n'
    )
    writer = ChronicleWriter(path, zone=UTC)
    assert (writer.malformed, writer.summary()["total_events"]) == (0, 3)
    # A line without a time has that of its neighbour, not the present.
    assert writer.render().startswith("The chronicle covers 3 event(s) between 09:00 and 09:00. 2026-01-01 (UTC), agents: ada, bo and cy.")


@pytest.mark.parametrize("torn", [b'{"kind": "commit", "agent": "ad', json.dumps(make_event("commit", "bo", "whole").to_dict()).encode()])
def test_a_torn_last_line_does_not_swallow_the_next(path: Path, torn: bytes) -> None:
    path.write_bytes(torn)
    writer = written(path, make_event("commit", detail="next"))
    assert "next" in writer.render()
    assert path.read_bytes().splitlines()[0] == torn
    assert path.read_bytes().count(b"\n") == 2
    assert ChronicleWriter(path).summary() == writer.summary()
    assert ("whole" in writer.render()) is (writer.malformed == 0)


def test_a_file_that_cannot_be_opened_is_no_empty_chronicle(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        ChronicleWriter(tmp_path).ingest(make_event("idle"))


def test_a_file_that_was_begun_anew_is_read_from_its_beginning(path: Path) -> None:
    writer = written(path, make_event("commit", detail="old"), make_event("commit", detail="old too"))
    path.write_bytes(json.dumps(make_event("push", "bo").to_dict()).encode() + b"\n")
    writer.ingest(make_event("idle"))
    assert writer.summary()["kind_counts"] == {"commit": 2, "push": 1, "idle": 1}


# Two at once.


def test_a_writer_takes_in_what_others_have_written_when_it_writes(path: Path) -> None:
    first, second = ChronicleWriter(path), ChronicleWriter(path)
    first.ingest(make_event("commit", "ada", "one"))
    second.ingest(make_event("commit", "bo", "two", 1))
    assert first.summary()["total_events"] == 1
    first.ingest(make_event("commit", "ada", "three", 2))
    assert first.summary()["agents"].keys() == {"ada", "bo"}
    assert first.render() == ChronicleWriter(path).render()


def test_threads_share_a_writer_or_a_file_without_losing_a_line(path: Path) -> None:
    shared, own = ChronicleWriter(path), [ChronicleWriter(path) for _ in range(3)]

    def work(number: int) -> None:
        for n in range(15):
            (shared if number % 2 else own[number // 2]).ingest(make_event("commit", f"agent-{number}", f"{number}.{n}", n))
            shared.render(5)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert sorted(record["detail"] for record in records(path)) == sorted(f"{number}.{n}" for number in range(6) for n in range(15))
    shared.ingest(make_event("idle"))
    assert shared.summary()["total_events"] == 91
    assert shared.render() == ChronicleWriter(path).render()


def test_a_writer_waits_until_the_other_is_through(path: Path) -> None:
    writer = written(path, make_event("idle"))
    before = path.read_bytes()
    with ThreadPoolExecutor(1) as pool, path.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        waiting = pool.submit(writer.ingest, make_event("commit"))
        with pytest.raises(TimeoutError):
            waiting.result(0.2)
        assert path.read_bytes() == before
        fcntl.flock(other, fcntl.LOCK_UN)
        assert waiting.result(30)
    assert len(records(path)) == 2


def test_processes_share_a_file_and_no_line_is_mixed(path: Path) -> None:
    code = (
        "import sys; from fleetlore.compat.nexus import *; w = ChronicleWriter(sys.argv[1])\n"
        "for n in range(40): w.ingest(AgentEvent('commit', sys.argv[2], sys.argv[2] * 3000 + str(n)))"
    )
    children = [subprocess.Popen([sys.executable, "-c", code, path, name]) for name in "abc"]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    writer = ChronicleWriter(path)
    assert (writer.malformed, writer.summary()["total_events"]) == (0, 120)
    for name in "abc":
        mine = [record["detail"] for record in records(path) if record["agent"] == name]
        assert mine == [name * 3000 + str(n) for n in range(40)]


# Days.


def test_each_day_of_writing_has_its_own_file_and_the_story_covers_both(home: Path) -> None:
    clock = FrozenClock(datetime(2026, 1, 1, 23, 59, tzinfo=UTC))
    writer = ChronicleWriter(now=clock)
    first = home / "chronicle_2026-01-01.jsonl"
    assert writer.log_path == first
    writer.ingest(make_event("dispatch", detail="before midnight", minute=14 * 60 + 59))
    clock.advance(120)
    writer.ingest(make_event("commit", detail="after midnight", minute=15 * 60 + 1))
    second = home / "chronicle_2026-01-02.jsonl"
    assert writer.summary()["log_path"] == str(second)
    assert [[record["detail"] for record in records(file)] for file in (first, second)] == [["before midnight"], ["after midnight"]]
    page = writer.render_markdown()
    assert page.startswith("# Chronicle — 2026-01-01 to 2026-01-02\n\n")
    assert re.findall("^## .*", page, re.MULTILINE) == ["## Thursday, 2026-01-01", "## Friday, 2026-01-02"]
    assert "before midnight" in writer.render()
    assert "after midnight" in writer.render()


def test_after_midnight_what_others_wrote_into_the_new_file_is_taken_in_once(home: Path) -> None:
    clock = FrozenClock(datetime(2026, 1, 1, 23, 59, tzinfo=UTC))
    writer = ChronicleWriter(now=clock)
    clock.advance(120)
    ChronicleWriter(now=clock).ingest(make_event("commit", "bo"))
    writer.ingest(make_event("commit", "ada"))
    clock.advance(-120)
    writer.ingest(make_event("idle", "ada"))
    clock.advance(120)
    writer.ingest(make_event("idle", "ada"))
    assert writer.summary()["total_events"] == 4


def test_a_restart_after_midnight_begins_with_the_new_day_and_older_days_can_be_opened(home: Path) -> None:
    clock = FrozenClock(datetime(2026, 1, 1, 23, 59, tzinfo=UTC))
    ChronicleWriter(now=clock).ingest(make_event("commit", detail="old"))
    clock.advance(120)
    assert ChronicleWriter(now=clock).summary()["total_events"] == 0
    assert "old" in ChronicleWriter(home / "chronicle_2026-01-01.jsonl").render()


def test_the_heading_says_the_day_of_the_events_and_not_of_the_story(path: Path) -> None:
    assert written(path, make_event("commit")).render_markdown().startswith("# Chronicle — 2026-01-01\n")


def test_a_zone_says_where_days_end(home: Path) -> None:
    east = timezone(timedelta(hours=2), "EET")
    writer = ChronicleWriter(now=FrozenClock(datetime(2026, 1, 1, 23, 0, tzinfo=UTC)), zone=east)
    assert writer.log_path.name == "chronicle_2026-01-02.jsonl"
    writer.ingest(make_event("commit", minute=14 * 60))
    assert "between 01:00 and 01:00. 2026-01-02 (EET)" in writer.render()


def test_a_given_path_stays_the_same_for_ever(path: Path) -> None:
    clock = FrozenClock()
    writer = ChronicleWriter(path, now=clock)
    writer.ingest(make_event("idle"))
    clock.advance(86_400 * 40)
    writer.ingest(make_event("idle"))
    assert len(records(path)) == 2


def test_events_out_of_order_are_reported_in_order(path: Path) -> None:
    recorded = written(path, make_event("commit", detail="later", minute=60), make_event("commit", detail="sooner")).render()
    assert recorded.index("sooner") < recorded.index("later")
    assert "between 09:00 and 10:00" in recorded


# Telling.


def test_an_empty_chronicle_says_so(path: Path) -> None:
    writer = ChronicleWriter(path)
    assert writer.render() == "The chronicle is empty. No events have been recorded yet."
    assert writer.render_markdown() == "# Chronicle\n\n*No events recorded yet.*"
    assert writer.summary() == {"total_events": 0, "agents": {}, "kind_counts": {}, "log_path": str(path)}


@pytest.mark.parametrize("kind", list(EventKind))
def test_the_words_are_those_of_the_nexus_voice(path: Path, kind: EventKind) -> None:
    writer = written(path, make_event(kind.value, detail="the hinges"))
    sentence = EventDescriber(voice=load_voice("nexus")).describe(DIALECT.decode(path.read_bytes()[:-1]))
    assert writer.render().split("\n\n")[1] == sentence
    assert f"**09:00:00** — {sentence}\n" in f"{writer.render_markdown()}\n"


def test_neighbours_of_a_kind_have_different_words_and_keep_them_in_every_window(path: Path) -> None:
    writer = written(path, *(make_event("commit", detail=f"zz{n}zz", minute=n) for n in range(60)))
    items = [line for line in writer.render_markdown(60).splitlines() if line.startswith("**")]
    forms = [re.sub(r"\*\*.*?\*\*|zz\d+zz", "", item) for item in items]
    assert len(set(forms)) == 3
    assert all(one != other for one, other in pairwise(forms))
    assert items[-7:] == [line for line in writer.render_markdown(7).splitlines() if line.startswith("**")]


@pytest.mark.parametrize("kind", list(EventKind))
@pytest.mark.parametrize("detail", ["", "  ", "\n"])
def test_without_a_detail_the_kind_alone_is_reported(path: Path, kind: EventKind, detail: str) -> None:
    item = written(path, make_event(kind.value, detail=detail)).render_markdown().split("\n\n")[2]
    assert re.fullmatch(r"\*\*09:00:00\*\* — [^:“]*ada[^:“]*(?<=\w)\.", item)


@pytest.mark.parametrize("kind", EventKind)
def test_without_a_detail_every_variant_names_the_kind(kind: EventKind) -> None:
    words = {"pr_open": ("pull request", "open"), "pr_merge": ("pull request", "merge")}.get(kind.value, (kind.value,))
    templates = load_voice("nexus").phrases[f"fleet.{kind.value}"]
    assert len(templates) >= 3
    for template in templates:
        assert all(word in fill_phrase(template, {"agent": "ada"}).lower() for word in words), template


def test_a_detail_that_ends_in_a_full_stop_does_not_end_twice(path: Path) -> None:
    assert ".." not in written(path, *(make_event("error", f"agent-{n}", "It broke.") for n in range(20))).render()


def test_every_action_has_its_line(path: Path) -> None:
    page = written(path, *(make_event("commit", detail=f"change {n}", minute=n) for n in range(9))).render_markdown()
    items = [line for line in page.splitlines() if line.startswith("**")]
    assert len(items) == 9
    assert all(f"change {n}" in item for n, item in enumerate(items))


def test_only_the_newest_events_are_reported_and_the_rest_is_mentioned(path: Path) -> None:
    writer = written(path, *(make_event("commit", detail=f"change {n}!", minute=n) for n in range(60)))
    for logged in (writer.render(), writer.render_markdown()):
        assert "Not shown: 10 of 60 events." in logged
        assert "change 9!" not in logged
        assert "change 10!" in logged
        assert "change 59!" in logged
    assert "of 60" not in writer.render(60)
    assert writer.summary()["total_events"] == 60


def test_none_means_none_and_less_is_refused(path: Path) -> None:
    writer = written(path, make_event("commit", detail="a change"), make_event("idle"))
    assert writer.render(0) == "Two events, none shown."
    assert writer.render_markdown(max_events=0) == "# Chronicle\n\n*Two events, none shown.*"
    for render in (writer.render, writer.render_markdown):
        with pytest.raises(ValueError, match="max_events"):
            render(-1)


def test_signs_of_life_do_not_crowd_out_actions(path: Path) -> None:
    path.write_text("".join(json.dumps(make_event("heartbeat", minute=n + 1).to_dict()) + "\n" for n in range(400)))
    writer = written(path, make_event("commit", detail="the one deed"))
    logged = writer.render()
    assert "the one deed" in logged
    assert len([line for line in writer.render_markdown().splitlines() if line.startswith("**")]) == 2
    assert "49" in logged
    assert "400" in writer.render(1000)


def test_what_agents_say_means_nothing_to_markdown_and_stays_on_its_line(path: Path) -> None:
    page = written(path, *(make_event(kind.value, HOSTILE, HOSTILE, n) for n, kind in enumerate(EventKind))).render_markdown()
    lines = page.splitlines()
    assert [line for line in lines if line.startswith("#")] == ["# Chronicle — 2026-01-01"]
    assert sum(line.startswith("**") for line in lines) == 12
    assert lines.count("---") == 1
    assert not re.search(r"(?<!\\)[<`\[]", page)
    assert not re.search(r"[\x1b\u202e]", page)


def test_plain_prose_holds_nothing_that_controls_a_terminal(path: Path) -> None:
    recorded = written(path, *(make_event(kind.value, "ada", HOSTILE, n) for n, kind in enumerate(EventKind))).render()
    assert all(part.isprintable() for part in recorded.split("\n\n"))


def test_a_story_changes_nothing(path: Path) -> None:
    writer = written(path, *(make_event("commit", detail=f"{n}", minute=n) for n in range(9)))
    before, numbers, recorded = path.read_bytes(), writer.summary(), writer.render()
    for _ in range(4):
        writer.render_markdown()
        writer.render(3)
        assert writer.render() == recorded
    assert (path.read_bytes(), writer.summary()) == (before, numbers)


def test_the_same_line_again_is_another_event_as_it_is_for_an_import(path: Path) -> None:
    page = written(path, *(make_event("commit", detail="again") for _ in range(9))).render_markdown()
    describer, line = EventDescriber(voice=load_voice("nexus")), path.read_bytes().splitlines()[0]
    sentences = [describer.describe(DIALECT.decode(line, nth=nth)) for nth in range(9)]
    assert page.split("\n\n")[2:11] == [f"**09:00:00** — {sentence}" for sentence in sentences]


def test_the_numbers_name_the_kind_of_every_event_in_order(path: Path) -> None:
    writer = written(path, make_event("commit"), make_event("push", minute=1), make_event("commit", minute=2), make_event("idle", "bo"))
    assert writer.summary() == {
        "total_events": 4,
        "agents": {"ada": {"events": 3, "kinds": ["commit", "push", "commit"]}, "bo": {"events": 1, "kinds": ["idle"]}},
        "kind_counts": {"commit": 2, "push": 1, "idle": 1},
        "log_path": str(path),
    }


# The builders.


@pytest.mark.parametrize("payload", [{"number": 42, "title": "Fix"}, {"action": "opened", "issue": {"number": 42, "title": "Fix"}}])
def test_an_issue_is_a_dispatch(payload: dict[str, Any]) -> None:
    event = event_from_gitea_issue(payload, "ada")
    assert (event.kind, event.agent, event.detail, event.metadata) == (EventKind.DISPATCH, "ada", "issue #42: Fix", {"issue_number": 42})


@pytest.mark.parametrize("commit", [{"sha": "0a1b2c3d4e", "message": "Oil\n\nmore"}, {"sha": "0a1b2c3d4e", "commit": {"message": "Oil"}}])
def test_a_commit_is_a_commit(commit: dict[str, Any]) -> None:
    event = event_from_commit(commit, "ada")
    assert (event.kind, event.agent, event.detail, event.metadata) == (EventKind.COMMIT, "ada", "Oil", {"sha": "0a1b2c3d"})


def test_a_heartbeat_is_by_its_agent_at_its_own_time_and_shares_nothing() -> None:
    hb = {"agent": "ada", "model": "m", "cycle": 3, "status": "acting", "timestamp": NINE}
    event = event_from_heartbeat(hb)
    assert (event.kind, event.agent, event.detail, event.timestamp) == (EventKind.HEARTBEAT, "ada", "cycle 3, status=acting", NINE)
    hb["cycle"] = 4
    assert event.metadata["cycle"] == 3


@pytest.mark.parametrize(
    "build", [lambda: event_from_commit(None, None), lambda: event_from_commit({"message": None}, "ada"), lambda: event_from_heartbeat({})]
)
def test_thin_payloads_are_reported_all_the_same(path: Path, build: Callable[[], AgentEvent]) -> None:
    assert written(path, build()).render().startswith("The chronicle covers 1 event(s)")


# Whatever comes.

ANY_TEXT = st.text(st.characters(), max_size=40)
ANY_EVENT = st.builds(
    AgentEvent,
    st.sampled_from(EventKind),
    ANY_TEXT,
    ANY_TEXT,
    st.floats(-62_000_000_000, 253_000_000_000) | st.integers(-62_000_000_000, 253_000_000_000),
    json_objects(),
    st.none() | ANY_TEXT,
)


@given(ANY_EVENT)
def test_any_event_is_the_same_after_a_round_trip_through_a_record(event: AgentEvent) -> None:
    assert AgentEvent.from_dict(json.loads(json.dumps(event.to_dict()))) == event
    assert AgentEvent.from_dict(event.to_dict()) == event


@settings(max_examples=3 * settings().max_examples // 5, deadline=None)
@given(st.lists(ANY_EVENT, max_size=6), st.integers(0, 8))
def test_any_events_go_through_the_file_and_are_reported(events: list[AgentEvent], most: int) -> None:
    assume(Redactor().redact_value([event.to_dict() for event in events])[1] == 0)  # secrets are masked, whoever writes them
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        writer = ChronicleWriter(path)
        kept = [event for event in events if writer.ingest(event)]
        lines = path.read_bytes().splitlines() if events else []
        assert [AgentEvent.from_dict(json.loads(line)) for line in lines] == kept
        again = ChronicleWriter(path)
        assert (again.malformed, again.summary()) == (0, writer.summary())
        for max_events in (most, 50):
            assert again.render(max_events) == writer.render(max_events)
            assert again.render_markdown(max_events) == writer.render_markdown(max_events)


@settings(max_examples=3 * settings().max_examples // 5, deadline=None)
@given(st.lists(st.binary(max_size=60) | ANY_EVENT.map(lambda event: json.dumps(event.to_dict()).encode()), max_size=6))
def test_any_bytes_are_survived(lines: list[bytes]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        path.write_bytes(b"\n".join(lines))
        writer = ChronicleWriter(path)
        writer.ingest(make_event("commit", detail="the end"))
        assert json.loads(path.read_bytes().splitlines()[-1])["detail"] == "the end"
        assert ChronicleWriter(path).render_markdown() == writer.render_markdown()
        writer.render()
