"""Builds the prompt of a goal's turn: the goal for a fresh session, then failed checks and messages from people.

Text from other sources (evidence, messages, names) is sanitised or quoted, see `fleetlore.prompts.text_safety`.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleetlore.events.driver_types import Criterion, Custom, FileMatches, Goal, ShellCommand
from fleetlore.prompts import blocks, text_safety
from fleetlore.prompts.build import BuiltPrompt, build_prompt
from fleetlore.prompts.parts import NEVER_DROPPED, PromptBlock, PromptPart
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

_WORK_INSTRUCTIONS = (
    "Work in this folder until every criterion is met. Check the criteria yourself before you stop. After you stop, they are checked "
    "independently, and you get the output of those that fail. The files used for the checks are restored first. "
)
_ASK_INSTRUCTIONS = "If a person has to decide something, stop and say so in one sentence."
ENDING_INSTRUCTIONS = (
    f'{_WORK_INSTRUCTIONS}If you must wait before you can continue, reply with only this JSON: {{"sleep_ms": 60000, "reason": "why"}}. '
    f"{_ASK_INSTRUCTIONS}"
)
SUMMARY_INSTRUCTIONS = (
    "Do not continue the work now, and do not use tools. Write a summary for yourself, because this conversation will be cleared: the goal "
    "and its progress; what you tried, what worked and what did not; which files matter and what you changed in them; the next "
    "steps. Plain text, at most 1,000 words, nothing else."
)


def build_goal_prompt(goal: GoalState, attempt: OpenAttempt, *, is_fresh: bool, memory: str, diff: str = "") -> BuiltPrompt:
    """The prompt of one turn. `is_fresh`: the session is new, so the agent remembers nothing of earlier turns."""
    turn = PromptTurn(
        agent=goal.agent,
        role="driver",
        persona=f"You are {text_safety.sanitize_name(goal.agent)}, and you work on one goal, turn by turn, until it is done.",
        number=attempt.turn,
        memory_text=memory or None,
        goal=goal.description,
    )
    parts: list[PromptBlock] = (  # functions of the turn; most parts depend on the goal alone
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
        lambda _: _ending_part(goal),
    ]


def _goal_part(goal: GoalState) -> PromptPart:
    return PromptPart(name="goal", heading="Goal", body=text_safety.sanitize_text(goal.description), priority=NEVER_DROPPED)


def _criteria_part(goal: Goal | None) -> PromptPart | None:
    criteria = goal.acceptance if goal else ()
    lines = _numbered_lines(criteria, MAX_LINE_CHARS)
    if sum(len(line.encode()) for line in lines) > MAX_CRITERIA_BYTES:  # criteria are never left out, so they must fit
        lines = _numbered_lines(criteria, MAX_CRITERIA_BYTES // 4 // len(lines))  # a character has at most 4 bytes
    return PromptPart(name="criteria", heading="Acceptance criteria", body="\n".join(lines), priority=NEVER_DROPPED) if lines else None


def _numbered_lines(criteria: Sequence[Criterion], max_chars: int) -> list[str]:
    return [
        f"{number}. {text_safety.sanitize_line(_describe_criterion(criterion), max_chars)}" for number, criterion in enumerate(criteria, 1)
    ]


def _describe_criterion(criterion: Criterion) -> str:
    match criterion:
        case ShellCommand():
            expected = f" exits with {criterion.expected_exit or 0}"
            matching = f" and its output matches {criterion.stdout_must_match!r}" if criterion.stdout_must_match else ""
            return f"`{criterion.command}`{expected}{matching}"
        case FileMatches():
            return f"the file {criterion.path} matches {criterion.regex!r}"
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
    return PromptPart(name="so_far", heading="Progress so far", body=text_safety.quote_record(text, 16_000), priority=LOW_PRIORITY)


def _interruption_part(goal: GoalState) -> PromptPart | None:
    if not goal.is_interrupted:
        return None
    body = "Your last turn was interrupted, not by you. Check the files before you continue: some edits may be incomplete."
    return PromptPart(name="interrupted", heading="Interrupted turn", body=body, priority=HIGH_PRIORITY)


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
    if goal.touched:
        names = "\n".join(f"- You {text_safety.sanitize_line(each, MAX_LINE_CHARS)}." for each in goal.touched)
        lines.append(f"Files that judge your work count as they were before your first turn:\n{names}")
    body = "The criteria were checked after your last turn. These are not met:\n" + "\n".join(lines)
    return PromptPart(
        name="failures", heading="Criteria not met", body=body, events=(goal.checked,) if goal.checked else (), priority=HIGH_PRIORITY
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
        heading="Messages from people",
        body="\n".join(lines),
        events=tuple(each.id for each in attempt.messages),
        priority=HIGH_PRIORITY,
    )


def _ending_part(goal: GoalState) -> PromptPart:
    """A model in this process waits by a tool. What it is to do comes last: a small model follows what it read last."""
    body = ENDING_INSTRUCTIONS
    if goal.plan is not None and goal.plan.harness == "mind":
        body = f"{_WORK_INSTRUCTIONS}{_ASK_INSTRUCTIONS}\n\nThe goal: {text_safety.sanitize_line(goal.description, MAX_LINE_CHARS)}"
    return PromptPart(name="ending", heading="How to finish", body=body, priority=NEVER_DROPPED)


def _continue_part(goal: GoalState) -> PromptPart:
    body = f"Continue with the goal, which is unchanged: {text_safety.sanitize_line(goal.description, MAX_LINE_CHARS)}"
    return PromptPart(name="go_on", heading="Now", body=body, priority=NEVER_DROPPED)


def _summary_part() -> PromptPart:
    return PromptPart(name="summary", heading="Summary", body=SUMMARY_INSTRUCTIONS, priority=NEVER_DROPPED)
