"""`fleetlore approve-hook`: a coding agent asks for permission, and a person answers on a page, a phone or another terminal.

The program calls it when it shows its own dialog. It stores the request, waits for an answer in the log, and prints it. Without an answer
it prints nothing, and the program's own dialog decides: nothing is ever allowed by silence, a fault or a time-out. It is a command of
its own, because the recording hook must never wait.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from datetime import timedelta
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.programs.base import PermissionCall, Program, ProgramApprovals
    from fleetlore.settings import Settings
    from fleetlore.views.approvals import Approval

MOST_INPUT = 16 * 1024 * 1024
WAIT = 3600.0
"""Seconds to wait for an answer; `lore install --approvals --wait TIME` sets another."""
POLL_SECONDS = 0.25
RECENT_CALLS = 50
DENIED = "Denied by {who}."
_EXAMPLES = (("fleetlore approve-hook claude-code < payload.json", "what Claude Code does when it asks for permission"),)
_NOTES = """\
Called by coding agents; install it with `lore install claude-code --approvals`. `lore decide`, the
control room and notifications then show what is asked, and answer it. Without an answer it prints
nothing, and the program decides as usual. Its exit code is always 0.
Codex does not show its own dialog meanwhile, so it waits only while `lore away` is on.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    from fleetlore.cli import arguments

    parser.add_argument("program", metavar="PROGRAM", help="who calls: one of those that `lore install` lists")
    parser.add_argument("--wait", metavar="SECONDS", type=float, default=WAIT, help="how long to wait for an answer (3600)")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Ask and wait. Whatever goes wrong, nothing is printed, so that the program's own dialog decides."""
    answer = None
    with suppress(Exception):
        answer = _handle_call(args)
    if answer is not None:
        import json

        sys.stdout.write(json.dumps(answer) + "\n")
    return 0


def _handle_call(args: Namespace) -> dict[str, Any] | None:
    import json

    from fleetlore.programs import registry

    program = registry.require_program(args.program)
    approvals, payload = program.load_approvals(), json.loads(sys.stdin.buffer.read(MOST_INPUT))
    if approvals is None or os.environ.get("LORE_TURN"):  # a goal runs it, and asks at its own gate
        return None
    call = approvals.read(payload)
    if call is None:
        return None
    return _ask_person(program, approvals, call, args.wait)


def _ask_person(program: Program, approvals: ProgramApprovals, call: PermissionCall, wait: float) -> dict[str, Any] | None:
    from fleetlore.cli import away, open_log

    settings = open_log.load_settings(log=None, town=None)
    waits = call.can_answer and wait > 0 and (approvals.is_attended(os.environ) or away.is_away()) and not _is_sealed(settings)
    with open_log.connect_log(settings) as log:
        approval = _store_request(log, program, call, wait if waits else None)
        return _wait_for_answer(log, settings, program, approvals, call, approval, wait) if waits else None


def _is_sealed(settings: Settings) -> bool:
    """Whether answers must be signed: this process has no passphrase to check them with."""
    from fleetlore.log.coordination import open_shared

    with open_shared(settings.log.value, town=settings.town.value) as shared:
        return shared.load_seal() is not None


def _store_request(log: BlockingRecorder, program: Program, call: PermissionCall, wait: float | None) -> Approval:
    from fleetlore import clock
    from fleetlore.events.envelope import Event
    from fleetlore.programs.sessions import describe_request
    from fleetlore.views.approvals import parse_approval

    now = clock.now()
    data = {
        "tool": call.tool,
        "input": call.input,
        "call_id": call.call_id,
        "program": program.title,
        "expires": None if wait is None else (now + timedelta(seconds=wait)).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "answerable": None if wait is not None else False,
    }
    event = Event(
        id=clock.uuid7(),
        at=now,
        kind="approval.requested",
        actor=call.agent,
        agent=call.agent,
        parent=call.parent,
        run=call.run,
        text=describe_request(call.tool, call.input),
        data={key: value for key, value in data.items() if value is not None},
    )
    log.append([event])
    approval = parse_approval(next(iter(log.get([event.id or ""]))))
    assert approval is not None
    return approval


class _Stopped(Exception):
    """The program ended the hook: its own dialog was answered, or it exits."""


def _raise_stopped(number: int, frame: object) -> None:
    raise _Stopped


def _wait_for_answer(
    log: BlockingRecorder,
    settings: Settings,
    program: Program,
    approvals: ProgramApprovals,
    call: PermissionCall,
    approval: Approval,
    wait: float,
) -> dict[str, Any] | None:
    """The program's form of the person's answer; `None` if it was answered in the program, or nobody answered in time."""
    from fleetlore.views.approvals import find_end, read_choice

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _raise_stopped)
    deadline, parent, position, calls = monotonic() + wait, os.getppid(), approval.position, _SameCalls(log, call, approval)
    transcript = _GrowingTranscript(log, settings, program, call.transcript)
    try:
        while monotonic() < deadline:
            transcript.import_new_lines()
            for event in log.read(approval.scope, after=position):
                position = event.position or position
                if (choice := read_choice(approval, event)) is not None:
                    return approvals.answer(choice[0], choice[1] or ("" if choice[0] == "allow" else DENIED.format(who=event.actor)))
                if calls.is_result(event) or find_end(approval, event) is not None:
                    _store_end(log, approval, "terminal")
                    return None
            if os.getppid() != parent:
                raise _Stopped
            sleep(POLL_SECONDS)
    except _Stopped:
        _store_end(log, approval, "terminal")
        return None
    _store_end(log, approval, "timed_out")
    return None


class _SameCalls:
    """Calls of the same tool with the same input: their results say that the dialog was answered. The hook does not name its call."""

    def __init__(self, log: BlockingRecorder, call: PermissionCall, approval: Approval) -> None:
        self._tool, self._inputs = call.tool, (call.input, approval.input)  # the second as the log keeps it, without secrets
        self._ids: set[str] = set()
        recent = list(log.read(f"run:{call.run}", kinds=("tool.called", *_RESULTS), newest_first=True, limit=RECENT_CALLS))
        done = {event.cause for event in recent if event.kind in _RESULTS}
        for event in recent:
            if event.id not in done:
                self.is_result(event)

    def is_result(self, event: Any) -> bool:
        """Whether this is the result of such a call."""
        if event.kind == "tool.called" and event.data.get("tool") == self._tool and event.data.get("input") in self._inputs:
            self._ids.add(event.id)
        return event.kind in _RESULTS and event.cause in self._ids


_RESULTS = ("tool.returned", "tool.failed", "tool.denied")


class _GrowingTranscript:
    """The session's transcript: the only place that says that a dialog was answered with no."""

    def __init__(self, log: BlockingRecorder, settings: Settings, program: Program, path: str | None) -> None:
        self._log, self._settings, self._program, self._path = log, settings, program, path
        self._size = self._find_size()

    def import_new_lines(self) -> None:
        """Import what was added since the last call."""
        from fleetlore.cli import open_log

        size = self._find_size()
        if size == self._size or self._path is None:
            return
        self._size = size
        from fleetlore.ingest import discovery

        redactor, anonymise = open_log.make_redactor(self._settings), open_log.load_anonymiser(self._settings)
        discovery.import_new_lines(self._log, [self._path], program=self._program.name, redactor=redactor, anonymise=anonymise)

    def _find_size(self) -> int:
        try:
            return os.stat(self._path).st_size if self._path is not None else -1
        except OSError:
            return -1


def _store_end(log: BlockingRecorder, approval: Approval, reason: str) -> None:
    from fleetlore import clock
    from fleetlore.events.envelope import Event

    event = Event(
        id=clock.uuid7(),
        at=clock.now(),
        kind="approval.closed",
        actor=approval.agent or approval.program or "",
        agent=approval.agent,
        run=approval.run,
        cause=approval.id,
        data={"of": approval.id, "reason": reason},
    )
    log.append([event])
