"""Builds the prompt of a turn: collects the parts of its role, removes repeated events, and fits them into the token budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import asdict, replace

from fleetlore.errors import ConfigError, PromptTooLarge
from fleetlore.events.envelope import Event
from fleetlore.prompts import text_safety
from fleetlore.prompts.parts import NEVER_DROPPED, PromptBlock, PromptItem, PromptPart
from fleetlore.prompts.roles import find_role_blocks
from fleetlore.prompts.turn import PromptSettings, PromptTurn

# --- the built prompt


class PartReport(Struct, frozen=True, kw_only=True):
    """What became of one part."""

    name: str
    heading: str
    tokens: int
    """Tokens of the part alone; 0 if it was left out."""
    events: tuple[str, ...] = ()
    left_out: int = 0
    """Items that are not shown, for any reason; 1 for a whole part without items."""
    no_room: int = 0
    """Those of them that did not fit."""
    passed_over: int = 0
    """Items that another part shows, or whose score was too low."""
    is_shown: bool = True
    is_cut: bool = False
    why: str = ""


class BuiltPrompt(Struct, frozen=True, kw_only=True):
    """A prompt, and a report of what is in it."""

    text: str
    agent: str
    role: str
    tokens: int
    budget: int
    tokenizer: str
    parts: tuple[PartReport, ...]
    left_out: tuple[str, ...] = ()
    """A sentence for each thing that did not fit or was not shown."""
    events: tuple[str, ...] = ()
    """Ids of the source events, in the order of the text."""
    run: str | None = None
    turn: int = 0
    as_of: str | None = None

    def make_event(self, **fields: Any) -> Event:
        """The `context.built` event. `fields` are further fields of the envelope, such as `cause`."""
        blocks = [
            {"name": part.name, "tokens": part.tokens, "events": len(part.events)} | ({"left_out": part.left_out} if part.left_out else {})
            for part in self.parts
        ]
        data: dict[str, Any] = {"role": self.role, "blocks": blocks, "tokens": self.tokens, "budget": self.budget}
        data |= {"tokenizer": self.tokenizer, "events": list(self.events)}
        data |= {} if self.as_of is None else {"as_of": self.as_of}
        return Event(kind="context.built", agent=self.agent, run=self.run, visibility="system", data=data, **fields)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON output."""
        return asdict(self) | {"parts": [asdict(part) for part in self.parts]}


# --- tokenizers, by the name that the settings give

Tokenizer: TypeAlias = Callable[[str], int]

BYTES_PER_TOKEN = 4


def estimate_tokens(text: str) -> int:
    """One token per four bytes of UTF-8, rounded up. English prose has slightly fewer, code and other scripts may have more."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def count_characters(text: str) -> int:
    """One token per character: an upper bound for all common tokenizers."""
    return len(text)


KNOWN_TOKENIZERS: Mapping[str, Tokenizer] = {"estimate": estimate_tokens, "characters": count_characters}
TIKTOKEN_PREFIX = "tiktoken:"
"""Prefix of an encoding's name, as in `tiktoken:o200k_base`."""


@cache
def find_tokenizer(name: str) -> Tokenizer:
    """The tokenizer with that name. Raises `ConfigError` with the known names."""
    if name in KNOWN_TOKENIZERS:
        return KNOWN_TOKENIZERS[name]
    if name.startswith(TIKTOKEN_PREFIX):
        return _load_tiktoken(name.removeprefix(TIKTOKEN_PREFIX))
    raise ConfigError(
        f"unknown tokenizer: {name!r}; choose from {', '.join(KNOWN_TOKENIZERS)}, and {TIKTOKEN_PREFIX}ENCODING where tiktoken is installed"
    )


def _load_tiktoken(encoding: str) -> Tokenizer:
    try:
        tiktoken = import_module("tiktoken")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{TIKTOKEN_PREFIX}{encoding}: tiktoken is not installed; pip install tiktoken, or take the tokenizer `estimate`"
        ) from error
    try:
        encode = tiktoken.get_encoding(encoding).encode_ordinary
    except (ValueError, OSError) as error:  # it downloads an encoding on first use
        raise ConfigError(
            f"{TIKTOKEN_PREFIX}{encoding}: tiktoken cannot load this encoding ({error}); o200k_base is a common one"
        ) from error
    return lambda text: len(encode(text))


# --- Fitting into the budget: the lowest priority goes first, and in a part the oldest lines

SHORT_BODY_CHARS = 400
"""A long body is first cut to this length, before the whole part goes."""


class ReductionStep(NamedTuple):
    """One reduction: drop a part's oldest item, cut its long body, or drop the whole part."""

    part_index: int
    what: Literal["item", "body", "part"]


class FittedPrompt(NamedTuple):
    """A prompt that fits, and what became of each part."""

    text: str
    tokens: int
    reports: list[PartReport]


def fit_to_budget(parts: Sequence[PromptPart], budget: int, count_tokens: Tokenizer) -> FittedPrompt:
    """The parts as one text within the budget. Raises `PromptTooLarge` if the parts that are never left out do not fit."""
    steps = _plan_reductions(parts)
    text = _render_parts(_apply_reductions(parts, ()))
    step_count = 0
    if count_tokens(text) > budget:
        step_count = _count_needed_steps(parts, steps, budget, count_tokens)
        text = _render_parts(_apply_reductions(parts, steps[:step_count]))
    reduced = _apply_reductions(parts, steps[:step_count])
    reports = [_describe_part(original, part, count_tokens) for original, part in zip(parts, reduced, strict=True)]
    return FittedPrompt(text, count_tokens(text), reports)


def _count_needed_steps(parts: Sequence[PromptPart], steps: Sequence[ReductionStep], budget: int, count_tokens: Tokenizer) -> int:
    """How many steps are needed, by binary search. `high` always fits, even if token counts are not monotonic."""
    low, high = 0, len(steps)
    smallest = count_tokens(_render_parts(_apply_reductions(parts, steps)))
    if smallest > budget:
        raise PromptTooLarge(smallest, budget)
    while high - low > 1:
        middle = (low + high) // 2
        if count_tokens(_render_parts(_apply_reductions(parts, steps[:middle]))) > budget:
            low = middle
        else:
            high = middle
    return high


def _plan_reductions(parts: Sequence[PromptPart]) -> list[ReductionStep]:
    indices = sorted((index for index, part in enumerate(parts) if part.priority != NEVER_DROPPED), key=lambda index: parts[index].priority)
    steps = []
    for index in indices:
        part = parts[index]
        steps += [ReductionStep(index, "item")] * (len(part.items) - 1)
        if len(part.body) > SHORT_BODY_CHARS:
            steps.append(ReductionStep(index, "body"))
        steps.append(ReductionStep(index, "part"))
    return steps


def _apply_reductions(parts: Sequence[PromptPart], steps: Sequence[ReductionStep]) -> list[PromptPart | None]:
    dropped = [0] * len(parts)
    reduced: list[PromptPart | None] = list(parts)
    for index, kind in steps:
        part = reduced[index]
        if kind == "part" or part is None:
            reduced[index] = None
        elif kind == "body":
            reduced[index] = replace(part, body=text_safety.truncate_block(part.body, SHORT_BODY_CHARS))
        else:
            dropped[index] += 1
    return [part and _drop_items(part, dropped[index]) for index, part in enumerate(reduced)]


def _drop_items(part: PromptPart, dropped: int) -> PromptPart:
    if not dropped:
        return part
    return replace(part, items=part.items[dropped:], dropped=part.items[:dropped], earlier_count=part.earlier_count + dropped)


def _render_parts(parts: Sequence[PromptPart | None]) -> str:
    return "\n\n".join(render_part(part) for part in parts if part is not None)


def render_part(part: PromptPart) -> str:
    """A part as text."""
    lines = [f"## {part.heading}"]
    if part.body:
        lines.append(part.body)
    elif part.items:
        lines += [*_omission_note(part), *(f"{text_safety.RECORD_MARK}{item.text}" for item in part.items)]
    elif part.empty_text:
        lines.append(part.empty_text)
    return "\n".join([*lines, part.after] if part.after else lines)


def _omission_note(part: PromptPart) -> list[str]:
    """A note on earlier items. Memories are always a selection, so they have none."""
    if part.earlier_count <= 0 or part.yields_to_others:
        return []
    if part.summarize_dropped is not None:
        return [part.summarize_dropped(part.dropped)]
    singular, plural = part.plural_noun.removesuffix("s"), part.plural_noun
    return [
        f"(One earlier {singular} is not shown.)"
        if part.earlier_count == 1
        else f"({part.earlier_count:,} earlier {plural} are not shown.)"
    ]


def _describe_part(original: PromptPart, part: PromptPart | None, count_tokens: Tokenizer) -> PartReport:
    if part is None:
        dropped = len(original.items) or 1
        return PartReport(
            name=original.name,
            heading=original.heading,
            tokens=0,
            left_out=dropped + original.earlier_count,
            is_shown=False,
            why=original.why,
        )
    return PartReport(
        name=part.name,
        heading=part.heading,
        tokens=count_tokens(render_part(part)),
        events=(*part.events, *(event for item in part.items for event in item.events)),
        left_out=part.earlier_count,
        no_room=len(original.items) - len(part.items),
        passed_over=original.passed_over,
        is_cut=part.body != original.body,
        why=original.why,
    )


# --- Building

DEFAULT_BUDGET = PromptSettings().budget


def build_prompt(
    turn: PromptTurn,
    role: str | Sequence[PromptBlock] | None = None,
    *,
    budget: int = DEFAULT_BUDGET,
    tokenizer: str | Tokenizer = "estimate",
) -> BuiltPrompt:
    """The prompt of a turn: the blocks of its role in order, each event once, within the budget. Deterministic.

    `role` is a name in `roles.BLOCKS_BY_ROLE` (an unknown one is a worker's), or blocks of your own; default is the
    turn's role. Raises `PromptTooLarge` if identity and output format alone do not fit.
    """
    name = role if isinstance(role, str) else turn.role
    blocks = role if role is not None and not isinstance(role, str) else find_role_blocks(name)
    count_tokens = find_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
    parts = remove_repeated_events([part for block in blocks if (part := block(turn)) is not None])
    fitted = fit_to_budget(parts, budget, count_tokens)
    return BuiltPrompt(
        text=fitted.text,
        agent=turn.agent,
        role=name,
        tokens=fitted.tokens,
        budget=budget,
        tokenizer=tokenizer if isinstance(tokenizer, str) else getattr(tokenizer, "__name__", "own"),
        parts=tuple(fitted.reports),
        left_out=tuple(_describe_omissions(fitted.reports)),
        events=tuple(dict.fromkeys(event for part in fitted.reports for event in part.events)),
        run=turn.run,
        turn=turn.number,
        as_of=turn.as_of,
    )


def remove_repeated_events(parts: Sequence[PromptPart]) -> list[PromptPart]:
    """The parts without events that another part shows. Bodies have precedence, then items in order, then parts with `yields_to_others`."""
    shown_events = {event for part in parts for event in part.events}
    chosen: dict[int, tuple[PromptItem, ...]] = {}
    for index in sorted(range(len(parts)), key=lambda index: parts[index].yields_to_others):
        items = tuple(_drop_repeated_items(parts[index].items, shown_events))
        chosen[index] = select_best_items(items, parts[index].max_items)
        shown_events |= {event for item in chosen[index] for event in item.events}
    return [
        replace(part, items=chosen[index], passed_over=len(part.items) - len(chosen[index])) if part.items else part
        for index, part in enumerate(parts)
    ]


def select_best_items(items: Sequence[PromptItem], max_items: int | None) -> tuple[PromptItem, ...]:
    """The items with the highest scores, in their original order; of equal ones the later."""
    if max_items is None or len(items) <= max_items:
        return tuple(items)
    indices = sorted(range(len(items)), key=lambda index: (items[index].score, index), reverse=True)[:max_items]
    return tuple(items[index] for index in sorted(indices))


def _drop_repeated_items(items: Iterable[PromptItem], shown_events: set[str]) -> Iterator[PromptItem]:
    seen = set(shown_events)
    for item in items:
        if seen.isdisjoint(item.events):
            seen.update(item.events)
            yield item


def _describe_omissions(parts: Iterable[PartReport]) -> Iterator[str]:
    """A sentence for each thing that is not shown."""
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
