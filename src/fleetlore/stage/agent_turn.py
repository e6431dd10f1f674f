"""One agent's turn: what it may know, the question, and what of the answer goes on the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fleetlore.events.envelope import Event
from fleetlore.models.base import Ask
from fleetlore.prompts.agent_context import Recall
from fleetlore.prompts.build import build
from fleetlore.prompts.parts import Prompt
from fleetlore.prompts.turn import Manner, Remembering, Tool
from fleetlore.stage import events, verdicts
from fleetlore.stage.run_state import Call, Play
from fleetlore.stage.scenario import JUDGE, Manifest, Scenario
from fleetlore.stage.scripted_agents import Cue
from fleetlore.stage.seeded_random import dealt
from fleetlore.stage.tools import TOOLS, draw, use
from fleetlore.stage.verdicts import accusable
from fleetlore.views.stage import is_reflection_due

# --- How an agent is to answer: the words for its prompt, and the same as a schema for those who can be held to one.

_PASS = 'If you have nothing new to add, answer {"pass": true}.'


def wanted(scenario: Scenario, manifest: Manifest, purpose: str) -> dict[str, Any]:
    """The schema of an answer."""
    if purpose == "judge":
        return _object(_ruling(scenario), ("text", *_named(scenario)))
    if purpose == "reflect":
        return _object({"text": {"type": "string"}}, ("text",))
    properties: dict[str, Any] = {
        "kind": {"type": "string"},
        "text": {"type": "string"},
        "thought": {"type": ["string", "null"]},
        "mood": {"type": ["string", "null"]},
        "pass": {"type": "boolean"},
    }
    if manifest.tools:
        properties["use"] = {"type": ["string", "null"]}
    return _object(properties, ())


def explained(scenario: Scenario, manifest: Manifest, purpose: str) -> str:
    """The same in words."""
    if purpose == "judge":
        return f"One JSON object: {_example(scenario)}. `text` is your ruling, two or three sentences.{_names(scenario)}"
    if purpose == "reflect":
        return 'One JSON object: {"text": "…"}. `text` is one short belief that you have come to, not something to say aloud.'
    kinds = [kind for kind in manifest.may_emit if kind not in ("agent.reflected", "judge.verdict")]
    use = f' You may add "use": one of {", ".join(manifest.tools)}.' if manifest.tools else ""
    kind = f" `kind` is one of {', '.join(kinds)}." if len(kinds) > 1 else ""
    return (
        f'One JSON object: {{"kind": "{kinds[0] if kinds else "agent.spoke"}", "text": "…", "thought": "…", "mood": "…"}}. '
        f"`text` is what you say aloud, one to three sentences; `thought` is what you think, and nobody else sees it.{kind}{use} {_PASS}"
    )


def _ruling(scenario: Scenario) -> dict[str, Any]:
    properties: dict[str, Any] = {"text": {"type": "string"}, "mood": {"type": ["string", "null"]}}
    for name in _named(scenario):
        properties[name] = {"type": "string"}
    if scenario.competition.kind in ("judged", "versus"):
        properties["scores"] = {"type": "object", "additionalProperties": {"type": "number"}}
    return properties


def _named(scenario: Scenario) -> tuple[str, ...]:
    """What a verdict has to name."""
    return {"none": (), "hidden": ("accused",)}.get(scenario.competition.kind, ("winner",))


def _example(scenario: Scenario) -> str:
    match scenario.competition.kind:
        case "none":
            return '{"text": "…"}'
        case "hidden":
            return '{"text": "…", "accused": "NAME"}'
    return '{"text": "…", "winner": "NAME", "scores": {"NAME": 7.5}}'


def _names(scenario: Scenario) -> str:
    match scenario.competition.kind:
        case "none":
            return ""
        case "hidden":
            return f" `accused` is exactly one of: {', '.join(accusable(scenario))}."
    return f" `winner` is exactly one of: {', '.join(scenario.candidates)}. `scores` go from 0 to 10."


def _object(properties: dict[str, Any], required: tuple[str, ...]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


# ---

MOST_TOKENS = 600
LONGEST_SPEECH = 8000
_WITH_THOUGHT = ("agent.spoke", "oracle.spoke")


class Errand(NamedTuple):
    """A turn that is to be taken: whose, why, and on what ground."""

    manifest: Manifest
    turn: int
    purpose: str
    cause: str | None
    as_of: str | None
    corrects: str | None = None


def purpose_of(play: Play, recall: Recall, manifest: Manifest, as_of: str | None) -> str:
    """What a turn is for: to rule, to come to a belief, or to speak."""
    if manifest.role == JUDGE:
        return "judge"
    every = manifest.memory.reflect_every
    if every is None:
        return "speak"
    run = recall.run(play.run, as_of=as_of)
    return "reflect" if run is not None and is_reflection_due(run, manifest.name, every, manifest.subscribes_to) else "speak"


def prompt_for(play: Play, recall: Recall, errand: Errand, manner: Manner) -> Prompt:
    """What the agent is shown: what it may know up to the beginning of its round, and nothing later."""
    manifest = errand.manifest
    turn = recall.turn(
        manifest.name,
        run=play.run,
        as_of=errand.as_of,
        number=errand.turn,
        role=manifest.role,
        persona=_identity(play, manifest),
        subscribes_to=manifest.subscribes_to,
        remembering=Remembering(kind=manifest.memory.kind, most=manifest.memory.window, weights=manner.weights),
        extra=errand.corrects or "",
        tools=[Tool(name=name, description=TOOLS[name].about) for name in manifest.tools],
        output_format=explained(play.scenario, manifest, errand.purpose),
    )
    return build(turn, budget=manner.budget, tokenizer=manner.tokenizer)


def _identity(play: Play, manifest: Manifest) -> str:
    """Who it is; a hidden role is part of that, and is told to nobody else."""
    deal = play.scenario.competition.deal
    if deal is None or manifest.name not in deal.among:
        return manifest.persona
    secret = deal.told if manifest.name in dealt(play.scenario, play.seed) else deal.others
    return f"{manifest.persona}\n\n{secret}" if secret else manifest.persona


def ask_for(play: Play, errand: Errand, prompt: Prompt, timeout: float | None) -> Ask:
    """The question."""
    return Ask(
        prompt=prompt.text,
        schema=wanted(play.scenario, errand.manifest, errand.purpose),
        max_tokens=MOST_TOKENS,
        timeout=timeout,
        seed=draw(play.seed, events.turn_id(play.run, errand.turn, errand.manifest.name)) % 2**31,
        role=JUDGE if errand.purpose == "judge" else errand.manifest.name,
    )


def cue_for(play: Play, call: Call) -> Cue:
    """What the prompter goes by."""
    seat = play.seats[call.agent]
    return Cue(
        scenario=play.scenario,
        manifest=play.scenario.find(call.agent),
        seed=play.seed,
        turn=call.turn,
        purpose=call.purpose,
        acts=seat.acts,
        last=call.last,
        visitor=call.visitor,
        own=tuple(seat.own),
        said=tuple(play.said[: call.heard]),
        dealt=dict(dealt(play.scenario, play.seed)),
    )


def told(play: Play, call: Call, data: Mapping[str, Any]) -> list[Event]:
    """What an answer puts on the log; what its agent may not say is refused, and that is told instead."""
    manifest = play.scenario.find(call.agent)
    if call.purpose == "judge":
        return _ruled(play, call, data)
    if call.purpose == "reflect":
        return _one_line(play, call, "agent.reflected", data, {})
    if data.get("pass") is True:
        return []
    kind = data.get("kind") or manifest.may_emit[0]
    if kind not in manifest.may_emit:
        return [events.rejected(play, call, f"may not emit {str(kind)[:100]}; it may emit {', '.join(manifest.may_emit)}", data)]
    if kind == "judge.verdict":
        return _ruled(play, call, data)
    more = {"mood": _word(data.get("mood"))} | ({"thought": _word(data.get("thought"))} if kind in _WITH_THOUGHT else {})
    return [*_reached_for(play, call, manifest, data.get("use")), *_one_line(play, call, kind, data, more)]


def _ruled(play: Play, call: Call, data: Mapping[str, Any]) -> list[Event]:
    if data.get("pass") is True:
        return []
    verdict = verdicts.verdict_of(play.scenario, dealt(play.scenario, play.seed), data)
    return _one_line(play, call, "judge.verdict", data, verdict | {"mood": _word(data.get("mood"))})


def _one_line(play: Play, call: Call, kind: str, data: Mapping[str, Any], more: Mapping[str, Any]) -> list[Event]:
    text = _word(data.get("text"))
    if text is None:
        return [events.rejected(play, call, "said nothing: `text` is missing or no text", data)]
    return [events.spoken(play, call, kind, text, more)]


def _reached_for(play: Play, call: Call, manifest: Manifest, tool: Any) -> list[Event]:
    if not isinstance(tool, str) or not tool:
        return []
    outcome = use(tool, events.turn_id(play.run, call.turn, call.agent)) if tool in manifest.tools else None
    return events.used(play, call, tool, outcome)


def _word(value: Any) -> str | None:
    """Words, or none."""
    return value.strip()[:LONGEST_SPEECH] if isinstance(value, str) and value.strip() else None
