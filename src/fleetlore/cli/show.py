"""`lore show`: everything that is known about one session, or about one task and its sessions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fleetlore import clock
from fleetlore.cli import arguments, open_log, scopes, terminal
from fleetlore.cli.main import FAILED, OK
from fleetlore.cli.sessions import open_outcomes, read_outcomes
from fleetlore.errors import Invalid, UnknownName

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Iterator

    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.settings import Settings
    from fleetlore.views.outcomes.facts import Source
    from fleetlore.views.outcomes.record import Outcome
    from fleetlore.views.task_outcomes import TaskOutcome

SUMMARY = "show one session or task: what was asked, delivered, checked and claimed"

_EXAMPLES = (
    ("lore show 0b5e1111", "one session, by the beginning of its id"),
    ("lore show task:t7", "a task: its result, who worked on it, and its sessions"),
    ("lore show 0b5e1111 --json | jq .claims", "the outcome record, for programs"),
)
_SCOPED = re.compile(r"(?:run|task|agent|goal|mission):.")


def configure(parser: ArgumentParser) -> None:
    """Which session or task."""
    parser.add_argument("name", metavar="SESSION|TASK", help="a session's id or its beginning, an agent, or a task")
    arguments.add_json(parser, "print one JSON object per session; of a task, first one for the task")
    arguments.teach(parser, _EXAMPLES)


def run(args: Namespace) -> int:
    """Print the outcome of one session, or of each session of a task."""
    settings = open_log.settings_of(args)
    with open_log.open_existing_log(args, settings=settings) as log:
        from fleetlore.projections.outcomes import OutcomeQuery, runs_in

        scope = _resolve(log, args.name)
        task = _find_task(log, settings, scope)
        records = list(read_outcomes(log, settings, OutcomeQuery(runs=runs_in(log, scope)), clock.now()))
    if task is not None:
        _show_task(task, as_json=args.json)
    elif not records:
        terminal.err(f"lore show: no session belongs to {scope}; `lore sessions --all` lists the sessions")
        return FAILED
    for number, record in enumerate(records):
        if args.json:
            terminal.out_json(record)
            continue
        if number or task is not None:
            terminal.out("")
        _show(record)
    return OK


def _resolve(log: BlockingRecorder, name: str) -> str:
    """The scope that is meant: a session, else an agent, else a task."""
    if _SCOPED.match(name):
        return scopes.resolve_scope(log, name)
    if not name.strip():
        raise Invalid("which session? `lore sessions` lists them")
    for kind in ("run", "agent", "task"):
        try:
            return scopes.resolve_scope(log, f"{kind}:{name}")
        except UnknownName:
            continue
    raise UnknownName("run", name, [], "`lore sessions --all` lists the sessions")


def _find_task(log: BlockingRecorder, settings: Settings, scope: str) -> TaskOutcome | None:
    """What is known of a task of an issue tracker, a forge or the town."""
    from fleetlore.projections.outcomes import OutcomeQuery, list_tasks
    from fleetlore.views.costs import Costs
    from fleetlore.views.prices import Prices

    kind, _, name = scope.partition(":")
    if kind != "task":
        return None
    with open_outcomes(log) as store:
        found = list_tasks(log, costs=Costs(Prices(settings.prices.value)), wanted=OutcomeQuery(tasks=frozenset((name,))), store=store)
    return found[0] if found else None


def _show_task(task: TaskOutcome, *, as_json: bool) -> None:
    import msgspec

    if as_json:
        terminal.out_json(msgspec.json.encode(task))
        return
    for line in describe_task(task):
        terminal.out(line)


def describe_task(task: TaskOutcome) -> Iterator[str]:
    """A task as lines of text."""
    yield f"{task.task}: {task.title}" if task.title else task.task
    yield f"  {'result':<10} {task.result.replace('_', ' ')}{f': {task.reason}' if task.reason else ''}{_cite(task.evidence)}"
    facts = {
        "agent": task.agent,
        "given": f"{task.given} times to {', '.join(task.agents)}" if task.given > 1 else "",
        "released": f"{task.released} times" if task.released else "",
        "reported": f"{task.reported} times as done" if task.reported else "",
        "check": f"{task.failed_check} failed" if task.failed_check else "",
        "time": task.at.strftime("%Y-%m-%d %H:%M UTC"),
    }
    for name, value in facts.items():
        if value:
            yield f"  {name:<10} {value}"
    for note in task.notes:
        yield f"  {'note':<10} {note}"


def _show(record: bytes) -> None:
    import msgspec

    from fleetlore.views.outcomes.record import Outcome

    for line in describe(msgspec.json.decode(record, type=Outcome)):
        terminal.out(line)


def describe(outcome: Outcome) -> Iterator[str]:
    """The record as lines of text."""
    yield outcome.name
    yield f"  {outcome.outcome}"
    yield from _facts(outcome)
    for kind in ("tests", "lint", "types", "build"):
        check = getattr(outcome.checks, kind)
        if check.result in ("no_edit", "not_run") and check.earlier is None:
            continue
        detail = ", ".join(part for part in (check.counts, check.reason, f"before: {check.earlier}" if check.earlier else "") if part)
        yield f"  {kind:<10} {check.result}{f' ({detail})' if detail else ''}{_cite(check.evidence)}"
    yield from _list("commit", ((f"{commit.sha} {commit.subject}".strip(), commit.evidence) for commit in outcome.delivered.commits))
    yield from _list("pr", ((f"{one.title} {one.url}".strip(), one.evidence) for one in outcome.delivered.pull_requests))
    yield from _list("task", ((task, []) for task in outcome.delivered.tasks))
    yield from _list("trouble", ((f"{one.what}{'' if one.resolved else ' (not resolved)'}", one.evidence) for one in outcome.troubles))
    yield from _list("correction", ((one.prompt, one.evidence) for one in outcome.corrections))
    yield from _list(
        "risk", ((f"{one.flag}: {one.what}{'' if one.executed else ' (not executed)'}", one.evidence) for one in outcome.flags)
    )
    yield from _list("claim", ((f'{one.verdict}: "{one.text}" ({one.why})', one.evidence) for one in outcome.claims))
    yield from _list("file", ((f"{one.path} +{one.added} -{one.removed}", one.evidence) for one in outcome.files))
    yield from _list(
        "helper", ((f"{one.role or one.agent} ({one.status}): {one.answer or one.asked}", one.evidence) for one in outcome.helpers)
    )


def _facts(outcome: Outcome) -> Iterator[str]:
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


def _list(name: str, items: Iterable[tuple[str, list[Source]]]) -> Iterator[str]:
    for text, evidence in items:
        yield f"  {name:<10} {text}{_cite(evidence)}"


def _cite(evidence: list[Source]) -> str:
    return f"  [{evidence[-1].event[:8]}]" if evidence else ""
