"""`lore decide`: list and answer approval requests of agents. docs/permissions.md describes what is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleetlore.cli import arguments, terminal
from fleetlore.errors import Invalid

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from fleetlore.goal.gate.questions import PermissionQuestion
    from fleetlore.log.recorder import BlockingRecorder

CHOICES = ("allow", "deny")
MIN_ID_CHARS = 8
MAX_LINES, MAX_LINE_CHARS = 200, 2000

_EXAMPLES = (
    ("lore decide", "what waits, the newest last"),
    ("lore decide 0193f2a7 allow", "allow it; a unique prefix of the id is enough"),
    ('lore decide 0193f2a7 deny --reason "not on a Friday"', "do not, and let the agent know why"),
)
_NOTES = """\
A question without an answer in time is denied. The goal's driver reads the answer from the log; see
docs/permissions.md.
A sealed log asks for its passphrase first (docs/sealing.md).
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("id", metavar="ID", nargs="?", help="which question: its id, or the beginning of it (else all that wait are shown)")
    parser.add_argument("choice", metavar="CHOICE", nargs="?", choices=CHOICES, help="allow or deny (else the question is shown)")
    parser.add_argument("--reason", metavar="TEXT", help="reason; the agent sees it")
    arguments.add_json(parser, "print the questions, or the answer as it was stored, as JSON, one a line")
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
    from fleetlore.operations.goals import AnswerApproval, answer_approval
    from fleetlore.operations.table import find_operation

    with operations.open_context(args, find_operation("goal answer")) as context:
        response = answer_approval(context, AnswerApproval(of=args.id, choice=args.choice, message=args.reason))
        if args.json:
            from fleetlore.events import codec

            for stored in context.log.get([event.id for event in response.events]):
                terminal.print_json(codec.encode_with_position(stored))
        else:
            operations.print_answer(response)


# --- output


def _print_questions(args: Namespace) -> None:
    from fleetlore.cli import operations
    from fleetlore.goal.gate.questions import find_question_status
    from fleetlore.operations.goals import check_question_is_open, find_question, find_trust, read_trusted_questions
    from fleetlore.operations.table import find_operation

    with operations.open_context(args, find_operation("goal answer")) as context:
        log, now, is_trusted = context.log, context.now(), find_trust(context)
        known = read_trusted_questions(context)
        if args.id is not None:
            chosen = [find_question(known, args.id)]
            check_question_is_open(context, chosen[0], is_trusted)
        else:
            chosen = [each for each in known if find_question_status(log, each, now, is_trusted) == "waiting"]
        for question in chosen:
            if args.json:
                terminal.print_value(_question_fields(question, now))
            else:
                for line in render_question(question, _shortest_prefix(question.id, known), _goal_text(log, question.goal), now):
                    terminal.print_line(line)
    if not chosen and not args.json:
        terminal.print_error("nothing waits for an answer")


def _question_fields(question: PermissionQuestion, now: datetime) -> dict[str, object]:
    return {
        "id": question.id,
        "goal": question.goal,
        "turn": question.turn,
        "tool": question.tool,
        "input": question.input,
        "call_id": question.call_id,
        "at": question.at,
        "expires": question.expires,
        "seconds_left": None if question.expires is None else round((question.expires - now).total_seconds()),
        "hidden": question.hidden,
    }


def render_question(question: PermissionQuestion, id: str, goal: str, now: datetime) -> Iterator[str]:
    """A question as lines; texts of agents are sanitised and indented."""
    turn = "" if question.turn is None else f", turn {question.turn}"
    yield terminal.sanitise_text(f"{id}  may it use {question.tool}?")
    yield terminal.sanitise_text(f"  goal {question.goal}{turn}" + (f": {goal}" if goal else ""))
    yield from (f"  | {line}" for line in _render_input(question.input))
    if question.hidden:
        yield "  Not all of it is shown: the log cuts long texts and takes secrets out."
    yield f"  {_time_left(question.expires, now)}; answer with `lore decide {id} allow` or `lore decide {id} deny --reason …`"
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


def _shortest_prefix(id: str, questions: Sequence[PermissionQuestion]) -> str:
    """The shortest unique prefix of an id."""
    others = [each.id for each in questions if each.id != id]
    sizes = (size for size in range(MIN_ID_CHARS, len(id)) if id[size - 1] != "-")
    return next((id[:size] for size in sizes if not any(other.startswith(id[:size]) for other in others)), id)


def _goal_text(log: BlockingRecorder, goal: str) -> str:
    """The text of the goal, shortened."""
    started = next(iter(log.read(f"goal:{goal}", kinds=("driver.goal_started",), limit=1)), None)
    return "" if started is None else terminal.sanitise_text(started.text or "")[:200]
