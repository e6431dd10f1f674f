"""`lore ship`: in a pipe, on a terminal, as JSON; what the settings say; what is refused."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
from pathlib import Path

import pytest

from fleetlore import Event, connect, settings
from fleetlore.cli import ship
from fleetlore.errors import InvalidUrl
from fleetlore.ingest.ship import ShipStatus
from fleetlore.log import connect as log_connect
from tests.cli.running import Lore
from tests.ingest.shipping import largest_event
from tests.servers import Valkey

WAY = ("--from", "sqlite:a.db", "--to", "sqlite:b.db")


@pytest.fixture
def recorded(lore: Lore) -> Lore:
    """A log of three events, one of them a prompt."""
    with connect("sqlite:a.db").blocking() as log:
        log.append(
            [
                Event(kind="prompt.submitted", agent="ada", text="fix the parser", data={"prompt": "fix the parser"}),
                Event(kind="fleet.commit", agent="ada", text="the parser reads"),
                Event(kind="fleet.push", agent="ada"),
            ]
        )
    return lore


def events(lore: Lore, url: str, *argv: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = lore("events", "--all", "--json", "--log", url, *argv, code=0).ndjson
    return found


def test_once_ships_what_is_there_and_says_so(recorded: Lore) -> None:
    result = recorded("ship", *WAY, "--once", code=0)
    assert result.lines == [
        "shipping sqlite:a.db to sqlite:b.db (prompts and code stay here)",
        "caught up: shipped 3 · nothing to go · withheld parts of 1",
        "ended: shipped 3 · nothing to go · withheld parts of 1",
    ]
    assert [event["kind"] for event in events(recorded, "sqlite:b.db")] == ["prompt.submitted", "fleet.commit", "fleet.push"]
    assert "fix the parser" not in json.dumps(events(recorded, "sqlite:b.db"))
    assert recorded("ship", *WAY, "--once", code=0).lines[-1] == "ended: shipped 0 · nothing to go"


def test_full_ships_prompts_too(recorded: Lore) -> None:
    assert "(with prompts and code)" in recorded("ship", *WAY, "--once", "--full", code=0).out
    assert events(recorded, "sqlite:b.db")[0]["text"] == "fix the parser"


def test_json_is_for_programs(recorded: Lore) -> None:
    lines = recorded("ship", *WAY, "--once", "--json", code=0).ndjson
    assert [line["state"] for line in lines] == ["shipping", "caught up", "stopped"]
    assert set(lines[-1]) == set(ShipStatus.__struct_fields__)
    assert (lines[-1]["shipped"], lines[-1]["to_go"], lines[-1]["withheld"]) == (3, 0, 1)


def test_it_goes_on_until_ctrl_c_and_then_says_where_it_stands(recorded: Lore) -> None:
    process = recorded.start("ship", *WAY, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    assert process.stdout.readline().startswith(b"caught up: shipped 3")
    recorded("emit", "fleet.idle", "--agent", "ada", "--log", "sqlite:a.db")
    with connect("sqlite:b.db").blocking() as target:
        for seen, _ in enumerate(target.follow(), 1):
            if seen == 4:
                break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert b"ended: shipped" in out


def test_sigterm_ends_it_as_ctrl_c_does(recorded: Lore) -> None:
    process = recorded.start("ship", *WAY, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    assert process.stdout.readline().startswith(b"caught up: shipped 3")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert out.startswith(b"ended: shipped 3")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_anything_was_said_ends_it_well_too(
    recorded: Lore, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    before = signal.getsignal(number)
    monkeypatch.setattr(ship, "parse_route", lambda args: signal.raise_signal(number))
    result = recorded("ship", *WAY, code=0)
    assert (result.out, result.err) == ("", "")
    assert signal.getsignal(number) is before


def test_what_waits_at_the_end_is_asked_for_anew(recorded: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal comes while the target keeps the shipper waiting."""

    def interrupted(*args: object, **options: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    way = ship.parse_route

    def stuck(args: object) -> ship.ShipRoute:
        found = way(args)  # type: ignore[arg-type]
        target = found.open_target()
        monkeypatch.setattr(target, "append", interrupted)
        return found._replace(open_target=lambda: target)

    monkeypatch.setattr(ship, "parse_route", stuck)
    assert recorded("ship", *WAY, code=0).lines[-1].startswith("ended: shipped 0 · 3 to go")


def test_an_empty_town_is_called_so(recorded: Lore) -> None:
    result = recorded("ship", *WAY, "--town", "typo", "--once", code=0)
    assert result.lines[1:] == ["the town 'typo' of sqlite:a.db is empty", "ended: shipped 0 · the town is empty"]
    process = recorded.start("ship", *WAY, "--town", "typo", stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    assert process.stdout.readline() == b"the town 'typo' of sqlite:a.db is empty; waiting for its first event\n"
    process.send_signal(signal.SIGINT)
    process.communicate()


def test_a_source_that_went_back_is_reported(recorded: Lore, tmp_path: Path) -> None:
    recorded("--log", "sqlite:a.db", "backup", "copy.db", code=0)
    recorded("emit", "fleet.idle", "--agent", "ada", "--log", "sqlite:a.db", code=0)
    recorded("ship", *WAY, "--once", code=0)
    for path in recorded.folder.glob("a.db*"):
        path.unlink(missing_ok=True)
    recorded("--log", "sqlite:a.db", "restore", "copy.db", code=0)
    recorded("emit", "fleet.push", "--agent", "bob", "--log", "sqlite:a.db", code=0)
    lines = recorded("ship", *WAY, "--once", code=0).lines
    assert lines[1].startswith("the source went back to 0000000000000003: ")
    assert lines[-1] == "ended: shipped 1 · nothing to go"
    assert [event["kind"] for event in events(recorded, "sqlite:b.db")][-2:] == ["fleet.idle", "fleet.push"]


def test_a_warning_of_a_client_stands_on_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = ship.LiveShipReporter(ship.ShipRoute("a", "b", connect("memory:").blocking, connect("memory:").blocking, full=False))
    reporter.update(ShipStatus(state="shipping", shipped=5))
    with ship._show_warnings(reporter):
        logging.getLogger("fleetlore.log").warning("the connection was lost")
    logging.getLogger("fleetlore.log").debug("not told")
    said = capsys.readouterr()
    assert said.err == "lore: the connection was lost\n"
    line = "\rshipped 5 · last 0 s behind\x1b[K"
    assert said.out == f"{line}\r\x1b[K{line}"


def test_a_terminal_gets_one_live_line(recorded: Lore) -> None:
    result = recorded.on_terminal("ship", *WAY, "--once", columns=60)
    assert result.code == 0
    assert "\rshipped 3 · nothing to go\x1b[K" in result.out
    assert result.lines[-1].endswith("ended: shipped 3 · nothing to go · withheld parts of 1")


def test_the_live_line_shows_what_waits_and_how_old_it_is() -> None:
    standing = ShipStatus(state="shipping", shipped=12_345, to_go=678, behind_seconds=2.4)
    assert ship.format_live_line(standing) == "shipped 12,345 · 678 to go · last 2 s behind"
    assert [ship.format_age(seconds) for seconds in (0, 119, 121, 7300, 200_000)] == ["0 s", "119 s", "2 min", "2 h", "2 d"]
    lost = ShipStatus(state="lost", lost="target", trouble="does not answer", reason="refused", retry_in=4.0, to_go=1204)
    assert ship.format_live_line(lost) == "the target does not answer; trying again in 4 s · 1,204 to go (refused)"
    lost.state, lost.retry_in = "trying", None
    assert ship.format_live_line(lost) == "the target does not answer; trying… · 1,204 to go (refused)"


def test_a_pipe_is_informed_of_an_outage_once_for_each_pause_and_of_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = ship.ShipReporter(ship.ShipRoute("a", "b", connect("memory:").blocking, connect("memory:").blocking, full=False))
    standing = ShipStatus(state="lost", lost="target", trouble="does not answer", reason="refused")
    for pause in (0.5, 1, 30, 30, 30):
        standing.retry_in = pause
        reporter.update(standing)
    standing.state, standing.to_go = "shipping", 7
    reporter.update(standing)  # nothing was stored yet
    standing.shipped, standing.to_go = 5, 2
    reporter.update(standing)
    reporter.update(standing)
    said = capsys.readouterr().out.splitlines()
    assert [line.split(";")[0] for line in said] == ["the target does not answer"] * 3 + ["continues: shipped 5 · 2 to go"]


@pytest.mark.parametrize("scheme", ["redis", "nats"])
def test_a_server_that_is_away_is_tried_again_and_with_once_an_error(recorded: Lore, scheme: str) -> None:
    away = f"{scheme}://127.0.0.1:1?timeout=0.2"
    assert "does not answer" in recorded("ship", "--from", "sqlite:a.db", "--to", away, "--once", code=1).err
    process = recorded.start("ship", "--from", "sqlite:a.db", "--to", away, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    assert process.stdout.readline().startswith(b"the target does not answer; trying again in 0.5 s (")
    assert process.stdout.readline().startswith(b"the target does not answer; trying again in 1 s (")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate()
    assert (process.returncode, out.decode()) == (0, "ended: shipped 0 · unknown number to go\n")


def test_a_wrong_password_is_not_tried_again(recorded: Lore, tmp_path: Path) -> None:
    with Valkey(tmp_path / "valkey", password="right") as server:
        result = recorded("ship", "--from", "sqlite:a.db", "--to", server.url.replace("right", "wrong"), code=1)
    assert "password" in result.err
    assert "wrong@" not in result.out + result.err


def test_log_says_the_source_too(recorded: Lore) -> None:
    recorded("--log", "sqlite:a.db", "ship", "--to", "sqlite:b.db", "--once", code=0)
    assert len(events(recorded, "sqlite:b.db")) == 3


@pytest.mark.parametrize(
    ("argv", "code", "reason"),
    [
        (["--from", "sqlite:a.db", "--log", "sqlite:a.db", "--to", "sqlite:b.db"], 2, "give only one of them"),
        (
            ["--from", "sqlite:a.db"],
            2,
            "no target log is named; write --to nats://HOST:4222, set FLEETLORE_SHIP_TO, or set `to` under [ship]",
        ),
        (["--from", "sqlite:a.db", "--to", "sqlite:a.db"], 2, "the same log"),
        (["--from", "sqlite:typo.db", "--to", "sqlite:b.db"], 1, "there is no log yet"),
        (["--from", "sqlite:a.db", "--to", "memory:"], 2, "logs that are stored"),
        (["--from", "sqlite:a.db", "--to", "b.db"], 2, "write sqlite:b.db"),
        (["--from", "sqlite:a.db", "--to", "sqlite:b.db?snyc=full"], 2, "snyc"),
        (["--from", "sqlite:a.db", "--to", "sqlite:no/such/folder.db"], 1, "folder.db"),
    ],
)
def test_what_cannot_be_shipped_is_refused_in_one_line(recorded: Lore, argv: list[str], code: int, reason: str) -> None:
    """Without --once: nothing of this is tried again."""
    result = recorded("ship", *argv, code=code)
    assert reason in result.err
    assert result.err.count("\n") == 1
    assert not (recorded.folder / "typo.db").exists()


def test_each_address_may_name_its_town(recorded: Lore) -> None:
    recorded("emit", "fleet.idle", "--agent", "ada", "--log", "sqlite:a.db", "--town", "east")
    recorded("ship", "--from", "sqlite:a.db?town=east", "--to", "sqlite:b.db?town=west", "--once", code=0)
    assert len(events(recorded, "sqlite:b.db", "--town", "west")) == 1
    recorded("ship", "--from", "sqlite:a.db", "--to", "sqlite:b.db", "--town", "east", "--once", code=0)
    assert len(events(recorded, "sqlite:b.db", "--town", "east")) == 1
    recorded("ship", "--from", "sqlite:a.db?town=east", "--to", "sqlite:c.db", "--once", code=0)
    assert len(events(recorded, "sqlite:c.db", "--town", "east")) == 1
    recorded("ship", "--from", "sqlite:a.db", "--to", "sqlite:a.db?town=copy", "--once", code=0)
    assert len(events(recorded, "sqlite:a.db", "--town", "copy")) == 3


def test_an_event_that_could_not_be_taken_is_reported_by_the_exit_code(recorded: Lore) -> None:
    with connect("sqlite:a.db").blocking() as log:
        log.append([largest_event("00000000-0000-4000-8000-000000000000")])
    assert "rejected by the target" in recorded("ship", *WAY, "--once", "--full", code=3).out


def user_file(lore: Lore, content: str) -> str:
    return str(Path(lore.write("../home/.config/fleetlore/fleetlore.toml", content)).resolve())


def test_the_settings_say_where_to(recorded: Lore) -> None:
    path = recorded.write("fleetlore.toml", 'log = "sqlite:a.db"\n[ship]\nto = "sqlite:b.db"\n')
    recorded("ship", "--once", code=0)
    assert len(events(recorded, "sqlite:b.db")) == 3
    shown = recorded("config", "show", "--json", code=0).json
    assert shown["ship.to"] == {"value": f"sqlite:{recorded.folder}/b.db", "from": path}
    assert shown["ship.full"] == {"value": False, "from": path}


def test_the_users_file_may_ask_for_all_and_secrets_in_its_address_are_masked(recorded: Lore) -> None:
    path = user_file(recorded, '[ship]\nto = "nats://ada:hunter2@team:4222"\nfull = true\n')
    shown = recorded("config", "show", code=0)
    assert "hunter2" not in shown.out
    assert "team:4222" in shown.out
    described = recorded("config", "show", "--json", code=0).json
    assert described["ship.full"] == {"value": True, "from": path}
    assert "hunter2" not in json.dumps(described)


def test_a_file_ships_its_own_log_and_no_other(recorded: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    user_file(recorded, f'log = "sqlite:{recorded.folder}/mine.db"\n[ship]\nto = "sqlite:/team.db"\nfull = true\n')

    def to(*argv: str) -> object:
        return recorded("config", "show", "--json", *argv, code=0).json["ship.to"]["value"]

    assert to() == "sqlite:/team.db"
    assert to("--log", f"sqlite:{recorded.folder}/mine.db") == "sqlite:/team.db"
    assert to("--log", "sqlite:other.db") is None
    recorded.write("fleetlore.toml", 'log = "sqlite:a.db"\n')
    assert to() is None
    recorded.write("fleetlore.toml", 'log = "sqlite:a.db"\n[ship]\nto = "sqlite:b.db"\n')
    assert to() == f"sqlite:{recorded.folder}/b.db"
    assert recorded("config", "show", "--json").json["ship.full"]["value"] is False
    monkeypatch.setenv("FLEETLORE_LOG", "sqlite:/elsewhere.db")
    assert to() is None


def test_the_environment_says_where_to_for_any_log_but_a_projects(recorded: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETLORE_SHIP_TO", "nats://ada:hunter2@team:4222")

    def to(*argv: str) -> object:
        return recorded("config", "show", "--json", *argv, code=0).json["ship.to"]

    ours = {"value": "nats://[redacted]@team:4222", "from": "FLEETLORE_SHIP_TO"}
    user_file(recorded, '[ship]\nto = "sqlite:/team.db"\nfull = true\n')
    assert to() == to("--log", "sqlite:other.db") == ours
    assert recorded("config", "show", "--json").json["ship.full"]["value"] is False
    path = recorded.write("fleetlore.toml", 'log = "sqlite:a.db"\n')
    assert to()["value"] is None  # type: ignore[index]
    recorded.write("fleetlore.toml", 'log = "sqlite:a.db"\n[ship]\nto = "sqlite:b.db"\n')
    assert to() == {"value": f"sqlite:{recorded.folder}/b.db", "from": path}
    monkeypatch.setenv("FLEETLORE_SHIP_TO", "sqlite:c.db")
    recorded("ship", "--from", "sqlite:a.db", "--once", code=0)
    assert len(events(recorded, "sqlite:c.db")) == 3


def test_what_counts_as_a_server_is_the_same_everywhere() -> None:
    for scheme in settings.SERVERS:
        log_connect.connect(f"{scheme}://host")  # taken, and not opened yet
        assert log_connect.resolve_url(f"{scheme}://u:p%40q@host", None)[1] == f"{scheme}://u:p%40q@host"
    with pytest.raises(InvalidUrl, match="unknown log address ftp"):
        log_connect.connect("ftp://host")


@pytest.mark.parametrize("to", ["nats://team:4222", "rediss://team", "sqlite:sub/b.db"])
def test_a_project_may_ship_to_servers_and_to_its_own_files(recorded: Lore, to: str) -> None:
    recorded.write("fleetlore.toml", f'log = "sqlite:a.db"\n[ship]\nto = "{to}"\n')
    assert recorded("config", "show", "--json", code=0).json["ship.to"]["value"].endswith(to.removeprefix("sqlite:"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('log = "sqlite:a.db"\n[ship]\nfull = false', "ship.to: the target is missing"),
        ("log = 'sqlite:a.db'\n[ship]\nto = 7", "ship.to: the address of a log is needed"),
        ("log = 'sqlite:a.db'\n[ship]\nto = 'x'", "ship.to: the address of a log is needed"),
        ("log = 'sqlite:a.db'\n[ship]\nto = 'x:'\nfull = 1", "ship.full: true or false"),
        ("[ship]\ntoo = 'x:'", "unknown setting: ship.too"),
        ("ship = 1", "ship: a table is needed"),
    ],
)
def test_wrong_settings_of_shipping_are_named(recorded: Lore, content: str, reason: str) -> None:
    path = recorded.write("fleetlore.toml", content)
    result = recorded("config", "show", code=1)
    assert result.err.startswith(f"lore: {path}: ")
    assert reason in result.err
