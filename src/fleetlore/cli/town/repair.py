"""Output of `lore town recover` and `lore town reclaim`: workers, and work of agents that are not running."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleetlore.cli import terminal
from fleetlore.cli.goal import lines
from fleetlore.cli.operations import print_answer
from fleetlore.cli.terminal import sanitise_text
from fleetlore.cli.town import lines as town_lines
from fleetlore.cli.town import messages as town_messages
from fleetlore.cli.town.lines import BAD, BOLD, DIM, GOOD, WARN

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from fleetlore.cli.town.lines import Cell
    from fleetlore.operations.town import WorkerReport, WorkersChecked, WorkReclaimed
    from fleetlore.views.town_state import Agent, InboxMessage, Task


# --- recover


def print_workers(response: WorkersChecked, args: Namespace) -> None:
    """Print all workers, and what was done about dead ones."""
    workers = response.workers
    town_lines.print_lines(town_lines.align_rows([_worker_row(worker) for worker in workers]))
    is_any_dead = any(worker.is_dead for worker in workers)
    if not workers:
        terminal.print_error("no worker runs agents in this town; start one with `lore worker`")
    elif not is_any_dead:
        terminal.print_error(
            "no worker is dead: one sign alone is not enough" if any(each.signs for each in workers) else "all workers are running"
        )
    elif not any(worker.recovered for worker in workers):
        terminal.print_error("nothing was changed; without --dry-run the tasks of dead workers are released")
    else:
        terminal.print_error(response.answer)
    if response.not_running and not is_any_dead:
        terminal.print_error(f"not running: {sanitise_text(', '.join(response.not_running[:10]))}; start `lore worker` to run them")


def _worker_row(worker: WorkerReport) -> list[Cell]:
    name = lines.describe_driver(worker.worker.rpartition("@")[0])
    state = ("✗ dead", BAD) if worker.is_dead else ("? one sign", WARN) if worker.signs else ("● running", GOOD)
    return [(name, BOLD), state, (f"runs {town_lines.join_names(worker.agents)}", ""), ("; ".join(worker.signs), DIM)]


# --- reclaim


def print_reclaimed(response: WorkReclaimed, args: Namespace) -> None:
    """Print what was moved, or what could be."""
    for note in response.notes:
        terminal.print_error(note)
    if response.at is None:
        print_answer(response)
        if not response.positions:
            terminal.print_error("there is nothing to move")
        return
    rows = [_task_row(task, response.holders[task.id]) for task in response.tasks]
    town_lines.print_lines(
        [
            *town_lines.section_lines("tasks of agents that are not running", town_lines.align_rows(rows, indent=2)),
            *town_lines.section_lines("unread messages of agents that stopped", _message_lines(response.messages, response.at)),
        ]
    )
    if response.tasks or response.messages:
        terminal.print_error(
            "nothing was changed; move it with --to AGENT or --to-backlog, or bring an agent back with `lore town restart`"
        )
    else:
        terminal.print_error("nothing was left behind")


def _task_row(task: Task, agent: Agent) -> list[Cell]:
    reason = "waits for a worker" if agent.state == "cold" else town_lines.shorten_to_line(agent.reason, 80)
    return [
        (sanitise_text(task.id), BOLD),
        town_lines.state_cell(town_lines.TASK_STYLES, task.state),
        (f"{'for' if task.state == 'pending' else 'with'} {sanitise_text(agent.name)}", ""),
        town_lines.state_cell(town_lines.AGENT_STYLES, agent.state),
        (reason, DIM),
        (town_lines.shorten_to_line(task.title), ""),
    ]


def _message_lines(messages: list[InboxMessage], now: Any) -> Iterator[Any]:
    for line in town_messages.message_lines(messages, now, with_recipient=True):
        yield [("  ", ""), *line]
