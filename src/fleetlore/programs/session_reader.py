"""`SessionReader`: base class for readers of simple transcripts. Subclasses interpret the records; this class creates the events.

It links events to causes, tracks open tool calls, counts each reply once and ends each turn once: at its end record or, if there is
none, at the answer that no call follows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, NamedTuple, TypeVar

import msgspec
from msgspec import Struct, field

from fleetlore.dialects.commands.classify import classify_tool_call, find_tool_flags, is_correction
from fleetlore.dialects.commands.flags import shown_flags
from fleetlore.dialects.fields import as_count, as_name, as_object, as_text, to_snake_case
from fleetlore.dialects.recording import QUIET, RecordFiles, Recording, parse_record
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.events.ids import derive_id
from fleetlore.programs.sessions import (
    MAX_TEXT_CHARS,
    UNKNOWN_NAME,
    USER_ACTOR,
    EventContext,
    bound_input,
    bound_record,
    end_of_long,
    guess_task,
    make_context_type,
    project_name,
    shorten_text,
)

_Value = TypeVar("_Value")

MAX_OPEN_CALLS = 200
MAX_AGENTS = 500
MAX_SEEN = 500
"""Maximum number of remembered keys. Later repetitions get the same event id, so they are stored only once anyway."""
_PATH_KEYS = ("file_path", "filePath", "path", "absolute_path")
_SUMMARY_KEYS = ("description", "command", *_PATH_KEYS, "pattern", "query", "url", "prompt", "objective", "name")
_MAX_INPUT_CHARS = 4096


class OpenCall(Struct):
    """A call without a result so far."""

    tool: str
    input: Any = None


class LastAnswer(Struct):
    """The newest text of the session's own agent, as long as nothing follows it."""

    key: str
    at: datetime | None
    text: str


class TranscriptState(Struct, kw_only=True):
    """What a reader keeps between two records; it is stored as JSON."""

    session: str | None = None
    parent: str | None = None
    """The session that started this one as a sub-agent."""
    is_started: bool = False
    cwd: str | None = None
    branch: str | None = None
    model: str | None = None
    version: str | None = None
    prompt_key: str | None = None
    """Key of the prompt that started the current turn; `None` between turns."""
    prompts: dict[str, str] = field(default_factory=dict)
    """Agent → the event that started its turn."""
    causes: dict[str, str] = field(default_factory=dict)
    """Agent → the event before its next reply: the newest outcome, else the prompt."""
    calls: dict[str, OpenCall] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    """Keys of things already reported that later records may repeat, newest last."""
    answer: LastAnswer | None = None
    was_interrupted: bool = False
    extra: dict[str, Any] = field(default_factory=dict)
    """What only one program needs."""


class Usage(NamedTuple):
    """Tokens of one reply, in the words of `model.replied`."""

    input: int = 0
    """Without those from the cache."""
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    """Part of `output`."""


class CallResult(NamedTuple):
    """What came of a call."""

    text: str = ""
    failed: bool = False
    exit_code: int | None = None
    denied: bool = False
    interrupted: bool = False
    duration_ms: float | None = None


class SessionReader:
    """Reads the records of one session. A subclass names its program and implements `read_record`."""

    context_type: ClassVar[type[EventContext]]
    shares_run: ClassVar[bool] = False
    """Whether the transcript of a sub-agent belongs to the run of its parent."""
    ids_begin_with_time: ClassVar[bool] = False
    """Whether only the end of a session's id is random."""

    def __init_subclass__(cls, *, program: str | None = None) -> None:
        super().__init_subclass__()
        if program is not None:
            cls.context_type = make_context_type(program)

    @classmethod
    def make_recording(
        cls, read_path: Callable[[str], bytes | None] = lambda path: None, *, record_files: RecordFiles | None = None
    ) -> Recording:
        """The format of files with one session each; the arguments are those of `Recording`."""

        def open_reader(saved: bytes | None) -> SessionReader:
            return cls(msgspec.json.decode(saved, type=TranscriptState) if saved else TranscriptState())

        return Recording(name=cls.find_dialect(), open=open_reader, read_path=read_path, record_files=record_files)

    @classmethod
    def find_dialect(cls) -> str:
        """The name of the program's dialect."""
        return cls.context_type.ORIGIN.dialect or ""

    def __init__(self, state: TranscriptState) -> None:
        self.state = state

    def read(self, raw: bytes) -> list[Event]:
        """The events of one record."""
        return self.read_record(parse_record(raw), raw)

    def read_record(self, record: Record, raw: bytes) -> list[Event]:
        """The events of one parsed record."""
        raise NotImplementedError

    def flush_complete(self) -> list[Event]:
        """Return no events: only the end of a turn is held back, and the next record may still continue that turn."""
        return []

    def end(self, now: datetime | None = None) -> list[Event]:
        """The end of a turn that no record marks, once the file was quiet for a while."""
        answer = self.state.answer
        if answer is None or (now is not None and answer.at is not None and now - answer.at < QUIET):
            return []
        return self.end_turn(answer.at)

    def save(self) -> bytes:
        """The state, as JSON."""
        return msgspec.json.encode(self.state)

    # --- names and ids

    @property
    def program(self) -> str:
        """The program's name."""
        return self.context_type.PROGRAM

    def derive_event_id(self, *parts: object) -> str:
        """An id derived from these parts."""
        return derive_id(self.find_dialect(), "\0".join(map(str, parts)).encode(errors="replace"))

    def name_agent(self, session: str | None) -> str | None:
        """The agent of a session."""
        if not session:
            return None
        return as_name(f"{self.program}/{session[-8:] if self.ids_begin_with_time else session[:8]}")

    def make_context(self, at: datetime | None, helper: str | None = None) -> EventContext:
        """The event context of the session's own agent or, if `helper` is given, of the sub-agent with that session id."""
        own = self.name_agent(self.state.session)
        parent = self.name_agent(self.state.parent)
        if helper is not None:
            return self.context_type(at, self.name_agent(helper), self.state.session, own)
        return self.context_type(at, own, self.state.parent if self.shares_run and self.state.parent else self.state.session, parent)

    def is_repeated(self, key: str) -> bool:
        """Whether something with this key was reported before; from now on it counts as reported."""
        if key in self.state.seen:
            return True
        self.state.seen = [*self.state.seen[1 - MAX_SEEN :], key]
        return False

    def find_call(self, call: str | None) -> OpenCall:
        """An open call; an empty one if it is not known."""
        return self.state.calls.get(call or "") or OpenCall(UNKNOWN_NAME)

    # --- events

    def make_start(self, at: datetime | None, **data: Any) -> list[Event]:
        """The start of the session, once; a sub-agent that belongs to its parent's run has none."""
        state = self.state
        if state.is_started or state.session is None or (self.shares_run and state.parent):
            return []
        state.is_started = True
        task = guess_task(state.branch)
        known = {
            "cwd": state.cwd,
            "project": project_name(state.cwd),
            "branch": state.branch,
            "program": self.program,
            "version": state.version,
            "model": state.model,
            "parent_run": state.parent,
            "task_guessed": True if task else None,
        }
        context = self.make_context(at)._replace(task=task)
        return [
            context.make_event(
                "session.started", self.derive_event_id("session", state.session), text=project_name(state.cwd), data=known | data
            )
        ]

    def make_prompt(self, key: str, words: str, at: datetime | None) -> list[Event]:
        """A person's words, after the end of the turn before."""
        ended = self.end_turn(self.state.answer.at if self.state.answer else at) if self.state.answer else []
        task = guess_task(self.state.branch, words)
        data = {"prompt": words, "prompt_id": key, "task_guessed": True if task else None}
        data["correction"] = is_correction(words, interrupted=self.state.was_interrupted) or None
        context, id = self.make_context(at)._replace(task=task), self.derive_event_id("prompt", self.state.session, key)
        self.state.prompt_key, self.state.was_interrupted = key, False
        self._note_cause(context.agent, id, is_prompt=True)
        return [*ended, context.make_event("prompt.submitted", id, text=words, data=data, actor=USER_ACTOR)]

    def make_launch(self, child: str, at: datetime | None, *, words: str, call: str | None = None, **data: Any) -> Event:
        """The session's own agent started a sub-agent."""
        id = self.derive_event_id("agent", child, "launched")
        cause = self.derive_event_id("tool", self.state.session, call, "called") if call else self.state.prompts.get(self._own_agent)
        self._note_cause(self.name_agent(child), id, is_prompt=True)
        data |= {"call_id": call}
        return self.make_context(at).make_event("agent.launched", id, text=words, data=data, child=self.name_agent(child), cause=cause)

    def make_own_launch(self, at: datetime | None, words: str) -> list[Event]:
        """The launch of the sub-agent that this transcript is of, at its first message. The parent's transcript may report it later."""
        if self.is_repeated("launch"):
            return []
        id, own = self.derive_event_id("agent", self.state.session, "launched"), self.make_context(at)
        self._note_cause(own.agent, id, is_prompt=True)
        by = self.context_type(at, own.parent, self.state.parent)
        return [by.make_event("agent.launched", id, text=words, data={"prompt": words}, child=own.agent)]

    def make_own_return(self, at: datetime | None, words: str) -> Event:
        """The return of the sub-agent that this transcript is of."""
        own, ids = self.make_context(at), [self.derive_event_id("agent", self.state.session, step) for step in ("returned", "launched")]
        by = self.context_type(at, own.parent, self.state.parent)
        return by.make_event("agent.returned", ids[0], text=words, data={"result": words or None}, child=own.agent, cause=ids[1])

    def make_return(self, child: str, at: datetime | None, *, words: str, call: str | None = None, **data: Any) -> Event:
        """A sub-agent has returned."""
        id, cause = self.derive_event_id("agent", child, "returned"), self.derive_event_id("agent", child, "launched")
        data |= {"call_id": call, "result": words or None}
        return self.make_context(at).make_event("agent.returned", id, text=words, data=data, child=self.name_agent(child), cause=cause)

    def make_call(self, call: str, tool: str, given: object, at: datetime | None, helper: str | None = None) -> Event:
        """A tool was called."""
        put_bounded(self.state.calls, call, OpenCall(tool, _truncate_input(given)), MAX_OPEN_CALLS)
        self.state.answer = None
        context = self.make_context(at, helper)
        data = {"tool": tool, "call_id": call, "input": bound_input(given) or None, "cwd": self.state.cwd}
        data |= {"deed": classify_tool_call(tool, given).name, "flags": find_tool_flags(tool, given) or None}
        id, cause = self.derive_event_id("tool", self.state.session, call, "called"), self.state.prompts.get(context.agent or "")
        return context.make_event("tool.called", id, text=summarize_call(tool, given), data=data, cause=cause)

    def make_outcome(self, call: str, result: CallResult, at: datetime | None, helper: str | None = None) -> Event:
        """The outcome of a call: a result, an error, or a denial."""
        known = self.state.calls.pop(call, None) or OpenCall(UNKNOWN_NAME)
        tool, given, line = known.tool, known.input, summarize_call(known.tool, known.input)
        context = self.make_context(at, helper)
        called, id = (self.derive_event_id("tool", self.state.session, call, step) for step in ("called", "outcome"))
        self._note_cause(context.agent, id)
        self.state.answer = None
        failed = result.failed or bool(result.exit_code)
        action = classify_tool_call(tool, given, result.text, failed=failed)
        data: dict[str, Any] = {"tool": tool, "call_id": call, "deed": action.name, "flags": find_tool_flags(tool, given) or None}
        if result.denied:
            return context.make_event("tool.denied", id, text=line, data=data | {"reason": result.text or None}, cause=called)
        data |= {"subject": action.subject, "exit_code": result.exit_code, "duration_ms": result.duration_ms}
        data |= {"output_end": end_of_long(result.text)}
        if failed:
            data |= {"output" if result.exit_code is not None else "error": result.text or None, "interrupted": result.interrupted or None}
            why = shorten_text(result.text) or (f"exit code {result.exit_code}" if result.exit_code else "failed")
            return context.make_event("tool.failed", id, text=f"{line}: {why}", data=data, cause=called)
        data |= {"output": result.text or None, "paths": list(action.paths) or None}
        return context.make_event("tool.returned", id, text=line, data=data, cause=called)

    def make_reply(
        self, key: str, usage: Usage, said: str, at: datetime | None, *, helper: str | None = None, model: str | None = None, **data: Any
    ) -> Event:
        """A reply of the model, with its tokens."""
        context = self.make_context(at, helper)
        known = {"model": model or self.state.model, "input": usage.input, "output": usage.output, "cache_read": usage.cache_read}
        known |= {"cache_write": usage.cache_write or None, "reasoning": usage.reasoning or None, "said": said or None, "message_id": key}
        if helper is None:
            self.state.answer = LastAnswer(key, at, said) if said else None
        id, cause = self.derive_event_id("reply", self.state.session, key), self.state.causes.get(context.agent or "")
        return context.make_event("model.replied", id, text=said, data=known | data, cause=cause)

    def count_total(self, total: Sequence[int], at: datetime | None) -> list[Event]:
        """What a session's total has beyond what was counted before. That is the id, too, so that no total counts twice."""
        known = self.state.extra.get("total")
        known = known if isinstance(known, list) and len(known) == len(total) else [0] * len(total)
        usage = Usage(*(max(now - before, 0) for now, before in zip(total, known, strict=True)))
        if not any(usage):
            return []
        self.state.extra["total"] = list(total)
        return [self.make_total(f"total:{known[0]}:{known[1]}", usage, at)]

    def make_total(self, key: str, usage: Usage, at: datetime | None, *, model: str | None = None) -> Event:
        """Tokens that the program's total of the session has, and its replies do not."""
        answer = self.state.answer
        event = self.make_reply(key, usage, "", at, model=model, source="session totals")
        self.state.answer = answer
        return event

    def end_turn(self, at: datetime | None, *, reason: str | None = None) -> list[Event]:
        """The end of the turn that is going on, once."""
        key, answer = self.state.prompt_key, self.state.answer
        self.state.prompt_key = self.state.answer = None
        if key is None or (self.shares_run and self.state.parent):
            return []
        self.state.was_interrupted = reason == "interrupted"
        cause = self.state.prompts.get(self._own_agent)
        id = self.derive_event_id("turn", self.state.session, key)
        text = answer.text if answer else None
        return [self.make_context(at).make_event("session.turn_ended", id, text=text, data={"reason": reason}, cause=cause)]

    def make_title(self, title: str | None, at: datetime | None) -> list[Event]:
        """The session was given a title; nothing if it has it already."""
        if not title or self.is_repeated(f"title:{title}"):
            return []
        id = self.derive_event_id("title", self.state.session, title)
        return [self.make_context(at).make_event("agent.named", id, text=title, data={"title": title})]

    def make_waiting(
        self, key: str, words: str, at: datetime | None, *, tool: str | None, call: str | None, helper: str | None = None
    ) -> Event:
        """A call waits for a person's permission."""
        data = {"why": "permission", "tool": tool, "call_id": call}
        return self.make_context(at, helper).make_event("session.waiting", self.derive_event_id("waiting", key), text=words, data=data)

    def make_error(self, key: str, error: str, at: datetime | None, helper: str | None = None) -> Event:
        """A model call failed."""
        context = self.make_context(at, helper)
        id, cause = self.derive_event_id("failed", self.state.session, key), self.state.causes.get(context.agent or "")
        return context.make_event("model.failed", id, text=error, data={"error": error, "model": self.state.model}, cause=cause)

    def make_thought(self, key: str, words: str, at: datetime | None, helper: str | None = None) -> Event:
        """The agent's own thought."""
        id = self.derive_event_id("thought", self.state.session, key)
        return self.make_context(at, helper).make_event("agent.thought", id, text=words, data={"thought": words}, visibility="private")

    def make_thoughts(self, parts: Iterable[Record], key: str, at: datetime | None) -> list[Event]:
        """The thoughts among the parts of a message."""
        thoughts = (words for part in parts if (words := as_text(part.get("thinking"))))
        return [self.make_thought(f"{key}:{n}", words, at) for n, words in enumerate(thoughts)]

    def make_other(self, name: str, record: Record, raw: bytes, at: datetime | None, *, text: str | None = None) -> Event:
        """An event of the program's own kind, with the record's fields."""
        kind = f"{self.find_dialect()}.{to_snake_case(name)}"
        id = self.derive_event_id("record", raw.decode(errors="replace"))
        return self.make_context(at).make_event(kind, id, text=text or name, data=bound_record(record, len(raw)), visibility="system")

    @property
    def _own_agent(self) -> str:
        return self.name_agent(self.state.session) or ""

    def _note_cause(self, agent: str | None, id: str, *, is_prompt: bool = False) -> None:
        for kept in (self.state.causes, self.state.prompts) if is_prompt else (self.state.causes,):
            put_bounded(kept, agent or "", id, MAX_AGENTS)


def summarize_call(tool: str, given: object) -> str:
    """A call in one line: the tool and its main argument."""
    fields = as_object(given)
    key, words = next(((key, line) for key in _SUMMARY_KEYS if (line := shorten_text(fields.get(key)))), ("", None))
    if words and key in _PATH_KEYS:
        words = words.rstrip("/").rpartition("/")[2] or words
    flags = shown_flags(find_tool_flags(tool, given), words or "")
    return f"{tool}: {words[: MAX_TEXT_CHARS - len(tool) - 2 - len(flags)]}{flags}" if words else f"{tool[:MAX_TEXT_CHARS]}{flags}"


def put_bounded(kept: dict[str, _Value], key: str, value: _Value, most: int) -> None:
    """Set a value; the oldest entries are dropped, so that no file can make the state grow for ever."""
    if key not in kept and len(kept) >= most:
        del kept[next(iter(kept))]
    kept[key] = value


def list_parts(content: object) -> list[Record]:
    """The parts of a message."""
    return [as_object(part) for part in content] if isinstance(content, list) else []


def join_text(content: object) -> str:
    """The text of a message or result: a string, or the parts that are text."""
    if isinstance(content, str):
        return content
    parts = (part for part in list_parts(content) if part.get("type", "text") == "text" and part.get("thought") is not True)
    return "\n".join(words for part in parts if (words := as_text(part.get("text"))))


def split_exit_code(text: str, pattern: re.Pattern[str]) -> tuple[str, int | None]:
    """An output without the exit code that the program adds to its end, and the code, which is the pattern's group."""
    found = pattern.search(text[-200:])
    return (text[: len(text) - len(found[0])], int(found[1])) if found else (text, None)


def count_tokens(fields: Mapping[str, Any], key: str) -> int:
    """The number under a key; 0 if there is none."""
    return as_count(fields.get(key)) or 0


def _truncate_input(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_MAX_INPUT_CHARS]
    if isinstance(value, dict):
        return {key: _truncate_input(inner) for key, inner in value.items()}
    return [_truncate_input(inner) for inner in value[:100]] if isinstance(value, list) else value
