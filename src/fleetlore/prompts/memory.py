"""Ranks what an agent saw, and renders the most valuable memories as prompt items.

Search results come in with the turn (`PromptTurn.recalled` and `.relevance`). Used by `blocks.memory_block`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import exp
from typing import NamedTuple, TypeAlias

from fleetlore.events.catalog import find_payload
from fleetlore.prompts import text_safety
from fleetlore.prompts.parts import PromptItem
from fleetlore.prompts.turn import MemoryWeights, PromptTurn
from fleetlore.views.stage import SPEECH_KINDS, PrivateThought, PublicLine

MAX_MEMORY_CHARS = 400
"""Longest text of one memory."""
EXTRA_CANDIDATES = 160
"""How many more memories than needed are rendered, as other blocks may show some of them already."""
MIN_WORD_CHARS = 4
EVENTS_PER_TURN = 4
"""If turns are not counted, this many events age like one turn."""

IMPORTANCE_BY_KIND: Mapping[str, float] = {
    "run.started": 0.3,
    "world.observed": 0.7,
    "agent.spoke": 0.5,
    "oracle.spoke": 0.5,
    "agent.thought": 0.4,
    "agent.reflected": 0.85,
    "judge.verdict": 0.9,
    "user.injected": 0.95,
    "hypothesis.proposed": 0.75,
    "clue.found": 0.8,
    "verdict.final": 1.0,
    "tool.called": 0.2,
    "tool.returned": 0.2,
}
IMPORTANCE_BY_BEAT: Mapping[str, float] = {
    "setback": 0.8,
    "recovery": 0.75,
    "deliver": 0.9,
    "feat": 0.9,
    "judgement": 0.9,
    "release": 0.8,
    "claim": 0.7,
    "propose": 0.7,
    "handoff": 0.6,
    "together": 0.6,
    "pulse": 0.2,
    "rest": 0.2,
}
"""For other known kinds."""
DEFAULT_IMPORTANCE = 0.5

Nearness: TypeAlias = Callable[[str, Sequence[str]], Sequence[float]]
"""Similarity of each text to a query: higher is nearer. Used by `prompts/agent_context.py`; `prompts/embeddings.py` has one."""

_WORD = re.compile(r"[^\W_]+")


class AgentMemory(NamedTuple):
    """One event that the agent saw: what was said or done, and what the agent itself thought about it."""

    id: str
    turn: int
    kind: str
    line: PublicLine | None
    thought: PrivateThought | None

    @property
    def text(self) -> str:
        """Its words, for ranking."""
        return "\n".join(part.text for part in (self.line, self.thought) if part is not None)


def collect_memories(turn: PromptTurn) -> list[AgentMemory]:
    """Everything that the agent could remember, oldest first, each event once. Of thoughts only its own."""
    thoughts = {thought.id: thought for thought in turn.thoughts if thought.owner == turn.agent}
    lines = {line.id: line for line in turn.recalled}
    parts: dict[str, PublicLine | PrivateThought] = {**thoughts, **lines}
    memories = [AgentMemory(id, part.turn, part.kind, lines.get(id), thoughts.get(id)) for id, part in parts.items()]
    return sorted(memories, key=lambda memory: parts[memory.id].position)


def build_memory_items(turn: PromptTurn) -> Iterator[PromptItem]:
    """Memories as prompt items with their scores, oldest first; more than needed, as other blocks may show some."""
    memories = collect_memories(turn)
    scores = [float(index) for index in range(len(memories))] if turn.remembering.kind == "episodic" else score_salience(turn, memories)
    best = sorted(range(len(memories)), key=lambda index: (scores[index], index), reverse=True)[
        : max(0, turn.remembering.most) + EXTRA_CANDIDATES
    ]
    for index in sorted(best):
        yield PromptItem(
            text=text_safety.sanitize_line(render_memory(turn, memories[index]), MAX_MEMORY_CHARS),
            events=(memories[index].id,),
            score=scores[index],
        )


def score_salience(turn: PromptTurn, memories: Sequence[AgentMemory]) -> list[float]:
    """How much each memory matters now: a weighted sum of relevance, recency and importance."""
    weights, nearness = turn.remembering.weights, score_nearness(turn, memories)
    return [
        weights.relevance * nearness[index]
        + weights.recency * _score_recency(weights, age)
        + weights.importance * kind_importance(memory.kind)
        for index, (memory, age) in enumerate(zip(memories, memory_ages(turn, memories), strict=True))
    ]


def score_nearness(turn: PromptTurn, memories: Sequence[AgentMemory]) -> list[float]:
    """Relevance from the search if there was one, else by words shared with the query."""
    if turn.relevance is not None:
        return [turn.relevance.get(memory.id, 0.0) for memory in memories]
    query = significant_words(turn.query)
    overlaps = [0.0 if memory.id in turn.query_events else _word_overlap(query, significant_words(memory.text)) for memory in memories]
    max_overlap = max(overlaps, default=0.0) or 1.0
    return [value / max_overlap for value in overlaps]


def memory_ages(turn: PromptTurn, memories: Sequence[AgentMemory]) -> list[float]:
    """Age of each memory in turns; if turns are not counted, by the number of newer memories."""
    if turn.number:
        return [max(0.0, float(turn.number - memory.turn)) for memory in memories]
    return [(len(memories) - 1 - index) / EVENTS_PER_TURN for index in range(len(memories))]


def kind_importance(kind: str) -> float:
    """How important events of a kind are, from 0 to 1."""
    if kind in IMPORTANCE_BY_KIND:
        return IMPORTANCE_BY_KIND[kind]
    payload = find_payload(kind)
    return DEFAULT_IMPORTANCE if payload is None else IMPORTANCE_BY_BEAT.get(payload.beat, DEFAULT_IMPORTANCE)


def split_words(text: str) -> frozenset[str]:
    """The words of a text in lower case, without punctuation."""
    return frozenset(_WORD.findall(text.casefold()))


def significant_words(text: str) -> frozenset[str]:
    """The words of a text that carry meaning; short ones rarely do."""
    words = split_words(text)
    return frozenset(word for word in words if len(word) >= MIN_WORD_CHARS or not word.isascii()) or words


def _score_recency(weights: MemoryWeights, age: float) -> float:
    return exp(-weights.decay * age) if weights.decay > 0 else 1.0


def _word_overlap(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / len(first | second) if first and second else 0.0


# --- Rendering


def render_memory(turn: PromptTurn, memory: AgentMemory) -> str:
    """A memory in one line: when, who, what."""
    when, thought = _render_time(turn, memory), "" if memory.thought is None else memory.thought.text
    if memory.line is None:
        return f"{when}, you {'came to believe' if memory.kind == 'agent.reflected' else 'thought'}: {thought}"
    return f"{when}, {render_speaker(turn, memory.line)}: {memory.line.text}" + (f" (to yourself: {thought})" if thought else "")


def render_speaker(turn: PromptTurn, line: PublicLine) -> str:
    """Who said or did it, and how."""
    name = "you" if line.speaker == turn.agent else text_safety.sanitize_name(line.speaker)
    match line.kind:
        case "world.observed":
            return "the scene"
        case "user.injected":
            return f"a visitor ({name})" if name not in ("visitor", "a visitor") else "a visitor"
        case "judge.verdict":
            return f"{name}, judging"
        case "agent.reflected":
            return f"{name}, reflecting"
        case "prompt.submitted":
            return f"{name}, asking"
    return name if line.kind in SPEECH_KINDS else f"{name} ({render_kind(line.kind)})"


def render_kind(kind: str) -> str:
    """A kind in words: `clue.found` becomes "clue found"; for known kinds the family is left out."""
    words = kind if find_payload(kind) is None else kind.partition(".")[2]
    return words.replace(".", " ").replace("_", " ")


def _render_time(turn: PromptTurn, memory: AgentMemory) -> str:
    part = memory.line or memory.thought
    if memory.turn or part is None or turn.number:
        return f"turn {memory.turn}"
    return f"{part.at:%Y-%m-%d %H:%M}"
