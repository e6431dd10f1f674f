"""Validates the verdicts of judges and decides the winner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fleetlore.events.envelope import Event
from fleetlore.stage.scenario import StageScenario

MAX_SCORE = 10.0


def find_verdict_error(scenario: StageScenario, data: Mapping[str, Any]) -> str | None:
    """What is wrong with the name in a verdict, worded for the judge; `None` if it is valid."""
    match scenario.competition.kind:
        case "none":
            return None
        case "hidden":
            return _describe_wrong_name("accused", data.get("accused"), accusable_agents(scenario))
    return _describe_wrong_name("winner", data.get("winner"), scenario.candidates)


def accusable_agents(scenario: StageScenario) -> tuple[str, ...]:
    """The agents that a verdict may accuse."""
    return scenario.competition.deal.among if scenario.competition.deal else ()


def _describe_wrong_name(field: str, name: Any, names: Sequence[str]) -> str | None:
    return None if name in names else f"{field} must be exactly one of: {', '.join(names)}; you said {str(name)[:80]!r}"


def build_verdict(scenario: StageScenario, dealt: Mapping[str, str], data: Mapping[str, Any]) -> dict[str, Any]:
    """The data of a `judge.verdict` event: a valid name, cleaned scores, and the truth about a hidden role."""
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


def parse_scores(scenario: StageScenario, value: Any) -> dict[str, float]:
    """Scores from 0 to 10 for the candidates; invalid entries are dropped."""
    if not isinstance(value, dict):
        return {}
    scores = {name: score for name, score in value.items() if name in scenario.candidates}
    return {name: round(min(MAX_SCORE, max(0.0, score)), 1) for name, score in scores.items() if _is_score(score)}


def _is_score(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def list_hidden_roles(dealt: Mapping[str, str]) -> list[dict[str, str]]:
    """Who had which hidden role."""
    return [{"agent": name, "role": role} for name, role in dealt.items()]


def decide_winner(scenario: StageScenario, verdicts: Sequence[Event]) -> dict[str, Any]:
    """The winner named by most verdicts; empty if there is a tie or none."""
    votes = Counter(name for verdict in verdicts if isinstance(name := verdict.data.get("winner"), str))
    best = votes.most_common(2)
    if not best or (len(best) > 1 and best[0][1] == best[1][1]):
        return {}
    winner = best[0][0]
    return {"winner": winner, "winner_kind": "team" if winner in scenario.competition.teams else "agent"}
