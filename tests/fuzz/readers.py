"""Everything that reads what others wrote: how it is asked, and valid samples to begin with."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from starlette.requests import HTTPConnection

from fleetlore import clock, connect
from fleetlore import settings as config
from fleetlore.cli import hook, times
from fleetlore.dialects import recording
from fleetlore.dialects.forge.webhooks import read_delivery
from fleetlore.dialects.otlp import reader as otlp_reader
from fleetlore.dialects.recording import Recording
from fleetlore.dialects.registry import NAMES, find_dialect
from fleetlore.documents import durations
from fleetlore.errors import DialectError, FleetloreError
from fleetlore.events import codec
from fleetlore.events.envelope import Event
from fleetlore.goal import files
from fleetlore.goal.gate.rules import ToolRules
from fleetlore.graph import files as graph_files
from fleetlore.graph import scenarios
from fleetlore.graph.checks import check_graph
from fleetlore.graph.registry import Registry
from fleetlore.graph.tools import sql_check
from fleetlore.graph.tools.database import parse_database_address
from fleetlore.ingest import transcript_file
from fleetlore.ingest.recognise import recognise_file
from fleetlore.log import seal, tokens
from fleetlore.log.admission import Admission
from fleetlore.log.base import Record, check_scope
from fleetlore.log.nats import client
from fleetlore.log.nats import log as nats_log
from fleetlore.log.recorder import make_query
from fleetlore.log.redis import entry
from fleetlore.log.redis import log as redis_log
from fleetlore.models import open as minds
from fleetlore.models import parse_json
from fleetlore.operations.events import ListEvents, SearchEvents
from fleetlore.operations.reading import parse_time_zone
from fleetlore.operations.request import Request
from fleetlore.operations.timeline import ReadTimeline
from fleetlore.operations.town_page import ReadTown
from fleetlore.operations.workers import load_template
from fleetlore.process.run import OutputLine
from fleetlore.process.tree import parse_ps_line
from fleetlore.programs import failure_patterns, failures, registry
from fleetlore.programs.claude_code.harness import ClaudeOutputParser
from fleetlore.programs.claude_code.hooks import read_hook as claude_code_hook
from fleetlore.programs.claude_code.transcript import RECORDING as CLAUDE_CODE
from fleetlore.programs.codex.harness import CodexOutputParser, RolloutFollower
from fleetlore.programs.codex.hooks import read_hook as codex_hook
from fleetlore.programs.codex.transcript import RECORDING as CODEX
from fleetlore.programs.command import parse_report_line
from fleetlore.programs.turn_output import OutputParser
from fleetlore.server import queries, view_cache
from fleetlore.server.live.stream import FeedQuery
from fleetlore.server.mcp import pages
from fleetlore.server.mcp import times as mcp_times
from fleetlore.server.notifications import rules as notices
from fleetlore.server.problems import Problem
from fleetlore.server.security import hosts
from fleetlore.stage import files as stage_files
from fleetlore.town.jobs import parse_verdict
from fleetlore.town.plans import load as plans_load
from tests.dialects import golden
from tests.graph.tools.attacks import ATTACKS
from tests.programs import rollouts
from tests.programs.recordings import RECORDED
from tests.programs.stubs.turns import order_for
from tests.transcripts import a_day

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
NOWHERE = Path("/nonexistent")


class Reader(NamedTuple):
    """One door for foreign bytes."""

    name: str
    read: Callable[[bytes], object]
    samples: Sequence[bytes]
    refuses: tuple[type[Exception], ...] = (FleetloreError,)


READERS: list[Reader] = []


def of_bytes(name: str, samples: Sequence[bytes | str], read: Callable[[bytes], object], *refuses: type[Exception]) -> None:
    """A reader of bytes."""
    plain = [sample.encode(errors="replace") if isinstance(sample, str) else sample for sample in samples]
    READERS.append(Reader(name, read, plain, (FleetloreError, *refuses)))


def of_text(name: str, samples: Sequence[bytes | str], read: Callable[[str], object], *refuses: type[Exception]) -> None:
    """A reader of what stood in a file, or came as JSON."""
    of_bytes(name, samples, lambda raw: read(raw.decode(errors="replace")), *refuses)


def of_argument(name: str, samples: Sequence[str], read: Callable[[str], object], *refuses: type[Exception]) -> None:
    """A reader of what stands on a command line, where bytes that are no UTF-8 are half surrogate pairs."""
    of_bytes(name, samples, lambda raw: read(raw.decode(errors="surrogateescape")), *refuses)


def blocks(page: str, language: str) -> list[str]:
    """What stands in the fenced blocks of a page of ours."""
    parts = (ROOT / "docs" / page).read_text(encoding="utf-8").split(f"```{language}\n")[1:]
    return [part.partition("```")[0] for part in parts]


def shown(folder: str, pattern: str) -> list[bytes]:
    """Files that come along."""
    return [path.read_bytes() for path in sorted((ROOT / folder).glob(pattern))]


# --- events, in every dialect


def _stored(event: Event) -> Record:
    """What was understood is fit for the log."""
    return Admission().admit(event)


def _decode_with(decode: Callable[[bytes], Event]) -> Callable[[bytes], object]:
    return lambda raw: _stored(decode(raw))


def _recorded(recording: Recording) -> Callable[[bytes], object]:
    def read(raw: bytes) -> None:
        reader = recording.open(None)
        recorded = []
        for line in raw.split(b"\n"):
            with suppress(DialectError):
                recorded += reader.read(line)
        reader = recording.open(reader.save())
        for event in (*recorded, *reader.flush_complete(), *reader.end()):
            _stored(event)

    return read


def _exported(read: Callable[..., list[Event]], *, protobuf: bool) -> Callable[[bytes], object]:
    return lambda raw: [_stored(event) for event in read(raw, protobuf=protobuf, programs=registry.load_telemetry())]


def _hooked(read: Callable[..., list[Event]]) -> Callable[[bytes], object]:
    return lambda raw: [_stored(event) for event in read(recording.parse_record(raw), id=clock.uuid7(), at=NOW)]


EVENT = codec.encode_event(
    Event(kind="tool.called", id=clock.uuid7(), at=NOW, actor="ada", agent="ada", task="t1", data={"tool": "Bash", "input": {"a": [1]}})
)
SPAN = {
    "traceId": "5b8efff798038103d269b633813fc60c",
    "spanId": "eee19b7ec3c1b174",
    "name": "chat m",
    "startTimeUnixNano": "1780315200000000000",
    "endTimeUnixNano": "1780315201000000000",
    "attributes": [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
        {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "7"}},
    ],
}
RECORD = {"timeUnixNano": "1780315200000000000", "body": {"stringValue": "claude_code.tool_result"}, "attributes": SPAN["attributes"]}
SERVICE = {"attributes": [{"key": "service.name", "value": {"stringValue": "claude-code"}}]}
TRACES = json.dumps({"resourceSpans": [{"resource": SERVICE, "scopeSpans": [{"spans": [SPAN]}]}]})
LOGS = json.dumps({"resourceLogs": [{"resource": SERVICE, "scopeLogs": [{"logRecords": [RECORD]}]}]})
PROTOBUF = bytes.fromhex("0a2a12280a0022240a105b8efff798038103d269b633813fc60c1208eee19b7ec3c1b1742a0663686174206d3001")
CALL = json.dumps(
    {"session_id": "s1", "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}, "cwd": "/", "turn_id": "t"}
)
DELIVERY = json.dumps(
    {
        "ref": "refs/heads/main",
        "repository": {"full_name": "a/b", "html_url": "http://x/a/b"},
        "commits": [{"id": "0" * 40, "message": "one\n\ntwo", "timestamp": "2026-06-01T12:00:00Z", "author": {"name": "ada"}}],
        "sender": {"login": "ada"},
        "action": "opened",
        "issue": {"number": 7, "title": "x", "labels": [{"name": "bug"}]},
        "pull_request": {"number": 8, "merged": True, "head": {"ref": "x"}},
    }
)

for _name in NAMES:
    of_bytes(f"dialect {_name}", golden.lines(_name), _decode_with(find_dialect(_name).decode))
of_bytes("event", [EVENT], _decode_with(codec.decode_event))
of_bytes("transcript of Claude Code", [b"\n".join(a_day().lines())], _recorded(CLAUDE_CODE))
for _recorded_program in RECORDED:
    of_bytes(
        f"transcript of {_recorded_program.program}",
        [b"\n".join(json.dumps(row).encode() for row in _recorded_program.rows())],
        _recorded(registry.find_recording(_recorded_program.program)),
    )
of_bytes(
    "rollout of Codex",
    [
        b"\n".join(
            rollouts.lines(
                [rollouts.meta(), *rollouts.asked(1, "go"), rollouts.call(2, "ls"), rollouts.result(3, "ok"), *rollouts.said(4, "done")]
            )
        )
    ],
    _recorded(CODEX),
)
_ACP = [
    {"from": "client", "message": {"id": 1, "method": "session/new", "params": {"cwd": "/home/ada/shop"}}},
    {"from": "agent", "message": {"id": 1, "result": {"sessionId": "s1"}}},
    {"from": "client", "message": {"id": 2, "method": "session/prompt", "params": {"sessionId": "s1", "prompt": [{"text": "go"}]}}},
    *(
        {
            "from": "agent",
            "message": {"method": "session/update", "params": {"sessionId": "s1", "update": {"sessionUpdate": name} | fields}},
        }
        for name, fields in (
            ("agent_message_chunk", {"content": {"type": "text", "text": "I look."}}),
            ("tool_call", {"toolCallId": "c1", "kind": "execute", "status": "in_progress", "rawInput": {"command": ["ls", "-l"]}}),
            ("tool_call_update", {"toolCallId": "c1", "status": "failed", "rawOutput": {"exitCode": 1, "output": "no"}}),
            ("plan", {"entries": [{"status": "completed"}]}),
            ("usage_update", {"used": 7, "cost": {"amount": 0.01, "currency": "USD"}}),
        )
    ),
    {"from": "agent", "message": {"id": 2, "result": {"stopReason": "end_turn", "usage": {"inputTokens": 7, "outputTokens": 5}}}},
]
of_bytes(
    "conversation of ACP",
    [b"\n".join(json.dumps({"at": "2026-11-10T09:00:00Z"} | row).encode() for row in _ACP)],
    _recorded(registry.find_recording("acp")),
)
of_bytes("recording of OTLP", [TRACES, LOGS], _recorded(otlp_reader.make_recording(registry.load_telemetry())))
of_bytes("spans as JSON", [TRACES], _exported(otlp_reader.read_traces, protobuf=False))
of_bytes("spans as protobuf", [PROTOBUF], _exported(otlp_reader.read_traces, protobuf=True))
of_bytes("log records as JSON", [LOGS], _exported(otlp_reader.read_logs, protobuf=False))
of_bytes("log records as protobuf", [PROTOBUF], _exported(otlp_reader.read_logs, protobuf=True))
of_bytes("hook of Claude Code", [CALL], _hooked(claude_code_hook))
of_bytes("hook of Codex", [CALL], _hooked(codex_hook))
for _event in ("push", "issues", "pull_request"):
    of_bytes(
        f"delivery of a forge: {_event}",
        [DELIVERY],
        lambda raw, event=_event: [_stored(each) for each in read_delivery(recording.parse_record(raw), event=event)],  # type: ignore[misc]
    )
of_bytes("call of `lore hook`", [CALL], lambda raw: json.loads(hook.make_spool_line("claude-code", raw, len(raw))))
of_bytes(
    "entry of a Redis stream", [EVENT, *golden.lines("tinytown")], lambda raw: entry.decode_entry(b"7-1", [b"event", raw, b"data", raw])
)


# --- files that people write


def _from_file(name: str, load: Callable[[str], object]) -> Callable[[bytes], object]:
    def read(raw: bytes) -> object:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, name)
            Path(path).write_bytes(raw)
            return load(path)

    return read


def _settings(path: str) -> None:
    """As a project's file, and as the user's own, with the rules that it has."""
    folder = os.path.dirname(path)
    with suppress(FleetloreError):
        config.load_settings(folder=folder, environ={"HOME": folder})
    own = os.path.join(folder, "fleetlore", "fleetlore.toml")
    os.makedirs(os.path.dirname(own))
    os.rename(path, own)
    settings = config.load_settings(folder="/", environ={"XDG_CONFIG_HOME": folder, "HOME": folder})
    notices.parse_rules(settings)


def _worker(path: str) -> object:
    return load_template(path)


def _graph(text: str, suffix: str) -> object:
    return check_graph(graph_files.from_text(text, f"g{suffix}"), Registry())


TOML_GOAL = """description = "make it pass"
harness = "command"
command = ["make", "it"]
[budget]
max_turns = 5
max_wall_time = "20m"
[permissions]
allow = ["Bash(git status*)", "Edit(src/**)"]
[[acceptance]]
command = "make test"
[[acceptance]]
path = "a.txt"
regex = "^ok$"
"""
YAML_GOAL = "description: make it pass\nharness: mind\nmind: 'scripted:'\nbudget: {max_turns: 5}\nacceptance:\n- command: make test\n"
SETTINGS = """log = "sqlite:lore.db?sync=normal"
town = "t"
[redact]
patterns = ["x-[0-9]+"]
level = ["prompts", "paths"]
[ship]
to = "sqlite:other.db"
full = true
[retention]
keep = "90d"
[prices.some-model]
input = 1.5
output = 3
[[notify]]
name = "me"
when = "progress"
webhook = "https://example.org/x"
every = 10
[hooks]
github_secret = "s"
[context]
budget = 4000
relevance = 2.5
[graph]
default = "seven"
minds = { strong = "openai:m" }
"""
ISSUES = json.dumps([{"number": 3, "title": "a", "body": "What\n- [ ] x", "state": "open", "labels": [{"name": "bug"}]}])

of_bytes(
    "file of an unknown format",
    [b"\n".join(a_day().lines()), TRACES, DELIVERY, EVENT, json.dumps([{"history": []}], indent=1), b"SQLite format 3\0"],
    _from_file("session.jsonl", recognise_file),
)
of_bytes("settings", [SETTINGS, *blocks("configuration.md", "toml")], _from_file("fleetlore.toml", _settings))
of_bytes("goal in TOML", [TOML_GOAL], _from_file("g.toml", files.load_goal))
of_bytes("goal in YAML", [YAML_GOAL], _from_file("g.yaml", files.load_goal))
of_bytes("worker", [TOML_GOAL.replace('description = "make it pass"\n', ""), "[checks.a]\ncommand='x'\n"], _from_file("w.toml", _worker))
of_bytes("plan", blocks("town-plans.md", "toml"), _from_file("p.toml", plans_load.load_plan))
of_bytes("issues", [ISSUES], _from_file("i.json", plans_load.load_plan))
of_bytes("issues, one a line", [ISSUES[1:-1] + "\n" + ISSUES[1:-1]], _from_file("i.jsonl", plans_load.load_plan))
of_text("graph in TOML", shown("src/fleetlore/graph/graphs", "*.toml"), lambda text: _graph(text, ".toml"))
of_text(
    "graph in YAML",
    [
        "name: g\nnodes: {input: input_v1, output: output_v1}\nedges:\n- {from: user, to: [input]}\n- {from: input, to: output, when: x}\n"
        "words: {a: [b]}\nconditions: {x: {any: [{words: a}, {longer: 3, not: {came: text}}]}}\n"
    ],
    lambda text: _graph(text, ".yaml"),
)
of_text("scenario of a graph", shown("examples/graph", "*.md"), lambda text: scenarios.parse_scenario(text, "s.md"))
of_bytes("scenario of a stage", shown("src/fleetlore/stage/scenarios", "*.yaml"), _from_file("s.yaml", stage_files.load_scenario))
of_bytes(
    "JSON over many lines",
    [json.dumps([{"a": 1}, {"b": [2]}], indent=1)],
    _from_file("d.json", lambda path: transcript_file.read_documents(path, "d")),
)


# --- what is said on a command line, in an address or in a question

of_argument("--since", ["2h", "1d12h", "2026-06-01", "2026-06-01T12:00Z", "30m"], lambda text: times.parse_time(text, now=NOW))
of_argument("--expires", ["2h", "30d", "2099-06-01T12:00Z"], lambda text: times.parse_until(text, now=NOW))
of_argument("duration", ["1h 30m", "12s 345ms", "2 weeks", "0"], durations.parse_duration)
of_argument("retention", ["90d", "2w", "1y"], config.days_in)
of_text("moment of a tool", ["today", "2h", "2026-06-01T12:00:00Z"], lambda text: mcp_times.parse_since(text, now=NOW))
of_text("as_of", ["2026-06-01T12:00:00Z", "2026-06-01T12:00:00.5+02:00"], lambda text: view_cache.parse_time(text, "as_of"))
of_text("time zone", ["Europe/Berlin", "UTC"], parse_time_zone)
of_argument("scope", ["town", "agent:ada", "mission:m1", "source:x"], check_scope)
of_argument("place in a log", ["00000000000000000007", "7"], lambda text: make_query("town", text, text, [], NOW, False))
of_argument("kind", ["fleet.commit", "fleet.*", "x.y"], lambda text: make_query("town", None, None, [text], NOW, False))


def _address(text: str) -> None:
    """What `connect` makes of an address, without going there."""
    config.mask_url(text)
    connect(text)


def _options(parse: Callable[[dict[str, str]], Any]) -> Callable[[str], object]:
    return lambda text: parse(dict(part.partition("=")[::2] for part in text.split("&")))


of_argument(
    "address of a log",
    ["memory:", "sqlite:a.db?sync=off&timeout=3&town=x", "redis://u:p@h:6379/0?town=x", "nats://t@h:4222,g?replicas=3", "unix:/x?y=z"],
    _address,
)
of_argument("address of NATS", ["nats://u:p%40@one:4222,two:4222", "tls://t@[::1]:4222", "nats://h"], client.parse_address)
of_argument("options of NATS", ["replicas=3&timeout=2.5&dedup=2m"], _options(nats_log.parse_options))
of_argument("options of Redis", ["keep=everything&timeout=2.5"], _options(redis_log.parse_options))
of_argument(
    "address of a mind",
    ["scripted:", "openai:m?base_url=https://h/v1&key_env=K&attempts=2", "anthropic:m?first=2&total=9.5"],
    minds.parse_address,
)
of_argument(
    "address of a database",
    ["sqlite:a.db", "postgresql://r@db:5432/shop?password_env=K&tls=on", "mysql://r:s@127.0.0.1/shop?socket=/x"],
    lambda text: parse_database_address("shop", text, environ={"K": "k"}),
)
of_text(
    "Host and Origin", ["localhost:4000", "[::1]:80", "http://a.b:8080"], lambda text: (hosts.parse_host(text), hosts.parse_origin(text))
)


def _asked(kind: type[Request]) -> Callable[[bytes], object]:
    def read(raw: bytes) -> object:
        return queries.parse_query(HTTPConnection({"type": "http", "query_string": raw, "headers": []}), kind)

    return read


_QUERY = b"scope=town&kind=fleet.*&id=x&limit=7&after=0007&since=2026-06-01T12:00:00Z&as_of=7&q=a%20b&tz=UTC&width=100&by=day"
for _kind in (ListEvents, ReadTimeline, SearchEvents, ReadTown, FeedQuery):
    _known = {field.encode() for field in _kind.__struct_fields__}
    _said = b"&".join(part for part in _QUERY.split(b"&") if part.partition(b"=")[0] in _known)
    of_bytes(f"query {_kind.__name__}", [_said or b"as_of=7"], _asked(_kind), Problem)


# --- rights


def _ruled(text: str) -> None:
    rules = ToolRules([text], [text], workspace="/w")
    for tool in ("Bash", "Read", "WebFetch", "mcp__a__b"):
        rules.decide(tool, {"command": text, "file_path": text, "url": text})


def _lines(text: str) -> None:
    rules = ToolRules(["Bash(git *)", "Edit(src/**)", "WebFetch(domain:*.org)"], ["Bash(rm *)", "Read(~/.ssh/**)"], workspace="/w")
    rules.decide("Bash", {"command": text})
    rules.decide("Edit", {"file_path": text, "old_string": text})
    rules.decide("WebFetch", {"url": text})


of_argument("rule", ["Bash(git status*)", "Edit(src/**)", "mcp__github__*", "WebFetch(domain:example.com)", "*"], _ruled)
of_argument(
    "what a rule is asked about",
    ["git log | head -3 && echo $(date) > /dev/null", "cd 'a b'; git diff --stat", "src/a.py", "https://u@x.example.org:80/a?b#c"],
    _lines,
)
for _dialect in ATTACKS:
    of_text(
        f"SQL for {_dialect}",
        ["SELECT a.b, count(*) FROM t AS a WHERE x IN (SELECT 1) GROUP BY 1", *ATTACKS[_dialect][::7]],
        lambda text, dialect=_dialect: sql_check.check_query(text, dialect),  # type: ignore[misc]
    )
of_bytes(
    "token as it is kept",
    [tokens.encode_token(tokens.create_token("read", now=NOW, label="x", expires_at=NOW)[1])],
    lambda raw: (tokens.decode_tokens([raw]), tokens.is_secret(raw.decode("latin-1"))),
)
of_argument("id of a token", ["0123abcd"], tokens.validate_token_id)
of_bytes("seal as it is kept", [seal.encode_seal(seal.make_seal("a long passphrase", cost=2)[0])], seal.decode_seal)


# --- what programs and models say


def _received(make: Callable[[], OutputParser]) -> Callable[[bytes], object]:
    def read(raw: bytes) -> None:
        hearer = make()
        for line in raw.split(b"\n"):
            with suppress(DialectError):
                hearer.parse_output(line)
        hearer.flush_events()
        assert hearer.report.tokens >= 0

    return read


PRINTED = [
    {"type": "system", "subtype": "init", "session_id": "s", "model": "m"},
    {"type": "assistant", "message": {"id": "m1", "content": [{"type": "text", "text": "hi"}], "usage": {"input_tokens": 3}}},
    {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1780315200}},
    {"type": "result", "subtype": "success", "result": "done", "total_cost_usd": 0.1, "usage": {"output_tokens": 3}, "num_turns": 1},
]
ITEMS = [
    {"type": "thread.started", "thread_id": rollouts.THREAD},
    {"type": "item.completed", "item": {"id": "i1", "type": "agent_message", "text": "hi"}},
    {"type": "item.completed", "item": {"id": "i2", "type": "command_execution", "command": "ls", "exit_code": 1, "status": "failed"}},
    {"type": "turn.completed", "usage": {"input_tokens": 3, "cached_input_tokens": 1, "output_tokens": 2}},
    {"type": "turn.failed", "error": {"message": "usage limit, try again in 3 hours"}},
]

of_bytes(
    "what Claude Code prints",
    [b"\n".join(json.dumps(row).encode() for row in PRINTED)],
    _received(lambda: ClaudeOutputParser(order_for(NOWHERE))),
)
of_bytes(
    "what Codex prints",
    [b"\n".join(json.dumps(row).encode() for row in ITEMS)],
    _received(lambda: CodexOutputParser(order_for(NOWHERE), RolloutFollower(NOWHERE, since=NOW))),
)
of_bytes(
    "what a command prints",
    [b'{"tokens": 7, "usd": 0.5, "done": true, "say": "x"}'],
    lambda raw: parse_report_line(OutputLine(raw)),
)
of_text(
    "reply of a model",
    ['<think>x</think>```json\n{"a": [1, {"b": "c"}]}\n```', 'Sure: {"a": 1, } and more'],
    lambda text: (parse_json.find_object(text), parse_json.strip_reasoning(text), parse_json.parse_whole_object(text)),
)
of_text(
    "complaint of a model",
    ["429: try again in 3h 20m", "usage limit reached, resets at 3:00 PM (Europe/Berlin)", "resets Jan 2, 2027, 5pm (UTC)"],
    lambda text: (
        failures.find_reset_time(text, NOW),
        failure_patterns.find_failure_by_text(text),
        failure_patterns.find_failure_by_status(429, text),
    ),
)
of_text("verdict of a reviewer", ["**APPROVED**: fine\nREJECTED - no", "x\nREJECTED."], parse_verdict)
of_text("table of processes", ["  1     0     1 Mon Jun  1 12:00:00 2026 /sbin/init --x=y", "12 1 12 x"], parse_ps_line)
of_text("address of a page for tools", ["lore://fleet", "lore://story/today", "lore://task/t%201"], pages.find_resource)
