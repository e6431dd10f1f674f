"""`lore trim` and `[retention]`: what is deleted, what is recorded about it, and what views know afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fleetlore import Event, clock, connect
from fleetlore import settings as config
from fleetlore.cli import open_log
from fleetlore.ingest import retention, trim
from fleetlore.log.base import position_after
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections.runner import Runner, make_view
from fleetlore.projections.store import ProjectionStore, open_store
from fleetlore.settings import Setting, Settings
from fleetlore.views import cost_sums, costs, fleet
from tests.cli.running import Lore
from tests.contract.conftest import BACKENDS, address

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


def days_ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def reply(days: float, agent: str = "ada", **more: Any) -> Event:
    data = {"model": "m", "input": 100, "output": 10, "usd": 0.5, **more}
    return Event(kind="model.replied", agent=agent, at=days_ago(days), run="r", data=data)


def settings_with(**more: Any) -> Settings:
    plain = Settings(log=Setting("memory:", "x"))
    return plain._replace(**{name: Setting(value, "x") for name, value in more.items()})


@pytest.fixture(params=BACKENDS)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlockingRecorder]:
    with connect(address(request.param, request, tmp_path), now=lambda: NOW).blocking() as opened:
        yield opened


@pytest.fixture
def own(tmp_path: Path) -> Iterator[BlockingRecorder]:
    with connect(f"sqlite:{tmp_path / 'own.db'}", now=lambda: NOW).blocking() as opened:
        yield opened


@pytest.fixture
def store(own: BlockingRecorder, tmp_path: Path) -> Iterator[ProjectionStore]:
    own.append([Event(kind="fleet.idle", agent="first", at=days_ago(200))])
    opened = open_store(own.info(), folder=str(tmp_path / "cache"))
    assert opened is not None
    with opened:
        yield opened


def cut(log: BlockingRecorder, days: float, store: ProjectionStore | None = None) -> trim.TrimResult | None:
    last = trim.find_position_before(log, days_ago(days), store=store)
    return None if last is None else trim.trim_log(log, last, store=store)


def spent(log: BlockingRecorder) -> costs.CostAmount:
    state = costs.initial()
    for event in log.read():
        state = costs.apply(state, event)
    return cost_sums.sum_total(state)


# --- the cut


def test_the_oldest_go_and_one_fact_shows_what_they_came_to(log: BlockingRecorder) -> None:
    log.append([reply(100), reply(99, "bo"), Event(kind="fleet.idle", agent="bo", at=days_ago(95)), reply(10)])
    done = cut(log, 90)
    assert done is not None
    assert done.events == 3
    kept, fact = log.read()
    assert (kept.at, fact.kind, fact.visibility) == (days_ago(10), "log.trimmed", "system")
    assert fact.data == {
        "log": log.info().log_id, "before": done.before, "last": done.last, "events": 3,
        "counts": {"model.replied": 2, "fleet.idle": 1}, "agents": {"bo": 2, "ada": 1},
        "input": 200, "output": 20, "usd": 1.0, "first_at": "2026-08-07T12:00:00Z", "last_at": "2026-08-12T12:00:00Z",
    }  # fmt: skip
    assert kept.position is not None
    assert kept.position >= done.before > done.last
    assert cut(log, 90) is None


def test_a_whole_log_may_go(log: BlockingRecorder) -> None:
    log.append([reply(100), reply(99)])
    assert cut(log, 1) is not None
    assert [event.kind for event in log.read()] == ["log.trimmed"]


def test_costs_stay_the_same_however_often_it_is_trimmed(log: BlockingRecorder) -> None:
    log.append([reply(days) for days in (100, 80, 60, 40, 20)])
    whole = spent(log)
    for days in (90, 50, 30, -1):
        assert cut(log, days) is not None
        assert spent(log) == whole or (spent(log).usd, spent(log).tokens) == (whole.usd, whole.tokens)
    [fact] = log.read()
    assert (fact.data["events"], fact.data["usd"], fact.data["counts"]) == (5, 2.5, {"model.replied": 5})


def test_a_part_whose_whole_is_left_is_not_counted_as_spent(log: BlockingRecorder) -> None:
    log.append_all([reply(90, partial=True, message_id="m1"), reply(1, message_id="m1"), reply(90, message_id="m2", partial=True)])
    before = cost_sums.sum_total(Runner(log, make_view(costs, "costs")).catch_up().state)
    trim.trim_log(log, str(next(log.read(limit=1)).position))
    after = cost_sums.sum_total(Runner(log, make_view(costs, "costs")).catch_up().state)
    assert (after.usd, after.tokens) == (before.usd, before.tokens) == (1.0, 220)


def test_what_was_printed_is_not_counted_as_spent_where_the_recording_of_it_is_left(log: BlockingRecorder) -> None:
    log.append_all([reply(90, source="exec"), reply(1)])
    trim.trim_log(log, str(next(log.read(limit=1)).position))
    assert cost_sums.sum_total(Runner(log, make_view(costs, "costs")).catch_up().state).usd == 0.5


def test_the_calendar_s_ends_are_no_trap(log: BlockingRecorder) -> None:
    [position] = log.append([reply(90)])
    assert trim.find_position_before(log, datetime.min.replace(tzinfo=UTC)) is None
    assert trim.find_position_before(log, datetime.max.replace(tzinfo=UTC)) == position
    assert retention.retention_cutoff(settings_with(keep_days=99_999 * 365), NOW) is None


def test_an_event_that_came_late_stays_with_those_around_it(log: BlockingRecorder) -> None:
    log.append([reply(100), reply(10), reply(99)])
    assert cut(log, 90) is not None
    assert [event.at for event in log.read(kinds=["model.*"])] == [days_ago(10), days_ago(99)]


def test_a_crash_between_the_fact_and_the_cut_is_made_good(log: BlockingRecorder) -> None:
    log.append([reply(100), reply(50), reply(10)])
    last = trim.find_position_before(log, days_ago(90))
    assert last is not None
    found = trim.plan_trim(log, last)
    assert found is not None
    recorded = {key: value for key, value in found.totals.items() if key != "gone"}
    fact = {"log": log.info().log_id, "before": found.before, "last": found.last, **recorded}
    log.append([Event(kind="log.trimmed", actor="fleetlore", data=fact)])
    assert spent(log).usd == 1.5  # a view that has seen the deleted events does not count them twice
    assert cut(log, 40) is not None
    assert [fact.data["events"] for fact in log.read(kinds=["log.trimmed"])] == [1, 1]
    assert spent(log).usd == 1.5


def test_two_that_trim_at_once_report_it_once(own: BlockingRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    own.append([reply(100), reply(50), reply(10)])
    plan_trim = trim.plan_trim
    others = [50]

    def meanwhile(*args: Any, **more: Any) -> trim.TrimResult | None:
        found = plan_trim(*args, **more)
        if others:
            others.clear()
            monkeypatch.setattr(trim, "plan_trim", plan_trim)
            cut(own, 90)
        return found

    monkeypatch.setattr(trim, "plan_trim", meanwhile)
    cut(own, 40)
    assert [fact.data["events"] for fact in own.read(kinds=["log.trimmed"])] == [1, 1]
    assert spent(own).usd == 1.5


# --- what views know


def test_views_that_are_kept_know_what_went_and_others_say_so(own: BlockingRecorder, store: ProjectionStore) -> None:
    own.append(
        [Event(kind="fleet.dispatch", agent="old", task="t1", at=days_ago(100)), Event(kind="fleet.idle", agent="new", at=days_ago(1))]
    )
    runner = Runner(own, make_view(fleet, "fleet"), store)
    whole = runner.catch_up().state.agents
    assert cut(own, 90, store) is not None
    assert runner.catch_up().state.agents == whole
    assert runner.as_of(own.head() or "").state.agents == whole
    rebuilt = runner.rebuild().state
    assert (list(rebuilt.agents), rebuilt.trimmed_before is not None) == (["new"], True)


def test_a_checkpoint_with_a_hole_behind_it_is_not_used(own: BlockingRecorder, store: ProjectionStore, tmp_path: Path) -> None:
    """Another machine had folded less when this one trimmed."""
    runner = Runner(own, make_view(fleet, "fleet"), store)
    runner.keep_checkpoint(own.head() or "")
    own.append(
        [Event(kind="fleet.idle", agent="never folded there", at=days_ago(100)), Event(kind="fleet.idle", agent="new", at=days_ago(1))]
    )
    elsewhere = open_store(own.info(), folder=str(tmp_path / "elsewhere"))
    with elsewhere or pytest.fail("no store"):
        assert cut(own, 90, elsewhere) is not None
    assert runner.catch_up().state.agents == Runner(own, make_view(fleet, "fleet")).catch_up().state.agents


def test_a_trim_that_was_shipped_here_is_not_ours() -> None:
    from fleetlore.events.envelope import LogPlace, Origin

    origin = Origin(dialect="fleetlore", log=LogPlace(id="other", position="7"))
    state = fleet.apply(fleet.initial(), Event(kind="log.trimmed", actor="fleetlore", data={"before": "7"}, origin=origin))
    assert state.trimmed_before is None


# --- the command


@pytest.fixture
def old(lore: Lore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lore:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with connect("sqlite:fleet.db").blocking() as log:
        ages = (400, 100, 20)
        log.append([Event(kind="fleet.idle", agent="ada", text=str(age), at=clock.now() - timedelta(days=age)) for age in ages])
    monkeypatch.setenv("FLEETLORE_LOG", "sqlite:fleet.db")
    return lore


def kept(lore: Lore) -> list[str]:
    return [event["text"] for event in lore("events", "--json", "--all", code=0).ndjson if event["kind"] == "fleet.idle"]


@pytest.mark.parametrize(
    ("before", "left"), [("90d", ["20"]), ("1y", ["100", "20"]), ("0000000000000003", ["20"]), ("2001-01-01", ["400", "100", "20"])]
)
def test_it_is_cut_by_age_by_day_and_by_position(old: Lore, before: str, left: list[str]) -> None:
    old("trim", "--before", before, "--yes", code=0)
    assert kept(old) == left


def test_a_fact_that_came_with_an_import_cuts_nothing_off(old: Lore, tmp_path: Path) -> None:
    with connect("sqlite:fleet.db").blocking() as log:
        data = {"log": log.info().log_id, "before": log.head()}
    (tmp_path / "forged.jsonl").write_text(
        json.dumps({"specversion": "1.0", "id": "1", "source": "x", "type": "log.trimmed", "data": data})
    )
    old("import", "cloudevents", str(tmp_path / "forged.jsonl"), code=0)
    old("trim", "--before", "2y", "--yes", code=0)
    assert kept(old) == ["400", "100", "20"]


def test_a_copy_of_a_trimmed_log_is_not_cut_for_what_was_cut_there(old: Lore) -> None:
    old("trim", "--before", "1y", "--yes", code=0)
    with connect("sqlite:fleet.db").blocking() as log, connect("sqlite:copy.db").blocking() as copy:
        copy.append([replace(event, position=None) for event in log.read()])
        trim.finish_interrupted_trim(copy)
        assert [event.text for event in copy.read(kinds=["fleet.idle"])] == ["100", "20"]


def test_a_dry_run_shows_and_leaves_all(old: Lore) -> None:
    assert old("trim", "--before", "90d", "--dry-run", code=0).out.startswith(
        "the oldest 2 events of sqlite:fleet.db would go: of 1 agent from "
    )
    recorded = old("trim", "--before", "90d", "--dry-run", "--json", code=0).json
    assert (recorded["trimmed"], recorded["events"], recorded["counts"]) == (0, 2, {"fleet.idle": 2})
    assert kept(old) == ["400", "100", "20"]


def test_it_wants_an_age_and_a_yes(old: Lore) -> None:
    assert "no age is given" in old("trim", code=2).err
    assert "use --yes" in old("trim", "--before", "90d", code=2).err
    assert old("trim", "--before", "500d", "--yes", code=0).lines == ["nothing to trim"]
    assert kept(old) == ["400", "100", "20"]


def test_the_board_says_that_it_does_not_know_all(old: Lore) -> None:
    old("trim", "--before", "90d", "--yes", code=0)
    assert "older ones trimmed away" in old("status", code=0).out


def test_an_event_of_the_future_is_named_as_what_holds_it_up(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect("sqlite:fleet.db").blocking() as log:
        log.append([Event(kind="fleet.idle", agent="ada", at=clock.now() + timedelta(days=days)) for days in (500, -100)])
    said = lore("trim", "--log", "sqlite:fleet.db", "--before", "90d", "--yes", code=0)
    assert said.lines == ["nothing to trim"]
    assert "the event at 0000000000000001 says that it is of " in said.err


# --- retention


def test_a_log_keeps_to_its_age_at_most_once_a_day(log: BlockingRecorder) -> None:
    log.append([reply(100), reply(10), reply(9)])
    settings = settings_with(keep_days=90)
    done = retention.apply_retention(log, settings, NOW)
    assert done.trim is not None
    assert (done.trim.events, done.note) == (1, None)
    settings = settings_with(keep_days=5)
    assert retention.apply_retention(log, settings, NOW + timedelta(hours=23)) == retention.RetentionResult()
    assert retention.apply_retention(log, settings, NOW + timedelta(hours=25)).trim is not None
    assert list(log.read(kinds=["model.*"])) == []


def test_a_cut_that_was_announced_is_made_by_the_next_that_keeps_to_the_age(log: BlockingRecorder) -> None:
    log.append([reply(100), reply(10)])
    [first, _] = log.read()
    fact = {"log": log.info().log_id, "before": position_after(first.position or ""), "events": 1}
    log.append([Event(kind="log.trimmed", actor="fleetlore", data=fact)])
    assert retention.apply_retention(log, settings_with(keep_days=90), NOW) == retention.RetentionResult()
    assert [event.at for event in log.read(kinds=["model.*"])] == [days_ago(10)]


def test_without_a_setting_everything_is_kept(own: BlockingRecorder) -> None:
    own.append([reply(4000)])
    assert retention.apply_retention(own, settings_with(), NOW) == retention.RetentionResult()


def test_what_was_not_shipped_yet_is_kept(own: BlockingRecorder, tmp_path: Path) -> None:
    from threading import Event as Flag

    from fleetlore.ingest.ship import Shipper

    own.append([reply(100), reply(99), reply(1)])
    to = f"sqlite:{tmp_path / 'team.db'}"
    settings = settings_with(keep_days=90, ship_to=to)
    done = retention.apply_retention(own, settings, NOW)
    assert done.trim is None
    assert "was not shipped" in (done.note or "")
    assert not (tmp_path / "team.db").exists()
    Shipper(connect(f"sqlite:{tmp_path / 'own.db'}").blocking, connect(to).blocking).run(Flag(), once=True)
    assert retention.apply_retention(own, settings, NOW).trim is not None


def test_a_target_that_does_not_answer_is_waited_for(own: BlockingRecorder) -> None:
    own.append([reply(100)])
    done = retention.apply_retention(own, settings_with(keep_days=90, ship_to="redis://127.0.0.1:1?timeout=0.1"), NOW)
    assert (done.trim, "cannot say what was shipped" in (done.note or "")) == (None, True)


# --- settings


@pytest.mark.parametrize(("keep", "days"), [("90d", 90), ("12w", 84), ("1y", 365)])
def test_the_users_file_speaks_for_the_users_log(lore: Lore, keep: str, days: int) -> None:
    lore.write("../home/.config/fleetlore/fleetlore.toml", f'[retention]\nkeep = "{keep}"\n')
    assert config.load_settings().keep_days.value == days
    assert config.load_settings(log="sqlite:other.db").keep_days.value is None


def test_a_project_speaks_for_its_own_log_alone(lore: Lore) -> None:
    lore.write("fleetlore.toml", 'log = "sqlite:fleet.db"\n[retention]\nkeep = "30d"\n')
    assert config.load_settings().keep_days.value == 30
    assert config.load_settings(log="sqlite:").keep_days.value is None
    lore.write("fleetlore.toml", 'log = "sqlite:fleet.db"\n[retention]\nkeep = "31d"\n', approve=False)
    assert config.load_settings().keep_days.value is None


@pytest.mark.parametrize("keep", ['"3 months"', '"0d"', "90", '""', '"-1d"'])
def test_an_age_that_is_none_is_refused(lore: Lore, keep: str) -> None:
    lore.write("../home/.config/fleetlore/fleetlore.toml", f"[retention]\nkeep = {keep}\n")
    assert "as in keep" in lore("config", code=1).err


def test_levels_of_project_and_user_add_up(lore: Lore) -> None:
    lore.write("../home/.config/fleetlore/fleetlore.toml", '[redact]\nlevel = ["paths", "secrets"]\n')
    lore.write("fleetlore.toml", '[redact]\nlevel = "prompts"\n')
    assert config.load_settings().redact_levels.value == ("prompts", "paths")
    assert lore("config", "--json", code=0).json["redact.level"]["value"] == ["secrets", "prompts", "paths"]
    lore("emit", "prompt.submitted", "--agent", "ada", "--text", "zebra", code=0)
    assert lore("events", "--json").json["text"] == "[withheld: 5 bytes]"


def test_the_command_line_adds_to_the_levels(lore: Lore) -> None:
    from argparse import Namespace

    lore.write("fleetlore.toml", '[redact]\nlevel = "names"\n')
    settings = open_log.load_settings_for(Namespace(log=None, town=None, redact=["prompts"]))
    assert settings.redact_levels.value == ("prompts", "names")


def test_an_unknown_level_is_refused(lore: Lore) -> None:
    lore.write("fleetlore.toml", '[redact]\nlevel = "everything"\n')
    assert "choose from secrets, prompts, code, paths, names and all" in lore("config", code=1).err
