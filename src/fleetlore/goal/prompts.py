"""What the agent is told at each turn: the goal once, then what failed, what people say, where things stand. Others' words are fenced."""

from __future__ import annotations

from collections.abc import Sequence

from fleetlore.events.driver_types import Criterion, Custom, FileMatches, Goal, ShellCommand
from fleetlore.prompts import blocks, text_safety
from fleetlore.prompts.build import build
from fleetlore.prompts.parts import NEVER, Block, Part, Prompt
from fleetlore.prompts.turn import Turn
from fleetlore.views.goal_state import Attempt, GoalState

BUDGET = 24_000
LONGEST_EVIDENCE = 4_096
LONGEST_MESSAGE = 4_000
LONGEST_TURN = 600
MOST_CRITERIA = 60_000
"""Bytes of them all."""
TURNS_TOLD = 8
NEEDED, TOLD = 20, 10
"""What is left out last, and before that."""

ENDING = (
    "Work in this folder until every criterion holds; check them yourself before you stop. You are done when you stop: then they are "
    "checked by somebody else, and whatever fails comes back to you with what was seen. The files that check you are put back before that. "
    "If nothing can be done before some time has passed, let your last words be only this JSON: "
    '{"sleep_ms": 60000, "reason": "why"}. If a person has to decide, stop and say so in one sentence.'
)
SUMMARY = (
    "Do not work on now, and use no tool. Write down, for yourself after you have forgotten everything of this talk: what the goal is and "
    "how far it has come; what was tried, what worked and what did not; which files matter and what was changed in them; what is to be "
    "done next, step by step. Plain words, at most 1,000 of them, nothing else."
)


def prompt_for(goal: GoalState, attempt: Attempt, *, is_fresh: bool, memory: str, diff: str = "") -> Prompt:
    """The prompt of a turn. `is_fresh`: whether the agent remembers nothing of the turns before."""
    turn = Turn(
        agent=goal.agent, role="driver", persona=_persona(goal), number=attempt.turn, memory_text=memory or None, goal=goal.description
    )
    parts: list[Block] = [lambda _: _summary()] if attempt.is_summary else _work(goal, attempt, is_fresh=is_fresh, memory=memory, diff=diff)
    return build(turn, parts, budget=BUDGET)


def _work(goal: GoalState, attempt: Attempt, *, is_fresh: bool, memory: str, diff: str) -> list[Block]:
    told: list[Block] = [
        lambda _: _interrupted(goal),
        lambda _: _failures(goal),
        lambda _: _messages(attempt),
    ]
    if not is_fresh:
        return [*told, lambda _: _go_on(goal)]
    known: list[Block] = [blocks.memory] if memory else []
    return [
        blocks.identity,
        lambda _: _goal(goal),
        lambda _: _criteria(goal.goal),
        *known,
        lambda _: _so_far(goal, diff),
        *told,
        lambda _: Part(name="ending", heading="How this ends", body=ENDING, priority=NEVER),
    ]


def _persona(goal: GoalState) -> str:
    return f"You are {text_safety.name(goal.agent)}, and pursue one goal to its end, turn after turn."


def _goal(goal: GoalState) -> Part:
    return Part(name="goal", heading="The goal", body=text_safety.free(goal.description), priority=NEVER)


def _criteria(goal: Goal | None) -> Part | None:
    criteria = goal.acceptance if goal else ()
    lines = _numbered(criteria, LONGEST_TURN)
    if sum(len(line.encode()) for line in lines) > MOST_CRITERIA:  # they are never left out, so they have to fit
        lines = _numbered(criteria, MOST_CRITERIA // 4 // len(lines))
    return Part(name="criteria", heading="When it is reached", body="\n".join(lines), priority=NEVER) if lines else None


def _numbered(criteria: Sequence[Criterion], longest: int) -> list[str]:
    return [f"{number}. {text_safety.line(_criterion(each), longest)}" for number, each in enumerate(criteria, 1)]


def _criterion(criterion: Criterion) -> str:
    match criterion:
        case ShellCommand():
            expected = f" ends with {criterion.expected_exit or 0}"
            matching = f", and prints what matches {criterion.stdout_must_match!r}" if criterion.stdout_must_match else ""
            return f"`{criterion.command}`{expected}{matching}"
        case FileMatches():
            return f"the file {criterion.path} holds what matches {criterion.regex!r}"
        case Custom():
            return f"the check “{criterion.name}” passes"
    return criterion.criterion_text


def _so_far(goal: GoalState, diff: str) -> Part | None:
    """For an agent that begins anew in the midst of the work."""
    turns = [turn for turn in goal.turns if turn.words][-TURNS_TOLD:]
    told = [f"turn {turn.number}, {turn.outcome.replace('_', ' ')}: {turn.words}" for turn in turns if not goal.summary]
    text = "\n".join(filter(None, (goal.summary, *(text_safety.line(line, LONGEST_TURN) for line in told), diff)))
    if not text:
        return None
    return Part(name="so_far", heading="What was done so far", body=text_safety.record(text, 16_000), priority=TOLD)


def _interrupted(goal: GoalState) -> Part | None:
    if not goal.is_interrupted:
        return None
    body = (
        "Your last turn was cut short, by no fault of yours. Look at what is in the folder before you go on: some of it may be half done."
    )
    return Part(name="interrupted", heading="Before you go on", body=body, priority=NEEDED)


def _failures(goal: GoalState) -> Part | None:
    if not goal.failures:
        return None
    pieces: list[str] = []
    share = max(500, LONGEST_EVIDENCE * 3 // len(goal.failures))
    for failure in goal.failures:
        pieces.append(f"- {text_safety.line(failure.criterion_label, LONGEST_TURN)}: {text_safety.line(failure.message, LONGEST_TURN)}")
        if failure.evidence:
            pieces.append(text_safety.record(failure.evidence[-share:], share))
    if goal.put_back:
        names = ", ".join(text_safety.line(name, LONGEST_TURN) for name in goal.put_back)
        pieces.append(f"These files check you and were put back as they were, so leave them alone: {names}")
    body = "The criteria were checked after your last turn, and these do not hold:\n" + "\n".join(pieces)
    return Part(
        name="failures", heading="What does not hold yet", body=body, events=(goal.checked,) if goal.checked else (), priority=NEEDED
    )


def _messages(attempt: Attempt) -> Part | None:
    if not attempt.messages:
        return None
    body = "\n".join(
        f"- {text_safety.name(each.by)}: {text_safety.free(text_safety.cut(each.text, LONGEST_MESSAGE))}" for each in attempt.messages
    )
    return Part(name="messages", heading="A person says", body=body, events=_ids(attempt), priority=NEEDED)


def _ids(attempt: Attempt) -> tuple[str, ...]:
    return tuple(message.id for message in attempt.messages)


def _go_on(goal: GoalState) -> Part:
    body = f"Go on with the goal, which is unchanged: {text_safety.line(goal.description, LONGEST_TURN)}"
    return Part(name="go_on", heading="Now", body=body, priority=NEVER)


def _summary() -> Part:
    return Part(name="summary", heading="Where things stand", body=SUMMARY, priority=NEVER)
