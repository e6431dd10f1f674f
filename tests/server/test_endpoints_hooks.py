"""Hooks of coding programs over HTTP: the same events as by `lore hook`, each once; and signs of life."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleetlore.cli.hook import make_spool_line
from fleetlore.cli.open_log import drain_spool
from fleetlore.ingest import spool
from fleetlore.testing import START, FrozenClock
from tests.server.endpoint_client import EndpointClient, open_endpoints
from tests.transcripts import Transcript

SESSION = "11111111-2222-4333-8444-555555555555"
CLAUDE, CODEX, BEAT = "/hooks/claude-code", "/hooks/codex", "/hooks/heartbeat"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (
        "FLEETLORE_TOWN",
        "XDG_CONFIG_HOME",
        "XDG_STATE_HOME",
        "XDG_DATA_HOME",
        "XDG_CACHE_HOME",
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("FLEETLORE_LOG", f"sqlite:{tmp_path}/fleet.db")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def endpoints(home: Path) -> Iterator[EndpointClient]:
    with open_endpoints(f"sqlite:{home}/fleet.db", clock=FrozenClock(START)) as opened:
        yield opened


def call(step: str, **more: Any) -> dict[str, Any]:
    return {"session_id": SESSION, "cwd": "/home/ada/harbour", "hook_event_name": step} | more


STEPS = [
    call("SessionStart", source="startup", model="claude-opus-4-8"),
    call("SessionStart", source="resume"),
    call("UserPromptSubmit", prompt="mend the parser", prompt_id="p-1"),
    call("PreToolUse", tool_name="Bash", tool_use_id="toolu_1", tool_input={"command": "make test"}, prompt_id="p-1"),
    call("PostToolUse", tool_name="Bash", tool_use_id="toolu_1", tool_input={"command": "make test"}, tool_response={"stdout": "ok"}),
    call("Notification", message="may I?", notification_type="permission_prompt"),
    call("PermissionRequest", tool_name="Bash", tool_input={"command": "key=AKIAIOSFODNN7EXAMPLE"}),
    call("Stop", prompt_id="p-1", last_assistant_message="done"),
    call("Stop", last_assistant_message="done again"),
    call("SubagentStop", agent_id="a1", agent_type="Explore", turn_id="turn-1"),
    call("SessionEnd", reason="exit"),
    call("Tomorrow", message="a hook that nobody knows yet"),
]


@pytest.mark.parametrize("path", [CLAUDE, CODEX])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step["hook_event_name"])
@pytest.mark.parametrize("first", ["spool", "http"])
def test_the_same_call_by_the_spool_and_over_http_is_one_event(
    endpoints: EndpointClient, path: str, step: dict[str, Any], first: str
) -> None:
    def by_spool() -> None:
        raw = json.dumps(step).encode()
        recorded = json.loads(make_spool_line(path.removeprefix("/hooks/"), raw, len(raw)))
        spool.append_line(json.dumps(recorded | {"at": (START + timedelta(seconds=0.2)).isoformat()}).encode())
        drain_spool()

    if first == "spool":
        by_spool()
    answer = endpoints.post(path, step)
    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, b"{}", "application/json")
    if first == "http":
        by_spool()
    assert len(endpoints.events) == 1
    assert "AKIA" not in str(endpoints.events)


def test_the_next_call_that_says_the_same_is_reported_again(endpoints: EndpointClient) -> None:
    for _ in range(2):
        endpoints.post(CLAUDE, call("Notification", message="may I?"))
    assert endpoints.kinds == ["session.waiting"] * 2


def test_a_hook_that_shows_nothing_is_answered_like_any_other(endpoints: EndpointClient) -> None:
    answer = endpoints.post(CLAUDE, call("PreCompact"))
    assert (answer.status, answer.body, endpoints.events) == (200, b"{}", [])


def test_the_transcript_of_this_machine_goes_first(endpoints: EndpointClient, home: Path) -> None:
    session = Transcript(SESSION)
    session.prompt("mend the parser")
    path = session.write(home / ".claude" / "projects" / "harbour")
    endpoints.post(CLAUDE, call("UserPromptSubmit", prompt="mend the parser", prompt_id="p-1", transcript_path=str(path)))
    assert endpoints.kinds == ["session.started", "prompt.submitted"]
    assert all(event.origin and event.origin.source for event in endpoints.events)


@pytest.mark.parametrize("how", ["elsewhere", "by a link", "another machine", "a proxy", "not a transcript", "no path"])
def test_no_other_file_is_read_no_matter_who_asks_for_it(endpoints: EndpointClient, home: Path, how: str) -> None:
    session = Transcript(SESSION)
    session.prompt("secret plans")
    kept = home / ".claude" / "projects" / "harbour"
    path = session.write(kept if how in ("another machine", "a proxy") else home / "private")
    if how == "by a link":
        kept.mkdir(parents=True)
        (kept / "link.jsonl").symlink_to(path)
        path = kept / "link.jsonl"
    if how == "not a transcript":
        path = kept / "notes.txt"
        kept.mkdir(parents=True)
        path.write_text("secret plans")
    name = "\0" if how == "no path" else str(path)
    client = ("192.0.2.7", 5000) if how == "another machine" else ("127.0.0.1", 5000)
    headers = {"x-forwarded-for": "192.0.2.7"} if how == "a proxy" else {}
    answer = endpoints.post(CLAUDE, call("Notification", message="may I?", transcript_path=name), headers=headers, client=client)
    assert (answer.status, endpoints.kinds) == (200, ["session.waiting"])


def test_what_a_rollout_would_report_better_is_reported_by_the_hook_of_another_machine(endpoints: EndpointClient) -> None:
    step = call("SessionStart", source="startup", transcript_path="/home/grace/.codex/sessions/r.jsonl")
    endpoints.post(CODEX, step, client=("192.0.2.7", 5000))
    [event] = endpoints.events
    assert (event.kind, event.run) == ("session.started", SESSION)
    assert "host" not in event.data  # ours is not theirs


def test_half_a_character_is_not_refused(endpoints: EndpointClient) -> None:
    raw = json.dumps(call("Notification", message="half \ud83d")).encode()
    assert endpoints.post(CLAUDE, raw).status == 200
    assert endpoints.events[0].text == "half \ufffd"


def test_hooks_need_a_token_and_json(endpoints: EndpointClient) -> None:
    assert endpoints.post(CLAUDE, call("Stop"), token=None).status == 401
    assert endpoints.post(CODEX, call("Stop"), type="text/plain").status == 415
    assert endpoints.events == []


# --- signs of life


def test_a_heartbeat_is_one_event_of_its_agent(endpoints: EndpointClient) -> None:
    beat = {"agent": "ada", "text": "still at it", "task": "t7", "mission": "m", "run": "r", "state": "working"}
    answer = endpoints.post(BEAT, beat)
    [event] = endpoints.events
    assert answer.json == {"positions": [event.position]}
    assert (event.kind, event.actor, event.agent, event.text) == ("fleet.heartbeat", "ada", "ada", "still at it")
    assert (event.task, event.mission, event.run, event.data) == ("t7", "m", "r", {"state": "working"})
    assert endpoints.post(BEAT, {"agent": "ada"}).status == 200


@pytest.mark.parametrize(
    "beat", [{}, {"agent": 7}, {"agent": ""}, {"agent": "a\nb"}, {"agent": "a", "mood": 1}, {"agent": "a", "text": []}, []]
)
def test_what_is_no_heartbeat_is_refused_with_a_reason(endpoints: EndpointClient, beat: Any) -> None:
    answer = endpoints.post(BEAT, beat)
    assert (answer.status, endpoints.events) == (422, [])
    assert answer.detail
    assert answer.json["path"].startswith("$")


def test_a_heartbeat_as_nexus_writes_it_is_reported_by_its_model(endpoints: EndpointClient) -> None:
    beat = {"pid": 7, "timestamp": 1763200000.5, "cycle": 3, "model": "timmy:v0.1", "status": "thinking"}
    assert endpoints.post(BEAT, beat).status == 200
    [event] = endpoints.events
    assert (event.agent, event.text, event.data) == ("timmy:v0.1", "cycle 3, status=thinking", beat)
    assert event.at == datetime(2025, 11, 15, 9, 46, 40, 500000, tzinfo=UTC)
