"""`lore name`: set the display name of an agent. docs/costs.md describes the default names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetlore.cli import arguments, open_log, terminal
from fleetlore.cli.emit import find_user_name
from fleetlore.errors import UnknownName
from fleetlore.events.envelope import Event
from fleetlore.views import names as view

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from fleetlore.log.recorder import BlockingRecorder

_EXAMPLES = (
    ('lore name claude-code/7f7a50ca "release manager"', "from now on it is shown so, in all that was and all that comes"),
    ('lore name claude-code/7f "release manager"', "a unique prefix of its name is enough"),
    ('lore name "release manager" ""', "take the name away again"),
)
_NOTES = """\
AGENT is the name in the log, a unique prefix of it, or the display name; `lore costs --by agent`
shows both names.
"""


def configure(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("agent", metavar="AGENT", help="which agent")
    parser.add_argument("name", metavar="NAME", help='what to call it; "" takes the name away again')
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Store the name and print how the agent is shown now."""
    from fleetlore.cli.fold import fold_log

    with open_log.open_existing_log(args) as log:
        agent = find_agent(log, args.agent)
        log.append([Event(kind="agent.named", actor=find_user_name(), agent=agent, data={"name": args.name.strip()})])
        shown = view.display_name(fold_log(log, view, "names"), agent)
    terminal.print_line(terminal.sanitise_text(f"{agent} is shown as {shown}" if shown != agent else f"{agent} is shown by its own name"))
    return 0


def find_agent(log: BlockingRecorder, text: str) -> str:
    """The agent with this logged name, display name or unique prefix; an error with suggestions if there is none."""
    from fleetlore.cli.fold import fold_log
    from fleetlore.cli.scopes import view_opener
    from fleetlore.events.names import is_name
    from fleetlore.projections.name_lookup import HINTS, ambiguous_name_error, resolve_agent

    if not is_name(text):
        raise UnknownName("agent", text, (), HINTS["agent"])
    try:
        return resolve_agent(log, text, view_opener(log))
    except UnknownName:
        names = fold_log(log, view, "names")
        matches = sorted(agent for agent in names.agents if agent.startswith(text))
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise ambiguous_name_error(names, "agent", text, matches) from None
        raise
