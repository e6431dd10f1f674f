"""Builds the events of a stage run: a simulation in which a cast of agents, each with a role, takes turns.

Every id is derived from run, turn and agent, so no event is stored twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from fleetlore import clock
from fleetlore.errors import ModelBusy, ModelError
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
"""Error text of a call whose answer was lost with its process."""
MAX_SAMPLE_LENGTH = 2048


def derive_event_id(run: str, *parts: object) -> str:
    """The id of an event, derived from the run and `parts`."""
    return derive_id("fleetlore.stage", "\0".join(map(str, (run, *parts))).encode())


def turn_id(run: str, turn: int, agent: str) -> str:
    """The id of one agent's turn."""
    return derive_event_id(run, turn, agent)


def build_opening_events(scenario: StageScenario, run: str, seed: str, models: Mapping[str, str]) -> list[Event]:
    """The events that start a run, stored in one append. They contain the scenario, so the log is enough to resume."""
    competition = msgspec.to_builtins(scenario.competition)
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
            "cast": {manifest.name: _cast_entry(scenario, manifest.name, models) for manifest in scenario.cast},
            "competition": {"kind": scenario.competition.kind} | ({"teams": competition["teams"]} if "teams" in competition else {}),
            "play": msgspec.to_builtins(scenario),
        },
    )
    text = scenario.opening.format(seed=seed, goal=scenario.goal or "")
    scene = Event(
        id=derive_event_id(run, "scene", 0), kind="world.observed", actor=WORLD, run=run, cause=started.id, text=text, data={"turn": 0}
    )
    return [started, *_build_secret_events(scenario, run, seed), scene]


def _cast_entry(scenario: StageScenario, name: str, models: Mapping[str, str]) -> dict[str, Any]:
    manifest = scenario.find_agent(name)
    entry: dict[str, Any] = {
        "role": manifest.role,
        "persona": manifest.persona,
        "subscribes_to": list(manifest.subscribes_to),
        "may_emit": list(manifest.may_emit),
        "model": models[name],
    }
    team = scenario.find_team(name)
    return entry if team is None else entry | {"team": team}


def _build_secret_events(scenario: StageScenario, run: str, seed: str) -> list[Event]:
    """Private events that tell each agent its part in the hidden role."""
    deal = scenario.competition.deal
    if deal is None:
        return []
    roles = deal_hidden_role(scenario, seed)
    texts = {name: deal.told if name in roles else deal.others for name in deal.among}
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
        for name, text in texts.items()
        if text
    ]


def scene_changed(state: RunState, scene: StageScene) -> Event:
    """The scene at the start of a turn."""
    text = render_scene(state.scenario, scene, state.seed)
    id = derive_event_id(state.run, "scene", scene.turn)
    return Event(id=id, kind="world.observed", actor=WORLD, run=state.run, cause=state.clock_event_id, text=text, data={"turn": scene.turn})


def model_called(
    state: RunState,
    *,
    agent: str,
    turn: int,
    attempt: int,
    purpose: str,
    model_name: str,
    cause: str | None,
    elapsed_ms: int,
    tokens: int | None,
    extra: Mapping[str, Any],
) -> Event:
    """A model is about to be called; stored before the request is sent."""
    provider, _, model = model_name.partition(":")
    id = derive_event_id(state.run, turn, agent, "call", attempt)
    data: dict[str, Any] = {"model": model or provider, "provider": provider, "purpose": purpose, "call_id": id, "attempt": attempt}
    data |= {"prompt_tokens": tokens, "turn": turn, "elapsed_ms": elapsed_ms, **extra}
    return Event(id=id, kind="model.called", agent=agent, run=state.run, cause=cause, visibility="system", data=_drop_none_values(data))


def model_replied(state: RunState, call: StageModelCall, model_name: str, reply: ModelReply, elapsed_ms: int) -> Event:
    """A model answered, with usage and cost. The text is in the event that follows."""
    usage = reply.usage
    data: dict[str, Any] = {
        "model": reply.model or model_name.partition(":")[2],
        "provider": model_name.partition(":")[0],
        "usd": reply.usd,
    }
    data |= {"input": usage.input, "output": usage.output, "cache_read": usage.cache_read or None, "cache_write": usage.cache_write or None}
    data |= {"latency_ms": reply.latency_ms, "stop_reason": reply.finish, "message_id": reply.message_id, "request_id": reply.request_id}
    return _build_call_outcome(state, call, "model.replied", data, elapsed_ms)


def build_model_failed_events(
    state: RunState, call: StageModelCall, model_name: str, error: Exception, elapsed_ms: int, now: clock.Clock
) -> list[Event]:
    """A model gave no usable answer; if the failed answer was paid for, its usage is recorded too."""
    provider, _, model = model_name.partition(":")
    data: dict[str, Any] = {
        "model": model or provider,
        "provider": provider,
        "error": f"{type(error).__name__}: {error}"[:MAX_SAMPLE_LENGTH],
    }
    if isinstance(error, ModelError):
        data["status"] = error.status
        if isinstance(error, ModelBusy) and error.retry_after is not None:
            data["retry_after_ms"] = error.retry_after * 1000
    reply = error.reply if isinstance(error, ModelError) else None
    replied = [model_replied(state, call, model_name, with_price(reply, now), elapsed_ms)] if isinstance(reply, ModelReply) else []
    return [*replied, _build_call_outcome(state, call, "model.failed", data, elapsed_ms)]


def with_price(reply: ModelReply, now: clock.Clock) -> ModelReply:
    """The reply with its cost; from the price table if the endpoint does not report it."""
    return recorded_model.price_reply(reply, _load_prices(), now)


@cache
def _load_prices() -> Prices:
    return Prices()


def model_call_lost(state: RunState, call: StageModelCall) -> Event:
    """The answer is unknown, because the process that made the call is gone."""
    return _build_call_outcome(state, call, "model.failed", {"error": LOST_ERROR}, None)


def _build_call_outcome(state: RunState, call: StageModelCall, kind: str, data: dict[str, Any], elapsed_ms: int | None) -> Event:
    data |= {"call_id": call.id, "attempt": call.attempt, "turn": call.turn, "elapsed_ms": elapsed_ms}
    if kind == "model.replied":
        del data["attempt"]
    id = derive_event_id(state.run, call.turn, call.agent, kind, call.attempt)
    return Event(id=id, kind=kind, agent=call.agent, run=state.run, cause=call.id, visibility="system", data=_drop_none_values(data))


def agent_spoke(state: RunState, call: StageModelCall, kind: str, text: str, data: Mapping[str, Any]) -> Event:
    """An agent of the cast says, does or thinks something."""
    return Event(
        id=derive_event_id(state.run, call.turn, call.agent, kind),
        kind=kind,
        agent=call.agent,
        run=state.run,
        cause=call.cause,
        text=text,
        visibility="private" if kind == "agent.thought" else "public",
        data=_drop_none_values({"turn": call.turn, **data}),
    )


def answer_rejected(state: RunState, call: StageModelCall, reason: str, answer: object) -> Event:
    """An agent's answer was not accepted, with the reason."""
    sample = msgspec.json.encode(answer, enc_hook=str).decode(errors="replace")
    return Event(
        id=derive_event_id(state.run, call.turn, call.agent, "rejected"),
        kind="log.rejected",
        agent=call.agent,
        run=state.run,
        cause=call.cause,
        text=f"{call.agent}: {reason}",
        visibility="system",
        data={"reason": reason, "source": f"run:{state.run}", "sample": sample[:MAX_SAMPLE_LENGTH], "turn": call.turn},
    )


def turn_missed(state: RunState, call: StageModelCall, reason: str) -> Event:
    """An agent missed its turn; it gets the next one instead."""
    return Event(
        id=derive_event_id(state.run, call.turn, call.agent, "missed"),
        kind="turn.missed",
        agent=call.agent,
        run=state.run,
        cause=call.id,
        text=f"{call.agent} missed turn {call.turn}: {reason}"[:MAX_SAMPLE_LENGTH],
        visibility="system",
        data={"turn": call.turn, "reason": reason[:MAX_SAMPLE_LENGTH]},
    )


def run_waiting(state: RunState, call: StageModelCall, model_name: str, error: Exception) -> Event:
    """The run waits for a model that cannot be reached."""
    reason = f"{type(error).__name__}: {error}"[:MAX_SAMPLE_LENGTH]
    return Event(
        id=derive_event_id(state.run, call.turn, call.agent, "waiting", call.attempt),
        kind="run.waiting",
        agent=call.agent,
        run=state.run,
        cause=call.id,
        text=f"waiting for {model_name}",
        visibility="system",
        data={"turn": call.turn, "reason": reason},
    )


def build_tool_events(state: RunState, call: StageModelCall, tool: str, outcome: str | None) -> list[Event]:
    """An agent used a tool, with the result; if `outcome` is `None`, the tool was denied."""
    id = derive_event_id(state.run, call.turn, call.agent, "tool")
    returned_id = derive_event_id(state.run, call.turn, call.agent, "tool", "outcome")
    common: dict[str, Any] = {"agent": call.agent, "run": state.run}
    if outcome is None:
        data = {"tool": tool[:100], "call_id": id, "turn": call.turn}
        return [Event(id=id, kind="tool.denied", cause=call.cause, data=data, visibility="system", **common)]
    data = {"tool": tool, "call_id": id, "turn": call.turn}
    text = f"{tool}: {outcome}"
    return [
        Event(id=id, kind="tool.called", cause=call.cause, data=data, **common),
        Event(id=returned_id, kind="tool.returned", cause=id, text=text, data=data | {"output": outcome}, **common),
    ]


def user_injected(state: RunState, id: str, text: str, label: str | None) -> Event:
    """A visitor said something."""
    data = _drop_none_values({"turn": state.turn, "label": label})
    return Event(id=id, kind="user.injected", actor=VISITOR, run=state.run, text=text, data=data)


def run_finished(state: RunState, reason: str, outcome: Mapping[str, Any]) -> Event:
    """The run is over. Its id is derived from the run, so it is stored once."""
    text = f"{state.scenario.title}: {_describe_result(state, reason, outcome.get('winner'))}"
    usage = {"turns": state.turn, "tokens": state.usage.tokens, "calls": state.usage.calls, "usd": state.usage.usd}
    return Event(
        id=derive_event_id(state.run, "finished"),
        kind="run.finished",
        actor=CONDUCTOR,
        run=state.run,
        cause=state.verdicts[-1].id if state.verdicts else state.clock_event_id,
        text=text,
        data={"turn": state.turn, "reason": reason} | usage | _drop_none_values({"budget": state.forced_verdict_reason}) | dict(outcome),
    )


def _describe_result(state: RunState, reason: str, winner: Any) -> str:
    if winner:
        return f"{winner} won"
    accused = next((verdict.data.get("accused") for verdict in state.verdicts if verdict.data.get("correct") is True), None)
    return f"{accused} was found out" if accused else _RESULT_TEXTS.get(reason, reason)


_RESULT_TEXTS = {
    "verdict": "nobody won",
    "tick_cap": "the turns were over",
    "budget": "a budget was spent",
    "quiet": "nobody had more to say",
}


def _drop_none_values(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if value is not None}
