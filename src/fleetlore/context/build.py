"""From a turn to its prompt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from fleetlore.context.fit import fit
from fleetlore.context.parts import Block, Item, Part, Prompt, Shown
from fleetlore.context.roles import blocks_of
from fleetlore.context.tokens import Tokenizer
from fleetlore.context.tokens import tokenizer as tokenizer_named
from fleetlore.context.turn import Manner, Turn

BUDGET = Manner().budget


def build(
    turn: Turn, role: str | Sequence[Block] | None = None, *, budget: int = BUDGET, tokenizer: str | Tokenizer = "estimate"
) -> Prompt:
    """The prompt for a turn: the blocks of its role in their order, each event once, within the budget. Deterministic.

    `role`: a name of `roles.ROLES` (any other is a worker's), or blocks of your own; else the turn's own. `PromptTooLarge` if who the
    agent is and how it is to answer do not fit alone.
    """
    name = role if isinstance(role, str) else turn.role
    blocks = role if role is not None and not isinstance(role, str) else blocks_of(name)
    count = tokenizer_named(tokenizer) if isinstance(tokenizer, str) else tokenizer
    parts = each_event_once([part for block in blocks if (part := block(turn)) is not None])
    fitted = fit(parts, budget, count)
    return Prompt(
        text=fitted.text,
        agent=turn.agent,
        role=name,
        tokens=fitted.tokens,
        budget=budget,
        tokenizer=tokenizer if isinstance(tokenizer, str) else getattr(tokenizer, "__name__", "own"),
        parts=tuple(fitted.shown),
        left_out=tuple(_said(fitted.shown)),
        events=tuple(dict.fromkeys(event for part in fitted.shown for event in part.events)),
        run=turn.run,
        turn=turn.number,
        as_of=turn.as_of,
    )


def each_event_once(parts: Sequence[Part]) -> list[Part]:
    """The parts without what another tells already. Bodies come first, then lines in their order, then those parts that yield."""
    told = {event for part in parts for event in part.events}
    chosen: dict[int, tuple[Item, ...]] = {}
    for place in sorted(range(len(parts)), key=lambda place: parts[place].yields):
        items = tuple(_untold(parts[place].items, told))
        chosen[place] = best(items, parts[place].most)
        told |= {event for item in chosen[place] for event in item.events}
    return [
        replace(part, items=chosen[place], passed_over=len(part.items) - len(chosen[place])) if part.items else part
        for place, part in enumerate(parts)
    ]


def best(items: Sequence[Item], most: int | None) -> tuple[Item, ...]:
    """Those worth most, in the order in which they came; of equals the later."""
    if most is None or len(items) <= most:
        return tuple(items)
    places = sorted(range(len(items)), key=lambda place: (items[place].worth, place), reverse=True)[:most]
    return tuple(items[place] for place in sorted(places))


def _untold(items: Iterable[Item], told: set[str]) -> Iterator[Item]:
    seen = set(told)
    for item in items:
        if seen.isdisjoint(item.events):
            seen.update(item.events)
            yield item


def _said(parts: Iterable[Shown]) -> Iterator[str]:
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
