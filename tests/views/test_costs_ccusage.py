"""Our costs beside those of ccusage on the same made-up transcripts: the same tokens, and the same dollars to the cent."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fleetlore.events.envelope import Event
from fleetlore.views import costs
from fleetlore.views.cost_sums import sum_by, sum_total
from fleetlore.views.prices_table import PRICE_ROWS
from tests.patience import PATIENCE

PROGRAM = os.environ.get("FLEETLORE_CCUSAGE") or shutil.which("ccusage")
START = datetime(2026, 10, 1, 9, tzinfo=UTC)
CLAUDES = tuple(row.split()[1] for row in PRICE_ROWS.split("\n") if row.startswith("anthropic"))
# Names as ccusage's own list has them, where it does not know the short one.
DATED = {
    "claude-3-haiku": "claude-3-haiku-20240307",
    "claude-3-sonnet": "claude-3-sonnet-20240229",
    "claude-3-opus": "claude-3-opus-20240229",
    "claude-3-5-haiku": "claude-3-5-haiku-20241022",
    "claude-3-5-sonnet": "claude-3-5-sonnet-20241022",
    "claude-3-7-sonnet": "claude-3-7-sonnet-20250219",
    "claude-4-sonnet": "claude-4-sonnet-20250514",
    "claude-4-opus": "claude-4-opus-20250514",
}
MODELS = (
    *(DATED.get(model, model) for model in CLAUDES),
    "gpt-5",
    "gpt-5-mini",
    "gpt-5.1-codex",
    "gpt-5.3-codex",
    "gpt-4.1",
    "gpt-4o",
    "gemini-2.5-flash",
)

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no ccusage here: npm install ccusage, or set FLEETLORE_CCUSAGE to the program")


class Answer(NamedTuple):
    """One answer of a model: who asked, and its final usage."""

    n: int
    session: str
    helper: str | None
    model: str
    input: int
    output: int
    cache_read: int
    cache_write: int
    cache_write_1h: int

    @property
    def at(self) -> datetime:
        return START + timedelta(hours=3 * self.n)

    def row(self, output: int) -> dict[str, Any]:
        """As Claude Code writes it down, which it does again and again while it streams."""
        usage = {
            "input_tokens": self.input,
            "output_tokens": output,
            "cache_read_input_tokens": self.cache_read,
            "cache_creation_input_tokens": self.cache_write,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.cache_write - self.cache_write_1h,
                "ephemeral_1h_input_tokens": self.cache_write_1h,
            },
        }
        message = {"id": f"msg_{self.n}", "type": "message", "role": "assistant", "model": self.model, "content": [], "usage": usage}
        return {
            "type": "assistant",
            "uuid": f"{self.n}-{output}",
            "isSidechain": self.helper is not None,
            "sessionId": self.session,
            "requestId": f"req_{self.n}",
            "timestamp": self.at.isoformat().replace("+00:00", ".000Z"),
            "version": "2.1.39",
            "cwd": "/home/ada/app",
            "message": message,
        }

    def event(self) -> Event:
        names = ("model", "input", "output", "cache_read", "cache_write", "cache_write_1h")
        data = {name: getattr(self, name) for name in names} | {"message_id": f"msg_{self.n}", "request_id": f"req_{self.n}"}
        return Event(kind="model.replied", at=self.at, agent=self.helper or self.session, run=self.session, data=data)


def answers() -> list[Answer]:
    """Four of each model, of all sizes; the largest reads more than 200,000 tokens."""
    recorded = []
    for n in range(4 * len(MODELS)):
        size, session = n // len(MODELS), f"{n % 3:08d}-0000-4000-8000-000000000000"
        write = (0, 700, 45_000, 120_000)[size] + n
        recorded.append(
            Answer(
                n=n,
                session=session,
                helper="a1b2c3" if n % 5 == 0 else None,
                model=MODELS[n % len(MODELS)],
                input=(3, 1_200, 60_000, 230_000)[size] + 7 * n,
                output=(1, 450, 8_000, 31_000)[size] + n,
                cache_read=(0, 20_000, 90_000, 260_000)[size] + 11 * n,
                cache_write=write,
                cache_write_1h=write // 3 if n % 2 else 0,
            )
        )
    return recorded


def write_down(folder: Path, recorded: list[Answer]) -> None:
    for answer in recorded:
        path = folder / "projects" / "-work-app" / f"{answer.session}.jsonl"
        if answer.helper:
            path = path.with_suffix("") / "subagents" / f"agent-{answer.helper}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            for output in (1, answer.output // 2 or 1, answer.output):
                file.write(json.dumps(answer.row(output), separators=(",", ":")) + "\n")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("claude")
    write_down(folder, answers())
    environ = os.environ | {"CLAUDE_CONFIG_DIR": str(folder), "HOME": str(folder), "LOG_LEVEL": "0"}
    argv = [PROGRAM or "", "claude", "daily", "--json", "--offline", "--breakdown", "--timezone", "UTC"]
    return json.loads(subprocess.run(argv, env=environ, check=True, capture_output=True, timeout=PATIENCE).stdout)


@pytest.fixture(scope="module")
def ours() -> costs.Spending:
    spending = costs.initial()
    for answer in answers():
        spending = costs.apply(spending, answer.event())
    return spending


def test_the_totals_are_those_of_ccusage(ours: costs.Spending, theirs: Any) -> None:
    amount, counted = sum_total(ours), theirs["totals"]
    assert (amount.input, amount.output) == (counted["inputTokens"], counted["outputTokens"])
    assert (amount.cache_read, amount.cache_write) == (counted["cacheReadTokens"], counted["cacheCreationTokens"])
    assert amount.usd == pytest.approx(counted["totalCost"], abs=0.01)


def test_every_model_and_every_day_costs_what_it_costs_there(ours: costs.Spending, theirs: Any) -> None:
    models: dict[str, float] = {}
    for day in theirs["daily"]:
        for model in day["modelBreakdowns"]:
            models[model["modelName"]] = models.get(model["modelName"], 0.0) + model["cost"]
    assert {model: amount.usd for model, amount in sum_by(ours, "model").items()} == pytest.approx(models, abs=0.001)
    days = {day["date"]: day["totalCost"] for day in theirs["daily"]}
    assert {day: amount.usd for day, amount in sum_by(ours, "day").items()} == pytest.approx(days, abs=0.001)
