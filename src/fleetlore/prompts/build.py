"""From a turn to its prompt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from msgspec.structs import replace

from fleetlore.errors import PromptTooLarge
from fleetlore.prompts import text_safety
from fleetlore.prompts.parts import NEVER_DROPPED, BuiltPrompt, PartReport, PromptBlock, PromptItem, PromptPart
from fleetlore.prompts.roles import find_role_blocks
from fleetlore.prompts.tokens import Tokenizer
from fleetlore.prompts.tokens import tokenizer as tokenizer_named
from fleetlore.prompts.turn import PromptSettings, PromptTurn

# --- Makes parts fit into a budget of tokens: what has the lowest priority goes first, its oldest lines before its newer ones.

SHORT_BODY_CHARS = 400
"""Characters that are left of a long body before it goes altogether."""


class ReductionStep(NamedTuple):
    """One thing less: a part's oldest line, the rest of a long body, or the whole part."""

    place: int
    what: Literal["item", "rest", "part"]


class FittedPrompt(NamedTuple):
    """A prompt that fits, and what became of each part."""

    text: str
    tokens: int
    shown: list[PartReport]


def fit_to_budget(parts: Sequence[PromptPart], budget: int, count: Tokenizer) -> FittedPrompt:
    """The parts as one text of at most so many tokens; `PromptTooLarge` if what is never left out is more."""
    steps = _plan_reductions(parts)
    text = _render_parts(_apply_reductions(parts, ()))
    taken = 0
    if count(text) > budget:
        taken = _count_needed_steps(parts, steps, budget, count)
        text = _render_parts(_apply_reductions(parts, steps[:taken]))
    left = _apply_reductions(parts, steps[:taken])
    shown = [_describe_part(whole, part, count) for whole, part in zip(parts, left, strict=True)]
    return FittedPrompt(text, count(text), shown)


def _count_needed_steps(parts: Sequence[PromptPart], steps: Sequence[ReductionStep], budget: int, count: Tokenizer) -> int:
    """How many steps it takes. Found by halving: `high` always fits, whatever the tokenizer says of the steps between."""
    low, high = 0, len(steps)
    smallest = count(_render_parts(_apply_reductions(parts, steps)))
    if smallest > budget:
        raise PromptTooLarge(smallest, budget)
    while high - low > 1:
        middle = (low + high) // 2
        if count(_render_parts(_apply_reductions(parts, steps[:middle]))) > budget:
            low = middle
        else:
            high = middle
    return high


def _plan_reductions(parts: Sequence[PromptPart]) -> list[ReductionStep]:
    places = sorted((place for place, part in enumerate(parts) if part.priority != NEVER_DROPPED), key=lambda place: parts[place].priority)
    steps = []
    for place in places:
        part = parts[place]
        steps += [ReductionStep(place, "item")] * (len(part.items) - 1)
        if len(part.body) > SHORT_BODY_CHARS:
            steps.append(ReductionStep(place, "rest"))
        steps.append(ReductionStep(place, "part"))
    return steps


def _apply_reductions(parts: Sequence[PromptPart], steps: Sequence[ReductionStep]) -> list[PromptPart | None]:
    """The parts as some steps leave them."""
    dropped = [0] * len(parts)
    left: list[PromptPart | None] = list(parts)
    for place, what in steps:
        part = left[place]
        if what == "part" or part is None:
            left[place] = None
        elif what == "rest":
            left[place] = replace(part, body=text_safety.truncate_block(part.body, SHORT_BODY_CHARS))
        else:
            dropped[place] += 1
    return [part and _drop_items(part, dropped[place]) for place, part in enumerate(left)]


def _drop_items(part: PromptPart, dropped: int) -> PromptPart:
    return replace(part, items=part.items[dropped:], earlier=part.earlier + dropped) if dropped else part


def _render_parts(parts: Sequence[PromptPart | None]) -> str:
    return "\n\n".join(render_part(part) for part in parts if part is not None)


def render_part(part: PromptPart) -> str:
    """A part as it is read."""
    lines = [f"## {part.heading}"]
    if part.body:
        lines.append(part.body)
    elif part.items:
        lines += [*_omission_note(part), *(f"{text_safety.RECORD_MARK}{item.text}" for item in part.items)]
    elif part.otherwise:
        lines.append(part.otherwise)
    return "\n".join([*lines, part.after] if part.after else lines)


def _omission_note(part: PromptPart) -> list[str]:
    """That there is more; what is remembered is always a choice, and says nothing."""
    if part.earlier <= 0 or part.yields:
        return []
    one, many = part.missing.removesuffix("s"), part.missing
    return [f"(One earlier {one} is not shown.)" if part.earlier == 1 else f"({part.earlier:,} earlier {many} are not shown.)"]


def _describe_part(whole: PromptPart, part: PromptPart | None, count: Tokenizer) -> PartReport:
    if part is None:
        gone = len(whole.items) or 1
        return PartReport(name=whole.name, heading=whole.heading, tokens=0, left_out=gone + whole.earlier, is_shown=False, why=whole.why)
    return PartReport(
        name=part.name,
        heading=part.heading,
        tokens=count(render_part(part)),
        events=(*part.events, *(event for item in part.items for event in item.events)),
        left_out=part.earlier,
        no_room=len(whole.items) - len(part.items),
        passed_over=whole.passed_over,
        is_cut=part.body != whole.body,
        why=whole.why,
    )


# ---

DEFAULT_BUDGET = PromptSettings().budget


def build_prompt(
    turn: PromptTurn,
    role: str | Sequence[PromptBlock] | None = None,
    *,
    budget: int = DEFAULT_BUDGET,
    tokenizer: str | Tokenizer = "estimate",
) -> BuiltPrompt:
    """The prompt for a turn: the blocks of its role in their order, each event once, within the budget. Deterministic.

    `role`: a name of `roles.ROLES` (any other is a worker's), or blocks of your own; else the turn's own. `PromptTooLarge` if who the
    agent is and how it is to answer do not fit alone.
    """
    name = role if isinstance(role, str) else turn.role
    blocks = role if role is not None and not isinstance(role, str) else find_role_blocks(name)
    count = tokenizer_named(tokenizer) if isinstance(tokenizer, str) else tokenizer
    parts = remove_repeated_events([part for block in blocks if (part := block(turn)) is not None])
    fitted = fit_to_budget(parts, budget, count)
    return BuiltPrompt(
        text=fitted.text,
        agent=turn.agent,
        role=name,
        tokens=fitted.tokens,
        budget=budget,
        tokenizer=tokenizer if isinstance(tokenizer, str) else getattr(tokenizer, "__name__", "own"),
        parts=tuple(fitted.shown),
        left_out=tuple(_describe_omissions(fitted.shown)),
        events=tuple(dict.fromkeys(event for part in fitted.shown for event in part.events)),
        run=turn.run,
        turn=turn.number,
        as_of=turn.as_of,
    )


def remove_repeated_events(parts: Sequence[PromptPart]) -> list[PromptPart]:
    """The parts without what another tells already. Bodies come first, then lines in their order, then those parts that yield."""
    told = {event for part in parts for event in part.events}
    chosen: dict[int, tuple[PromptItem, ...]] = {}
    for place in sorted(range(len(parts)), key=lambda place: parts[place].yields):
        items = tuple(_drop_repeated_items(parts[place].items, told))
        chosen[place] = select_best_items(items, parts[place].most)
        told |= {event for item in chosen[place] for event in item.events}
    return [
        replace(part, items=chosen[place], passed_over=len(part.items) - len(chosen[place])) if part.items else part
        for place, part in enumerate(parts)
    ]


def select_best_items(items: Sequence[PromptItem], most: int | None) -> tuple[PromptItem, ...]:
    """Those worth most, in the order in which they came; of equals the later."""
    if most is None or len(items) <= most:
        return tuple(items)
    places = sorted(range(len(items)), key=lambda place: (items[place].worth, place), reverse=True)[:most]
    return tuple(items[place] for place in sorted(places))


def _drop_repeated_items(items: Iterable[PromptItem], told: set[str]) -> Iterator[PromptItem]:
    seen = set(told)
    for item in items:
        if seen.isdisjoint(item.events):
            seen.update(item.events)
            yield item


def _describe_omissions(parts: Iterable[PartReport]) -> Iterator[str]:
    """A sentence for each thing that is not there."""
    for part in parts:
        if not part.is_shown:
            yield f"{part.name}: left out, there was no room for it"
            continue
        if part.is_cut:
            yield f"{part.name}: cut short, there was no room for all of it"
        if part.no_room:
            yield f"{part.name}: {part.no_room:,} of its oldest lines had no room"
        if part.left_out > part.no_room:
            yield f"{part.name}: {part.left_out - part.no_room:,} earlier ones are not shown"
