"""Writes the brief that a rule sends at a scheduled time."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import datetime
from typing import NamedTuple

from fleetlore.events.envelope import Event
from fleetlore.log.recorder import BlockingRecorder
from fleetlore.projections.outcomes import OutcomeQuery, select_scope
from fleetlore.projections.store import open_store
from fleetlore.server.notifications.bodies import Message
from fleetlore.server.notifications.rules import Rule
from fleetlore.server.notifications.schedule import Schedule
from fleetlore.story.brief import Brief
from fleetlore.story.brief_formats import FORMATS
from fleetlore.story.reading import make_period_brief, read_records
from fleetlore.views.outcomes.rules import OutcomeRules

PAGE = "brief"


class BriefPeriod(NamedTuple):
    """What a scheduled brief covers; it is due at the end."""

    since: datetime
    until: datetime

    @property
    def key(self) -> str:
        """The same for the same scheduled time, so that the brief is sent once."""
        return f"brief {self.until.isoformat()}"


def find_period(schedule: Schedule, now: datetime) -> BriefPeriod:
    """The period of the brief that was due last."""
    due = schedule.find_latest(now)
    return BriefPeriod(schedule.find_previous(due), due)


def read_brief(log: BlockingRecorder, rule: Rule, period: BriefPeriod, outcome_rules: OutcomeRules, now: datetime) -> Brief:
    """The brief of a period, of the sessions and tasks in the rule's scope."""
    zone = _read_schedule(rule).zone
    wanted = select_scope(log, rule.scope, OutcomeQuery(period.since, period.until))
    with open_store(log.info()) or nullcontext() as store:
        return make_period_brief(read_records(log, now=now, zone=zone, rules=outcome_rules, wanted=wanted, store=store), zone)


def is_empty(brief: Brief) -> bool:
    """Whether nothing happened: such a brief is not sent."""
    return not (brief.bill.sessions or brief.delivered or brief.went_wrong or brief.check_this or brief.needs_you)


def compose_brief(rule: Rule, id: str, brief: Brief, period: BriefPeriod, *, actor: str, url: str | None) -> Message:
    """The notification with a brief in it."""
    return Message(
        id=id,
        rule=rule.name,
        when="brief",
        text=FORMATS[rule.brief_format](brief).strip("\n"),
        at=period.until,
        event=Event(id=id, at=period.until, kind="notify.brief", actor=actor),
        url=None if url is None else f"{url.rstrip('/')}/{PAGE}",
        brief=brief,
    )


def _read_schedule(rule: Rule) -> Schedule:
    if rule.schedule is None:
        raise AssertionError(f"the rule {rule.name!r} has no schedule")
    return rule.schedule
