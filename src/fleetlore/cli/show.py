"""`lore show`: everything that is known about one session, or about one task and its sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleetlore.cli import arguments, terminal
from fleetlore.cli.main import FAILED, OK

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterable, Iterator

    from fleetlore.operations.transcripts import FileChanges
    from fleetlore.views.outcomes.facts import Source
    from fleetlore.views.outcomes.record import Outcome
    from fleetlore.views.task_outcomes import TaskOutcome
    from fleetlore.views.transcripts import TranscriptRow

_EXAMPLES = (
    ("lore show 0b5e1111", "one session, by the beginning of its id"),
    ("lore show task:t7", "a task: its result, who worked on it, and its sessions"),
    ("lore show 0b5e1111 --transcript | less", "the conversation: prompts, answers, commands with output, edits"),
    ("lore show 0b5e1111 --diff", "what it changed, by file"),
    ("lore show 0b5e1111 --hand-over | codex exec -", "have another agent continue the work"),
    ("lore show 0b5e1111 --json | jq .claims", "the outcome record, for programs"),
)
LONGEST_OUTPUT_LINES = 20


def configure(parser: ArgumentParser) -> None:
    """Which session or task."""
    parser.add_argument("name", metavar="SESSION|TASK", help="a session's id or its beginning, an agent, or a task")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--transcript", action="store_true", help="print the conversation of one session")
    part.add_argument("--diff", action="store_true", help="print what one session changed, by file")
    part.add_argument("--hand-over", action="store_true", help="print a prompt with which another agent can continue a session")
    arguments.add_json(parser, "print one JSON object per session; of a task, first one for the task; of a transcript, one per row")
    arguments.add_examples(parser, _EXAMPLES)


def run(args: Namespace) -> int:
    """Print the outcome of one session, or of each session of a task; or a transcript, a diff or a hand-over."""
    from fleetlore.cli.operations import open_context

    if args.transcript or args.diff or args.hand_over:
        return _print_part(args)
    from fleetlore.operations.sessions import ShowRecord, show_record
    from fleetlore.operations.table import find_operation

    with open_context(args, find_operation("show")) as context:
        found = show_record(context, ShowRecord(name=args.name))
    if found.task is None and not found.sessions:
        terminal.print_error(f"lore show: no session belongs to {found.scope}; `lore sessions --all` lists the sessions")
        return FAILED
    if args.json:
        for record in (found.task, *found.sessions):
            if record is not None:
                terminal.print_value(record)
        return OK
    parts = [] if found.task is None else [describe_task(found.task)]
    for number, lines in enumerate([*parts, *map(describe_outcome, found.sessions)]):
        if number:
            terminal.print_line("")
        for line in lines:
            terminal.print_line(line)
    return OK


def _print_part(args: Namespace) -> int:
    from fleetlore.cli.operations import open_context
    from fleetlore.operations import transcripts
    from fleetlore.operations.sessions import ShowRecord, show_record
    from fleetlore.operations.table import find_operation

    with open_context(args, find_operation("show")) as context:
        sessions = show_record(context, ShowRecord(name=args.name)).sessions
        if not sessions:
            terminal.print_error(f"lore show: no session belongs to {args.name}; `lore sessions --all` lists the sessions")
            return FAILED
        run = sessions[0].session
        if args.hand_over:
            handed = transcripts.hand_over(context, transcripts.TranscriptSubject(id=run))
            _print_items(args, [handed], lambda one: one.answer.splitlines())
        elif args.diff:
            diff = transcripts.read_diff(context, transcripts.ReadDiff(id=run))
            _print_items(args, diff.files, describe_changes)
        else:
            after: str | None = None
            while True:
                page = transcripts.read_transcript(context, transcripts.ReadTranscript(id=run, after=after))
                _print_items(args, page.rows, describe_row)
                after = page.next
                if after is None:
                    break
    return OK


def _print_items(args: Namespace, items: Iterable[Any], describe: Callable[[Any], Iterable[str]]) -> None:
    for item in items:
        if args.json:
            terminal.print_value(item)
            continue
        for line in describe(item):
            terminal.print_line(terminal.sanitise_text(line))


def describe_changes(file: FileChanges) -> Iterator[str]:
    """The edits of one file as a diff."""
    yield f"--- {file.path}  +{file.added} -{file.removed}"
    for change in file.changes:
        yield f"@@ {change.at or ''}{' (new file)' if change.is_new else ''}"
        yield from change.diff.splitlines()
    yield ""


def describe_row(row: TranscriptRow) -> Iterator[str]:
    """A row of a transcript as lines of text."""
    when = row.at.strftime("%H:%M:%S") if row.at is not None else ""
    indent = "    " if row.agent else ""
    cost = f"  ${row.usd:.4f}" if row.usd else ""
    state = "" if row.state in ("ok", "unknown") else f"  {row.state}{f' (exit code {row.exit_code})' if row.exit_code else ''}"
    title = {"other": row.tool, "note": row.event}.get(row.kind, row.kind)
    yield f"{indent}{when}  {title}{f' ({row.agent})' if row.agent else ''}{state}{cost}"
    body = [*row.text.splitlines(), *(f"$ {line}" for line in row.command.splitlines())]
    if not row.edits and not row.command:
        body += row.paths
    for edit in row.edits:
        body += [f"--- {edit.path}", *edit.diff.splitlines()]
    output = row.output.splitlines() if row.kind == "command" or state else []
    if len(output) > LONGEST_OUTPUT_LINES:
        output = [f"[… {len(output) - LONGEST_OUTPUT_LINES} lines]", *output[-LONGEST_OUTPUT_LINES:]]
    for line in (*body, *output):
        yield f"{indent}  {line}"
    yield ""


def describe_task(task: TaskOutcome) -> Iterator[str]:
    """A task as lines of text."""
    yield f"{task.task}: {task.title}" if task.title else task.task
    yield f"  {'result':<10} {task.result.replace('_', ' ')}{f': {task.reason}' if task.reason else ''}{_cite_evidence(task.evidence)}"
    facts = {
        "agent": task.agent,
        "given": f"{task.given} times to {', '.join(task.agents)}" if task.given > 1 else "",
        "released": f"{task.released} times" if task.released else "",
        "reported": f"{task.reported} times as done" if task.reported else "",
        "flag": ", ".join(f"{flag.flag}: {flag.what}" for flag in task.flags),
        "check": f"{task.failed_check} failed" if task.failed_check else "",
        "time": task.at.strftime("%Y-%m-%d %H:%M UTC"),
    }
    for name, value in facts.items():
        if value:
            yield f"  {name:<10} {value}"
    for note in task.notes:
        yield f"  {'note':<10} {note}"


def describe_outcome(outcome: Outcome) -> Iterator[str]:
    """The record as lines of text."""
    yield outcome.name
    yield f"  {outcome.outcome}"
    yield from _list_facts(outcome)
    for kind in ("tests", "lint", "types", "build"):
        check = getattr(outcome.checks, kind)
        if check.result in ("no_edit", "not_run") and check.earlier is None:
            continue
        detail = ", ".join(part for part in (check.counts, check.reason, f"before: {check.earlier}" if check.earlier else "") if part)
        yield f"  {kind:<10} {check.result}{f' ({detail})' if detail else ''}{_cite_evidence(check.evidence)}"
    yield from _format_items(
        "commit", ((f"{commit.sha} {commit.subject}".strip(), commit.evidence) for commit in outcome.delivered.commits)
    )
    yield from _format_items("pr", ((f"{one.title} {one.url}".strip(), one.evidence) for one in outcome.delivered.pull_requests))
    yield from _format_items("task", ((task, []) for task in outcome.delivered.tasks))
    yield from _format_items(
        "trouble", ((f"{one.what}{'' if one.resolved else ' (not resolved)'}", one.evidence) for one in outcome.troubles)
    )
    yield from _format_items("correction", ((one.prompt, one.evidence) for one in outcome.corrections))
    yield from _format_items(
        "risk", ((f"{one.flag}: {one.what}{'' if one.executed else ' (not executed)'}", one.evidence) for one in outcome.flags)
    )
    yield from _format_items("claim", ((f'{one.verdict}: "{one.text}" ({one.why})', one.evidence) for one in outcome.claims))
    yield from _format_items("file", ((f"{one.path} +{one.added} -{one.removed}", one.evidence) for one in outcome.files))
    yield from _format_items(
        "helper", ((f"{one.role or one.agent} ({one.status}): {one.answer or one.asked}", one.evidence) for one in outcome.helpers)
    )


def _list_facts(outcome: Outcome) -> Iterator[str]:
    state = f"{outcome.status}, waiting for {outcome.waiting_for}" if outcome.waiting_for else outcome.status
    times = " to ".join(at.strftime("%Y-%m-%d %H:%M") for at in (outcome.started, outcome.ended) if at is not None)
    cost = f"${outcome.usd:.2f}, {outcome.tokens:,} tokens" if outcome.usd is not None else f"{outcome.tokens:,} tokens"
    facts = {
        "session": outcome.session,
        "status": state,
        "question": outcome.question,
        "asked": outcome.asked,
        "answer": outcome.delivered.answer,
        "person": outcome.person,
        "repo": " ".join(part for part in (outcome.repo, outcome.branch) if part),
        "time": f"{times} UTC, {outcome.active_seconds // 60} min active" if times else "",
        "cost": cost,
    }
    for name, value in facts.items():
        if value:
            yield f"  {name:<10} {value}"


def _format_items(name: str, items: Iterable[tuple[str, list[Source]]]) -> Iterator[str]:
    for text, evidence in items:
        yield f"  {name:<10} {text}{_cite_evidence(evidence)}"


def _cite_evidence(evidence: list[Source]) -> str:
    return f"  [{evidence[-1].event[:8]}]" if evidence else ""
