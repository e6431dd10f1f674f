"""The prompter: says an agent's lines where no model is asked. The same run hears the same words, and no line comes twice."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from fleetlore.models.base import ModelReply, ModelRequest, estimate_usage
from fleetlore.stage.run_state import SpokenLine
from fleetlore.stage.scenario import AgentManifest, AgentScript, ScriptLine, ScriptLines, StageScenario
from fleetlore.stage.seeded_random import pick_option, shuffle_options
from fleetlore.stage.tools import draw_number

SCRIPTED_MODEL_NAME = "scripted:stage"
MIN_QUOTE_LENGTH, MAX_QUOTE_LENGTH = 18, 80
REPLIES_IN_TEN = 6
"""How often somebody answers the one before rather than saying what is on the mind anyway."""
CORRECT_IN_TEN = 6
"""How often a scripted judge finds the hidden role."""


class ScriptContext(NamedTuple):
    """All that a line is chosen by."""

    scenario: StageScenario
    manifest: AgentManifest
    seed: str
    turn: int
    purpose: str
    acts: int
    """Which of its turns this is, from one."""
    last: SpokenLine | None
    visitor: str | None
    own: tuple[str, ...]
    """What it said before."""
    said: tuple[SpokenLine, ...]
    """What all have heard, scenes among it."""
    dealt: dict[str, str]


class ScriptedAgentModel:
    """A mind for one turn of one agent."""

    name = SCRIPTED_MODEL_NAME

    def __init__(self, cue: ScriptContext) -> None:
        self._context = cue

    async def reply(self, ask: ModelRequest) -> ModelReply:
        """The line for this turn."""
        data = choose_answer(self._context)
        text = msgspec.json.encode(data).decode()
        return ModelReply(text=text, data=data, usage=estimate_usage(ask, text), usd=0.0, model=SCRIPTED_MODEL_NAME)


def choose_answer(cue: ScriptContext) -> dict[str, Any]:
    """What is said, as the answer of a mind; `{"pass": true}` when there is nothing new to say."""
    if cue.purpose == "judge":
        return _build_ruling(cue)
    for lines in _line_pools(cue):
        for line in shuffle_options(lines, "line", cue.seed, cue.manifest.name):
            if _is_applicable(line, cue) and not _was_said(line, cue.own):
                return _render_line(line, cue)
    return {"pass": True}


def _line_pools(cue: ScriptContext) -> Iterator[ScriptLines]:
    """From the most fitting lines to the least."""
    script = _effective_script(cue)
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
    yield tuple(line for line in everything if isinstance(line, ScriptLine) and line.answers)
    replies = script.replies.get(cue.last.speaker, ()) if cue.last else ()
    chance = draw_number("reply", cue.seed, cue.manifest.name, cue.turn) % 10
    yield from (replies, script.lines) if chance < REPLIES_IN_TEN else (script.lines, replies)


def _is_applicable(line: ScriptLine | str, cue: ScriptContext) -> bool:
    """Whether what a line speaks of has come up."""
    if isinstance(line, str):
        return True
    if line.answers is not None:
        scene = next((said.text for said in reversed(cue.said) if not said.speaker), "")
        return any(_contains_words(text, line.answers) for text in (cue.last.text if cue.last else "", scene))
    return line.after is None or any(_contains_words(said.text, line.after) for said in cue.said)


def _contains_words(text: str, words: str) -> bool:
    return words.casefold() in text.casefold()


def _effective_script(cue: ScriptContext) -> AgentScript:
    """The usual script, with what a hidden role puts in its place."""
    usual = cue.manifest.script
    own = usual.dealt.get(cue.dealt.get(cue.manifest.name, ""))
    if own is None:
        return usual
    pools = ("opening", "lines", "replies", "disturbed", "closing", "reflections")
    return msgspec.structs.replace(usual, **{name: getattr(own, name) or getattr(usual, name) for name in pools})


def _is_nearly_over(cue: ScriptContext) -> bool:
    last = cue.scenario.governor.max_turns - (1 if cue.scenario.judges else 0)
    return cue.turn >= last


def _was_said(line: ScriptLine | str, own: tuple[str, ...]) -> bool:
    pattern = _line_pattern(_line_text(line))
    return any(pattern.fullmatch(text) for text in own)


def _line_pattern(text: str) -> re.Pattern[str]:
    parts = (re.escape(words) + ("" if slot is None else ".*") for words, slot, _, _ in string.Formatter().parse(text))
    return re.compile("".join(parts), re.DOTALL)


def _line_text(line: ScriptLine | str) -> str:
    return line if isinstance(line, str) else line.text


def _render_line(line: ScriptLine | str, cue: ScriptContext, **more: str) -> dict[str, Any]:
    slots = _slot_values(cue) | more
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


def _slot_values(cue: ScriptContext) -> dict[str, str]:
    return {
        "seed": cue.seed,
        "goal": cue.scenario.goal or "",
        "self": cue.manifest.name,
        "last": cue.last.speaker if cue.last else "nobody",
        "quote": shorten_quote(cue.last.text) if cue.last else "…",
        "visitor": shorten_quote(cue.visitor or ""),
    }


def shorten_quote(text: str) -> str:
    """The first sentence of a line that says something, short enough to be said within another."""
    text = " ".join(text.split())
    sentences = re.split(r"(?<=[.!?])\s", text)
    first = next((sentence for sentence in sentences if len(sentence) >= MIN_QUOTE_LENGTH), sentences[0]).rstrip(".")
    if len(first) <= MAX_QUOTE_LENGTH:
        return first
    return first[:MAX_QUOTE_LENGTH].rsplit(" ", 1)[0].rstrip(" ,;:–") + "…"


# --- judges


def _build_ruling(cue: ScriptContext) -> dict[str, Any]:
    """A verdict that the seed decides, with figures to match."""
    contest = cue.scenario.competition
    if contest.kind == "hidden":
        return _build_accusation(cue)
    options = tuple(contest.teams) or tuple(manifest.name for manifest in cue.scenario.players)
    winner = pick_option(options, "winner", cue.seed, cue.manifest.name)
    ruling = _build_verdict(cue, winner)
    if contest.kind == "none":
        return ruling
    return ruling | {"winner": winner, "scores": {name: _score_candidate(cue, name, is_winner=name == winner) for name in options}}


def _build_accusation(cue: ScriptContext) -> dict[str, Any]:
    among = cue.scenario.competition.deal.among if cue.scenario.competition.deal else ()
    if draw_number("finds", cue.seed, cue.manifest.name) % 10 < CORRECT_IN_TEN:
        among = tuple(cue.dealt)
    accused = pick_option(among, "accused", cue.seed, cue.manifest.name)
    return _build_verdict(cue, accused) | {"accused": accused}


def _build_verdict(cue: ScriptContext, about: str) -> dict[str, Any]:
    lines = cue.manifest.script.verdicts.get(about) or cue.manifest.script.lines or ("I find for {winner}.",)
    members = cue.scenario.competition.teams.get(about, (about,))
    words = [said.text for said in cue.said if said.speaker in members] or ["nothing at all"]
    wording = shorten_quote(pick_option(words, "wording", cue.seed, about))
    return _render_line(pick_option(lines, "verdict", cue.seed, cue.manifest.name), cue, winner=about, wording=wording)


def _score_candidate(cue: ScriptContext, name: str, *, is_winner: bool) -> float:
    base = 8 if is_winner else 4
    return base + draw_number("score", cue.seed, cue.manifest.name, name) % (4 if is_winner else 8) / 2
