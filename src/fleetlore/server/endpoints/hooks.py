"""`POST /hooks/PROGRAM`: hook calls of coding agents; and `/hooks/heartbeat`.

A call that also comes through `lore hook` becomes one event. If a call names a transcript of this machine, its new lines are imported
first, because they have more detail.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, ValidationError, json
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetlore import clock
from fleetlore.dialects.fields import as_text, write_time
from fleetlore.dialects.nexus import from_heartbeat
from fleetlore.errors import DialectError, InvalidEvent
from fleetlore.events.envelope import Event
from fleetlore.ingest import discovery, drain, retention
from fleetlore.ingest.anonymise import make_anonymiser
from fleetlore.ingest.drain import SpoolEntry
from fleetlore.ingest.lines import SourceLine
from fleetlore.programs import registry
from fleetlore.programs.recording_files import TRANSCRIPT_SUFFIX
from fleetlore.redact import Redactor
from fleetlore.server.endpoints import forges
from fleetlore.server.endpoints.request_body import RequestBody, parse_foreign_record, parse_single, read_body, read_media_type
from fleetlore.server.endpoints.response import JSON, EndpointResult, counted_endpoint, last_path_segment, positions_result
from fleetlore.server.endpoints.store import decode_foreign, store_events
from fleetlore.server.problems import Problem

if TYPE_CHECKING:
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.server.context import AppContext
    from fleetlore.settings import Settings


# --- Storing a hook call, as the drain of the spool does (ingest/drain.py). Blocking code, run in a thread.

SOURCE = "http"
_STEP_FIELD = "hook_event_name"
_TRANSCRIPT_FIELDS = ("transcript_path", "agent_transcript_path")


class HttpHookCall(NamedTuple):
    """Which program called, when, and whether from this machine."""

    program: str
    at: datetime
    is_local: bool


def store_hook_call(log: BlockingRecorder, settings: Settings, call: HttpHookCall, raw: bytes) -> list[str]:
    """Store the events of one hook call, after new lines of the transcripts it names. `Problem` or `Invalid` if it is malformed."""
    record = parse_foreign_record(raw)
    if as_text(record.get(_STEP_FIELD)) is None:
        raise DialectError(f"$.{_STEP_FIELD}", "missing: every call of a hook says at which step it is")
    paths = _local_transcripts(record, call)
    if paths:
        _import_transcripts(log, settings, call.program, paths)
    else:
        # Otherwise the reader would leave out what it expects to come from the transcript.
        record = {key: value for key, value in record.items() if key not in _TRANSCRIPT_FIELDS}
    entry = _spool_entry(record, call, raw)
    if drain.is_in_transcript(entry, log):
        return []
    id = str(entry.fields["id"])
    call_record = drain.add_branch(entry) if call.is_local else record
    hooks = entry.hooks
    assert hooks is not None, "only programs with hooks have a route"
    events = decode_foreign(lambda: hooks.read(call_record, id=id, at=call.at))
    if call.is_local:
        events = list(map(discovery.make_machine_stamp(), events))
    return store_events(log, [drain.reuse_logged_id(event, id, log) for event in events])


def _spool_entry(record: Mapping[str, Any], call: HttpHookCall, raw: bytes) -> SpoolEntry:
    """The call in the form of a spool entry."""
    line = SourceLine(SOURCE, 1, raw, 0, len(raw))
    return SpoolEntry(line, {"at": write_time(call.at), "id": drain.make_http_id(), "program": call.program, "record": record})


def _local_transcripts(record: Mapping[str, Any], call: HttpHookCall) -> list[str]:
    """The transcripts that a local call names, if they are in the program's own folders.

    The check matters: a client that may write to the log must not be able to import any file of this machine.
    """
    if not call.is_local:
        return []
    folders = [os.path.join(os.path.realpath(folder), "") for folder in registry.require_program(call.program).recording_folders()]
    paths = dict.fromkeys(path for key in _TRANSCRIPT_FIELDS if (path := as_text(record.get(key))))
    found = [path for path in paths if _is_within(path, folders)]
    return [each for path in found for each in discovery.find_session_files(call.program, path) if _is_within(each, folders)]


def _is_within(path: str, folders: list[str]) -> bool:
    try:
        real = os.path.realpath(path)
        return real.endswith(TRANSCRIPT_SUFFIX) and real.startswith(tuple(folders)) and os.path.isfile(real)
    except ValueError:  # e.g. a null byte in the path
        return False


def _import_transcripts(log: BlockingRecorder, settings: Settings, program: str, paths: list[str]) -> None:
    levels = settings.redact_levels.value
    discovery.import_new_lines(
        log,
        paths,
        program=program,
        redactor=Redactor(settings.redact_patterns.value),
        anonymise=make_anonymiser(levels) if levels else None,
        not_before=retention.retention_cutoff(settings, clock.now()),
    )


# --- the endpoints

_LOOPBACK = ("127.", "::1", "::ffff:127.")
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


@counted_endpoint("hook")
async def post_hook_call(request: Request, context: AppContext) -> EndpointResult:
    """Store one hook call. The response is an empty object, which tells the program to go on as usual."""
    await context.keys.require_scope(request, "write")
    _require_json(request)
    call = HttpHookCall(last_path_segment(request), context.clock(), is_local(request))
    body = await read_body(request, context.limits)
    stored = await context.run_storing(body, _store_call, context, body, call)
    return EndpointResult(Response(b"{}", media_type=JSON), events=len(stored))


def _store_call(context: AppContext, body: RequestBody, call: HttpHookCall) -> list[str]:
    return store_hook_call(context.log, context.settings, call, body.decompress(context.limits.body))


def is_local(request: Request) -> bool:
    """Whether a request comes from this machine, and not through a proxy."""
    is_loopback = request.client is not None and request.client.host.startswith(_LOOPBACK)
    return is_loopback and not any(name in request.headers for name in _FORWARDED)


class HeartbeatBody(Struct, forbid_unknown_fields=True):
    """A heartbeat as posted. The last five fields are those of nexus, which names the model and no agent."""

    agent: str | None = None
    text: str | None = None
    task: str | None = None
    mission: str | None = None
    run: str | None = None
    state: str | None = None
    model: str | None = None
    cycle: int | None = None
    status: str | None = None
    pid: int | None = None
    timestamp: float | str | None = None


_NEXUS_FIELDS = ("model", "cycle", "status", "pid", "timestamp")


@counted_endpoint("heartbeat")
async def post_heartbeat(request: Request, context: AppContext) -> EndpointResult:
    """Store a heartbeat of one agent."""
    await context.keys.require_scope(request, "write")
    _require_json(request)
    body = await read_body(request, context.limits)
    return positions_result(await context.run_storing(body, _store_heartbeat, context.log, body, context.limits.body))


def _store_heartbeat(log: BlockingRecorder, body: RequestBody, limit: int) -> list[str]:
    raw = parse_single(body.decompress(limit)).raw
    try:
        heartbeat = json.decode(raw, type=HeartbeatBody)
    except ValidationError as error:
        reason, _, path = str(error).partition(" - at `")
        raise InvalidEvent(path.rstrip("`") or "$", f'{reason}; a heartbeat is as {{"agent": "ada", "text": "still at it"}}') from error
    except (ValueError, RecursionError) as error:
        raise DialectError("$", f"not JSON: {error}") from error
    if heartbeat.agent is None and heartbeat.model is None:
        raise InvalidEvent("$.agent", 'missing; a heartbeat is as {"agent": "ada", "text": "still at it"}')
    return store_events(log, [_heartbeat_event(heartbeat)])


def _heartbeat_event(heartbeat: HeartbeatBody) -> Event:
    data: dict[str, Any] = {"state": heartbeat.state} | {name: getattr(heartbeat, name) for name in _NEXUS_FIELDS}
    data = {name: value for name, value in data.items() if value is not None}
    nexus_event = from_heartbeat(data)
    text = heartbeat.text or (nexus_event.text if "cycle" in data or "status" in data else None)
    scopes: dict[str, Any] = {"task": heartbeat.task, "mission": heartbeat.mission, "run": heartbeat.run}
    agent = heartbeat.model if heartbeat.agent is None else heartbeat.agent
    return Event(kind=nexus_event.kind, at=nexus_event.at, agent=agent, text=text, data=data, **scopes)


def _require_json(request: Request) -> None:
    if (kind := read_media_type(request)) != JSON:
        raise Problem(415, f"{kind[:60] or 'a body without a Content-Type'} is not read here; send {JSON}")


ROUTES = [
    *forges.ROUTES,
    *(Route(f"/hooks/{program.name}", post_hook_call, methods=["POST"]) for program in registry.list_hooked()),
    Route("/hooks/heartbeat", post_heartbeat, methods=["POST"]),
]
