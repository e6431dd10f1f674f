"""`lore graph test`: runs scenarios one by one, each in its own session on a log in memory."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from fleetlore.cli import terminal
from fleetlore.cli.graph.command import graph_settings_of
from fleetlore.cli.main import FAILED, OK, UsageError
from fleetlore.errors import Invalid
from fleetlore.log.connect import connect

if TYPE_CHECKING:
    from argparse import Namespace

    from fleetlore.graph.scenarios import ExpectationResult


def run_scenarios(args: Namespace) -> int:
    """Run the scenarios; exit code 1 if an expectation fails."""
    if not args.places:
        raise UsageError("which scenarios? Name their files, as in `lore graph test examples/graph/*.md`")
    return asyncio.run(_run_scenarios(args))


async def _run_scenarios(args: Namespace) -> int:
    from fleetlore.graph import scenarios
    from fleetlore.graph.sessions import SessionManager

    parsed = [scenarios.parse_scenario(_read_file(place), place) for place in args.places]
    failed = 0
    async with connect("memory:") as log, SessionManager(log, graph_settings_of(args)) as sessions:
        for scenario in parsed:
            results = await scenarios.run_scenario(scenario, sessions)
            failures = scenarios.select_failures(results)
            failed += len(failures)
            if args.json:
                shown = [scenarios.as_json(result) for result in results]
                terminal.out_value({"file": scenario.source, "title": scenario.title, "ok": not failures, "findings": shown})
                continue
            _print_result(scenario.source, scenario.title, results, failures)
    return FAILED if failed else OK


def _print_result(source: str, title: str, results: list[ExpectationResult], failures: list[ExpectationResult]) -> None:
    verdict = f"{len(results)} hold" if not failures else f"{len(failures)} of {len(results)} do not hold"
    terminal.out(terminal.sanitise(f"{source}: {title}: {verdict}"))
    for result in failures:
        terminal.out(terminal.sanitise(f"  {source}:{result.line}: {result.step}: {result.wanted}: {result.wrong}"))


def _read_file(place: str) -> str:
    try:
        return Path(place).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{place}: cannot be read ({error}); see that it is there, and that you may read it") from error
