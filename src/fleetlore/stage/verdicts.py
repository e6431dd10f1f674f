"""Whether a verdict can stand, and who has won."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fleetlore.events.envelope import Event
from fleetlore.stage.scenario import StageScenario

MAX_SCORE = 10.0


def find_verdict_error(scenario: StageScenario, data: Mapping[str, Any]) -> str | None:
    """What is wrong with the name in a verdict, fit to be told to the judge; `None` if it can stand."""
    match scenario.competition.kind:
        case "none":
            return None
        case "hidden":
            return _describe_wrong_name("accused", data.get("accused"), accusable_agents(scenario))
    return _describe_wrong_name("winner", data.get("winner"), scenario.candidates)


def accusable_agents(scenario: StageScenario) -> tuple[str, ...]:
    """Who may be accused."""
    return scenario.competition.deal.among if scenario.competition.deal else ()


def _describe_wrong_name(field: str, name: Any, names: Sequence[str]) -> str | None:
    return None if name in names else f"{field} must be exactly one of: {', '.join(names)}; you said {str(name)[:80]!r}"


def build_verdict(scenario: StageScenario, dealt: Mapping[str, str], data: Mapping[str, Any]) -> dict[str, Any]:
    """What a verdict says on the log: the name if it can stand, scores made sound, and for a hidden role what was true."""
    verdict: dict[str, Any] = {"scores": parse_scores(scenario, data.get("scores"))}
    if scenario.competition.kind == "none":
        return {}
    if find_verdict_error(scenario, data) is not None:
        return _drop_empty_values(verdict | {"no_contest": True, "reveal": list_hidden_roles(dealt)})
    if scenario.competition.kind == "hidden":
        accused = data["accused"]
        correct = accused in dealt
        winner = None if correct else next(iter(dealt), None)
        return _drop_empty_values(verdict | {"accused": accused, "correct": correct, "winner": winner, "reveal": list_hidden_roles(dealt)})
    return _drop_empty_values(verdict | {"winner": data["winner"]})


def _drop_empty_values(verdict: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in verdict.items() if value not in (None, {}, [])}


def parse_scores(scenario: StageScenario, said: Any) -> dict[str, float]:
    """Marks from 0 to 10 for those who can win; anything else is left out."""
    if not isinstance(said, dict):
        return {}
    marks = {name: mark for name, mark in said.items() if name in scenario.candidates}
    return {name: round(min(MAX_SCORE, max(0.0, mark)), 1) for name, mark in marks.items() if _is_score(mark)}


def _is_score(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def list_hidden_roles(dealt: Mapping[str, str]) -> list[dict[str, str]]:
    """Who bore which hidden role."""
    return [{"agent": name, "role": role} for name, role in dealt.items()]


def decide_winner(scenario: StageScenario, verdicts: Sequence[Event]) -> dict[str, Any]:
    """What several verdicts come to: whom most of them name, and nobody where that is not clear."""
    named = Counter(name for verdict in verdicts if isinstance(name := verdict.data.get("winner"), str))
    best = named.most_common(2)
    if not best or (len(best) > 1 and best[0][1] == best[1][1]):
        return {}
    winner = best[0][0]
    return {"winner": winner, "winner_kind": "team" if winner in scenario.competition.teams else "agent"}
