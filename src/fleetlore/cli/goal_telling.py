"""What of a goal's events is told while it is pursued, in a line or two each; the rest is on the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fleetlore.cli import goal_lines
from fleetlore.cli.goal_lines import BAD, BOLD, DIM, GOOD, WARN, Line
from fleetlore.cli.terminal import sanitise

if TYPE_CHECKING:
    from fleetlore.events.envelope import Event
    from fleetlore.views.goal_state import GoalState

EVIDENCE_LINES = 2
_ASKS = "bold yellow"


def lines(event: Event, goal: GoalState | None) -> Iterator[Line]:
    """The lines that an event is worth; none for most."""
    tell = _TOLD.get(event.kind)
    if tell is not None:
        yield from tell(event, goal)


def _started(event: Event, goal: GoalState | None) -> Iterator[Line]:
    yield [(sanitise(event.text or ""), BOLD), (f"  goal {event.goal}", DIM)]


def _attempt_started(event: Event, goal: GoalState | None) -> Iterator[Line]:
    is_summary = goal is not None and goal.attempt is not None and goal.attempt.is_summary
    yield [
        (f"turn {event.data.get('turn_index')}", BOLD),
        (" makes a summary, so that its context is smaller" if is_summary else " begins", DIM),
    ]


def _attempt_completed(event: Event, goal: GoalState | None) -> Iterator[Line]:
    result = _object(event.data.get("result"))
    kind = str(_object(result.get("outcome")).get("kind"))
    style = {"done": GOOD, "escalate": _ASKS, "budget_exhausted": BAD}.get(kind, "")
    if goal is not None and goal.put_back:
        yield [("  put back  ", WARN), (", ".join(map(sanitise, goal.put_back)), ""), ("  which the agent had changed", DIM)]
    turn, words = result.get("turn_index"), goal_lines.in_a_line(str(result.get("final_text") or ""))
    yield [(f"turn {turn}: ", BOLD), (goal_lines.OUTCOMES.get(kind, sanitise(kind)), style), (f"  {words}" if words else "", "italic")]


def _acceptance(event: Event, goal: GoalState | None) -> Iterator[Line]:
    verdict = _object(event.data.get("verdict"))
    failures = [_object(each) for each in verdict.get("failures") or ()]
    for failure in failures:
        yield [("  ✗ ", BAD), (sanitise(str(failure.get("criterion_label"))), ""), (f"  {sanitise(str(failure.get('message')))}", BAD)]
        yield from _evidence(str(failure.get("evidence") or ""))
    if verdict.get("met") is True:
        many = len(goal.criteria) if goal is not None else 0
        yield [("  ✓ ", GOOD), ("all criteria are met" if many else "there are no criteria; its word is taken for it", "")]


def _evidence(text: str) -> Iterator[Line]:
    """The last words of a check that failed: mostly these say why."""
    said = [line for line in text.splitlines() if line.strip(" -") not in ("", "stderr")][-EVIDENCE_LINES:]
    yield from ([("    | ", DIM), (goal_lines.in_a_line(line), DIM)] for line in said)


def _asked(event: Event, goal: GoalState | None) -> Iterator[Line]:
    asked = goal_lines.question(event.id or "", str(event.data.get("tool")), event.data.get("input"))
    yield from ([("  ", ""), *line] for line in asked)


def _decided(event: Event, goal: GoalState | None) -> Iterator[Line]:
    decision = _object(event.data.get("decision"))
    if _object(decision.get("choice")).get("kind") == "deny":
        yield [("  denied  ", BAD), (sanitise(str(decision.get("tool"))), ""), (f"  {sanitise(str(decision.get('rationale')))}", DIM)]


def _waiting(event: Event, goal: GoalState | None) -> Iterator[Line]:
    until = f" until {goal.wake.astimezone():%H:%M}" if goal is not None and goal.wake is not None else ""
    yield [(f"  waits{until}  ", "cyan"), (sanitise(str(event.data.get("why"))), "")]


def _replayed(event: Event, goal: GoalState | None) -> Iterator[Line]:
    words = {
        "fresh_session_retry": "tries it again in a new session",
        "next_turn": "goes on with the next turn",
        "compact_and_retry": "makes its context smaller, and tries again",
        "escalate": "cannot go on",
    }
    kind = str(_object(event.data.get("decision")).get("kind"))
    yield [("  trouble  ", WARN), (sanitise(str(event.data.get("error_message"))), ""), (f"  {words.get(kind, sanitise(kind))}", DIM)]


def _remembered(event: Event, goal: GoalState | None) -> Iterator[Line]:
    saved = event.data.get("memories_saved")
    if saved:
        yield [(f"  wrote down {saved} thing{'' if saved == 1 else 's'} worth keeping", DIM)]


def _controlled(event: Event, goal: GoalState | None) -> Iterator[Line]:
    action, who = sanitise(str(event.data.get("action"))), sanitise(event.actor or "somebody")
    yield [(f"  {who}: ", BOLD), (action, ""), (f"  {sanitise(event.text)}" if event.text else "", "italic")]


def _completed(event: Event, goal: GoalState | None) -> Iterator[Line]:
    outcome = _object(_object(event.data.get("outcome")).get("outcome"))
    kind = str(outcome.get("kind"))
    style = {"done": GOOD, "cancelled": DIM, "escalate": _ASKS}.get(kind, BAD)
    why = sanitise(str(outcome.get("reason") or outcome.get("axis") or "")).replace("_", " ")
    spent = "" if goal is None or event.at is None else f"  {goal_lines.spent_words(goal, event.at)}"
    yield [
        (goal_lines.OUTCOMES.get(kind, sanitise(kind)), f"bold {style}" if "bold" not in style else style),
        (f": {why}" if why else "", ""),
        (spent, DIM),
    ]


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


_TOLD: Mapping[str, Callable[[Event, GoalState | None], Iterator[Line]]] = {
    "driver.goal_started": _started,
    "driver.attempt_started": _attempt_started,
    "driver.attempt_completed": _attempt_completed,
    "driver.acceptance": _acceptance,
    "driver.decision": _decided,
    "driver.replay_decision": _replayed,
    "driver.extract_memories_completed": _remembered,
    "driver.goal_completed": _completed,
    "goal.permission_asked": _asked,
    "goal.waiting": _waiting,
    "control.requested": _controlled,
}
