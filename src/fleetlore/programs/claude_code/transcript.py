"""Reads transcripts of Claude Code, one JSON object per row. docs/dialects.md lists the events of each type of row.

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

    def __init__(self, mind: ClaudeReaderState) -> None:
        self._state = mind
        self._is_stream = False

    def read(self, raw: bytes) -> list[Event]:
        """The events of a row, and of earlier rows that it completes."""
        row = parse_record(raw)
        row_type = as_text(row.get("type"))
        if row_type is None and self._read_subagent_info(row):
            return []
        row_type = row_type or UNKNOWN_NAME
        if row_type == "queue-operation":
            self._state.queue.note(row, key=derive_claude_id("row", raw.decode(errors="replace")))
        if row_type in IGNORED_ROW_TYPES or (
            row_type in _MOSTLY_FOLDED and not (_is_subagent_row(row) or _is_queued_prompt(row) or is_stop_mark(row))
        ):
            self._record_first_time(row)
            return []
        if as_name(row.get("uuid")) is None:
            row["uuid"] = derive_claude_id("row", raw.decode(errors="replace"))  # ids derived from rows must differ
        if printed := is_stream_row(row):
            row = convert_stream_row(row, self._state.helpers)
        self._is_stream = printed
        held = [] if row.get("isCompactSummary") else self._flush_compaction(None)
        held += self._flush_refused_call(row)
        # An unknown type may still have the shape of a message.
        read = _READER_BY_ROW_TYPE.get(row_type) or _READER_BY_ROW_TYPE.get(f"{as_object(row.get('message')).get('role')}")
        if read is None:
            return held + self._read_other(row, row_type, len(raw))
        voice, scene = self._find_agent_and_context(row)
        events = [*held, *self._make_start_events(row, scene), *self._make_title_events(row, scene)]
        if is_stop_mark(row):
            self._note_stop(row, voice, scene)
            return events
        return [*events, *read(self, row, voice, scene)]

    def flush_complete(self) -> list[Event]:
        """The held-back events that are certain, although rows may follow."""
        ended = self._end_settled_turn()
        whole = [voice for voice in self._state.voices.values() if voice.reply is not None and voice.reply.stop_reason]
        return [*ended, *(event for voice in whole for event in flush_reply(voice, self._make_context(voice)))]

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
                for voice in voices
                for event in flush_reply(voice, self._make_context(voice), whole=bool(voice.reply and voice.reply.stop_reason))
            ),
            *(self._end_turn(own) if own is not None and is_ended else ()),
        ]

    def save(self) -> bytes:
        """The state, as JSON."""
        return msgspec.json.encode(self._state)

    # --- the acting agent

    def _find_agent_and_context(self, row: Record) -> tuple[ClaudeAgentState, ClaudeEventContext]:
        mind = self._state
        if "forkedFrom" in row or row.get("sessionId") != mind.session:
            named = (as_object(row.get("forkedFrom")).get("sessionId"), row.get("sessionId"))
            mind.session = next((session for name in named if (session := as_name(name))), mind.session)
        branch = as_text(row.get("gitBranch"))
        mind.branch = branch if branch and branch != DETACHED_HEAD else mind.branch
        self._record_first_time(row)
        own = session_agent(mind.session)
        helper = as_name(row.get("agentId")) or (self._find_side_chain_agent(row) if row.get("isSidechain") is True else None)
        if helper and helper.startswith(COMPACTOR_PREFIX):
            voice = self._state.voices.setdefault(helper, ClaudeAgentState(agent=own))
        else:
            voice = self._find_agent_state(helper, own) if helper else self._find_agent_state(own, None)
        return voice, self._make_context(voice)._replace(at=read_time(row.get("timestamp")))

    def _find_agent_state(self, agent: str | None, parent: str | None) -> ClaudeAgentState:
        voice = self._state.voices.get(agent or "")
        if voice is None:
            deeper = parent is not None and self._state.helper is not None and (self._state.helper.depth or 1) > 1
            voice = self._state.voices[agent or ""] = ClaudeAgentState(agent=agent, parent=None if deeper else parent)
            if parent is not None and agent is not None:
                voice.prompt = voice.cause = subagent_launched_id(agent)
        return voice

    def _make_context(self, voice: ClaudeAgentState) -> ClaudeEventContext:
        return ClaudeEventContext(None, voice.agent, self._state.session, voice.parent)

    def _find_side_chain_agent(self, row: Record) -> str | None:
        """Older versions name no sub-agent: it is identified by its first row."""
        own = as_name(row.get("uuid"))
        return None if own is None else f"{PROGRAM}/{self._state.link_side_chain(own, str(row.get('parentUuid')))[:8]}"

    def _record_first_time(self, row: Record) -> None:
        if self._state.first_at is None and "forkedFrom" not in row:
            self._state.first_at = read_time(row.get("timestamp"))

    def _make_start_events(self, row: Record, scene: ClaudeEventContext) -> Iterator[Event]:
        """The session's start, at the first row that says where it is. Not for a sub-agent's transcript."""
        mind = self._state
        is_own = mind.session is not None and scene.agent == session_agent(mind.session) and not row.get("agentId")
        if mind.started or mind.session is None or not is_own or not row.get("cwd") or row.get("forkedFrom"):
            return
        mind.started, mind.told_branch = True, mind.branch
        cwd, task = as_text(row.get("cwd")), guess_task(mind.branch)
        data = {
            "cwd": cwd,
            "project": project_name(cwd),
            "branch": mind.branch,
            "program": PROGRAM,
            "version": as_text(row.get("version")),
            "model": as_text(row.get("model")),
            "task_guessed": True if task else None,
        }
        scene = scene._replace(at=mind.first_at, task=task)
        yield scene.make_event("session.started", session_started_id(mind.session), text=project_name(cwd), data=data)

    def _make_title_events(self, row: Record, scene: ClaudeEventContext) -> Iterator[Event]:
        title = self._state.titles.pop(str(row.get("uuid")), None) if self._state.titles else None
        if title is not None:
            yield scene.make_event("agent.named", derive_claude_id("title", scene.run, title), text=title, data={"title": title})

    # --- rows

    def _read_user(self, row: Record, voice: ClaudeAgentState, scene: ClaudeEventContext) -> list[Event]:
        content = as_object(row.get("message")).get("content")
        if row.get("isCompactSummary") is True:
            return self._flush_compaction(extract_text(content))
        results = [part for part in list_content_parts(content) if _block_type(part).endswith(_TOOL_RESULT)]
        if results:
            ended = self._end_marked_turn(voice)
            return [
                *ended,
                *self._flush_complete_reply(voice),
                *(event for part in results for event in self._read_result(part, row, voice, scene)),
            ]
        words, images = extract_prompt_text(content)
        if row.get("isMeta") is True or (not words and not images) or str(row.get("agentId")).startswith(COMPACTOR_PREFIX):
            return []
        return [*flush_reply(voice, self._make_context(voice)), *self._read_user_text(words, images, row, voice, scene)]

    def _read_user_text(self, words: str, images: int, row: Record, voice: ClaudeAgentState, scene: ClaudeEventContext) -> list[Event]:
        own = str(row["uuid"])
        if words.startswith(INTERRUPTED_PREFIX):
            voice.interrupted = True
            return self._end_interrupted_turn(words, own, voice, scene)
        if words.startswith(_NOTIFICATION_TAG):
            self._state.queue.drop(words)
            return [*self._end_answered_turn(voice), *self._read_notification(words, own, scene)]
        if voice.agent != session_agent(self._state.session):
            return self._read_subagent_prompt(words, own, row, voice, scene)
        self._state.queue.drop(words)
        ended = self._end_answered_turn(voice)
        voice.turn.begin()
        voice.said = None
        named = as_name(row.get("promptId")) or own
        if named != voice.prompt_key:
            voice.prompt_key, voice.prompt_row = named, own
        return [*ended, *self._make_prompt_events(words, images, named if own == voice.prompt_row else own, own, voice, scene)]

    def _make_prompt_events(
        self, words: str, images: int, key: str, row: str, voice: ClaudeAgentState, scene: ClaudeEventContext
    ) -> list[Event]:
        prompt = ClaudePrompt(words, id=prompt_id(key), key=key, images=images, row=row)
        event = make_prompt_event(scene, prompt, branch=self._state.branch, interrupted=voice.interrupted)
        voice.prompt = voice.cause = event.id
        voice.interrupted = False
        return [event]

    def _read_queued_prompt(self, row: Record, voice: ClaudeAgentState, scene: ClaudeEventContext) -> list[Event]:
        """A prompt that reached the agent between two steps; the same turn continues."""
        own, (words, images) = str(row["uuid"]), extract_prompt_text(as_object(row.get("attachment")).get("prompt"))
        self._state.queue.drop(words)
        if words.startswith(_NOTIFICATION_TAG):
            return self._read_notification(words, own, scene)
        if (not words and not images) or voice.agent != session_agent(self._state.session) or self._state.queue.was_told(words):
            return []
        voice.turn.answer = None
        return self._make_prompt_events(words, images, own, own, voice, scene)

    def _tell_queued_prompts(self, voice: ClaudeAgentState) -> list[Event]:
        """Prompts that left the queue before the agent's next message: older versions write no other row for them."""
        if voice is not self._own_voice():
            return []
        events: list[Event] = []
        for prompt in self._state.queue.take_delivered():
            scene = self._make_context(voice)._replace(at=prompt.at)
            if prompt.text.startswith(_NOTIFICATION_TAG):
                events += self._read_notification(prompt.text, prompt.key, scene)
            elif words := extract_queued_text(prompt.text):
                events += [*flush_reply(voice, self._make_context(voice))]
                events += self._make_prompt_events(words, 0, prompt.key, prompt.key, voice, scene)
        return events

    def _read_subagent_prompt(self, words: str, own: str, row: Record, voice: ClaudeAgentState, scene: ClaudeEventContext) -> list[Event]:
        """A message to a sub-agent; the first one is its launch."""
        if voice.agent is None or voice.launched:
            return [
                scene.make_event(
                    f"{NAME}.message", derive_claude_id("message", own), text=words, data={"message": words}, actor=voice.parent
                )
            ]
        call = as_text(row.get("parent_tool_use_id"))
        known = self._state.helper or SubagentInfo(role=as_text(row.get("attributionAgent")), call=call, depth=1 if call else None)
        return self._make_launch_events(voice, scene, words, known)

    def _make_launch_events(self, voice: ClaudeAgentState, scene: ClaudeEventContext, words: str, known: SubagentInfo) -> list[Event]:
        """The launch of a sub-agent; its parent is certain only from the metadata file beside its transcript."""
        child = voice.agent or UNKNOWN_NAME
        voice.launched = True
        data = {"role": known.role, "prompt": words, "call_id": known.call, "launcher_guessed": True if known.depth != 1 else None}
        scene = scene._replace(agent=session_agent(self._state.session), parent=None)
        cause = tool_called_id(known.call) if known.call else None
        return [
            scene.make_event("agent.launched", subagent_launched_id(child), text=known.words or words, data=data, child=child, cause=cause)
        ]

    def _read_notification(self, words: str, own: str, scene: ClaudeEventContext) -> list[Event]:
        """A background task has ended."""
        task, status = (match[1].strip() if (match := found.search(words)) else None for found in (_TASK_ID_PATTERN, _STATUS_PATTERN))
        summary = text_inside(words, "summary")
        if task in self._state.background and task is not None:
            self._state.background.remove(task)
            data = {"status": status, "result": summary}
            return [scene.make_event("agent.returned", subagent_returned_id(task), text=summary, data=data, child=as_name(task))]
        data = {"task_id": task, "status": status, "summary": summary}
        own_id = derive_claude_id("notification", own)
        return [scene.make_event(f"{NAME}.task_notification", own_id, text=summary or words, data=data, visibility="system")]

    def _read_result(self, part: Record, row: Record, voice: ClaudeAgentState, scene: ClaudeEventContext) -> Iterator[Event]:
        call = as_text(part.get("tool_use_id"))
        if call is None:
            return
        result = row.get("toolUseResult")
        known = self._state.calls.pop(call, None)
        tool, given = (known.tool, known.input) if known else (UNKNOWN_NAME, None)
        interrupted = as_object(result).get("interrupted") is True
        output = part.get("content")
        voice.cause = tool_outcome_id(call)
        voice.turn.note_result(call)
        if part.get("is_error") is True and is_refusal_by_person(words := extract_text(output)):
            row_id = as_name(row.get("uuid"))
            refused = RefusedCall(call=call, tool=tool, input=given, reason=words, at=scene.at, voice=voice.agent or "", row=row_id)
            self._state.refused.append(refused)
            return
        yield make_outcome_event(
            scene,
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
        helpers = make_subagent_events(scene, call, given, result) if known is None or tool in SUBAGENT_TOOLS else []
        if tool in POLLERS:
            helpers = self._read_report(call, given, result, output, scene)
        for event in helpers:
            helper = self._state.voices.get(event.child or "")
            if helper is not None and event.kind == "agent.returned":
                yield from flush_reply(helper, self._make_context(helper))
        self._state.background += [event.child for event in helpers if event.kind == "agent.launched" and event.child]
        yield from helpers

    def _read_report(self, call: str, given: object, result: object, output: object, scene: ClaudeEventContext) -> list[Event]:
        """A background sub-agent returned: the session fetched its report before a notification came."""
        report = read_report(given, result, extract_text(output))
        if report is None or report.agent not in self._state.background:
            return []
        self._state.background.remove(report.agent)
        data = {"call_id": call, "status": report.status, "result": report.text or None}
        return [
            scene.make_event(
                "agent.returned",
                subagent_returned_id(report.agent),
                text=report.text,
                data=data,
                child=report.agent,
                cause=tool_called_id(call),
            )
        ]

    def _read_assistant(self, row: Record, voice: ClaudeAgentState, scene: ClaudeEventContext) -> list[Event]:
        message = as_object(row.get("message"))
        content = message.get("content")
        queued = self._tell_queued_prompts(voice)
        if row.get("isApiErrorMessage") is True:
            error = extract_text(content)
            failed = scene.make_event(
                "model.failed", derive_claude_id("failed", row.get("uuid")), text=error, data={"error": error}, cause=voice.cause
            )
            events = [*queued, *self._end_marked_turn(voice), *flush_reply(voice, self._make_context(voice)), failed]
            voice.turn.note_error(str(row.get("uuid")), error, at=scene.at)
            return events
        events = [*queued, *self._end_marked_turn(voice)]
        if message.get("model") != SYNTHETIC_MODEL:
            voice.turn.note_answer(row, at=scene.at)
        events += add_reply_row(voice, row, message, scene, nested=self._is_stream)
        for block in list_content_parts(content):
            events += self._read_block(block, row, message, voice, scene)
        return events

    def _read_block(
        self, block: Record, row: Record, message: Record, voice: ClaudeAgentState, scene: ClaudeEventContext
    ) -> Iterator[Event]:
        sort = _block_type(block)
        if sort.endswith(_TOOL_USE) and (call := as_text(block.get("id"))):
            tool, given = as_text(block.get("name")) or UNKNOWN_NAME, block.get("input")
            self._state.remember_call(call, tool, given)
            yield make_call_event(scene, tool, call, given, cwd=as_text(row.get("cwd")), cause=voice.prompt)
        elif sort.endswith(_TOOL_RESULT):
            yield from self._read_result(block, row, voice, scene)
        elif sort == "thinking" and (words := (as_text(block.get("thinking")) or "").strip()):
            own = derive_claude_id("thought", message.get("id") or row.get("uuid"), words)
            yield scene.make_event("agent.thought", own, text=words, data={"thought": words}, cause=voice.cause, visibility="private")
        elif sort not in _KNOWN_BLOCK_TYPES:
            raw = msgspec.json.encode(block)
            own = derive_claude_id("block", message.get("id") or row.get("uuid"), raw.decode())
            data = bound_record(block, len(raw))
            yield scene.make_event(f"{NAME}.{to_snake_case(sort)}", own, text=sort, data=data, cause=voice.cause, visibility="system")

    def _read_progress(self, row: Record, voice: ClaudeAgentState, scene: ClaudeEventContext) -> list[Event]:
        """Older versions repeat a sub-agent's rows inside the session's; its own transcript, if any, has more detail."""
        fields = as_object(row.get("data"))
        inner, helper = as_object(fields.get("message")), as_name(fields.get("agentId"))
        if helper is None:
            return []
        voice = self._find_agent_state(helper, session_agent(self._state.session))
        scene = self._make_context(voice)._replace(at=read_time(inner.get("timestamp")) or scene.at)
        message = as_object(inner.get("message"))
        content = message.get("content")
        events = add_reply_row(voice, inner, message, scene, nested=True) if inner.get("type") == "assistant" else []
        events += [event for part in list_content_parts(content) for event in self._read_block(part, row, message, voice, scene)]
        if inner.get("type") == "user" and not voice.launched and (words := extract_prompt_text(content)[0]):
            call = as_text(row.get("parentToolUseID"))
            given = as_object(self._state.calls[call].input) if call in self._state.calls else {}
            known = SubagentInfo(role=as_text(given.get("subagent_type")), words=as_text(given.get("description")), call=call, depth=1)
            events += self._make_launch_events(voice, scene, words, known)
        return events

    def _read_system(self, row: Record, voice: ClaudeAgentState, scene: ClaudeEventContext) -> list[Event]:
        subtype, own = as_text(row.get("subtype")) or UNKNOWN_NAME, row.get("uuid")
        if subtype in _IGNORED_SYSTEM_SUBTYPES or record_subagent_launch(row, self._state.helpers):
            return []
        if subtype == "compact_boundary":
            self._hold_compaction(row, scene)
            return []
        if subtype == "turn_duration":
            if voice.turn.is_over:  # the Stop hooks have already marked it
                return []
            return [
                *flush_reply(voice, self._make_context(voice)),
                self._tell_end(voice, scene, str(own), duration=as_number(row.get("durationMs"))),
            ]
        words = as_text(row.get("content")) or as_text(as_object(row.get("error")).get("message"))
        if subtype == "api_error":
            error = words or extract_text(row.get("error")) or subtype
            return [scene.make_event("model.failed", derive_claude_id("failed", own), text=error, data={"error": error}, cause=voice.cause)]
        data = {key: value for key, value in row.items() if key not in _COMMON_ROW_KEYS}
        own_id = derive_claude_id("system", own)
        return [scene.make_event(f"{NAME}.{to_snake_case(subtype)}", own_id, text=words or subtype, data=data, visibility="system")]

    def _read_summary(self, row: Record, voice: ClaudeAgentState, scene: ClaudeEventContext) -> list[Event]:
        """A title written by an older version, for the session that a row belongs to."""
        leaf, title = as_text(row.get("leafUuid")), as_text(row.get("summary"))
        if leaf and title and len(self._state.titles) < 100:
            self._state.titles[leaf] = title
        return []

    def _read_title(self, row: Record, voice: ClaudeAgentState, scene: ClaudeEventContext) -> list[Event]:
        by_person = as_text(row.get("customTitle"))
        title = by_person or as_text(row.get("aiTitle")) or as_text(row.get("agentName"))
        if title is None or title.startswith(_CONTINUED_PREFIX):
            return []
        return [
            scene.make_event(
                "agent.named", derive_claude_id("title", scene.run, title), text=title, data={"name" if by_person else "title": title}
            )
        ]

    def _read_end(self, row: Record, voice: ClaudeAgentState, scene: ClaudeEventContext) -> list[Event]:
        """The last row that `claude -p --output-format stream-json` prints."""
        reason = None if row.get("subtype") == "success" else as_text(row.get("subtype"))
        data = {"reason": reason, "duration_ms": as_number(row.get("duration_ms"))}
        own, words = _derive_turn_ended_id(voice, str(row["uuid"])), as_text(row.get("result"))
        voice.turn.close()
        ended = scene.make_event("session.turn_ended", own, text=words, data=data, cause=voice.prompt)
        return [*flush_reply(voice, self._make_context(voice)), ended]

    def _read_other(self, row: Record, row_type: str, size: int) -> list[Event]:
        """An event with all fields of a row of unknown type."""
        _, scene = self._find_agent_and_context(row)
        data = bound_record({key: value for key, value in row.items() if key not in _COMMON_ROW_KEYS}, size)
        words = next((value for key in ("content", "message", "text", "title", "summary") if (value := as_text(row.get(key)))), row_type)
        own = derive_claude_id(row_type, row["uuid"])
        return [scene.make_event(f"{NAME}.{to_snake_case(row_type)}", own, text=words, data=data, visibility="system")]

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

    def _note_stop(self, row: Record, voice: ClaudeAgentState, scene: ClaudeEventContext) -> None:
        if voice is self._own_voice():
            self._state.has_stop_hooks = True
            voice.turn.note_mark(row, at=scene.at)

    def _end_interrupted_turn(self, words: str, own: str, voice: ClaudeAgentState, scene: ClaudeEventContext) -> list[Event]:
        ended = self._end_marked_turn(voice)
        if voice.turn.is_over:
            return ended
        voice.turn.close()
        return [scene.make_event("session.turn_ended", derive_claude_id("interrupted", own), text=words, data={"reason": "interrupted"})]

    def _end_marked_turn(self, voice: ClaudeAgentState) -> list[Event]:
        """The agent works again although its turn was over, for example because a background task has finished."""
        mark = voice.turn.mark
        return self._end_turn(voice) if mark is not None and mark.is_final else []

    def _end_answered_turn(self, voice: ClaudeAgentState) -> list[Event]:
        """The next prompt came, so the answer before it was the last of its turn."""
        is_ended = voice is self._own_voice() and (voice.turn.mark is not None or voice.turn.has_answer())
        return self._end_turn(voice) if is_ended else []

    def _end_settled_turn(self) -> list[Event]:
        """The turn of a file that may grow, if it is certain that it is over.

        Where Stop hooks run, they decide that: one of them may send the agent back to work.
        """
        voice = self._own_voice()
        if voice is None or self._is_stream or voice.turn.is_over:
            return []
        mark, answer = voice.turn.mark, voice.turn.answer
        if mark is not None:
            return self._end_turn(voice) if mark.is_final else []
        is_final = answer is not None and answer.is_final and answer.error is None and voice.turn.has_answer()
        return self._end_turn(voice) if is_final and not self._state.has_stop_hooks else []

    def _end_turn(self, voice: ClaudeAgentState) -> list[Event]:
        """The end of a turn at its newest mark, else at its answer, after what the answer said."""
        last = voice.turn.mark or voice.turn.answer
        if last is None:
            return []
        events = flush_reply(voice, self._make_context(voice))
        return [*events, self._tell_end(voice, self._make_context(voice)._replace(at=last.at), last.row)]

    def _tell_end(self, voice: ClaudeAgentState, scene: ClaudeEventContext, own: str, *, duration: float | None = None) -> Event:
        error = voice.turn.answer.error if voice.turn.answer else None
        data = {"reason": "failed" if error is not None else None, "duration_ms": duration, "branch": self._changed_branch()}
        voice.turn.close()
        return scene.make_event(
            "session.turn_ended", _derive_turn_ended_id(voice, own), text=error or voice.said, data=data, cause=voice.prompt
        )

    def _changed_branch(self) -> str | None:
        """The branch, if it differs from the last one reported."""
        branch = self._state.branch
        if branch == self._state.told_branch or not self._state.started:
            return None
        self._state.told_branch = branch
        return branch

    # --- held-back rows

    def _flush_complete_reply(self, voice: ClaudeAgentState) -> list[Event]:
        return flush_reply(voice, self._make_context(voice)) if voice.reply is not None and voice.reply.stop_reason else []

    def _flush_refused_call(self, row: Record) -> list[Event]:
        """An interrupted tool looks like a denied one, except for a mark on the next row."""
        held, self._state.refused = self._state.refused, []
        tell = make_interruption_event if row.get("interruptedMessageId") else make_denial_event
        events = []
        for was in held:
            scene = self._make_context(self._state.voices[was.voice])._replace(at=was.at)
            events.append(tell(scene, was.tool, was.call, was.input, reason=was.reason, row=was.row))
        return events

    def _hold_compaction(self, row: Record, scene: ClaudeEventContext) -> None:
        metadata = as_object(row.get("compactMetadata"))
        self._state.compaction = PendingCompaction(
            key=str(row["uuid"]),
            at=scene.at,
            trigger=as_text(metadata.get("trigger")),
            before=as_count(metadata.get("preTokens")),
            after=as_count(metadata.get("postTokens")),
        )

    def _flush_compaction(self, summary: str | None) -> list[Event]:
        held, self._state.compaction = self._state.compaction, None
        if held is None:
            return []
        data = {"trigger": held.trigger, "before_tokens": held.before, "after_tokens": held.after, "summary": summary}
        scene = self._make_context(self._find_agent_state(session_agent(self._state.session), None))._replace(at=held.at)
        return [scene.make_event("session.compacted", compacted_id(held.key), data=data)]


def _block_type(block: Record) -> str:
    return as_text(block.get("type")) or UNKNOWN_NAME


def _is_subagent_row(row: Record) -> bool:
    return as_object(row.get("data")).get("type") == "agent_progress"


def _is_queued_prompt(row: Record) -> bool:
    return as_object(row.get("attachment")).get("type") == "queued_command"


def _derive_turn_ended_id(voice: ClaudeAgentState, own: str) -> str:
    """The id of a turn's end. A command typed after `!` is a turn of the same prompt, so its own row is used."""
    turn = voice.prompt_key or own
    if turn != voice.ended:
        voice.ended, voice.ended_row = turn, own
    return turn_ended_id(turn if own == voice.ended_row else own)


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
    "result": ClaudeTranscriptReader._read_end,
}


def _open_reader(saved: bytes | None) -> ClaudeTranscriptReader:
    return ClaudeTranscriptReader(ClaudeReaderState() if saved is None else msgspec.json.decode(saved, type=ClaudeReaderState))


RECORDING = Recording(name=NAME, open=_open_reader)
"""Reads the transcript of a session or a sub-agent."""
