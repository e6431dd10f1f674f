"""How an agent is to answer: the words for its prompt, and the same as a schema for those who can be held to one."""

from __future__ import annotations

from typing import Any

from fleetlore.runtime.stage.judging import accusable
from fleetlore.runtime.stage.scenario import Manifest, Scenario

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
