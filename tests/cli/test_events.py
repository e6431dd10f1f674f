"""`lore events`: reading back and following."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

import pytest

from fleetlore.cli.events import DEFAULT_LAST
from tests.cli.running import Lore


def emit_many(lore: Lore, count: int, **fields: Any) -> None:
    lines = (json.dumps({"kind": "fleet.commit", "actor": "ada", "text": str(n)} | fields) for n in range(count))
    lore("emit", "-", stdin="\n".join(lines).encode(), code=0)


def shown_texts(lore: Lore, *argv: str) -> list[str]:
    return [line.split()[-1] for line in lore("events", *argv, code=0).lines]


def texts(lore: Lore, *argv: str) -> list[str]:
    return [event.get("text") for event in lore("events", "--json", *argv, code=0).ndjson]


def test_the_newest_are_shown_oldest_first(lore: Lore) -> None:
    emit_many(lore, 50)
    assert shown_texts(lore) == [str(n) for n in range(50 - DEFAULT_LAST, 50)]
    assert texts(lore) == [str(n) for n in range(50)]  # in a pipe a program gets everything
    assert texts(lore, "--last", "3") == ["47", "48", "49"]
    assert texts(lore, "--last", "0") == []
    assert len(texts(lore, "--all")) == 50


def test_scope_and_kinds_choose(lore: Lore) -> None:
    lore("emit", "fleet.commit", "--agent", "ada", "--task", "t1", "--text", "1")
    lore("emit", "fleet.push", "--agent", "bob", "--task", "t1", "--text", "2")
    lore("emit", "tool.called", "--agent", "ada", "--data", '{"tool":"Bash"}', "--text", "3")
    assert texts(lore, "--scope", "agent:ada") == ["1", "3"]
    assert texts(lore, "--scope", "task:t1") == ["1", "2"]
    assert texts(lore, "--kind", "fleet.*") == ["1", "2"]
    assert texts(lore, "--kind", "fleet.push", "--kind", "tool.called") == ["2", "3"]


def test_since_shows_all_from_then_on(lore: Lore) -> None:
    emit_many(lore, 5, at="2020-01-01T00:00:00Z")
    emit_many(lore, 30)
    assert len(texts(lore, "--since", "2h")) == 30
    assert len(texts(lore, "--since", "2019-12-31")) == 35
    assert texts(lore, "--since", "2h", "--last", "1") == ["29"]


def test_in_a_pipe_there_are_plain_columns(lore: Lore) -> None:
    lore("emit", "fleet.commit", "--agent", "ada", "--task", "t7", "--mission", "m", "--text", "parser\nfixed", "--at", "2026-11-15T20:00Z")
    lore("emit", "town.heartbeat", "--actor", "bob", "--old-state", "idle", "--new-state", "working", "--at", "2026-11-15T20:01Z")
    lore("emit", "tool.called", "--actor", "bob", "--data", '{"tool":"Bash","input":{}}', "--at", "2026-11-15T20:02Z")
    assert lore("events", "--utc").lines == [
        "2026-11-15T20:00:00+00:00  ada             fleet.commit          task:t7 mission:m  parser fixed",
        "2026-11-15T20:01:00+00:00  bob             town.heartbeat        -  idle → working",
        "2026-11-15T20:02:00+00:00  bob             tool.called           -  tool=Bash",
    ]


def test_on_a_terminal_there_is_colour_a_heading_a_day_and_a_word_on_what_is_missing(lore: Lore) -> None:
    emit_many(lore, 30, at="2026-11-15T20:00:00Z")
    shown = lore.on_terminal("events", "--utc").out
    assert "── Sunday 15 November 2026" in shown
    assert f"the newest {DEFAULT_LAST} are shown" in shown
    assert "are shown" not in lore.on_terminal("events", "--last", "5").out
    assert "no such events yet" in lore.on_terminal("events", "--kind", "town.*").out


def test_an_agent_keeps_its_colour(lore: Lore) -> None:
    for agent in ("ada", "bob", "ada"):
        lore("emit", "fleet.commit", "--agent", agent)
    _, first, other, second = lore.on_terminal("events").out.splitlines()
    colour = first.split("ada")[0].rpartition("\x1b")[2]
    assert second.split("ada")[0].rpartition("\x1b")[2] == colour
    assert other.split("bob")[0].rpartition("\x1b")[2] != colour


@pytest.mark.parametrize("options", [["--json"], []])
def test_a_follower_sees_what_another_process_appends_and_ends_well_on_ctrl_c(lore: Lore, options: list[str]) -> None:
    lore("emit", "fleet.commit", "--agent", "ada", "--text", "before")
    process = lore.start("events", "--follow", "--kind", "fleet.*", *options, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert b"before" in process.stdout.readline()
    lore("emit", "town.heartbeat", "--agent", "ada", "--text", "of another kind")
    lore("emit", "fleet.commit", "--agent", "ada", "--text", "after")
    assert b"after" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    rest, said = process.communicate()
    assert (process.returncode, rest, said) == (0, b"", b"")


def test_a_follower_may_come_before_the_log(lore: Lore) -> None:
    process = lore.start("events", "--follow", "--scope", "agent:ada", "--json", stdout=subprocess.PIPE)
    assert process.stdout is not None
    lore("emit", "fleet.commit", "--agent", "bob")
    lore("emit", "fleet.commit", "--agent", "ada")
    assert json.loads(process.stdout.readline())["agent"] == "ada"
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 0


LONG = "All work and no play. " * 2000


def emit_long(lore: Lore) -> None:
    lore(
        "emit", "-", stdin=json.dumps({"kind": "tool.returned", "actor": "ada", "data": {"tool": "Bash", "output": LONG}}).encode(), code=0
    )


def test_whole_prints_what_was_cut(lore: Lore) -> None:
    emit_long(lore)
    [cut], [whole] = lore("events", "--json", code=0).ndjson, lore("events", "--json", "--whole", code=0).ndjson
    assert (len(cut["data"]["output"]), whole["data"]["output"]) == (16 * 1024, LONG)
    assert whole["position"] == cut["position"]
    assert "needs --json" in lore("events", "--whole", code=2).err


def test_whole_texts_can_be_turned_off(lore: Lore) -> None:
    lore.write("fleetlore.toml", "[retention]\nwhole_texts = false\n")
    emit_long(lore)
    [event] = lore("events", "--json", "--whole", code=0).ndjson
    assert len(event["data"]["output"]) == 16 * 1024


def test_last_and_all_are_not_given_together(lore: Lore) -> None:
    assert "--last and --all do not go together" in lore("events", "--all", "--last", "5", code=2).err
