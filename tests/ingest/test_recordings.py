"""Files of recordings are merged by time, taken in once, and read on from where they were left."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
import zstandard
from msgspec.structs import replace

from fleetlore import clock, connect
from fleetlore.events.envelope import Event
from fleetlore.ingest import discovery, recordings, transcript_file, zstd
from fleetlore.ingest.batch_writer import BatchWriter, ImportTally
from fleetlore.ingest.follow_files import TranscriptFollower
from fleetlore.ingest.transcript_file import TranscriptFile
from fleetlore.log.admission import Admission
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.programs import registry
from fleetlore.projections import import_offsets as places
from tests.transcripts import START, Transcript, a_day, bash, text

CLAUDE = registry.find_recording("claude-code")
import_new_lines = partial(discovery.import_new_lines, program="claude-code")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[BlockingRecorder]:
    with connect(f"sqlite:{tmp_path}/log.db").blocking() as log:
        yield log


def take_in(log: BlockingRecorder, *paths: Path) -> ImportTally:
    deposit = BatchWriter(log, dialect="claude_code", admission=Admission())
    recordings.import_transcripts([TranscriptFile(str(path), CLAUDE) for path in paths], deposit, log)
    return deposit.tally


def read_events(log: BlockingRecorder) -> list[Event]:
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
    before = read_events(log)
    again = take_in(log, path)
    assert read_events(log) == before
    assert (again.recorded, again.already_there, again.folded) == (0, first.recorded, first.folded)


def test_sessions_that_ran_side_by_side_are_merged_by_time_whatever_the_order_of_files(tmp_path: Path) -> None:
    days = [a_day(f"{n:08x}-aaaa-4bbb-8ccc-0123456789ab", mark=str(n), at=START + timedelta(seconds=3 * n)) for n in range(4)]
    paths = [day.write(tmp_path / "in") for day in days]
    stories = []
    for order in (paths, paths[::-1]):
        with connect("memory:").blocking() as log:
            take_in(log, *order)
            stories.append(read_events(log))
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
    runs = {event.kind: event.run for event in read_events(log)}
    assert runs["tool.returned"] == parent.session
    assert [event.run for event in read_events(log) if event.kind == "prompt.submitted"] == [parent.session, fork.session]


def test_a_transcript_is_read_on_from_where_it_was_left_and_an_unfinished_line_waits(log: BlockingRecorder, tmp_path: Path) -> None:
    day = a_day()
    path = day.write(tmp_path / "in")
    whole = path.read_bytes()
    with connect("memory:").blocking() as other:
        take_in(other, path)
        expected = [(event.kind, event.id) for event in read_events(other)]
    path.write_bytes(b"")
    chance = random.Random(5)
    cut = 0
    while cut < len(whole):
        cut = min(len(whole), cut + chance.randrange(1, 900))
        path.write_bytes(whole[:cut])
        import_new_lines(log, [str(path)])
    assert [(event.kind, event.id) for event in read_events(log)] == expected


def test_reading_on_costs_only_what_is_new(log: BlockingRecorder, tmp_path: Path) -> None:
    day = a_day()
    path = day.write(tmp_path / "in")
    assert import_new_lines(log, [str(path)]).lines == len(day.rows)
    assert import_new_lines(log, [str(path)]).lines == 0
    day.prompt("go on", "p-7")
    day.write(tmp_path / "in")
    assert import_new_lines(log, [str(path)]).lines == 1


def test_a_file_that_was_put_in_another_s_place_is_read_from_its_beginning(log: BlockingRecorder, tmp_path: Path) -> None:
    path = a_day().write(tmp_path / "in", "s")
    import_new_lines(log, [str(path)])
    other = a_day("cccc0000-aaaa-4bbb-8ccc-0123456789ab", mark="other")
    other.write(tmp_path / "in", "s")
    assert import_new_lines(log, [str(path)]).lines == len(other.rows)


def test_half_a_file_and_then_the_whole_cost_what_the_whole_costs(log: BlockingRecorder, tmp_path: Path) -> None:
    growing = Transcript()
    growing.prompt("go")
    growing.reply("m1", text("First."), output=1, stop=None)
    half = growing.write(tmp_path / "half")
    growing.reply("m1", text("Second."), output=33, stop=None)
    growing.prompt("go on", "p-2")
    whole = growing.write(tmp_path / "whole")
    take_in(log, half)
    assert costs(read_events(log)) == (1, 1)
    take_in(log, whole)
    assert costs(read_events(log)) == (1, 33)
    take_in(log, half)
    assert costs(read_events(log)) == (1, 33)


def test_a_part_is_left_out_where_the_whole_is_known(log: BlockingRecorder, tmp_path: Path) -> None:
    growing = Transcript()
    growing.prompt("go")
    growing.reply("m1", text("First."), output=1, stop=None)
    half = growing.write(tmp_path / "half")
    growing.prompt("go on", "p-2")
    take_in(log, growing.write(tmp_path / "whole"))
    count = len(read_events(log))
    take_in(log, half)
    assert len(read_events(log)) == count


def test_the_session_s_own_machine_and_person_are_known_where_it_was_recorded(log: BlockingRecorder, tmp_path: Path) -> None:
    import_new_lines(log, [str(a_day().write(tmp_path / "in"))])
    [start] = [event for event in read_events(log) if event.kind == "session.started"]
    assert start.data["host"]
    assert start.data["person"]


def test_helpers_are_found_beside_the_session(tmp_path: Path) -> None:
    path = a_day().write(tmp_path)
    helper = Transcript(agentId="a1", isSidechain=True)
    helper.prompt("look")
    beside = helper.write(tmp_path / path.stem / "subagents", "agent-a1")
    assert discovery.find_session_files("claude-code", str(path)) == [str(path), str(beside)]


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


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_other_encodings_and_ends_of_lines_report_the_same(log: BlockingRecorder, tmp_path: Path, encoding: str) -> None:
    day = a_day()
    plain = day.write(tmp_path / "in", "s")
    with connect("memory:").blocking() as other:
        expected = (take_in(other, plain), [event.id for event in read_events(other)])
    plain.write_bytes(plain.read_bytes().decode().replace("\n", "\r\n").encode(encoding))
    assert (take_in(log, plain), [event.id for event in read_events(log)]) == expected
    assert import_new_lines(log, [str(plain)]).recorded == 0


@pytest.mark.parametrize("magic", [b"\x1f\x8b\x08\x00", b"\xfd7zXZ\x00", b"BZh91AY&SY"])
def test_a_file_compressed_in_another_way_is_one_rejection_that_says_what_to_do(
    log: BlockingRecorder, tmp_path: Path, magic: bytes
) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(magic + b"\x07\n" * 500)
    assert take_in(log, path) == ImportTally(rejected=1)
    assert "cat FILE | lore import" in read_events(log)[0].data["reason"]


def compressed(path: Path, *, frames: int = 1) -> Path:
    """The same file as Codex leaves it after a week: compressed, with the time of its last change."""
    raw, target = path.read_bytes(), path.with_name(f"{path.name}.zst")
    size = len(raw) // frames + 1
    target.write_bytes(b"".join(zstandard.compress(raw[start : start + size]) for start in range(0, len(raw), size)))
    os.utime(target, ns=(path.stat().st_mtime_ns,) * 2)
    path.unlink()
    return target


@pytest.mark.parametrize("frames", [1, 3])
def test_a_compressed_file_shows_what_the_plain_one_shows(log: BlockingRecorder, tmp_path: Path, frames: int) -> None:
    path = a_day().write(tmp_path / "in")
    (tmp_path / "in" / f"{path.stem}.meta.json").write_text('{"agentType": "Explore"}')
    with connect("memory:").blocking() as other:
        expected = (take_in(other, path), read_events(other))
    packed = compressed(path, frames=frames)
    assert (take_in(log, packed), read_events(log)) == expected


def test_a_recording_that_is_compressed_later_is_not_stored_twice(log: BlockingRecorder, tmp_path: Path) -> None:
    path = a_day().write(tmp_path / "in")
    with path.open("ab") as file:
        file.write(b"nonsense\n")
    first = take_in(log, path)
    before = read_events(log)
    again = take_in(log, compressed(path))
    assert read_events(log) == before
    assert (again.recorded, again.already_there, again.rejected) == (0, first.recorded, 1)


def test_a_compressed_recording_is_read_again_only_if_it_changes(log: BlockingRecorder, tmp_path: Path) -> None:
    day = a_day()
    packed = compressed(day.write(tmp_path / "in"))
    assert import_new_lines(log, [str(packed)]).lines == len(day.rows)
    assert import_new_lines(log, [str(packed)]).lines == 0
    day.prompt("go on", "p-7")
    compressed(day.write(tmp_path / "in"))
    again = import_new_lines(log, [str(packed)])
    assert (again.recorded, again.lines) == (1, len(day.rows))


def test_a_compressed_recording_that_is_resumed_is_read_on_as_a_plain_file(log: BlockingRecorder, tmp_path: Path) -> None:
    day = a_day()
    path = day.write(tmp_path / "in")
    import_new_lines(log, [str(path)])
    import_new_lines(log, [str(compressed(path))])
    day.prompt("go on", "p-7")
    day.write(tmp_path / "in")
    assert import_new_lines(log, [str(path)]) == ImportTally(recorded=1)


@pytest.mark.parametrize("damage", ["cut", "garbage", "empty", "plain"])
def test_a_damaged_compressed_file_says_so_and_keeps_what_was_read(log: BlockingRecorder, tmp_path: Path, damage: str) -> None:
    session = Transcript()
    for n in range(2_000):
        session.prompt(f"number {n} {n * 7919:x}", f"p{n}")
    packed = compressed(session.write(tmp_path / "in"))
    raw = packed.read_bytes()
    packed.write_bytes({"cut": raw[:-200], "garbage": zstd.MAGIC + b"\xff" * 50, "empty": b"", "plain": b"{}\n"}[damage])
    for _ in range(2):  # it is said each time
        tally = import_new_lines(log, [str(packed)])
        assert tally.rejected == 1
    rejected = [event for event in read_events(log) if event.kind == "log.rejected"]
    assert [event.data["reason"].startswith("cannot be read: the zstd data ") for event in rejected] == [True]
    assert (len(read_events(log)) > 1000) is (damage == "cut")


def test_a_row_behind_the_nothing_that_a_power_cut_left_is_read(log: BlockingRecorder, tmp_path: Path) -> None:
    session = Transcript()
    session.prompt("go")
    path = session.write(tmp_path)
    path.write_bytes(b"\0" * 4096 + path.read_bytes())
    assert take_in(log, path) == ImportTally(recorded=1)


def test_a_file_that_is_lost_while_it_is_read_keeps_what_was_read_and_says_so(
    log: BlockingRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetlore.ingest.transcript_file.CHUNK", 1000)
    long, other = Transcript(), a_day("cccc0000-aaaa-4bbb-8ccc-0123456789ab", mark="other")
    for n in range(50):
        long.prompt(f"number {n}", f"p{n}")
    path = long.write(tmp_path / "in")
    transcripts = [TranscriptFile(str(path), CLAUDE), TranscriptFile(str(other.write(tmp_path / "in")), CLAUDE)]
    deposit = BatchWriter(log, dialect="claude_code", admission=Admission())
    read = 0

    def on_read(size: int) -> None:
        nonlocal read
        read += size
        if read > 5000:
            path.unlink(missing_ok=True)

    recordings.import_transcripts(transcripts, deposit, log, on_read=on_read)
    assert deposit.tally.rejected == 1
    assert deposit.tally.recorded > 10
    [rejected] = [event for event in read_events(log) if event.kind == "log.rejected"]
    assert rejected.data["reason"] == "cannot be read: No such file or directory"


def test_links_that_lead_nowhere_pipes_and_folders_are_no_recordings_and_are_named(tmp_path: Path) -> None:
    path = a_day().write(tmp_path / "x.jsonl")
    (tmp_path / "gone.jsonl").symlink_to("nowhere")
    (tmp_path / "round.jsonl").symlink_to("round.jsonl")
    (tmp_path / "back").symlink_to(".")
    os.mkfifo(tmp_path / "pipe.jsonl")
    skipped: dict[str, str] = {}
    assert discovery.find_recordings(str(tmp_path), on_skipped=skipped.__setitem__) == [str(path)]
    assert {os.path.basename(name): reason for name, reason in skipped.items()} == {
        "x.jsonl": "is a folder, not a file",
        "gone.jsonl": "cannot be read: No such file or directory",
        "round.jsonl": "cannot be read: Too many levels of symbolic links",
        "back": "is a link to a folder; links to folders are not followed",
        "pipe.jsonl": "is not a file",
    }


def test_a_file_of_an_unknown_type_is_named_and_what_programs_keep_beside_recordings_is_not(tmp_path: Path) -> None:
    session = a_day().write(tmp_path / "-home-ada")
    beside = session.parent / session.stem
    known = [
        session.parent / "sessions-index.json",
        session.parent / "memory" / "MEMORY.md",
        beside / "subagents" / "agent-a1.meta.json",
        beside / "tool-results" / "toolu_1.txt",
        beside / "tool-results" / "deep" / "picture.png",
        tmp_path / "2026" / f"{session.name}.zst.compress.123.0.tmp",
        tmp_path / ".DS_Store",
    ]
    unknown = [tmp_path / "2026" / "rollout-1.json", tmp_path / "notes.txt", tmp_path / "old.jsonl.gz", session.parent / "x.jsonl.bak"]
    for path in (*known, *unknown):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    skipped: dict[str, str] = {}
    assert discovery.find_recordings(str(tmp_path), on_skipped=skipped.__setitem__) == [str(session)]
    assert sorted(skipped) == sorted(map(str, unknown))
    assert "zcat FILE | lore import" in skipped[str(unknown[2])]
    assert all("is no .jsonl" in skipped[str(path)] for path in unknown if path != unknown[2])


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_that_nobody_may_look_into_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    skipped: dict[str, str] = {}
    discovery.find_recordings(str(tmp_path), on_skipped=skipped.__setitem__)
    assert skipped == {str(closed): "cannot be read: Permission denied"}


def test_a_file_whose_name_is_no_text_is_read_and_read_on(log: BlockingRecorder, tmp_path: Path) -> None:
    session = Transcript()
    session.prompt("go")
    path = os.path.join(os.fsencode(tmp_path), b"caf\xe9.jsonl")
    session.write(tmp_path).rename(os.fsdecode(path))
    assert import_new_lines(log, discovery.find_recordings(str(tmp_path))).recorded == 1
    assert import_new_lines(log, discovery.find_recordings(str(tmp_path))).lines == 0


def test_a_file_that_was_written_anew_behind_the_same_first_line_is_read_from_its_beginning(log: BlockingRecorder, tmp_path: Path) -> None:
    session = a_day()
    path = session.write(tmp_path)
    import_new_lines(log, [str(path)])
    anew = Transcript()
    anew.rows = session.rows[:1]
    for n in range(40):
        anew.prompt(f"number {n}", f"q{n}")
    anew.write(tmp_path)
    assert import_new_lines(log, [str(path)]) == ImportTally(recorded=40, folded=1)


def test_what_another_version_kept_in_mind_is_not_gone_on_from(log: BlockingRecorder, tmp_path: Path) -> None:
    day = a_day()
    path = str(day.write(tmp_path))
    import_new_lines(log, [path])
    places.save_offsets(log, {path: replace(places.load_offsets(log, [path])[path], mind=b'{"voices": 7}')})
    day.prompt("go on", "p-7")
    day.write(tmp_path)
    tally = import_new_lines(log, [path])
    assert (tally.recorded, tally.lines) == (1, len(day.rows))


def test_many_answers_in_parts_are_stored_as_they_are_and_none_whose_whole_is_known(
    log: BlockingRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordings, "MAX_HELD_REPLIES", 7)
    monkeypatch.setattr(recordings, "LOOKUP_BATCH", 3)
    session, helper = Transcript(), Transcript(agentId="a1", isSidechain=True, at=START + timedelta(hours=-1))
    for n in range(40):
        inner = helper.reply(f"m{n}", text("So."), output=n)
        session.add("progress", data={"type": "agent_progress", "agentId": "a1", "message": inner})
    helper.rows = helper.rows[:20]
    take_in(log, helper.write(tmp_path, "agent-a1"))
    take_in(log, session.write(tmp_path))
    assert costs(read_events(log)) == (40, sum(range(40)))
    assert sum(event.data.get("partial", False) for event in read_events(log)) == 20


def test_of_many_sessions_side_by_side_only_a_little_of_each_is_read_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "MAX_READ_AHEAD_BYTES", 200_000)
    transcripts, ahead, read = [], 0, transcript_file._read_at
    for n in range(20):
        session = Transcript(f"{n:08x}-aaaa-4bbb-8ccc-0123456789ab")
        for m in range(40):
            session.prompt("go " * 500, f"p{n}-{m}")
        transcripts.append(TranscriptFile(str(session.write(tmp_path)), CLAUDE))

    def _read_at(path: str, offset: int, size: int) -> bytes:
        nonlocal ahead
        ahead += len(found := read(path, offset, size))
        return found

    monkeypatch.setattr(transcript_file, "_read_at", _read_at)
    items = recordings.merge_items(transcripts)
    assert [len(next(items).events) for _ in range(40)].count(0) == 0
    assert ahead < 3 * 200_000 < sum(each.size for each in transcripts)
    assert sum(1 for _ in items) == 20 * 40 - 40


def test_a_folder_says_on_which_branch_it_is(tmp_path: Path) -> None:
    git = tmp_path / "shop" / ".git"
    git.mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/feat/tide\n")
    (git / "worktrees" / "w").mkdir(parents=True)
    (git / "worktrees" / "w" / "HEAD").write_text("ref: refs/heads/other\n")
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / ".git").write_text(f"gitdir: {git}/worktrees/w\n")
    assert discovery.find_branch(str(tmp_path / "shop" / "src" / "gone")) == "feat/tide"
    assert discovery.find_branch(str(tmp_path / "w")) == "other"
    assert discovery.find_branch("") is None
    (git / "HEAD").write_text("0123456789\n")
    assert discovery.find_branch(str(tmp_path / "shop")) is None


def test_the_end_of_a_turn_comes_after_its_last_answer(log: BlockingRecorder, tmp_path: Path) -> None:
    """The last answer of a file may be a part, and parts are stored last."""
    session = Transcript()
    session.prompt("go")
    session.reply("m1", text("Done."), stop=None)
    take_in(log, session.write(tmp_path / "in"))
    assert [event.kind for event in read_events(log)][-2:] == ["model.replied", "session.turn_ended"]


def test_a_session_that_is_imported_while_the_agent_works_ends_when_the_turn_does(log: BlockingRecorder, tmp_path: Path) -> None:
    """A file that is copied while the agent works may end with the text before a tool call."""
    session = Transcript(at=clock.now())
    session.prompt("go")
    session.reply("m1", text("Let me look."), stop=None)
    take_in(log, session.write(tmp_path / "in"))
    session.reply("m1", bash("t1", "ls"), stop=None)
    session.result("t1", "a.txt")
    session.reply("m2", text("Done."))
    session.add("system", subtype="turn_duration", durationMs=40_000)
    take_in(log, session.write(tmp_path / "in"))
    [end] = [event for event in read_events(log) if event.kind == "session.turn_ended"]
    assert end.text == "Done."


def test_a_session_that_comes_to_rest_is_reported_to_its_end_and_once(log: BlockingRecorder, tmp_path: Path) -> None:
    session = Transcript()
    session.prompt("go")
    session.reply("m1", text("Done."), output=7, stop=None)
    path = session.write(tmp_path / "in")
    tail = TranscriptFollower(log, [str(tmp_path / "in")], program="claude-code")
    tail.import_changes()
    assert [event.kind for event in read_events(log)] == ["session.started", "prompt.submitted"]
    assert tail.import_changes().lines == 0
    hour_ago = (clock.now() - timedelta(hours=1)).timestamp()
    os.utime(path, (hour_ago, hour_ago))
    tail.import_changes()
    assert [event.kind for event in read_events(log)][2:] == ["model.replied", "session.turn_ended"]
    assert (tail.import_changes().lines, import_new_lines(log, [str(path)]).lines) == (0, 0)
    assert costs(read_events(log)) == (1, 7)


def test_a_session_that_rested_while_nobody_watched_is_reported_to_its_end(log: BlockingRecorder, tmp_path: Path) -> None:
    session = Transcript()
    session.prompt("go")
    session.reply("m1", text("Done."), stop=None)
    path = session.write(tmp_path / "in")
    import_new_lines(log, [str(path)])
    os.utime(path, (0, 0))
    import_new_lines(log, [str(path)])
    assert [event.kind for event in read_events(log)][2:] == ["model.replied", "session.turn_ended"]


def test_the_last_answer_of_a_session_that_nobody_has_written_to_for_a_while_is_reported(log: BlockingRecorder, tmp_path: Path) -> None:
    """Older programs do not say when an answer is whole."""
    session = Transcript()
    session.prompt("go")
    session.reply("m1", text("First."), output=7, stop=None)
    path = session.write(tmp_path / "in")
    import_new_lines(log, [str(path)])
    assert costs(read_events(log)) == (0, 0)
    session.prompt("go on", "p-2")
    session.reply("m2", text("Second."), output=5, stop=None)
    session.write(tmp_path / "in")
    os.utime(path, (0, 0))
    import_new_lines(log, [str(path)])
    assert costs(read_events(log)) == (2, 12)
    session.reply("m2", text("And more."), output=9)
    session.write(tmp_path / "in")
    import_new_lines(log, [str(path)])
    assert costs(read_events(log)) == (2, 16)
