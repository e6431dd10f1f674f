# ruff: noqa: E501 - a pattern is easier to read on one line
"""Read one finished tool call: the checks it ran, what it delivered, the files it changed, and whether it failed.

`read_call` is the entry point. A command that was only started in the background shows nothing yet: its checks are
`unproven`. When a later call returns its output, `read_background_output` reads that output with the first command.
"""

import re

from msgspec.structs import replace

from fleetlore.views.outcomes.checks import read_checks, read_tool_checks
from fleetlore.views.outcomes.deliveries import count_undone, read_commits, read_forge_tool, read_pull_requests, read_pushes
from fleetlore.views.outcomes.facts import CallFacts, CheckRun, ToolCall
from fleetlore.views.outcomes.failures import read_failure
from fleetlore.views.outcomes.file_edits import read_edits
from fleetlore.views.outcomes.output_text import Output, read_output
from fleetlore.views.outcomes.shell import SimpleCommand, parse_script

_started = re.compile(
    r"Command (?:running|was manually backgrounded|is running)[^\n]{0,80}? with ID: (?P<id>[\w-]{1,80})|[Pp]rocess running with session ID (?P<session>\d{1,20})"
)
_task_id = re.compile(r"<(?:task_id|task-id|shell_id|bash_id)>\s{0,9}([\w-]{1,80})\s{0,9}</")
_task_status = re.compile(r"<status>\s{0,9}(\w{1,20})\s{0,9}</status>")
_task_exit_code = re.compile(
    r"<exit_code>\s{0,9}(-?\d{1,9})\s{0,9}</exit_code>|\(exit code (-?\d{1,9})\)|^Process exited with code (-?\d{1,9})", re.M
)
_task_output = re.compile(r"<(output|stdout|stderr|result)>\n?")


NO_FACTS = CallFacts()


def read_call(call: ToolCall) -> CallFacts:
    """All facts that a finished call shows. It never raises, whatever the call contains."""
    if call.kind in ("read", "search") and call.state == "ok":
        return NO_FACTS
    output = read_output(call)
    commands = parse_script(call.command) if call.command else ()
    if call.state in ("denied", "interrupted"):
        return CallFacts(failure=read_failure(call, commands, output, ()))
    if not call.command:
        checks = read_tool_checks(call, output) if call.kind == "other" else ()
        return CallFacts(
            checks=checks,
            pull_requests=read_forge_tool(call, output) if "__" in call.tool else (),
            edits=read_edits(call, (), failed=call.state != "ok"),
            failure=read_failure(call, (), output, checks),
        )
    if is_started_in_background(call):
        return CallFacts(checks=_read_started_checks(call, commands))
    if call.state == "unknown" and not call.output:
        return CallFacts(edits=())
    checks = read_checks(call, commands, output)
    return CallFacts(
        checks=checks,
        commits=read_commits(call, commands, output),
        pushes=read_pushes(call, commands, output),
        pull_requests=read_pull_requests(call, commands, output),
        edits=read_edits(call, commands, failed=output.exit_code not in (0, None)),
        failure=read_failure(call, commands, output, checks),
        undone=count_undone(commands, output) if "reset" in call.command else 0,
    )


def is_started_in_background(call: ToolCall) -> bool:
    """Whether the call returned before its command ended."""
    return call.background or (len(call.output) < 2000 and _started.search(call.output) is not None)


def read_background_id(call: ToolCall) -> str:
    """The id of the background run that a call started or returns the output of; "" if it shows none."""
    head = call.output[:2000]
    started = _started.search(head)
    if started:
        return started["id"] or started["session"] or ""
    named = _task_id.search(head)
    return named[1] if named else ""


def read_background_output(started: ToolCall, later: ToolCall) -> CallFacts:
    """The facts of a background run, from a later call or message that returns its output.

    `later.exit_code` counts if it is set; else the output's own status does. A run that still goes on shows nothing.
    """
    text = later.output
    head = f"{text[:2000]}\n{text[-2000:]}"
    status = _task_status.search(head)
    code = _task_exit_code.search(head)
    exit_code = int(next(group for group in code.groups() if group is not None)) if code else later.exit_code
    if exit_code is None and status is not None and status[1] == "completed":
        exit_code = 0
    if (status is not None and status[1] in ("running", "pending")) or (exit_code is None and _started.search(head)):
        return CallFacts()
    body = _task_output.search(text[:4000])
    state = later.state if exit_code is None else ("ok" if exit_code == 0 else "failed")
    call = replace(
        later,
        kind="command",
        command=started.command,
        description=started.description,
        cwd=started.cwd,
        background=False,
        exit_code=exit_code,
        state=state,
        output=text[body.end() :] if body else text,
    )
    return read_call(call) if not is_started_in_background(call) else CallFacts()


def _read_started_checks(call: ToolCall, commands: tuple[SimpleCommand, ...]) -> tuple[CheckRun, ...]:
    runs = read_checks(call, commands, Output("", None))
    return tuple(replace(run, result="unproven", counts="", reason="", cached=False) for run in runs)
