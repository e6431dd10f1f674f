"""What `lore up` sees to beside serving, as the settings say: shipping, and letting go of what is too old."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path

import pytest

from fleetlore import Event, clock, connect
from fleetlore import settings as config
from fleetlore.cli.trust import approve_file
from fleetlore.cli.up.background import run_background_jobs
from fleetlore.log.coordination import open_shared
from fleetlore.operations.sinks import BEGINNING
from fleetlore.settings import Settings
from tests.server.serving import Served, homely, serve


@pytest.fixture
def served(tmp_path: Path) -> AbstractContextManager[Served]:
    return serve(tmp_path)


def settings(folder: Path, said: str) -> Settings:
    file = folder / "fleetlore.toml"
    file.write_text(f'log = "sqlite:fleet.db"\n{said}')
    with homely(folder):
        approve_file(str(file), file.read_bytes())
        return config.load_settings(environ={"XDG_CONFIG_HOME": str(folder / "config")}, folder=str(folder))


def test_a_log_is_shipped_as_long_as_it_is_served(tmp_path: Path, served: AbstractContextManager[Served]) -> None:
    ship = settings(tmp_path, '[ship]\nto = "sqlite:team.db"\n')
    with served as up, connect(f"sqlite:{tmp_path}/team.db").blocking() as team, run_background_jobs(ship, up.context, up.url):
        up.log.append([Event(kind="fleet.commit", agent="ada", text="one")])
        arrived = next(iter(team.follow()))
        assert (arrived.kind, arrived.agent) == ("fleet.commit", "ada")


def test_what_is_too_old_is_let_go_of(tmp_path: Path, served: AbstractContextManager[Served]) -> None:
    old = Event(kind="fleet.commit", agent="ada", text="long ago", at=clock.now() - timedelta(days=30))
    keep = settings(tmp_path, '[retention]\nkeep = "7d"\n')
    with served as up:
        up.log.append([old, Event(kind="fleet.commit", agent="ada", text="today")])
        with run_background_jobs(keep, up.context, up.url):
            next(event for event in up.log.follow() if event.kind == "log.trimmed")
        assert [event.text for event in up.log.read() if event.kind == "fleet.commit"] == ["today"]


def test_where_nothing_is_to_be_done_nothing_is(tmp_path: Path, served: AbstractContextManager[Served]) -> None:
    with served as up:
        up.log.append([Event(kind="fleet.commit", agent="ada", at=clock.now() - timedelta(days=3000))])
        with run_background_jobs(settings(tmp_path, ""), up.context, up.url):
            pass
        assert [event.kind for event in up.log.read()] == ["fleet.commit"]


def test_driver_events_are_published_as_long_as_it_is_served(tmp_path: Path, served: AbstractContextManager[Served]) -> None:
    """Also those of goals that another program stored."""
    mine = tmp_path / "config" / "fleetlore" / "fleetlore.toml"
    mine.parent.mkdir(parents=True)
    mine.write_text(f'[[sink]]\nname = "file"\njsonl = "{tmp_path}/driver.jsonl"\n')
    with served as up, open_shared(f"sqlite:{tmp_path}/fleet.db") as shared:
        shared.commit_cursor("sink:file", BEGINNING)
        nil = "00000000-0000-0000-0000-000000000000"
        up.log.append([Event(kind="driver.escalate", actor="driver", goal=nil, data={"goal_id": nil, "reason": "no credentials"})])
        with run_background_jobs(settings(tmp_path, ""), up.context, up.url):
            pass  # what waits is published at the end
    assert (tmp_path / "driver.jsonl").read_text() == f'{{"kind":"escalate","goal_id":"{nil}","reason":"no credentials"}}\n'
