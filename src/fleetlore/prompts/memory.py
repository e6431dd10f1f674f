"""What an agent remembers: all that it saw is weighed, and what is worth most is told. What a search found comes in with the turn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import exp
from typing import NamedTuple, TypeAlias

from fleetlore.events.catalog import find
from fleetlore.prompts import text_safety
from fleetlore.prompts.parts import Item
from fleetlore.prompts.turn import Turn, Weights
from fleetlore.views.stage import SPEECH, Line, Thought

LONGEST = 400
"""Characters of one memory."""
ELSEWHERE = 160
"""More memories than other blocks can tell: so many beyond those that are wanted are put into words."""
SHORTEST_WORD = 4
EVENTS_A_TURN = 4
"""Where turns are not counted, so many events fade like one turn."""

IMPORTANCE: Mapping[str, float] = {
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
BEATS: Mapping[str, float] = {
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
"""Of other known kinds, by their beat."""
ORDINARY = 0.5

Nearness: TypeAlias = Callable[[str, Sequence[str]], Sequence[float]]
"""Similarity of each text to a query: higher is nearer. Used by `prompts/agent_context.py`; `prompts/embeddings.py` has one."""

_WORD = re.compile(r"[^\W_]+")


class Memory(NamedTuple):
    """One event that the agent saw: what was said or done, and what the agent itself thought at it."""

    id: str
    turn: int
    kind: str
    line: Line | None
    thought: Thought | None

    @property
    def text(self) -> str:
        """Its words, for weighing."""
        return "\n".join(part.text for part in (self.line, self.thought) if part is not None)


def memories_of(turn: Turn) -> list[Memory]:
    """Everything that the agent could remember, oldest first, each event once. Of thoughts, its own and nobody else's."""
    thoughts = {thought.id: thought for thought in turn.thoughts if thought.owner == turn.agent}
    lines = {line.id: line for line in turn.recalled}
    parts: dict[str, Line | Thought] = {**thoughts, **lines}
    found = [Memory(id, part.turn, part.kind, lines.get(id), thoughts.get(id)) for id, part in parts.items()]
    return sorted(found, key=lambda memory: parts[memory.id].position)


def items_of(turn: Turn) -> Iterator[Item]:
    """What the agent remembers as lines of a prompt, oldest first, each with its worth: enough, whatever other blocks tell."""
    memories = memories_of(turn)
    worth = [float(place) for place in range(len(memories))] if turn.remembering.kind == "episodic" else salience(turn, memories)
    best = sorted(range(len(memories)), key=lambda place: (worth[place], place), reverse=True)[: max(0, turn.remembering.most) + ELSEWHERE]
    for place in sorted(best):
        yield Item(text=text_safety.line(told(turn, memories[place]), LONGEST), events=(memories[place].id,), worth=worth[place])


def salience(turn: Turn, memories: Sequence[Memory]) -> list[float]:
    """How much each memory matters now: weighed sums of how near, how recent and how important it is."""
    weights, near = turn.remembering.weights, nearness_of(turn, memories)
    return [
        weights.relevance * near[place] + weights.recency * _recency(weights, age) + weights.importance * importance_of(memory.kind)
        for place, (memory, age) in enumerate(zip(memories, ages_of(turn, memories), strict=True))
    ]


def nearness_of(turn: Turn, memories: Sequence[Memory]) -> list[float]:
    """What a search said; else by the words that a memory and what is going on have in common."""
    if turn.relevance is not None:
        return [turn.relevance.get(memory.id, 0.0) for memory in memories]
    query = telling_words(turn.query)
    shared = [0.0 if memory.id in turn.asking else _shared(query, telling_words(memory.text)) for memory in memories]
    highest = max(shared, default=0.0) or 1.0
    return [value / highest for value in shared]


def ages_of(turn: Turn, memories: Sequence[Memory]) -> list[float]:
    """How many turns ago each was; where turns are not counted, by how many memories are newer."""
    if turn.number:
        return [max(0.0, float(turn.number - memory.turn)) for memory in memories]
    return [(len(memories) - 1 - place) / EVENTS_A_TURN for place in range(len(memories))]


def importance_of(kind: str) -> float:
    """How important an event of a kind is, from 0 to 1."""
    if kind in IMPORTANCE:
        return IMPORTANCE[kind]
    payload = find(kind)
    return ORDINARY if payload is None else BEATS.get(payload.beat, ORDINARY)


def words_in(text: str) -> frozenset[str]:
    """The words of a text, without capitals and punctuation."""
    return frozenset(_WORD.findall(text.casefold()))


def telling_words(text: str) -> frozenset[str]:
    """The words of a text that tell something: short ones rarely do."""
    words = words_in(text)
    return frozenset(word for word in words if len(word) >= SHORTEST_WORD or not word.isascii()) or words


def _recency(weights: Weights, age: float) -> float:
    return exp(-weights.decay * age) if weights.decay > 0 else 1.0


def _shared(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one and other else 0.0


# --- in words


def told(turn: Turn, memory: Memory) -> str:
    """A memory in one line: when it was, who it was, what was said."""
    when, thought = _when(turn, memory), "" if memory.thought is None else memory.thought.text
    if memory.line is None:
        return f"{when}, you {'came to believe' if memory.kind == 'agent.reflected' else 'thought'}: {thought}"
    return f"{when}, {who(turn, memory.line)}: {memory.line.text}" + (f" (to yourself: {thought})" if thought else "")


def who(turn: Turn, line: Line) -> str:
    """Who said or did it, and how."""
    name = "you" if line.speaker == turn.agent else text_safety.name(line.speaker)
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
    return name if line.kind in SPEECH else f"{name} ({kind_in_words(line.kind)})"


def kind_in_words(kind: str) -> str:
    """A kind as it is read: `clue.found` is a clue found; of a known one the family goes without saying."""
    words = kind if find(kind) is None else kind.partition(".")[2]
    return words.replace(".", " ").replace("_", " ")


def _when(turn: Turn, memory: Memory) -> str:
    part = memory.line or memory.thought
    if memory.turn or part is None or turn.number:
        return f"turn {memory.turn}"
    return f"{part.at:%Y-%m-%d %H:%M}"
