"""Makes parts fit into a budget of tokens: what has the lowest priority goes first, its oldest lines before its newer ones.

What can be left out is one list of steps, up to all but who the agent is and how it is to answer; as few are taken as it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec.structs import replace

from fleetlore.context import fence
from fleetlore.context.parts import NEVER, Part, Shown
from fleetlore.context.tokens import Tokenizer
from fleetlore.errors import PromptTooLarge

SHORT = 400
"""Characters that are left of a long body before it goes altogether."""


class Step(NamedTuple):
    """One thing less: a part's oldest line, the rest of a long body, or the whole part."""

    place: int
    what: Literal["item", "rest", "part"]


class Fitted(NamedTuple):
    """A prompt that fits, and what became of each part."""

    text: str
    tokens: int
    shown: list[Shown]


def fit(parts: Sequence[Part], budget: int, count: Tokenizer) -> Fitted:
    """The parts as one text of at most so many tokens; `PromptTooLarge` if what is never left out is more."""
    steps = _steps(parts)
    text = _text(_after(parts, ()))
    taken = 0
    if count(text) > budget:
        taken = _fewest(parts, steps, budget, count)
        text = _text(_after(parts, steps[:taken]))
    left = _after(parts, steps[:taken])
    shown = [_account(whole, part, count) for whole, part in zip(parts, left, strict=True)]
    return Fitted(text, count(text), shown)


def _fewest(parts: Sequence[Part], steps: Sequence[Step], budget: int, count: Tokenizer) -> int:
    """How many steps it takes. Found by halving: `high` always fits, whatever the tokenizer says of the steps between."""
    low, high = 0, len(steps)
    smallest = count(_text(_after(parts, steps)))
    if smallest > budget:
        raise PromptTooLarge(smallest, budget)
    while high - low > 1:
        middle = (low + high) // 2
        if count(_text(_after(parts, steps[:middle]))) > budget:
            low = middle
        else:
            high = middle
    return high


def _steps(parts: Sequence[Part]) -> list[Step]:
    places = sorted((place for place, part in enumerate(parts) if part.priority != NEVER), key=lambda place: parts[place].priority)
    steps = []
    for place in places:
        part = parts[place]
        steps += [Step(place, "item")] * (len(part.items) - 1)
        if len(part.body) > SHORT:
            steps.append(Step(place, "rest"))
        steps.append(Step(place, "part"))
    return steps


def _after(parts: Sequence[Part], steps: Sequence[Step]) -> list[Part | None]:
    """The parts as some steps leave them."""
    dropped = [0] * len(parts)
    left: list[Part | None] = list(parts)
    for place, what in steps:
        part = left[place]
        if what == "part" or part is None:
            left[place] = None
        elif what == "rest":
            left[place] = replace(part, body=fence.shortened(part.body, SHORT))
        else:
            dropped[place] += 1
    return [part and _without(part, dropped[place]) for place, part in enumerate(left)]


def _without(part: Part, dropped: int) -> Part:
    return replace(part, items=part.items[dropped:], earlier=part.earlier + dropped) if dropped else part


def _text(parts: Sequence[Part | None]) -> str:
    return "\n\n".join(rendered(part) for part in parts if part is not None)


def rendered(part: Part) -> str:
    """A part as it is read."""
    lines = [f"## {part.heading}"]
    if part.body:
        lines.append(part.body)
    elif part.items:
        lines += [*_note(part), *(f"{fence.MARK}{item.text}" for item in part.items)]
    elif part.otherwise:
        lines.append(part.otherwise)
    return "\n".join([*lines, part.after] if part.after else lines)


def _note(part: Part) -> list[str]:
    """That there is more; what is remembered is always a choice, and says nothing."""
    if part.earlier <= 0 or part.yields:
        return []
    one, many = part.missing.removesuffix("s"), part.missing
    return [f"(One earlier {one} is not shown.)" if part.earlier == 1 else f"({part.earlier:,} earlier {many} are not shown.)"]


def _account(whole: Part, part: Part | None, count: Tokenizer) -> Shown:
    if part is None:
        gone = len(whole.items) or 1
        return Shown(name=whole.name, heading=whole.heading, tokens=0, left_out=gone + whole.earlier, is_shown=False, why=whole.why)
    return Shown(
        name=part.name,
        heading=part.heading,
        tokens=count(rendered(part)),
        events=(*part.events, *(event for item in part.items for event in item.events)),
        left_out=part.earlier,
        no_room=len(whole.items) - len(part.items),
        passed_over=whole.passed_over,
        is_cut=part.body != whole.body,
        why=whole.why,
    )
