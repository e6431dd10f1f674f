"""Streams of `codex exec --json`: threads, turns and items as they come, without times and without ids that hold beyond the stream.

An id follows from the whole stream up to its record, so that reading it again tells nothing twice, and going on with the same thread
in another stream does. The rollout of the same thread tells the same story better; whoever has it should read that instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import NamedTuple

from fleetlore.dialects.fields import as_name, as_object, as_text, read_time
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event
from fleetlore.programs.codex.ids import NAME, PROGRAM, Scene, agent_of, derive, launched_id, started_id
from fleetlore.programs.codex.items import work_in
from fleetlore.programs.codex.outputs import Output, text_in
from fleetlore.programs.codex.reader_state import Mind, open_call
from fleetlore.programs.codex.tools import Key, tell_call, tell_outcome, tell_work
from fleetlore.programs.codex.usage import Usage, model_in, read_usage
from fleetlore.programs.sessions import snake, within_bounds

SOURCE = "exec"
"""What `model.replied` names as its source, so that nobody adds it to what the rollout of the same thread tells."""


class Line(NamedTuple):
    """One record of a stream."""

    record: Record
    scene: Scene
    size: int
    own: str
    """The id that follows from its place."""


def is_stream(record: Record) -> bool:
    """Whether this is a record of a stream."""
    name = record.get("type")
    return isinstance(name, str) and "payload" not in record and ("." in name or (name == "error" and "message" in record))


def read_stream(mind: Mind, record: Record, raw: bytes) -> list[Event]:
    """The events of one more record."""
    mind.chain = sha256(mind.chain.encode() + raw).hexdigest()[:32]
    scene = Scene(read_time(record.get("timestamp")), mind.agent, mind.thread)
    line = Line(record, scene, len(raw), derive("stream", mind.chain))
    name = str(record.get("type"))
    read = _READERS.get(name)
    return _tell_other(line, name, record) if read is None else read(mind, line)


def _read_thread(mind: Mind, line: Line) -> list[Event]:
    mind.thread = as_name(line.record.get("thread_id"))
    mind.agent, mind.streamed = agent_of(mind.thread), None
    mind.model = model_in(line.record) or mind.model
    if mind.thread is None:
        return []
    scene = line.scene._replace(agent=mind.agent, run=mind.thread)
    data = {"source": "startup", "program": PROGRAM, "originator": "codex_exec", "model": mind.model}
    return [scene.tell("session.started", started_id(mind.thread), text=PROGRAM, data=data)]


def _read_begun(mind: Mind, line: Line) -> list[Event]:
    item, name = _item_of(line)
    work, own = None if name is None else work_in(name, item), as_text(item.get("id"))
    tool, given = (work.tool, work.given) if work else (as_text(item.get("tool")), item.get("prompt"))
    if own is None or tool is None or name == "todo_list":
        return []
    given = {"prompt": given} if isinstance(given, str) else given
    if work is not None and work.paths:
        given = {"changes": dict.fromkeys(work.paths, "")}
    open_call(mind, own, tool, given, id=line.own)
    return [*_flush(mind, line), tell_call(line.scene, Key(line.own, ""), tool, given)]


def _read_done(mind: Mind, line: Line) -> list[Event]:
    item, name = _item_of(line)
    if name in _SPOKEN:
        return _SPOKEN[name](mind, line, item)
    work = None if name is None else work_in(name, item)
    made = mind.calls.pop(as_text(item.get("id")) or "", None)
    key = Key(made.id if made and made.id else derive(line.own, "called"), line.own)
    mind.cause = line.own
    if made is not None:
        output = Output(work.words if work else text_in(item.get("result")), success=False if item.get("status") == "failed" else None)
        return [tell_outcome(line.scene, key, made.tool, made.input, output, work), *_launches(line, item, key)]
    if work is not None:
        return [*_flush(mind, line), *tell_work(line.scene, key, work, cause=None)]
    return _tell_other(line, name or "item", item)


def _item_of(line: Line) -> tuple[Record, str | None]:
    item = as_object(line.record.get("item"))
    name = as_text(item.get("type")) or as_text(item.get("item_type"))
    return item, None if name is None else snake(name)


def _launches(line: Line, item: Record, key: Key) -> list[Event]:
    threads = item.get("receiver_thread_ids") if item.get("tool") == "spawn_agent" else None
    data = {"prompt": as_text(item.get("prompt"))}
    return [
        line.scene.tell("agent.launched", launched_id(thread), text=data["prompt"], data=data, child=agent_of(thread), cause=key.called)
        for thread in (threads if isinstance(threads, list) else [])
        if as_name(thread)
    ]


def _hear(mind: Mind, line: Line, item: Record) -> list[Event]:
    if words := text_in(item.get("text")):
        mind.said.append(words)
    return []


def _think(mind: Mind, line: Line, item: Record) -> list[Event]:
    words = text_in(item.get("text"))
    data = {"thought": words} if "\n" in words.strip() else {}
    return [line.scene.tell("agent.thought", line.own, text=words, data=data, visibility="private")] if words.strip() else []


def _read_turn_end(mind: Mind, line: Line) -> list[Event]:
    """The usage is the thread's, all turns together: what is new is this turn's."""
    totals = read_usage(line.record.get("usage"))
    usage = Usage() if totals is None else totals.since(mind.streamed).in_bounds()
    mind.streamed = totals or mind.streamed
    said = "\n\n".join(mind.said)
    ended = line.scene.tell("session.turn_ended", derive(line.own, "ended"), text=said)
    if not usage.counts:
        return [*_flush(mind, line), ended]
    mind.said.clear()
    data = {"model": mind.model, **usage.told(), "said": said or None, "source": SOURCE}
    return [line.scene.tell("model.replied", line.own, text=said, data=data, cause=mind.cause), ended]


def _flush(mind: Mind, line: Line) -> list[Event]:
    """What was said before something else is done."""
    said = "\n\n".join(mind.said)
    mind.said.clear()
    data = {"model": mind.model, "said": said, "source": SOURCE}
    return [line.scene.tell("model.replied", derive(line.own, "said"), text=said, data=data, cause=mind.cause)] if said else []


def _read_failure(mind: Mind, line: Line) -> list[Event]:
    told = line.record if line.record.get("type") == "error" else as_object(line.record.get("error"))
    why = text_in(told.get("message")) or "failed"
    failed = line.scene.tell("model.failed", line.own, text=why, data={"error": why, "model": mind.model}, cause=mind.cause)
    if line.record.get("type") == "error":
        return [failed] if mind.echo.is_new("error", why) else []
    ended = line.scene.tell("session.turn_ended", derive(line.own, "ended"), text=why, data={"reason": "failed"})
    return [*_flush(mind, line), *([failed] if mind.echo.is_new("turn", why) else []), ended]


def _tell_other(line: Line, name: str, record: Record) -> list[Event]:
    words = as_text(record.get("message")) or as_text(record.get("text"))
    data = {key: value for key, value in within_bounds(record, line.size).items() if key != "type"}
    return [line.scene.tell(f"{NAME}.{snake(name)}", line.own, text=words or name, data=data, visibility="system")]


def end_stream(mind: Mind) -> list[Event]:
    """What was said last, where no end of the turn came."""
    scene = Scene(None, mind.agent, mind.thread)
    return _flush(mind, Line({}, scene, 0, derive("stream", mind.chain, "end"))) if mind.chain else []


_SPOKEN: Mapping[str | None, Callable[[Mind, Line, Record], list[Event]]] = {
    "agent_message": _hear,
    "assistant_message": _hear,
    "reasoning": _think,
}
_READERS: Mapping[str, Callable[[Mind, Line], list[Event]]] = {
    "thread.started": _read_thread,
    "session.created": _read_thread,
    "turn.started": lambda mind, line: [],
    "item.started": _read_begun,
    "item.updated": lambda mind, line: [],
    "item.completed": _read_done,
    "turn.completed": _read_turn_end,
    "turn.failed": _read_failure,
    "error": _read_failure,
}
