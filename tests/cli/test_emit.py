"""`lore emit`: one event from the arguments, many from standard input."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.running import Lore

ID = "0190f3a0-0000-7000-8000-000000000001"


def test_an_event_is_stored_and_its_position_printed(lore: Lore) -> None:
    first = lore("emit", "fleet.commit", "--agent", "ada", "--text", "parser fixed", code=0)
    second = lore("emit", "fleet.push", "--agent", "ada", code=0)
    assert first.lines[0] < second.lines[0]
    [commit, push] = lore("events", "--json").ndjson
    assert (commit["kind"], commit["agent"], commit["text"], commit["position"]) == ("fleet.commit", "ada", "parser fixed", first.lines[0])
    assert push["position"] == second.lines[0]


def test_every_field_can_be_given(lore: Lore) -> None:
    fields = {
        "actor": "ada", "agent": "b", "parent": "c", "child": "d", "task": "t", "mission": "m", "goal": "g", "run": "r",
        "cause": ID, "trace": "00-" + "a" * 32 + "-" + "b" * 16 + "-01", "old-state": "idle", "new-state": "busy", "text": "-- hm",
        "visibility": "private", "at": "2026-11-15T20:00:00.5+01:00", "id": ID.upper(),
    }  # fmt: skip
    options = [f"--{name}={value}" for name, value in fields.items()]
    event = lore("emit", "deploy.started", *options, "--data", '{"a": [1, null]}', "--json", code=0).json
    expected: dict[str, object] = {name.replace("-", "_"): value for name, value in fields.items()}
    expected |= {"at": "2026-11-15T19:00:00.500000Z", "id": ID, "kind": "deploy.started", "data": {"a": [1, None]}, "v": 1}
    assert event == expected | {"position": event["position"]}


def test_who_did_it_is_the_agent_else_the_user(lore: Lore) -> None:
    assert lore("emit", "fleet.idle", "--agent", "ada", "--json").json["actor"] == "ada"
    assert lore("emit", "fleet.idle", "--json").json["actor"] == "grace"


def test_the_same_id_again_stores_nothing_and_answers_with_the_first_position(lore: Lore) -> None:
    first = lore("emit", "fleet.commit", "--id", ID, code=0)
    lore("emit", "fleet.push", code=0)
    assert lore("emit", "fleet.commit", "--id", ID, code=0).out == first.out
    assert len(lore("events", "--json", "--all").lines) == 2


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["fleet.commit", "--at", "soon"], "not a time: 'soon'"),
        (["fleet.commit", "--visibility", "secret"], "--visibility: unknown choice: 'secret'; choose from 'public'"),
        (["fleet.commit", "--text"], "--NAME=VALUE"),
        (["-", "--agent", "ada"], "--agent does not go with -"),
        ([], "KIND"),
    ],
)
def test_bad_arguments_are_refused_with_a_reason_and_nothing_is_stored(lore: Lore, argv: list[str], reason: str) -> None:
    result = lore("emit", *argv, code=2)
    assert reason in result.err
    assert result.out == ""
    lore("emit", "fleet.idle", code=0)
    assert len(lore("events", "--json").lines) == 1


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["fleet"], "'fleet' is not a valid event kind"),
        (["fleet.commit", "--data", "{"], "--data: is not valid JSON"),
        (["fleet.commit", "--data", "[1]"], "--data: a JSON object is needed"),
        (["tool.called", "--data", "{}"], "$.data: Object missing required field `tool`"),
        (["fleet.commit", "--id", "7"], "--id: not a UUID"),
        (["fleet.commit", "--cause", "7"], "$.cause"),
        (["fleet.commit", "--task", ""], "$.task"),
        (["fleet.commit", "--text", "\udcff"], "cannot be written as JSON"),
    ],
)
def test_an_event_that_is_refused_is_kept_as_one_rejection_however_often(lore: Lore, argv: list[str], reason: str) -> None:
    for _ in range(2):
        result = lore("emit", *argv, code=2)
        assert reason in result.err
        assert result.out == ""
    [line] = lore("events", "--json").lines
    event = json.loads(line)
    assert event["kind"] == "log.rejected"
    assert reason.replace("\udcff", "?") in event["data"]["reason"]
    assert argv[0] in event["data"]["sample"]


def test_lines_of_standard_input_are_stored_in_their_order(lore: Lore) -> None:
    events = [{"kind": "fleet.commit", "actor": "ada", "text": str(n)} for n in range(1200)]
    result = lore("emit", "-", stdin="\n".join(map(json.dumps, events)).encode(), code=0)
    assert result.err == "stored 1,200 · already there 0 · rejected 0\n"
    assert [event["text"] for event in lore("events", "--json", "--all").ndjson] == [str(n) for n in range(1200)]


def test_what_events_prints_can_be_emitted_into_another_log(lore: Lore) -> None:
    lore("emit", "fleet.commit", "--agent", "ada", "--data", '{"sha": "1"}')
    printed = lore("events", "--json").raw
    lore("emit", "-", "--log", "sqlite:other.db", stdin=printed, code=0)
    again = lore("emit", "-", "--log", "sqlite:other.db", "--json", stdin=printed, code=0)
    assert again.json == {"recorded": 0, "already_there": 1, "folded": 0, "rejected": 0, "forgotten": 0}
    assert lore("events", "--json", "--log", "sqlite:other.db").raw == printed


def test_bad_lines_become_rejections_with_number_and_reason_and_the_rest_goes_in(lore: Lore) -> None:
    lines = [
        b'{"kind":"fleet.commit","actor":"ada"}',
        b"",
        b"nonsense token=hunter2hunter2",
        b'{"kind":"fleet.commit","actor":"ada","colour":"red"}',
        b'{"kind":"tool.called","actor":"ada"}',
        b"\xff\xfe",
        b'{"kind":"fleet.push","actor":"ada"}',
    ]
    result = lore("emit", "-", "--json", stdin=b"\r\n".join(lines), code=3)
    assert result.json == {"recorded": 2, "already_there": 0, "folded": 0, "rejected": 4, "forgotten": 0}
    assert "stdin, line 3: not JSON" in result.err
    assert "stdin, line 4: unknown field `colour`; known fields: " in result.err
    rejected = {event["data"]["n"]: event for event in lore("events", "--json", "--kind", "log.rejected").ndjson}
    assert sorted(rejected) == [3, 4, 5, 6]
    assert rejected[3]["data"]["sample"] == "nonsense token=[redacted]"
    assert rejected[3]["actor"] == "lore"
    assert rejected[3]["visibility"] == "system"
    assert "tool" in rejected[5]["data"]["reason"]
    assert rejected[6]["data"] | {"reason": ""} == {
        "reason": "",
        "source": "stdin",
        "n": 6,
        "dialect": "fleetlore",
        "sample": "��",
        "bytes": 2,
    }


def test_many_rejections_are_reported_as_a_number(lore: Lore) -> None:
    result = lore("emit", "-", stdin=b"no\n" * 25, code=3)
    assert "… and 15 more" in result.err
    assert len(lore("events", "--json", "--kind", "log.rejected", "--all").lines) == 25


def test_a_slow_writer_is_not_kept_waiting_for_a_full_group(lore: Lore) -> None:
    """Each line is in the log while standard input is still open."""
    lore("emit", "fleet.idle")
    follower = lore.start("events", "--follow", "--json", stdout=subprocess.PIPE)
    writer = lore.start("emit", "-", stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert writer.stdin is not None
    assert follower.stdout is not None
    try:
        assert json.loads(follower.stdout.readline())["kind"] == "fleet.idle"
        writer.stdin.write(b'{"kind":"fleet.commit","actor":"ada"}\n')
        writer.stdin.flush()
        assert json.loads(follower.stdout.readline())["kind"] == "fleet.commit"
        assert writer.poll() is None
    finally:
        writer.stdin.close()
        follower.terminate()
        follower.communicate()
    assert writer.wait() == 0


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_log_file_that_is_gone_ends_it_with_the_number_of_stored_lines(lore: Lore, is_replaced: bool) -> None:
    path, copy = Path(os.environ["XDG_DATA_HOME"], "fleetlore", "fleet.db"), lore.folder / "backup.db"
    lore("emit", "fleet.idle")
    lore("backup", str(copy))
    follower = lore.start("events", "--follow", "--json", "--kind", "fleet.commit", stdout=subprocess.PIPE)
    writer = lore.start("emit", "-", stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert writer.stdin is not None
    assert follower.stdout is not None
    try:
        for _ in range(2):
            writer.stdin.write(b'{"kind":"fleet.commit","actor":"ada"}\n')
            writer.stdin.flush()
            follower.stdout.readline()
    finally:
        follower.terminate()
        follower.communicate()
    if is_replaced:
        copy.replace(path)
    else:
        path.unlink()
    _, said = writer.communicate(b'{"kind":"fleet.commit","actor":"ada"}\n')
    assert writer.returncode == 1
    # The follower may have been quicker than the writer's last look at the file, but not with the first line.
    assert re.match(r"stored [12] · already there 0 · rejected 0\n", said.decode())
    assert f"{path}: was {'replaced' if is_replaced else 'deleted'}" in said.decode()


def test_only_ship_says_from_where_an_event_was_shipped(lore: Lore) -> None:
    place = {"id": "0b1c", "position": "0000000000000009"}
    lines = [
        {"kind": "fleet.idle", "actor": "ada", "origin": {"dialect": "fleetlore", "log": place}},
        {"kind": "fleet.idle", "actor": "ada", "origin": {"dialect": "nexus", "n": 3, "log": place}},
        {"kind": "fleet.idle", "actor": "ada"},
    ]
    result = lore("emit", "-", "--log", "sqlite:a.db", stdin="".join(f"{json.dumps(line)}\n" for line in lines).encode(), code=0)
    assert "lore: origin.log was left out of 2 events: only `lore ship` says" in result.err
    stored = lore("events", "--all", "--json", "--log", "sqlite:a.db", code=0).ndjson
    assert [event.get("origin") for event in stored] == [None, {"dialect": "nexus", "n": 3}, None]
    assert "no source is called '0b1c'" in lore("events", "--all", "--log", "sqlite:a.db", "--scope", "source:0b1c", code=2).err


@pytest.mark.parametrize(
    ("wrong", "right"), [("time", "at"), ("type", "kind"), ("colour", None), ("agnet", "agent"), ("session_id", "run")]
)
def test_an_unknown_field_is_answered_with_the_one_that_was_meant(lore: Lore, wrong: str, right: str | None) -> None:
    result = lore("emit", "-", stdin=json.dumps({"kind": "a.b", wrong: "x"}).encode() + b"\n")
    assert f"unknown field `{wrong}`" in result.err
    assert (f"did you mean `{right}`?" if right else "`data`") in result.err


def test_a_thousand_rejections_in_a_row_end_it(lore: Lore) -> None:
    wrong, right = b'{"kind": "a.b", "time": "x"}\n', b'{"kind": "fleet.commit", "agent": "ada"}\n'
    result = lore("emit", "-", "--json", stdin=right + wrong * 999 + right + wrong * 3000)
    assert "1,000 lines in a row were rejected" in result.err
    assert result.json["rejected"] == 1999


TRACE = "00-" + "c" * 32 + "-" + "d" * 16 + "-01"


@pytest.mark.parametrize(
    ("inherited", "given", "stored"),
    [
        (TRACE, [], TRACE),
        ("not a trace", [], None),
        ("00-" + "c" * 32, [], None),
        (TRACE, ["--trace", TRACE.replace("c", "e")], TRACE.replace("c", "e")),
    ],
)
def test_the_trace_is_inherited_from_the_environment(
    lore: Lore, monkeypatch: pytest.MonkeyPatch, inherited: str, given: list[str], stored: str | None
) -> None:
    monkeypatch.setenv("TRACEPARENT", inherited)
    assert lore("emit", "fleet.commit", "--agent", "ada", "--json", *given, "--log", "sqlite:trace.db", code=0).json.get("trace") == stored
