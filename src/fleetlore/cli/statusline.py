"""`lore statusline`: one line for the status bar of a coding agent, which calls it with JSON on standard input."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator, Mapping
    from datetime import tzinfo

    from fleetlore.operations.sources import ViewSnapshot, ViewSource
    from fleetlore.settings import Settings

MOST_INPUT = 1024 * 1024
ALERT_SHARE = 0.8
_EXAMPLES = (
    ("lore statusline", "without input: what today cost, and who needs you"),
    ('echo \'{"session_id": "0b5e1111…"}\' | lore statusline', "what the program calls: also its session's cost and context"),
)
_NOTES = """\
In the settings of Claude Code (~/.claude/settings.json):
  {"statusLine": {"type": "command", "command": "lore statusline"}}
Budgets come from [budget] in fleetlore.toml; from 80 % on they are marked with "!".
On any error it prints nothing. Its exit code is always 0.
"""


def configure(parser: ArgumentParser) -> None:
    """The time zone."""
    from fleetlore.cli import arguments

    parser.add_argument("--tz", metavar="ZONE", default="UTC", help="the time zone of days, such as Europe/Berlin (UTC)")
    arguments.add_examples(parser, _EXAMPLES, _NOTES)


def run(args: Namespace) -> int:
    """Print one line; nothing if anything goes wrong, because the program shows what is printed."""
    try:
        line = " · ".join(_list_parts(args, _read_input()))
    except Exception:  # noqa: BLE001  # a status bar must never show our errors
        return 0
    if line:
        from fleetlore.cli import terminal

        terminal.print_line(terminal.sanitise_text(line))
    return 0


def _read_input() -> Mapping[str, Any]:
    import json

    if sys.stdin is None or sys.stdin.isatty():
        return {}
    raw = sys.stdin.buffer.read(MOST_INPUT)
    given = json.loads(raw) if raw.strip() else {}
    return given if isinstance(given, dict) else {}


def _list_parts(args: Namespace, given: Mapping[str, Any]) -> Iterator[str]:
    import os

    from fleetlore.cli import open_log
    from fleetlore.cli.periods import read_zone
    from fleetlore.log.connect import connect
    from fleetlore.operations.context import open_source

    settings = open_log.load_settings_for(args)
    path = open_log.find_file(settings)
    if path is not None and not os.path.exists(path):
        return
    with connect(settings.log.value, town=settings.town.value).blocking() as log, open_source(log, settings) as source:
        session = given.get("session_id")
        if isinstance(session, str) and session:
            yield from _describe_session(source, session)
        with source.snapshot(None, ("costs", "fleet")) as snapshot:
            yield from _describe_costs(snapshot, settings, read_zone(args.tz))
            yield from _count_needing(snapshot)


def _describe_session(source: ViewSource, session: str) -> Iterator[str]:
    from fleetlore.projections.outcomes import OutcomeQuery

    for outcome in source.find_outcomes(OutcomeQuery(runs=frozenset((session,)))):
        if outcome.usd:
            yield f"${outcome.usd:.2f} session"
        if outcome.context_tokens and outcome.context_window:
            yield f"context {outcome.context_tokens / outcome.context_window:.0%}"


def _describe_costs(snapshot: ViewSnapshot, settings: Settings, zone: tzinfo) -> Iterator[str]:
    from fleetlore.operations.costs import measure_budgets, sum_since

    spending, now = snapshot.states["costs"], snapshot.now
    budgets = measure_budgets(spending, settings, now, zone)
    if not any(budget.period == "day" for budget in budgets):
        yield f"${sum_since(spending, 'day', now, zone):.2f} today"
    for budget in budgets:
        mark = "!" if budget.used_usd >= ALERT_SHARE * budget.limit_usd else ""
        yield f"{mark}${budget.used_usd:.2f} of ${budget.limit_usd:g} a {budget.period}"
    for limit in spending.limits.values():
        if limit.resets_at is not None and limit.resets_at > now:
            yield f"{limit.used_percent:.0f} % of {_name_window(limit.window_minutes)}"


def _count_needing(snapshot: ViewSnapshot) -> Iterator[str]:
    from fleetlore.views import fleet

    needing = sum(standing == "needs you" for standing, _ in fleet.sort_by_standing(snapshot.states["fleet"], now=snapshot.now))
    if needing:
        yield f"{needing} need{'s' if needing == 1 else ''} you"


def _name_window(minutes: int) -> str:
    """The length of a limit's window, rounded: programs write 299 minutes for five hours."""
    hours = round(minutes / 60)
    return f"{round(hours / 24)}-day limit" if hours >= 48 else f"{hours}-hour limit"
