"""Builds the prompt of a goal's turn: the goal for a fresh session, then failed checks and messages from people.

Text from other sources (evidence, messages, names) is sanitised or quoted, see `fleetlore.prompts.text_safety`.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleetlore.events.driver_types import Criterion, Custom, FileMatches, Goal, ShellCommand
from fleetlore.prompts import blocks, text_safety
from fleetlore.prompts.build import build_prompt
from fleetlore.prompts.parts import NEVER_DROPPED, BuiltPrompt, PromptBlock, PromptPart
from fleetlore.prompts.turn import PromptTurn
from fleetlore.views.goal_state import GoalState, OpenAttempt

PROMPT_BUDGET = 24_000
MAX_EVIDENCE_CHARS = 4_096
MAX_MESSAGE_CHARS = 4_000
MAX_LINE_CHARS = 600
MAX_CRITERIA_BYTES = 60_000
"""Limit for all criteria together."""
MAX_RECENT_TURNS = 8
HIGH_PRIORITY, LOW_PRIORITY = 20, 10
"""When a prompt is too long, low priority is left out first."""

ENDING_INSTRUCTIONS = (
    "Work in this folder until every criterion holds; check them yourself before you stop. You are done when you stop: then they are "
    "checked by somebody else, and whatever fails comes back to you with what was seen. The files that check you are put back before that. "
    "If nothing can be done before some time has passed, let your last words be only this JSON: "
    '{"sleep_ms": 60000, "reason": "why"}. If a person has to decide, stop and say so in one sentence.'
)
SUMMARY_INSTRUCTIONS = (
    "Do not work on now, and use no tool. Write down, for yourself after you have forgotten everything of this talk: what the goal is and "
    "how far it has come; what was tried, what worked and what did not; which files matter and what was changed in them; what is to be "
    "done next, step by step. Plain words, at most 1,000 of them, nothing else."
)


def build_goal_prompt(goal: GoalState, attempt: OpenAttempt, *, is_fresh: bool, memory: str, diff: str = "") -> BuiltPrompt:
    """The prompt of one turn. `is_fresh`: the session is new, so the agent remembers nothing of earlier turns."""
    turn = PromptTurn(
        agent=goal.agent,
        role="driver",
        persona=f"You are {text_safety.sanitize_name(goal.agent)}, and pursue one goal to its end, turn after turn.",
        number=attempt.turn,
        memory_text=memory or None,
        goal=goal.description,
    )
    parts: list[PromptBlock] = (
        [lambda _: _summary_part()] if attempt.is_summary else _work_blocks(goal, attempt, is_fresh=is_fresh, memory=memory, diff=diff)
    )
    return build_prompt(turn, parts, budget=PROMPT_BUDGET)


def _work_blocks(goal: GoalState, attempt: OpenAttempt, *, is_fresh: bool, memory: str, diff: str) -> list[PromptBlock]:
    feedback: list[PromptBlock] = [
        lambda _: _interruption_part(goal),
        lambda _: _failures_part(goal),
        lambda _: _messages_part(attempt),
    ]
    if not is_fresh:
        return [*feedback, lambda _: _continue_part(goal)]
    memory_blocks: list[PromptBlock] = [blocks.memory_block] if memory else []
    return [
        blocks.identity_block,
        lambda _: _goal_part(goal),
        lambda _: _criteria_part(goal.goal),
        *memory_blocks,
        lambda _: _history_part(goal, diff),
        *feedback,
        lambda _: PromptPart(name="ending", heading="How this ends", body=ENDING_INSTRUCTIONS, priority=NEVER_DROPPED),
    ]


def _goal_part(goal: GoalState) -> PromptPart:
    return PromptPart(name="goal", heading="The goal", body=text_safety.sanitize_text(goal.description), priority=NEVER_DROPPED)


def _criteria_part(goal: Goal | None) -> PromptPart | None:
    criteria = goal.acceptance if goal else ()
    lines = _numbered_lines(criteria, MAX_LINE_CHARS)
    if sum(len(line.encode()) for line in lines) > MAX_CRITERIA_BYTES:  # criteria are never left out, so they must fit
        lines = _numbered_lines(criteria, MAX_CRITERIA_BYTES // 4 // len(lines))
    return PromptPart(name="criteria", heading="When it is reached", body="\n".join(lines), priority=NEVER_DROPPED) if lines else None


def _numbered_lines(criteria: Sequence[Criterion], max_chars: int) -> list[str]:
    return [
        f"{number}. {text_safety.sanitize_line(_describe_criterion(criterion), max_chars)}" for number, criterion in enumerate(criteria, 1)
    ]


def _describe_criterion(criterion: Criterion) -> str:
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


def _history_part(goal: GoalState, diff: str) -> PromptPart | None:
    """Summary of earlier turns, for an agent that starts a new session in the middle of a goal."""
    turns = [turn for turn in goal.turns if turn.words][-MAX_RECENT_TURNS:]
    lines = [f"turn {turn.number}, {turn.outcome.replace('_', ' ')}: {turn.words}" for turn in turns if not goal.summary]
    text = "\n".join(filter(None, (goal.summary, *(text_safety.sanitize_line(line, MAX_LINE_CHARS) for line in lines), diff)))
    if not text:
        return None
    return PromptPart(name="so_far", heading="What was done so far", body=text_safety.quote_record(text, 16_000), priority=LOW_PRIORITY)


def _interruption_part(goal: GoalState) -> PromptPart | None:
    if not goal.is_interrupted:
        return None
    body = (
        "Your last turn was cut short, by no fault of yours. Look at what is in the folder before you go on: some of it may be half done."
    )
    return PromptPart(name="interrupted", heading="Before you go on", body=body, priority=HIGH_PRIORITY)


def _failures_part(goal: GoalState) -> PromptPart | None:
    if not goal.failures:
        return None
    lines: list[str] = []
    max_chars = max(500, MAX_EVIDENCE_CHARS * 3 // len(goal.failures))
    for failure in goal.failures:
        lines.append(
            f"- {text_safety.sanitize_line(failure.criterion_label, MAX_LINE_CHARS)}: "
            f"{text_safety.sanitize_line(failure.message, MAX_LINE_CHARS)}"
        )
        if failure.evidence:
            lines.append(text_safety.quote_record(failure.evidence[-max_chars:], max_chars))
    if goal.put_back:
        names = ", ".join(text_safety.sanitize_line(name, MAX_LINE_CHARS) for name in goal.put_back)
        lines.append(f"These files check you and were put back as they were, so leave them alone: {names}")
    body = "The criteria were checked after your last turn, and these do not hold:\n" + "\n".join(lines)
    return PromptPart(
        name="failures", heading="What does not hold yet", body=body, events=(goal.checked,) if goal.checked else (), priority=HIGH_PRIORITY
    )


def _messages_part(attempt: OpenAttempt) -> PromptPart | None:
    if not attempt.messages:
        return None
    lines = []
    for message in attempt.messages:
        text = text_safety.sanitize_text(text_safety.truncate_text(message.text, MAX_MESSAGE_CHARS))
        lines.append(f"- {text_safety.sanitize_name(message.by)}: {text}")
    return PromptPart(
        name="messages",
        heading="A person says",
        body="\n".join(lines),
        events=tuple(each.id for each in attempt.messages),
        priority=HIGH_PRIORITY,
    )


def _continue_part(goal: GoalState) -> PromptPart:
    body = f"Go on with the goal, which is unchanged: {text_safety.sanitize_line(goal.description, MAX_LINE_CHARS)}"
    return PromptPart(name="go_on", heading="Now", body=body, priority=NEVER_DROPPED)


def _summary_part() -> PromptPart:
    return PromptPart(name="summary", heading="Where things stand", body=SUMMARY_INSTRUCTIONS, priority=NEVER_DROPPED)
