"""`lore decide`: list and answer approval requests of agents. docs/permissions.md describes what is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleetlore.cli import arguments, terminal
from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator
    from datetime import datetime

    from fleetlore.operations.approvals import OpenApproval

CHOICES = ("allow", "deny")
JSON_FIELDS = (
    *("id", "goal", "turn", "session", "agent", "program", "tool", "input", "call_id"),
    *("at", "expires", "seconds_left", "can_answer", "hidden"),
)
MAX_LINES, MAX_LINE_CHARS = 200, 2000

_EXAMPLES = (
    ("lore decide", "list pending requests, the newest last"),
    ("lore decide 0193f2a7 allow", "allow it; a unique prefix of the id is enough"),
    ('lore decide 0193f2a7 deny --reason "not on a Friday"', "deny it, and tell the agent why"),
)
_NOTES = """\
A question without an answer in time is denied. The goal's driver reads the answer from the log; see
docs/permissions.md.
A sealed log asks for its passphrase first (docs/sealing.md).
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "id", metavar="ID", nargs="?", help="approval request: its id or a unique prefix (default: list all that are pending)"
    )
    parser.add_argument("choice", metavar="CHOICE", nargs="?", choices=CHOICES, help="allow or deny (default: show the request)")
    parser.add_argument("--reason", metavar="TEXT", help="reason; the agent sees it")
    arguments.add_json(parser, "print the requests, or the stored answer, as JSON, one object per line")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """List open questions, or store an answer."""
    if args.reason is not None and args.choice is None:
        raise Invalid("--reason goes with an answer, as in `lore decide ID deny --reason TEXT`")
    if args.choice is None:
        _print_questions(args)
    else:
        _print_answer(args)
    return 0


def _print_answer(args: Namespace) -> None:
    from fleetlore.cli import operations
    from fleetlore.operations.approvals import Decide, decide_approval
    from fleetlore.operations.table import find_operation

    with operations.open_context(args, find_operation("decide")) as context:
        response = decide_approval(context, Decide(id=args.id, choice=args.choice, reason=args.reason))
        if args.json:
            from fleetlore.events import codec

            for stored in context.log.get([event.id for event in response.events]):
                terminal.print_json(codec.encode_with_position(stored))
        else:
            operations.print_answer(response)


# --- output


def _print_questions(args: Namespace) -> None:
    from fleetlore.cli import operations
    from fleetlore.operations.approvals import ListApprovals, list_approvals
    from fleetlore.operations.table import find_operation

    with operations.open_context(args, find_operation("approvals")) as context:
        found, now = list_approvals(context, ListApprovals(id=args.id)).approvals, context.now()
    for question in found:
        if args.json:
            terminal.print_value({name: getattr(question, name) for name in JSON_FIELDS})
            continue
        for line in render_request(question, now):
            terminal.print_line(line)
    if not found and not args.json:
        terminal.print_error("nothing waits for an answer")


def render_request(request: OpenApproval, now: datetime) -> Iterator[str]:
    """A request as lines; texts of agents are sanitised and indented."""
    id, goal = request.short, terminal.sanitise_text(request.goal_text)[:200]
    turn = "" if request.turn is None else f", turn {request.turn}"
    yield terminal.sanitise_text(f"{id}  may it use {request.tool}?")
    if request.goal is not None:
        yield terminal.sanitise_text(f"  goal {request.goal}{turn}" + (f": {goal}" if goal else ""))
    else:
        yield terminal.sanitise_text(f"  {request.shown}, session {request.session}"[:200])
    yield from (f"  | {line}" for line in _render_input(request.input))
    if request.hidden:
        yield "  Not all of it is shown: the log cuts long texts and takes secrets out."
    if not request.can_answer:
        yield f"  Answer it in {request.program or 'the program'} itself."
    else:
        yield f"  {_time_left(request.expires, now)}; answer with `lore decide {id} allow` or `lore decide {id} deny --reason …`"
    yield ""


def _render_input(input: Any) -> list[str]:
    fields = input.items() if isinstance(input, dict) else [("input", input)]
    lines = [line for name, value in fields for line in _render_field(str(name), value)]
    if len(lines) <= MAX_LINES:
        return lines
    return [*lines[:MAX_LINES], f"… and {len(lines) - MAX_LINES} more lines; --json shows all"]


def _render_field(name: str, value: Any) -> Iterator[str]:
    import msgspec

    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    first, *rest = text.split("\n")
    for line in (f"{name}: {first}", *(f"    {each}" for each in rest)):
        shown = terminal.sanitise_text(line)
        yield (
            shown if len(shown) <= MAX_LINE_CHARS else f"{shown[:MAX_LINE_CHARS]} … ({len(shown) - MAX_LINE_CHARS} more characters; --json)"
        )


def _time_left(expires: datetime | None, now: datetime) -> str:
    if expires is None:
        return "it waits"
    minutes, seconds = divmod(max(0, round((expires - now).total_seconds())), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min left" if hours else f"{minutes} min {seconds} s left" if minutes else f"{seconds} s left"
