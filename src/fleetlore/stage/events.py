"""The events that a run is told with. Every id follows from the run, the turn and the agent, so none of them can be stored twice."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from fleetlore.errors import MindBusy, MindError
from fleetlore.events.envelope import Event
from fleetlore.events.ids import derive_id
from fleetlore.kernel import recorded_model
from fleetlore.models.base import ModelReply
from fleetlore.stage.run_state import RunState, StageModelCall
from fleetlore.stage.scenario import StageScenario, StageScene
from fleetlore.stage.seeded_random import deal_hidden_role, render_scene
from fleetlore.views.prices import Prices

CONDUCTOR = "conductor"
WORLD = "stage"
VISITOR = "visitor"
LOST_ERROR = "lost"
"""The error of an attempt whose answer went with its process."""
MAX_SAMPLE_LENGTH = 2048


def derive_event_id(run: str, *parts: object) -> str:
    """The id of an event of a run."""
    return derive_id("fleetlore.stage", "\0".join(map(str, (run, *parts))).encode())


def turn_id(run: str, turn: int, agent: str) -> str:
    """The id of one agent's turn."""
    return derive_event_id(run, turn, agent)


def build_opening_events(scenario: StageScenario, run: str, seed: str, minds: Mapping[str, str]) -> list[Event]:
    """How a run begins: all of it is stored at once. The whole scenario is told, so that the log alone is enough to go on."""
    contest = msgspec.to_builtins(scenario.competition)
    started = Event(
        id=derive_event_id(run, "started"),
        kind="run.started",
        actor=CONDUCTOR,
        run=run,
        text=scenario.title,
        data={
            "turn": 0,
            "seed": seed,
            "goal": scenario.goal,
            "scenario": scenario.name,
            "cast": {manifest.name: _cast_entry(scenario, manifest.name, minds) for manifest in scenario.cast},
            "competition": {"kind": scenario.competition.kind} | ({"teams": contest["teams"]} if "teams" in contest else {}),
            "play": msgspec.to_builtins(scenario),
        },
    )
    text = scenario.opening.format(seed=seed, goal=scenario.goal or "")
    scene = Event(
        id=derive_event_id(run, "scene", 0), kind="world.observed", actor=WORLD, run=run, cause=started.id, text=text, data={"turn": 0}
    )
    return [started, *_build_secret_events(scenario, run, seed), scene]


def _cast_entry(scenario: StageScenario, name: str, minds: Mapping[str, str]) -> dict[str, Any]:
    manifest = scenario.find_agent(name)
    entry: dict[str, Any] = {
        "role": manifest.role,
        "persona": manifest.persona,
        "subscribes_to": list(manifest.subscribes_to),
        "may_emit": list(manifest.may_emit),
        "model": minds[name],
    }
    team = scenario.find_team(name)
    return entry if team is None else entry | {"team": team}


def _build_secret_events(scenario: StageScenario, run: str, seed: str) -> list[Event]:
    """What each of those among whom a role was dealt is told, for its own eyes."""
    deal = scenario.competition.deal
    if deal is None:
        return []
    roles = deal_hidden_role(scenario, seed)
    told = {name: deal.told if name in roles else deal.others for name in deal.among}
    return [
        Event(
            id=derive_event_id(run, "secret", name),
            kind="agent.thought",
            agent=name,
            run=run,
            text=text,
            visibility="private",
            data={"turn": 0},
        )
        for name, text in told.items()
        if text
    ]


def scene_changed(play: RunState, scene: StageScene) -> Event:
    """The scene as a turn begins."""
    text = render_scene(play.scenario, scene, play.seed)
    id = derive_event_id(play.run, "scene", scene.turn)
    return Event(id=id, kind="world.observed", actor=WORLD, run=play.run, cause=play.clock_event_id, text=text, data={"turn": scene.turn})


def model_called(
    play: RunState,
    *,
    agent: str,
    turn: int,
    attempt: int,
    purpose: str,
    mind: str,
    cause: str | None,
    elapsed_ms: int,
    tokens: int | None,
    more: Mapping[str, Any],
) -> Event:
    """That a mind is about to be asked: stored before it is."""
    provider, _, model = mind.partition(":")
    id = derive_event_id(play.run, turn, agent, "call", attempt)
    data: dict[str, Any] = {"model": model or provider, "provider": provider, "purpose": purpose, "call_id": id, "attempt": attempt}
    data |= {"prompt_tokens": tokens, "turn": turn, "elapsed_ms": elapsed_ms, **more}
    return Event(id=id, kind="model.called", agent=agent, run=play.run, cause=cause, visibility="system", data=_drop_none_values(data))


def model_replied(play: RunState, call: StageModelCall, mind: str, reply: ModelReply, elapsed_ms: int) -> Event:
    """That it answered, and what that took; its words are told by what it said."""
    usage = reply.usage
    data: dict[str, Any] = {"model": reply.model or mind.partition(":")[2], "provider": mind.partition(":")[0], "usd": reply.usd}
    data |= {"input": usage.input, "output": usage.output, "cache_read": usage.cache_read or None, "cache_write": usage.cache_write or None}
    data |= {"latency_ms": reply.latency_ms, "stop_reason": reply.finish, "message_id": reply.message_id, "request_id": reply.request_id}
    return _build_call_outcome(play, call, "model.replied", data, elapsed_ms)


def build_model_failed_events(play: RunState, call: StageModelCall, mind: str, error: Exception, elapsed_ms: int) -> list[Event]:
    """That it gave no answer that could be used; one that was paid for all the same is told, too."""
    provider, _, model = mind.partition(":")
    data: dict[str, Any] = {
        "model": model or provider,
        "provider": provider,
        "error": f"{type(error).__name__}: {error}"[:MAX_SAMPLE_LENGTH],
    }
    if isinstance(error, MindError):
        data["status"] = error.status
        if isinstance(error, MindBusy) and error.retry_after is not None:
            data["retry_after_ms"] = error.retry_after * 1000
    paid = error.reply if isinstance(error, MindError) else None
    answer = [model_replied(play, call, mind, with_price(paid), elapsed_ms)] if isinstance(paid, ModelReply) else []
    return [*answer, _build_call_outcome(play, call, "model.failed", data, elapsed_ms)]


def with_price(reply: ModelReply) -> ModelReply:
    """The reply with its cost, by the table of prices where the endpoint does not say it."""
    return recorded_model.price_reply(reply, _load_prices())


@cache
def _load_prices() -> Prices:
    return Prices()


def model_call_lost(play: RunState, call: StageModelCall) -> Event:
    """That nobody knows what was answered: the process that asked is gone."""
    return _build_call_outcome(play, call, "model.failed", {"error": LOST_ERROR}, None)


def _build_call_outcome(play: RunState, call: StageModelCall, kind: str, data: dict[str, Any], elapsed_ms: int | None) -> Event:
    data |= {"call_id": call.id, "attempt": call.attempt, "turn": call.turn, "elapsed_ms": elapsed_ms}
    if kind == "model.replied":
        del data["attempt"]
    id = derive_event_id(play.run, call.turn, call.agent, kind, call.attempt)
    return Event(id=id, kind=kind, agent=call.agent, run=play.run, cause=call.id, visibility="system", data=_drop_none_values(data))


def agent_spoke(play: RunState, call: StageModelCall, kind: str, text: str, data: Mapping[str, Any]) -> Event:
    """What somebody of the cast says, does or thinks."""
    return Event(
        id=derive_event_id(play.run, call.turn, call.agent, kind),
        kind=kind,
        agent=call.agent,
        run=play.run,
        cause=call.cause,
        text=text,
        visibility="private" if kind == "agent.thought" else "public",
        data=_drop_none_values({"turn": call.turn, **data}),
    )


def answer_rejected(play: RunState, call: StageModelCall, reason: str, said: object) -> Event:
    """That what somebody wanted to say was not taken, and why."""
    sample = msgspec.json.encode(said, enc_hook=str).decode(errors="replace")
    return Event(
        id=derive_event_id(play.run, call.turn, call.agent, "rejected"),
        kind="log.rejected",
        agent=call.agent,
        run=play.run,
        cause=call.cause,
        text=f"{call.agent}: {reason}",
        visibility="system",
        data={"reason": reason, "source": f"run:{play.run}", "sample": sample[:MAX_SAMPLE_LENGTH], "turn": call.turn},
    )


def build_tool_events(play: RunState, call: StageModelCall, tool: str, outcome: str | None) -> list[Event]:
    """That somebody reached for a tool, and what it gave; `None` if it may not have it."""
    id, returned = (
        derive_event_id(play.run, call.turn, call.agent, "tool"),
        derive_event_id(play.run, call.turn, call.agent, "tool", "outcome"),
    )
    common: dict[str, Any] = {"agent": call.agent, "run": play.run}
    if outcome is None:
        data = {"tool": tool[:100], "call_id": id, "turn": call.turn}
        return [Event(id=id, kind="tool.denied", cause=call.cause, data=data, visibility="system", **common)]
    data = {"tool": tool, "call_id": id, "turn": call.turn}
    text = f"{tool}: {outcome}"
    return [
        Event(id=id, kind="tool.called", cause=call.cause, data=data, **common),
        Event(id=returned, kind="tool.returned", cause=id, text=text, data=data | {"output": outcome}, **common),
    ]


def user_injected(play: RunState, id: str, text: str, label: str | None) -> Event:
    """That a visitor broke in."""
    data = _drop_none_values({"turn": play.turn, "label": label})
    return Event(id=id, kind="user.injected", actor=VISITOR, run=play.run, text=text, data=data)


def run_finished(play: RunState, reason: str, outcome: Mapping[str, Any]) -> Event:
    """That the run is over. There is one such event, whoever stores it how often."""
    text = f"{play.scenario.title}: {_describe_result(play, reason, outcome.get('winner'))}"
    spent = {"turns": play.turn, "tokens": play.usage.tokens, "calls": play.usage.calls, "usd": play.usage.usd}
    return Event(
        id=derive_event_id(play.run, "finished"),
        kind="run.finished",
        actor=CONDUCTOR,
        run=play.run,
        cause=play.verdicts[-1].id if play.verdicts else play.clock_event_id,
        text=text,
        data={"turn": play.turn, "reason": reason} | spent | _drop_none_values({"budget": play.forced_verdict_reason}) | dict(outcome),
    )


def _describe_result(play: RunState, reason: str, winner: Any) -> str:
    if winner:
        return f"{winner} won"
    found = next((verdict.data.get("accused") for verdict in play.verdicts if verdict.data.get("correct") is True), None)
    return f"{found} was found out" if found else _RESULT_TEXTS.get(reason, reason)


_RESULT_TEXTS = {
    "verdict": "nobody won",
    "tick_cap": "the turns were over",
    "budget": "a budget was spent",
    "quiet": "nobody had more to say",
}


def _drop_none_values(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if value is not None}
