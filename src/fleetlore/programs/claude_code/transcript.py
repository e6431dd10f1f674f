"""Reads transcripts of Claude Code, one JSON object per row. docs/dialects.md lists the events.

Rows of one reply repeat its usage while it streams. It becomes one event, once the next reply, prompt or end shows that it is complete.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

import msgspec

from fleetlore.dialects.fields import as_count, as_name, as_number, as_object, as_text, read_time, to_snake_case
from fleetlore.dialects.recording import Recording, parse_record
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.claude_code.ids import (
    NAME,
    PROGRAM,
    ClaudeEventContext,
    compacted_id,
    derive_claude_id,
    prompt_id,
    session_agent,
    session_started_id,
    subagent_launched_id,
    subagent_returned_id,
    tool_called_id,
    tool_outcome_id,
    turn_ended_id,
)
from fleetlore.programs.claude_code.prompts import (
    INTERRUPTED_PREFIX,
    ClaudePrompt,
    begins_after_clear,
    extract_prompt_text,
    extract_queued_text,
    list_content_parts,
    make_prompt_event,
    text_inside,
)
from fleetlore.programs.claude_code.reader_state import ClaudeAgentState, ClaudeReaderState, PendingCompaction, RefusedCall, SubagentInfo
from fleetlore.programs.claude_code.replies import SYNTHETIC_MODEL, add_reply_row, flush_reply
from fleetlore.programs.claude_code.tools import (
    POLLERS,
    SUBAGENT_TOOLS,
    extract_text,
    is_refusal_by_person,
    make_call_event,
    make_denial_event,
    make_interruption_event,
    make_outcome_event,
    make_subagent_events,
    parse_subagent_report,
    read_report,
)
from fleetlore.programs.claude_code.turns import is_stop_mark
from fleetlore.programs.sessions import DETACHED_HEAD, UNKNOWN_NAME, bound_record, guess_task, project_name

# --- The output of `claude -p --output-format stream-json`: rows of the transcript with other names and without final usage.

IGNORED_STREAM_TYPES = frozenset(("task_progress", "task_updated"))
"""Subtypes that only repeat the sub-agent's own rows."""
MAX_SUBAGENTS = 1000
_STREAM_KEY_NAMES = {"request_id": "requestId", "session_id": "sessionId", "tool_use_result": "toolUseResult"}


def is_stream_row(row: Record) -> bool:
    """Whether a row was printed to stdout, not written to a transcript."""
    return "session_id" in row and "sessionId" not in row


def convert_stream_row(row: Record, helpers: dict[str, str]) -> Record:
    """The row with the names of a transcript. `helpers`: call → sub-agent, because printed rows name the launching call instead."""
    call = as_text(row.get("parent_tool_use_id"))
    own: Record = {"agentId": helpers.get(call) or as_name(f"{PROGRAM}/{call}")} if call else {}
    if row.get("type") == "assistant" and as_text(row.get("error")):
        own["isApiErrorMessage"] = True
    return row | {new: row[name] for name, new in _STREAM_KEY_NAMES.items() if name in row} | own


def record_subagent_launch(row: Record, helpers: dict[str, str]) -> bool:
    """Remember the sub-agent that a call launched; returns whether the row states one."""
    call, helper = as_text(row.get("tool_use_id")), as_name(row.get("task_id"))
    if row.get("subtype") != "task_started" or row.get("task_type") != "local_agent" or call is None or helper is None:
        return False
    if len(helpers) >= MAX_SUBAGENTS:
        del helpers[next(iter(helpers))]
    helpers[call] = helper
    return True


# ---

IGNORED_ROW_TYPES = frozenset(
    (
        "file-history-snapshot",
        "file-history-delta",
        "queue-operation",
        "last-prompt",
        "mode",
        "permission-mode",
        "content-replacement",
        "speculation-accept",
        "attribution-snapshot",
        "worktree-state",
        "tag",
        "bridge-session",
        "agent-color",
        "agent-setting",
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "atis-latch",
        "tools-used",
    )
)
"""Types of rows that only repeat others."""
_MOSTLY_FOLDED = frozenset(("progress", "attachment"))
_IGNORED_SYSTEM_SUBTYPES = IGNORED_STREAM_TYPES | frozenset(
    ("local_command", "microcompact_boundary", "hook_started", "hook_response", "hook_progress", "init")
)
_TOOL_USE, _TOOL_RESULT = "tool_use", "tool_result"
"""Suffixes of block types for tool calls and results: `server_tool_use`, `web_fetch_tool_result`."""
_KNOWN_BLOCK_TYPES = frozenset(("text", "thinking", "redacted_thinking"))
_COMMON_ROW_KEYS = frozenset(
    ("uuid", "parentUuid", "sessionId", "session_id", "timestamp", "type", "cwd", "version", "gitBranch", "userType", "entrypoint", "slug")
)
_TASK_ID_PATTERN = re.compile(r"<task-id>\s*([^<\s]+)\s*</task-id>")
_STATUS_PATTERN = re.compile(r"<status>([^<]+)</status>")
_NOTIFICATION_TAG = "<task-notification>"
_CONTINUED_PREFIX = "This session is being continued from a previous conversation"
"""Prefix of a summary. A branch of a compacted session has it as its title, which is not useful."""
COMPACTOR_PREFIX = "acompact"
"""Prefix of the sub-agent that compacts a session; it is ignored, because `session.compacted` reports it."""


class ClaudeTranscriptReader:
    """Reads the rows of one session, or of one of its sub-agents."""

    def __init__(self, reader_state: ClaudeReaderState) -> None:
        self._state = reader_state
        self._is_stream = False

    def read(self, raw: bytes) -> list[Event]:
        """The events of a row, and of earlier rows that it completes."""
        row = parse_record(raw)
        row_type = as_text(row.get("type"))
        if row_type is None and self._read_subagent_info(row):
            return []
        row_type = row_type or UNKNOWN_NAME
        if row_type == "queue-operation":
            self._state.queue.add_row(row, key=derive_claude_id("row", raw.decode(errors="replace")))
        if row_type in IGNORED_ROW_TYPES or (
            row_type in _MOSTLY_FOLDED and not (_is_subagent_row(row) or _is_queued_prompt(row) or is_stop_mark(row))
        ):
            self._record_first_time(row)
            return []
        # An unknown type may still have the shape of a message. What the program keeps for itself has no id.
        role = as_text(as_object(row.get("message")).get("role")) if as_name(row.get("uuid")) else None
        if as_name(row.get("uuid")) is None:
            row["uuid"] = derive_claude_id("row", raw.decode(errors="replace"))  # ids derived from rows must differ
        if printed := is_stream_row(row):
            row = convert_stream_row(row, self._state.helpers)
        self._is_stream = printed
        held = [] if row.get("isCompactSummary") else self._flush_compaction(None)
        held += self._flush_refused_call(row)
        read = _READER_BY_ROW_TYPE.get(row_type) or _READER_BY_ROW_TYPE.get(role or "")
        if read is None:
            return held + self._read_other(row, row_type, len(raw))
        agent_state, event_context = self._find_agent_and_context(row)
        events = [*held, *self._make_start_events(row, event_context), *self._make_title_events(row, event_context)]
        if is_stop_mark(row):
            self._note_stop(row, agent_state, event_context)
            return events
        return [*events, *read(self, row, agent_state, event_context)]

    def flush_complete(self) -> list[Event]:
        """The held-back events that are certain, although rows may follow."""
        ended = self._end_settled_turn()
        whole = [
            agent_state for agent_state in self._state.voices.values() if agent_state.reply is not None and agent_state.reply.stop_reason
        ]
        return [*ended, *(event for agent_state in whole for event in flush_reply(agent_state, self._make_context(agent_state)))]

    def end(self, now: datetime | None = None) -> list[Event]:
        """All held-back events; replies that may lack a row are marked."""
        own = self._own_voice()
        is_ended = own is not None and not self._is_stream and own.turn.is_at_end(now)
        voices = self._state.voices.values()
        return [
            *self._flush_compaction(None),
            *self._flush_refused_call({}),
            *(
                event
                for agent_state in voices
                for event in flush_reply(
                    agent_state, self._make_context(agent_state), whole=bool(agent_state.reply and agent_state.reply.stop_reason)
                )
            ),
            *(self._end_turn(own) if own is not None and is_ended else ()),
        ]

    def save(self) -> bytes:
        """The state, as JSON."""
        return msgspec.json.encode(self._state)

    # --- the acting agent

    def _find_agent_and_context(self, row: Record) -> tuple[ClaudeAgentState, ClaudeEventContext]:
        reader_state = self._state
        if "forkedFrom" in row or row.get("sessionId") != reader_state.session:
            named = (as_object(row.get("forkedFrom")).get("sessionId"), row.get("sessionId"))
            reader_state.session = next((session for name in named if (session := as_name(name))), reader_state.session)
        branch = as_text(row.get("gitBranch"))
        reader_state.branch = branch if branch and branch != DETACHED_HEAD else reader_state.branch
        self._record_first_time(row)
        own = session_agent(reader_state.session)
        helper = as_name(row.get("agentId")) or (self._find_side_chain_agent(row) if row.get("isSidechain") is True else None)
        if helper and helper.startswith(COMPACTOR_PREFIX):
            agent_state = self._state.voices.setdefault(helper, ClaudeAgentState(agent=own))
        else:
            agent_state = self._find_agent_state(helper, own) if helper else self._find_agent_state(own, None)
        return agent_state, self._make_context(agent_state)._replace(at=read_time(row.get("timestamp")))

    def _find_agent_state(self, agent: str | None, parent: str | None) -> ClaudeAgentState:
        agent_state = self._state.voices.get(agent or "")
        if agent_state is None:
            deeper = parent is not None and self._state.helper is not None and (self._state.helper.depth or 1) > 1
            agent_state = self._state.voices[agent or ""] = ClaudeAgentState(agent=agent, parent=None if deeper else parent)
            if parent is not None and agent is not None:
                agent_state.prompt = agent_state.cause = subagent_launched_id(agent)
        return agent_state

    def _make_context(self, agent_state: ClaudeAgentState) -> ClaudeEventContext:
        return ClaudeEventContext(None, agent_state.agent, self._state.session, agent_state.parent)

    def _find_side_chain_agent(self, row: Record) -> str | None:
        """Older versions name no sub-agent: it is identified by its first row."""
        own = as_name(row.get("uuid"))
        return None if own is None else f"{PROGRAM}/{self._state.link_side_chain(own, str(row.get('parentUuid')))[:8]}"

    def _record_first_time(self, row: Record) -> None:
        if self._state.first_at is None and "forkedFrom" not in row:
            self._state.first_at = read_time(row.get("timestamp"))

    def _make_start_events(self, row: Record, event_context: ClaudeEventContext) -> Iterator[Event]:
        """The session's start, at the first row that says where it is. Not for a sub-agent's transcript."""
        reader_state = self._state
        is_own = reader_state.session is not None and event_context.agent == session_agent(reader_state.session) and not row.get("agentId")
        if reader_state.started or reader_state.session is None or not is_own or not row.get("cwd") or row.get("forkedFrom"):
            return
        reader_state.started, reader_state.reported_branch = True, reader_state.branch
        cwd, task = as_text(row.get("cwd")), guess_task(reader_state.branch)
        data = {
            "cwd": cwd,
            "project": project_name(cwd),
            "branch": reader_state.branch,
            "program": PROGRAM,
            "version": as_text(row.get("version")),
            "model": as_text(row.get("model")),
            "task_guessed": True if task else None,
        }
        event_context = event_context._replace(at=reader_state.first_at, task=task)
        yield event_context.make_event("session.started", session_started_id(reader_state.session), text=project_name(cwd), data=data)

    def _make_title_events(self, row: Record, event_context: ClaudeEventContext) -> Iterator[Event]:
        title = self._state.titles.pop(str(row.get("uuid")), None) if self._state.titles else None
        if title is not None:
            yield event_context.make_event(
                "agent.named", derive_claude_id("title", event_context.run, title), text=title, data={"title": title}
            )

    # --- rows

    def _read_user(self, row: Record, agent_state: ClaudeAgentState, event_context: ClaudeEventContext) -> list[Event]:
        content = as_object(row.get("message")).get("content")
        if row.get("isCompactSummary") is True:
            return self._flush_compaction(extract_text(content))
        results = [part for part in list_content_parts(content) if _block_type(part).endswith(_TOOL_RESULT)]
        if results:
            ended = self._end_marked_turn(agent_state)
            events = [
                *ended,
                *self._flush_complete_reply(agent_state),
                *(event for part in results for event in self._read_result(part, row, agent_state, event_context)),
            ]
            if row.get("toolEndsTurn") is True:
                agent_state.turn.note_last_call(str(row.get("uuid")), at=event_context.at)
            return events
        words, images = extract_prompt_text(content)
        if row.get("isMeta") is True or (not words and not images) or str(row.get("agentId")).startswith(COMPACTOR_PREFIX):
            if begins_after_clear(content):
                agent_state.cleared_key = as_name(row.get("promptId"))
            return []
        return [
            *flush_reply(agent_state, self._make_context(agent_state)),
            *self._read_user_text(words, images, row, agent_state, event_context),
        ]

    def _read_user_text(
        self, words: str, images: int, row: Record, agent_state: ClaudeAgentState, event_context: ClaudeEventContext
    ) -> list[Event]:
        own = str(row["uuid"])
        if words.startswith(INTERRUPTED_PREFIX):
            agent_state.interrupted = True
            return self._end_interrupted_turn(words, own, agent_state, event_context)
        if words.startswith(_NOTIFICATION_TAG):
            self._state.queue.drop_delivered(words)
            return [*self._end_answered_turn(agent_state), *self._read_notification(words, own, event_context)]
        if agent_state.agent != session_agent(self._state.session):
            return self._read_subagent_prompt(words, own, row, agent_state, event_context)
        self._state.queue.drop_delivered(words)
        ended = self._end_answered_turn(agent_state)
        agent_state.turn.begin_turn()
        agent_state.said = None
        named = as_name(row.get("promptId")) or own
        if named == agent_state.cleared_key:
            named = own
        if named != agent_state.prompt_key:
            agent_state.prompt_key, agent_state.prompt_row = named, own
        return [
            *ended,
            *self._make_prompt_events(words, images, named if own == agent_state.prompt_row else own, own, agent_state, event_context),
        ]

    def _make_prompt_events(
        self, words: str, images: int, key: str, row: str, agent_state: ClaudeAgentState, event_context: ClaudeEventContext
    ) -> list[Event]:
        prompt = ClaudePrompt(words, id=prompt_id(key), key=key, images=images, row=row)
        event = make_prompt_event(event_context, prompt, branch=self._state.branch, interrupted=agent_state.interrupted)
        agent_state.prompt = agent_state.cause = event.id
        agent_state.interrupted = False
        return [event]

    def _read_queued_prompt(self, row: Record, agent_state: ClaudeAgentState, event_context: ClaudeEventContext) -> list[Event]:
        """A prompt that reached the agent between two steps; the same turn continues."""
        own, (words, images) = str(row["uuid"]), extract_prompt_text(as_object(row.get("attachment")).get("prompt"))
        self._state.queue.drop_delivered(words)
        if words.startswith(_NOTIFICATION_TAG):
            return self._read_notification(words, own, event_context)
        if (not words and not images) or agent_state.agent != session_agent(self._state.session) or self._state.queue.was_reported(words):
            return []
        agent_state.turn.answer = None
        return self._make_prompt_events(words, images, own, own, agent_state, event_context)

    def _report_queued_prompts(self, agent_state: ClaudeAgentState) -> list[Event]:
        """Prompts that left the queue before the agent's next message: older versions write no other row for them."""
        if agent_state is not self._own_voice():
            return []
        events: list[Event] = []
        for prompt in self._state.queue.take_delivered():
            event_context = self._make_context(agent_state)._replace(at=prompt.at)
            if prompt.text.startswith(_NOTIFICATION_TAG):
                events += self._read_notification(prompt.text, prompt.key, event_context)
            elif words := extract_queued_text(prompt.text):
                events += [*flush_reply(agent_state, self._make_context(agent_state))]
                events += self._make_prompt_events(words, 0, prompt.key, prompt.key, agent_state, event_context)
        return events

    def _read_subagent_prompt(
        self, words: str, own: str, row: Record, agent_state: ClaudeAgentState, event_context: ClaudeEventContext
    ) -> list[Event]:
        """A message to a sub-agent; the first one is its launch."""
        if agent_state.agent is None or agent_state.launched:
            return [
                event_context.make_event(
                    f"{NAME}.message", derive_claude_id("message", own), text=words, data={"message": words}, actor=agent_state.parent
                )
            ]
        call = as_text(row.get("parent_tool_use_id"))
        known = self._state.helper or SubagentInfo(role=as_text(row.get("attributionAgent")), call=call, depth=1 if call else None)
        return self._make_launch_events(agent_state, event_context, words, known)

    def _make_launch_events(
        self, agent_state: ClaudeAgentState, event_context: ClaudeEventContext, words: str, known: SubagentInfo
    ) -> list[Event]:
        """The launch of a sub-agent; its parent is certain only from the metadata file beside its transcript."""
        child = agent_state.agent or UNKNOWN_NAME
        agent_state.launched = True
        data = {"role": known.role, "prompt": words, "call_id": known.call, "launcher_guessed": True if known.depth != 1 else None}
        event_context = event_context._replace(agent=session_agent(self._state.session), parent=None)
        cause = tool_called_id(known.call) if known.call else None
        return [
            event_context.make_event(
                "agent.launched", subagent_launched_id(child), text=known.words or words, data=data, child=child, cause=cause
            )
        ]

    def _read_notification(self, words: str, own: str, event_context: ClaudeEventContext) -> list[Event]:
        """A background task has ended."""
        task, status = (match[1].strip() if (match := found.search(words)) else None for found in (_TASK_ID_PATTERN, _STATUS_PATTERN))
        summary = text_inside(words, "summary")
        if task in self._state.background and task is not None:
            self._state.background.remove(task)
            data = {"status": status, "result": summary}
            return [event_context.make_event("agent.returned", subagent_returned_id(task), text=summary, data=data, child=as_name(task))]
        data = {"task_id": task, "status": status, "summary": summary}
        own_id = derive_claude_id("notification", own)
        return [event_context.make_event(f"{NAME}.task_notification", own_id, text=summary or words, data=data, visibility="system")]

    def _read_result(self, part: Record, row: Record, agent_state: ClaudeAgentState, event_context: ClaudeEventContext) -> Iterator[Event]:
        call = as_text(part.get("tool_use_id"))
        if call is None:
            return
        result = row.get("toolUseResult")
        known = self._state.calls.pop(call, None)
        tool, given = (known.tool, known.input) if known else (UNKNOWN_NAME, None)
        interrupted = as_object(result).get("interrupted") is True
        output = part.get("content")
        agent_state.cause = tool_outcome_id(call)
        agent_state.turn.note_result(call)
        if part.get("is_error") is True and is_refusal_by_person(words := extract_text(output)):
            row_id = as_name(row.get("uuid"))
            refused = RefusedCall(
                call=call, tool=tool, input=given, reason=words, at=event_context.at, agent=agent_state.agent or "", row=row_id
            )
            self._state.refused.append(refused)
            return
        yield make_outcome_event(
            event_context,
            tool,
            call,
            given,
            output=output if output else result,
            failed=part.get("is_error") is True or interrupted or _block_type(as_object(output)).endswith("_error"),
            interrupted=interrupted,
            duration=as_object(result).get("durationMs"),
        )
        if tool in SUBAGENT_TOOLS and result is None:
            result = parse_subagent_report(output)
        helpers = make_subagent_events(event_context, call, given, result) if known is None or tool in SUBAGENT_TOOLS else []
        if tool in POLLERS:
            helpers = self._read_report(call, given, result, output, event_context)
        for event in helpers:
            helper = self._state.voices.get(event.child or "")
            if helper is not None and event.kind == "agent.returned":
                yield from flush_reply(helper, self._make_context(helper))
        self._state.background += [event.child for event in helpers if event.kind == "agent.launched" and event.child]
        yield from helpers

    def _read_report(self, call: str, given: object, result: object, output: object, event_context: ClaudeEventContext) -> list[Event]:
        """A background sub-agent returned: the session fetched its report before a notification came."""
        report = read_report(given, result, extract_text(output))
        if report is None or report.agent not in self._state.background:
            return []
        self._state.background.remove(report.agent)
        data = {"call_id": call, "status": report.status, "result": report.text or None}
        return [
            event_context.make_event(
                "agent.returned",
                subagent_returned_id(report.agent),
                text=report.text,
                data=data,
                child=report.agent,
                cause=tool_called_id(call),
            )
        ]

    def _read_assistant(self, row: Record, agent_state: ClaudeAgentState, event_context: ClaudeEventContext) -> list[Event]:
        message = as_object(row.get("message"))
        content = message.get("content")
        queued = self._report_queued_prompts(agent_state)
        if row.get("isApiErrorMessage") is True:
            error = extract_text(content)
            failed = event_context.make_event(
                "model.failed", derive_claude_id("failed", row.get("uuid")), text=error, data={"error": error}, cause=agent_state.cause
            )
            events = [*queued, *self._end_marked_turn(agent_state), *flush_reply(agent_state, self._make_context(agent_state)), failed]
            agent_state.turn.note_error(str(row.get("uuid")), error, at=event_context.at)
            return events
        events = [*queued, *self._end_marked_turn(agent_state)]
        if message.get("model") != SYNTHETIC_MODEL:
            agent_state.turn.note_answer(row, at=event_context.at)
        events += add_reply_row(agent_state, row, message, event_context, nested=self._is_stream)
        for block in list_content_parts(content):
            events += self._read_block(block, row, message, agent_state, event_context)
        return events

    def _read_block(
        self, block: Record, row: Record, message: Record, agent_state: ClaudeAgentState, event_context: ClaudeEventContext
    ) -> Iterator[Event]:
        sort = _block_type(block)
        if sort.endswith(_TOOL_USE) and (call := as_text(block.get("id"))):
            tool, given = as_text(block.get("name")) or UNKNOWN_NAME, block.get("input")
            self._state.remember_call(call, tool, given)
            yield make_call_event(event_context, tool, call, given, cwd=as_text(row.get("cwd")), cause=agent_state.prompt)
        elif sort.endswith(_TOOL_RESULT):
            yield from self._read_result(block, row, agent_state, event_context)
        elif sort == "thinking" and (words := (as_text(block.get("thinking")) or "").strip()):
            own = derive_claude_id("thought", message.get("id") or row.get("uuid"), words)
            yield event_context.make_event(
                "agent.thought", own, text=words, data={"thought": words}, cause=agent_state.cause, visibility="private"
            )
        elif sort not in _KNOWN_BLOCK_TYPES:
            raw = msgspec.json.encode(block)
            own = derive_claude_id("block", message.get("id") or row.get("uuid"), raw.decode())
            data = bound_record(block, len(raw))
            yield event_context.make_event(
                f"{NAME}.{to_snake_case(sort)}", own, text=sort, data=data, cause=agent_state.cause, visibility="system"
            )

    def _read_progress(self, row: Record, agent_state: ClaudeAgentState, event_context: ClaudeEventContext) -> list[Event]:
        """Older versions repeat a sub-agent's rows inside the session's; its own transcript, if any, has more detail."""
        fields = as_object(row.get("data"))
        inner, helper = as_object(fields.get("message")), as_name(fields.get("agentId"))
        if helper is None:
            return []
        agent_state = self._find_agent_state(helper, session_agent(self._state.session))
        event_context = self._make_context(agent_state)._replace(at=read_time(inner.get("timestamp")) or event_context.at)
        message = as_object(inner.get("message"))
        content = message.get("content")
        events = add_reply_row(agent_state, inner, message, event_context, nested=True) if inner.get("type") == "assistant" else []
        events += [
            event for part in list_content_parts(content) for event in self._read_block(part, row, message, agent_state, event_context)
        ]
        if inner.get("type") == "user" and not agent_state.launched and (words := extract_prompt_text(content)[0]):
            call = as_text(row.get("parentToolUseID"))
            given = as_object(self._state.calls[call].input) if call in self._state.calls else {}
            known = SubagentInfo(role=as_text(given.get("subagent_type")), words=as_text(given.get("description")), call=call, depth=1)
            events += self._make_launch_events(agent_state, event_context, words, known)
        return events

    def _read_system(self, row: Record, agent_state: ClaudeAgentState, event_context: ClaudeEventContext) -> list[Event]:
        subtype, own = as_text(row.get("subtype")) or UNKNOWN_NAME, row.get("uuid")
        if subtype in _IGNORED_SYSTEM_SUBTYPES or record_subagent_launch(row, self._state.helpers):
            return []
        if subtype == "compact_boundary":
            self._hold_compaction(row, event_context)
            return []
        if subtype == "turn_duration":
            if agent_state.turn.is_over:  # the Stop hooks have already marked it
                return []
            return [
                *flush_reply(agent_state, self._make_context(agent_state)),
                self._report_end(agent_state, event_context, str(own), duration=as_number(row.get("durationMs"))),
            ]
        words = as_text(row.get("content")) or as_text(as_object(row.get("error")).get("message"))
        if subtype == "api_error":
            error = words or extract_text(row.get("error")) or subtype
            return [
                event_context.make_event(
                    "model.failed", derive_claude_id("failed", own), text=error, data={"error": error}, cause=agent_state.cause
                )
            ]
        data = {key: value for key, value in row.items() if key not in _COMMON_ROW_KEYS}
        own_id = derive_claude_id("system", own)
        return [event_context.make_event(f"{NAME}.{to_snake_case(subtype)}", own_id, text=words or subtype, data=data, visibility="system")]

    def _read_summary(self, row: Record, agent_state: ClaudeAgentState, event_context: ClaudeEventContext) -> list[Event]:
        """A title written by an older version, for the session that a row belongs to."""
        leaf, title = as_text(row.get("leafUuid")), as_text(row.get("summary"))
        if leaf and title and len(self._state.titles) < 100:
            self._state.titles[leaf] = title
        return []

    def _read_title(self, row: Record, agent_state: ClaudeAgentState, event_context: ClaudeEventContext) -> list[Event]:
        by_person = as_text(row.get("customTitle"))
        title = by_person or as_text(row.get("aiTitle")) or as_text(row.get("agentName"))
        if title is None or title.startswith(_CONTINUED_PREFIX):
            return []
        return [
            event_context.make_event(
                "agent.named",
                derive_claude_id("title", event_context.run, title),
                text=title,
                data={"name" if by_person else "title": title},
            )
        ]

    def _read_pull_request(self, row: Record, agent_state: ClaudeAgentState, event_context: ClaudeEventContext) -> list[Event]:
        """A pull request that the session works on. The row is repeated with every change of it; one event is enough."""
        number, url, repository = as_count(row.get("prNumber")), as_text(row.get("prUrl")), as_text(row.get("prRepository"))
        if number is None and url is None:
            return []
        own = derive_claude_id("pr-link", event_context.run, url or number)
        words = f"Pull request #{number}" + (f" of {repository}" if repository else "") if number is not None else f"Pull request {url}"
        data = {"number": number, "url": url, "repository": repository}
        return [event_context.make_event(f"{NAME}.pr_link", own, text=words, data=data, visibility="system")]

    def _read_end(self, row: Record, agent_state: ClaudeAgentState, event_context: ClaudeEventContext) -> list[Event]:
        """The last row that `claude -p --output-format stream-json` prints."""
        reason = None if row.get("subtype") == "success" else as_text(row.get("subtype"))
        data = {"reason": reason, "duration_ms": as_number(row.get("duration_ms"))}
        own, words = _derive_turn_ended_id(agent_state, str(row["uuid"])), as_text(row.get("result"))
        agent_state.turn.close()
        ended = event_context.make_event("session.turn_ended", own, text=words, data=data, cause=agent_state.prompt)
        return [*flush_reply(agent_state, self._make_context(agent_state)), ended]

    def _read_other(self, row: Record, row_type: str, size: int) -> list[Event]:
        """An event with all fields of a row of unknown type."""
        _, event_context = self._find_agent_and_context(row)
        data = bound_record({key: value for key, value in row.items() if key not in _COMMON_ROW_KEYS}, size)
        words = next((value for key in ("content", "message", "text", "title", "summary") if (value := as_text(row.get(key)))), row_type)
        own = derive_claude_id(row_type, row["uuid"])
        return [event_context.make_event(f"{NAME}.{to_snake_case(row_type)}", own, text=words, data=data, visibility="system")]

    def _read_subagent_info(self, row: Record) -> bool:
        """Read the metadata file beside a sub-agent's transcript."""
        if "agentType" not in row and "toolUseId" not in row:
            return False
        depth = row.get("spawnDepth")
        self._state.helper = SubagentInfo(
            role=as_text(row.get("agentType")),
            words=as_text(row.get("description")),
            call=as_text(row.get("toolUseId")),
            depth=depth if isinstance(depth, int) else None,
        )
        return True

    # --- where a turn ends

    def _own_voice(self) -> ClaudeAgentState | None:
        """The session's own agent. Rows of sub-agents never end the session's turn."""
        return self._state.voices.get(session_agent(self._state.session) or "")

    def _note_stop(self, row: Record, agent_state: ClaudeAgentState, event_context: ClaudeEventContext) -> None:
        if agent_state is self._own_voice():
            self._state.has_stop_hooks = True
            agent_state.turn.note_mark(row, at=event_context.at)

    def _end_interrupted_turn(self, words: str, own: str, agent_state: ClaudeAgentState, event_context: ClaudeEventContext) -> list[Event]:
        ended = self._end_marked_turn(agent_state)
        if agent_state.turn.is_over:
            return ended
        agent_state.turn.close()
        return [
            event_context.make_event("session.turn_ended", derive_claude_id("interrupted", own), text=words, data={"reason": "interrupted"})
        ]

    def _end_marked_turn(self, agent_state: ClaudeAgentState) -> list[Event]:
        """The agent works again although its turn was over, for example because a background task has finished."""
        mark = agent_state.turn.mark
        return self._end_turn(agent_state) if mark is not None and mark.is_final else []

    def _end_answered_turn(self, agent_state: ClaudeAgentState) -> list[Event]:
        """The next prompt came, so the answer before it was the last of its turn."""
        is_ended = agent_state is self._own_voice() and (agent_state.turn.mark is not None or agent_state.turn.has_answer())
        return self._end_turn(agent_state) if is_ended else []

    def _end_settled_turn(self) -> list[Event]:
        """The turn of a file that may grow, if it is certain that it is over.

        Where Stop hooks run, they decide that: one of them may send the agent back to work.
        """
        agent_state = self._own_voice()
        if agent_state is None or self._is_stream or agent_state.turn.is_over:
            return []
        mark, answer = agent_state.turn.mark, agent_state.turn.answer
        if mark is not None:
            return self._end_turn(agent_state) if mark.is_final else []
        is_final = answer is not None and answer.is_final and answer.error is None and agent_state.turn.has_answer()
        return self._end_turn(agent_state) if is_final and not self._state.has_stop_hooks else []

    def _end_turn(self, agent_state: ClaudeAgentState) -> list[Event]:
        """The end of a turn at its newest mark, else at its answer, after what the answer said."""
        last = agent_state.turn.mark or agent_state.turn.answer
        if last is None:
            return []
        events = flush_reply(agent_state, self._make_context(agent_state))
        return [*events, self._report_end(agent_state, self._make_context(agent_state)._replace(at=last.at), last.row)]

    def _report_end(
        self, agent_state: ClaudeAgentState, event_context: ClaudeEventContext, own: str, *, duration: float | None = None
    ) -> Event:
        error = agent_state.turn.answer.error if agent_state.turn.answer else None
        data = {"reason": "failed" if error is not None else None, "duration_ms": duration, "branch": self._changed_branch()}
        agent_state.turn.close()
        return event_context.make_event(
            "session.turn_ended",
            _derive_turn_ended_id(agent_state, own),
            text=error or agent_state.said,
            data=data,
            cause=agent_state.prompt,
        )

    def _changed_branch(self) -> str | None:
        """The branch, if it differs from the last one reported."""
        branch = self._state.branch
        if branch == self._state.reported_branch or not self._state.started:
            return None
        self._state.reported_branch = branch
        return branch

    # --- held-back rows

    def _flush_complete_reply(self, agent_state: ClaudeAgentState) -> list[Event]:
        return (
            flush_reply(agent_state, self._make_context(agent_state))
            if agent_state.reply is not None and agent_state.reply.stop_reason
            else []
        )

    def _flush_refused_call(self, row: Record) -> list[Event]:
        """An interrupted tool looks like a denied one, except for a mark on the next row."""
        held, self._state.refused = self._state.refused, []
        make_event = make_interruption_event if row.get("interruptedMessageId") else make_denial_event
        events = []
        for was in held:
            event_context = self._make_context(self._state.voices[was.agent])._replace(at=was.at)
            events.append(make_event(event_context, was.tool, was.call, was.input, reason=was.reason, row=was.row))
        return events

    def _hold_compaction(self, row: Record, event_context: ClaudeEventContext) -> None:
        metadata = as_object(row.get("compactMetadata"))
        self._state.compaction = PendingCompaction(
            key=str(row["uuid"]),
            at=event_context.at,
            trigger=as_text(metadata.get("trigger")),
            before=as_count(metadata.get("preTokens")),
            after=as_count(metadata.get("postTokens")),
        )

    def _flush_compaction(self, summary: str | None) -> list[Event]:
        held, self._state.compaction = self._state.compaction, None
        if held is None:
            return []
        data = {"trigger": held.trigger, "before_tokens": held.before, "after_tokens": held.after, "summary": summary}
        event_context = self._make_context(self._find_agent_state(session_agent(self._state.session), None))._replace(at=held.at)
        return [event_context.make_event("session.compacted", compacted_id(held.key), data=data)]


def _block_type(block: Record) -> str:
    return as_text(block.get("type")) or UNKNOWN_NAME


def _is_subagent_row(row: Record) -> bool:
    return as_object(row.get("data")).get("type") == "agent_progress"


def _is_queued_prompt(row: Record) -> bool:
    return as_object(row.get("attachment")).get("type") == "queued_command"


def _derive_turn_ended_id(agent_state: ClaudeAgentState, own: str) -> str:
    """The id of a turn's end. A command typed after `!` is a turn of the same prompt, so its own row is used."""
    turn = agent_state.prompt_key or own
    if turn != agent_state.ended:
        agent_state.ended, agent_state.ended_row = turn, own
    return turn_ended_id(turn if own == agent_state.ended_row else own)


_READER_BY_ROW_TYPE: Mapping[str, Callable[[ClaudeTranscriptReader, Record, ClaudeAgentState, ClaudeEventContext], list[Event]]] = {
    "user": ClaudeTranscriptReader._read_user,
    "assistant": ClaudeTranscriptReader._read_assistant,
    "attachment": ClaudeTranscriptReader._read_queued_prompt,
    "progress": ClaudeTranscriptReader._read_progress,
    "system": ClaudeTranscriptReader._read_system,
    "summary": ClaudeTranscriptReader._read_summary,
    "custom-title": ClaudeTranscriptReader._read_title,
    "ai-title": ClaudeTranscriptReader._read_title,
    "agent-name": ClaudeTranscriptReader._read_title,
    "pr-link": ClaudeTranscriptReader._read_pull_request,
    "result": ClaudeTranscriptReader._read_end,
}


def _open_reader(saved: bytes | None) -> ClaudeTranscriptReader:
    return ClaudeTranscriptReader(ClaudeReaderState() if saved is None else msgspec.json.decode(saved, type=ClaudeReaderState))


RECORDING = Recording(name=NAME, open=_open_reader)
"""Reads the transcript of a session or a sub-agent."""
