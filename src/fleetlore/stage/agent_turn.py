"""One turn of one agent: builds its prompt and model request, and turns the answer into events. The conductor calls it."""

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
from fleetlore.stage.seeded_random import deal_hidden_role, draw_number
from fleetlore.stage.tools import STAGE_TOOLS, use_tool
from fleetlore.stage.verdicts import accusable_agents
from fleetlore.views.stage import is_reflection_due

# --- Answer format: in words for the prompt, and as a JSON schema for models that support one

_PASS_INSTRUCTION = 'If you have nothing new to add, answer {"pass": true}.'


def build_answer_schema(scenario: StageScenario, manifest: AgentManifest, purpose: str) -> dict[str, Any]:
    """The JSON schema of an answer; it depends on the purpose of the turn and the agent's tools."""
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
    """The answer format in words, for the prompt."""
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


# --- Turns

MAX_ANSWER_TOKENS = 600
MAX_SPEECH_LENGTH = 8000
_KINDS_WITH_THOUGHT = ("agent.spoke", "oracle.spoke")


class StageTurn(NamedTuple):
    """A turn to be taken: by whom, for what purpose, and up to which position the agent sees the log."""

    manifest: AgentManifest
    turn: int
    purpose: str
    cause: str | None
    as_of: str | None
    corrects: str | None = None


def choose_turn_purpose(state: RunState, recall: Recall, manifest: AgentManifest, as_of: str | None) -> str:
    """The purpose of a turn: `judge`, `reflect` or `speak`."""
    if manifest.role == JUDGE:
        return "judge"
    reflect_every = manifest.memory.reflect_every
    if reflect_every is None:
        return "speak"
    run = recall.load_run(state.run, as_of=as_of)
    return "reflect" if run is not None and is_reflection_due(run, manifest.name, reflect_every, manifest.subscribes_to) else "speak"


def build_turn_prompt(state: RunState, recall: Recall, stage_turn: StageTurn, settings: PromptSettings) -> BuiltPrompt:
    """Build the prompt from what the agent may know at the start of its round, nothing later. Raises `PromptTooLarge`."""
    manifest = stage_turn.manifest
    turn = recall.turn(
        manifest.name,
        run=state.run,
        as_of=stage_turn.as_of,
        number=stage_turn.turn,
        role=manifest.role,
        persona=_build_persona(state, manifest),
        subscribes_to=manifest.subscribes_to,
        remembering=MemoryPolicy(kind=manifest.memory.kind, most=manifest.memory.window, weights=settings.weights),
        extra=stage_turn.corrects or "",
        tools=[PromptTool(name=name, description=STAGE_TOOLS[name].description) for name in manifest.tools],
        output_format=describe_answer_format(state.scenario, manifest, stage_turn.purpose),
    )
    return build_prompt(turn, budget=settings.budget, tokenizer=settings.tokenizer)


def _build_persona(state: RunState, manifest: AgentManifest) -> str:
    """The persona; includes the hidden role, which only its bearer sees."""
    deal = state.scenario.competition.deal
    if deal is None or manifest.name not in deal.among:
        return manifest.persona
    secret = deal.told if manifest.name in deal_hidden_role(state.scenario, state.seed) else deal.others
    return f"{manifest.persona}\n\n{secret}" if secret else manifest.persona


def build_model_request(state: RunState, stage_turn: StageTurn, prompt: BuiltPrompt, timeout: float | None) -> ModelRequest:
    """The model request for a turn; its seed is derived from the run and the turn."""
    return ModelRequest(
        prompt=prompt.text,
        schema=build_answer_schema(state.scenario, stage_turn.manifest, stage_turn.purpose),
        max_tokens=MAX_ANSWER_TOKENS,
        timeout=timeout,
        seed=draw_number(state.seed, events.turn_id(state.run, stage_turn.turn, stage_turn.manifest.name)) % 2**31,
        role=JUDGE if stage_turn.purpose == "judge" else stage_turn.manifest.name,
    )


def build_script_context(state: RunState, call: StageModelCall) -> ScriptContext:
    """Everything a scripted agent's choice of a line depends on."""
    agent_state = state.agents[call.agent]
    return ScriptContext(
        scenario=state.scenario,
        manifest=state.scenario.find_agent(call.agent),
        seed=state.seed,
        turn=call.turn,
        purpose=call.purpose,
        turn_count=agent_state.turn_count,
        last=call.last,
        visitor=call.visitor,
        own_texts=tuple(agent_state.own_texts),
        spoken_lines=tuple(state.spoken_lines[: call.heard_count]),
        dealt=dict(deal_hidden_role(state.scenario, state.seed)),
    )


def build_answer_events(state: RunState, call: StageModelCall, data: Mapping[str, Any]) -> list[Event]:
    """The events for an answer; a `log.rejected` event if the agent may not emit it."""
    manifest = state.scenario.find_agent(call.agent)
    if call.purpose == "judge":
        return _build_verdict_events(state, call, data)
    if call.purpose == "reflect":
        return _build_speech_events(state, call, "agent.reflected", data, {})
    if data.get("pass") is True:
        return []
    kind = data.get("kind") or manifest.may_emit[0]
    if kind not in manifest.may_emit:
        return [events.answer_rejected(state, call, f"may not emit {str(kind)[:100]}; it may emit {', '.join(manifest.may_emit)}", data)]
    if kind == "judge.verdict":
        return _build_verdict_events(state, call, data)
    details = {"mood": _clean_text(data.get("mood"))} | (
        {"thought": _clean_text(data.get("thought"))} if kind in _KINDS_WITH_THOUGHT else {}
    )
    return [*_build_tool_events(state, call, manifest, data.get("use")), *_build_speech_events(state, call, kind, data, details)]


def _build_verdict_events(state: RunState, call: StageModelCall, data: Mapping[str, Any]) -> list[Event]:
    if data.get("pass") is True:
        return []
    verdict = verdicts.build_verdict(state.scenario, deal_hidden_role(state.scenario, state.seed), data)
    return _build_speech_events(state, call, "judge.verdict", data, verdict | {"mood": _clean_text(data.get("mood"))})


def _build_speech_events(
    state: RunState, call: StageModelCall, kind: str, data: Mapping[str, Any], details: Mapping[str, Any]
) -> list[Event]:
    text = _clean_text(data.get("text"))
    if text is None:
        return [events.answer_rejected(state, call, "said nothing: `text` is missing or no text", data)]
    return [events.agent_spoke(state, call, kind, text, details)]


def _build_tool_events(state: RunState, call: StageModelCall, manifest: AgentManifest, tool: Any) -> list[Event]:
    if not isinstance(tool, str) or not tool:
        return []
    outcome = use_tool(tool, events.turn_id(state.run, call.turn, call.agent)) if tool in manifest.tools else None
    return events.build_tool_events(state, call, tool, outcome)


def _clean_text(value: Any) -> str | None:
    """The text, stripped and truncated; `None` if there is none."""
    return value.strip()[:MAX_SPEECH_LENGTH] if isinstance(value, str) and value.strip() else None
