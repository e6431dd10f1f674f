"""Claude Code takes turns: `claude -p`, the prompt on stdin, its rows on stdout, one session over all turns of a goal.

With a gate, every use of a tool that can change something is asked there, by MCP, whatever the user's own settings allow; `allow` is the
gate's. What the agent writes into its workspace changes nothing about that: settings and MCP servers of the workspace are not read
(`trusts_workspace` has them read), its CLAUDE.md is. Without a gate the user's own settings count.
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
from fleetlore.programs.harness import Ended, Gate, Order, TurnOutcome, Watch
from fleetlore.programs.turn_output import LINGER_SECONDS, TurnReport, build_turn_program, run_turn_program

# --- What `claude -p --output-format stream-json` prints in a turn: events by the dialect, and how the turn stands.

_MESSAGE_TOKEN_KEYS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_TOTAL_TOKEN_KEYS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
_OVER_BUDGET_SUBTYPE = "error_max_budget_usd"


class ClaudeOutputParser:
    """Hears one turn."""

    def __init__(self, order: Order) -> None:
        self.report = TurnReport(session=order.session, model=order.model)
        self._reader = RECORDING.open(None)
        self._tokens_by_message: dict[str, int] = {}
        self._resets_at: int | None = None

    def parse_output(self, raw: bytes) -> Sequence[Event]:
        """The events of one more row."""
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

    def flush_held(self) -> Sequence[Event]:
        """What the reader held back."""
        return self._reader.end()

    def _apply_message(self, row: Record, message: Record) -> None:
        usage, report = _sum_tokens(as_object(message.get("usage")), _MESSAGE_TOKEN_KEYS), self.report
        key = as_text(message.get("id")) or as_text(row.get("uuid")) or ""
        before = self._tokens_by_message.get(key, 0)
        self._tokens_by_message[key] = max(usage, before)
        report.tokens += self._tokens_by_message[key] - before
        if row.get("parent_tool_use_id") or message.get("model") == SYNTHETIC_MODEL:
            return
        report.how = None  # something in the background has woken it: the turn goes on
        report.context = usage or report.context
        report.model = as_name(message.get("model")) or report.model
        report.words = extract_text([part for part in _list_parts(message) if part.get("type") == "text"]) or report.words

    def _apply_result(self, row: Record) -> None:
        report = self.report
        totals = [as_object(each) for each in as_object(row.get("modelUsage")).values()]
        told = sum(_sum_tokens(each, _TOTAL_TOKEN_KEYS) for each in totals) or _sum_tokens(as_object(row.get("usage")), _MESSAGE_TOKEN_KEYS)
        report.tokens = max(told, report.tokens)
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
        told = extract_text(errors) if isinstance(errors, list) else ""
        told = told or words or extract_text(row.get("error")) or extract_text(row.get("message")) or str(row.get("subtype"))
        return f"{told}\nresets_at={self._resets_at}" if self._resets_at else told


def _max_cost(told: float | None, before: float | None) -> float | None:
    """What was spent only grows, whatever a row says: whoever may write to the program's output could say anything."""
    return max((usd for usd in (told, before) if usd is not None and usd >= 0), default=None)


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
    """When a limit that was reached is lifted; one that only comes nearer stops nothing."""
    return as_count(info.get("resetsAt")) if info.get("status") == "rejected" else None


# ---

GATE_SERVER, GATE_TOOL = "fleetlore", "permission_prompt"
"""The gate, as MCP names it."""
KEPT_VARIABLES = (
    *("ANTHROPIC_*", "CLAUDE_*", "DISABLE_*", "MCP_*", "API_TIMEOUT_MS", "BASH_*_TIMEOUT_MS", "BASH_MAX_OUTPUT_LENGTH"),
    *("MAX_THINKING_TOKENS", "MAX_MCP_OUTPUT_TOKENS", "IS_SANDBOX", "NODE_OPTIONS", "USE_BUILTIN_RIPGREP"),
)
CLOUD_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "CLAUDE_CODE_USE_BEDROCK": ("AWS_*",),
    "CLAUDE_CODE_USE_VERTEX": ("GOOGLE_*", "GCLOUD_*", "CLOUDSDK_*", "CLOUD_ML_REGION", "VERTEX_*"),
    "CLAUDE_CODE_USE_FOUNDRY": ("AZURE_*",),
}
"""What it needs besides, where it asks its models through somebody else."""
REMOVED_VARIABLES = ("CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION")
"""Of the Claude Code that we ourselves may run in."""
NO_TOOLS_SETTINGS = '{"permissions":{"ask":["*"]}}'
"""Every tool is asked about, and there is nobody to ask. The tools are still told to the model, as in the turns before: else its cache of
the whole conversation would be void."""
_MEMORY_VARIABLES = {"CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD": "1"}
_BUDGET_FLAG = "--max-budget-usd"
_APPROVAL_TOOLS = ("Bash", "Edit", "Write", "NotebookEdit", "WebFetch")
_READ_ONLY_TOOLS = ("Read", "Grep", "Glob", "*")
"""Tools that only look are asked about where a rule denies some of that."""


class ClaudeCodeHarness:
    """The harness of Claude Code. `command` may bear arguments of its own; `keep` names variables that it needs besides."""

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

    async def take_turn(self, order: Order, watch: Watch) -> Ended:
        """One turn. The money that is left is given along; a program that is too old for that is run without, and watched all the same."""
        ended = await self._run_turn(order, watch)
        if self._supports_budget_flag and f"unknown option '{_BUDGET_FLAG}'" in ended.error:
            self._supports_budget_flag = False
            ended = await self._run_turn(order, watch)
        return ended

    async def _run_turn(self, order: Order, watch: Watch) -> Ended:
        with ExitStack() as stack:
            try:
                config = stack.enter_context(_write_gate_config(None if order.is_summary else order.gate, order.mark))
            except OSError as error:
                return Ended(how="not_started", error=f"how to reach the gate cannot be written down: {error}; see to TMPDIR")
            program = build_turn_program(order, (*self._command, *self._build_arguments(order, config)), self._build_environment(order))
            return await run_turn_program(order, program, ClaudeOutputParser(order), watch, linger=self._linger_seconds)

    def _build_arguments(self, order: Order, config: str | None) -> Iterator[str]:
        yield from ("-p", "--output-format", "stream-json", "--verbose")
        yield from ("--resume", order.session) if order.session else ("--session-id", order.new_session)
        if order.model:
            yield from ("--model", order.model)
        if order.rest.usd is not None and self._supports_budget_flag:
            yield from (_BUDGET_FLAG, f"{order.rest.usd:.6f}")
        if not self._trusts_workspace:
            yield from ("--setting-sources", "user", "--add-dir", order.workspace)
        yield from _permission_arguments(order, config)

    def _build_environment(self, order: Order) -> dict[str, str]:
        clouds = [name for sign, names in CLOUD_VARIABLES.items() if self._environ.get(sign) for name in names]
        env = scrub_environment(self._environ, keep=(*KEPT_VARIABLES, *clouds, *self._kept_variables), mark=order.mark)
        own = {name: value for name, value in env.items() if name not in REMOVED_VARIABLES}
        if order.gate is not None:  # a person may take as long as that
            own["MCP_TOOL_TIMEOUT"] = str(int(order.idle * 1000))
        return own if self._trusts_workspace else own | _MEMORY_VARIABLES


def _permission_arguments(order: Order, config: str | None) -> Iterator[str]:
    yield from ("--permission-mode", "default")
    if order.is_summary:
        yield from ("--strict-mcp-config", "--settings", NO_TOOLS_SETTINGS)
        return
    if config is not None:
        yield from ("--strict-mcp-config", "--mcp-config", config, "--permission-prompt-tool", f"mcp__{GATE_SERVER}__{GATE_TOOL}")
        yield from ("--settings", msgspec.json.encode({"permissions": {"ask": _list_approval_tools(order)}}).decode())
    elif order.allow:  # with a gate it is the gate that allows, and tells the log
        yield from ("--allowedTools", *order.allow)
    if order.deny:
        yield from ("--disallowedTools", *order.deny)


def _list_approval_tools(order: Order) -> list[str]:
    looks = any(rule.partition("(")[0] in _READ_ONLY_TOOLS for rule in order.deny)
    return [*_APPROVAL_TOOLS, *(("Read", "Grep", "Glob") if looks else ())]


@contextmanager
def _write_gate_config(gate: Gate | None, mark: str) -> Iterator[str | None]:
    """A file that says how the gate is reached: outside the workspace, for nobody else to read, gone afterwards."""
    if gate is None:
        yield None
        return
    server = {"type": "stdio", "command": gate.command[0], "args": gate.command[1:], "env": add_turn_mark(gate.env, mark)}
    with TemporaryDirectory(prefix="fleetlore-", ignore_cleanup_errors=True) as folder:
        path = Path(folder, "mcp.json")
        path.touch(mode=0o600)
        path.write_bytes(msgspec.json.encode({"mcpServers": {GATE_SERVER: server}}))
        yield str(path)
