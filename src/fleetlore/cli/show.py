"""`lore show`: everything that is known about one session, or about one task and its sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.cli import arguments, terminal
from fleetlore.cli.main import FAILED, OK

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Iterator

    from fleetlore.views.outcomes.facts import Source
    from fleetlore.views.outcomes.record import Outcome
    from fleetlore.views.task_outcomes import TaskOutcome

_EXAMPLES = (
    ("lore show 0b5e1111", "one session, by the beginning of its id"),
    ("lore show task:t7", "a task: its result, who worked on it, and its sessions"),
    ("lore show 0b5e1111 --json | jq .claims", "the outcome record, for programs"),
)


def configure(parser: ArgumentParser) -> None:
    """Which session or task."""
    parser.add_argument("name", metavar="SESSION|TASK", help="a session's id or its beginning, an agent, or a task")
    arguments.add_json(parser, "print one JSON object per session; of a task, first one for the task")
    arguments.add_examples(parser, _EXAMPLES)


def run(args: Namespace) -> int:
    """Print the outcome of one session, or of each session of a task."""
    from fleetlore.cli.operations import open_context
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
