"""What each event kind says about an agent's status: the rules of docs/status.md as tables. Used by the fleet view."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from fleetlore.events.envelope import Event
from fleetlore.views.event_text import is_shell_prompt

AgentStanding = Literal["needs you", "working", "idle", "silent", "ended"]
AGENT_STANDINGS: tuple[AgentStanding, ...] = ("needs you", "working", "idle", "silent", "ended")
"""All standings, in the order in which they are shown."""

StandingEffect = Literal["needs you", "working", "idle", "ended", "alive", "answered", "nothing"]
"""What an event does: set a status; `alive`: only a sign of life; `answered`: working, if it needed you."""

_KINDS_BY_EFFECT: Mapping[StandingEffect, str] = {
    "needs you": """
        session.waiting goal.waiting approval.requested goal.permission_asked town.mission_help_needed town.conductor_escalation
        driver.escalate driver.budget_exhausted
    """,
    "working": """
        fleet.dispatch fleet.commit fleet.push fleet.pr_open fleet.error fleet.recovery fleet.collab
        town.task_assigned town.mission_work_assigned town.agent_resumed
        driver.goal_started driver.attempt_started driver.attempt_completed driver.acceptance driver.replay_decision
        run.started agent.spoke agent.thought agent.reflected oracle.spoke judge.verdict commentary.posted turn.missed
        agent.launched prompt.submitted tool.called tool.returned tool.failed tool.denied process.started
        audit.mismatch audit.code_without_tool audit.talk_without_action
        model.called model.replied model.failed context.built work.started work.lease_taken goal.checkpointed goal.tool_effect
        goal.attempt_ended
        node.started node.finished node.failed ui.controls ui.action machine.created machine.moved machine.reset machine.destroyed
    """,
    "idle": """
        fleet.pr_merge fleet.abandon fleet.idle
        town.agent_spawned town.agent_interrupted town.task_completed town.task_failed town.task_delegated
        town.mission_work_completed town.mission_work_blocked town.reviewer_handoff town.reviewer_approval
        session.started session.observed session.turn_ended work.cancelled work.lease_lost work.review_rejected
    """,
    "ended": """
        session.ended agent.returned town.agent_stopped town.agent_completed town.agent_failed driver.goal_completed run.finished
    """,
    "alive": """
        fleet.heartbeat fleet.milestone town.agent_state_changed session.compacted process.finished goal.session_bound
        driver.compact_requested driver.compact_completed driver.compact_summary_stored driver.extract_memories_completed
        driver.extract_memories_skipped driver.auto_dream_outcome driver.progress driver.decision
        work.message_sent work.message_acked work.task_created work.item_added work.watch_added world.observed run.waiting
    """,
    "answered": "control.requested approval.closed user.injected",
    "nothing": """
        town.mission_state_changed town.mission_work_promoted town.mission_watch_triggered town.mission_event
        work.updated work.reopened work.watch_snoozed work.archived ui.reported sensor.idle sensor.returned
        goal.reserved goal.spent agent.named agent.identified notify.sent log.gap log.rejected log.trimmed log.forgotten
    """,
}

EFFECT_BY_KIND: Mapping[str, StandingEffect] = {kind: effect for effect, kinds in _KINDS_BY_EFFECT.items() for kind in kinds.split()}
"""Kind → effect on `agent`. Any other kind means working."""

CHILD_EFFECTS: Mapping[str, tuple[StandingEffect, StandingEffect]] = {
    "agent.launched": ("working", "working"),
    "agent.returned": ("working", "ended"),
    "fleet.collab": ("working", "working"),
    "town.agent_spawned": ("alive", "idle"),
    "town.task_delegated": ("idle", "working"),
    "town.reviewer_handoff": ("idle", "working"),
    "work.review_rejected": ("idle", "working"),
}
"""Kind → effects on `agent` and `child`, if it names both."""

PARENT_KINDS = frozenset(("agent.launched", "agent.returned", "town.agent_spawned"))
"""Kinds whose `agent` is the parent of their `child`."""

TASK_CLOSING_KINDS = frozenset(
    (
        "fleet.pr_merge",
        "fleet.abandon",
        "town.task_completed",
        "town.task_failed",
        "town.task_delegated",
        "town.mission_work_completed",
        "town.reviewer_approval",
        "work.cancelled",
        "work.lease_lost",
        "work.review_rejected",
    )
)
"""Kinds after which the agent no longer holds the task they name."""

LEFT_SCOPES_BY_KIND: Mapping[str, tuple[str, ...]] = {
    "driver.goal_completed": ("goal",),
    "run.finished": ("run",),
    "session.ended": ("run",),
    "agent.returned": ("task", "run"),
    "town.agent_stopped": ("task", "run"),
    "town.agent_completed": ("task", "run"),
    "town.agent_failed": ("task", "run"),
}
"""Kind → the scopes that its agent has left."""

_STATES_BY_STANDING: Mapping[AgentStanding, str] = {
    "needs you": "waiting blocked needs_input waiting_for_input",
    "working": "working running starting busy active",
    "idle": "idle paused cold ready sleeping",
    "ended": "stopped draining error failed completed done",
}
EFFECT_BY_STATE: Mapping[str, StandingEffect] = {
    state: effect for effect, states in _STATES_BY_STANDING.items() for state in states.split() if effect != "silent"
}
"""A state as a town names it (in lower case) → its effect."""


BOOKKEEPING_KINDS = frozenset(("context.built", "goal.checkpointed", "goal.attempt_ended", "driver.attempt_started"))
"""Kinds that, without a text, do not say what an agent is doing."""


def has_activity_text(event: Event) -> bool:
    """Whether the event says what its agent is doing. A goal's lease does not: it names the process."""
    if event.kind == "work.lease_taken" and event.goal is not None:
        return False
    if event.kind == "session.observed" or (event.kind == "session.waiting" and event.data.get("why") == "permission_prompt"):
        return False  # the request itself says for what
    return bool(event.text) or event.kind not in BOOKKEEPING_KINDS


def find_standing_effect(event: Event) -> StandingEffect:
    """The effect of an event on its `agent`."""
    decide = EFFECT_DECIDERS.get(event.kind)
    effect = EFFECT_BY_KIND.get(event.kind, "working")
    return effect if decide is None else decide(event, effect)


def _decide_by_new_state(event: Event, effect: StandingEffect) -> StandingEffect:
    return EFFECT_BY_STATE.get((event.new_state or "").lower(), effect)


def _decide_by_helpers(event: Event, effect: StandingEffect) -> StandingEffect:
    return "working" if event.data.get("why") == "helpers" else effect


def _decide_by_wait(event: Event, effect: StandingEffect) -> StandingEffect:
    ends_by_itself = isinstance(event.data.get("until"), str) or event.data.get("why") == "paused"
    return "idle" if ends_by_itself else effect


def _decide_by_cause(event: Event, effect: StandingEffect) -> StandingEffect:
    return effect if event.cause is None else "answered"


def _decide_by_action(event: Event, effect: StandingEffect) -> StandingEffect:
    return "nothing" if event.goal is not None and event.data.get("action") in ("say", "pause", "raise") else effect


def _decide_by_outcome(event: Event, effect: StandingEffect) -> StandingEffect:
    kinds = set(_find_outcome_kinds(event.data))
    if "escalate" in kinds:
        return "needs you"
    return "idle" if "sleep" in kinds else effect


def _decide_by_shell(event: Event, effect: StandingEffect) -> StandingEffect:
    return "alive" if is_shell_prompt(event) else effect


def _find_outcome_kinds(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the `kind` of a driver's decision, from wherever the payload keeps it."""
    for path in (("result", "outcome"), ("outcome", "outcome"), ("decision",)):
        value: Any = data
        for key in (*path, "kind"):
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, str):
            yield value


EFFECT_DECIDERS: Mapping[str, Callable[[Event, StandingEffect], StandingEffect]] = {
    "town.agent_state_changed": _decide_by_new_state,
    "town.agent_spawned": _decide_by_new_state,
    "town.agent_resumed": _decide_by_new_state,
    "goal.waiting": _decide_by_wait,
    "session.waiting": _decide_by_helpers,
    "prompt.submitted": _decide_by_shell,
    "driver.decision": _decide_by_cause,
    "control.requested": _decide_by_action,
    "driver.attempt_completed": _decide_by_outcome,
    "driver.replay_decision": _decide_by_outcome,
    "driver.goal_completed": _decide_by_outcome,
}
"""Kinds for which the event can say more than its kind."""
