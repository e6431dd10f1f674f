"""The optional Stop hook: an agent that claims what its transcript does not show is asked once to show its evidence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fleetlore.cli import evidence
from tests.cli.running import Lore
from tests.transcripts import Transcript

FAILED = "Exit code 1\n== 2 failed, 10 passed in 3s =="


@pytest.fixture
def transcript() -> Transcript:
    """A session that has edited a file; its last text is not in the file yet."""
    made = Transcript()
    made.prompt("Round the total")
    edit = {"file_path": "/home/ada/harbour/cart.py", "old_string": "a", "new_string": "b"}
    made.reply("m1", {"type": "tool_use", "id": "t1", "name": "Edit", "input": edit}, stop="tool_use")
    made.result("t1", "ok")
    return made


def run(transcript: Transcript, command: str, output: str, *, error: bool = False) -> None:
    made = len(transcript.rows)
    block = {"type": "tool_use", "id": f"t{made}", "name": "Bash", "input": {"command": command}}
    transcript.reply(f"m{made}", block, stop="tool_use")
    transcript.result(f"t{made}", output, error=error)


def stop(lore: Lore, transcript: Transcript, text: str, **more: Any) -> dict[str, Any] | None:
    """What the hook answers."""
    path = transcript.write(lore.folder)
    payload = {"session_id": transcript.session, "transcript_path": str(path), "last_assistant_message": text, "stop_hook_active": False}
    said = lore("evidence", "claude-code", stdin=json.dumps(payload | more).encode(), code=0).out
    answer: dict[str, Any] | None = json.loads(said) if said else None
    return answer


def test_a_claim_that_the_transcript_contradicts(lore: Lore, transcript: Transcript) -> None:
    run(transcript, "pytest -q", FAILED, error=True)
    answer = stop(lore, transcript, "All tests pass.")
    assert answer is not None
    assert answer["decision"] == "block"
    assert "All tests pass" in answer["reason"]
    assert "the record contradicts it" in answer["reason"]
    assert "2 failed" in answer["reason"]


def test_a_claim_that_the_transcript_does_not_show(lore: Lore, transcript: Transcript) -> None:
    answer = stop(lore, transcript, "I rounded the total. All tests pass and I pushed it.")
    assert answer is not None
    assert answer["reason"].count("- ") == 2


def test_it_asks_at_most_once_in_a_turn(lore: Lore, transcript: Transcript) -> None:
    assert stop(lore, transcript, "All tests pass.", stop_hook_active=True) is None


def test_a_claim_that_is_shown_or_no_claim_is_not_asked_about(lore: Lore, transcript: Transcript) -> None:
    run(transcript, "pytest -q", "== 12 passed in 3s ==")
    assert stop(lore, transcript, "All tests pass.") is None
    assert stop(lore, transcript, "I rounded the total.") is None


def test_the_last_text_may_be_in_the_transcript_already(lore: Lore, transcript: Transcript) -> None:
    transcript.reply("m9", {"type": "text", "text": "Done. I pushed it."})
    transcript.add("system", subtype="stop_hook_summary", hookCount=1)
    answer = stop(lore, transcript, "Done. I pushed it.")
    assert answer is not None
    assert answer["reason"].count("- ") == 1


def test_an_earlier_turn_is_not_asked_about_again(lore: Lore, transcript: Transcript) -> None:
    transcript.reply("m9", {"type": "text", "text": "I pushed it."})
    transcript.prompt("Thanks", prompt="p-2")
    assert stop(lore, transcript, "You are welcome.") is None


@pytest.mark.parametrize(
    "payload", [b"", b"[]", b"{", b'{"session_id": 1}', b'{"session_id": "x", "last_assistant_message": "All tests pass."}']
)
def test_whatever_goes_wrong_the_agent_may_stop(lore: Lore, payload: bytes) -> None:
    assert lore("evidence", "claude-code", stdin=payload, code=0).out == ""
    assert lore("evidence", "nobody", stdin=payload, code=0).out == ""


def test_a_transcript_that_is_gone_cut_or_too_long(lore: Lore, transcript: Transcript, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stop(lore, transcript, "All tests pass.", transcript_path=str(lore.folder / "none.jsonl")) is None
    transcript.rows.append({"type": "user", "message": 7})
    assert stop(lore, transcript, "All tests pass.") is not None
    monkeypatch.setattr(evidence, "MAX_TRANSCRIPT_BYTES", 10)
    assert stop(lore, transcript, "All tests pass.") is None


def test_it_gives_up_in_time(lore: Lore, transcript: Transcript, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "TIMEOUT_SECONDS", 0.000_001)
    assert stop(lore, transcript, "All tests pass.") is None


@pytest.fixture
def settings(lore: Lore) -> Path:
    path = lore.folder.parent / "home" / ".claude" / "settings.json"
    path.parent.mkdir(parents=True)
    return path


def hooks_at_stop(settings: Path) -> list[str]:
    groups = json.loads(settings.read_text())["hooks"]["Stop"]
    return [hook["command"].partition("fleetlore")[2].split()[0] for group in groups for hook in group["hooks"]]


def test_it_is_installed_only_on_request_and_removed_with_the_rest(lore: Lore, settings: Path) -> None:
    settings.write_text('{"model": "opus"}')
    lore("install", "claude-code", code=0)
    assert hooks_at_stop(settings) == ["hook"]
    assert lore("install", "claude-code", "--ask-for-evidence", "--json", code=0).json["changed"]
    assert hooks_at_stop(settings) == ["hook", "evidence"]
    assert not lore("install", "claude-code", "--ask-for-evidence", "--json", code=0).json["changed"]
    assert not lore("install", "claude-code", "--json", code=0).json["changed"], "it stays until it is uninstalled"
    lore("uninstall", "claude-code", code=0)
    assert settings.read_text() == '{"model": "opus"}'
