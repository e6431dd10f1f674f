"""One agent's turn: what it may know, the question, and what of the answer goes on the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fleetlore.events.envelope import Event
from fleetlore.models.base import ModelRequest
from fleetlore.prompts.agent_context import Recall
from fleetlore.prompts.build import build_prompt
from fleetlore.prompts.parts import BuiltPrompt
from fleetlore.prompts.turn import MemoryPolicy, PromptSettings, PromptTool
from fleetlore.stage import events, verdicts
from fleetlore.stage.run_state import RunState, StageModelCall
from fleetlore.stage.scenario import JUDGE, AgentManifest, StageScenario
from fleetlore.stage.scripted_agents import ScriptContext
from fleetlore.stage.seeded_random import deal_hidden_role
from fleetlore.stage.tools import STAGE_TOOLS, draw_number, use_tool
from fleetlore.stage.verdicts import accusable_agents
from fleetlore.views.stage import is_reflection_due

# --- How an agent is to answer: the words for its prompt, and the same as a schema for those who can be held to one.

_PASS_INSTRUCTION = 'If you have nothing new to add, answer {"pass": true}.'


def build_answer_schema(scenario: StageScenario, manifest: AgentManifest, purpose: str) -> dict[str, Any]:
    """The schema of an answer."""
    if purpose == "judge":
        return _object_schema(_verdict_properties(scenario), ("text", *_required_verdict_fields(scenario)))
    if purpose == "reflect":
        return _object_schema({"text": {"type": "string"}}, ("text",))
    properties: dict[str, Any] = {
        "kind": {"type": "string"},
        "text": {"type": "string"},
        "thought": {"type": ["string", "null"]},
        "mood": {"type": ["string", "null"]},
        "pass": {"type": "boolean"},
    }
    if manifest.tools:
        properties["use"] = {"type": ["string", "null"]}
    return _object_schema(properties, ())


def describe_answer_format(scenario: StageScenario, manifest: AgentManifest, purpose: str) -> str:
    """The same in words."""
    if purpose == "judge":
        return (
            f"One JSON object: {_verdict_example(scenario)}. `text` is your ruling, two or three sentences."
            f"{_describe_verdict_names(scenario)}"
        )
    if purpose == "reflect":
        return 'One JSON object: {"text": "…"}. `text` is one short belief that you have come to, not something to say aloud.'
    kinds = [kind for kind in manifest.may_emit if kind not in ("agent.reflected", "judge.verdict")]
    use = f' You may add "use": one of {", ".join(manifest.tools)}.' if manifest.tools else ""
    kind = f" `kind` is one of {', '.join(kinds)}." if len(kinds) > 1 else ""
    return (
        f'One JSON object: {{"kind": "{kinds[0] if kinds else "agent.spoke"}", "text": "…", "thought": "…", "mood": "…"}}. '
        f"`text` is what you say aloud, one to three sentences; `thought` is what you think, and nobody else sees it."
        f"{kind}{use} {_PASS_INSTRUCTION}"
    )


def _verdict_properties(scenario: StageScenario) -> dict[str, Any]:
    properties: dict[str, Any] = {"text": {"type": "string"}, "mood": {"type": ["string", "null"]}}
    for name in _required_verdict_fields(scenario):
        properties[name] = {"type": "string"}
    if scenario.competition.kind in ("judged", "versus"):
        properties["scores"] = {"type": "object", "additionalProperties": {"type": "number"}}
    return properties


def _required_verdict_fields(scenario: StageScenario) -> tuple[str, ...]:
    """What a verdict has to name."""
    return {"none": (), "hidden": ("accused",)}.get(scenario.competition.kind, ("winner",))


def _verdict_example(scenario: StageScenario) -> str:
    match scenario.competition.kind:
        case "none":
            return '{"text": "…"}'
        case "hidden":
            return '{"text": "…", "accused": "NAME"}'
    return '{"text": "…", "winner": "NAME", "scores": {"NAME": 7.5}}'


def _describe_verdict_names(scenario: StageScenario) -> str:
    match scenario.competition.kind:
        case "none":
            return ""
        case "hidden":
            return f" `accused` is exactly one of: {', '.join(accusable_agents(scenario))}."
    return f" `winner` is exactly one of: {', '.join(scenario.candidates)}. `scores` go from 0 to 10."


def _object_schema(properties: dict[str, Any], required: tuple[str, ...]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


# ---

MAX_ANSWER_TOKENS = 600
MAX_SPEECH_LENGTH = 8000
_KINDS_WITH_THOUGHT = ("agent.spoke", "oracle.spoke")


class StageTurn(NamedTuple):
    """A turn that is to be taken: whose, why, and on what ground."""

    manifest: AgentManifest
    turn: int
    purpose: str
    cause: str | None
    as_of: str | None
    corrects: str | None = None


def choose_turn_purpose(play: RunState, recall: Recall, manifest: AgentManifest, as_of: str | None) -> str:
    """What a turn is for: to rule, to come to a belief, or to speak."""
    if manifest.role == JUDGE:
        return "judge"
    every = manifest.memory.reflect_every
    if every is None:
        return "speak"
    run = recall.load_run(play.run, as_of=as_of)
    return "reflect" if run is not None and is_reflection_due(run, manifest.name, every, manifest.subscribes_to) else "speak"


def build_turn_prompt(play: RunState, recall: Recall, errand: StageTurn, manner: PromptSettings) -> BuiltPrompt:
    """What the agent is shown: what it may know up to the beginning of its round, and nothing later."""
    manifest = errand.manifest
    turn = recall.turn(
        manifest.name,
        run=play.run,
        as_of=errand.as_of,
        number=errand.turn,
        role=manifest.role,
        persona=_build_persona(play, manifest),
        subscribes_to=manifest.subscribes_to,
        remembering=MemoryPolicy(kind=manifest.memory.kind, most=manifest.memory.window, weights=manner.weights),
        extra=errand.corrects or "",
        tools=[PromptTool(name=name, description=STAGE_TOOLS[name].description) for name in manifest.tools],
        output_format=describe_answer_format(play.scenario, manifest, errand.purpose),
    )
    return build_prompt(turn, budget=manner.budget, tokenizer=manner.tokenizer)


def _build_persona(play: RunState, manifest: AgentManifest) -> str:
    """Who it is; a hidden role is part of that, and is told to nobody else."""
    deal = play.scenario.competition.deal
    if deal is None or manifest.name not in deal.among:
        return manifest.persona
    secret = deal.told if manifest.name in deal_hidden_role(play.scenario, play.seed) else deal.others
    return f"{manifest.persona}\n\n{secret}" if secret else manifest.persona


def build_model_request(play: RunState, errand: StageTurn, prompt: BuiltPrompt, timeout: float | None) -> ModelRequest:
    """The question."""
    return ModelRequest(
        prompt=prompt.text,
        schema=build_answer_schema(play.scenario, errand.manifest, errand.purpose),
        max_tokens=MAX_ANSWER_TOKENS,
        timeout=timeout,
        seed=draw_number(play.seed, events.turn_id(play.run, errand.turn, errand.manifest.name)) % 2**31,
        role=JUDGE if errand.purpose == "judge" else errand.manifest.name,
    )


def build_script_context(play: RunState, call: StageModelCall) -> ScriptContext:
    """What the prompter goes by."""
    seat = play.agents[call.agent]
    return ScriptContext(
        scenario=play.scenario,
        manifest=play.scenario.find_agent(call.agent),
        seed=play.seed,
        turn=call.turn,
        purpose=call.purpose,
        acts=seat.turn_count,
        last=call.last,
        visitor=call.visitor,
        own=tuple(seat.own_texts),
        said=tuple(play.spoken_lines[: call.heard_count]),
        dealt=dict(deal_hidden_role(play.scenario, play.seed)),
    )


def build_answer_events(play: RunState, call: StageModelCall, data: Mapping[str, Any]) -> list[Event]:
    """What an answer puts on the log; what its agent may not say is refused, and that is told instead."""
    manifest = play.scenario.find_agent(call.agent)
    if call.purpose == "judge":
        return _build_verdict_events(play, call, data)
    if call.purpose == "reflect":
        return _build_speech_events(play, call, "agent.reflected", data, {})
    if data.get("pass") is True:
        return []
    kind = data.get("kind") or manifest.may_emit[0]
    if kind not in manifest.may_emit:
        return [events.answer_rejected(play, call, f"may not emit {str(kind)[:100]}; it may emit {', '.join(manifest.may_emit)}", data)]
    if kind == "judge.verdict":
        return _build_verdict_events(play, call, data)
    more = {"mood": _clean_text(data.get("mood"))} | ({"thought": _clean_text(data.get("thought"))} if kind in _KINDS_WITH_THOUGHT else {})
    return [*_build_tool_events(play, call, manifest, data.get("use")), *_build_speech_events(play, call, kind, data, more)]


def _build_verdict_events(play: RunState, call: StageModelCall, data: Mapping[str, Any]) -> list[Event]:
    if data.get("pass") is True:
        return []
    verdict = verdicts.build_verdict(play.scenario, deal_hidden_role(play.scenario, play.seed), data)
    return _build_speech_events(play, call, "judge.verdict", data, verdict | {"mood": _clean_text(data.get("mood"))})


def _build_speech_events(play: RunState, call: StageModelCall, kind: str, data: Mapping[str, Any], more: Mapping[str, Any]) -> list[Event]:
    text = _clean_text(data.get("text"))
    if text is None:
        return [events.answer_rejected(play, call, "said nothing: `text` is missing or no text", data)]
    return [events.agent_spoke(play, call, kind, text, more)]


def _build_tool_events(play: RunState, call: StageModelCall, manifest: AgentManifest, tool: Any) -> list[Event]:
    if not isinstance(tool, str) or not tool:
        return []
    outcome = use_tool(tool, events.turn_id(play.run, call.turn, call.agent)) if tool in manifest.tools else None
    return events.build_tool_events(play, call, tool, outcome)


def _clean_text(value: Any) -> str | None:
    """Words, or none."""
    return value.strip()[:MAX_SPEECH_LENGTH] if isinstance(value, str) and value.strip() else None
