"""The prompter: says an agent's lines where no model is asked. The same run hears the same words, and no line comes twice."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from fleetlore.models.base import Ask, Reply, estimated_usage
from fleetlore.stage.run_state import Said
from fleetlore.stage.scenario import Line, Lines, Manifest, Scenario, Script
from fleetlore.stage.seeded_random import pick, shuffled
from fleetlore.stage.tools import draw

NAME = "scripted:stage"
SHORTEST_QUOTE, LONGEST_QUOTE = 18, 80
REPLIES_IN_TEN = 6
"""How often somebody answers the one before rather than saying what is on the mind anyway."""
RIGHT_IN_TEN = 6
"""How often a scripted judge finds the hidden role."""


class Cue(NamedTuple):
    """All that a line is chosen by."""

    scenario: Scenario
    manifest: Manifest
    seed: str
    turn: int
    purpose: str
    acts: int
    """Which of its turns this is, from one."""
    last: Said | None
    visitor: str | None
    own: tuple[str, ...]
    """What it said before."""
    said: tuple[Said, ...]
    """What all have heard, scenes among it."""
    dealt: dict[str, str]


class Prompter:
    """A mind for one turn of one agent."""

    name = NAME

    def __init__(self, cue: Cue) -> None:
        self._cue = cue

    async def reply(self, ask: Ask) -> Reply:
        """The line for this turn."""
        data = said(self._cue)
        text = msgspec.json.encode(data).decode()
        return Reply(text=text, data=data, usage=estimated_usage(ask, text), usd=0.0, model=NAME)


def said(cue: Cue) -> dict[str, Any]:
    """What is said, as the answer of a mind; `{"pass": true}` when there is nothing new to say."""
    if cue.purpose == "judge":
        return _ruling(cue)
    for lines in _pools(cue):
        for line in shuffled(lines, "line", cue.seed, cue.manifest.name):
            if _fits(line, cue) and not _was_said(line, cue.own):
                return _spoken(line, cue)
    return {"pass": True}


def _pools(cue: Cue) -> Iterator[Lines]:
    """From the most fitting lines to the least."""
    script = _script_of(cue)
    if cue.purpose == "reflect":
        yield script.reflections
        return
    if cue.visitor:
        yield script.disturbed
    if cue.acts <= 2 and not any(_was_said(line, cue.own) for line in script.opening):
        yield script.opening
    if _is_nearly_over(cue):
        yield script.closing
    everything = (*script.lines, *(line for lines in script.replies.values() for line in lines))
    yield tuple(line for line in everything if isinstance(line, Line) and line.answers)
    replies = script.replies.get(cue.last.speaker, ()) if cue.last else ()
    chance = draw("reply", cue.seed, cue.manifest.name, cue.turn) % 10
    yield from (replies, script.lines) if chance < REPLIES_IN_TEN else (script.lines, replies)


def _fits(line: Line | str, cue: Cue) -> bool:
    """Whether what a line speaks of has come up."""
    if isinstance(line, str):
        return True
    if line.answers is not None:
        scene = next((said.text for said in reversed(cue.said) if not said.speaker), "")
        return any(_holds(text, line.answers) for text in (cue.last.text if cue.last else "", scene))
    return line.after is None or any(_holds(said.text, line.after) for said in cue.said)


def _holds(text: str, words: str) -> bool:
    return words.casefold() in text.casefold()


def _script_of(cue: Cue) -> Script:
    """The usual script, with what a hidden role puts in its place."""
    usual = cue.manifest.script
    own = usual.dealt.get(cue.dealt.get(cue.manifest.name, ""))
    if own is None:
        return usual
    pools = ("opening", "lines", "replies", "disturbed", "closing", "reflections")
    return msgspec.structs.replace(usual, **{name: getattr(own, name) or getattr(usual, name) for name in pools})


def _is_nearly_over(cue: Cue) -> bool:
    last = cue.scenario.governor.max_turns - (1 if cue.scenario.judges else 0)
    return cue.turn >= last


def _was_said(line: Line | str, own: tuple[str, ...]) -> bool:
    pattern = _pattern(_text(line))
    return any(pattern.fullmatch(text) for text in own)


def _pattern(text: str) -> re.Pattern[str]:
    parts = (re.escape(words) + ("" if slot is None else ".*") for words, slot, _, _ in string.Formatter().parse(text))
    return re.compile("".join(parts), re.DOTALL)


def _text(line: Line | str) -> str:
    return line if isinstance(line, str) else line.text


def _spoken(line: Line | str, cue: Cue, **more: str) -> dict[str, Any]:
    slots = _slots(cue) | more
    if isinstance(line, str):
        return {"text": line.format(**slots)}
    data = {
        "text": line.text.format(**slots),
        "thought": line.thought and line.thought.format(**slots),
        "mood": line.mood,
        "use": line.use,
        "kind": line.kind,
    }
    return {name: value for name, value in data.items() if value is not None}


def _slots(cue: Cue) -> dict[str, str]:
    return {
        "seed": cue.seed,
        "goal": cue.scenario.goal or "",
        "self": cue.manifest.name,
        "last": cue.last.speaker if cue.last else "nobody",
        "quote": quoted(cue.last.text) if cue.last else "…",
        "visitor": quoted(cue.visitor or ""),
    }


def quoted(text: str) -> str:
    """The first sentence of a line that says something, short enough to be said within another."""
    text = " ".join(text.split())
    sentences = re.split(r"(?<=[.!?])\s", text)
    first = next((sentence for sentence in sentences if len(sentence) >= SHORTEST_QUOTE), sentences[0]).rstrip(".")
    if len(first) <= LONGEST_QUOTE:
        return first
    return first[:LONGEST_QUOTE].rsplit(" ", 1)[0].rstrip(" ,;:–") + "…"


# --- judges


def _ruling(cue: Cue) -> dict[str, Any]:
    """A verdict that the seed decides, with figures to match."""
    contest = cue.scenario.competition
    if contest.kind == "hidden":
        return _accusation(cue)
    options = tuple(contest.teams) or tuple(manifest.name for manifest in cue.scenario.players)
    winner = pick(options, "winner", cue.seed, cue.manifest.name)
    ruling = _verdict(cue, winner)
    if contest.kind == "none":
        return ruling
    return ruling | {"winner": winner, "scores": {name: _score(cue, name, is_winner=name == winner) for name in options}}


def _accusation(cue: Cue) -> dict[str, Any]:
    among = cue.scenario.competition.deal.among if cue.scenario.competition.deal else ()
    if draw("finds", cue.seed, cue.manifest.name) % 10 < RIGHT_IN_TEN:
        among = tuple(cue.dealt)
    accused = pick(among, "accused", cue.seed, cue.manifest.name)
    return _verdict(cue, accused) | {"accused": accused}


def _verdict(cue: Cue, about: str) -> dict[str, Any]:
    lines = cue.manifest.script.verdicts.get(about) or cue.manifest.script.lines or ("I find for {winner}.",)
    members = cue.scenario.competition.teams.get(about, (about,))
    words = [said.text for said in cue.said if said.speaker in members] or ["nothing at all"]
    wording = quoted(pick(words, "wording", cue.seed, about))
    return _spoken(pick(lines, "verdict", cue.seed, cue.manifest.name), cue, winner=about, wording=wording)


def _score(cue: Cue, name: str, *, is_winner: bool) -> float:
    base = 8 if is_winner else 4
    return base + draw("score", cue.seed, cue.manifest.name, name) % (4 if is_winner else 8) / 2
