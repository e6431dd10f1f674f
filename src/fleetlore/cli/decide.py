"""`lore decide`: what agents wait to be allowed, and a person's answer. docs/permissions.md tells what is asked at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleetlore import clock
from fleetlore.cli import arguments, open_log, terminal
from fleetlore.cli.emit import user_name
from fleetlore.errors import Conflict, Invalid
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

SUMMARY = "see what agents wait to be allowed, and answer"

CHOICES = ("allow", "deny")
SHORTEST_ID = 8
MOST_LINES, LONGEST_LINE = 200, 2000
_TRIES = 20

_EXAMPLES = (
    ("lore decide", "what waits, the newest last"),
    ("lore decide 0193f2a7 allow", "let it; the beginning of the id will do, if no other begins so"),
    ('lore decide 0193f2a7 deny --reason "not on a Friday"', "do not, and let the agent know why"),
)
_NOTES = """\
A question that nobody answers in time is denied. It is the goal's driver that asks and that hears the answer: see docs/permissions.md.
A sealed log asks for its passphrase first (docs/sealing.md).
"""
_OVER = {
    "answered": "was answered already",
    "expired": "was not answered in time, and was denied",
    "over": "was asked in a turn that is over",
}


def configure(parser: ArgumentParser) -> None:
    """Which, and what."""
    parser.add_argument("id", metavar="ID", nargs="?", help="which question: its id, or the beginning of it (else all that wait are shown)")
    parser.add_argument("choice", metavar="CHOICE", nargs="?", choices=CHOICES, help="allow or deny (else the question is shown)")
    parser.add_argument("--reason", metavar="TEXT", help="why; the agent is told")
    arguments.add_json(parser, "print the questions, or the answer as it was stored, as JSON, one a line")
    arguments.teach(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Show what waits, or answer."""
    if args.reason is not None and args.choice is None:
        raise Invalid("--reason goes with an answer, as in `lore decide ID deny --reason TEXT`")
    settings = open_log.settings_of(args)
    with open_log.open_existing_log(args, settings=settings) as log:
        if args.choice is None:
            _show(log, args, settings)
        else:
            _answer(log, args, settings)
    return 0


# --- answering


def _answer(log: BlockingRecorder, args: Namespace, settings: Settings) -> None:
    from fleetlore.goal.gate.questions import read_questions

    is_sealed = _seal(settings) is not None
    question = find(read_questions(log, _seems_obeyed(settings)), args.id)
    _need_waiting(log, question, lambda event: not is_sealed)  # whose signatures hold is seen once the passphrase is given
    key = _key(settings) if is_sealed else None
    _need_asked(log, question, key)
    for left in range(_TRIES - 1, -1, -1):
        try:
            # Who floods the goal's scope must not keep a person from answering; an answer that comes too late is not heard.
            event = _append(log, question, args, key, is_last=not left)
            break
        except Conflict:  # the goal went on meanwhile, perhaps past this question
            continue
    if args.json:
        from fleetlore.events import codec

        for stored in log.get([event.id or ""]):
            terminal.out_json(codec.encode_with_position(stored))
    else:
        word = "allowed" if args.choice == "allow" else "denied"
        terminal.out(terminal.sanitise(f"{word}: {question.tool} in turn {question.turn or '?'} of goal {question.goal}"))


def _append(log: BlockingRecorder, question: PermissionQuestion, args: Namespace, key: OperatorKey | None, *, is_last: bool) -> Event:
    """Store the answer, if the question still waits and nothing happened to the goal since that was seen."""
    scope = f"goal:{question.goal}"
    head = log.head(scope)
    _need_waiting(log, question, (lambda event: True) if key is None else key.has_signed)
    event = _event(question, args.choice, args.reason)
    if key is not None:
        event = key.sign_event(event, admit=log.admit)
    log.append([event], expect=None if is_last else Expect(scope, head))
    return event


def _need_asked(log: BlockingRecorder, question: PermissionQuestion, key: OperatorKey | None) -> None:
    """Refuse to answer what only looks like a question of the driver."""
    if key is not None and not any(map(key.has_signed, log.get([question.id]))):
        raise Invalid(f"question {question.id} was not asked by the goal's driver: its signature is false; `lore decide` shows what waits")


def _need_waiting(log: BlockingRecorder, question: PermissionQuestion, obeys: IsTrusted) -> None:
    from fleetlore.goal.gate.questions import find_question_status

    found = find_question_status(log, question, clock.now(), obeys)
    if found != "waiting":
        raise Invalid(f"question {question.id} {_OVER[found]}; `lore decide` shows what waits")


def _event(question: PermissionQuestion, choice: str, reason: str | None) -> Event:
    data: dict[str, Any] = {"action": "decide", "value": {"choice": choice, "message": reason or ""}, "of": question.id}
    if reason:
        data["reason"] = reason
    text = f"{choice} {question.tool}" + (f": {reason}" if reason else "")
    return Event(
        id=clock.uuid7(),
        at=clock.now(),
        kind="control.requested",
        actor=user_name(),
        goal=question.goal,
        cause=question.id,
        text=text[:300],
        data=data,
    )


def find(questions: Sequence[PermissionQuestion], text: str) -> PermissionQuestion:
    """The question that is meant, by its id or how that begins."""
    found = [question for question in questions if text and question.id.startswith(text.lower())]
    if len(found) == 1:
        return found[0]
    if not found:
        raise Invalid(f"no question has the id {text!r}, and none begins so; `lore decide` shows what waits")
    several = ", ".join(question.id for question in found[-8:])
    raise Invalid(f"several questions begin with {text!r}; say which: {several}")


# --- seals


def _key(settings: Settings) -> OperatorKey | None:
    """What signs the answer; `None` where the log is not sealed."""
    from fleetlore.cli import passphrase

    return passphrase.ask_key_of(settings, "to answer")


def _seal(settings: Settings) -> Seal | None:
    from fleetlore.log.coordination import open_shared

    with open_shared(settings.log.value, town=settings.town.value) as shared:
        return shared.load_seal()


def _seems_obeyed(settings: Settings) -> IsTrusted:
    """What counts, as far as can be told without a passphrase: on a sealed log nothing that does not name its key."""
    from fleetlore.projections.signed_goals import SignedGoalsFold

    seal = _seal(settings)
    return (lambda event: True) if seal is None else SignedGoalsFold(seal).is_signed


# --- showing


def _show(log: BlockingRecorder, args: Namespace, settings: Settings) -> None:
    from fleetlore.goal.gate.questions import find_question_status, read_questions

    now, obeys = clock.now(), _seems_obeyed(settings)
    questions = read_questions(log, obeys)
    if args.id is not None:
        chosen = [find(questions, args.id)]
        _need_waiting(log, chosen[0], obeys)
    else:
        chosen = [each for each in questions if find_question_status(log, each, now, obeys) == "waiting"]
    for question in chosen:
        if args.json:
            terminal.out_value(_plain(question, now))
        else:
            for line in block(question, _short(question.id, questions), _goal(log, question.goal), now):
                terminal.out(line)
    if not chosen and not args.json:
        terminal.err("nothing waits for an answer")


def _plain(question: PermissionQuestion, now: datetime) -> dict[str, object]:
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


def block(question: PermissionQuestion, id: str, goal: str, now: datetime) -> Iterator[str]:
    """A question as a person reads it; no text of an agent can leave its margin."""
    turn = "" if question.turn is None else f", turn {question.turn}"
    yield terminal.sanitise(f"{id}  may it use {question.tool}?")
    yield terminal.sanitise(f"  goal {question.goal}{turn}" + (f": {goal}" if goal else ""))
    yield from (f"  | {line}" for line in _input(question.input))
    if question.hidden:
        yield "  Not all of it is shown: the log cuts long texts and takes secrets out."
    yield f"  {_left(question.expires, now)}; answer with `lore decide {id} allow` or `lore decide {id} deny --reason …`"
    yield ""


def _input(input: Any) -> list[str]:
    fields = input.items() if isinstance(input, dict) else [("input", input)]
    lines = [line for name, value in fields for line in _field(str(name), value)]
    if len(lines) <= MOST_LINES:
        return lines
    return [*lines[:MOST_LINES], f"… and {len(lines) - MOST_LINES} more lines; --json shows all"]


def _field(name: str, value: Any) -> Iterator[str]:
    import msgspec

    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    first, *rest = text.split("\n")
    for line in (f"{name}: {first}", *(f"    {each}" for each in rest)):
        shown = terminal.sanitise(line)
        yield shown if len(shown) <= LONGEST_LINE else f"{shown[:LONGEST_LINE]} … ({len(shown) - LONGEST_LINE} more characters; --json)"


def _left(expires: datetime | None, now: datetime) -> str:
    if expires is None:
        return "it waits"
    minutes, seconds = divmod(max(0, round((expires - now).total_seconds())), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min left" if hours else f"{minutes} min {seconds} s left" if minutes else f"{seconds} s left"


def _short(id: str, questions: Sequence[PermissionQuestion]) -> str:
    """The shortest beginning that is its own."""
    others = [each.id for each in questions if each.id != id]
    sizes = (size for size in range(SHORTEST_ID, len(id)) if id[size - 1] != "-")
    return next((id[:size] for size in sizes if not any(other.startswith(id[:size]) for other in others)), id)


def _goal(log: BlockingRecorder, goal: str) -> str:
    """What the goal is, in a line."""
    started = next(iter(log.read(f"goal:{goal}", kinds=("driver.goal_started",), limit=1)), None)
    return "" if started is None else terminal.sanitise(started.text or "")[:200]
