"""Find the prompts in which a person corrects the agent, by their words.

The words are data in `corrections.toml`. Only the opening of a prompt is read, without code, quotations and pasted
output. A prompt without such words is no correction, even if it follows an interruption.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fleetlore.views.outcomes.facts import Answer, CallStep, CorrectionFact, FileEdit, Prompt

MAX_OPENING = 400
MAX_LEAD = 150
"""Who corrects says so at the beginning; further on, the same words belong to another request or to pasted text."""
MAX_PROMPT = 3000
MAX_SHOWN = 200
# A prompt that begins with so many characters of the one before was sent again.
RETYPED_LENGTH = 40

# What a program writes in place of a prompt: commands, reminders, skills, summaries, feedback of hooks.
_MADE_BY_PROGRAM = re.compile(
    r"\s*(?:<[a-z][\w-]{2,40}[ >/]|\[Request interrupted|Caveat: |Base directory for this skill|This session is being continued"
    r"|\*\*ACTION REQUIRED|Stop hook feedback|\w+ hook (?:feedback|blocking|error)|\[\w+ hook\]|API Error|# AGENTS\.md|Tool loaded"
    r"|The user wants to clarify these questions|Unknown skill: )"
)
# What a program writes when a person has commented on the agent's changes.
_COMMENTS_ON_DIFF = re.compile(r"^\s*<system[-_]instruction>\s*The user has added \d+ comments? to the diff\b")
_NEGATIVE_ANSWER = re.compile(
    r"(?:(?:no|nope)\b(?!\W{1,6}i (?:want|meant|said|asked|told))"
    r"|nah|not(?! (?:true|correct|right|quite))|don['’]t|do not|leave)\b"
)
_word = re.compile(r"[a-z]{5,30}")
# People leave the apostrophe out: "dont", "didnt".
_no_apostrophe = re.compile(r"\b(do|did|does|is|was|are|were|has|have|had|could|would|should)nt\b")
_fence = re.compile(r"```|~~~")
# What a program adds to the words with which a person refuses a call.
_NOTE_OF_PROGRAM = "Note: The user's next message may contain"
# A line that a person hardly types: a log, a stack trace, a diff, a table.
_output_line = re.compile(
    r"\s*(?:>|\||[+-]{3} |@@|at \S+\(|File \"|\d{4}-\d\d-\d\d|\[?\d\d:\d\d|\$ |%|#\d+ |Traceback|\S{1,200}:\d+:\d+|\{|\["
    r"|\S+@\S+ \S+ [%$#] )"
)

# Who pastes only output speaks to nobody.
_ADDRESS = re.compile(
    r"\b(?:i|i['’]?m|i['’]ve|you|your|we|our|us|me|my|please|pls|can|could|should|why|let|lets|\w+n['’]t|dont|wrong|fix|revert|undo|still)\b|\?"
)
# A report about CI is about the agent's work only if the agent has sent something there.
_ABOUT_CI = re.compile(
    r"(?:^|\b(?:why|see|saw|getting|the|is|are)\b.{0,60})"
    r"\b(?:ci|prs?|pull requests?|pipelines?|actions|workflows?|checks|jobs?)\b.{0,30}\b(?:fail\w*|red|broken)\b"
)
_SENT = re.compile(r"\bgit (?:push|commit)\b|\bgh pr create\b|\bglab mr create\b")  # the person may push it

When = Literal["always", "after_stop", "while_working", "after_refusal", "after_refused_edit", "after_work", "after_turn"]


class CorrectionRule(Struct, frozen=True, forbid_unknown_fields=True):
    """Words of a correction, and the situation in which they count."""

    when: When
    text: str
    unless: str = ""
    yes: tuple[str, ...] = ()
    no: tuple[str, ...] = ()


class NeverRule(Struct, frozen=True, forbid_unknown_fields=True):
    """Words of a prompt that is no correction."""

    text: str
    yes: tuple[str, ...] = ()
    no: tuple[str, ...] = ()


class CorrectionRules(Struct, frozen=True, forbid_unknown_fields=True):
    """All rules of `corrections.toml`."""

    rule: tuple[CorrectionRule, ...] = ()
    never: tuple[NeverRule, ...] = ()


@cache
def built_in_rules() -> CorrectionRules:
    """The rules of `corrections.toml`."""
    text = resources.files(__package__).joinpath("corrections.toml").read_text("utf-8")
    return msgspec.toml.decode(text, type=CorrectionRules)


@cache
def _compile_pattern(expression: str) -> re.Pattern[str]:
    return re.compile(expression)


def find_corrections(
    prompts: Iterable[Prompt],
    answers: Sequence[Answer] = (),
    edits: Sequence[FileEdit] = (),
    calls: Sequence[CallStep] = (),
) -> tuple[CorrectionFact, ...]:
    """The prompts that correct the agent, in order. `answers`, `edits` and `calls` are those of the session, in order."""
    found: list[CorrectionFact] = []
    first_edit = min((edit.step for edit in edits), default=None)
    answer_steps = [answer.step for answer in answers]
    stopped_calls = [call for call in calls if call.state in ("denied", "interrupted")]
    stopped_steps = [call.step for call in stopped_calls]
    sent = next((call.step for call in calls if call.state == "ok" and _SENT.search(call.what)), None)
    previous = ""
    for number, prompt in enumerate(prompts):
        start = " ".join(prompt.text[:120].split())[:RETYPED_LENGTH]
        retyped = start == previous and not _COMMENTS_ON_DIFF.match(prompt.text[:200])
        previous = start
        if retyped or (number == 0 and not prompt.mid_turn and prompt.refuses is None):
            continue  # sent again, or nothing has been done yet that could be corrected
        before = bisect_left(answer_steps, prompt.step)
        asked = before > 0 and _asks_at_end(answers[before - 1].text)
        worked = first_edit is not None and first_edit < prompt.step
        stopped = bisect_left(stopped_steps, prompt.step)
        if prompt.interrupted and prompt.refuses is None and stopped and _names_call(prompt.text, stopped_calls[stopped - 1].what):
            prompt = replace(prompt, refuses=stopped_calls[stopped - 1].kind)
        if _ABOUT_CI.search(prompt.text[:200].lower()) and (sent is None or sent > prompt.step):
            continue
        if is_correction(prompt, worked=worked, answered=before > 0, asked=asked):
            shown = " ".join(prompt.text[: 4 * MAX_SHOWN].split())[:MAX_SHOWN]
            found.append(CorrectionFact(prompt.step, shown, (prompt.source,)))
    return tuple(found)


def is_correction(prompt: Prompt, *, worked: bool = True, answered: bool = True, asked: bool = False) -> bool:
    """Whether the words of a prompt correct the agent.

    `worked`: it has changed files before. `answered`: it has ended a turn before. `asked`: it ended the last one with a question.
    """
    if _COMMENTS_ON_DIFF.search(prompt.text[:200]):
        return True
    if _MADE_BY_PROGRAM.match(prompt.text[:200]):
        return False
    opening = read_opening(prompt.text)
    if len(opening) < 2 or (prompt.text.strip().count("\n") > 1 and _ADDRESS.search(opening) is None):
        return False
    rules = built_in_rules()
    if any(_compile_pattern(never.text).search(opening) for never in rules.never):
        return False
    if asked and prompt.refuses is None and _NEGATIVE_ANSWER.match(opening):
        return False
    stopped = prompt.interrupted or prompt.refuses is not None
    situations = {
        "always": True,
        "after_stop": stopped,
        "while_working": stopped or prompt.mid_turn,
        "after_refusal": prompt.refuses in ("command", "edit"),
        "after_refused_edit": prompt.refuses == "edit",
        "after_work": worked,
        "after_turn": worked or answered or stopped or prompt.mid_turn,
    }
    return any(
        situations[rule.when]
        and (match := _compile_pattern(rule.text).search(opening)) is not None
        and (stopped or match.start() < MAX_LEAD)
        and not (rule.unless and _compile_pattern(rule.unless).search(opening))
        for rule in rules.rule
    )


def _names_call(prompt: str, call: str) -> bool:
    """Whether a prompt speaks of the call that was stopped: "do not stash" after `git stash`."""
    words = frozenset(_word.findall(call[:2000].lower()))
    return any(word in words for word in _word.findall(prompt[:100].lower()))


def read_opening(text: str) -> str:
    """The first words that the person typed, in lower case and one line: no code, no quotations, no output."""
    text = _fence.split(text[:MAX_PROMPT], maxsplit=1)[0].partition(_NOTE_OF_PROGRAM)[0]
    lines: list[str] = []
    size = 0
    for line in text.split("\n"):
        if _output_line.match(line[:200]) or (len(line) > 600 and not line[:600].count(" ") > 40):
            if lines:
                break
            continue
        if line.strip():
            lines.append(line.strip())
            size += len(line)
        if size > MAX_OPENING:
            break
    opening = " ".join(" ".join(lines)[: 2 * MAX_OPENING].split()).lower()[:MAX_OPENING]
    return _no_apostrophe.sub(r"\1n't", opening)


def _asks_at_end(text: str) -> bool:
    """Whether the end of an answer asks something; options or an explanation can follow the question."""
    return "?" in text[-400:]
