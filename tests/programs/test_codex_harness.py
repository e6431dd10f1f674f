"""Codex takes turns: a stand-in that prints what the real one does, and the real one against a stub of its API."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fleetlore import clock
from fleetlore.programs.codex.harness import CodexHarness
from fleetlore.programs.harness import RemainingBudget, TurnResult
from tests.patience import PATIENCE
from tests.programs.stubs.responses import DONE, HELP, SPAWN, Responses
from tests.programs.stubs.turns import OFFLINE, SESSION, Script, Watcher, order_for, serving

CODEX = os.environ.get("FLEETLORE_CODEX") or shutil.which("codex")
needs_codex = pytest.mark.skipif(CODEX is None, reason="needs Codex: `codex` on PATH, or its path in FLEETLORE_CODEX")
THREAD, HELPER = "01a1e38a-644d-7553-9640-2e29b93f0e0c", "01a1e38a-644d-7553-9640-2e29b93f0eaa"
STARTED, BEGUN = {"type": "thread.started", "thread_id": THREAD}, {"type": "turn.started"}
COMMAND = {"id": "item_1", "type": "command_execution", "command": "/bin/bash -lc 'make'", "aggregated_output": "", "status": "in_progress"}


def item(**fields: Any) -> dict[str, Any]:
    return {"type": "item.completed", "item": {"id": "item_2"} | fields}


def said(words: str) -> dict[str, Any]:
    return item(type="agent_message", text=words)


def completed(read: int = 100, wrote: int = 20) -> dict[str, Any]:
    return {"type": "turn.completed", "usage": {"input_tokens": read, "cached_input_tokens": 40, "output_tokens": wrote}}


def failed(words: str) -> list[dict[str, Any]]:
    return [{"type": "error", "message": words}, {"type": "turn.failed", "error": {"message": words}}]


def later_on() -> str:
    """When what is written while a turn lasts was written: after its beginning."""
    return (clock.now() + timedelta(minutes=5)).isoformat()


async def take(folder: Path, *steps: Any, watcher: Watcher | None = None, linger: float = 30.0, **fields: Any) -> TurnResult:
    environ = {"PATH": os.environ["PATH"], "CODEX_HOME": str(folder / "codex")}
    harness = CodexHarness(Script(folder, *steps).command, environ, linger=linger)
    return await harness.take_turn(order_for(folder, **fields), watcher or Watcher())


class Written:
    """A rollout as Codex writes it."""

    def __init__(self, home: Path, thread: str) -> None:
        self._path = home / "sessions" / "2026" / "11" / "16" / f"rollout-2026-11-16T08-00-00-{thread}.jsonl"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._thread, self._total = thread, 0
        self.add("2026-01-01T00:00:00Z", "session_meta", id=thread, cwd="/w", cli_version="0.166.0")

    def add(self, at: str, type: str, /, **payload: Any) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps({"timestamp": at, "type": type, "payload": payload}) + "\n")

    def reply(self, at: str, words: str, tokens: int) -> None:
        self._total += tokens
        last, total = ({"input_tokens": n - 10, "output_tokens": 10, "total_tokens": n} for n in (tokens, self._total))
        self.add(at, "turn_context", model="gpt-5.1-codex", cwd="/w")
        self.add(at, "response_item", type="message", role="assistant", content=[{"type": "output_text", "text": words}])
        self.add(at, "event_msg", type="token_count", info={"total_token_usage": total, "last_token_usage": last})


async def test_a_turn_without_a_rollout_is_reported_by_its_stream(tmp_path: Path) -> None:
    done = COMMAND | {"aggregated_output": "ok\n", "exit_code": 0, "status": "completed"}
    steps = [STARTED, BEGUN, {"type": "item.started", "item": COMMAND}, item(**done), said("Made."), completed()]
    watcher = Watcher()
    ended = await take(tmp_path, *steps, watcher=watcher, model="gpt-5.1-codex")
    assert (ended.how, ended.words, ended.error, ended.exit_code) == ("finished", "Made.", "", 0)
    assert (ended.session, ended.tokens, ended.usd, ended.model) == (THREAD, 120, None, "gpt-5.1-codex")
    assert watcher.kinds == ["session.started", "tool.called", "tool.returned", "model.replied", "session.turn_ended"]
    assert watcher.one("model.replied").data["model"] == "gpt-5.1-codex"


async def test_the_rollout_shows_it_better_and_only_what_is_new(tmp_path: Path) -> None:
    """The stream of a thread that is taken up counts what the turns before took."""
    rollout = Written(tmp_path / "codex", THREAD)
    rollout.reply("2026-01-01T00:00:01Z", "Before.", 5000)
    late = later_on()
    script = Script(tmp_path, STARTED, BEGUN, said("After."), completed(5190, 30))
    harness = CodexHarness(script.command, {"PATH": os.environ["PATH"], "CODEX_HOME": str(tmp_path / "codex")})

    class Writing(Watcher):
        async def __call__(self, received: Any) -> Any:
            if received.process:
                rollout.reply(late, "After.", 220)
            return await super().__call__(received)

    watcher = Writing()
    ended = await harness.take_turn(order_for(tmp_path, session=THREAD), watcher)
    assert (ended.how, ended.tokens, ended.words, ended.model) == ("finished", 220, "After.", "gpt-5.1-codex")
    assert [event.data.get("said") for event in watcher.events if event.kind == "model.replied"] == ["After."]
    assert ended.context == 220


async def test_sub_agents_count(tmp_path: Path) -> None:
    late = later_on()
    for thread, tokens in ((THREAD, 100), (HELPER, 3000)):
        Written(tmp_path / "codex", thread).reply(late, "Words.", tokens)
    spawned = item(type="collab_tool_call", tool="spawn_agent", receiver_thread_ids=[HELPER], prompt="Help", status="completed")
    watcher = Watcher()
    ended = await take(tmp_path, STARTED, BEGUN, spawned, said("Done."), completed(90, 10), watcher=watcher)
    assert ended.tokens == 3100
    assert ended.session == THREAD
    assert len({event.run for event in watcher.events if event.kind == "model.replied"}) == 2


async def test_how_it_is_called(tmp_path: Path) -> None:
    script = Script(tmp_path, STARTED, completed())
    harness, prompt = CodexHarness(script.command), "many words " * 100_000
    await harness.take_turn(order_for(tmp_path, prompt, model="gpt-5.1"), Watcher())
    await harness.take_turn(order_for(tmp_path, session=THREAD, is_summary=True), Watcher())
    first, second = (call["arguments"] for call in script.calls)
    assert script.calls[0]["prompt"] == prompt
    assert first[:2] == ["exec", "--json"]
    assert 'approval_policy="never"' in first
    assert first[first.index("--sandbox") + 1] == "workspace-write"
    assert first[-3:] == ["--model", "gpt-5.1", "-"]
    assert second[second.index("--sandbox") + 1] == "read-only"
    assert "features.shell_tool=false" in second
    assert second[-3:] == ["resume", THREAD, "-"]


async def test_that_nobody_is_asked_is_said_where_somebody_wanted_it(tmp_path: Path) -> None:
    assert "ungated" not in (await take(tmp_path, STARTED, completed())).extras
    assert (await take(tmp_path, STARTED, completed(), deny=("Bash",))).extras["ungated"] is True


UNAUTHORIZED = "unexpected status 401 Unauthorized: Incorrect API key"
TOO_MANY = "exceeded retry limit, last status: 429 Too Many Requests"
LIMIT = "You’ve hit your usage limit. Try again at 7:20 AM."
LOST = "Error: thread/resume failed: no rollout found for thread id x (code -32600)"


@pytest.mark.parametrize(
    ("steps", "how", "error", "status"),
    [
        (failed(UNAUTHORIZED), "failed", UNAUTHORIZED, 401),
        (failed(TOO_MANY), "failed", TOO_MANY, 429),
        (failed(LIMIT), "failed", LIMIT, None),
        ([{"type": "error", "message": "Reconnecting... 1/5"}, ["exit", 1]], "no_result", "Reconnecting... 1/5\nexit code 1", None),
        ([BEGUN, ["exit", 0]], "no_result", "", None),
        ([["stderr", LOST], ["exit", 1]], "failed", f"{LOST}\nexit code 1", None),
        (["thread 'main' panicked\n"], "no_result", "thread 'main' panicked", None),
    ],
)
async def test_each_bad_end_is_stated(tmp_path: Path, steps: list[Any], how: str, error: str, status: int | None) -> None:
    ended = await take(tmp_path, STARTED, *steps)
    assert (ended.how, ended.error, ended.status, ended.session) == (how, error, status, THREAD)


async def test_a_hiccup_on_the_way_is_not_the_end(tmp_path: Path) -> None:
    ended = await take(tmp_path, STARTED, BEGUN, {"type": "error", "message": "Reconnecting... 1/5"}, "noise\n", said("Done."), completed())
    assert (ended.how, ended.error, ended.extras) == ("finished", "", {"noise": 1})


async def test_it_says_how_it_ended_and_hangs_and_is_not_waited_for(tmp_path: Path) -> None:
    ended = await asyncio.wait_for(take(tmp_path, STARTED, said("Done."), completed(), ["hang"], linger=0.1), PATIENCE)
    assert (ended.how, ended.words, ended.tokens, ended.extras["lingered"]) == ("finished", "Done.", 120, True)


async def test_it_is_stopped_at_the_first_record_past_the_budget(tmp_path: Path) -> None:
    late = later_on()
    Written(tmp_path / "codex", THREAD).reply(late, "Expensive.", 900)
    watcher = Watcher("over_budget", above=500)
    ended = await asyncio.wait_for(take(tmp_path, STARTED, BEGUN, ["hang"], watcher=watcher, rest=RemainingBudget(tokens=500)), PATIENCE)
    assert (ended.how, ended.tokens) == ("over_budget", 900)


async def test_it_may_ask_to_sleep(tmp_path: Path) -> None:
    ended = await take(tmp_path, STARTED, said('{"sleep_ms": 5000, "reason": "CI runs"}'), completed())
    assert (ended.how, ended.sleep_ms, ended.words, ended.session) == ("asleep", 5000, "CI runs", THREAD)


async def test_a_thread_with_a_strange_name_leads_to_no_file(tmp_path: Path) -> None:
    (tmp_path / "codex" / "sessions").mkdir(parents=True)
    ended = await take(tmp_path, {"type": "thread.started", "thread_id": "../*/[x]"}, said("Done."), completed())
    assert (ended.how, ended.tokens, ended.session) == ("finished", 120, None)


# --- the real program

CONFIG = """
model = "gpt-5.1-codex"
model_provider = "stub"
[model_providers.stub]
name = "stub"
base_url = "{url}"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[features]
apps = false
plugins = false
"""


@contextmanager
def real(folder: Path, api: Responses) -> Iterator[tuple[CodexHarness, Path]]:
    """Codex with a home of its own, against a model; and its workspace."""
    assert CODEX is not None
    home, workspace = folder / "home", folder / "work"
    (home / ".codex").mkdir(parents=True)
    workspace.mkdir()
    (home / ".codex" / "config.toml").write_text(CONFIG.format(url=api.url))
    with serving(api):
        yield CodexHarness((CODEX,), {"PATH": os.environ["PATH"], "HOME": str(home), "OPENAI_API_KEY": "dummy"} | OFFLINE), workspace


@pytest.mark.slow
@needs_codex
async def test_the_real_program_writes_a_file_and_takes_up_its_thread(tmp_path: Path) -> None:
    api, watcher, later = Responses("echo hello > note.txt", "cat note.txt"), Watcher(), Watcher()
    with real(tmp_path, api) as (codex, workspace):
        first = await codex.take_turn(order_for(workspace, "Write a note, please"), watcher)
        second = await codex.take_turn(order_for(workspace, "And now?", session=first.session), later)

    assert (first.how, first.words, first.error) == ("finished", DONE, "")
    assert (workspace / "note.txt").read_text() == "hello\n"
    assert "Write a note, please" in json.dumps(api.asked[0])
    assert first.session is not None
    assert first.session != SESSION
    assert (first.tokens, first.context, first.model) == (360, 120, "gpt-5.1-codex")
    calls = [event.data["call_id"] for event in watcher.events if event.kind == "tool.called"]
    assert calls == [event.data["call_id"] for event in watcher.events if event.kind == "tool.returned"] == ["call_1", "call_2"]
    assert watcher.kinds.count("model.replied") == 3
    assert watcher.one("prompt.submitted").text == "Write a note, please"
    assert (second.how, second.session, second.tokens) == ("finished", first.session, 120)
    assert "tool.called" not in later.kinds
    assert not {event.id for event in watcher.events} & {event.id for event in later.events} - {watcher.one("session.started").id}


@pytest.mark.slow
@needs_codex
async def test_what_the_real_program_s_sub_agents_take_counts(tmp_path: Path) -> None:
    waits = "until grep -rqs task_complete ../home/.codex/sessions; do :; done"
    api, watcher = Responses(SPAWN, waits), Watcher()
    with real(tmp_path, api) as (codex, workspace):
        ended = await codex.take_turn(order_for(workspace), watcher)
    assert (ended.how, ended.words, ended.tokens) == ("finished", DONE, 4 * 120)
    assert len({event.id for event in watcher.events if event.kind == "agent.launched"}) == 1
    assert HELP in [event.data.get("prompt") for event in watcher.events if event.kind == "agent.launched"]
    assert len({event.run for event in watcher.events if event.kind == "model.replied"}) == 2


@pytest.mark.slow
@needs_codex
async def test_the_real_program_cannot_write_elsewhere_nor_anything_in_a_summary(tmp_path: Path) -> None:
    elsewhere = Path.home() / f".fleetlore-test-{os.getpid()}"
    api, watcher = Responses(f"touch {elsewhere}"), Watcher()
    with real(tmp_path, api) as (codex, workspace):
        await codex.take_turn(order_for(workspace), watcher)
        summary = await codex.take_turn(order_for(workspace, "Sum up", is_summary=True), Watcher())
    assert watcher.one("tool.failed").data["exit_code"] == 1
    assert not elsewhere.exists()
    assert "exec_command" in json.dumps(api.asked[0]["tools"])
    assert "exec_command" not in json.dumps(api.asked[-1]["tools"])
    assert summary.words == DONE


@pytest.mark.slow
@needs_codex
async def test_the_real_program_says_so_when_its_thread_is_lost_or_its_key_is_wrong(tmp_path: Path) -> None:
    api = Responses(refusal=(401, {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}))
    with real(tmp_path, api) as (codex, workspace):
        lost = await codex.take_turn(order_for(workspace, session=THREAD), Watcher())
        wrong = await codex.take_turn(order_for(workspace), Watcher())
    assert lost.how == "failed"
    assert f"no rollout found for thread id {THREAD}" in lost.error
    assert (wrong.how, wrong.status) == ("failed", 401)
    assert "Incorrect API key provided" in wrong.error
