"""A damaged log file gives back what can still be read of it, and nothing that was not written."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from shutil import copyfile

import pytest

from fleetlore import Event, connect
from fleetlore.errors import LogError, Unwritable
from fleetlore.log.coordination import open_shared
from fleetlore.log.sqlite.maintenance import check_log
from fleetlore.log.sqlite.salvage import salvage_log
from tests.faults.damage import PAGE, WAYS, Original, assert_survived, read_records, try_damage, write_log

COUNT = 3000
DAMAGES = 8


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    return write_log(tmp_path_factory.mktemp("original") / "fleet.db", COUNT)


def texts(path: Path, town: str = "default", scope: str = "town") -> list[str | None]:
    with connect(f"sqlite:{path}", town=town).blocking() as log:
        return [event.text for event in log.read(scope)]


@pytest.mark.parametrize("way", WAYS)
def test_random_damage_is_noticed_and_the_rest_is_saved(way: str, original: Original, tmp_path: Path) -> None:
    rng = Random(20261118)
    assert_survived([try_damage(original, way, rng, tmp_path) for _ in range(DAMAGES)])


def test_a_sound_log_is_copied_whole_with_its_positions(original: Original, tmp_path: Path) -> None:
    report = salvage_log(str(original.path), str(tmp_path / "saved.db"))
    assert (report.events, report.missing_events, report.damaged_records, report.notes) == (COUNT, 0, 0, [])
    assert read_records(tmp_path / "saved.db") == original.records


def test_what_is_missing_is_said(original: Original, tmp_path: Path) -> None:
    copy = Path(copyfile(original.path, tmp_path / "fleet.db"))
    page = original.pages[100]
    lost = sorted(seq for seq, where in original.pages.items() if where == page)
    content = bytearray(copy.read_bytes())
    content[(page - 1) * PAGE : page * PAGE] = bytes(PAGE)
    copy.write_bytes(content)
    report = salvage_log(str(copy), str(tmp_path / "saved.db"))
    assert [(each.town, int(each.first), int(each.last), each.count) for each in report.missing] == [
        ("default", lost[0], lost[-1], len(lost))
    ]


def test_the_number_of_events_behind_a_cut_is_known_from_what_names_them(original: Original, tmp_path: Path) -> None:
    copy = Path(copyfile(original.path, tmp_path / "fleet.db"))
    with open(copy, "r+b") as file:
        file.truncate(copy.stat().st_size // 2)
    report = salvage_log(str(copy), str(tmp_path / "saved.db"))
    assert any("is cut off" in note for note in report.notes)
    assert report.events + report.missing_events == COUNT
    assert report.missing[-1].last == f"{COUNT:016}"


def test_the_new_log_goes_on_behind_every_position_that_was_used(original: Original, tmp_path: Path) -> None:
    copy, saved = Path(copyfile(original.path, tmp_path / "fleet.db")), tmp_path / "saved.db"
    with open(copy, "r+b") as file:
        file.truncate(copy.stat().st_size // 2)
    salvage_log(str(copy), str(saved))
    with connect(f"sqlite:{saved}").blocking() as log:
        [position] = log.append([Event(kind="fleet.idle", agent="ada")])
        assert int(position) > COUNT


def test_several_towns_whole_texts_and_tokens_are_saved(tmp_path: Path) -> None:
    path, saved = tmp_path / "fleet.db", tmp_path / "saved.db"
    with connect(f"sqlite:{path}").blocking() as log:
        log.append([Event(kind="fleet.commit", agent="ada", text="one", data={"diff": "d" * 100_000})])
        log.append([Event(kind="fleet.commit", agent="ada", text="two")])
        log_id = log.info().log_id
    with connect(f"sqlite:{path}", town="harbour").blocking() as log:
        log.append([Event(kind="fleet.commit", agent="zoe", text="elsewhere")])
    with open_shared(f"sqlite:{path}") as shared:
        shared.commit_cursor("shipper", "0000000000000002")
    report = salvage_log(str(path), str(saved))
    assert sorted(report.towns) == ["default", "harbour"]
    assert (texts(saved), texts(saved, "harbour"), texts(saved, scope="agent:ada")) == (["one", "two"], ["elsewhere"], ["one", "two"])
    with connect(f"sqlite:{saved}").blocking() as log:
        assert log.info().log_id == log_id
        whole = log.restore_whole(next(log.read()))
        assert whole.data is not None
        assert whole.data["diff"] == "d" * 100_000
    with open_shared(f"sqlite:{saved}") as shared:
        assert shared.load_cursor("shipper") == "0000000000000002"


def test_what_only_the_write_ahead_log_has_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    with connect(f"sqlite:{path}").blocking() as log:
        log.append([Event(kind="fleet.commit", agent="ada", text=str(n)) for n in range(5)])
        for end in ("", "-wal"):
            copyfile(f"{path}{end}", tmp_path / f"copy.db{end}")
    assert (tmp_path / "copy.db-wal").stat().st_size > 0
    assert salvage_log(str(tmp_path / "copy.db"), str(tmp_path / "saved.db")).events == 5


def test_erased_and_trimmed_events_do_not_come_back(tmp_path: Path) -> None:
    path, saved = tmp_path / "fleet.db", tmp_path / "saved.db"
    with connect(f"sqlite:{path}").blocking() as log:
        log.append_all(Event(kind="fleet.commit", agent="ada", text=str(n)) for n in range(10))
        events = list(log.read())
        log.trim(events[3].position or "")
        log.erase([events[5].id or ""], "asked for")
    report = salvage_log(str(path), str(saved))
    assert texts(saved)[:6] == ["3", "4", "6", "7", "8", "9"]
    assert (report.missing_events, report.erased_events) == (1, 1)
    assert check_log(str(saved)).problems == []
    with connect(f"sqlite:{saved}").blocking() as log:
        assert next(log.follow(after="0000000000000001")).kind == "log.gap"


def test_a_file_whose_first_page_is_lost_still_gives_its_events(original: Original, tmp_path: Path) -> None:
    copy = Path(copyfile(original.path, tmp_path / "fleet.db"))
    content = bytearray(copy.read_bytes())
    content[:PAGE] = Random(1).randbytes(PAGE)
    copy.write_bytes(content)
    report = salvage_log(str(copy), str(tmp_path / "saved.db"))
    assert report.events == COUNT
    assert read_records(tmp_path / "saved.db") == original.records


def test_the_source_stays_as_it_is_and_nothing_is_replaced(original: Original, tmp_path: Path) -> None:
    copy = Path(copyfile(original.path, tmp_path / "fleet.db"))
    before = copy.read_bytes()
    (tmp_path / "there.db").write_text("something dear")
    with pytest.raises(Unwritable, match="the file exists"):
        salvage_log(str(copy), str(tmp_path / "there.db"))
    with pytest.raises(LogError, match="check the path"):
        salvage_log(str(tmp_path / "nowhere.db"), str(tmp_path / "saved.db"))
    salvage_log(str(copy), str(tmp_path / "saved.db"))
    assert copy.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["fleet.db", "saved.db", "there.db"]
