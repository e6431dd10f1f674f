"""Logs that earlier versions wrote, killed in the middle of it, are opened by this one with nothing lost.

How they were made: tests/fixtures/old-logs/make.py.
"""

from __future__ import annotations

import gzip
import json
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fleetlore import Event, connect
from fleetlore.errors import Forgotten
from fleetlore.log.coordination import open_shared
from fleetlore.log.sqlite.file import MIGRATIONS
from tests.cli.running import Lore

FIXTURES = Path(__file__).parents[1] / "fixtures" / "old-logs"
VERSIONS = sorted(path.name for path in FIXTURES.glob("schema-*"))
DEFAULT = "sqlite:fleet.db"


class Old(NamedTuple):
    """A copy of an old log in a folder of its own, and what was known of it then."""

    schema: int
    lore: Lore
    url: str
    lines: list[bytes]
    about: dict[str, Any]

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


@pytest.fixture(params=VERSIONS)
def old(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Old:
    for name in ("FLEETLORE_LOG", "FLEETLORE_TOWN", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.chdir(tmp_path)
    kept = FIXTURES / request.param
    for name in ("fleet.db", "fleet.db-wal"):
        (tmp_path / name).write_bytes(gzip.decompress((kept / f"{name}.gz").read_bytes()))
    return Old(
        schema=int(request.param.partition("-")[2]),
        lore=Lore(tmp_path),
        url=f"sqlite:{tmp_path}/fleet.db",
        lines=lines_of(kept, "default"),
        about=json.loads((kept / "about.json").read_text()),
    )


def lines_of(kept: Path, town: str) -> list[bytes]:
    return gzip.decompress((kept / f"{town}.ndjson.gz").read_bytes()).splitlines()


def test_there_is_an_old_log_of_every_schema_before_this_one() -> None:
    assert [f"schema-{n}" for n in range(1, len(MIGRATIONS))] == VERSIONS


def test_every_event_is_there_byte_for_byte_in_every_town(old: Old) -> None:
    assert len(old.lines) > 120
    for town in ("default", "harbour"):
        printed = old.lore("--log", DEFAULT, "--town", town, "events", "--all", "--json", code=0).raw.splitlines()
        assert printed == lines_of(FIXTURES / f"schema-{old.schema}", town)


def test_what_a_killed_writer_left_beside_the_file_is_read(old: Old) -> None:
    assert (old.lore.folder / "fleet.db-wal").stat().st_size > 0
    with connect(old.url).blocking() as log:
        assert [event.text for event in log.read("task:t9")] == ["pulse 0", "pulse 1", "pulse 2"]
        assert [event.kind for event in log.read(newest_first=True, limit=1)] == ["harbour.tide_turned"]


def test_it_is_found_sound_before_and_after_it_is_used(old: Old) -> None:
    old.lore("--log", DEFAULT, "verify", code=0)
    old.lore("--log", DEFAULT, "emit", "fleet.idle", "--agent", "ada", code=0)
    old.lore("--log", DEFAULT, "verify", code=0)
    old.lore("--log", DEFAULT, "doctor", code=0)


def test_it_is_reported_searched_and_shown(old: Old) -> None:
    assert "outbox" in old.lore("--log", DEFAULT, "tell", "--all", code=0).out
    assert "tide table mended" in old.lore("--log", DEFAULT, "find", "tide", code=0).out
    shown = old.lore("--log", DEFAULT, "status", "--all", "--json", code=0).json
    agents = {agent["name"] for agent in shown["agents"]}
    assert {event["agent"] for event in old.events if event["kind"] == "fleet.dispatch"} <= agents


def test_it_goes_on_where_it_ended_and_followers_see_no_seam(old: Old) -> None:
    with connect(old.url).blocking() as log:
        following = log.follow(after=old.events[-3]["position"])
        assert [event.id for event in islice(following, 2)] == [event["id"] for event in old.events[-2:]]
        [position] = log.append([Event(kind="fleet.idle", agent="ada")])
        assert next(following).position == position
        assert int(position) == int(old.events[-1]["position"]) + 1


def test_what_was_stored_then_is_stored_once(old: Old) -> None:
    with connect(old.url).blocking() as log:
        again = list(log.read())
        assert log.append_all(again) == [event["position"] for event in old.events]
        assert log.info().events == len(old.lines)


def test_what_was_erased_and_trimmed_then_stays_so(old: Old) -> None:
    with connect(old.url).blocking() as log:
        assert old.about["erased"] not in {event.id for event in log.read()}
        with pytest.raises(Forgotten):
            log.append([Event(id=old.about["erased"], kind="fleet.idle", agent="ada")])
        assert next(log.follow(after=old.about["trimmed"])).kind == "log.gap"


def test_a_backup_of_then_is_restored_and_no_other_file_is_needed(old: Old) -> None:
    old.lore("--log", DEFAULT, "backup", "kept.db", code=0)
    old.lore("--log", "sqlite:new.db", "restore", "kept.db", code=0)
    assert old.lore("--log", "sqlite:new.db", "events", "--all", "--json").raw.splitlines() == old.lines


def test_what_its_users_shared_is_there_and_epochs_only_grow(old: Old) -> None:
    with open_shared(old.url) as shared:
        lease = shared.acquire("works", "new", 60)
        assert lease is not None
        assert shared.list_cursors() == ({"reader": "00000000000000000007"} if old.schema >= 2 else {})
        assert lease.epoch > old.about.get("epoch", 0)
        assert [token.label for token in shared.list_tokens()] == (["wall screen"] if old.schema >= 3 else [])
        assert shared.load_seal() is None
