"""A model that answers from an agent's script. Deterministic: the same run gets the same lines, and no line is repeated."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from fleetlore.models.base import ModelReply, ModelRequest, estimate_usage
from fleetlore.stage.run_state import SpokenLine
from fleetlore.stage.scenario import AgentManifest, AgentScript, ScriptLine, ScriptLines, StageScenario
from fleetlore.stage.seeded_random import draw_number, pick_option, shuffle_options

SCRIPTED_MODEL_NAME = "scripted:stage"
MIN_QUOTE_LENGTH, MAX_QUOTE_LENGTH = 18, 80
REPLIES_IN_TEN = 6
"""How often, in ten turns, an agent replies to the last speaker instead of saying one of its own lines."""
CORRECT_IN_TEN = 6
"""How often, in ten runs, a scripted judge finds the hidden role."""


class ScriptContext(NamedTuple):
    """Everything that the choice of a line depends on."""

    scenario: StageScenario
    manifest: AgentManifest
    seed: str
    turn: int
    purpose: str
    turn_count: int
    """Number of turns it took, including this one."""
    last: SpokenLine | None
    visitor: str | None
    own_texts: tuple[str, ...]
    """What it said before."""
    spoken_lines: tuple[SpokenLine, ...]
    """All public lines so far, including scenes."""
    dealt: dict[str, str]


class ScriptedAgentModel:
    """A model for one turn of one agent."""

    name = SCRIPTED_MODEL_NAME

    def __init__(self, context: ScriptContext) -> None:
        self._context = context

    async def reply(self, request: ModelRequest) -> ModelReply:
        """The line for this turn; costs nothing."""
        data = choose_answer(self._context)
        text = msgspec.json.encode(data).decode()
        return ModelReply(text=text, data=data, usage=estimate_usage(request, text), usd=0.0, model=SCRIPTED_MODEL_NAME)


def choose_answer(context: ScriptContext) -> dict[str, Any]:
    """The agent's answer; `{"pass": true}` if it has nothing new to say."""
    if context.purpose == "judge":
        return _build_ruling(context)
    for lines in _line_pools(context):
        for line in shuffle_options(lines, "line", context.seed, context.manifest.name):
            if _is_applicable(line, context) and not _was_said(line, context.own_texts):
                return _render_line(line, context)
    return {"pass": True}


def _line_pools(context: ScriptContext) -> Iterator[ScriptLines]:
    """Pools of lines, the most fitting first."""
    script = _effective_script(context)
    if context.purpose == "reflect":
        yield script.reflections
        return
    if context.visitor:
        yield script.disturbed
    if context.turn_count <= 2 and not any(_was_said(line, context.own_texts) for line in script.opening):
        yield script.opening
    if _is_nearly_over(context):
        yield script.closing
    everything = (*script.lines, *(line for lines in script.replies.values() for line in lines))
    yield tuple(line for line in everything if isinstance(line, ScriptLine) and line.answers)
    replies = script.replies.get(context.last.speaker, ()) if context.last else ()
    chance = draw_number("reply", context.seed, context.manifest.name, context.turn) % 10
    yield from (replies, script.lines) if chance < REPLIES_IN_TEN else (script.lines, replies)


def _is_applicable(line: ScriptLine | str, context: ScriptContext) -> bool:
    """Whether the line's condition (`answers` or `after`) is met."""
    if isinstance(line, str):
        return True
    if line.answers is not None:
        scene = next((spoken.text for spoken in reversed(context.spoken_lines) if not spoken.speaker), "")
        return any(_contains_words(text, line.answers) for text in (context.last.text if context.last else "", scene))
    return line.after is None or any(_contains_words(spoken.text, line.after) for spoken in context.spoken_lines)


def _contains_words(text: str, words: str) -> bool:
    return words.casefold() in text.casefold()


def _effective_script(context: ScriptContext) -> AgentScript:
    """The agent's script, overridden by that of its hidden role."""
    script = context.manifest.script
    role_script = script.dealt.get(context.dealt.get(context.manifest.name, ""))
    if role_script is None:
        return script
    pools = ("opening", "lines", "replies", "disturbed", "closing", "reflections")
    return msgspec.structs.replace(script, **{name: getattr(role_script, name) or getattr(script, name) for name in pools})


def _is_nearly_over(context: ScriptContext) -> bool:
    last_turn = context.scenario.governor.max_turns - (1 if context.scenario.judges else 0)
    return context.turn >= last_turn


def _was_said(line: ScriptLine | str, own_texts: tuple[str, ...]) -> bool:
    pattern = _line_pattern(_line_text(line))
    return any(pattern.fullmatch(text) for text in own_texts)


def _line_pattern(text: str) -> re.Pattern[str]:
    parts = (re.escape(words) + ("" if slot is None else ".*") for words, slot, _, _ in string.Formatter().parse(text))
    return re.compile("".join(parts), re.DOTALL)


def _line_text(line: ScriptLine | str) -> str:
    return line if isinstance(line, str) else line.text


def _render_line(line: ScriptLine | str, context: ScriptContext, **extra: str) -> dict[str, Any]:
    slots = _slot_values(context) | extra
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


def _slot_values(context: ScriptContext) -> dict[str, str]:
    return {
        "seed": context.seed,
        "goal": context.scenario.goal or "",
        "self": context.manifest.name,
        "last": context.last.speaker if context.last else "nobody",
        "quote": shorten_quote(context.last.text) if context.last else "…",
        "visitor": shorten_quote(context.visitor or ""),
    }


def shorten_quote(text: str) -> str:
    """The first meaningful sentence of a text, short enough to be quoted in a line."""
    text = " ".join(text.split())
    sentences = re.split(r"(?<=[.!?])\s", text)
    first = next((sentence for sentence in sentences if len(sentence) >= MIN_QUOTE_LENGTH), sentences[0]).rstrip(".")
    if len(first) <= MAX_QUOTE_LENGTH:
        return first
    return first[:MAX_QUOTE_LENGTH].rsplit(" ", 1)[0].rstrip(" ,;:–") + "…"


# --- judges


def _build_ruling(context: ScriptContext) -> dict[str, Any]:
    """A verdict decided by the seed, with matching scores."""
    competition = context.scenario.competition
    if competition.kind == "hidden":
        return _build_accusation(context)
    options = tuple(competition.teams) or tuple(manifest.name for manifest in context.scenario.players)
    winner = pick_option(options, "winner", context.seed, context.manifest.name)
    ruling = _build_verdict(context, winner)
    if competition.kind == "none":
        return ruling
    return ruling | {"winner": winner, "scores": {name: _score_candidate(context, name, is_winner=name == winner) for name in options}}


def _build_accusation(context: ScriptContext) -> dict[str, Any]:
    among = context.scenario.competition.deal.among if context.scenario.competition.deal else ()
    if draw_number("finds", context.seed, context.manifest.name) % 10 < CORRECT_IN_TEN:
        among = tuple(context.dealt)
    accused = pick_option(among, "accused", context.seed, context.manifest.name)
    return _build_verdict(context, accused) | {"accused": accused}


def _build_verdict(context: ScriptContext, name: str) -> dict[str, Any]:
    lines = context.manifest.script.verdicts.get(name) or context.manifest.script.lines or ("I find for {winner}.",)
    members = context.scenario.competition.teams.get(name, (name,))
    texts = [spoken.text for spoken in context.spoken_lines if spoken.speaker in members] or ["nothing at all"]
    wording = shorten_quote(pick_option(texts, "wording", context.seed, name))
    return _render_line(pick_option(lines, "verdict", context.seed, context.manifest.name), context, winner=name, wording=wording)


def _score_candidate(context: ScriptContext, name: str, *, is_winner: bool) -> float:
    base = 8 if is_winner else 4
    return base + draw_number("score", context.seed, context.manifest.name, name) % (4 if is_winner else 8) / 2
