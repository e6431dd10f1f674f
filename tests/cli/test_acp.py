"""`lore acp` between a client and an agent, and goals with the harness `acp`."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fleetlore.errors import LogError
from fleetlore.ingest.acp_proxy import MAX_WAITING_BYTES, ConversationRecorder
from fleetlore.ingest.batch_writer import BatchWriter
from fleetlore.programs import registry
from fleetlore.programs.acp.calls import make_gate_questions
from fleetlore.programs.acp.harness import AcpHarness
from fleetlore.programs.failure_patterns import find_failure_by_text
from fleetlore.programs.harness import TurnOutcome, TurnProgress
from fleetlore.testing import check_program
from tests.cli.running import Lore, command
from tests.patience import PATIENCE
from tests.programs.stubs.turns import Watcher, order_for

AGENT = (sys.executable, str(Path(__file__).parents[1] / "acp_agent.py"))
SESSION = "sess-0001-5e551044"


class Client:
    """The editor's side. It answers requests for permission with `choice`."""

    def __init__(self, process: subprocess.Popen[bytes], choice: str = "yes") -> None:
        self._process, self._choice, self._number = process, choice, 0
        self.received: list[bytes] = []

    def ask(self, method: str, **params: Any) -> Any:
        """Send a request and wait for its answer."""
        self._number += 1
        self.send(id=self._number, method=method, params=params)
        while True:
            message = self.receive()
            if message.get("method") == "session/request_permission":
                self.send(id=message["id"], result={"outcome": {"outcome": "selected", "optionId": self._choice}})
            elif message.get("id") == self._number and "method" not in message:
                return message

    def send(self, **message: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")
        self._process.stdin.flush()

    def receive(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the agent has ended"
        self.received.append(line)
        return json.loads(line)


def converse(process: subprocess.Popen[bytes], *prompts: str, choice: str = "yes") -> Client:
    """A whole conversation."""
    client = Client(process, choice)
    client.ask("initialize", protocolVersion=1, clientCapabilities={})
    client.ask("session/new", cwd="/home/ada/shop", mcpServers=[])
    for words in prompts:
        client.ask("session/prompt", sessionId=SESSION, prompt=[{"type": "text", "text": words}])
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(PATIENCE) == 0
    return client


@contextmanager
def proxied(lore: Lore, *options: str, agent: tuple[str, ...] = AGENT) -> Iterator[subprocess.Popen[bytes]]:
    pipe = subprocess.PIPE
    with subprocess.Popen(command([*options, "acp", "--", *agent]), cwd=lore.folder, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        yield process


def test_a_conversation_is_passed_on_and_recorded(lore: Lore) -> None:
    with proxied(lore) as process:
        client = converse(process, "Test it. do: run exit 3", "do: edit /home/ada/shop/calc.py", "do: fail")
    assert b'"_meta": {"kept": true}' in b"".join(client.received)
    events = lore("events", "--all", "--json").ndjson
    assert {event["run"] for event in events} == {SESSION}
    assert {event["agent"] for event in events} == {"tester/5e551044"}
    kinds = [event["kind"] for event in events]
    assert kinds[:6] == ["session.started", "prompt.submitted", "tool.called", "session.waiting", "tool.failed", "acp.plan"]
    [failed] = [event for event in events if event["kind"] == "tool.failed"]
    assert (failed["data"]["tool"], failed["data"]["exit_code"]) == ("bash", 3)
    assert [event["data"]["error"] for event in events if event["kind"] == "model.failed"] == ["the model is overloaded"]
    assert kinds.count("session.turn_ended") == 3
    replies = [event["data"] for event in events if event["kind"] == "model.replied"]
    assert [(reply["said"], reply["input"], reply["cache_read"], reply["output"]) for reply in replies] == [
        ("Done: it works.", 800, 200, 50)
    ] * 2
    assert [reply.get("usd") for reply in replies] == [0.01, None], "what the agent reports is the total of the session"
    [session] = lore("sessions", "--all", "--json").ndjson
    assert [file["path"] for file in session["files"]] == ["calc.py"]


def test_a_refused_call_is_recorded_as_denied(lore: Lore) -> None:
    with proxied(lore) as process:
        converse(process, "do: run touch it", choice="no")
    assert [event["text"] for event in lore("events", "--all", "--json", "--kind", "tool.denied").ndjson] == ["bash: touch it"]


def test_every_byte_arrives_as_it_was_sent(lore: Lore) -> None:
    sent = b'{"jsonrpc":"2.0",  "method":"_x/y","params":{"_meta":{"a":1.50}}}\n' + b"no json at all\xff\n" + b'{"half": ' + b"x" * 200_000
    with proxied(lore, agent=("cat",)) as process:
        out, err = process.communicate(sent, PATIENCE)
    assert (out, process.returncode, err) == (sent, 0, b"")


def test_the_exit_code_is_the_agent_s_and_one_that_cannot_be_started_is_an_error(lore: Lore) -> None:
    with proxied(lore, agent=("sh", "-c", "exit 7")) as process:
        assert process.wait(PATIENCE) == 7
    assert "there-is-none: cannot be started" in lore("acp", "--", "there-is-none", code=2).err


def test_a_log_that_cannot_be_written_does_not_disturb_the_conversation(lore: Lore) -> None:
    with proxied(lore, "--log", f"sqlite:{lore.folder}/none/of/these/x.db") as process:
        converse(process, "Hello")
        assert process.stderr is not None
        said = process.stderr.read().decode()
    assert "bytes of this conversation are not in the log" in said
    assert "none/of/these" in said


def test_what_waits_for_a_log_that_hangs_is_bounded() -> None:
    @contextmanager
    def fail() -> Iterator[BatchWriter]:
        raise LogError("the log is full")
        yield

    recorder = ConversationRecorder(fail, agent="tester")
    piece = b"x" * 65536
    for _ in range(MAX_WAITING_BYTES // len(piece) + 100):
        recorder.add_piece("agent", piece)
    assert recorder.dropped == 100 * len(piece)


def test_events_that_waited_for_the_log_are_stored_once_it_is_there(lore: Lore) -> None:
    folder = lore.folder / "later"
    with proxied(lore, "--log", f"sqlite:{folder}/x.db") as process:
        client = Client(process)
        client.ask("initialize", protocolVersion=1)
        client.ask("session/new", cwd="/home/ada/shop")
        client.ask("session/prompt", sessionId=SESSION, prompt=[{"type": "text", "text": "Hello"}])
        folder.mkdir()
        assert process.stdin is not None
        process.stdin.close()
        process.wait(PATIENCE)
    kinds = [event["kind"] for event in lore("--log", f"sqlite:{folder}/x.db", "events", "--all", "--json", code=0).ndjson]
    assert kinds.count("prompt.submitted") == kinds.count("session.turn_ended") == 1


# --- the reader


def captured() -> list[bytes]:
    """A conversation as records."""
    process = subprocess.Popen(AGENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    client = converse(process, "do: run echo hello")
    rows: list[dict[str, Any]] = [
        {"from": "client", "message": {"id": 1, "method": "initialize", "params": {}}},
        {"from": "client", "message": {"id": 2, "method": "session/new", "params": {"cwd": "/home/ada/shop"}}},
        {"from": "client", "message": {"id": 3, "method": "session/prompt", "params": {"sessionId": SESSION, "prompt": [{"text": "go"}]}}},
        *({"from": "agent", "message": json.loads(line)} for line in client.received),
    ]
    assert process.stdout is not None
    process.stdout.close()
    return [json.dumps({"at": f"2026-11-10T09:00:{number:02}Z"} | row).encode() for number, row in enumerate(rows)]


def test_a_captured_conversation_is_imported_by_what_it_is(lore: Lore) -> None:
    (lore.folder / "talk.jsonl").write_bytes(b"\n".join(captured()))
    assert lore("import", "talk.jsonl", "--json", code=0).json["formats"]["acp"]["rejected"] == 0
    assert [event["text"] for event in lore("events", "--all", "--json", "--kind", "tool.returned").ndjson] == ["bash: echo hello"]


def test_it_is_read_whole_or_in_pieces_and_never_fails() -> None:
    check_program(registry.require_program("acp"), captured())


# --- the harness


def run_turn(tmp_path: Path, prompt: str, *arguments: str, watch: Watcher | None = None, **fields: Any) -> Any:
    harness = AcpHarness((*AGENT, *arguments), os.environ)
    return asyncio.run(harness.take_turn(order_for(tmp_path, prompt, **fields), watch or Watcher()))


def test_a_turn_has_its_answer_its_tokens_and_its_events(tmp_path: Path) -> None:
    watch = Watcher()
    result = run_turn(tmp_path, "do: edit /home/ada/shop/calc.py", watch=watch)
    assert (result.how, result.words, result.tokens, result.usd, result.session) == ("finished", "Done: it works.", 1050, 0.01, SESSION)
    assert watch.kinds == ["tool.called", "tool.returned", "model.replied"]


def test_without_a_gate_nothing_is_allowed(tmp_path: Path) -> None:
    result = run_turn(tmp_path, f"do: run touch {tmp_path}/made")
    assert (result.how, result.denials, (tmp_path / "made").exists()) == ("finished", 1, False)


def test_a_session_is_loaded_and_what_it_repeats_is_not_recorded_again(tmp_path: Path) -> None:
    watch = Watcher()
    result = run_turn(tmp_path, "Go on", watch=watch, session=SESSION)
    assert (result.session, result.words) == (SESSION, "Done: it works.")
    assert [event.data["said"] for event in watch.events if event.kind == "model.replied"] == ["Done: it works."]


def test_an_agent_that_cannot_load_sessions_begins_each_turn_anew(tmp_path: Path) -> None:
    result = run_turn(tmp_path, "Go on", "--no-load", session=SESSION)
    assert (result.how, result.session) == ("finished", None)


@pytest.mark.parametrize(
    ("prompt", "argument", "error"), [("do: fail", "--", "the model is overloaded"), ("Hello", "--refuse-version", "version 99")]
)
def test_what_the_agent_refuses_is_a_failed_turn_with_its_reason(tmp_path: Path, prompt: str, argument: str, error: str) -> None:
    result = run_turn(tmp_path, prompt, argument)
    assert result.how == "failed"
    assert error in result.error


def test_a_session_that_cannot_be_loaded_is_lost_so_that_the_turn_is_taken_again(tmp_path: Path) -> None:
    result = run_turn(tmp_path, "Go on", "--lose-session", session=SESSION)
    assert result.how == "failed"
    assert find_failure_by_text(result.error) == "session_lost"


def test_a_turn_that_is_stopped_leaves_no_process_behind(tmp_path: Path) -> None:
    pids: list[int] = []

    async def stop_when_it_waits(progress: TurnProgress) -> TurnOutcome | None:
        if progress.process is not None:
            pids.append(progress.process.pid)
        return "stopped" if progress.session else None

    harness = AcpHarness(AGENT, os.environ)
    result = asyncio.run(harness.take_turn(order_for(tmp_path, "do: run sleep 60"), stop_when_it_waits))
    assert result.how == "stopped"
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def goal_file(lore: Lore, prompt: str, *, more: str = "") -> str:
    (lore.folder / "work").mkdir()
    head = f"description = '{prompt}'\nharness = 'acp'\ncommand = {json.dumps(list(AGENT))}\nworkspace = 'work'\n"
    return lore.write("goal.toml", f"{head}[budget]\nmax_turns = 1\n{more}\n[[acceptance]]\ncommand = 'test -e ok'\n")


def test_a_goal_s_gate_answers_what_the_agent_asks(lore: Lore) -> None:
    path = goal_file(lore, "do: run touch ok", more='[permissions]\nallow = ["Bash(touch ok)"]\nask = false')
    assert "✓ all criteria are met" in lore("goal", "run", path, code=0).out
    decisions = lore("events", "--all", "--json", "--kind", "driver.decision").ndjson
    assert [event["data"]["decision"]["choice"]["kind"] for event in decisions] == ["allow"]


def test_a_goal_s_rules_refuse_what_they_do_not_allow(lore: Lore) -> None:
    path = goal_file(lore, "do: run touch ok", more='[permissions]\nallow = ["Bash(ls)"]\nask = false')
    lore("goal", "run", path, code=1)
    assert not (lore.folder / "work" / "ok").exists()


def test_a_goal_without_a_command_is_an_error(lore: Lore) -> None:
    path = lore.write("goal.toml", "description = 'x'\nharness = 'acp'\n[[acceptance]]\ncommand = 'true'\n")
    assert "give the agent's program as a list" in lore("goal", "run", path, code=2).err


def test_every_file_of_a_call_is_asked_about() -> None:
    call = {"kind": "edit", "title": "Edit", "locations": [{"path": "/a"}], "content": [{"type": "diff", "path": "/b", "newText": "x"}]}
    assert [(each.tool, each.input["file_path"]) for each in make_gate_questions(call)] == [("Edit", "/a"), ("Edit", "/b")]
    assert make_gate_questions({"kind": "execute", "rawInput": {"command": ["rm", "a b"]}})[0].input["command"] == "rm 'a b'"
