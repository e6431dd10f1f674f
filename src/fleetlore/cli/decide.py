"""`lore decide`: list and answer approval requests of agents. docs/permissions.md describes what is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleetlore import clock
from fleetlore.cli import arguments, open_log, terminal
from fleetlore.cli.emit import find_user_name
from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event
from fleetlore.log.base import Expect

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from fleetlore.goal.gate.questions import IsTrusted, PermissionQuestion
    from fleetlore.log.recorder import BlockingRecorder
    from fleetlore.log.seal import OperatorKey, Seal
    from fleetlore.settings import Settings

SUMMARY = "list pending approvals, and allow or deny them"

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
_CLOSED_REASONS = {
    "answered": "was answered already",
    "expired": "was not answered in time, and was denied",
    "over": "was asked in a turn that is over",
}


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("id", metavar="ID", nargs="?", help="which question: its id, or the beginning of it (else all that wait are shown)")
    parser.add_argument("choice", metavar="CHOICE", nargs="?", choices=CHOICES, help="allow or deny (else the question is shown)")
    parser.add_argument("--reason", metavar="TEXT", help="reason; the agent sees it")
    arguments.add_json(parser, "print the questions, or the answer as it was stored, as JSON, one a line")
    arguments.teach(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """List open questions, or store an answer."""
    if args.reason is not None and args.choice is None:
        raise Invalid("--reason goes with an answer, as in `lore decide ID deny --reason TEXT`")
    settings = open_log.settings_of(args)
    with open_log.open_existing_log(args, settings=settings) as log:
        if args.choice is None:
            _print_questions(log, args, settings)
        else:
            _store_answer(log, args, settings)
    return 0


# --- answering


def _store_answer(log: BlockingRecorder, args: Namespace, settings: Settings) -> None:
    from fleetlore.goal.gate.questions import read_questions
    from fleetlore.kernel.journal import BlockingJournal, Decision, NoState

    is_sealed = _load_seal(settings) is not None
    question = find_question(read_questions(log, _trust_filter(settings)), args.id)
    _check_open(log, question, lambda event: not is_sealed)  # signatures are checked once the passphrase is given
    key = _ask_key(settings) if is_sealed else None
    _check_signature(log, question, key)
    scope = f"goal:{question.goal}"

    def answer(_: None) -> Decision[None]:
        head = log.head(scope)  # before looking, so that an event in between causes a conflict
        _check_open(log, question, (lambda event: True) if key is None else key.has_signed)
        return Decision([_make_answer_event(question, args.choice, args.reason)], guard=Expect(scope, head))

    # A busy goal must not keep a person from answering. The driver ignores an answer that comes too late.
    [event] = BlockingJournal(log, NoState(), scopes=(), key=key).decide(answer, unguarded=True).events
    if args.json:
        from fleetlore.events import codec

        for stored in log.get([event.id or ""]):
            terminal.out_json(codec.encode_with_position(stored))
    else:
        word = "allowed" if args.choice == "allow" else "denied"
        terminal.out(terminal.sanitise(f"{word}: {question.tool} in turn {question.turn or '?'} of goal {question.goal}"))


def _check_signature(log: BlockingRecorder, question: PermissionQuestion, key: OperatorKey | None) -> None:
    """`Invalid` if the question is not signed by the goal's driver."""
    if key is not None and not any(map(key.has_signed, log.get([question.id]))):
        raise Invalid(f"question {question.id} was not asked by the goal's driver: its signature is false; `lore decide` shows what waits")


def _check_open(log: BlockingRecorder, question: PermissionQuestion, is_trusted: IsTrusted) -> None:
    from fleetlore.goal.gate.questions import find_question_status

    found = find_question_status(log, question, clock.now(), is_trusted)
    if found != "waiting":
        raise Invalid(f"question {question.id} {_CLOSED_REASONS[found]}; `lore decide` shows what waits")


def _make_answer_event(question: PermissionQuestion, choice: str, reason: str | None) -> Event:
    data: dict[str, Any] = {"action": "decide", "value": {"choice": choice, "message": reason or ""}, "of": question.id}
    if reason:
        data["reason"] = reason
    text = f"{choice} {question.tool}" + (f": {reason}" if reason else "")
    return Event(
        id=clock.uuid7(),
        at=clock.now(),
        kind="control.requested",
        actor=find_user_name(),
        goal=question.goal,
        cause=question.id,
        text=text[:300],
        data=data,
    )


def find_question(questions: Sequence[PermissionQuestion], text: str) -> PermissionQuestion:
    """The question with this id or unique prefix; `Invalid` otherwise."""
    found = [question for question in questions if text and question.id.startswith(text.lower())]
    if len(found) == 1:
        return found[0]
    if not found:
        raise Invalid(f"no open question id starts with {text!r}; `lore decide` lists them")
    several = ", ".join(question.id for question in found[-8:])
    raise Invalid(f"several question ids start with {text!r}; give more characters: {several}")


# --- seals


def _ask_key(settings: Settings) -> OperatorKey | None:
    """The key that signs the answer; `None` if the log is not sealed."""
    from fleetlore.cli import passphrase

    return passphrase.ask_key_of(settings, "to answer")


def _load_seal(settings: Settings) -> Seal | None:
    from fleetlore.log.coordination import open_shared

    with open_shared(settings.log.value, town=settings.town.value) as shared:
        return shared.load_seal()


def _trust_filter(settings: Settings) -> IsTrusted:
    """Which events to trust without the passphrase: on a sealed log those that name its key."""
    from fleetlore.projections.signed_goals import SignedGoalsFold

    seal = _load_seal(settings)
    return (lambda event: True) if seal is None else SignedGoalsFold(seal).is_signed


# --- output


def _print_questions(log: BlockingRecorder, args: Namespace, settings: Settings) -> None:
    from fleetlore.goal.gate.questions import find_question_status, read_questions

    now, is_trusted = clock.now(), _trust_filter(settings)
    questions = read_questions(log, is_trusted)
    if args.id is not None:
        chosen = [find_question(questions, args.id)]
        _check_open(log, chosen[0], is_trusted)
    else:
        chosen = [each for each in questions if find_question_status(log, each, now, is_trusted) == "waiting"]
    for question in chosen:
        if args.json:
            terminal.out_value(_question_fields(question, now))
        else:
            for line in render_question(question, _shortest_prefix(question.id, questions), _goal_text(log, question.goal), now):
                terminal.out(line)
    if not chosen and not args.json:
        terminal.err("nothing waits for an answer")


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
    yield terminal.sanitise(f"{id}  may it use {question.tool}?")
    yield terminal.sanitise(f"  goal {question.goal}{turn}" + (f": {goal}" if goal else ""))
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
        shown = terminal.sanitise(line)
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
    return "" if started is None else terminal.sanitise(started.text or "")[:200]
