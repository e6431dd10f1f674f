"""`lore costs`: what it adds up, how it looks, for which part of the log, and with whose prices."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleetlore.views.prices_table import PRICES_DATE
from tests.cli.running import Lore

OPUS = {"model": "claude-opus-4-8", "input": 1_200, "output": 300, "cache_read": 120_000, "cache_write": 2_000}
HAIKU = {"model": "claude-haiku-4-5", "input": 1_000, "output": 200}
MYSTERY = {"model": "mystery-9", "input": 10, "output": 5}


def event(kind: str, at: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "at": f"2026-11-{at}:00Z", **fields}


@pytest.fixture
def recorded(lore: Lore) -> Lore:
    """Two sessions of two projects on two days, one of them with a helper, and an agent without a session."""
    one, two = {"agent": "claude-code/11111111", "run": "r1"}, {"agent": "claude-code/22222222", "run": "r2"}
    events = [
        event("model.replied", "14T22:50", **one, data=OPUS),
        event("session.started", "14T22:45", **one, data={"project": "app", "branch": "main", "person": "mira"}),
        event("prompt.submitted", "14T22:46", **one, text="Fix the parser", task="t7"),
        event("agent.launched", "14T22:51", **one, child="a1b2c3d", data={"role": "Explore", "prompt": "Find it"}),
        event("model.replied", "14T23:30", agent="a1b2c3d", parent="claude-code/11111111", run="r1", data=HAIKU),
        event("session.started", "15T08:00", **two, data={"project": "web"}),
        event("model.replied", "15T08:01", **two, mission="m1", data=HAIKU | {"usd": 2.5}),
        event("model.replied", "15T09:00", agent="bo", data=MYSTERY),
    ]
    lore("emit", "-", stdin="".join(json.dumps(each) + "\n" for each in events).encode(), code=0)
    return lore


def sums(result: Any, dimension: str) -> dict[str | None, float | None]:
    return {row[dimension]: row["usd"] for row in result["by"]}


def test_the_bill_for_programs_has_the_total_and_every_day(recorded: Lore) -> None:
    bill = recorded("costs", "--json", code=0).json
    assert bill["total"] == {"input": 3_210, "output": 705, "cache_read": 120_000, "cache_write": 2_000, "usd": 2.588}
    assert bill["by"] == [
        {"day": "2026-11-14", "input": 2_200, "output": 500, "cache_read": 120_000, "cache_write": 2_000, "usd": 0.088},
        {"day": "2026-11-15", "input": 1_010, "output": 205, "cache_read": 0, "cache_write": 0, "usd": 2.5},
    ]
    assert bill["unpriced"] == {"mystery-9": 15}
    assert bill["prices"] == PRICES_DATE


@pytest.mark.parametrize(
    ("dimension", "expected"),
    [
        ("agent", {"claude-code/22222222": 2.5, "claude-code/11111111": 0.086, "a1b2c3d": 0.002, "bo": None}),
        ("model", {"claude-haiku-4-5": 2.502, "claude-opus-4-8": 0.086, "mystery-9": None}),
        ("task", {None: 2.5, "t7": 0.088}),
        ("session", {"r2": 2.5, "r1": 0.088, None: None}),
        ("project", {"web": 2.5, "app": 0.088, None: None}),
        ("person", {None: 2.5, "mira": 0.088}),
    ],
)
def test_it_adds_up_by_anything_the_dearest_first(recorded: Lore, dimension: str, expected: dict[str | None, float | None]) -> None:
    bill = recorded("costs", "--by", dimension, "--json", code=0).json
    assert list(sums(bill, dimension).items()) == list(expected.items())
    assert bill["total"]["usd"] == 2.588


def test_agents_are_shown_by_the_names_that_people_know(recorded: Lore) -> None:
    names = {row["agent"]: row["name"] for row in recorded("costs", "--by", "agent", "--json").json["by"]}
    assert names == {
        "claude-code/22222222": "web",
        "claude-code/11111111": "app@main: Fix the parser",
        "a1b2c3d": "Explore: Find it",
        "bo": "bo",
    }
    table = recorded("costs", "--by", "agent", code=0).out
    assert "app@main: Fix the parser  claude-code/11111111" in table


def test_the_table_aligns_figures_and_says_what_has_no_price(recorded: Lore) -> None:
    lines = recorded("costs", "--by", "model", code=0).lines
    assert lines[0].split() == ["MODEL", "INPUT", "OUTPUT", "CACHE", "READ", "CACHE", "WRITE", "USD"]
    assert lines[1].split() == ["claude-haiku-4-5", "2,000", "400", "0", "0", "2.50"]
    assert lines[2].split() == ["claude-opus-4-8", "1,200", "300", "120,000", "2,000", "0.0860"]
    assert lines[3].split() == ["mystery-9", "10", "5", "0", "0", "?"]
    assert lines[4].split() == ["TOTAL", "3,210", "705", "120,000", "2,000", "≥", "2.59"]
    assert len({len(line) for line in lines[:5]}) == 1
    assert f"Prices as of {PRICES_DATE}" in lines[6]
    assert "no price known for mystery-9 (15 tokens)" in lines[7]
    assert '[prices."mystery-9"]' in lines[8]


@pytest.mark.parametrize("columns", [60, 80, 140])
def test_on_a_terminal_figures_are_whole_and_names_are_cut(recorded: Lore, columns: int) -> None:
    shown = recorded.on_terminal("costs", "--by", "agent", columns=columns).out
    assert "120,000" in shown
    assert "2.50" in shown
    assert ("claude-code/11111111" in shown) == (columns > 100)


def test_hostile_names_reach_no_terminal(lore: Lore) -> None:
    data = {"model": "x\x1b[31m\x1b]0;y\x07", "input": 5, "output": 1}
    lore("emit", "model.replied", "--agent", "a", "--run", "r", "--data", json.dumps(data))
    lore("emit", "session.started", "--agent", "a", "--run", "r", "--data", json.dumps({"project": "p\x1b[2J"}))
    for dimension in ("model", "project", "agent"):
        assert "\x1b" not in lore("costs", "--by", dimension, code=0).out
        assert "\x1b]0" not in lore.on_terminal("costs", "--by", dimension).out


def test_days_are_those_of_the_time_zone(recorded: Lore) -> None:
    assert list(sums(recorded("costs", "--json", "--tz", "Europe/Berlin").json, "day")) == ["2026-11-14", "2026-11-15"]
    berlin = recorded("costs", "--json", "--tz", "Europe/Berlin", "--day", "2026-11-15", "--by", "model").json
    assert sums(berlin, "model") == {"claude-haiku-4-5": 2.502, "mystery-9": None}
    assert "unknown time zone" in recorded("costs", "--tz", "Mars/Base", code=2).err


def test_one_day_or_since_when(recorded: Lore) -> None:
    day = recorded("costs", "--day", "2026-11-14", "--by", "project", "--json").json
    assert (sums(day, "project"), day["unpriced"]) == ({"app": 0.088}, {})
    since = recorded("costs", "--since", "2026-11-14T23:00Z", "--by", "task", "--json").json
    assert sums(since, "task") == {"t7": 0.002, None: 2.5}, "the task was named before"
    assert "not a day" in recorded("costs", "--day", "someday", code=2).err
    assert recorded("costs", "--day", "today", "--since", "1d", code=2).err


@pytest.mark.parametrize(
    ("scope", "usd"),
    [
        ("task:t7", 0.088),
        ("run:r1", 0.088),
        ("agent:claude-code/11111111", 0.088),
        ("agent:a1b2c3d", 0.002),
        ("mission:m1", 2.5),
        ("town", 2.588),
        ("agent:app", 0.088),
        ("agent:11111111", 0.088),
    ],
)
def test_a_scope_counts_what_belongs_to_it(recorded: Lore, scope: str, usd: float) -> None:
    assert recorded("costs", "--scope", scope, "--json", code=0).json["total"]["usd"] == usd


def test_a_scope_and_a_day_together(recorded: Lore) -> None:
    assert recorded("costs", "--scope", "task:t7", "--day", "2026-11-15", "--json", code=0).json["by"] == []
    assert "unknown scope" in recorded("costs", "--scope", "planet:x", code=2).err


def test_prices_of_ones_own_take_the_tables_place(recorded: Lore) -> None:
    before = recorded("costs", "--json").json["total"]["usd"]
    recorded.write(
        "../home/.config/fleetlore/fleetlore.toml",
        '[prices."mystery-9"]\ninput = 1.0\noutput = 2.0\n[prices."claude-opus-4-8"]\ninput = 9\noutput = 9\n',
    )
    recorded.write("fleetlore.toml", '[prices."mystery-9"]\ninput = 100.0\noutput = 200.0\n')
    bill = recorded("costs", "--by", "model", "--json", code=0).json
    assert sums(bill, "model")["mystery-9"] == 0.002, "the project's wins over the user's"
    assert sums(bill, "model")["claude-opus-4-8"] != 0.086
    assert (bill["unpriced"], before) == ({}, 2.588)
    assert "2 of your own" in recorded("costs").out
    settings = recorded("config", "show", "--json").json["prices"]
    assert settings["value"]["mystery-9"] == {"input": 100.0, "output": 200.0}
    shown = recorded("config").out
    assert "mystery-9: input 100, output 200" in shown


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("prices = 1", "prices: a table is needed"),
        ("[prices]\nx = 1", 'prices."x": a table is needed'),
        ("[prices.x]\ninput = 1", 'prices."x".output: is missing'),
        ("[prices.x]\ninput = 1\noutput = 2\ninptu = 3", 'unknown setting: prices."x".inptu'),
        ("[prices.x]\ninput = '1'\noutput = 2", 'prices."x".input: US dollars'),
        ("[prices.x]\ninput = true\noutput = 2", 'prices."x".input: US dollars'),
        ("[prices.x]\ninput = -1\noutput = 2", 'prices."x".input: US dollars'),
        ("[prices.x]\ninput = nan\noutput = 2", 'prices."x".input: US dollars'),
        ("[prices.x]\ninput = 1\noutput = inf", 'prices."x".output: US dollars'),
    ],
)
def test_a_wrong_price_is_an_error_that_names_it(lore: Lore, content: str, reason: str) -> None:
    path = lore.write("fleetlore.toml", content)
    result = lore("costs", code=1)
    assert result.err.startswith(f"lore: {path}: ")
    assert reason in result.err


def test_a_log_without_answers_says_how_to_get_some(lore: Lore) -> None:
    assert "lore import claude-code" in lore("costs", code=0).out
    empty = {
        "total": {"input": 0, "output": 0, "cache_read": 0, "cache_write": 0, "usd": 0.0},
        "by": [],
        "unpriced": {},
        "prices": PRICES_DATE,
    }
    assert lore("costs", "--json", code=0).json == empty
    lore("emit", "fleet.commit", "--agent", "ada")
    assert "No model has answered yet" in lore("costs", code=0).out
    assert "No model answered in the part" in lore("costs", "--day", "today", code=0).out
    assert "there is no log yet" in lore("costs", "--log", "sqlite:slip.db", code=1).err


def test_what_was_folded_before_is_used_with_the_same_prices_only(lore: Lore) -> None:
    line = json.dumps(event("model.replied", "14T10:00", agent="a", run="r", data=HAIKU)) + "\n"
    lore("emit", "-", stdin=(line * 1_500).encode(), code=0)
    first = lore("costs", "--json", code=0).json
    lore("emit", "model.replied", "--agent", "a", "--data", json.dumps(HAIKU))
    assert first["total"]["input"] == 1_500_000
    assert lore("costs", "--json", code=0).json["total"]["input"] == 1_501_000
    lore.write("fleetlore.toml", '[prices."claude-haiku-4-5"]\ninput = 0\noutput = 0\n')
    assert lore("costs", "--json", code=0).json["total"] == {
        "input": 1_501_000,
        "output": 300_200,
        "cache_read": 0,
        "cache_write": 0,
        "usd": 0.0,
    }


@pytest.fixture
def crowded(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> Lore:
    """So many sessions, a task and a project each, that only the newest are held one by one."""
    monkeypatch.setattr("fleetlore.views.costs.PRUNED_EVERY", 5)
    monkeypatch.setattr("fleetlore.views.costs.Costs.__init__.__kwdefaults__", {"most_held": 10})
    events = []
    for number in range(50):
        own = {"agent": "ada", "run": f"r{number}"}
        events += [
            event("session.started", f"14T10:{number:02}", **own, data={"project": f"p{number % 2}"}),
            event("model.replied", f"14T10:{number:02}", **own, task=f"t{number}", data=HAIKU | {"usd": 1}),
        ]
    lore("emit", "-", stdin="".join(json.dumps(each) + "\n" for each in events).encode(), code=0)
    return lore


def test_every_task_and_session_is_reported_however_many_there_were(crowded: Lore) -> None:
    for dimension, letter in (("task", "t"), ("session", "r")):
        bill = crowded("costs", "--by", dimension, "--json", code=0).json
        assert sums(bill, dimension) == {f"{letter}{number}": 1 for number in range(50)}
        assert bill["total"]["usd"] == 50


@pytest.mark.parametrize("scope", ["task:t0", "run:r0"])
def test_what_the_oldest_cost_can_be_asked_for(crowded: Lore, scope: str) -> None:
    assert crowded("costs", "--scope", scope, "--json", code=0).json["total"]["usd"] == 1


def test_projects_of_a_part_are_those_of_the_sessions_in_it(crowded: Lore) -> None:
    assert sums(crowded("costs", "--by", "project", "--scope", "agent:ada", "--json", code=0).json, "project") == {"p0": 25, "p1": 25}
    assert sums(crowded("costs", "--by", "project", "--json", code=0).json, "project") == {"p0": 25, "p1": 25}


def test_weeks_months_and_pull_requests(recorded: Lore) -> None:
    linked = event(
        "claude_code.pr_link", "15T08:02", agent="claude-code/22222222", run="r2", data={"prNumber": 12, "prRepository": "a/web"}
    )
    recorded("emit", "-", stdin=(json.dumps(linked) + "\n").encode(), code=0)
    assert set(sums(recorded("costs", "--by", "week", "--json", code=0).json, "week")) == {"2026-11-09"}
    assert set(sums(recorded("costs", "--by", "month", "--json", code=0).json, "month")) == {"2026-11"}
    assert sums(recorded("costs", "--by", "pull_request", "--json", code=0).json, "pull_request")["a/web#12"] == 2.5


def test_sessions_have_their_names(recorded: Lore) -> None:
    rows = recorded("costs", "--by", "session", "--json", code=0).json["by"]
    assert {row["session"]: row["name"] for row in rows}["r1"] == "Fix the parser"


def test_the_status_line_has_the_session_and_today(recorded: Lore) -> None:
    more = {"kind": "model.replied", "agent": "claude-code/11111111", "run": "r1", "data": HAIKU | {"usd": 1.5}}
    recorded("emit", "-", stdin=json.dumps(more).encode() + b"\n", code=0)
    line = recorded("statusline", stdin=b'{"session_id": "r1"}', code=0).out
    assert line.startswith("$1.59 session · context ")
    assert "$1.50 today" in line


@pytest.mark.parametrize("given", [b"", b"[]", b"no json", b'{"session_id": 7}', b'{"session_id": "unknown"}'])
def test_the_status_line_never_fails(recorded: Lore, given: bytes) -> None:
    assert recorded("statusline", stdin=given, code=0).err == ""
