"""Goals on a log, as a driver would have put them there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from fleetlore import clock
from fleetlore.events import driver_types as types
from fleetlore.events.envelope import Event
from fleetlore.events.goal_plan import KEY, Plan
from fleetlore.goal.events import GoalEvents
from fleetlore.log.connect import connect
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.programs.harness import TurnResult
from fleetlore.views import goals
from fleetlore.views.goal_state import GoalState

ONE, TWO = "3f2504e0-4f89-41d3-9a0c-0305e82c3301", "3f25ffff-4f89-41d3-9a0c-0305e82c3302"


class Past:
    """Writes the story of one goal, and knows how it stands."""

    def __init__(self, log: BlockingRecorder, id: str = ONE, *, begun: datetime | None = None, agent: str = "mender") -> None:
        self._log, self.state = log, GoalState(id=id)
        self._now = begun or clock.now() - timedelta(minutes=30)
        self.agent = agent
        self.record = GoalEvents(id, agent=agent, scopes={}, now=self._clock, new_id=clock.uuid7)

    def _clock(self) -> datetime:
        self._now += timedelta(seconds=1)
        return self._now

    def add(self, *events: Event) -> None:
        self._log.append(events)
        for event in events:
            goals.apply_to_goal(self.state, event)

    def begin(self, description: str = "Make the tests pass\nand keep them so", **plan: Any) -> None:
        criteria = (types.ShellCommand(command="make test"), types.FileMatches(path="CHANGELOG.md", regex="^## "))
        budget = types.BudgetGuards(max_turns=4, max_wall_time="2h", max_tokens=100_000, max_consecutive_denies=3)
        recorded = Plan(harness="command", agent=self.agent, command=("./agent",), **plan)
        metadata = {KEY: msgspec.to_builtins(recorded)}
        self.add(
            self.record.goal_started(
                types.Goal(
                    id=self.state.id, description=description, acceptance=criteria, budget=budget, workspace="/srv/app", metadata=metadata
                )
            )
        )

    def turn(self, *, failing: tuple[int, ...] = (), words: str = "I fixed the parser", evidence: str = "", tokens: int = 1000) -> None:
        number = self.state.spent.turns + 1
        self.add(self.record.attempt_started(self.state, number))
        attempt = self.state.attempt
        assert attempt is not None
        ended = TurnResult(how="finished", words=words, tokens=tokens, usd=0.25)
        recorded = self.record.attempt_ended(number, ended, complaint=None, until=None, seconds=5.0, cause=attempt.id)
        self.add(recorded)
        failures = tuple(
            types.Failure(criterion_index=index, criterion_label=self.state.criteria[index].label, message="exit 1", evidence=evidence)
            for index in failing
        )
        verdict = types.Verdict(met=not failing, failures=failures, evaluated_at=_stamp(self._now), elapsed_ms=5)
        outcome: types.AttemptOutcome = types.NeedsRetry(failures=failures) if failing else types.Done()
        self.add(
            self.record.acceptance_checked(verdict, cause=recorded.id),
            self.record.attempt_completed(self.state, outcome, verdict=verdict, words=words, cause=recorded.id),
        )

    def end(self, outcome: types.AttemptOutcome) -> None:
        self.add(*self.record.goal_finished(self.state, outcome, self.state.words))


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def log_at(url: str) -> BlockingRecorder:
    """A log, to be used in a `with`."""
    return connect(url).blocking()
