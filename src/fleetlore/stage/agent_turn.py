"""One turn of one agent: builds its prompt and model request, and turns the answer into events. The conductor calls it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from fleetlore.events.envelope import Event
from fleetlore.models.base import ModelRequest
from fleetlore.prompts.agent_context import Recall
from fleetlore.prompts.build import BuiltPrompt, build_prompt
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

PASS = "pass"
"""The `kind` of an answer that says nothing."""
_PASS_INSTRUCTION = f'If you have nothing new to add, answer with the kind "{PASS}" and an empty text.'
_NULLABLE_TEXT = {"type": ["string", "null"]}


def build_answer_schema(scenario: StageScenario, manifest: AgentManifest, purpose: str) -> dict[str, Any]:
    """The JSON schema of an answer. It allows nothing that would be refused: kinds and names are enumerated."""
    if purpose == "judge":
        return _object_schema(_verdict_properties(scenario), ("text", *_required_verdict_fields(scenario)))
    if purpose == "reflect":
        return _object_schema({"text": {"type": "string"}}, ("text",))
    properties: dict[str, Any] = {
        "kind": {"type": "string", "enum": [*_spoken_kinds(manifest), PASS]},
        "text": {"type": "string"},
        "thought": _NULLABLE_TEXT,
        "mood": _NULLABLE_TEXT,
    }
    if manifest.tools:
        properties["use"] = {"type": ["string", "null"], "enum": [*manifest.tools, None]}
    return _object_schema(properties, ("kind", "text"))


def describe_answer_format(scenario: StageScenario, manifest: AgentManifest, purpose: str) -> str:
    """The answer format in words, for the prompt."""
    if purpose == "judge":
        return (
            f"One JSON object: {_verdict_example(scenario)}. `text` is your ruling, two or three sentences."
            f"{_describe_verdict_names(scenario)}"
        )
    if purpose == "reflect":
        return 'One JSON object: {"text": "…"}. `text` is one short belief that you have come to, not something to say aloud.'
    kinds = _spoken_kinds(manifest)
    use = f' You may add "use": one of {", ".join(manifest.tools)}.' if manifest.tools else ""
    kind = f" `kind` is one of {', '.join(kinds)}." if len(kinds) > 1 else ""
    return (
        f'One JSON object: {{"kind": "{kinds[0]}", "text": "…", "thought": "…", "mood": "…"}}. '
        f"`text` is what you say aloud, one to three sentences; `thought` is what you think, and nobody else sees it."
        f"{kind}{use} {_PASS_INSTRUCTION}"
    )


def _spoken_kinds(manifest: AgentManifest) -> list[str]:
    return [kind for kind in manifest.may_emit if kind not in ("agent.reflected", "judge.verdict")] or ["agent.spoke"]


def _verdict_properties(scenario: StageScenario) -> dict[str, Any]:
    properties: dict[str, Any] = {"text": {"type": "string"}, "mood": _NULLABLE_TEXT}
    match scenario.competition.kind:
        case "hidden":
            properties["accused"] = {"type": "string", "enum": list(accusable_agents(scenario))}
        case "judged" | "versus":
            properties["winner"] = {"type": "string", "enum": list(scenario.candidates)}
            scores = {name: {"type": ["number", "null"], "minimum": 0, "maximum": verdicts.MAX_SCORE} for name in scenario.candidates}
            properties["scores"] = _object_schema(scores, ()) | {"type": ["object", "null"]}
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
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


# --- Turns

MAX_ANSWER_TOKENS = 600
MAX_SPEECH_LENGTH = 8000
MIN_PLAIN_LENGTH, MAX_PLAIN_LENGTH = 6, 600
"""Characters of a plain text that is taken for a spoken line."""
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
        extra=_add_plain_text_hint(stage_turn),
        tools=[PromptTool(name=name, description=STAGE_TOOLS[name].description) for name in manifest.tools],
        output_format=describe_answer_format(state.scenario, manifest, stage_turn.purpose),
    )
    return build_prompt(turn, budget=settings.budget, tokenizer=settings.tokenizer)


def _add_plain_text_hint(stage_turn: StageTurn) -> str:
    """The correction of the last answer. Who speaks may then also do without the format; a judge has to name somebody."""
    if not stage_turn.corrects or stage_turn.purpose == "judge":
        return stage_turn.corrects or ""
    return f"{stage_turn.corrects}\nIf you cannot write JSON, answer with nothing but the words that you say aloud."


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
        spoken_lines=tuple(state.spoken_lines[: call.known_lines]),
        dealt=dict(deal_hidden_role(state.scenario, state.seed)),
    )


def find_answer_error(state: RunState, call: StageModelCall, data: Mapping[str, Any]) -> str | None:
    """Why an answer cannot be used, worded for the model; `None` if it can."""
    if _is_pass(data):
        return None
    if call.purpose == "judge" and (error := verdicts.find_verdict_error(state.scenario, data)):
        return error
    may_emit = state.scenario.find_agent(call.agent).may_emit
    kind = data.get("kind") or may_emit[0]
    if call.purpose == "speak" and kind not in may_emit:
        return f"may not emit {str(kind)[:100]}; it may emit {', '.join(may_emit)}"
    return None if _clean_text(data.get("text")) else "said nothing: `text` is missing or no text"


def read_plain_answer(state: RunState, call: StageModelCall, text: str) -> dict[str, Any] | None:
    """The answer of a model that wrote plain text instead of an object, even when asked again.

    A judge's text counts as a verdict for the only candidate that it names; `None` if the text is not a usable line.
    """
    words = " ".join(text.split())
    if len(words) < MIN_PLAIN_LENGTH or "{" in words or "}" in words:
        return None
    spoken = words[:MAX_PLAIN_LENGTH]
    if call.purpose != "judge":
        return {"kind": _spoken_kinds(state.scenario.find_agent(call.agent))[0], "text": spoken}
    names = [
        name for name in {*state.scenario.candidates, *accusable_agents(state.scenario)} if re.search(rf"\b{re.escape(name)}\b", words)
    ]
    return {"text": spoken} | ({"winner": names[0], "accused": names[0]} if len(names) == 1 else {})


def build_answer_events(state: RunState, call: StageModelCall, data: Mapping[str, Any]) -> list[Event]:
    """The events for an answer. If it cannot be used: that it was rejected, and the missed turn. A verdict is kept without its winner."""
    manifest = state.scenario.find_agent(call.agent)
    if _is_pass(data):
        return []
    error = find_answer_error(state, call, data)
    if error is not None and not (call.purpose == "judge" and _clean_text(data.get("text"))):
        return [events.answer_rejected(state, call, error, data), events.turn_missed(state, call, error)]
    if call.purpose == "judge" or data.get("kind") == "judge.verdict":
        return _build_verdict_events(state, call, data)
    if call.purpose == "reflect":
        return _build_speech_events(state, call, "agent.reflected", data, {})
    kind = data.get("kind") or manifest.may_emit[0]
    details = {"mood": _clean_text(data.get("mood"))} | (
        {"thought": _clean_text(data.get("thought"))} if kind in _KINDS_WITH_THOUGHT else {}
    )
    return [*_build_tool_events(state, call, manifest, data.get("use")), *_build_speech_events(state, call, kind, data, details)]


def _is_pass(data: Mapping[str, Any]) -> bool:
    return data.get("kind") == PASS or data.get("pass") is True


def _build_verdict_events(state: RunState, call: StageModelCall, data: Mapping[str, Any]) -> list[Event]:
    verdict = verdicts.build_verdict(state.scenario, deal_hidden_role(state.scenario, state.seed), data)
    return _build_speech_events(state, call, "judge.verdict", data, verdict | {"mood": _clean_text(data.get("mood"))})


def _build_speech_events(
    state: RunState, call: StageModelCall, kind: str, data: Mapping[str, Any], details: Mapping[str, Any]
) -> list[Event]:
    return [events.agent_spoke(state, call, kind, _clean_text(data.get("text")) or "", details)]


def _build_tool_events(state: RunState, call: StageModelCall, manifest: AgentManifest, tool: Any) -> list[Event]:
    if not isinstance(tool, str) or not tool:
        return []
    outcome = use_tool(tool, events.turn_id(state.run, call.turn, call.agent)) if tool in manifest.tools else None
    return events.build_tool_events(state, call, tool, outcome)


def _clean_text(value: Any) -> str | None:
    """The text, stripped and truncated; `None` if there is none."""
    return value.strip()[:MAX_SPEECH_LENGTH] if isinstance(value, str) and value.strip() else None
