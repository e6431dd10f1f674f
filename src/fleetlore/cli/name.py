"""`lore name`: what an agent is called where people read of it. docs/costs.md tells the names that nobody set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.cli import arguments, opening, terminal
from fleetlore.cli.emit import user_name
from fleetlore.errors import Invalid
from fleetlore.events.envelope import Event
from fleetlore.views import names as view

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable

    from fleetlore.views.names import Names

SUMMARY = "give an agent a name that people know it by"

MOST_CANDIDATES = 8

_EXAMPLES = (
    ('lore name claude-code/7f7a50ca "release manager"', "from now on it is shown so, in all that was and all that comes"),
    ('lore name claude-code/7f "release manager"', "the beginning of its name will do, if no other begins so"),
    ('lore name "release manager" ""', "take the name away again"),
)
_NOTES = """\
AGENT is its name in the log, the beginning of that, or the name under which it is shown; `lore costs --by agent` shows both.
"""


def configure(parser: ArgumentParser) -> None:
    """Whom, and what."""
    parser.add_argument("agent", metavar="AGENT", help="which agent")
    parser.add_argument("name", metavar="NAME", help='what to call it; "" takes the name away again')
    arguments.teach(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Record the name, and say under what the agent is shown now."""
    from fleetlore.cli.folding import fold

    with opening.open_existing_log(args) as log:
        names = fold(log, view, "names")
        agent = find(names, args.agent)
        log.append([Event(kind="agent.named", actor=user_name(), agent=agent, data={"name": args.name.strip()})])
        shown = view.shown(fold(log, view, "names"), agent)
    terminal.out(terminal.sanitise(f"{agent} is shown as {shown}" if shown != agent else f"{agent} is shown by its own name"))
    return 0


def find(names: Names, text: str) -> str:
    """The agent that is meant: by its name in the log, by the name that it is shown under, or by how its name begins."""
    if text in names.agents:
        return text
    shown = view.all_shown(names)
    candidates = [agent for agent, name in shown.items() if name == text]
    candidates = candidates or sorted(agent for agent in names.agents if text and agent.startswith(text))
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise Invalid(f"no agent is called {text!r}, and none begins so; `lore status` lists those that are there")
    raise Invalid(f"several agents begin with {text!r}; say which: {_listed(candidates, shown)}")


def _listed(agents: Iterable[str], shown: dict[str, str]) -> str:
    told = [agent if shown[agent] == agent else f"{agent} ({shown[agent]})" for agent in agents]
    more = f" and {len(told) - MOST_CANDIDATES} more" if len(told) > MOST_CANDIDATES else ""
    return ", ".join(told[:MOST_CANDIDATES]) + more
