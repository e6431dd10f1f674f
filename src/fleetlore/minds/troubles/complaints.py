"""What agents and endpoints complain of, and what the driver does about it: one table.

Only the words of errors are read, never an agent's own. Wordings come before HTTP statuses, and both before the way in which the turn
ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from fleetlore.minds.harness import Ended, How
from fleetlore.minds.troubles.resets import reset_in
from fleetlore.minds.troubles.wordings import COMPLAINTS as COMPLAINTS
from fleetlore.minds.troubles.wordings import Complaint as Complaint
from fleetlore.minds.troubles.wordings import by_status, by_words

Action: TypeAlias = Literal["compact", "fresh", "wait", "retry", "escalate", "next"]
"""`compact`: make the context smaller, and try again. `fresh`: the same turn in a new session, the workspace as it was before it.
`wait`: until the stated moment, else with pauses that grow. `retry`: the same again, after a pause. `escalate`: a person is needed.
`next`: go on with the next turn, which is told of it."""


class Diagnosis(Struct, frozen=True, kw_only=True):
    """What was wrong, until when, and what a person can do."""

    complaint: Complaint
    until: datetime | None = None
    """In UTC: when to go on, where the agent or its endpoint says so."""
    advice: str = ""


class Remedy(Struct, frozen=True, kw_only=True):
    """What the driver does. Pauses are in seconds, the first is doubled up to the longest; a moment that was named counts more."""

    action: Action
    counts: bool
    """Whether the attempt counts as a turn."""
    first_pause: float = 0.0
    longest_pause: float = 0.0
    meaning: str
    advice: str = ""


REMEDIES: Mapping[Complaint, Remedy] = {
    "overflow": Remedy(
        action="compact",
        counts=False,
        meaning="the context is too full for the model",
        advice="the context is made smaller, and the turn tried again",
    ),
    "session_lost": Remedy(
        action="fresh",
        counts=False,
        first_pause=1.0,
        longest_pause=60.0,
        meaning="the session is gone or can no longer be taken up",
        advice="the turn is tried again in a new session",
    ),
    "rate_limit": Remedy(
        action="wait",
        counts=False,
        first_pause=10.0,
        longest_pause=600.0,
        meaning="too many requests or tokens a minute",
        advice="it goes on by itself; fewer goals at once would help",
    ),
    "overloaded": Remedy(
        action="wait",
        counts=False,
        first_pause=10.0,
        longest_pause=600.0,
        meaning="the endpoint has more to do than it can, or is in trouble",
        advice="it goes on by itself once the endpoint is well again",
    ),
    "usage_limit": Remedy(
        action="wait",
        counts=False,
        first_pause=300.0,
        longest_pause=3600.0,
        meaning="a plan's allowance is used up for now",
        advice="it goes on when the limit is reset; another plan or a key would go on at once",
    ),
    "network": Remedy(
        action="retry",
        counts=False,
        first_pause=2.0,
        longest_pause=300.0,
        meaning="the connection failed",
        advice="see to the network, the proxy and the address, should it last",
    ),
    "auth": Remedy(
        action="escalate",
        counts=False,
        meaning="the key or the login is not accepted",
        advice="log in again (`claude` and `/login`, `codex login`), or see to the key in its variable; then `lore goal resume`",
    ),
    "credit": Remedy(
        action="escalate",
        counts=False,
        meaning="there is no credit left, or none for this",
        advice="add credit or raise the spending limit where the account is kept, then `lore goal resume`",
    ),
    "missing": Remedy(
        action="escalate",
        counts=False,
        meaning="the program is missing, or cannot be run",
        advice="install it, or name it with `command` in the goal, then `lore goal resume`",
    ),
    "max_turns": Remedy(
        action="next", counts=True, meaning="the agent reached its own limit of steps", advice="the next turn goes on from there"
    ),
    "agent_budget": Remedy(
        action="next",
        counts=True,
        meaning="the agent stopped at the budget that it was given",
        advice="raise the budget with `lore goal raise`, should the goal end by it",
    ),
    "interrupted": Remedy(
        action="retry",
        counts=False,
        first_pause=1.0,
        longest_pause=60.0,
        meaning="the turn was broken off from outside",
        advice="the turn is tried again, unless the goal was cancelled",
    ),
    "timed_out": Remedy(
        action="next", counts=True, meaning="the turn lasted too long", advice="raise `turn_timeout` in the goal, should it need longer"
    ),
    "silent": Remedy(
        action="next",
        counts=True,
        first_pause=1.0,
        longest_pause=60.0,
        meaning="nothing came from the agent for too long",
        advice="raise `idle_timeout` in the goal, should it need longer",
    ),
    "no_result": Remedy(
        action="next",
        counts=True,
        first_pause=2.0,
        longest_pause=120.0,
        meaning="the agent ended without saying how",
        advice="run the agent's program by hand in the workspace to see why, should it go on",
    ),
    "unknown": Remedy(
        action="next",
        counts=True,
        first_pause=2.0,
        longest_pause=120.0,
        meaning="an error that is not known",
        advice="read the error; the next turn is told of it",
    ),
}

_BY_HOW: Mapping[How, Complaint] = {
    "stopped": "interrupted",
    "over_budget": "agent_budget",
    "timed_out": "timed_out",
    "silent": "silent",
    "no_result": "no_result",
    "not_started": "missing",
}
_READ = frozenset[How](("failed", "timed_out", "silent", "no_result"))
"""Ends of a turn whose error is read."""
_MOST = 8192
"""Characters that are read of an error's beginning and of its end."""
_WAITED_FOR = frozenset[Complaint](("rate_limit", "overloaded", "usage_limit"))


def classify(ended: Ended, now: datetime) -> Diagnosis:
    """What was wrong with a turn. A time without a zone is one of the zone of `now`, which is where the agent runs."""
    complaint, text = _BY_HOW.get(ended.how, "unknown"), ""
    if ended.how in _READ:
        text = _readable(ended.error)
        complaint = by_words(text) or by_status(ended.status, text) or complaint
    until = reset_in(text, now) if complaint in _WAITED_FOR else None
    return Diagnosis(complaint=complaint, until=until, advice=REMEDIES[complaint].advice)


def remedy(complaint: Complaint) -> Remedy:
    """What the driver does about it."""
    return REMEDIES[complaint]


def _readable(text: str) -> str:
    if len(text) > 2 * _MOST:
        text = f"{text[:_MOST]}\n{text[-_MOST:]}"
    # JSON within JSON, as clients print it, is read like JSON.
    return text.replace("\u2019", "'").replace('\\"', '"').replace("\r", "\n").strip()
