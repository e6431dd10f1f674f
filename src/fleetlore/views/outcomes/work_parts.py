"""The work of a session in parts, one for each request that asks for something of its own.

"Commit this", "continue" and the answers to the agent's questions belong to the part before them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from fleetlore.views.outcomes.closing import is_note
from fleetlore.views.outcomes.facts import Answer, Prompt
from fleetlore.views.outcomes.reports import list_content_words
from fleetlore.views.outcomes.request_text import is_clear, is_statement, name_request
from fleetlore.views.outcomes.session import SessionState
from fleetlore.views.outcomes.words import drop_courtesy, first_sentence, is_whole_request, last_question

MOST_OF_REPLY = 20
"""Words of a statement that can be the answer to the agent's question."""
LONG_REQUEST = 14
"""Words of a prompt that is no mere follow-up."""
LINES_PER_CALL = 10
"""So many changed lines are as much work as one more call."""
FIRST_WEIGHT = 3
"""How much more the first request counts: it says what the session was begun for."""
LEAST_SECOND = 3
"""A second request is named if it counts for at least this part of the first."""
UNCLEAR_WEIGHT = 0.4
"""The same of a request that cannot be understood alone."""
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
    turn_edits: Counter[int] = field(default_factory=Counter)
    """The edits of each turn."""
    calls: int = 0
    answers: list[Answer] = field(default_factory=list)

    @property
    def edits(self) -> int:
        """All edits that were made for it."""
        return self.turn_edits.total()

    @property
    def weight(self) -> float:
        """How much was done."""
        return self.calls + self.lines / LINES_PER_CALL

    @property
    def text(self) -> str:
        """The whole request."""
        return self.request.text if self.request is not None else ""

    def name(self, most: int) -> str:
        """The request in at most so many words; empty if it does not say what it is about."""
        return name_request(self.text, most) if self.request is not None else ""


def split_work(state: SessionState) -> list[WorkPart]:
    """The parts of a session in the order of their requests. A session that begins with a follow-up has a part without a request."""
    turns = {call.source.event: call.turn for call in state.calls}
    lines, edits = Counter[int](), Counter[int]()
    folder = f"{state.cwd.rstrip('/')}/"
    for edit in state.edits:
        if not is_note(edit.path.removeprefix(folder)):
            turn = turns.get(edit.source.event, 0)
            lines[turn] += max(1, edit.added + edit.removed)
            edits[turn] += 1
    calls = Counter(call.turn for call in state.calls if call.state == "ok")
    answers: defaultdict[int, list[Answer]] = defaultdict(list)
    for answer in (*state.answers, *([state.text] if state.text is not None else [])):
        if not answer.helper:
            answers[answer.turn].append(answer)
    prompts: defaultdict[int, list[Prompt]] = defaultdict(list)
    for prompt in state.prompts:
        if prompt.refuses is None:
            prompts[prompt.turn].append(prompt)
    parts: list[WorkPart] = []
    was_asked = False
    for turn in sorted(prompts.keys() | calls.keys()):
        own = [prompt for prompt in prompts[turn] if not (was_asked and _is_reply(prompt.text))]
        was_asked = any(last_question(answer.text) for answer in answers[turn][-1:])
        request = _find_own_request(own)
        if request is not None or not parts:
            parts.append(WorkPart(request=request))
        part = parts[-1]
        part.turns.add(turn)
        part.lines += lines[turn]
        part.turn_edits[turn] = edits[turn]
        part.calls += calls[turn]
        part.answers += answers[turn]
    return parts


def list_main(parts: Sequence[WorkPart], most: int) -> list[WorkPart]:
    """The one or two requests that say best what a session was about, in their order: where most was done, and rather the first."""
    named = [part for part in parts if part.name(most)]

    def rank(part: WorkPart) -> float:
        return (1 + part.weight) * (FIRST_WEIGHT if part is named[0] else 1) * (1 if is_clear(part.text) else UNCLEAR_WEIGHT)

    main = sorted(named, key=rank, reverse=True)[:2]
    if len(main) == 2 and rank(main[1]) * LEAST_SECOND < rank(main[0]):
        main.pop()
    undone = [part for part in named if main and _undoes.match(drop_courtesy(part.text)) and _is_about_same(part, main[0])]
    main = [*main[:1], undone[-1]] if undone and undone[-1] is not main[0] else main
    return [part for part in named if part in main]


_undoes = re.compile(r"(?i)(?:delete|remove|undo|revert|discard|throw away|roll back|drop)\b")


def _is_about_same(part: WorkPart, other: WorkPart) -> bool:
    about = list_content_words(part.text)
    return len(about & list_content_words(other.text)) * 2 >= len(about)


def _is_reply(text: str) -> bool:
    """Whether a prompt behind the agent's question answers it: a few words that neither order nor ask."""
    return len(text.split()) <= MOST_OF_REPLY and is_statement(text)


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
