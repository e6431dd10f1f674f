"""Arguments of `lore town` commands that differ from the requests of their operations: files, and the task that runs this."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

TASK = "LORE_TASK"
"""The environment variable by which workers name the current task."""


def add_assign_arguments(parser: ArgumentParser) -> None:
    """`lore town assign AGENT --task ID`: an existing task."""
    parser.add_argument("--task", metavar="ID", help="an existing task instead of a text")


def adapt_assign(args: Namespace, values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A new task for one agent, or an existing one."""
    if bool(values.get("title")) == (args.task is not None):
        raise Invalid("give either a text for a new task, or an existing one with --task ID")
    if args.task is not None:
        return "town control task", {"task": args.task, "action": "assign", "agent": values["agent"]}
    return adapt_new_task(args, values)


def adapt_new_task(args: Namespace, values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A task that an agent adds is part of the task that it works on."""
    return "town add task", values | ({"parent_task": task} if (task := os.environ.get(TASK)) else {})


def adapt_plan(args: Namespace, values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The content of the plan file."""
    from fleetlore.town.plans.load import read_file

    path = values["plan"]
    text, format = read_file(path)
    if format == "toml" and ("title" in values or "done" in values):
        raise Invalid("--title and --done are for issues; a TOML plan contains its title")
    return "town start mission", values | {"plan": text, "format": format, "source": path}


def add_ack_argument(parser: ArgumentParser) -> None:
    """`lore town inbox --ack ID`: acknowledge messages."""
    help = "acknowledge this message, or all; may be repeated"
    parser.add_argument("--ack", metavar="ID", action="append", default=[], help=help)


def adapt_inbox(args: Namespace, values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Read messages, or acknowledge them."""
    if not args.ack:
        return "town inbox", values
    return "town acknowledge", {"message": args.ack} | ({"to": values["name"]} if "name" in values else {})
