"""Record the session of your own agent, so that brief, story, costs and pages show it like any other.

python record_agent.py sqlite:team.db
"""

import sys
from typing import Any

from fleetlore import Event, connect


def make_event(kind: str, **data: Any) -> Event:
    """An event of this agent's session."""
    return Event(kind=kind, agent="upgrader", run="upgrade-2026-11-17", actor="ada", data=data)


def record_session(url: str) -> str:
    """Record a request, a command with its result, the answer with its cost, and the end of the turn."""
    events = [
        make_event("prompt.submitted", prompt="Upgrade the HTTP client to version 3"),
        make_event("tool.called", tool="Bash", call_id="1", input={"command": "pytest -q"}),
        make_event("tool.returned", tool="Bash", call_id="1", exit_code=0, output="212 passed"),
        make_event("model.replied", model="claude-sonnet-4-5", input=12_000, output=800, usd=0.05, said="Upgraded; all tests pass."),
        make_event("session.turn_ended"),
    ]
    with connect(url).blocking() as log:
        return log.append(events)[-1]


if __name__ == "__main__":
    print("recorded up to", record_session(sys.argv[1]))
