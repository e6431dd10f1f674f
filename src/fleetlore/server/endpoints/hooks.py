"""`POST /hooks/PROGRAM`: what coding agents say at each step; and `/hooks/heartbeat`, a sign of life.

The same call may come by `lore hook`, too: it is then one event. The transcript that a call names is read first where it is one of
this machine's, for it tells the same with more in it.
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
from fleetlore.server.endpoints import forges as doors_forges
from fleetlore.server.endpoints.request_body import Body, foreign_record, media_type, object_of, read_body
from fleetlore.server.endpoints.response import JSON, Answer, door, last_word, positions
from fleetlore.server.endpoints.store import keep_all, told
from fleetlore.server.problems import Problem

if TYPE_CHECKING:
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.server.context import House
    from fleetlore.settings import Settings


# --- One call of a coding program's hook that came over HTTP, taken in as the drain of the spool does. Plain code for a thread.

SOURCE = "http"
_STEP = "hook_event_name"
_TRANSCRIPTS = ("transcript_path", "agent_transcript_path")


class Call(NamedTuple):
    """Who called, when, and whether from this machine."""

    program: str
    at: datetime
    is_local: bool


def take_call(log: BlockingRecorder, settings: Settings, call: Call, raw: bytes) -> list[str]:
    """Store what one call tells, after what the transcripts that it names do; `Problem` or `Invalid` for what is no call."""
    record = foreign_record(raw)
    if as_text(record.get(_STEP)) is None:
        raise DialectError(f"$.{_STEP}", "missing: every call of a hook says at which step it is")
    paths = _own_transcripts(record, call)
    if paths:
        _catch_up(log, settings, call.program, paths)
    else:
        record = {key: value for key, value in record.items() if key not in _TRANSCRIPTS}  # nobody else is going to tell it
    entry = _entry(record, call, raw)
    if drain.is_in_transcript(entry, log):
        return []
    id = str(entry.fields["id"])
    said = drain.add_branch(entry) if call.is_local else record
    hooks = entry.hooks
    assert hooks is not None, "only programs with hooks have a route"
    events = told(lambda: hooks.read(said, id=id, at=call.at))
    if call.is_local:
        events = list(map(discovery.make_machine_stamp(), events))
    return keep_all(log, [drain.reuse_logged_id(event, id, log) for event in events])


def _entry(record: Mapping[str, Any], call: Call, raw: bytes) -> SpoolEntry:
    """The call as a line of the spool would have it."""
    line = SourceLine(SOURCE, 1, raw, 0, len(raw))
    return SpoolEntry(line, {"at": write_time(call.at), "id": drain.make_http_id(), "program": call.program, "record": record})


def _own_transcripts(record: Mapping[str, Any], call: Call) -> list[str]:
    """The recordings that a call names, as far as they are this machine's and lie where the program keeps them.

    Whoever may write to the log may not therefore have any file of this machine read into it.
    """
    if not call.is_local:
        return []
    folders = [os.path.join(os.path.realpath(folder), "") for folder in registry.require_program(call.program).recording_folders()]
    named = dict.fromkeys(path for key in _TRANSCRIPTS if (path := as_text(record.get(key))))
    found = [path for path in named if _is_within(path, folders)]
    return [each for path in found for each in discovery.find_session_files(call.program, path) if _is_within(each, folders)]


def _is_within(path: str, folders: list[str]) -> bool:
    try:
        real = os.path.realpath(path)
        return real.endswith(TRANSCRIPT_SUFFIX) and real.startswith(tuple(folders)) and os.path.isfile(real)
    except ValueError:  # a path that no system has
        return False


def _catch_up(log: BlockingRecorder, settings: Settings, program: str, paths: list[str]) -> None:
    levels = settings.redact_levels.value
    discovery.import_new_lines(
        log,
        paths,
        program=program,
        redactor=Redactor(settings.redact_patterns.value),
        veil=make_anonymiser(levels) if levels else None,
        not_before=retention.retention_cutoff(settings, clock.now()),
    )


# ---

_LOOPBACK = ("127.", "::1", "::ffff:127.")
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


@door("hook")
async def post_call(request: Request, house: House) -> Answer:
    """Store one call of a program's hook. The answer is an empty object, by which the program changes nothing."""
    await house.keys.need(request, "write")
    _need_json(request)
    call = Call(last_word(request), house.clock(), is_local(request))
    body = await read_body(request, house.limits)
    stored = await house.store(body, _take_call, house, body, call)
    return Answer(Response(b"{}", media_type=JSON), events=len(stored))


def _take_call(house: House, body: Body, call: Call) -> list[str]:
    return take_call(house.log, house.settings, call, body.unpack(house.limits.body))


def is_local(request: Request) -> bool:
    """Whether a request comes from this machine, and through nobody else's hands."""
    is_near = request.client is not None and request.client.host.startswith(_LOOPBACK)
    return is_near and not any(name in request.headers for name in _FORWARDED)


class Heartbeat(Struct, forbid_unknown_fields=True):
    """A sign of life, as it is posted; the last five as nexus writes it, which names only the model."""

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


_OF_NEXUS = ("model", "cycle", "status", "pid", "timestamp")


@door("heartbeat")
async def post_heartbeat(request: Request, house: House) -> Answer:
    """Store a sign of life of one agent."""
    await house.keys.need(request, "write")
    _need_json(request)
    body = await read_body(request, house.limits)
    return positions(await house.store(body, _take_heartbeat, house.log, body, house.limits.body))


def _take_heartbeat(log: BlockingRecorder, body: Body, limit: int) -> list[str]:
    raw = object_of(body.unpack(limit)).raw
    try:
        beat = json.decode(raw, type=Heartbeat)
    except ValidationError as error:
        reason, _, path = str(error).partition(" - at `")
        raise InvalidEvent(path.rstrip("`") or "$", f'{reason}; a heartbeat is as {{"agent": "ada", "text": "still at it"}}') from error
    except (ValueError, RecursionError) as error:
        raise DialectError("$", f"not JSON: {error}") from error
    if beat.agent is None and beat.model is None:
        raise InvalidEvent("$.agent", 'missing; a heartbeat is as {"agent": "ada", "text": "still at it"}')
    return keep_all(log, [_told_by(beat)])


def _told_by(beat: Heartbeat) -> Event:
    data: dict[str, Any] = {"state": beat.state} | {name: getattr(beat, name) for name in _OF_NEXUS}
    data = {name: value for name, value in data.items() if value is not None}
    theirs = from_heartbeat(data)
    text = beat.text or (theirs.text if "cycle" in data or "status" in data else None)
    scopes: dict[str, Any] = {"task": beat.task, "mission": beat.mission, "run": beat.run}
    agent = beat.model if beat.agent is None else beat.agent
    return Event(kind=theirs.kind, at=theirs.at, agent=agent, text=text, data=data, **scopes)


def _need_json(request: Request) -> None:
    if (kind := media_type(request)) != JSON:
        raise Problem(415, f"{kind[:60] or 'a body without a Content-Type'} is not read here; send {JSON}")


ROUTES = [
    *doors_forges.ROUTES,
    *(Route(f"/hooks/{program.name}", post_call, methods=["POST"]) for program in registry.list_hooked()),
    Route("/hooks/heartbeat", post_heartbeat, methods=["POST"]),
]
