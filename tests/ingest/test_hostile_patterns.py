"""`[redact] patterns` of a cloned repository: whatever they match, every command comes to an end, and what was recorded is not lost."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from fleetlore import Event, connect
from fleetlore.cli.drain_while_watching import drain_in_background
from fleetlore.cli.trust import approve_file
from fleetlore.errors import InvalidEvent
from fleetlore.events.catalog import payload_keys
from fleetlore.ingest import spool
from fleetlore.ingest.batch_writer import BatchWriter, ImportItem, make_rejection
from fleetlore.ingest.lines import SourceLine
from fleetlore.log.admission import Admission
from fleetlore.redact import MASK, WITHHELD, Redactor
from tests.cli.conftest import lore as lore
from tests.cli.running import Lore, command
from tests.patience import PATIENCE

PROMPT = "Is the data of EMP-123456 there? aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
HOSTILE = ["a$", "(a+)+b", "(.+)+\\\\x00", ".", ".+", "[a-z]", "[a-z]+", "(d|a)ata?", "[a-z_]+$", "lore", "log.rejected", "(?s).+", "[0-9]"]
REFUSED = ["", ".*", "x?", "(a*)*", "(?:(?:a?){60000}){60000}"]


def clone(folder: Path, pattern: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "fleetlore.toml").write_text(f'[redact]\npatterns = ["{pattern}"]\n')
    approve_file(str(folder / "fleetlore.toml"), (folder / "fleetlore.toml").read_bytes())
    return folder


def call_hook(folder: Path, session: str = "5e55") -> None:
    record = {"hook_event_name": "UserPromptSubmit", "session_id": session, "cwd": str(folder), "prompt": PROMPT}
    done = subprocess.run(command(["hook", "claude-code"]), input=json.dumps(record).encode(), cwd=folder, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def stored(url: str = "sqlite:") -> list[Event]:
    with connect(url).blocking() as log:
        return list(log.read())


@pytest.mark.parametrize("pattern", HOSTILE)
def test_a_hook_there_is_recorded_and_so_are_those_of_others(lore: Lore, pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call_hook(clone(lore.folder / "evil", pattern))
    call_hook(lore.folder, session="g00d")
    monkeypatch.chdir("/")
    lore("status", code=0)
    events = stored()
    assert spool.is_spool_empty()
    assert [event.text for event in events if event.run == "g00d"] == [PROMPT]
    [other] = [event for event in events if event.run != "g00d"]
    assert other.text != PROMPT or pattern in ("lore", "log.rejected")


@pytest.mark.parametrize("pattern", ["a$", "(d|a)ata?", "[0-9]"])
def test_what_was_recorded_keeps_its_form(lore: Lore, pattern: str) -> None:
    call_hook(clone(lore.folder, pattern))
    lore("status", code=0)
    [event] = stored()
    assert event.kind == "prompt.submitted"
    assert event.text == Redactor([pattern]).redact_value(PROMPT)[0]


def test_a_slow_pattern_withholds_the_text_and_says_so(lore: Lore) -> None:
    call_hook(clone(lore.folder, "(a+)+b"))
    lore("status", code=0)
    [event] = stored()
    assert (event.kind, event.text) == ("prompt.submitted", WITHHELD)


@pytest.mark.parametrize("pattern", HOSTILE)
def test_emit_there_stores_its_event(lore: Lore, pattern: str) -> None:
    clone(lore.folder, pattern)
    lore("emit", "fleet.commit", "--agent", "a" * 60, "--text", PROMPT, "--data", '{"sha": "1a", "inner": {"data": "a"}}', code=0)
    [event] = stored()
    assert event.kind == "fleet.commit"
    assert event.data.keys() >= {"sha"}
    line = json.dumps({"kind": "fleet.commit", "agent": "ada", "text": PROMPT})
    assert lore("emit", "-", stdin=f'{line}\n{{"no": "event"}}\n'.encode()).code == 3
    assert [event.kind for event in stored()] == ["fleet.commit", "fleet.commit", "log.rejected"]


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_would_match_everywhere_or_nowhere_in_time_is_an_error_that_names_it(lore: Lore, pattern: str) -> None:
    folder = clone(lore.folder / "evil", pattern)
    call_hook(folder)
    call_hook(lore.folder, session="g00d")
    result = lore("status", code=0)
    assert "evil/fleetlore.toml: redact.patterns" in result.err
    assert [event.run for event in stored()] == ["g00d"]
    clone(folder, "fine")
    for path in Path(spool.spool_folder()).glob("*.jsonl"):
        path.touch()
    assert "waits" not in lore("status", code=0).err
    assert len(stored()) == 2


def test_a_project_cannot_switch_off_the_users_own_patterns_in_the_spool(lore: Lore) -> None:
    lore.write("../home/.config/fleetlore/fleetlore.toml", "[redact]\npatterns = ['EMP-[0-9]+']\n")
    call_hook(clone(lore.folder, ".*"))
    assert b"EMP-123456" not in b"".join(path.read_bytes() for path in Path(spool.spool_folder()).iterdir())


@pytest.mark.parametrize("pattern", ["a$", "(a+)+b", ".+"])
def test_a_running_server_goes_on_draining(lore: Lore, pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call_hook(clone(lore.folder / "evil", pattern))
    monkeypatch.chdir("/")
    with drain_in_background(pause=0.01):
        call_hook(lore.folder, session="g00d")
        deadline = monotonic() + PATIENCE
        while len(stored()) < 2:
            assert monotonic() < deadline, "nothing is drained any more"


# --- a rejection that is refused, too


class Refusing(Admission):
    """Takes nothing at all."""

    def admit(self, event: Event) -> Any:
        raise InvalidEvent("$", "not today")


def test_a_rejection_that_is_refused_is_dropped_with_a_message(tmp_path: Path) -> None:
    dropped: list[str] = []
    rejected: list[str] = []
    line = SourceLine("notes.jsonl", 3, b"{}", 0, 2)
    with connect(f"sqlite:{tmp_path}/log.db").blocking() as log:
        log._admission = Refusing()
        deposit = BatchWriter(
            log,
            dialect="test",
            admission=Refusing(),
            on_rejected=lambda line, reason: rejected.append(reason),
            on_dropped=dropped.append,
        )
        deposit.write_batch(
            [
                ImportItem(line, (Event(kind="fleet.idle", actor="ada"),)),
                make_rejection(line, "no record", dialect="test", at=None),
                ImportItem(line, ()),
            ]
        )
    assert (deposit.tally.rejected, deposit.tally.folded, deposit.tally.lines) == (2, 1, 3)
    assert len(dropped) == 2
    assert all(message.startswith("notes.jsonl, line 3: ") and "dropped" in message for message in dropped)
    assert all("not today" in reason for reason in rejected)


# --- the form of events


def test_keys_of_the_envelope_and_of_known_payloads_are_never_renamed() -> None:
    event = Event(
        kind="log.rejected",
        actor="lore",
        text="text",
        data={"reason": "reason", "source": "source", "n": 1, "dialect": "d", "free": {"reason": 1, "other": 2}},
    )
    record = Admission(redactor=Redactor(["[a-z]+"])).admit(event)
    raw = json.loads(record.raw)
    assert raw["kind"] == "log.rejected"
    assert raw["actor"] == raw["text"] == raw["data"]["reason"] == MASK
    assert raw["data"][MASK] == {"reason": 1, f"{MASK}": 2}
    assert set(raw["data"]) == {"reason", "source", "n", "dialect", MASK}


def test_a_name_that_redaction_makes_too_long_is_masked_as_a_whole() -> None:
    event = Event(kind="fleet.idle", actor="a" * 60, task="b" * 60)
    raw = json.loads(Admission(redactor=Redactor(["[ab]"])).admit(event).raw)
    assert (raw["actor"], raw["task"]) == (MASK, MASK)


def test_keys_of_nested_payloads_are_known() -> None:
    assert payload_keys("log.rejected") >= {"reason", "sample"}
    assert payload_keys("driver.goal_started") >= {"goal", "budget", "max_turns", "acceptance", "command", "kind"}
    assert payload_keys("no.such_kind") == frozenset()
