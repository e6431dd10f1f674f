"""Budgets and limits: how much of them is used."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fleetlore import Event
from fleetlore import settings as config
from fleetlore.errors import ConfigError
from fleetlore.operations.context import open_context
from fleetlore.operations.costs import ReadCosts, measure_budgets, read_costs
from fleetlore.programs import registry
from fleetlore.settings import Setting
from fleetlore.views.costs import Costs

NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)  # a Wednesday


def spend(at: datetime, usd: float) -> Event:
    return Event(kind="model.replied", agent="ada", actor="ada", run="r1", at=at, data={"model": "m", "input": 1, "output": 1, "usd": usd})


def test_a_budget_counts_its_own_day_week_or_month() -> None:
    costs = Costs()
    spending = costs.initial()
    for at, usd in ((NOW, 1.0), (NOW - timedelta(days=2), 2.0), (NOW - timedelta(days=10), 4.0), (NOW - timedelta(days=40), 8.0)):
        spending = costs.apply(spending, spend(at, usd))
    settings = config.load_settings(environ={})._replace(cost_budgets=Setting({"day": 2.0, "week": 5.0, "month": 5.0}, "test"))
    used = {budget.period: (budget.used_usd, budget.expected_usd) for budget in measure_budgets(spending, settings, NOW, UTC)}
    assert used["day"] == (1.0, 2.0)
    assert used["week"][0] == 3.0
    assert used["month"][0] == 7.0


@pytest.mark.parametrize("text", ["[budget]\nday = 0", "[budget]\nday = 'much'", "[budget]\nyear = 5", "[budget]\nday = true"])
def test_a_budget_that_is_none_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    file = tmp_path / "fleetlore" / "fleetlore.toml"
    file.parent.mkdir()
    file.write_text(text)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="budget"):
        config.load_settings()


@pytest.mark.parametrize(
    "limits",
    [
        {"primary_used_percent": 35.0, "primary_window_minutes": 299, "secondary_used_percent": 10.0, "secondary_window_minutes": 10079},
        {
            "primary": {"used_percent": 35.0, "window_minutes": 299, "resets_at": 1795000000},
            "secondary": {"used_percent": 10, "window_minutes": 10079},
        },
    ],
)
def test_limits_of_a_plan_are_read_from_a_recording(tmp_path: Path, limits: dict[str, object]) -> None:
    usage = {"input_tokens": 10, "cached_input_tokens": 0, "output_tokens": 5, "reasoning_output_tokens": 0, "total_tokens": 15}

    rows = [
        {"type": "session_meta", "payload": {"id": "01997ea4-a70d-7da3-8c20-c736db82a7c5", "cwd": "/w", "originator": "codex_cli_rs"}},
        {"type": "event_msg", "payload": {"type": "user_message", "message": "Fix it"}},
        {
            "type": "event_msg",
            "payload": {"type": "token_count", "info": {"total_token_usage": usage, "last_token_usage": usage}, "rate_limits": limits},
        },
    ]
    reader = registry.require_program("codex").load_recording().open(None)
    events: list[Event] = []
    for row in rows:
        events += reader.read(json.dumps({"timestamp": "2026-11-18T10:00:00.000Z", **row}).encode())
    events += reader.end()
    with open_context(log=f"sqlite:{tmp_path}/fleet.db", actor="mira") as context:
        context.log.append(events)
        found = read_costs(context, ReadCosts(by="day")).limits
    assert [(limit.window_minutes, limit.used_percent) for limit in found] == [(299, 35.0), (10079, 10.0)]


def a_session_with_two_commits() -> list[Event]:
    """A dollar before each commit, then one that leads to none; in the first turn two files are edited, in the last none."""
    who: dict[str, str] = {"agent": "ada", "actor": "ada", "run": "r1"}
    events: list[Event] = []

    def add(kind: str, **fields: object) -> None:
        at = NOW + timedelta(seconds=len(events))
        events.append(Event(kind=kind, at=at, **who, **fields))  # type: ignore[arg-type]

    def call(tool: str, output: str, **given: str) -> None:
        id = f"00000000-0000-4000-8000-{len(events):012}"
        add("tool.called", id=id, data={"tool": tool, "input": given})
        add("tool.returned", cause=id, data={"tool": tool, "output": output})

    add("session.started", data={"cwd": "/w/shop", "project": "shop", "program": "claude-code"})
    for files, sha in ((("a.py", "b.py"), "1a2b3c4"), (("a.py",), "5d6e7f8"), ((), "")):
        add("prompt.submitted", data={"prompt": "Go on"})
        for name in files:
            call("Edit", "ok", file_path=f"/w/shop/{name}", old_string="x", new_string="y")
        add("model.replied", data={"model": "m", "input": 10, "output": 2, "usd": 1.0})
        if sha:
            call("Bash", f"[main {sha}] Change {sha}\n 1 file changed", command=f"git commit -am 'Change {sha}'")
    return events


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("commit", {"1a2b3c4 Change 1a2b3c4": 1.0, "5d6e7f8 Change 5d6e7f8": 1.0, None: 1.0}),
        ("file", {"a.py": 1.5, "b.py": 0.5, None: 1.0}),
    ],
)
def test_costs_by_commit_and_file_name_what_cannot_be_attributed(tmp_path: Path, by: str, expected: dict[str | None, float]) -> None:
    with open_context(log=f"sqlite:{tmp_path}/fleet.db", actor="mira") as context:
        context.log.append(a_session_with_two_commits())
        page = read_costs(context, ReadCosts(by=by))
    assert {row[by]: row["usd"] for row in page.by} == expected
    assert page.total["usd"] == 3.0
