"""The harness of Claude Code: runs `claude -p` per turn, with the prompt on stdin and rows on stdout. A goal has one session.

With a gate, every tool call that can change something needs its permission, over MCP, whatever the user's settings allow; the gate
applies `allow`. The agent cannot weaken this by files in its workspace: settings and MCP servers of the workspace are not read unless
`trusts_workspace` is set (CLAUDE.md is read). Without a gate the user's settings apply.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from fleetlore.dialects.fields import as_count, as_name, as_number, as_object, as_text, as_uuid
from fleetlore.dialects.recording import parse_record
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.process.environment import add_turn_mark, scrub_environment
from fleetlore.programs.claude_code.replies import SYNTHETIC_MODEL
from fleetlore.programs.claude_code.tools import extract_text
from fleetlore.programs.claude_code.transcript import RECORDING
from fleetlore.programs.harness import Gate, TurnOutcome, TurnRequest, TurnResult, Watch
from fleetlore.programs.turn_output import LINGER_SECONDS, TurnReport, build_turn_program, run_turn_program

# --- Parses the output of `claude -p --output-format stream-json`: events, and the state of the turn.

_MESSAGE_TOKEN_KEYS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_TOTAL_TOKEN_KEYS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
_OVER_BUDGET_SUBTYPE = "error_max_budget_usd"


class ClaudeOutputParser:
    """Parses the output of one turn."""

    def __init__(self, request: TurnRequest) -> None:
        self.report = TurnReport(session=request.session, model=request.model)
        self._reader = RECORDING.open(None)
        self._tokens_by_message: dict[str, int] = {}
        self._resets_at: int | None = None

    def parse_output(self, raw: bytes) -> Sequence[Event]:
        """The events of a row."""
        row = parse_record(raw)
        events = self._reader.read(raw)
        self.report.session = as_uuid(row.get("session_id")) or self.report.session
        match row.get("type"):
            case "system" if row.get("subtype") == "init":
                self.report.model = as_name(row.get("model")) or self.report.model
            case "assistant":
                self._apply_message(row, as_object(row.get("message")))
            case "rate_limit_event":
                self._resets_at = _find_reset_time(as_object(row.get("rate_limit_info")))
            case "result":
                self._apply_result(row)
        return events

    def flush_events(self) -> Sequence[Event]:
        """The events that the reader held back."""
        return self._reader.end()

    def _apply_message(self, row: Record, message: Record) -> None:
        usage, report = _sum_tokens(as_object(message.get("usage")), _MESSAGE_TOKEN_KEYS), self.report
        key = as_text(message.get("id")) or as_text(row.get("uuid")) or ""
        before = self._tokens_by_message.get(key, 0)
        self._tokens_by_message[key] = max(usage, before)
        report.tokens += self._tokens_by_message[key] - before
        if row.get("parent_tool_use_id") or message.get("model") == SYNTHETIC_MODEL:
            return
        report.how = None  # a background task has finished: the turn continues
        report.context = usage or report.context
        report.model = as_name(message.get("model")) or report.model
        report.words = extract_text([part for part in _list_parts(message) if part.get("type") == "text"]) or report.words

    def _apply_result(self, row: Record) -> None:
        report = self.report
        totals = [as_object(each) for each in as_object(row.get("modelUsage")).values()]
        tokens = sum(_sum_tokens(each, _TOTAL_TOKEN_KEYS) for each in totals) or _sum_tokens(
            as_object(row.get("usage")), _MESSAGE_TOKEN_KEYS
        )
        report.tokens = max(tokens, report.tokens)
        report.usd = _max_cost(as_number(row.get("total_cost_usd")), report.usd)
        denials = row.get("permission_denials")
        report.denials = len(denials) if isinstance(denials, list) else 0
        report.status = as_count(row.get("api_error_status"))
        report.how = _find_turn_outcome(row)
        words = extract_text(row.get("result"))
        if report.how == "finished":
            report.words, report.error = words or report.words, ""
        else:
            report.error = self._describe_failure(row, words)
        report.extras |= {key: value for key in ("subtype", "num_turns", "terminal_reason") if (value := row.get(key)) is not None}

    def _describe_failure(self, row: Record, words: str) -> str:
        errors = row.get("errors")
        message = extract_text(errors) if isinstance(errors, list) else ""
        message = message or words or extract_text(row.get("error")) or extract_text(row.get("message")) or str(row.get("subtype"))
        return f"{message}\nresets_at={self._resets_at}" if self._resets_at else message


def _max_cost(reported: float | None, before: float | None) -> float | None:
    """The larger cost: costs only grow, and rows of the program's output are not trusted."""
    return max((usd for usd in (reported, before) if usd is not None and usd >= 0), default=None)


def _find_turn_outcome(row: Record) -> TurnOutcome:
    if row.get("subtype") == _OVER_BUDGET_SUBTYPE:
        return "over_budget"
    return "finished" if row.get("subtype") == "success" and row.get("is_error") is not True else "failed"


def _list_parts(message: Record) -> list[Record]:
    content = message.get("content")
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _sum_tokens(usage: dict[str, Any], keys: Sequence[str]) -> int:
    return sum(as_count(usage.get(key)) or 0 for key in keys)


def _find_reset_time(info: Record) -> int | None:
    """When a reached limit is reset; warnings about a limit that is near do not count."""
    return as_count(info.get("resetsAt")) if info.get("status") == "rejected" else None


# ---

GATE_SERVER, GATE_TOOL = "fleetlore", "permission_prompt"
"""The name of the gate's MCP tool."""
KEPT_VARIABLES = (
    *("ANTHROPIC_*", "CLAUDE_*", "DISABLE_*", "MCP_*", "API_TIMEOUT_MS", "BASH_*_TIMEOUT_MS", "BASH_MAX_OUTPUT_LENGTH"),
    *("MAX_THINKING_TOKENS", "MAX_MCP_OUTPUT_TOKENS", "IS_SANDBOX", "NODE_OPTIONS", "USE_BUILTIN_RIPGREP"),
)
CLOUD_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "CLAUDE_CODE_USE_BEDROCK": ("AWS_*",),
    "CLAUDE_CODE_USE_VERTEX": ("GOOGLE_*", "GCLOUD_*", "CLOUDSDK_*", "CLOUD_ML_REGION", "VERTEX_*"),
    "CLAUDE_CODE_USE_FOUNDRY": ("AZURE_*",),
}
"""Variables that it needs for models of other providers."""
REMOVED_VARIABLES = ("CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION")
"""Variables of a Claude Code session that this process may run in; not passed on."""
NO_TOOLS_SETTINGS = '{"permissions":{"ask":["*"]}}'
"""For summaries: every tool needs permission and nobody grants it. The tools are still sent to the model, because its prompt cache of
the whole conversation would be invalid otherwise."""
_MEMORY_VARIABLES = {"CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD": "1"}
_BUDGET_FLAG = "--max-budget-usd"
_APPROVAL_TOOLS = ("Bash", "Edit", "Write", "NotebookEdit", "WebFetch")
_READ_ONLY_TOOLS = ("Read", "Grep", "Glob", "*")
"""Read-only tools; they need permission only if a rule denies some of their uses."""


class ClaudeCodeHarness:
    """The harness of Claude Code. `command` may contain arguments; `keep` names further environment variables to pass on."""

    name = "claude-code"
    has_sessions = True

    def __init__(
        self,
        command: Sequence[str] = ("claude",),
        environ: Mapping[str, str] = os.environ,
        *,
        keep: Sequence[str] = (),
        trusts_workspace: bool = False,
        linger: float = LINGER_SECONDS,
    ) -> None:
        self._command, self._environ, self._kept_variables = tuple(command), environ, tuple(keep)
        self._trusts_workspace, self._linger_seconds = trusts_workspace, linger
        self._supports_budget_flag = True

    async def take_turn(self, request: TurnRequest, watch: Watch) -> TurnResult:
        """Run one turn with the remaining budget as an option; versions that do not know the option run without it and are only watched."""
        ended = await self._run_turn(request, watch)
        if self._supports_budget_flag and f"unknown option '{_BUDGET_FLAG}'" in ended.error:
            self._supports_budget_flag = False
            ended = await self._run_turn(request, watch)
        return ended

    async def _run_turn(self, request: TurnRequest, watch: Watch) -> TurnResult:
        with ExitStack() as stack:
            try:
                config = stack.enter_context(_write_gate_config(None if request.is_summary else request.gate, request.mark))
            except OSError as error:
                return TurnResult(how="not_started", error=f"the gate's configuration file could not be written: {error}; check TMPDIR")
            program = build_turn_program(
                request, (*self._command, *self._build_arguments(request, config)), self._build_environment(request)
            )
            return await run_turn_program(request, program, ClaudeOutputParser(request), watch, linger=self._linger_seconds)

    def _build_arguments(self, request: TurnRequest, config: str | None) -> Iterator[str]:
        yield from ("-p", "--output-format", "stream-json", "--verbose")
        yield from ("--resume", request.session) if request.session else ("--session-id", request.new_session)
        if request.model:
            yield from ("--model", request.model)
        if request.rest.usd is not None and self._supports_budget_flag:
            yield from (_BUDGET_FLAG, f"{request.rest.usd:.6f}")
        if not self._trusts_workspace:
            yield from ("--setting-sources", "user", "--add-dir", request.workspace)
        yield from _permission_arguments(request, config)

    def _build_environment(self, request: TurnRequest) -> dict[str, str]:
        clouds = [name for sign, names in CLOUD_VARIABLES.items() if self._environ.get(sign) for name in names]
        env = scrub_environment(self._environ, keep=(*KEPT_VARIABLES, *clouds, *self._kept_variables), mark=request.mark)
        own = {name: value for name, value in env.items() if name not in REMOVED_VARIABLES}
        if request.gate is not None:  # a person may take this long to answer
            own["MCP_TOOL_TIMEOUT"] = str(int(request.idle * 1000))
        return own if self._trusts_workspace else own | _MEMORY_VARIABLES


def _permission_arguments(request: TurnRequest, config: str | None) -> Iterator[str]:
    yield from ("--permission-mode", "default")
    if request.is_summary:
        yield from ("--strict-mcp-config", "--settings", NO_TOOLS_SETTINGS)
        return
    if config is not None:
        yield from ("--strict-mcp-config", "--mcp-config", config, "--permission-prompt-tool", f"mcp__{GATE_SERVER}__{GATE_TOOL}")
        yield from ("--settings", msgspec.json.encode({"permissions": {"ask": _list_approval_tools(request)}}).decode())
    elif request.allow:  # a gate applies `allow` itself, and records it
        yield from ("--allowedTools", *request.allow)
    if request.deny:
        yield from ("--disallowedTools", *request.deny)


def _list_approval_tools(request: TurnRequest) -> list[str]:
    looks = any(rule.partition("(")[0] in _READ_ONLY_TOOLS for rule in request.deny)
    return [*_APPROVAL_TOOLS, *(("Read", "Grep", "Glob") if looks else ())]


@contextmanager
def _write_gate_config(gate: Gate | None, mark: str) -> Iterator[str | None]:
    """A temporary MCP configuration file for the gate: outside the workspace, private, deleted on exit."""
    if gate is None:
        yield None
        return
    server = {"type": "stdio", "command": gate.command[0], "args": gate.command[1:], "env": add_turn_mark(gate.env, mark)}
    with TemporaryDirectory(prefix="fleetlore-", ignore_cleanup_errors=True) as folder:
        path = Path(folder, "mcp.json")
        path.touch(mode=0o600)
        path.write_bytes(msgspec.json.encode({"mcpServers": {GATE_SERVER: server}}))
        yield str(path)
