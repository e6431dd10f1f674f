"""The work of a session in parts, one for each request that asks for something of its own.

"Commit this", "continue" and "yes" belong to the part before them. A part has the turns that were spent on it, what was asked,
and how much was changed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct, field

from fleetlore.views.outcomes.facts import Prompt
from fleetlore.views.outcomes.session import SessionState
from fleetlore.views.outcomes.words import drop_courtesy, first_sentence, is_whole_request

LONG_REQUEST = 14
"""Words of a prompt that is no mere follow-up."""
_follows_up = re.compile(
    r"(?i)(?:(?:and|now|then|also|please|ok(?:ay)?|yes|great|perfect|looks? (?:good|great)|thanks?)[,.! ]+)*"
    r"(?:(?:commit|push|merge|rebase|squash|amend|stage|release|deploy|tag|continue|proceed|resume|retry"
    r"|(?:try|do|run|check) (?:it|that|this|again)|split (?:it|this|that|the) (?:\w+ )?commit"
    r"|re-?run|run (?:the |all )?(?:tests?|lint\w*|build|checks?)|go (?:on|ahead)|apply (?:it|this|that|them)|fix (?:it|this|that|them)"
    r"|implement (?:it|this|that|the plan)|do (?:it|this|that|so|the same)|still|undo|revert (?:it|this|that)"
    r"|(?:open|create|make|write|update) (?:a |the )?(?:pr|pull request|commit|branch)|address (?:it|this|them|the (?:review|comments)))\b"
    r"|(?:did|have) you\b|are you\b|what(?:'s| is) (?:the )?(?:status|next|left)\b|(?:is|are) (?:it|that|this|they|we)\b)"
)


class WorkPart(Struct, kw_only=True):
    """What was done for one request."""

    request: Prompt | None
    turns: set[int] = field(default_factory=set)
    lines: int = 0
    """Changed lines of files that are not the agent's own notes; each edit counts for at least one."""
    edits: int = 0
    calls: int = 0
    is_answered: bool = False


class TurnWork(NamedTuple):
    """What was done in a turn."""

    lines: Counter[int]
    edits: Counter[int]
    calls: Counter[int]
    answered: frozenset[int]


def split_work(state: SessionState, work: TurnWork) -> list[WorkPart]:
    """The parts of a session in the order of their requests. A session that begins with a follow-up has a part without a request."""
    parts: list[WorkPart] = []
    for turn in sorted({prompt.turn for prompt in state.prompts} | set(work.calls)):
        request = _find_own_request(prompt for prompt in state.prompts if prompt.turn == turn and prompt.refuses is None)
        if request is not None or not parts:
            parts.append(WorkPart(request=request))
        part = parts[-1]
        part.turns.add(turn)
        part.lines += work.lines[turn]
        part.edits += work.edits[turn]
        part.calls += work.calls[turn]
        part.is_answered = part.is_answered or turn in work.answered
    return parts


def _find_own_request(prompts: Iterable[Prompt]) -> Prompt | None:
    return next((prompt for prompt in prompts if is_own_request(prompt.text)), None)


def is_own_request(text: str) -> bool:
    """Whether a prompt asks for something of its own, not for the next step of what was asked before."""
    if not is_whole_request(text):
        return False
    sentence = first_sentence(text)
    if len(text.split()) >= LONG_REQUEST:
        return bool(sentence)
    return bool(sentence) and _follows_up.match(drop_courtesy(sentence)) is None
