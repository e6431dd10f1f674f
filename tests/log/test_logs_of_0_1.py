"""Logs that version 0.1 wrote on SQLite, Redis and NATS open unchanged: events, erasures, trims, cursors, leases and tokens.

How they were made: tests/fixtures/old-logs/make_0_1.py.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fleetlore import Event, connect
from fleetlore.errors import Forgotten
from fleetlore.log.connect import check_log
from fleetlore.log.coordination import open_shared
from tests.cli.running import Lore
from tests.servers import Nats, Valkey

FIXTURES = Path(__file__).parents[1] / "fixtures" / "old-logs"


class OldLog(NamedTuple):
    """A copy of a log of version 0.1, and what version 0.1 read from it."""

    url: str
    folder: Path
    about: dict[str, Any]

    def lines(self, town: str = "default") -> list[bytes]:
        return gzip.decompress((self.folder / f"{town}.ndjson.gz").read_bytes()).splitlines()

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines()]


@pytest.fixture(params=["sqlite", "redis", "nats"])
def old(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OldLog]:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    folder = FIXTURES / f"0.1-{request.param}"
    about = json.loads((folder / "about.json").read_text())
    data = tmp_path / "data"
    data.mkdir()
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress((folder / "data.tar.gz").read_bytes()))) as archive:
        archive.extractall(data, filter="data")
    if request.param == "sqlite":
        yield OldLog(f"sqlite:{data}/fleet.db", folder, about)
        return
    server = Valkey(data) if request.param == "redis" else Nats(data)
    with server:
        yield OldLog(server.url, folder, about)


@pytest.mark.parametrize("town", ["default", "harbour"])
def test_every_event_reads_back_byte_for_byte(old: OldLog, town: str, tmp_path: Path) -> None:
    printed = Lore(tmp_path)("--log", old.url, "--town", town, "events", "--all", "--json", code=0).raw.splitlines()
    assert printed == old.lines(town)


def test_appends_continue_and_followers_see_no_seam(old: OldLog) -> None:
    events = old.events()
    with connect(old.url).blocking() as log:
        following = log.follow(after=events[-3]["position"])
        assert [event.id for event in islice(following, 2)] == [event["id"] for event in events[-2:]]
        [position] = log.append([Event(kind="fleet.idle", agent="ada")])
        assert next(following).position == position
        assert position > events[-1]["position"]


@pytest.mark.parametrize("old", ["sqlite", "redis"], indirect=True)  # NATS knows ids for a day by its own clock: docs/backends.md
def test_an_event_stored_by_0_1_is_not_stored_again(old: OldLog) -> None:
    with connect(old.url).blocking() as log:
        assert log.append_all(list(log.read())) == [event["position"] for event in old.events()]
        assert log.info().events == len(old.lines())


def test_erased_and_trimmed_events_stay_gone(old: OldLog) -> None:
    with connect(old.url).blocking() as log:
        assert old.about["erased"] not in {event.id for event in log.read()}
        with pytest.raises(Forgotten):
            log.append([Event(id=old.about["erased"], kind="fleet.idle", agent="ada")])
        assert next(log.follow(after=old.about["trimmed"])).kind == "log.gap"


def test_cursors_leases_and_tokens_are_kept(old: OldLog) -> None:
    with open_shared(old.url) as shared:
        lease = shared.acquire("works", "new", 60)
        assert lease is not None
        assert lease.epoch > old.about["epoch"]
        assert shared.list_cursors() == {"reader": "00000000000000000007"}
        assert [token.label for token in shared.list_tokens()] == ["wall screen"]


def test_status_and_costs_work_on_it(old: OldLog, tmp_path: Path) -> None:
    lore = Lore(tmp_path)
    assert "ada" in lore("--log", old.url, "status", "--all", code=0).out
    assert "0.25" in lore("--log", old.url, "costs", code=0).out


def test_verify_takes_nothing_in_it_for_damage(old: OldLog) -> None:
    report = check_log(old.url)
    assert report.problems == []
    assert report.events >= len(old.lines())
    assert report.without_checksum == (0 if old.url.startswith("nats") else report.events)
