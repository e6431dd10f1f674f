"""The demo's goals: one that misses its criterion, is killed, resumed and met; and one whose agent waits for a person's word."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from fleetlore.cli.demo_ground import Ground
    from fleetlore.events.envelope import Event
    from fleetlore.log.recorder import BlockingRecorder

_ENDS = {"done": "done, every criterion is met", "budget_exhausted": "over: its turns are spent", "cancelled": "called off"}


def tide(ground: Ground) -> None:
    """The agent guesses, which the check notices; in the middle of its second turn everything is killed, and it ends well all the same."""
    id = str(uuid4())
    ground.workspace("tide")
    runner = ground.lore("goal", "run", ground.file("tide.toml", id=id))
    ground.until(lambda log: _told(log, id, "driver.attempt_completed"), of=runner)
    ground.tell("goal", "jory says that the tide table is mended; the check says that it is not")
    ground.until(lambda log: _told(log, id, "process.started")[1:], of=runner)
    runner.kill()
    ground.tell("goal", "kill -9 for whoever drives it, in the middle of its second turn")
    ground.rest(2 / ground.speed)
    ground.tell("goal", f"lore goal resume {id[:8]}: it goes on where the log ends")
    resumed = ground.lore("goal", "resume", id)
    ground.tell("goal", f"jory's goal is {_end(ground.until(lambda log: _told(log, id, 'driver.goal_completed'), of=resumed))}")


def notice(ground: Ground) -> None:
    """What everybody would see, the agent does not do unasked."""
    id = str(uuid4())
    ground.workspace("notice")
    runner = ground.lore("goal", "run", ground.file("notice.toml", id=id))
    [question] = ground.until(lambda log: _told(log, id, "goal.permission_asked"), of=runner)
    asked = (question.id or "")[:13]
    ground.tell("goal", f"kaya needs you: may she put the table on the notice board? lore decide {asked} allow")
    ground.tell("goal", f"kaya's goal is {_end(ground.until(lambda log: _told(log, id, 'driver.goal_completed'), of=runner))}")


def _told(log: BlockingRecorder, id: str, kind: str) -> list[Event]:
    return list(log.read(f"goal:{id}", kinds=[kind]))


def _end(told: list[Event]) -> str:
    outcome: str = told[-1].data["outcome"]["outcome"]["kind"]
    return _ENDS.get(outcome, outcome)
