"""Real coding agents against stand-ins of their models: what they record is imported once, with the tokens that the model reported.

`python -m torture.programs [NAME…]` installs the programs from npm into .venv/programs, and runs each in a network namespace of its own,
where only loopback is reachable. Each session calls a tool, calls one that fails, starts a sub-agent (Codex does not offer its own to
this stub, pi has none, and Droid's need its account), answers, and is resumed once (not Droid: that needs its account, too).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

HERE = Path(sys.prefix) / "programs"
LORE = Path(sys.executable).parent / "lore"
STEPS = ("echo works", "echo breaks >&2; exit 3")
"""The commands that the model asks for, one after the other."""
PROMPT, AGAIN, HELPER_PROMPT = "Run both commands", "Once more", "Say how many files there are."
DONE, HELPER_DONE = "Both commands were run.", "There is one file."
INPUT, OUTPUT = 100, 20
"""Tokens that every reply reports."""
RUN_SECONDS = 600
"""Without network, Kilo waits minutes for lists of models."""


class RealProgram(NamedTuple):
    """A coding agent from npm."""

    name: str
    """Its name in `lore import`."""
    package: str
    prepare: Callable[[Path, str], Mapping[str, str]]
    """Writes its settings into a home folder; returns variables. The second argument is the address of the stub."""
    start: tuple[str, ...]
    """The command of the first turn."""
    resume: tuple[str, ...] = ()
    """The command that continues the session."""
    helper: tuple[str, Mapping[str, str]] | None = None
    """The tool that starts a sub-agent, and its arguments."""
    needs: tuple[str, ...] = ()
    """Other packages that it needs."""


# --- the stub


class Step(NamedTuple):
    """What the model does next: a tool call, or a final answer."""

    tool: str = ""
    arguments: Mapping[str, object] = {}
    text: str = ""


SHELL_TOOLS = ("Bash", "exec_command", "shell_command", "run_shell_command", "bash", "shell", "Execute")
SHELL_ARGUMENTS: Mapping[str, Mapping[str, object]] = {
    "run_shell_command": {"is_background": False},
    "Execute": {"riskLevel": "low", "riskLevelReason": "It only prints."},
}
"""Arguments that some of them need beside the command and its description."""


class ModelStub(ThreadingHTTPServer):
    """Answers in the wire formats of four vendors: one step after the other, by how many results it has been sent."""

    def __init__(self, helper: tuple[str, Mapping[str, str]] | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.helper = helper
        self.numbers = count(1)
        self.replies = 0
        """How many replies it has sent to requests with tools. Others make titles or choose a model, and no recording has them."""
        self.asked: list[dict[str, Any]] = []

    def next_step(self, conversation: object, results: int, tools: Sequence[str]) -> Step:
        """What to answer after so many results since the newest prompt."""
        text = json.dumps(conversation)
        self.replies += bool(tools)
        if HELPER_PROMPT in text and PROMPT not in text:
            return Step(text=HELPER_DONE)
        shell = next((tool for tool in SHELL_TOOLS if tool in tools), None)
        if shell and results < len(STEPS):
            command = STEPS[results]
            arguments = {"command": command, "description": "step", **SHELL_ARGUMENTS.get(shell, {})}
            return Step(shell, {"cmd": command} if shell == "exec_command" else arguments)
        if self.helper is not None and self.helper[0] in tools and results == len(STEPS):
            return Step(*self.helper)
        return Step(text=DONE)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelStub

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._answer({"data": [], "models": []})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        self.server.asked.append({"path": self.path, **asked})
        if "count_tokens" in self.path or "countTokens" in self.path:
            self._answer({"input_tokens": 10, "totalTokens": 10})
        elif "/messages" in self.path:
            self._send_events(_anthropic_events(self.server, asked), asked)
        elif "/responses" in self.path:
            self._send_events(_responses_events(self.server, asked), asked)
        elif "/chat/completions" in self.path:
            self._send_events(_chat_events(self.server, asked), asked)
        elif "enerateContent" in self.path:
            self._send_events(_gemini_events(self.server, asked), asked | {"stream": "stream" in self.path})
        else:
            self._answer({})

    def _answer(self, value: object) -> None:
        raw = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _send_events(self, events: Sequence[tuple[str | None, object]], asked: Mapping[str, Any]) -> None:
        if not asked.get("stream"):
            self._answer(events[-1][1])
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for name, value in events[:-1]:
            head = f"event: {name}\n" if name else ""
            body = value if isinstance(value, str) else json.dumps(value)
            self.wfile.write(f"{head}data: {body}\n\n".encode())
            self.wfile.flush()
        self.close_connection = True


def _anthropic_events(stub: ModelStub, asked: Mapping[str, Any]) -> list[tuple[str | None, object]]:
    """Anthropic's Messages; the last event is the whole message."""
    number, names = next(stub.numbers), [tool.get("name", "") for tool in asked.get("tools", [])]
    messages = asked.get("messages", [])
    blocks = [block for message in messages if isinstance(message["content"], list) for block in message["content"]]
    step = stub.next_step(messages, sum(block.get("type") == "tool_result" for block in blocks), names)
    block: dict[str, Any] = {"type": "text", "text": step.text}
    delta = {"type": "text_delta", "text": step.text}
    empty: dict[str, Any] = {"text": ""}
    if step.tool:
        block = {"type": "tool_use", "id": f"toolu_{number:04}", "name": step.tool, "input": step.arguments}
        delta, empty = {"type": "input_json_delta", "partial_json": json.dumps(step.arguments)}, {"input": {}}
    whole = {
        "id": f"msg_{number:04}", "type": "message", "role": "assistant", "model": asked.get("model"), "content": [block],
        "stop_reason": "tool_use" if step.tool else "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": INPUT, "output_tokens": OUTPUT, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0},
    }  # fmt: skip
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": whole | {"content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": block | empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": whole["stop_reason"]}, "usage": {"output_tokens": OUTPUT}},
        {"type": "message_stop"},
    ]
    return [*((str(event["type"]), event) for event in events), (None, whole)]


def _responses_events(stub: ModelStub, asked: Mapping[str, Any]) -> list[tuple[str | None, object]]:
    """OpenAI's Responses."""
    number, names = next(stub.numbers), [tool.get("name", "") for tool in asked.get("tools", [])]
    items = [item for item in asked.get("input", []) if isinstance(item, dict)]
    marks = [item.get("type") == "function_call_output" or (item.get("role") == "user" and None) for item in items]
    step = stub.next_step(items, _count_since_prompt(marks), names)
    item: dict[str, Any] = {
        "type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": step.text, "annotations": []}],
    }  # fmt: skip
    if step.tool:
        item = {
            "type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": step.tool, "status": "completed",
            "arguments": json.dumps(step.arguments),
        }  # fmt: skip
    usage = {
        "input_tokens": INPUT, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": OUTPUT,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": INPUT + OUTPUT,
    }  # fmt: skip
    whole = {
        "id": f"resp_{number}",
        "created_at": 1,
        "object": "response",
        "status": "completed",
        "model": asked.get("model"),
        "output": [item],
        "usage": usage,
    }
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": whole | {"status": "in_progress", "output": [], "usage": None}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return [*((str(event["type"]), event) for event in events), (None, whole)]


def _chat_events(stub: ModelStub, asked: Mapping[str, Any]) -> list[tuple[str | None, object]]:
    """OpenAI's Chat Completions."""
    number, names = next(stub.numbers), [tool.get("function", {}).get("name", "") for tool in asked.get("tools", [])]
    messages = asked.get("messages", [])
    marks = [message.get("role") == "tool" or (_is_prompt(message) and None) for message in messages]
    step = stub.next_step(messages, _count_since_prompt(marks), names)
    message: dict[str, Any] = {"role": "assistant", "content": step.text}
    if step.tool:
        call = {"index": 0, "id": f"call_{number}", "type": "function"}
        call["function"] = {"name": step.tool, "arguments": json.dumps(step.arguments)}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    finish = "tool_calls" if step.tool else "stop"
    usage = {"prompt_tokens": INPUT, "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT}
    head = {"id": f"chatcmpl-{number}", "created": 1, "model": asked.get("model")}
    chunk = head | {"object": "chat.completion.chunk"}
    events: list[object] = [
        chunk | {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        chunk | {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
        chunk | {"choices": [], "usage": usage},
        "[DONE]",
    ]
    whole = head | {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage}
    return [*((None, event) for event in events), (None, whole)]


def _gemini_events(stub: ModelStub, asked: Mapping[str, Any]) -> list[tuple[str | None, object]]:
    """Google's generateContent."""
    names = [one.get("name", "") for tool in asked.get("tools", []) for one in tool.get("functionDeclarations", [])]
    contents = asked.get("contents", [])
    parts = [(content.get("role"), part) for content in contents for part in content.get("parts", [])]
    marks = ["functionResponse" in part or (role == "user" and None) for role, part in parts]
    step = stub.next_step(contents, _count_since_prompt(marks), names)
    part: dict[str, Any] = {"functionCall": {"name": step.tool, "args": step.arguments}} if step.tool else {"text": step.text}
    if "complete_task" in names and not step.tool:  # how its sub-agents answer
        part = {"functionCall": {"name": "complete_task", "args": {"result": {"response": step.text}}}}
    if asked.get("generationConfig", {}).get("responseMimeType") == "application/json":  # it asks which model to use
        part = {"text": json.dumps({"reasoning": "simple", "model_choice": "flash"})}
    whole = {
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": INPUT, "candidatesTokenCount": OUTPUT, "totalTokenCount": INPUT + OUTPUT},
        "modelVersion": "gemini-stub",
    }
    return [(None, whole), (None, whole)]


def _is_prompt(message: Mapping[str, Any]) -> bool:
    """Whether it is a person's message: Goose adds others after the results of calls."""
    return message.get("role") == "user" and any(prompt in json.dumps(message["content"]) for prompt in (PROMPT, AGAIN, HELPER_PROMPT))


def _count_since_prompt(marks: Sequence[bool | None]) -> int:
    """How many results there are since the newest prompt; a prompt is marked `None`."""
    newest = len(marks) - 1 - next((n for n, mark in enumerate(reversed(marks)) if mark is None), len(marks))
    return sum(mark is True for mark in marks[newest + 1 :])


# --- the programs


def _prepare_claude(home: Path, url: str) -> Mapping[str, str]:
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "dummy", "IS_SANDBOX": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}


def _prepare_codex(home: Path, url: str) -> Mapping[str, str]:
    folder = home / ".codex"
    folder.mkdir(exist_ok=True)
    provider = f'[model_providers.stub]\nname = "stub"\nbase_url = "{url}/v1"\nwire_api = "responses"\nenv_key = "STUB_KEY"\n'
    (folder / "config.toml").write_text(f'model = "gpt-5"\nmodel_provider = "stub"\n\n{provider}')
    return {"STUB_KEY": "dummy"}


def _prepare_gemini(home: Path, url: str) -> Mapping[str, str]:
    folder = home / ".gemini"
    folder.mkdir(exist_ok=True)
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}}}
    (folder / "settings.json").write_text(json.dumps(settings))
    return {"GEMINI_API_KEY": "dummy", "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_TELEMETRY_ENABLED": "false"}


def _prepare_qwen(home: Path, url: str) -> Mapping[str, str]:
    return {"OPENAI_API_KEY": "dummy", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "stub-model"}


def _write_settings(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _prepare_opencode(home: Path, url: str, *, name: str = "opencode") -> Mapping[str, str]:
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "stub", "options": {"baseURL": f"{url}/v1", "apiKey": "dummy"}}
    models = {"stub-model": {"name": "stub", "limit": {"context": 100_000, "output": 10_000}}}
    settings = {"provider": {"stub": provider | {"models": models}}, "permission": "allow", "autoupdate": False, "share": "disabled"}
    _write_settings(home / ".config" / name / f"{name}.json", json.dumps(settings))
    return {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"}


def _prepare_kilo(home: Path, url: str) -> Mapping[str, str]:
    return _prepare_opencode(home, url, name="kilo")


def _prepare_goose(home: Path, url: str) -> Mapping[str, str]:
    settings = {"GOOSE_PROVIDER": "openai", "GOOSE_MODEL": "gpt-4o", "GOOSE_MODE": "auto", "GOOSE_DISABLE_KEYRING": "1"}
    return settings | {"OPENAI_API_KEY": "dummy", "OPENAI_HOST": url}


def _prepare_kimi(home: Path, url: str) -> Mapping[str, str]:
    provider = f'[providers.stub]\ntype = "openai"\nbase_url = "{url}/v1"\napi_key = "dummy"\n'
    model = '[models.stub]\nprovider = "stub"\nmodel = "stub-model"\nmax_context_size = 100000\n'
    _write_settings(home / ".kimi-code" / "config.toml", f'default_model = "stub"\n{provider}{model}')
    return {"KIMI_CODE_NO_AUTO_UPDATE": "1"}


def _prepare_droid(home: Path, url: str) -> Mapping[str, str]:
    model = {"model": "stub-model", "displayName": "stub", "baseUrl": f"{url}/v1", "apiKey": "dummy", "maxOutputTokens": 8000}
    settings = {"customModels": [model | {"provider": "generic-chat-completion-api"}]}
    _write_settings(home / ".factory" / "settings.json", json.dumps(settings))
    return {"FACTORY_API_KEY": "fk-dummy"}


def _prepare_pi(home: Path, url: str) -> Mapping[str, str]:
    model = {"id": "stub-model", "name": "stub", "reasoning": False, "input": ["text"], "contextWindow": 100_000, "maxTokens": 8000}
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "dummy", "models": [model]}
    _write_settings(home / ".pi" / "agent" / "models.json", json.dumps({"providers": {"stub": provider}}))
    return {"PI_OFFLINE": "1"}


_CODEX = ("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
_OPENCODE = ("opencode", "run", "-m", "stub/stub-model")
_KILO = ("kilo", "run", "--auto", "-m", "stub/stub-model")
_PI = ("pi", "-p", "--model", "stub/stub-model")
_ASKED = {"prompt": HELPER_PROMPT, "description": "count"}
PROGRAMS = (
    RealProgram(
        "claude-code", "@anthropic-ai/claude-code", _prepare_claude,
        ("claude", "-p", PROMPT, "--dangerously-skip-permissions"),
        ("claude", "-p", AGAIN, "--continue", "--dangerously-skip-permissions"),
        ("Agent", _ASKED | {"subagent_type": "general-purpose"}),
    ),
    RealProgram("codex", "@openai/codex", _prepare_codex, (*_CODEX, PROMPT), (*_CODEX, "resume", "--last", AGAIN)),
    RealProgram(
        "gemini-cli", "@google/gemini-cli", _prepare_gemini,
        ("gemini", "--yolo", "-p", PROMPT), ("gemini", "--yolo", "--resume", "latest", "-p", AGAIN),
        ("invoke_agent", {"prompt": HELPER_PROMPT, "agent_name": "generalist"}),
    ),
    RealProgram(
        "qwen-code", "@qwen-code/qwen-code", _prepare_qwen,
        ("qwen", "--yolo", "--auth-type", "openai", "-p", PROMPT), ("qwen", "--yolo", "--auth-type", "openai", "--continue", "-p", AGAIN),
        ("agent", _ASKED | {"subagent_type": "general-purpose"}), ("node@24",),
    ),
    RealProgram(
        "opencode", "opencode-ai", _prepare_opencode, (*_OPENCODE, PROMPT), (*_OPENCODE, "-c", AGAIN),
        ("task", _ASKED | {"subagent_type": "general"}),
    ),
    RealProgram(
        "kilo", "@kilocode/cli-linux-x64", _prepare_kilo, (*_KILO, PROMPT), (*_KILO, "-c", AGAIN),
        ("task", _ASKED | {"subagent_type": "general"}),
    ),
    RealProgram(
        "goose", "@aaif/goose-binary-linux-x64", _prepare_goose,
        ("goose", "run", "--name", "first", "-t", PROMPT), ("goose", "run", "--name", "first", "--resume", "-t", AGAIN),
        ("delegate", {"instructions": HELPER_PROMPT}),
    ),
    RealProgram(
        "kimi-code", "@moonshot-ai/kimi-code", _prepare_kimi, ("kimi", "-p", PROMPT), ("kimi", "-c", "-p", AGAIN),
        ("Agent", _ASKED | {"subagent_type": "coder"}), ("node@24",),
    ),
    RealProgram("droid", "@factory/cli-linux-x64", _prepare_droid, ("droid", "exec", "--auto", "high", "-m", "custom:stub-0", PROMPT)),
    RealProgram("pi", "@earendil-works/pi-coding-agent", _prepare_pi, (*_PI, PROMPT), (*_PI, "-c", AGAIN), needs=("node@24",)),
)  # fmt: skip


def install_programs(programs: Sequence[RealProgram]) -> None:
    """Install the newest versions from npm, if they are not there."""
    missing = [program for program in programs if not (HERE / "node_modules" / program.package).is_dir()]
    if missing:
        HERE.mkdir(parents=True, exist_ok=True)
        packages = dict.fromkeys(package for program in missing for package in (program.package, *program.needs))
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", HERE, *packages], check=True)


def run_inside(program: RealProgram, home: Path) -> dict[str, Any]:
    """Both turns, in this process's network namespace; returns what the stub counted and what the program printed."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    work = home / "work"
    work.mkdir()
    with ModelStub(program.helper) as stub:
        Thread(target=stub.serve_forever, daemon=True).start()
        variables = program.prepare(home, f"http://127.0.0.1:{stub.server_port}")
        own = HERE / "node_modules"
        path = f"{own / '.bin'}:{own / program.package}:{own / program.package / 'bin'}:{os.environ['PATH']}"
        kept = {name: value for name, value in os.environ.items() if name in ("LANG", "TERM", "TMPDIR")}
        environ = {**kept, "PATH": path, "HOME": str(home), "NO_COLOR": "1", "CI": "1", **variables}
        turns = []
        for command in filter(None, (program.start, program.resume)):
            done = subprocess.run(
                command, cwd=work, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
            )
            turns.append({"code": done.returncode, "out": done.stdout[-2000:], "err": done.stderr[-2000:], "replies": stub.replies})
        stub.shutdown()
        return {"turns": turns, "paths": [asked["path"] for asked in stub.asked]}


def check_program(program: RealProgram, folder: Path) -> str:
    """Run the program, import what it recorded twice, and compare; returns one line for the report."""
    home = folder / program.name
    home.mkdir()
    told = _run_in_namespace(program.name, home)
    assert not any(turn["code"] for turn in told["turns"]), told["turns"]
    events = list(_import_twice(program, home))
    kinds = [event["kind"] for event in events]
    results = [event for event in events if event["kind"] in ("tool.returned", "tool.failed")]
    failed = [event for event in results if event["kind"] == "tool.failed" or event["data"].get("exit_code")]
    replies = [event["data"] for event in events if event["kind"] == "model.replied"]
    tokens = sum(reply.get(key) or 0 for reply in replies for key in ("input", "output", "cache_read", "cache_write"))
    sessions = _read_lore(home, "sessions", "--all", "--json")
    turns = kinds.count("prompt.submitted")
    assert len(sessions) == 1, f"{program.name}: {len(sessions)} sessions"
    assert turns == len(told["turns"]), f"{program.name}: {turns} prompts"
    assert kinds.count("tool.called") == len(results) >= len(STEPS), f"{program.name}: {kinds}"
    assert failed, f"{program.name}: no failed call"
    helpers = kinds.count("agent.launched")
    assert helpers == kinds.count("agent.returned"), f"{program.name}: {helpers} sub-agents launched"
    assert helpers or program.helper is None, f"{program.name}: no sub-agent"
    expected = told["turns"][-1]["replies"] * (INPUT + OUTPUT)
    assert tokens == expected, f"{program.name}: {tokens} tokens are recorded, the model reported {expected} ({told['paths']})"
    counts = f"{turns} prompts, {len(results)} calls, {len(failed)} failed, {helpers} sub-agents, {tokens} tokens"
    return f"{program.name} {_find_version(program)}: 1 session, {counts}"


GOAL = f"""description = "{PROMPT}"
harness = "acp"
command = ["gemini", "--acp"]
workspace = "repository"

[budget]
max_turns = 2

[permissions]
allow = ["*"]
ask = false

[[acceptance]]
command = "test -e works"
"""


def run_goal_inside(home: Path) -> dict[str, Any]:
    """A goal whose agent is Gemini CLI over the Agent Client Protocol, in this process's network namespace."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    repository = home / "repository"
    repository.mkdir()
    (repository / "works").touch()
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(repository))
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "Begin")):
        subprocess.run([*git, *words], check=True)
    (home / "goal.toml").write_text(GOAL)
    with ModelStub(None) as stub:
        Thread(target=stub.serve_forever, daemon=True).start()
        variables = _prepare_gemini(home, f"http://127.0.0.1:{stub.server_port}")
        environ = {"PATH": f"{HERE / 'node_modules' / '.bin'}:{os.environ['PATH']}", "HOME": str(home), **variables}
        command = [str(LORE), "--log", f"sqlite:{home}/recorded.db", "goal", "run", "goal.toml"]
        done = subprocess.run(command, cwd=home, env=environ, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
        stub.shutdown()
        return {"code": done.returncode, "out": done.stdout[-2000:], "err": done.stderr[-2000:], "replies": stub.replies}


def check_acp(folder: Path) -> str:
    """Drive the ACP agent, and compare what the goal recorded; returns one line for the report."""
    home = folder / "acp"
    home.mkdir()
    told = _run_in_namespace("acp", home)
    assert told["code"] == 0, told
    events = _read_lore(home, "events", "--all", "--json")
    results = [event for event in events if event["kind"] in ("tool.returned", "tool.failed")]
    assert len(results) >= len(STEPS), [event["kind"] for event in events]
    assert [event for event in results if event["kind"] == "tool.failed" or event["data"].get("exit_code")], "no failed call"
    ended = next(event for event in events if event["kind"] == "driver.goal_completed")
    assert ended["data"]["outcome"]["outcome"]["kind"] == "done", ended
    return f"gemini --acp driven by a goal: done, {len(results)} calls"


def _run_in_namespace(name: str, home: Path) -> dict[str, Any]:
    inside = [sys.executable, "-m", "torture.programs", "--inside", name, "--home", str(home)]
    ran = subprocess.run(["unshare", "--net", *inside], capture_output=True, text=True, timeout=3 * RUN_SECONDS, check=False)
    assert ran.returncode == 0, ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return told


def _import_twice(program: RealProgram, home: Path) -> Iterator[dict[str, Any]]:
    environ = {"HOME": str(home), "PATH": os.environ["PATH"]}
    log = ["--log", f"sqlite:{home}/recorded.db"]
    for _ in range(2):
        done = subprocess.run([LORE, *log, "import", program.name], env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    yield from _read_lore(home, "events", "--all", "--json")


def _read_lore(home: Path, *command: str) -> list[dict[str, Any]]:
    environ = {"HOME": str(home), "PATH": os.environ["PATH"]}
    listed = subprocess.run(
        [LORE, "--log", f"sqlite:{home}/recorded.db", *command], env=environ, capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in listed.stdout.splitlines()]


def _find_version(program: RealProgram) -> str:
    package = json.loads((HERE / "node_modules" / program.package / "package.json").read_text(encoding="utf-8"))
    return str(package["version"])


def check_programs(folder: Path, names: Sequence[str] = ()) -> str:
    """All programs, or some; returns one line each."""
    programs = [program for program in PROGRAMS if not names or program.name in names]
    install_programs([program for program in PROGRAMS if program in programs or (program.name == "gemini-cli" and "acp" in names)])
    lines = [check_program(program, folder) for program in programs]
    return "\n".join([*lines, *([check_acp(folder)] if not names or "acp" in names else [])])


def main(argv: Sequence[str] | None = None) -> int:
    """Check programs, or (inside of the namespace) run one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(program.name for program in PROGRAMS)}, acp (all)")
    parser.add_argument("--inside", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.inside == "acp":
        print(json.dumps(run_goal_inside(given.home)))
        return 0
    if given.inside:
        program = next(program for program in PROGRAMS if program.name == given.inside)
        print(json.dumps(run_inside(program, given.home)))
        return 0
    if shutil.which("npm") is None:
        print("npm is not installed: no program is checked")
        return 0
    with tempfile.TemporaryDirectory(prefix="fleetlore-programs-") as folder:
        print(check_programs(Path(folder), given.names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
