"""Log records of agents as events: Claude Code's and Codex's own telemetry, and OpenTelemetry's events of models.

What hooks, transcripts and rollouts tell too is told under their ids, and so only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from fleetlore.dialects.commands.classify import deed_of, flags_of
from fleetlore.dialects.commands.flags import shown_flags
from fleetlore.dialects.fields import as_name, as_text, first_line, read_time
from fleetlore.dialects.otlp.actions import END, LONGEST_LINE, NAME, PERSON, Place, tell_reply
from fleetlore.dialects.otlp.attribute_names import AGENT_NAMES, CONVERSATION, service_of
from fleetlore.dialects.otlp.messages import ASSISTANT, spoken
from fleetlore.dialects.otlp.values import LogRecord, Span, bounded, count_of, name_in, number_of, plain_values, unfold
from fleetlore.dialects.wire import Record
from fleetlore.events.envelope import Event, Origin, Visibility
from fleetlore.events.ids import derive_id
from fleetlore.programs import sessions
from fleetlore.programs.claude_code import ids
from fleetlore.programs.codex import ids as codex_ids

CLAUDE, CODEX = "claude_code.", "codex."
INFERENCE = "gen_ai.client.inference.operation.details"
CHOICE = "gen_ai.choice"

_ORIGIN = Origin(dialect=NAME)
_HIDDEN = frozenset(("<REDACTED>", "[REDACTED]"))
# Whose account it is, and what the event is called, stands on every record.
_LEFT_OUT = ("user.", "organization.", "event.", "session.id", "conversation.id", "terminal.", "prompt.id")


def tell_logs(records: Iterable[LogRecord]) -> list[Event]:
    """The events of log records, those of others left aside."""
    return [event for record in records for event in _tell(record)]


def _tell(record: LogRecord) -> list[Event]:
    name = _full_name(record)
    if name.startswith(CLAUDE):
        return _CLAUDE.get(name.removeprefix(CLAUDE), _note)(_claude(record, name))
    if name.startswith(CODEX):
        return _CODEX.get(name.removeprefix(CODEX), _note)(_codex(record, name))
    if name == INFERENCE:
        return _tell_inference(record)
    return _tell_choice(record) if name == CHOICE else []


def _full_name(record: LogRecord) -> str:
    """With the program's own word before it, which Claude Code leaves out of some places."""
    is_bare = "." not in record.name and service_of(record.resource) == ids.PROGRAM
    return f"{CLAUDE}{record.name}" if is_bare else record.name


class Scene(NamedTuple):
    """Whose record it is."""

    record: LogRecord
    name: str
    at: datetime | None
    agent: str | None
    run: str | None

    def get(self, key: str) -> str | None:
        """An attribute that is text."""
        return as_text(self.record.attributes.get(key))

    def id(self) -> str:
        """Of the record itself."""
        sequence = number_of(self.record.attributes.get("event.sequence"))
        if self.run is not None and sequence is not None:
            return derive_id(NAME, f"{self.name}\0{self.run}\0{sequence}\0{self.at}".encode())
        return derive_id(NAME, self.record.raw)

    def tell(
        self,
        kind: str,
        id: str,
        *,
        text: object = None,
        data: Record | None = None,
        actor: str | None = None,
        cause: str | None = None,
        visibility: Visibility = "public",
    ) -> Event:
        """An event of this record."""
        line, record = first_line(text), self.record
        return Event(
            id=id,
            at=self.at,
            kind=kind,
            actor=actor or self.agent or NAME,
            agent=self.agent,
            run=self.run,
            cause=cause,
            trace=f"00-{record.trace}-{record.span}-01" if record.trace and record.span else None,
            text=None if line is None else line[:LONGEST_LINE],
            visibility=visibility,
            data={key: value for key, value in (data or {}).items() if value is not None and value != []},
            origin=_ORIGIN,
        )


def _claude(record: LogRecord, name: str) -> Scene:
    run = as_name(record.attributes.get("session.id")) or as_name(record.resource.get("session.id"))
    return Scene(record, name, _at(record), ids.agent_of(run) or service_of(record.resource), run)


def _codex(record: LogRecord, name: str) -> Scene:
    run = as_name(record.attributes.get("conversation.id"))
    return Scene(record, name, _at(record), codex_ids.agent_of(run) or service_of(record.resource), run)


def _at(record: LogRecord) -> datetime | None:
    return read_time(record.attributes.get("event.timestamp")) or record.at


def _note(scene: Scene) -> list[Event]:
    """Kept short, for those who look for it: a kind that nothing counts."""
    kept = {key: value for key, value in scene.record.attributes.items() if not key.startswith(_LEFT_OUT)}
    program, _, word = scene.name.partition(".")
    kind = f"{program}.{sessions.snake(word)}"
    return [scene.tell(kind, scene.id(), text=scene.name, data=plain_values(kept), visibility="system")]


def _prompt(scene: Scene) -> list[Event]:
    """Words that are hidden are only noted, so that they do not take the place of those in a transcript."""
    words, key = scene.get("prompt"), scene.get("prompt.id")
    if words is None or words.strip() in _HIDDEN:
        return _note(scene)
    id = ids.prompt_id(key) if key and scene.name.startswith(CLAUDE) else scene.id()
    return [scene.tell("prompt.submitted", id, text=words, data={"prompt": words, "prompt_id": key}, actor=PERSON)]


def _outcome(scene: Scene) -> list[Event]:
    """What came of a tool call."""
    tool, call = scene.get("tool_name") or "unknown", _call(scene)
    given = unfold(scene.get("tool_input") or scene.get("tool_parameters") or scene.get("arguments"))
    output, error = scene.get("output"), scene.get("error") or scene.get("error_message")
    failed = str(scene.record.attributes.get("success")).lower() == "false"
    deed, flags = deed_of(tool, given, output, failed=failed), flags_of(tool, given)
    data: Record = {
        "tool": tool,
        "call_id": call,
        "input": bounded(given),
        "duration_ms": number_of(scene.record.attributes.get("duration_ms")),
        "deed": deed.name,
        "subject": deed.subject,
        "flags": flags or None,
    }
    if failed:
        why = error or output
        return [
            scene.tell(
                "tool.failed", _outcome_id(scene, call), text=f"{tool}{shown_flags(flags)}: {why or 'failed'}", data=data | {"error": why}
            )
        ]
    data |= {"output": output, "paths": list(deed.paths)}
    return [scene.tell("tool.returned", _outcome_id(scene, call), text=f"{tool}{shown_flags(flags)}", data=data)]


def _decision(scene: Scene) -> list[Event]:
    """A no is told; after a yes the call's outcome tells enough."""
    if (scene.get("decision") or "").lower().startswith(("accept", "approve")):
        return []
    tool, call = scene.get("tool_name") or "unknown", _call(scene)
    data = {"tool": tool, "call_id": call, "reason": scene.get("decision"), "by": scene.get("source") or scene.get("decision_source")}
    return [scene.tell("tool.denied", _outcome_id(scene, call), text=tool, data=data)]


def _call(scene: Scene) -> str | None:
    return scene.get("tool_use_id") or scene.get("call_id")


def _outcome_id(scene: Scene, call: str | None) -> str:
    """The id that transcripts and rollouts give it; calls that some models only count need the turn, which is not told here."""
    if call is not None and scene.name.startswith(CLAUDE):
        return ids.outcome_id(call)
    if call is not None and codex_ids.is_unique(call):
        return codex_ids.outcome_id(codex_ids.Place(scene.run, None), call)
    return scene.id()


def _model_error(scene: Scene) -> list[Event]:
    attributes = scene.record.attributes
    error = scene.get("error") or scene.get("error.message")
    data = {
        "model": scene.get("model"),
        "error": error,
        "status": count_of(attributes.get("status_code")) or count_of(attributes.get("http.response.status_code")),
        "attempt": count_of(attributes.get("attempt")),
        "latency_ms": number_of(attributes.get("duration_ms")),
    }
    return [scene.tell("model.failed", scene.id(), text=error or "no answer", data=data)]


def _codex_request(scene: Scene) -> list[Event]:
    status = count_of(scene.record.attributes.get("http.response.status_code"))
    return _model_error(scene) if scene.get("error.message") or (status or 0) >= 400 else []


def _codex_stream(scene: Scene) -> list[Event]:
    """Of all that streams by, only the end says what it took: not for which response, so the rollout alone counts it."""
    if scene.get("error.message"):
        return _model_error(scene)
    return _note(scene) if scene.get("event.kind") == "response.completed" else []


def _codex_start(scene: Scene) -> list[Event]:
    id = codex_ids.started_id(scene.run) if scene.run else scene.id()
    data = {"program": codex_ids.PROGRAM, "version": scene.get("app.version"), "model": scene.get("model")}
    return [scene.tell("session.started", id, text=scene.get("model"), data=data)]


def _tell_inference(record: LogRecord) -> list[Event]:
    """A model's call in all its details, which the span of the same id may tell too."""
    place = _place(record)
    return [tell_reply(place, at=record.at)] if place else []


def _tell_choice(record: LogRecord) -> list[Event]:
    """An answer without its usage: the span has that, and would find its place taken."""
    place, said = _place(record), spoken(record.body, ASSISTANT)
    if place is None or said is None:
        return []
    id = derive_id(NAME, record.raw)
    return [place.tell("otlp.choice", END, id=id, at=record.at, text=said, data={"said": said}, visibility="system")]


def _place(record: LogRecord) -> Place | None:
    if record.trace is None or record.span is None:
        return None
    body = record.body if isinstance(record.body, dict) else {}
    attributes = {**body, **record.attributes}
    kind = as_text(attributes.get("error.type"))
    span = Span(trace=record.trace, id=record.span, attributes=attributes, resource=record.resource, failed=kind is not None, error=kind)
    agent = name_in(attributes, AGENT_NAMES) or service_of(record.resource)
    return Place(span, agent=agent, parent=None, run=name_in(attributes, CONVERSATION) or record.trace, cause=None)


_CLAUDE: Mapping[str, Callable[[Scene], list[Event]]] = {
    "user_prompt": _prompt,
    "tool_result": _outcome,
    "tool_decision": _decision,
    "api_error": _model_error,
}
_CODEX: Mapping[str, Callable[[Scene], list[Event]]] = {
    "user_prompt": _prompt,
    "tool_result": _outcome,
    "tool_decision": _decision,
    "api_request": _codex_request,
    "sse_event": _codex_stream,
    "conversation_starts": _codex_start,
}
